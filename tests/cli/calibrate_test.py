# SPDX-License-Identifier: Apache-2.0
"""shoal calibrate: what it writes is a cluster that predict reads; fits recover known factors."""

import json
import os
import tempfile
import unittest

import shoal

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
A100 = os.path.join(ROOT, "examples", "clusters", "a100-80g.json")


class Calibrate(unittest.TestCase):
    def test_measures_and_predicts(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "here.json")
            got = shoal.run(
                "calibrate",
                "--ranks",
                2,
                "--models",
                "mlp-small",
                "--batches",
                "16",
                "--budget-ms",
                2,
                "--out",
                path,
            )
            self.assertEqual(got.returncode, 0, got.stderr)
            with open(path, encoding="utf-8") as file:
                cluster = json.load(file)
            self.assertEqual(len(cluster["links"]), 2)
            self.assertEqual(cluster["profiles"][0]["model"], "mlp-small")
            self.assertEqual(len(cluster["profiles"][0]["ready_us"]), 3)
            self.assertGreater(cluster["accelerators"][0]["flops"], 1e8)
            for kind in ("matrix", "conv"):
                table = cluster["accelerators"][0]["efficiency"][kind]["smooth"]
                self.assertTrue(all(0 < share <= 1 for _, share in table))
            self.assertTrue(all(c["ratio"] == 2 for c in cluster["codecs"]))
            got = shoal.run(
                "predict", "--model", "mlp-small", "--batch", 16, "--cluster", path, "--json"
            )
            self.assertEqual(got.returncode, 0, got.stderr)
            p = json.loads(got.stdout)
            compute = cluster["profiles"][0]["compute_us"] * 1e-6
            self.assertAlmostEqual(p["forward_s"] + p["backward_s"], compute, delta=0.01 * compute)

    def test_fits_known_factors(self):
        rows = [
            ("megatron-22b", 8, 1, 4, 4),
            ("megatron-22b", 8, 1, 8, 1),
            ("megatron-175b", 64, 8, 64, 1),
            ("megatron-1t", 512, 64, 512, 1),
        ]
        header = "model,workers,tensor,pipeline,batch,microbatch,recompute,seconds\n"
        with tempfile.TemporaryDirectory() as folder:
            csv, out = os.path.join(folder, "rows.csv"), os.path.join(folder, "fitted.json")
            with open(csv, "w", encoding="utf-8") as file:
                file.write(header)
                for model, workers, pipeline, batch, micro in rows:
                    args = [
                        "--model",
                        model,
                        "--cluster",
                        A100,
                        "--workers",
                        workers,
                        "--tensor",
                        8,
                        "--pipeline",
                        pipeline,
                        "--batch",
                        batch,
                        "--microbatch",
                        micro,
                        "--recompute",
                        "full",
                        "--json",
                    ]
                    c = json.loads(shoal.run("predict", *args).stdout)["causes"]
                    seconds = (
                        1.2 * c["matrix"]
                        + 0.9 * (c["vector"] + c["memory"])
                        + 0.5 * c["network"]
                        + c["fixed"]
                    )
                    file.write(f"{model},{workers},8,{pipeline},{batch},{micro},full,{seconds}\n")
            got = shoal.run("calibrate", "--fit", csv, "--cluster", A100, "--out", out, "--json")
            self.assertEqual(got.returncode, 0, got.stderr)
            fit = json.loads(got.stdout)
            for name, want in (("matrix", 1.2), ("memory", 0.9), ("network", 0.5)):
                self.assertAlmostEqual(fit[name], want, places=4)
            self.assertLess(fit["worst_error"], 1e-6)
            with open(out, encoding="utf-8") as file:
                table = json.load(file)["accelerators"][0]["efficiency"]["matrix"]
            self.assertAlmostEqual(table[0][1], 0.95 / 1.2, places=4)

    def test_errors(self):
        with tempfile.TemporaryDirectory() as folder:
            csv = os.path.join(folder, "bad.csv")
            with open(csv, "w", encoding="utf-8") as file:
                file.write("model,warp,seconds\nlenet,3,1\n")
            got = shoal.run("calibrate", "--fit", csv, "--cluster", A100)
            self.assertEqual(got.returncode, 1)
            self.assertIn(":2: warp", got.stderr)
        self.assertEqual(shoal.run("calibrate", "--ranks", 0).returncode, 2)
        self.assertIn("Example", shoal.run("calibrate", "--help").stdout)


if __name__ == "__main__":
    shoal.main()
