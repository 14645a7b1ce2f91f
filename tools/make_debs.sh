#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Build the Debian packages from a copy of the tree, uncommitted files included, and put them into a
# folder: tools/make_debs.sh build/packages
set -eu
out=$(realpath -m "${1:?usage: tools/make_debs.sh FOLDER}")
cd "$(dirname "$0")/.."
work=$(mktemp -d --tmpdir shoal-debs-XXXXXX)
trap 'rm -rf "$work"' EXIT

mkdir "$work/shoal"
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard
else
    find . -path ./build -prune -o -name __pycache__ -prune -o -type f -print0
fi | tar --null --files-from=- --create --file=- | tar -C "$work/shoal" --extract --file=-

export DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS-parallel=$(nproc) noautodbgsym}"
if ! (cd "$work/shoal" && dpkg-buildpackage -us -uc -b) >"$work/log" 2>&1 </dev/null; then
    tail -n 40 "$work/log" >&2
    echo "make_debs: dpkg-buildpackage failed" >&2
    exit 1
fi
mkdir -p "$out"
rm -f "$out"/*.deb
cp "$work"/*.deb "$out"
ls "$out"/*.deb
