# SPDX-License-Identifier: Apache-2.0
"""tools/mutants: which faults it puts where, and a small room of which a test knows one half."""
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

MUTANTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "mutants")
sys.path.insert(0, MUTANTS)

import operators  # noqa: E402

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES C)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_library(shoal_internal SHARED src/pond/pond.c)
enable_testing()
add_executable(unit.pond.pond_test tests/unit/pond/pond_test.c)
target_link_libraries(unit.pond.pond_test shoal_internal)
add_test(NAME unit/pond/pond_test COMMAND unit.pond.pond_test)
"""
PRESETS = {"version": 6, "configurePresets": [{
    "name": "mutants", "generator": "Ninja", "binaryDir": "${sourceDir}/build/mutants"}]}
POND = """#include <stddef.h>
int known(int x);
int unknown(int x);
int loops(int x);

int known(int x)
{
    return x + 2;
}

int unknown(int x)
{
    return x + 2;
}

int loops(int x)
{
    int sum = 0;
    while (x != 0) {
        sum += x;
        x--;
    }
    return sum;
}
"""
POND_TEST = """int known(int x);
int loops(int x);
int main(void) { return known(3) != 5 || loops(3) != 6; }
"""


class Operators(unittest.TestCase):
    def changes(self, body):
        text = f"static int f(int a, int b)\n{{\n{body}\n}}\n"
        return {(m.operator, m.changed) for m in operators.mutants("src/x/x.c", text)}

    def test_each_operator(self):
        self.assertEqual(
            self.changes("    if (a < b && g(a))\n        return 0;\n    return -a;"),
            {
                ("compare", "if (a <= b && g(a))"),
                ("off-by-one", "if (a < b - 1 && g(a))"),
                ("logic", "if (a < b || g(a))"),
                ("negate", "if (!(a < b && g(a)))"),
                ("drop", ";"),
                ("constant", "return 1;"),
                ("sign", "return a;"),
            },
        )

    def test_a_statement_is_dropped_a_declaration_and_the_last_return_are_not(self):
        found = self.changes("    int c = a;\n    for (;;) g(c);\n    else if (a) c += b;\n"
                             "    *h(a) = b;\n    return c;")
        self.assertEqual(
            {changed for operator, changed in found if operator == "drop"},
            {"for (;;) ;", "else if (a) ;", ";"},
        )

    def test_comments_texts_and_what_is_outside_functions_stay(self):
        self.assertEqual(self.changes('    /* a < b */ return g("a < 1");'), set())
        self.assertEqual(operators.mutants("src/x/x.c", "int x = 1;\nenum { A = 2 };\n"), [])

    def test_what_harms_others_stays(self):
        self.assertEqual(self.changes("    if (a < 1) kill(-a, 9);\n    return b;"), set())

    def test_a_mutant_is_one_change_and_its_name_outlives_other_lines(self):
        text = "int f(int a)\n{\n    return a + 1;\n}\n"
        (first, *_), (again, *_) = (operators.mutants("src/x/x.c", t) for t in (text, "\n" + text))
        self.assertEqual(first.apply(text), text.replace("+", "-"))
        self.assertEqual((first.name, first.line + 1), (again.name, again.line))


class Targets(unittest.TestCase):
    def test_make_passes_what_it_is_told(self):
        root = os.path.dirname(os.path.dirname(MUTANTS))
        for words, wanted in (
            (["mutants", "ROOM=codec", "N=3", "SEED=2", "SINCE=HEAD"],
             "--room codec --number 3 --seed 2 --since HEAD"),
            (["claims-mutants", "C=hypar-figures"], "bench/claims/mutants.py --only hypar-figures"),
        ):
            done = subprocess.run(["make", "-n", *words], cwd=root, capture_output=True, text=True,
                                  check=True)
            self.assertIn(wanted, " ".join(done.stdout.replace("\\", "").split()))


class ClaimsFaults(unittest.TestCase):
    """bench/claims/mutants.py, with a claim whose figures the test gives."""

    GOALS = {"speed": {"quick": {"goal": ">= 2", "unit": "x", "also": {"wrong": "== 0"}}}}

    def tried(self, before, after, known=False):
        """Whether all is well; before, after: (value, wrong), or the status that a run had."""
        claims = os.path.join(os.path.dirname(os.path.dirname(MUTANTS)), "bench", "claims")
        sys.path.insert(0, claims)
        self.addCleanup(sys.path.remove, claims)
        spec = importlib.util.spec_from_file_location("faults", os.path.join(claims, "mutants.py"))
        faults = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(faults)
        ends = []
        for end in (before, after):
            line = isinstance(end, tuple) and json.dumps(
                {"value": end[0], "unit": "x", "goal": ">= 2", "detail": {"wrong": end[1]}})
            ends.append((0, line, 1.0) if line else (end, "", 1.0))
        with unittest.mock.patch.object(faults.run, "execute", side_effect=ends), \
                unittest.mock.patch.object(faults, "load", return_value=self.GOALS), \
                unittest.mock.patch.object(faults, "plant"):
            return faults.tried("speed", {}, None, known)[0]

    def test_a_fault_is_noticed_by_any_figure(self):
        for after, noticed in (((3, 0), False), ((1, 0), True), ((3, 4), True), (1, True),
                               (None, True), (77, False)):
            self.assertEqual(self.tried((3, 0), after), noticed, after)

    def test_a_claim_that_misses_proves_nothing(self):
        self.assertFalse(self.tried((1, 0), (1, 4)))
        self.assertFalse(self.tried(1, 1, known=True))
        self.assertTrue(self.tried(77, 77))

    def test_one_that_is_recorded_as_missing_has_to_miss_more(self):
        self.assertFalse(self.tried((1, 0), (0.5, 0), known=True))
        self.assertTrue(self.tried((1, 0), (1, 4), known=True))


class SmallRoom(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="shoal-test-")
        self.addCleanup(self.folder.cleanup)
        for path, text in {"CMakeLists.txt": PROJECT, "CMakePresets.json": json.dumps(PRESETS),
                           "src/pond/pond.c": POND, "tools/mutants/equivalent.txt": "",
                           "tests/unit/pond/pond_test.c": POND_TEST}.items():
            self.write(path, text)

    def write(self, path, text):
        path = os.path.join(self.folder.name, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, path):
        with open(os.path.join(self.folder.name, path), encoding="utf-8") as file:
            return file.read()

    def run_tool(self, *options, expected=0):
        command = [sys.executable, os.path.join(MUTANTS, "mutants.py"), "--root", self.folder.name]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_killed_survived_equivalent(self):
        said = self.run_tool("--room", "pond", "--number", "100")
        lines = re.findall(r"^\w{10} src/pond/pond\.c:(\d+) (.*)$", said, re.M)
        known = sorted(rest for line, rest in lines if line == "8")
        unknown = sorted(rest for line, rest in lines if line == "13")
        self.assertEqual(known, [f"{operator}: killed unit/pond/pond_test"
                                 for operator in ("constant", "sign")], said)
        self.assertEqual(unknown, ["constant: survived ", "sign: survived "])
        self.assertIn(("21", "drop: killed unit/pond/pond_test (hung)"), lines)
        of = json.loads(self.read("bench/results/mutants.json"))["pond"]
        self.assertEqual((of["survived"], of["equivalent"]), (2, 0))
        self.assertEqual(of["killed"], len(lines) - 2)
        self.assertIn(f"| pond | {len(lines)} | {len(lines) - 2} | 2 | 0 |",
                      self.read("bench/results/mutants.md"))
        self.assertEqual(self.read("src/pond/pond.c"), POND)

        # Tried before: nothing is run again, and a survivor with a reason is not counted.
        name = of["survivors"][0]["name"]
        self.write("tools/mutants/equivalent.txt", f"{name} src/pond/pond.c nobody calls it\n")
        self.run_tool("--room", "pond", "--number", "100")
        of = json.loads(self.read("bench/results/mutants.json"))["pond"]
        self.assertEqual((of["survived"], of["equivalent"]), (1, 1))
        tried = self.read("build/mutants/tried.jsonl").splitlines()
        self.assertEqual(len(tried), len({json.loads(line)["key"] for line in tried}))

    def test_a_survivor_of_too_little_time_is_tried_again(self):
        said = self.run_tool("--number", "100", "--limit", "1")
        self.assertIn("survived not all tests in 1 s", said)
        self.assertNotIn("killed unit", said)
        self.assertIn("killed unit", self.run_tool("--number", "100"))

    def test_one_run_at_a_time_and_an_end_at_any_moment(self):
        command = [sys.executable, os.path.join(MUTANTS, "mutants.py"), "--root", self.folder.name]
        first = subprocess.Popen([*command, "--number", "100"], stdout=subprocess.PIPE, text=True)
        self.assertIn("src/pond/pond.c", first.stdout.readline())
        self.assertIn("another run is at work", self.run_tool(expected=1))
        first.terminate()
        self.assertIn("goes on where this one stopped", first.communicate(timeout=30)[0])
        self.assertEqual(first.returncode, 130)
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "bench")))
        self.run_tool("--number", "100")
        tried = self.read("build/mutants/tried.jsonl").splitlines()
        self.assertEqual(len(tried), len({json.loads(line)["key"] for line in tried}))

    def test_a_reason_without_a_mutant_and_a_room_that_is_not_there(self):
        self.write("tools/mutants/equivalent.txt", "0123456789 src/pond/pond.c gone\n")
        self.assertIn("0123456789 is no mutant", self.run_tool("--check", expected=1))
        self.write("tools/mutants/equivalent.txt", "")
        self.run_tool("--check")
        self.assertIn("there is no room sea", self.run_tool("--room", "sea", expected=1))


if __name__ == "__main__":
    unittest.main()
