# SPDX-License-Identifier: Apache-2.0
"""Where a file finds no room: a sentence that names it, exit code 1, and what the training has
found is told all the same. A limit on the size of files stands for a full disk."""
import json
import os
import resource
import signal
import subprocess
import tempfile
import unittest

import shoal


def no_room():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))


class FullDisk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-full-"))
        cls.data = os.path.join(cls.folder, "data")
        r = shoal.run("data", "digits", "--out", cls.data, "--train", 240, "--test", 20)
        assert r.returncode == 0, r.stderr

    def train(self, *words, workers=2):
        argv = [shoal.SHOAL, "train", "--quiet", "--json", "--model", "mlp-small", "--data",
                self.data, "--batch", 8, "--workers", workers, *words]  # fmt: skip
        return subprocess.run([*map(str, argv)], capture_output=True, text=True, timeout=60,
                              preexec_fn=no_room, check=False)  # fmt: skip

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_a_trace_that_cannot_be_written_loses_no_result(self):
        for workers in (1, 2):
            with self.subTest(workers=workers):
                r = self.train("--trace", self.path("t.json"), workers=workers)
                self.assertEqual(1, r.returncode, r.stderr)
                self.assertIn("cannot write the trace to " + self.path("t.json"), r.stderr)
                self.assertEqual(30 // workers, json.loads(r.stdout)["steps"])
                self.assertFalse(os.path.exists(self.path("t.json")))

    def test_who_cannot_go_on_ends_all(self):
        """Nobody makes steps without the gradients of one who has ended."""
        r = self.train("--dump-gradients", self.path("dump"), "--epochs", 20)
        self.assertIn(r.returncode, (1, 5), r.stderr)
        self.assertEqual("", r.stdout)
        self.assertIn("step-000001.safetensors", r.stderr)
        self.assertNotIn("more ranges are ready", r.stderr)

    def test_a_checkpoint_that_finds_no_room_is_named(self):
        r = self.train("--out", self.path("run"))
        self.assertIn(r.returncode, (1, 5), r.stderr)
        self.assertEqual("", r.stdout)
        self.assertIn(self.path("run"), r.stderr)
        self.assertIn("File too large", r.stderr)


if __name__ == "__main__":
    shoal.main()
