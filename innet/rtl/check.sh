#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every check of the hardware, one step after the other, at most 15 minutes on 2 cores: `make rtl`.
# A step whose tools are missing is skipped with its reason; a failed one ends the run.
set -u
here=$(cd "$(dirname "$0")" && pwd)
while read -r step; do
    echo "== $step"
    # shellcheck disable=SC2086
    "$here/step.sh" $step </dev/null
    status=$?
    [ $status -eq 0 ] || [ $status -eq 77 ] || exit 1
done <<'END'
lint
lanes 499
codec 3000000
nic 200000
path
pe 70000
squash
cells 4000
pe-corners
corners
formal
mutants
END
