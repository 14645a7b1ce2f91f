#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy over the library, the command and the programs of a build folder; warnings are errors.
# Files whose text, headers and configuration have not changed since they last passed are skipped.
#
#     tools/tidy.sh [BUILD [N]]      N: one of N parts, which the commit chooses
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build/dev}
commit=$(git rev-parse HEAD 2>/dev/null | head -c 8)
[ -f "$build/compile_commands.json" ] || { echo "tidy.sh: configure $build first" >&2; exit 1; }
mapfile -t files < <(python3 - "$build" "${2:-1}" "${commit:-0}" <<'PY'
import json, os, sys
rows = json.load(open(os.path.join(sys.argv[1], "compile_commands.json")))
root = os.getcwd() + "/"
names = {row["file"].removeprefix(root) for row in rows}
names = sorted(n for n in names if n.startswith(("src/", "cli/", "bench/", "examples/")))
parts = int(sys.argv[2])
print("\n".join(names[int(sys.argv[3], 16) % parts::parts]))
PY
)
stamps=$build/tidy
mkdir -p "$stamps"
# A file's key: everything that can change its verdict, coarsely: itself, all headers, the rules.
common=$(cat .clang-tidy CMakePresets.json $(git ls-files '*.h' '*.def') 2>/dev/null | sha256sum)
one() {
    local key stamp out
    key=$( (echo "$2" && cat "$1") | sha256sum | cut -d' ' -f1)
    stamp=$3/$(echo "$1" | tr / _)
    [ "$(cat "$stamp" 2>/dev/null)" = "$key" ] && return 0
    if out=$(clang-tidy -p "$4" --quiet --extra-arg=-Wno-unknown-warning-option \
        --warnings-as-errors='*' "$1" 2>&1); then
        echo "$key" >"$stamp"
    else
        printf '%s\n' "$out" | grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed'
        return 1
    fi
}
export -f one
if printf '%s\n' "${files[@]}" |
    xargs -P "$(nproc)" -I{} bash -c 'one "$@"' _ {} "$common" "$stamps" "$build"; then
    echo "tidy.sh: ok, ${#files[@]} files"
else
    echo "tidy.sh: clang-tidy complains"
    exit 1
fi
