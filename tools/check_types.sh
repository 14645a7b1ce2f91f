#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Python package's type hints, by mypy with what pyproject.toml says (1.0 and newer).
set -u
cd "$(dirname "$0")/.." || exit 1
if ! command -v mypy >/dev/null; then
    echo "check_types.sh: mypy is not installed: make deps"
    exit 77
fi
exec mypy --no-incremental
