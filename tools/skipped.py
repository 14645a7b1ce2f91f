#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Say why tests were skipped: ctest counts them and keeps their reasons to itself.

Usage: tools/skipped.py JUNIT-FILE-OF-CTEST"""

import sys
import xml.etree.ElementTree as xml


def reasons(path):
    """{reason: [tests]}; a test's reason is the last line that it printed."""
    found = {}
    for case in xml.parse(path).iter("testcase"):
        if case.find("skipped") is None:
            continue
        lines = (case.findtext("system-out") or "").strip().splitlines()
        reason = lines[-1].strip().removeprefix("skipped: ") if lines else "no reason given"
        found.setdefault(reason, []).append(case.get("name"))
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.rsplit("\n", 1)[-1])
    for reason, tests in sorted(reasons(sys.argv[1]).items()):
        print(f"skipped {', '.join(sorted(tests))}: {reason}")


if __name__ == "__main__":
    main()
