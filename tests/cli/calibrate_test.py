# SPDX-License-Identifier: Apache-2.0
"""shoal calibrate: what it writes is a cluster that predict reads; fits recover known factors."""

import json
import os
import tempfile
import unittest

import shoal

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAB = os.path.join(ROOT, "examples", "clusters", "lab-4.json")


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

    def step(self, cluster, row):
        """Predicted seconds of a row."""
        return self.prediction(cluster, row)["iteration_s"]

    def prediction(self, cluster, row):
        """Of a row: a dictionary of options."""
        words = [word for name, value in row.items() for word in ("--" + name, value)]
        got = shoal.run("predict", "--cluster", cluster, "--json", *words)
        self.assertEqual(got.returncode, 0, got.stderr)
        return json.loads(got.stdout)

    def fit(self, folder, rows, seconds, *more):
        """Fit examples/clusters/lab-4.json to rows; the file, and what the command says of it."""
        csv, out = os.path.join(folder, "rows.csv"), os.path.join(folder, "fitted.json")
        with open(csv, "w", encoding="utf-8") as file:
            file.write(",".join([*rows[0], "seconds"]) + "\n")
            for row, measured in zip(rows, seconds):
                file.write(",".join(map(str, [*row.values(), repr(measured)])) + "\n")
        got = shoal.run("calibrate", "--fit", csv, "--cluster", LAB, "--out", out, *more)
        self.assertEqual(got.returncode, 0, got.stderr)
        return out, got.stdout

    ROWS = [
        {"model": model, "workers": workers, "batch": batch}
        for model in ("lenet", "mlp", "vgg-mini")
        for workers in (1, 2, 4)
        for batch in (16, 128)
    ]

    def test_what_is_reported_is_what_the_file_gives(self):
        # measured steps that no factors reach: each off by up to a half, by no rule
        seconds = [
            self.step(LAB, row) * (1 + 0.5 * ((7 * i) % 5) / 4) for i, row in enumerate(self.ROWS)
        ]
        with tempfile.TemporaryDirectory() as folder:
            out, text = self.fit(folder, self.ROWS, seconds, "--hold", 0.3, "--seed", 5, "--json")
            fit = json.loads(text)
            errors = [abs(self.step(out, row) / s - 1) for row, s in zip(self.ROWS, seconds)]
            held = [errors[i] for i in fit["held"]]
            fitted = [e for i, e in enumerate(errors) if i not in fit["held"]]
            self.assertEqual((len(held), len(fitted), fit["seed"]), (5, 13, 5))
            for name, want in (
                ("mean_error", sum(fitted) / 13),
                ("worst_error", max(fitted)),
                ("held_mean_error", sum(held) / 5),
                ("held_worst_error", max(held)),
            ):
                self.assertAlmostEqual(fit[name], want, places=8, msg=name)
            self.assertGreater(fit["mean_error"], 0.01)
            _, again = self.fit(folder, self.ROWS, seconds, "--hold", 0.3, "--seed", 5, "--json")
            _, other = self.fit(folder, self.ROWS, seconds, "--hold", 0.3, "--seed", 6, "--json")
            self.assertEqual(text, again)
            self.assertNotEqual(fit["held"], json.loads(other)["held"])
            _, text = self.fit(folder, self.ROWS, seconds)
            self.assertRegex(text, r"fitted to 13 rows; mean error \d+\.\d\d %")
            self.assertRegex(text, r"held out .--seed 1.: 5 rows; mean error \d+\.\d\d %")

    def test_the_interval_holds_rows_that_were_not_fitted(self):
        """The rule itself: unit/plan/fit_test. Here: it is in the file, predict goes by it."""
        seconds = [
            self.step(LAB, row) * (1 + 0.5 * ((7 * i) % 5) / 4) for i, row in enumerate(self.ROWS)
        ]
        inside, wide = [], 0
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(3, 9):
                out, text = self.fit(folder, self.ROWS, seconds, "--seed", seed, "--json")
                for i in json.loads(text)["held"]:
                    p = self.prediction(out, self.ROWS[i])
                    inside.append(p["low_s"] <= seconds[i] <= p["high_s"])
                    wide = max(wide, p["high_s"] / p["low_s"])
        self.assertEqual(len(inside), 6 * 5)
        self.assertGreaterEqual(sum(inside), 24)
        self.assertLess(wide, 3)  # rows are off by up to a half: an interval that says something

    def test_a_known_cluster_is_found_again(self):
        with open(LAB, encoding="utf-8") as file:
            known = json.load(file)
        a = known["accelerators"][0]
        for table in a["efficiency"].values():
            table["smooth"] = [[size, share / 1.4] for size, share in table["smooth"]]
        a["efficiency"]["memory"] = [[0, 1 / 1.7]]
        a["efficiency"]["vector"] = [[0, 1 / 1.7]]
        known["hosts"][0].update(nic="125mbit", latency_us=100)
        known["overhead"].update(operation_us=300, round_us=120)
        with tempfile.TemporaryDirectory() as folder:
            truth = os.path.join(folder, "known.json")
            with open(truth, "w", encoding="utf-8") as file:
                json.dump(known, file)
            seconds = [self.step(truth, row) for row in self.ROWS]
            out, text = self.fit(folder, self.ROWS, seconds, "--json")
            fit = json.loads(text)
            self.assertEqual(len(fit["held"]), 5)
            self.assertEqual((fit["at_bound"], fit["not_seen"]), ([], ["inside"]))
            for name, want in (("matrix", 1.4), ("memory", 1.7), ("network", 2)):
                self.assertAlmostEqual(fit[name], want, delta=0.01 * want)
            for row, measured in zip(self.ROWS, seconds):
                self.assertAlmostEqual(self.step(out, row) / measured, 1, delta=0.01)

    def test_the_data_sheet_is_not_left_without_a_word(self):
        seconds = [0.4 * self.step(LAB, row) for row in self.ROWS]
        with tempfile.TemporaryDirectory() as folder:
            out, text = self.fit(folder, self.ROWS, seconds)
            for words in (
                r"matrix products +times x 0\.8500: the rows ask for more than the data sheet has",
                r'links between hosts +times x 1\.0000: .* look at .*"nic" in .*lab-4.json',
                r"links inside hosts +times x 1.0000: no row, or one of many alone,",
            ):
                self.assertRegex(text, words)
            with open(out, encoding="utf-8") as file:
                cluster = json.load(file)
            for table in cluster["accelerators"][0]["efficiency"].values():
                steps = table["smooth"] if isinstance(table, dict) else table
                self.assertTrue(all(0 < share <= 1 for _, share in steps))
            self.assertEqual(cluster["hosts"][0]["nic"], "31250000B/s")

    def test_errors(self):
        with tempfile.TemporaryDirectory() as folder:
            csv = os.path.join(folder, "bad.csv")
            with open(csv, "w", encoding="utf-8") as file:
                file.write("model,warp,seconds\nlenet,3,1\n")
            got = shoal.run("calibrate", "--fit", csv, "--cluster", LAB)
            self.assertEqual(got.returncode, 1)
            self.assertIn(":2: warp", got.stderr)
            for text, code, words in (
                ("model,cluster,seconds\nlenet,x,1\n", 1, ":1: a column cluster"),
                ("model,workers,seconds\n\nlenet,99,1\n", 1, ":3: 99 workers"),
                ("model,seconds\nlenet,1\n", 2, "do not tell the causes apart"),
            ):
                with open(csv, "w", encoding="utf-8") as file:
                    file.write(text)
                got = shoal.run("calibrate", "--fit", csv, "--cluster", LAB)
                self.assertEqual(got.returncode, code, got.stderr)
                self.assertIn(words, got.stderr)
            got = shoal.run("calibrate", "--fit", csv, "--cluster", LAB, "--hold", 1)
            self.assertEqual(got.returncode, 2)
            self.assertIn("--hold 1: wanted a share", got.stderr)
        got = shoal.run("calibrate", "--seed", 3)
        self.assertEqual(got.returncode, 2)
        self.assertIn("for --fit", got.stderr)
        self.assertEqual(shoal.run("calibrate", "--ranks", 0).returncode, 2)
        self.assertIn("Example", shoal.run("calibrate", "--help").stdout)


if __name__ == "__main__":
    shoal.main()
