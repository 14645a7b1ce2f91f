# SPDX-License-Identifier: Apache-2.0
"""The figures that users are told: bytes against the dense exchange, by arithmetic of its own."""
import json
import os
import tempfile
import unittest

import shoal
import train_test

HIDDEN = 24
PARAMS = train_test.SIDE**2 * HIDDEN + HIDDEN + train_test.CLASSES * (HIDDEN + 1)


class Bytes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="shoal-figures-")
        cls.folder = cls.temporary.name
        train_test.write_data(cls.folder)
        cls.model = os.path.join(cls.folder, "tiny.json")
        with open(cls.model, "w", encoding="ascii") as f:
            json.dump(
                {
                    "name": "tiny",
                    "input": [1, train_test.SIDE, train_test.SIDE],
                    "layers": [
                        "flatten", f"dense:out={HIDDEN}", "tanh", f"dense:out={train_test.CLASSES}"
                    ],
                },
                f,
            )  # fmt: skip

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def train(self, *args):
        r = shoal.run("train", "--epochs", 1, "--no-eval", "--json", *args)
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout.strip().splitlines()[-1])

    def tiny(self, *args):
        return self.train("--model", self.model, "--data", self.folder, "--batch", 8, *args)

    def check(self, result, elements):
        self.assertEqual(result["params"], PARAMS)
        self.assertAlmostEqual(result["raw_bytes_per_step"] / (4 * elements), 1, delta=1e-4)
        self.assertAlmostEqual(
            result["ratio"],
            result["raw_bytes_per_step"] / result["payload_bytes_per_step"],
            delta=1e-6,
        )

    def test_the_dense_exchange_of_the_same_collective(self):
        """All but a rank's own share goes to whoever sums it and back, or to all with gather."""
        both = 2 * 3 * PARAMS
        for args, elements in (
            (["--collective", "ring"], both),
            (["--codec", "terngrad"], both),
            (["--codec", "powersgd"], both),
            (["--codec", "blocks:block=32,k=0.1"], both),
            (["--codec", "blocks:block=32", "--collective", "omnireduce:block=32"], both),
            (["--collective", "omnireduce:block=16", "--codec", "identity"], both),
            (["--collective", "auto:block=16"], both),
            (["--collective", "gather", "--codec", "topk"], 4 * 3 * PARAMS),
            (["--sync", "local_sgd:every=1", "--collective", "ring"], both),
        ):
            with self.subTest(args):
                self.check(self.tiny("--workers", 4, *args), elements)

    def test_simulated_workers_too(self):
        for args in ([], ["--codec", "fp16"], ["--collective", "omnireduce"],
                     ["--codec", "powersgd"], ["--codec", "blocks"]):  # fmt: skip
            with self.subTest(args):
                self.check(self.tiny("--simulate", 4, *args), 2 * 3 * PARAMS)

    def test_blocks_that_stay_out_count(self):
        """Rows of an embedding that no sample names are most of the recommender."""
        clicks = os.path.join(self.folder, "clicks")
        made = shoal.run("data", "clicks", "--out", clicks, "--train", 1600, "--test", 100)
        self.assertEqual(made.returncode, 0, made.stderr)
        r = self.train("--model", "recommender", "--data", clicks, "--workers", 4, "--batch", 32,
                       "--steps", 5, "--collective", "omnireduce:block=64")  # fmt: skip
        self.assertAlmostEqual(r["raw_bytes_per_step"] / (8 * 3 * r["params"]), 1, delta=1e-4)
        self.assertGreater(r["ratio"], 20)


if __name__ == "__main__":
    shoal.main()
