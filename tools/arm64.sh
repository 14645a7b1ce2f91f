#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Build for 64-bit ARM and run unit, conformance and mixed tests under qemu: `make check-arm64`.
#
#     tools/arm64.sh [root | build | check [REGEX] | wheel | debs]
#
# debs: Debian packages for 64-bit ARM, into build/packages, built by dpkg-buildpackage's own cross
# way in a Debian of this machine's and ARM's packages, which is made for it and goes with it; root
# is needed. Their command is tried under qemu.
# wheel: the Python wheel for 64-bit ARM, into build/packages; its command is tried under qemu.
# root: a folder of this Debian's arm64 libraries, build/arm64-root, which compiler and emulator
# look into; nothing of it is installed here. It is kept, and made anew when this file changes.
# Without a network or the tools the check is skipped, exit status 77.
set -u
cd "$(dirname "$0")/.." || exit 1
. tools/root.sh
root=$PWD/build/arm64-root
who=check-arm64
what=${1:-check}
pattern=${2:-}
jobs=${JOBS:-$(nproc)}

# Of packages.txt what programs are linked with, and what the compiler links with.
libraries() {
    echo libc6-dev
    echo "libgcc-$(aarch64-linux-gnu-gcc -dumpversion)-dev"
    sed 's/#.*//' packages.txt | grep -E '^(lib[a-z0-9.-]+-dev|zlib1g-dev|uthash-dev) *$' |
        grep -v '^libclang-rt-dev'
}

unpack() {
    tools/deps.sh packages-arm64.txt || skip "packages of packages-arm64.txt are missing"
    make_root arm64 "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" "$root" \
        "$(libraries | paste -sd,)" "$(cat "$0" tools/root.sh packages.txt | sha256sum)" "$who"
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

# What is in it runs with the folder's glibc, as it would on a Debian of that machine.
wheel() {
    local made try
    cmake --preset arm64 >build/arm64.log || { tail -n 20 build/arm64.log && exit 1; }
    cmake --build build/arm64 -j "$jobs" --target shoal shoal_command || exit 1
    made=$(tools/make_wheel.py --build build/arm64 --root "$root" --out build/packages) || exit 1
    tools/check_wheel.py "$made" || exit 1
    try=$(mktemp -d)
    python3 -m zipfile -e "$made" "$try" && chmod +x "$try/shoal/_lib/shoal" &&
        "$(command -v qemu-aarch64-static || command -v qemu-aarch64)" -L "$root" \
            "$try/shoal/_lib/shoal" --version
    status=$?
    rm -rf "$try"
    exit $status
}

# In the Debian that is made for it: $1 is how many jobs.
build_debs='set -e
cross=-Pcross,nocheck
cd /work/shoal
apt-get -q update
apt-get -q -y --no-install-recommends --host-architecture arm64 $cross build-dep ./
export DEB_BUILD_OPTIONS="parallel=$1 noautodbgsym nocheck"
dpkg-buildpackage -us -uc -B -a arm64 $cross
cd ..
dpkg -i libshoal0_*_arm64.deb libshoal-train0_*_arm64.deb
dpkg-deb -x shoal_*_arm64.deb try
qemu-aarch64-static try/usr/bin/shoal sim --workers 4 --iterations 10'

debs() {
    local here codename given=build/arm64-debs
    [ "$(id -u)" -eq 0 ] || skip "a Debian is made by root only; this is user $(id -un)"
    tools/deps.sh packages-arm64.txt || skip "packages of packages-arm64.txt are missing"
    here=$(dpkg --print-architecture)
    codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    rm -rf $given && mkdir -p $given/shoal build/packages
    git ls-files -z --cached --others --exclude-standard | tar --null -T- -cf - |
        tar -C $given/shoal -xf - || exit 1
    echo "$build_debs" >$given/build.sh
    echo "$who: building packages in a Debian $codename made for it"
    # shellcheck disable=SC2016 # mmdebstrap's shell knows the folder
    if ! mmdebstrap --mode=root --variant=buildd --quiet --architectures="$here,arm64" \
        --include=crossbuild-essential-arm64 --customize-hook="copy-in $given /" \
        --customize-hook='mv "$1/arm64-debs" "$1/work"' \
        --chrooted-customize-hook="bash /work/build.sh $jobs" \
        --customize-hook='cp "$1"/work/*_arm64.deb build/packages' \
        "$codename" /dev/null >build/arm64-debs.log 2>&1; then
        tail -n 40 build/arm64-debs.log
        exit 1
    fi
    rm -rf $given
    ls build/packages/*_arm64.deb
    exit 0
}

[ "$what" = debs ] && debs
unpack
[ "$what" = root ] && exit 0
[ "$what" = wheel ] && wheel
build
[ "$what" = build ] && exit 0
CC=aarch64-linux-gnu-gcc ctest --test-dir build/arm64 -j "$jobs" --output-on-failure \
    "${chosen[@]}" --output-junit check.xml
status=$?
tools/skipped.py build/arm64/check.xml
tests/arm64/mixed.py build/dev build/arm64 "$root" || status=1
exit $status
