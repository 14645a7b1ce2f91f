#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_mirror.py catches a source without test, a test without source and a stale exemption."""

import unittest

import fixture

EXEMPT = "tools/mirror_exempt.txt"


class MirrorTest(fixture.CheckerCase):
    tool = "check_mirror.py"

    def test_pairs_pass(self):
        self.accepts({"src/codec/x.c": "", "tests/unit/codec/x_test.c": ""})

    def test_a_source_without_test(self):
        self.refuses({"src/codec/x.c": ""}, "src/codec/x.c: has no tests/unit/codec/x_test.c")

    def test_a_test_without_source(self):
        self.refuses({"tests/unit/codec/x_test.c": ""}, "tests nothing")

    def test_exemptions_want_a_reason_and_a_use(self):
        self.accepts({"src/codec/x.c": "", EXEMPT: "src/codec/x.c  covered by y_test.c\n"})
        self.refuses({"src/codec/x.c": "", EXEMPT: "src/codec/x.c\n"}, "no reason given")
        self.refuses({EXEMPT: "src/codec/x.c  covered by y_test.c\n"}, "needs no exemption")

    def test_the_tests_that_a_reason_names_exist(self):
        files = {"src/codec/x.c": "", EXEMPT: "src/codec/x.c  tests/proc/a*_test.c runs it\n"}
        self.refuses(files, "there is no tests/proc/a*_test.c")
        self.accepts({**files, "tests/proc/ab_test.c": ""})


if __name__ == "__main__":
    unittest.main()
