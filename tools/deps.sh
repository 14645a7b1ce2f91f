#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Install the Debian packages of a list that are missing. Asks nothing. One package a line, #
# comments; where Debian's releases differ in a name, "a | b": what is installed of them, else the
# first that apt knows.
set -u
list=${1:?usage: tools/deps.sh packages.txt}
mapfile -t lines < <(sed 's/#.*//; s/|/ /g' "$list" | awk 'NF { $1 = $1; print }')

if ! command -v dpkg-query >/dev/null; then
    printf -v names '%s, ' "${lines[@]// / or }"
    echo "deps: not a Debian system; please see to the equivalents of: ${names%, }" >&2
    exit 0
fi
missing=()
installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' 2>/dev/null |
    awk '$1 ~ /^.i/ { print $2 }')
for line in "${lines[@]}"; do
    grep -qxF "${line// /$'\n'}" <<<"$installed" || missing+=("$line")
done
[ ${#missing[@]} -eq 0 ] && exit 0

# choose: of each line the first name that apt could install goes into chosen, a line without one
# into unknown; fails if there is such a line
choose() {
    local line name
    chosen=()
    unknown=()
    for line in "${missing[@]}"; do
        for name in $line ''; do
            LC_ALL=C apt-cache policy "$name" 2>/dev/null | grep -q 'Candidate: [^(]' && break
        done
        if [ -n "$name" ]; then chosen+=("$name"); else unknown+=("${line// / or }"); fi
    done
    [ ${#unknown[@]} -eq 0 ]
}
choose
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null || { ! sudo -n true 2>/dev/null && ! [ -t 0 ]; }; then
        echo "deps: cannot install without root; run: apt-get install" \
            "${chosen[*]} ${unknown[*]%% *}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
    echo "deps: installing ${chosen[*]}"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
        --no-install-recommends -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "${chosen[@]}" \
        >"$log" 2>&1 </dev/null
}

# A bare system has no package lists yet: then, and only then, fetch them.
[ ${#unknown[@]} -eq 0 ] && install && exit 0
"${as_root[@]}" apt-get update -q >"$log" 2>&1 </dev/null || tail -n 5 "$log" >&2
if ! choose; then
    printf -v names '%s, ' "${unknown[@]}"
    echo "deps: $list: this system's package lists do not have ${names%, }" >&2
    exit 1
fi
install && exit 0
tail -n 15 "$log" >&2
echo "deps: apt-get could not install: ${chosen[*]}" >&2
exit 1
