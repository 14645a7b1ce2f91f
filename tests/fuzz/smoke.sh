#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Run every libFuzzer target of a build for an equal share of a total time. New inputs go to a
# scratch corpus below the build folder; a crash is kept there and the command that repeats it is
# printed.
# usage: tests/fuzz/smoke.sh build/fuzz SECONDS
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:?usage: tests/fuzz/smoke.sh BUILD SECONDS}
seconds=${2:?usage: tests/fuzz/smoke.sh BUILD SECONDS}
shopt -s nullglob
targets=("$build"/tests/fuzz.*)
if [ ${#targets[@]} -eq 0 ]; then
    echo "smoke.sh: no fuzz targets in $build (cmake --preset fuzz; cmake --build $build)" >&2
    exit 1
fi
jobs=$(nproc)
share=$((seconds * jobs / ${#targets[@]}))
[ "$share" -ge 2 ] || share=2
mkdir -p "$build/crashes"

one() {
    local target=$1 name=${1##*/fuzz.} log
    log=$build/fuzz-$name.log
    mkdir -p "$build/corpus/$name"
    "$target" -max_total_time="$share" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$build/crashes/$name-" "$build/corpus/$name" "tests/fuzz/corpus/$name" \
        >"$log" 2>&1
    local status=$? runs crash
    if [ $status -eq 0 ]; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        echo "fuzz $name: $runs runs in $share s"
    else
        grep -E '^(==|SUMMARY|Test unit)|ERROR|#[0-9] ' "$log" | head -n 30
        crash=$(ls -t "$build/crashes/$name-"* 2>/dev/null | head -n 1)
        echo "fuzz $name: FAILED; repeat with: $target $crash"
    fi
    return $status
}
export -f one
export build share
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'one {}'
