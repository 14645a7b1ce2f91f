#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_layers.py catches what it is there for, and nothing else."""

import os
import unittest

import fixture

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "..", "..", "tools", "layers.txt"), encoding="utf-8") as rules_file:
    RULES = rules_file.read()


class LayersTest(fixture.CheckerCase):
    tool = "check_layers.py"

    def tree(self):
        """The real rules over a tree that has one header in each room named."""
        made = {"tools/layers.txt": RULES, "include/shoal/shoal.h": "\n"}
        for room in ("base", "kernel", "codec", "transport", "collective", "sync", "plan"):
            made[f"src/{room}/{room}.h"] = "\n"
        return made

    def with_file(self, path, text):
        return {**self.tree(), path: text}

    def test_the_stated_directions_pass(self):
        self.accepts(self.with_file("src/codec/x.c", '#include "kernel/kernel.h"\n'))
        self.accepts(self.with_file("src/collective/x.c", '#include "codec/codec.h"\n'))
        self.accepts(self.with_file("src/sync/x.c", '#include "base/base.h"\n'))
        self.accepts(self.with_file("cli/x.c", '#include "shoal/shoal.h"\n'))
        self.accepts(self.with_file("bench/claims/x.c", '#include "kernel/kernel.h"\n'))
        self.accepts(self.with_file("tests/unit/x.c", '#include "sync/sync.h"\n'))

    def test_the_other_direction_is_caught(self):
        self.refuses(self.with_file("src/kernel/x.c", '\n#include "codec/codec.h"\n'),
                     "src/kernel/x.c:2: kernel may not include codec")
        self.refuses(self.with_file("src/codec/x.c", '#include "transport/transport.h"\n'),
                     "codec may not include transport")
        self.refuses(self.with_file("src/sync/x.c", '#include "collective/collective.h"\n'),
                     "sync may not include collective")
        self.refuses(self.with_file("src/base/x.c", '#include "kernel/kernel.h"\n'),
                     "base may not include kernel")

    def test_closed_folders_see_public_headers_only(self):
        for folder in ("cli", "examples", "bench/e2e"):
            self.refuses(self.with_file(f"{folder}/x.c", '#include "base/base.h"\n'),
                         f"{folder} may not include base")
        self.refuses(self.with_file("include/shoal/x.h", '#include "codec/codec.h"\n'),
                     "include/shoal may not include codec")

    def test_paths_upwards_are_caught(self):
        self.refuses(self.with_file("src/codec/x.c", '#include "../kernel/kernel.h"\n'),
                     'write "room/file.h"')

    def test_sockets_threads_and_clocks_stay_where_they_belong(self):
        self.refuses(self.with_file("src/plan/x.c", "#include <sys/socket.h>\n"), "sys/socket.h")
        self.refuses(self.with_file("src/sync/x.c", '#include "base/clock.h"\n'), "base/clock.h")
        start = "int f(void)\n{\n    return pthread_create(0, 0, 0, 0);\n}\n"
        self.refuses(self.with_file("src/codec/x.c", start), "pthread_create")
        self.accepts(self.with_file("src/codec/x.c", "/* pthread_create() is for comm */\n"))

    def test_an_unnamed_room_is_caught(self):
        self.refuses(self.with_file("src/attic/x.c", "\n"), "src/attic: not named")

    def test_a_circle_is_caught(self):
        files = self.tree()
        files["tools/layers.txt"] = RULES + "\nplan <- kernel\n"
        self.refuses(files, "a circle: ")

    def test_a_rule_that_nobody_understands_is_caught(self):
        files = self.tree()
        files["tools/layers.txt"] = "kernel -> codec\n"
        self.refuses(files, "tools/layers.txt:1: not understood")


if __name__ == "__main__":
    unittest.main()
