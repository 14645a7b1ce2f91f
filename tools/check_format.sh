#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Check the format of all C files (.clang-format, version 14: others differ); --fix rewrites them.
set -u
cd "$(dirname "$0")/.." || exit 1
mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.c' '*.h' 2>/dev/null |
    while read -r file; do [ -f "$file" ] && echo "$file"; done)
if [ ${#files[@]} -eq 0 ]; then # a tarball, not a clone
    mapfile -t files < <(find include src cli tests bench examples -name '*.[ch]' 2>/dev/null)
fi
tool=$(command -v clang-format-14 || command -v clang-format)
if [ -z "$tool" ]; then
    echo "check_format.sh: clang-format is not installed"
    exit 77
fi
if [ "${1:-}" = "--fix" ]; then
    exec "$tool" -i "${files[@]}"
fi
if ! "$tool" --dry-run -Werror --ferror-limit=3 "${files[@]}"; then
    echo "check_format.sh: not in the house format; run: make format"
    exit 1
fi
echo "check_format.sh: ok, ${#files[@]} files"
