#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Install the Debian packages of a list (one a line, # comments) that are missing. Asks nothing.
set -u
list=${1:?usage: tools/deps.sh packages.txt}
mapfile -t wanted < <(sed 's/#.*//' "$list" | awk 'NF { print $1 }')

if ! command -v dpkg-query >/dev/null; then
    echo "deps: not a Debian system; please see to the equivalents of: ${wanted[*]}" >&2
    exit 0
fi
missing=()
installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' 2>/dev/null |
    awk '$1 ~ /^.i/ { print $2 }')
for package in "${wanted[@]}"; do
    grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "deps: installing ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null || { ! sudo -n true 2>/dev/null && ! [ -t 0 ]; }; then
        echo "deps: cannot install without root; run: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q
    --no-install-recommends -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "${missing[@]}")
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A bare system has no package lists yet: then, and only then, fetch them.
if "${install[@]}" >"$log" 2>&1 </dev/null; then
    exit 0
fi
if "${as_root[@]}" apt-get update -q >>"$log" 2>&1 </dev/null &&
    "${install[@]}" >>"$log" 2>&1 </dev/null; then
    exit 0
fi
tail -n 15 "$log" >&2
echo "deps: apt-get could not install: ${missing[*]}" >&2
exit 1
