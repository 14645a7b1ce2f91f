#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A wheel that older systems take: built by this machine's compiler against glibc 2.31 and the
# libraries of Debian 11, which are unpacked into build/debian11-root and go into the wheel.
#
#     tools/manylinux.sh [FOLDER for the wheel; default: build/packages]
set -u
cd "$(dirname "$0")/.." || exit 1
. tools/root.sh
out=${1:-build/packages}
root=$PWD/build/debian11-root
who=manylinux

tools/deps.sh packages-arm64.txt || skip "packages of packages-arm64.txt are missing"
libraries=$(sed 's/#.*//' packages.txt |
    grep -oE '^(lib[a-z0-9.-]+-dev|zlib1g-dev|uthash-dev)' |
    grep -vE '^lib(clang-rt|cmocka|nlopt|espeak-ng|bpf)-dev$' | paste -sd,)
make_root amd64 bullseye "$root" "libc6-dev,libgcc-s1,$libraries" \
    "$(cat "$0" tools/root.sh packages.txt | sha256sum)" "$who"
cmake --preset manylinux >build/manylinux.log || { tail -n 20 build/manylinux.log && exit 1; }
cmake --build build/manylinux -j "${JOBS:-$(nproc)}" --target shoal shoal_command \
    ${CI:+-- --quiet} || exit 1
wheel=$(tools/make_wheel.py --build build/manylinux --root "$root" --out "$out") || exit 1
tools/check_wheel.py "$wheel" || exit 1
# with the folder's glibc, as it would run there
try=$(mktemp -d)
trap 'rm -rf "$try"' EXIT
python3 -m zipfile -e "$wheel" "$try" && chmod +x "$try/shoal/_lib/shoal" &&
    "$root"/lib/x86_64-linux-gnu/ld-2.31.so --library-path "$root/lib/x86_64-linux-gnu" \
        "$try/shoal/_lib/shoal" --version && echo "$wheel"
