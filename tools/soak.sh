#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The long search: a third of the time goes to the fuzzers, one to the tests under ever new seeds,
# one to faults on ranks of training runs, and half as much to networks that fall into parts; 200
# runs are ended at random moments. A failure prints the seed and the command that repeats it, and
# ends the run.
# usage: tools/soak.sh MINUTES
set -u
cd "$(dirname "$0")/.." || exit 1
minutes=${1:-60}
jobs=$(nproc)
third=$((minutes * 20))

cmake --preset fuzz >/dev/null || exit 1
cmake --build build/fuzz -j "$jobs" --target fuzzers -- --quiet || exit 1
tests/fuzz/smoke.sh build/fuzz "$third" || exit 1

cmake --preset asan >/dev/null || exit 1
cmake --build build/asan -j "$jobs" -- --quiet || exit 1
seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
if ! SHOAL_TEST_SEED=$seed SHOAL_SOAK_RUNS=100000 build/asan/tests/sim.lossy_faults_test; then
    echo "soak: FAILED: SHOAL_TEST_SEED=$seed SHOAL_SOAK_RUNS=100000 sim.lossy_faults_test"
    exit 1
fi
if ! tools/member_faults.py --none --lives 1000000 --seed "$seed" || ! tools/member_faults.py; then
    echo "soak: FAILED: two halves, or a planted fault that nobody finds; seed $seed"
    exit 1
fi
if ! tools/member_faults.py --room ops --none --lives 1000000 --seed "$seed" ||
    ! tools/member_faults.py --room ops; then
    echo "soak: FAILED: a rule of operations, or a planted fault that nobody finds; seed $seed"
    exit 1
fi
end=$((SECONDS + third))
rounds=0
while [ "$SECONDS" -lt "$end" ]; do
    seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
    if ! SHOAL_TEST_SEED=$seed SHOAL_SOAK_RUNS=30000 \
        ctest --test-dir build/asan -j "$jobs" --output-on-failure \
        -L 'unit|conformance|sim|proc' >build/asan/soak.log 2>&1; then
        tail -n 60 build/asan/soak.log
        echo "soak: FAILED with seed $seed after $rounds good rounds; repeat with:"
        echo "  SHOAL_TEST_SEED=$seed ctest --test-dir build/asan --rerun-failed"
        exit 1
    fi
    rounds=$((rounds + 1))
done
seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
cmake --preset release >/dev/null || exit 1
cmake --build build/release -j "$jobs" -- --quiet || exit 1
if ! SHOAL_TEST_SEED=$seed SHOAL_CRASH_MOMENTS=200 SHOAL_BUILD=build/release \
    python3 tests/cli/crash_test.py; then
    echo "soak: FAILED: SHOAL_TEST_SEED=$seed SHOAL_CRASH_MOMENTS=200 crash_test.py"
    exit 1
fi
for protocol in "" any; do
    tools/soak_ranks.py $((minutes / 6)) $protocol
    case $? in
        0 | 77) ;; # 77: no lab on this machine, it says so
        *) exit 1 ;;
    esac
done
tools/parts.py --minutes $((minutes / 6)) --jobs "$jobs"
case $? in
    0 | 77) ;;
    *) exit 1 ;;
esac
echo "soak: ok, $rounds rounds of tests under new seeds in $((third / 60)) minutes"
