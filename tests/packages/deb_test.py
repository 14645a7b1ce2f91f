#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages that `make packages` built: installed on this system, used, purged without a
trace. Needs root, and that no package of ours is installed."""

import os
import sys
import tempfile
import unittest

import debs
import packages

FOLDER = os.path.join(packages.ROOT, "build", "packages")


class DebTest(unittest.TestCase):
    def test_installed_used_and_purged(self):
        before = debs.files()
        self.addCleanup(lambda: debs.reason() and debs.purge())  # if what follows fails
        debs.install(debs.found(FOLDER))
        installed = debs.files() - before
        self.assertTrue({"/usr/bin/shoal", "/usr/include/shoal/shoal.h"} <= installed)
        with tempfile.TemporaryDirectory(prefix="shoal-deb-test-") as folder:
            debs.use_library(folder)
        debs.use_python()
        debs.use_pages()
        debs.purge()
        self.assertEqual([], sorted(debs.files() ^ before))


if __name__ == "__main__":
    reason = debs.reason() or (
        None if debs.found(FOLDER) else f"no packages in {FOLDER}: make packages"
    )
    if reason:
        print(f"skipped: {reason}")
        sys.exit(packages.SKIP)
    unittest.main()
