# SPDX-License-Identifier: Apache-2.0
"""Finished parts of long claims: each measured cell is a small JSON file under build/claims/NAME,
named by its whole configuration, so a claim that was cut short goes on when it is started again.
Remove the folder to measure afresh. SHOAL_CLAIMS_CELLS=N ends the claim (exit code 77) after so
many new cells: a long timed one can be measured in pieces."""

import hashlib
import json
import os
import sys

from claim import CANNOT, ROOT


class Cells:
    """The cells of one claim."""

    def __init__(self, name):
        self.folder = os.path.join(ROOT, "build", "claims", name)
        self.left = int(os.environ.get("SHOAL_CLAIMS_CELLS", sys.maxsize))
        os.makedirs(self.folder, exist_ok=True)

    def get(self, configuration, measure):
        """The kept result of a configuration (whatever JSON can hold), or that of measure()."""
        key = json.dumps(configuration, sort_keys=True)
        name = hashlib.sha256(key.encode()).hexdigest()[:24] + ".json"
        path = os.path.join(self.folder, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return json.load(file)["result"]
        if self.left == 0:
            print("SHOAL_CLAIMS_CELLS: the rest another time", file=sys.stderr)
            sys.exit(CANNOT)
        self.left -= 1
        result = measure()
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump({"configuration": configuration, "result": result}, file, indent=1)
        os.replace(path + ".new", path)
        return result
