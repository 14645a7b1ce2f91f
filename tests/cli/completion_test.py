# SPDX-License-Identifier: Apache-2.0
"""Completion reads what the command prints: what bash offers is what there is, no more. Installed,
and for zsh and fish: tests/packages/install_test.py."""
import json
import os
import subprocess
import unittest

import shoal

SCRIPT = os.path.join(shoal.ROOT, "cli", "completion.bash")


class Completion(unittest.TestCase):
    def completed(self, *words):
        done = subprocess.run(
            ["bash", "--norc", "-c",
             f'source {SCRIPT}; COMP_WORDS=(shoal "$@"); COMP_CWORD=$#; _shoal; '
             'printf "%s\\n" "${COMPREPLY[@]}"', "_", *words],
            env={**os.environ,
                 "PATH": f"{os.path.dirname(os.path.abspath(shoal.SHOAL))}:{os.environ['PATH']}"},
            capture_output=True, text=True, timeout=60, check=True)  # fmt: skip
        return done.stdout.split()

    def names(self, table):
        rows = json.loads(shoal.run("list", table, "--json").stdout)[table]
        return [row["name"] for row in rows]

    def test_names_are_those_of_the_rows(self):
        for option, table in (("--codec", "codecs"), ("--collective", "collectives"),
                              ("--sync", "syncs"), ("--transport", "transports"),
                              ("--model", "models"), ("--optimizer", "optimizers"),
                              ("--schedule", "schedules")):  # fmt: skip
            self.assertEqual(self.names(table), self.completed("train", option, ""))
            self.assertEqual(self.names(table), self.completed("list", table, ""))

    def test_tables_verbs_and_options(self):
        tables = [line.strip() for line in shoal.run("list").stdout.splitlines()]
        self.assertEqual(tables, self.completed("list", ""))
        self.assertEqual(["train", "trace"], self.completed("tr"))
        self.assertEqual(["--json"], self.completed("list", "--js"))


if __name__ == "__main__":
    unittest.main()
