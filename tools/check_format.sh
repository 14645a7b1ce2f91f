#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Check the format of all C files; --fix rewrites them. By clang-format 14 alone (Debian 12's):
# later ones lay out initialisers in macros otherwise, and no option makes them agree.
set -u
house=14
cd "$(dirname "$0")/.." || exit 1
listed() {
    git ls-files --cached --others --exclude-standard '*.c' '*.cc' '*.h' 2>/dev/null ||
        find include src cli tests bench examples -name '*.c' -o -name '*.cc' -o -name '*.h'
}
mapfile -t files < <(listed | while read -r file; do [ -f "$file" ] && echo "$file"; done)
tool=$(command -v clang-format-$house || command -v clang-format)
version=$("${tool:-false}" --version 2>/dev/null | sed -n 's/.*version \([0-9]*\)\..*/\1/p')
if [ "$version" != "$house" ]; then
    echo "check_format.sh: this needs clang-format $house, and here is ${version:-none}; if your" \
        "system has no clang-format-$house: pip install clang-format==$house.0.6"
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
