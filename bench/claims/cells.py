# SPDX-License-Identifier: Apache-2.0
"""Finished parts of long claims: each measured cell is a small JSON file under build/claims/NAME,
named by its whole configuration and by what it was measured with (sources.py: the code, the
instruction set, cores, seed), so a claim that was cut short goes on when it is started again, and
never with figures of other code. A quick run keeps nothing and uses nothing that was kept.
SHOAL_CLAIMS_CELLS=N ends the claim (exit code 77) after so many new cells: a long timed one can be
measured in pieces."""

import hashlib
import json
import os
import sys
import time

import sources
from claim import CANNOT, ROOT


class Cells:
    """The cells of one claim; claim: where `name` is not its name."""

    def __init__(self, name, claim=None):
        self.folder = os.path.join(ROOT, "build", "claims", name)
        self.left = int(os.environ.get("SHOAL_CLAIMS_CELLS", sys.maxsize))
        self.stamp = sources.stamp(claim or name)
        os.makedirs(self.folder, exist_ok=True)

    def get(self, configuration, measure):
        """The kept result of a configuration (whatever JSON can hold), or that of measure()."""
        key = json.dumps([configuration, self.stamp], sort_keys=True)
        name = hashlib.sha256(key.encode()).hexdigest()[:24] + ".json"
        path = os.path.join(self.folder, name)
        if os.path.exists(path) and not sources.is_quick():
            with open(path, encoding="utf-8") as file:
                cell = json.load(file)
            sources.note(cell, False)
            return cell["result"]
        if self.left == 0:
            print("SHOAL_CLAIMS_CELLS: the rest another time", file=sys.stderr)
            sys.exit(CANNOT)
        self.left -= 1
        begin = time.monotonic()
        cell = {"configuration": configuration, "result": measure()}
        cell["seconds"] = round(time.monotonic() - begin, 2)
        sources.keep(path, self.stamp, cell)
        sources.note(cell, True)
        return cell["result"]
