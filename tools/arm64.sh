#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Build for 64-bit ARM and run unit, conformance and mixed tests under qemu: `make check-arm64`.
#
#     tools/arm64.sh [root | build | check [REGEX]]
#
# root: a folder of this Debian's arm64 libraries, build/arm64-root, which compiler and emulator
# look into; nothing of it is installed here. It is kept, and made anew when this file changes.
# Without a network or the tools the check is skipped, exit status 77.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$PWD/build/arm64-root
what=${1:-check}
pattern=${2:-}
jobs=${JOBS:-$(nproc)}

skip() {
    echo "check-arm64: $1"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
}

# Of packages.txt what programs are linked with, and what the compiler links with.
libraries() {
    echo libc6-dev
    echo "libgcc-$(aarch64-linux-gnu-gcc -dumpversion)-dev"
    sed 's/#.*//' packages.txt | grep -E '^(lib[a-z0-9.-]+-dev|zlib1g-dev|uthash-dev) *$' |
        grep -v '^libclang-rt-dev'
}

# Links that point to / would leave the folder, and those that a package's script makes (Debian's
# alternatives) are missing: nothing has run.
mend_links() {
    local link target library
    find "$root" -lname '/*' -print0 | while IFS= read -r -d '' link; do
        target=$(readlink "$link")
        ln -sfn "$(realpath -sm --relative-to="$(dirname "$link")" "$root$target")" "$link"
    done
    library=$root/usr/lib/aarch64-linux-gnu
    for link in "$library"/openblas-pthread/*.so*; do
        ln -sf "openblas-pthread/${link##*/}" "$library/${link##*/}"
    done
    ln -sf ../openblas-pthread/pkgconfig/openblas.pc "$library/pkgconfig/openblas.pc"
}

make_root() {
    local release mark
    tools/deps.sh packages-arm64.txt || skip "packages of packages-arm64.txt are missing"
    release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    mark=$(cat "$0" packages.txt | sha256sum)
    [ "$(cat "$root/.made" 2>/dev/null)" = "$mark" ] && return
    echo "check-arm64: unpacking arm64 libraries of Debian $release"
    rm -rf "$root"
    mkdir -p build
    if ! mmdebstrap --variant=extract --architectures=arm64 --quiet \
        --include="$(libraries | paste -sd,)" "$release" "$root" >build/arm64-root.log 2>&1; then
        tail -n 5 build/arm64-root.log
        rm -rf "$root"
        grep -qE 'Temporary failure|Could not (resolve|connect)|Failed to fetch' \
            build/arm64-root.log && skip "no network to Debian's packages"
        exit 1
    fi
    mend_links
    echo "$mark" >"$root/.made"
}

# The tests to run and build: their names in ctest, some twice (with SHOAL_KERNEL=ref).
chosen=(-L '^(unit|conformance)$' ${pattern:+-R "$pattern"})

build() {
    local targets
    cmake --preset arm64 >build/arm64.log || { tail -n 20 build/arm64.log && exit 1; }
    mapfile -t targets < <(ctest --test-dir build/arm64 -N "${chosen[@]}" |
        sed -n 's/^ *Test *#[0-9]*: //p' | sed 's/_ref$//; s,/,.,g' | sort -u)
    [ ${#targets[@]} -gt 0 ] || { echo "check-arm64: no test matches '$pattern'" && exit 1; }
    cmake --build build/arm64 -j "$jobs" --target "${targets[@]}" mixed_rank || exit 1
    cmake --preset dev >/dev/null && # the ranks beside them
        cmake --build build/dev -j "$jobs" --target shoal_command mixed_rank || exit 1
}

make_root
[ "$what" = root ] && exit 0
build
[ "$what" = build ] && exit 0
ctest --test-dir build/arm64 -j "$jobs" --output-on-failure "${chosen[@]}" --output-junit check.xml
status=$?
tools/skipped.py build/arm64/check.xml
tests/arm64/mixed.py build/dev build/arm64 "$root" || status=1
exit $status
