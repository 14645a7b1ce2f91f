#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/claims/run.py believes no result that contradicts itself and loses none that it has."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

CLAIMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "claims")
GOALS = {"goal": ">= 0.9", "unit": "of rate", "also": {"wrong": "== 0"}}
FAULT = {"file": "lib/pace.c", "from": "fast", "to": "slow"}
ENTRY = {"what": "speed", "headline": True, "depends": ["lib"], "mutant": FAULT, "full": GOALS,
         "quick": GOALS}  # fmt: skip
PROGRAM = """#!/usr/bin/env python3
import sys
sys.path.insert(0, "bench/claims")
from claim import Claim
claim = Claim("speed", "speed")
"""


class ClaimsTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        self.here = os.path.join(self.root, "bench", "claims")
        os.makedirs(self.here)
        os.makedirs(os.path.join(self.root, "bench", "results"))
        os.makedirs(os.path.join(self.root, "lib"))
        for name in ("run.py", "claim.py", "sources.py", "cells.py", "tables.py"):
            shutil.copy(os.path.join(CLAIMS, name), self.here)
        self.write("README.md", "top\n<!-- claims: made by bench/claims/run.py -->\nold\n"
                                "<!-- end of claims -->\nend\n")
        self.write("bench/claims/goals.json", json.dumps({"speed": ENTRY}))
        self.write("lib/pace.c", "fast\n")

    def write(self, path, text):
        with open(os.path.join(self.root, path), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return file.read()

    def git(self, *words):
        identity = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", "-C", self.root, *identity, *words], capture_output=True,
                              text=True, check=True)
        return done.stdout.strip()

    def commit(self):
        """All that lies there, in a repository; its short hash."""
        if not os.path.exists(os.path.join(self.root, ".git")):
            self.git("init", "-q")
            self.write(".gitignore", "build\n__pycache__\n")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "all")
        return self.git("rev-parse", "--short", "HEAD")

    def kept(self):
        return json.loads(self.read("bench/results/claims.json"))["speed"]

    def keep(self, **changes):
        self.write("bench/results/claims.json", json.dumps({"speed": {**self.kept(), **changes}}))

    def program(self, body, name="speed"):
        self.write(f"bench/claims/{name}", PROGRAM + body)
        os.chmod(os.path.join(self.here, name), 0o755)

    def run_py(self, *options):
        command = [sys.executable, os.path.join(self.here, "run.py"), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertNotIn("Traceback", done.stderr)
        return done.returncode, done.stdout + done.stderr

    def test_a_measured_claim_reaches_both_tables(self):
        self.program('claim.report(0.95, {"wrong": 0})')
        self.assertEqual(0, self.run_py()[0])
        self.assertEqual(0.95, json.loads(self.read("bench/results/claims.json"))["speed"]["value"])
        for path in ("README.md", "docs/results.md"):
            row = "| `speed` | speed | 0.95 of rate | >= 0.9 of rate | yes |"
            self.assertIn(row, self.read(path))
        self.assertTrue(self.read("README.md").startswith("top\n"))
        self.assertTrue(self.read("README.md").endswith("-->\nend\n"))
        self.assertEqual((0, "claims: ok, 1 programs with their goals\n"), self.run_py("--verify"))

    def test_only_clean_trees_are_recorded(self):
        self.program('claim.report(0.95, {"wrong": 0})')
        commit = self.commit()
        self.write("lib/code.c", "int x;")
        status, output = self.run_py()
        self.assertEqual(2, status)
        self.assertIn("commit first", output)
        self.assertEqual(0, self.run_py("--dirty")[0])
        self.assertFalse(os.path.exists(os.path.join(self.root, "bench/results/claims.json")))
        os.unlink(os.path.join(self.root, "lib", "code.c"))
        self.assertEqual(0, self.run_py()[0])
        self.assertEqual(commit, self.kept()["commit"])

    def test_a_row_is_stale_once_its_files_have_changed(self):
        self.program('claim.report(0.95, {"wrong": 0})')
        self.write("lib/code.c", "int x;")
        self.commit()
        self.run_py()
        self.write("other.c", "int y;")
        self.commit()
        self.assertEqual(0, self.run_py("--verify")[0])
        self.write("lib/code.c", "int z;")
        self.commit()
        status, output = self.run_py("--verify")
        self.assertEqual(1, status)
        self.assertIn("lib/code.c has changed since", output)
        self.run_py("--render")
        self.assertEqual(0, self.run_py("--verify")[0])
        self.assertIn(", stale |", self.read("README.md"))
        self.write("lib/code.c", "int x;")  # as it was: but nobody measured this commit
        self.run_py("--render")
        self.assertIn(", stale |", self.read("README.md"))
        self.commit()
        self.run_py()  # measured again
        self.assertNotIn("stale", self.read("README.md"))

    def test_a_commit_that_is_not_there_is_no_provenance(self):
        self.program('claim.report(0.95, {"wrong": 0})')
        self.commit()
        self.run_py()
        for commit, why in (("0123456", "not in the history"), ("HEAD+", "tree with changes")):
            self.keep(commit=commit)
            status, output = self.run_py("--verify")
            self.assertEqual(1, status)
            self.assertIn(why, output)

    def test_verdicts_are_decided_anew(self):
        self.program('claim.report(0.95, {"wrong": 0})')
        self.run_py()
        for change in ({"value": 0.5}, {"detail": {"wrong": 1}}, {"ok": False}):
            kept = self.read("bench/results/claims.json")
            self.keep(**change)
            status, output = self.run_py("--verify")
            self.assertEqual(1, status)
            self.assertIn("contradicts its figures", output)
            self.write("bench/results/claims.json", kept)

    def test_cells_are_of_the_code_that_is_there(self):
        self.program("""
import os, sys
from cells import Cells
count = "build/count"
def measure():
    with open(count, "a") as file:
        file.write("x")
    return 0.95
cells = Cells("speed")
value = cells.get(["a"], measure)
claim.report(value, {"wrong": 0, "measured": len(open(count).read())})
""")
        self.write("lib/code.c", "int x;")
        os.makedirs(os.path.join(self.root, "build"))
        first = self.commit()

        def measured(*options):
            self.assertEqual(0, self.run_py(*options)[0])
            return len(self.read("build/count"))

        self.assertEqual(1, measured())
        self.assertEqual(1, measured())  # kept
        self.assertEqual(first, self.kept()["commit"])
        self.write("other.c", "int y;")
        self.commit()
        self.assertEqual(1, measured())  # kept, and the row says which commit it is of
        self.assertEqual(first, self.kept()["commit"])
        self.assertEqual(2, measured("--seed", "2"))
        self.write("lib/code.c", "int z;")
        second = self.commit()
        self.assertEqual(3, measured())
        self.assertEqual(second, self.kept()["commit"])
        self.assertEqual(4, measured("--quick"))  # a quick run measures
        self.assertEqual(5, measured("--quick"))  # and keeps nothing
        self.write("lib/code.c", "int w;")
        self.assertEqual(6, measured("--dirty"))  # nor does a tree with changes
        self.assertEqual(7, measured("--dirty"))

    def test_a_missed_goal_stays_with_its_value(self):
        self.program('claim.report(0.95, {"wrong": 3})')
        self.assertEqual(0, self.run_py()[0])
        self.assertIn("| 0.95 of rate | >= 0.9 of rate | **no** |", self.read("README.md"))

    def test_a_claim_without_a_quick_form_has_none(self):
        self.program('claim.report(0.95, {"wrong": 0})')
        entry = {key: value for key, value in ENTRY.items() if key != "quick"}
        self.write("bench/claims/goals.json", json.dumps({"speed": entry}))
        self.assertEqual(0, self.run_py()[0])
        status, output = self.run_py("--quick")
        self.assertEqual(0, status)
        self.assertIn("no quick form", output)
        command = [os.path.join(self.here, "speed"), "--quick"]
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        self.assertEqual(2, done.returncode)
        self.assertIn("no quick form", done.stderr)

    def test_each_claim_has_a_fault_that_it_notices(self):
        for part in ("mutant", "quick"):
            entry = {key: value for key, value in ENTRY.items() if key != part}
            self.write("bench/claims/goals.json", json.dumps({"speed": entry}))
            self.program('claim.report(0.95, {"wrong": 0})')
            status, output = self.run_py("--verify")
            self.assertEqual(1, status)
            self.assertIn("speed: no planted fault", output)

    def test_what_is_kept_is_judged_by_todays_goals(self):
        self.program('claim.report(0.95, {"wrong": 0})')
        self.run_py()
        stricter = {**ENTRY, "full": {**GOALS, "goal": ">= 0.96"}}
        self.write("bench/claims/goals.json", json.dumps({"speed": stricter}))
        self.assertIn("the goal of today", self.run_py("--verify")[1])
        self.run_py("--render")
        self.assertFalse(self.kept()["ok"])
        self.assertIn("**no**", self.read("README.md"))
        self.assertEqual(0, self.run_py("--verify")[0])

    def test_quick_runs_quote_the_last_full_one_and_are_not_kept(self):
        self.program('claim.report(0.5 if claim.quick else 0.95, {"wrong": 0})')
        self.run_py()
        status, output = self.run_py("--quick")
        self.assertEqual(0, status)
        last = json.loads([line for line in output.splitlines() if line.startswith('{"claim"')][-1])
        self.assertEqual(0.95, last["recorded"]["value"])
        self.assertFalse(last["ok"])
        self.assertEqual(0.95, json.loads(self.read("bench/results/claims.json"))["speed"]["value"])

    def test_lies_and_failures_are_not_kept(self):
        honest = {"claim": "speed", "value": 0.5, "unit": "x", "goal": ">= 0.9", "ok": False,
                  "detail": {"wrong": 0}, "command": "speed", "seed": 1}
        for change, why in (({"ok": True}, "contradicts"), ({"goal": ">= 0.1"}, "goals.json says"),
                            ({"claim": "other"}, "answers for")):
            self.program(f"print({json.dumps(json.dumps({**honest, **change}))})")
            status, output = self.run_py()
            self.assertEqual(1, status)
            self.assertIn(why, output)
        for body, why in (("sys.exit(3)", "exit status 3"), ('print("done")', "not JSON")):
            self.program(body)
            status, output = self.run_py()
            self.assertEqual(1, status)
            self.assertIn(why, output)
        self.assertFalse(os.path.exists(os.path.join(self.root, "bench/results/claims.json")))

    def test_what_takes_too_long_is_ended_and_leaves_nothing(self):
        scratch = os.path.join(self.root, "scratch")
        os.mkdir(scratch)
        goals = {"speed": {**ENTRY, "full": {**GOALS, "minutes": 0.02}}}
        self.write("bench/claims/goals.json", json.dumps(goals))
        self.program(f"""
import signal, tempfile
with tempfile.TemporaryDirectory(dir={scratch!r}):
    signal.pause()
""")
        status, output = self.run_py()
        self.assertEqual(1, status)
        self.assertIn("no answer within", output)
        self.assertEqual([], os.listdir(scratch))

    def test_a_machine_that_cannot_is_no_failure(self):
        self.program('claim.cannot("no namespaces")')
        status, output = self.run_py()
        self.assertEqual(0, status)
        self.assertIn("no namespaces", output)
        self.assertIn("cannot be measured on this machine", output)

    def test_verify_wants_pairs_and_goals_of_each_kind(self):
        self.assertIn("no program bench/claims/speed", self.run_py("--verify")[1])
        self.program("")
        self.program("", name="other")
        status, output = self.run_py("--verify")
        self.assertEqual(1, status)
        self.assertIn("bench/claims/other: has no entry", output)
        for part in ("full", "quick"):
            entry = {**ENTRY, part: {"unit": "of rate"}}
            self.write("bench/claims/goals.json", json.dumps({"speed": entry}))
            self.assertIn(f"speed: {part} goal None", self.run_py("--verify")[1])

    def test_a_planted_fault_has_one_place(self):
        self.program('claim.report(0.95, {"wrong": 0})')
        self.write("lib/code.c", "int x = 1; int y = 1;")
        for fault, problem in (({"file": "lib/code.c", "from": "x = 1", "to": "x = 2"}, None),
                               ({"file": "lib/code.c", "from": "= 1", "to": "= 2"}, "not once"),
                               ({"file": "lib/gone.c", "from": "x", "to": "y"}, "not once"),
                               ({"file": "lib/code.c", "from": "x"}, "has file, from, to")):
            self.write("bench/claims/goals.json", json.dumps({"speed": {**ENTRY, "mutant": fault}}))
            self.run_py("--render")
            status, output = self.run_py("--verify")
            self.assertEqual(0 if problem is None else 1, status, output)
            self.assertIn(problem or "claims: ok", output)

    def test_the_readme_has_headlines_and_the_page_has_all(self):
        self.program('claim.report(0.95, {"wrong": 0})')
        entry = {key: value for key, value in ENTRY.items() if key != "headline"}
        self.write("bench/claims/goals.json", json.dumps({"speed": entry}))
        self.run_py()
        self.assertIn("| `speed` |", self.read("docs/results.md"))
        self.assertNotIn("| `speed` |", self.read("README.md"))
        many = {f"claim-{i}": ENTRY for i in range(26)}
        self.write("bench/claims/goals.json", json.dumps(many))
        self.assertIn("26 headlines; 25 have room", self.run_py("--verify")[1])

    def test_what_is_measured_again_is_remembered(self):
        self.program('claim.report(0.95, {"wrong": 0})')
        first = self.commit()
        self.run_py()
        self.program('claim.report(0.8, {"wrong": 0})')
        second = self.commit()
        self.run_py()
        old = self.kept()["earlier"]
        self.assertEqual([(0.95, first, True)], [(o["value"], o["commit"], o["ok"]) for o in old])
        self.assertRegex(old[0]["host"], r"^\d+ x (AVX-512|AVX2|SSE2)$")
        page = self.read("docs/results.md")
        self.assertIn(f"{second} |", page)
        self.assertRegex(page, rf"`speed` \| .*, {first} \| .* \| 0.95 of rate \| yes \|")
        self.keep(earlier=[{**old[0], "value": i} for i in range(12)])
        self.run_py()
        self.assertEqual([*range(1, 12), 0.8], [o["value"] for o in self.kept()["earlier"]])

    def test_verify_sees_an_edited_table(self):
        self.program('claim.report(0.95, {"wrong": 0})')
        self.run_py()
        self.write("README.md", self.read("README.md").replace("0.95", "0.99"))
        status, output = self.run_py("--verify")
        self.assertEqual(1, status)
        self.assertIn("README.md: not what the results say", output)


if __name__ == "__main__":
    unittest.main()
