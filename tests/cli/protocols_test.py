# SPDX-License-Identifier: Apache-2.0
"""Every protocol under shoal train, with a run folder: it ends, its checkpoint goes on, and
replicas that may differ are no fault."""
import os
import shutil
import tempfile
import unittest

import shoal

PROTOCOLS = (
    "all_reduce",
    "param_server",
    "param_server:servers=1,dedicated",
    "param_server:dedicated,sequential",
    "param_server:dedicated,backup=1",
    "param_server:dedicated,staleness=2",
    "param_server:dedicated,async",
    "local_sgd:every=4",
    "diloco:every=4",
    "noloco:every=4",
    "ripples:static",
    "ripples:smart,laggards",
    "ad_psgd",
    "d_psgd",
    "hop",
    "hop:backup=1",
    "hop:staleness=2",
)
# Those that code whole models have receives open all along, for which a checkpoint must not wait.
CODED = (("d_psgd", "topk"), ("hop:backup=1", "eden:bits=4"), ("ad_psgd", "expo"))


class Protocols(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="shoal-protocols-")
        cls.data = os.path.join(cls.folder, "digits")
        done = shoal.run("data", "digits", "--out", cls.data, "--train", 240, "--test", 40)
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def train(self, sync, out, *more):
        return shoal.run(
            "train", "--model", "mlp-small", "--data", self.data, "--workers", 2, "--batch", 20,
            "--sync", sync, "--out", out, "--no-eval", "--json", *more, timeout=40,
        )

    def test_each_ends_with_a_run_folder_and_goes_on_from_it(self):
        for sync, codec in (*((sync, "identity") for sync in PROTOCOLS), *CODED):
            with self.subTest(sync=sync, codec=codec):
                out = os.path.join(self.folder, f"{sync}-{codec}".replace(":", "-"))
                done = self.train(sync, out, "--codec", codec)  # six steps
                self.assertEqual(0, done.returncode, done.stderr)
                self.assertTrue(os.path.exists(os.path.join(out, "checkpoints", "latest")))
                done = self.train(sync, out, "--codec", codec, "--resume", out, "--epochs", 2)
                self.assertEqual(0, done.returncode, done.stderr)

    def test_others_go_on_and_start_with_servers(self):
        """A server that the run before had not has lost nothing; one that had another share says
        what differs."""
        out, dedicated = os.path.join(self.folder, "others"), "param_server:dedicated"
        done = self.train("all_reduce", out, "--codec", "eden:ef")
        self.assertEqual(0, done.returncode, done.stderr)
        for sync in (dedicated, dedicated + ",async", "param_server"):
            with self.subTest(start=sync):
                done = self.train(sync, f"{out}-{sync}", "--start", out)
                self.assertEqual(0, done.returncode, done.stderr)
        done = self.train(dedicated, out, "--codec", "eden:ef", "--resume", out, "--epochs", 2)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        apart = os.path.join(self.folder, "apart")
        done = self.train("all_reduce", apart, "--checkpoint-every", 3)
        self.assertEqual(0, done.returncode, done.stderr)
        done = self.train("diloco:every=3", apart, "--resume", apart, "--epochs", 2)
        self.assertEqual(0, done.returncode, done.stderr)  # which has no checkpoints between
        done = self.train("diloco:every=3", apart, "--resume", apart, "--epochs", 3,
                          "--checkpoint-every", 3)  # fmt: skip
        self.assertIn("--checkpoint-every does not go with", done.stderr)
        done = self.train("param_server", out, "--resume", out, "--epochs", 3)
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertIn(f"as --sync {dedicated} ", done.stderr)
        done = self.train(dedicated, f"{out}-param_server", "--resume", f"{out}-param_server",
                          "--epochs", 3)  # fmt: skip
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertEqual(3, done.stderr.count("divides it among ranks"))
        self.assertNotIn("use as many", done.stderr)

    def test_what_would_be_ignored_is_refused_before_anything_starts(self):
        for sync, codec in (
            ("hop:staleness=2", "topk"), ("d_psgd", "powersgd"), ("ad_psgd", "eden:bits=2"),
            ("ripples:smart", "eden:bits=2"),
        ):
            out = os.path.join(self.folder, "refused")
            for done in (
                self.train(sync, out, "--codec", codec),
                shoal.run("sim", "--sync", sync, "--workers", 4, "--codec", codec),
            ):
                self.assertEqual(2, done.returncode, done.stderr)
                self.assertIn(f"--sync {sync.split(':')[0]}", done.stderr)
                self.assertIn(f"--codec {codec.split(':')[0]}", done.stderr)
            done = self.train(sync, out, "--collective", "direct")
            self.assertEqual(2, done.returncode, done.stderr)
            self.assertIn("would make its last average only", done.stderr)
            self.assertFalse(os.path.exists(out))
        done = self.train("diloco", out, "--collective", "hierarchical:dims=2/2")
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertIn("does not go with 2 workers", done.stderr)
        done = shoal.run("sim", "--sync", "local_sgd", "--workers", 3, "--collective",
                         "hierarchical:dims=2/2")
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertIn("does not go with 3 workers", done.stderr)


if __name__ == "__main__":
    shoal.main()
