#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Check the format of all C files (.clang-format, version 14: others differ); --fix rewrites them.
set -u
cd "$(dirname "$0")/.." || exit 1
listed() {
    git ls-files --cached --others --exclude-standard '*.c' '*.cc' '*.h' 2>/dev/null ||
        find include src cli tests bench examples -name '*.c' -o -name '*.cc' -o -name '*.h'
}
mapfile -t files < <(listed | while read -r file; do [ -f "$file" ] && echo "$file"; done)
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
