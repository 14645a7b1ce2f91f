#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_docs.py finds blocks of commands, wants a tag on each, and notices output that differs."""

import os
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tools"))
import check_docs  # noqa: E402

PAGE = """# Title
<!-- run; as: --steps 100 => --steps 2; needs: lab -->
```
shoal train --steps 100 \\
    --no-eval
```

<!-- prints -->
```
loss 0.25 of 3 workers
```
## Other
    $ make demo
"""


class DocsTest(unittest.TestCase):
    def test_blocks_and_their_tags(self):
        run, prints, make = check_docs.blocks_of("x.md", PAGE)
        self.assertEqual(["run", "prints", ""], [run.tag, prints.tag, make.tag])
        self.assertIn("--no-eval", run.text)
        self.assertEqual([3, 9, 13], [run.line, prints.line, make.line])
        self.assertEqual([True, False, True], [run.commands, prints.commands, make.commands])
        faults = list(check_docs.faults_of_tags([run, prints, make]))
        self.assertEqual(1, len(faults), faults)
        self.assertIn("x.md:13", faults[0])
        self.assertEqual([("--steps 100", "--steps 2")], run.options["as"])
        self.assertEqual(["lab"], run.options["needs"])

    def test_tags_that_make_no_sense(self):
        def faults(tag):
            text = f"<!-- {tag} -->\n```\nmake x\n```\n"
            return list(check_docs.faults_of_tags(check_docs.blocks_of("x.md", text)))

        self.assertEqual([], faults("run"))
        self.assertEqual([], faults("not run: needs four hosts"))
        self.assertEqual([], faults("prints; by: true"))
        for tag in ("not run", "not run: no", "run; as: make", "run; as: zz => b", "run; wants: x",
                    "prints", "ran"):
            self.assertEqual(1, len(faults(tag)), tag)

    def test_figures_may_differ_and_words_may_not(self):
        printed = "start\n  loss 7.5e-3   of 12 workers\nend\n"
        self.assertIsNone(check_docs.missing_line("loss 0.25 of 3 workers\nend", printed))
        self.assertIsNone(check_docs.missing_line("loss ... workers", printed))
        self.assertEqual("loss 0.25 of 3 ranks",
                         check_docs.missing_line("loss 0.25 of 3 ranks", printed))
        self.assertEqual("start", check_docs.missing_line("end\nstart", printed))

    def test_every_block_of_commands_of_this_tree_has_its_tag(self):
        blocks = [block for _, page in check_docs.pages() for block in page]
        self.assertGreater(sum(block.tag == "run" for block in blocks), 15)
        for _, page in check_docs.pages():
            self.assertEqual([], list(check_docs.faults_of_tags(page)))

    def test_a_command_that_fails_and_one_that_prints_something_else(self):
        runner = check_docs.Runner.__new__(check_docs.Runner)
        runner.build, runner.lab, runner.env = ROOT, True, dict(os.environ)
        runner.count = {"passed": 0, "failed": 0, "skipped": 0}
        text = ("<!-- run -->\n```\n$ cd . && echo 4 apples\n```\n"
                "<!-- prints -->\n```\n5 apples\n```\n"
                "<!-- prints -->\n```\n5 pears\n```\n"
                "<!-- run; exit: 3 -->\n```\ncd . && exit 3\n```\n"
                "<!-- run -->\n```\ncd nowhere-at-all\n```\n")
        blocks = check_docs.blocks_of("x.md", text)
        for block in blocks:
            block.options = check_docs.tag_options(block.said)
        runner.page(blocks)
        self.assertEqual({"passed": 3, "failed": 2, "skipped": 0}, runner.count)


if __name__ == "__main__":
    unittest.main(buffer=True)
