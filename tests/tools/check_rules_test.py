#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_rules.py catches each pattern in code, and none in comments and literals."""

import unittest

import fixture

EXEMPT = "tools/rules_exempt.txt"


class RulesTest(fixture.CheckerCase):
    tool = "check_rules.py"

    def test_sleeping_tests(self):
        for call in ("sleep(1)", "usleep (5)", "nanosleep(&t, 0)", "clock_nanosleep(0, 0, &t, 0)"):
            self.refuses({"tests/unit/x_test.c": f"void f(void)\n{{\n    {call};\n}}\n"},
                         "tests/unit/x_test.c:3: sleep")
        self.refuses({"tests/cli/x_test.py": "import time\ntime.sleep(1)\n"}, "x_test.py:2: sleep")
        self.accepts({"tests/unit/x_test.c": 'char *a = "sleep(1)"; /* sleep(1) */\n'})

    def test_a_library_neither_prints_nor_ends(self):
        for call in ('printf("x")', 'puts("x")', "exit(1)", "abort()", "assert(1)"):
            self.refuses({"src/codec/x.c": f"f = {call};\n"}, "src/codec/x.c:1:")
            self.accepts({"cli/x.c": f"f = {call};\n"})
        self.accepts({"src/codec/x.c": "f = shoali_printf(1) + vsnprintf(a, b, c, d);\n"})

    def test_heap_goes_through_the_arena(self):
        self.refuses({"src/codec/x.c": "p = malloc(3);\n"}, "heap")
        self.accepts({"src/codec/x.c": "row->free(p); shoali_free(p); freeaddrinfo(p);\n"})

    def test_randomness_and_unbounded_calls(self):
        self.refuses({"tests/unit/x.c": "a = rand();\n"}, "random")
        self.refuses({"cli/x.c": "n = atoi(text);\n"}, "unsafe")

    def test_unfinished_marks(self):
        self.refuses({"src/codec/x.c": "/* TO" "DO: all of it */\n"}, "unfinished")
        self.refuses({"src/codec/x.c": "#if 0\n#endif\n"}, "unfinished")

    def test_exemptions_want_a_use(self):
        files = {"src/codec/x.c": "p = malloc(3);\n", EXEMPT: "src/codec/x.c:heap  for the test\n"}
        self.accepts(files)
        self.refuses({EXEMPT: "src/codec/x.c:heap  for the test\n"}, "needs no exemption")


if __name__ == "__main__":
    unittest.main()
