# SPDX-License-Identifier: Apache-2.0
"""`shoal model show --memory` beside what `shoal train` takes: the peak of a process that trains
resnet-18, less that of one that trains next to nothing with the same libraries."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import shoal

BATCH, MIB = 16, 1 << 20


@unittest.skipIf(shoal.is_sanitized(), "sanitizers take memory of their own")
class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="shoal-memory-")
        cls.data = os.path.join(cls.folder, "colours")
        r = shoal.run("data", "colours", "--out", cls.data, "--train", 100, "--test", 20)
        assert r.returncode == 0, r.stderr

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def peak(self, model, batch):
        """Of one worker's two steps and its look at the test split."""
        command = [shoal.SHOAL, "train", "--model", model, "--data", self.data, "--batch",
                   str(batch), "--steps", "2", "--quiet"]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        return usage.ru_maxrss * 1024

    def said(self, *args):
        r = shoal.run("model", "show", *args, "--memory", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)["memory"]

    def test_training_takes_what_was_said(self):
        said = self.said("resnet-18", "--batch", BATCH)
        self.assertEqual(said["total"], sum(said[part] for part in (
            "parameters", "gradients", "optimizer", "state", "input", "outputs", "kept", "slopes",
            "work")))  # fmt: skip
        small = self.said("resnet-8", "--batch", 1)
        taken = self.peak("resnet-18", BATCH) - self.peak("resnet-8", 1)
        expected = said["total"] - small["total"]
        self.assertGreater(taken, 0.9 * expected)
        self.assertLess(taken, 1.1 * expected + 16 * MIB)

    def test_the_table_says_the_same(self):
        r = shoal.run("model", "show", "lenet", "--memory", "--batch", 64, "--optimizer", "adamw")
        self.assertEqual(r.returncode, 0, r.stderr)
        said = self.said("lenet", "--batch", 64, "--optimizer", "adamw")
        self.assertIn("adamw", r.stdout)
        self.assertRegex(r.stdout, rf"peak +{said['total']} ")
        self.assertEqual((said["batch"], said["samples"]), (64, 221))

    def test_what_does_not_go_together_is_refused(self):
        for args, code, text in ((("lenet", "--batch", 3), 2, "belong to --memory"),
                                 (("lenet", "--memory", "--batch", 0), 2, "--batch"),
                                 (("lenet", "--memory", "--optimizer", "sgdd"), 2, "sgdd"),
                                 (("gpt-3", "--memory"), 77, "for planners")):  # fmt: skip
            r = shoal.run("model", "show", *args)
            self.assertEqual(r.returncode, code, (args, r.stderr))
            self.assertIn(text, r.stderr)


if __name__ == "__main__":
    unittest.main()
