# SPDX-License-Identifier: Apache-2.0
"""shoal bench and shoal data: tables, JSON, right sums, bad input."""
import json
import os
import tempfile
import unittest

import shoal


class Bench(unittest.TestCase):
    def rows(self, *args):
        r = shoal.run("bench", "allreduce", "--json", "-n", 2, *args)
        self.assertEqual(r.returncode, 0, r.stderr)
        return [json.loads(line) for line in r.stdout.splitlines()]

    def test_sizes_and_sums(self):
        rows = self.rows("--ranks", 3, "-b", "4", "-e", "1M", "-f", 64)
        self.assertEqual([r["bytes"] for r in rows], [4, 256, 16384, 1048576])
        for r in rows:
            self.assertEqual((r["wrong"], r["ranks"], r["relative_error"]), (0, 3, 0))
            self.assertGreater(r["time_us"], 0)
        # a ring sends 2 (n-1)/n of the bytes, and at most one header per chunk more
        self.assertAlmostEqual(
            rows[-1]["wire_bytes_per_rank"], 1048576 * 4 / 3, delta=0.02 * 1048576
        )

    def test_collectives_and_codecs(self):
        for extra in (
            ["-c", "halving_doubling"],
            ["-c", "direct"],
            ["-c", "gather"],
            ["-c", "worker_aggregator"],
            ["-t", "tcp:shm=off,lanes=2"],
        ):
            for r in self.rows("--ranks", 4, "-s", "64k", *extra):
                self.assertEqual(r["wrong"], 0, extra)
        (row,) = self.rows("--ranks", 2, "-s", "256k", "-k", "fp16")
        self.assertLess(row["relative_error"], 2e-3)
        self.assertLess(row["wire_bytes_per_rank"], 0.52 * 262144)

    def test_sparse_beside_its_model(self):
        for extra, aggregators in (
            (["-c", "omnireduce"], 0),
            (["-c", "omnireduce", "--overlap"], 0),
            (["-c", "omnireduce:arrival,dedicated", "--aggregators", 2], 2),
        ):
            (row,) = self.rows("--ranks", 3, "-s", "1M", "-d", "0.1", *extra)
            self.assertEqual((row["wrong"], row["ranks"]), (0, 3), extra)
            self.assertEqual(row["aggregators"], aggregators)
            self.assertAlmostEqual(row["density"], 0.1, delta=0.03)
            union = row["density"] if "--overlap" in extra else 1 - 0.9**3
            self.assertAlmostEqual(row["union"], union, delta=0.04)
            # what the busiest rank sent is what the model counts for the busiest link, unless that
            # is a daemon's: two daemons send more to three ranks than a rank receives
            if aggregators == 0:
                self.assertAlmostEqual(
                    row["wire_bytes_per_rank"] / row["model_link_bytes"], 1, delta=0.05
                )
            else:
                self.assertLess(row["wire_bytes_per_rank"], row["model_link_bytes"])
        (row,) = self.rows("--ranks", 3, "-s", "64k", "-d", "0.1")
        self.assertEqual(row["wrong"], 0)
        self.assertNotIn("ceiling_us", row)

    def test_sums_over_datagrams(self):
        for extra in (
            ["-c", "switchml"],
            ["-c", "switchml:sparse,dedicated", "--aggregators", 2, "-d", "0.2"],
        ):
            (row,) = self.rows("--ranks", 3, "-s", "256k", *extra)
            self.assertEqual((row["wrong"], row["ranks"]), (0, 3), extra)
            if "dedicated" not in extra[1]:  # packets count: 2 (P-1)/P of the buffer, and heads
                self.assertGreater(row["wire_bytes_per_rank"], 4 / 3 * 256 * 1024)

    def test_table(self):
        r = shoal.run(
            "bench", "allreduce", "--ranks", 2, "-s", "4k", "-n", 1, "--line-rate", "1gbit"
        )
        self.assertEqual(r.returncode, 0, r.stderr)
        for column in ("algbw", "busbw", "#wrong", "line"):
            self.assertIn(column, r.stdout)

    def test_bad_input(self):
        for args, text in (
            ([], "which benchmark"),
            (["fly"], "unknown benchmark 'fly'"),
            (["allreduce", "-s", "big"], "--size 'big'"),
            (["allreduce", "-k", "zip"], "identity"),
            (["allreduce", "-d", "1.5"], "--density '1.5'"),
            (["allreduce", "-c", "omnireduce", "-k", "fp16"], "adds plain floats only"),
            (["allreduce", "-c", "switchml", "-k", "fp16"], "integers of a fixed unit"),
            (["allreduce", "-b", "1M", "-e", "1k"], "larger than"),
            (["allreduce", "--lab", "loss=2"], "a percentage up to 50%"),
        ):
            r = shoal.run("bench", *args)
            self.assertEqual(r.returncode, 2, (args, r.stderr))
            self.assertIn(text, r.stderr)


class Codec(unittest.TestCase):
    ONE = ("--place", "cache", "--rounds", 1)

    def rows(self, *args):
        r = shoal.run("bench", "codec", "--json", *self.ONE, *args)
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)["rows"]

    def test_errors_are_those_of_the_codec(self):
        rows = self.rows("-k", "fp16", "-k", "terngrad:clip=0", "-d", "gauss", "-d", "sparse")
        self.assertEqual(
            [(r["codec"], r["data"]) for r in rows],
            [(c, d) for d in ("gauss", "sparse") for c in ("fp16", "terngrad:clip=0")],
        )
        self.assertLess(rows[0]["rel_l2"], 4e-4)
        self.assertGreater(rows[0]["cosine"], 0.9999)
        self.assertEqual([r["wire_ratio"] for r in rows], [2, 16, 2, 16])
        self.assertGreater(rows[1]["rel_l2"], 1)
        for r in rows:
            for operation in ("copy", "encode", "decode", "decode_add", "ring_step"):
                self.assertGreater(r[operation]["gb_s"], 0)
        self.assertIn("measure", rows[1])
        self.assertNotIn("measure", rows[0])

    def test_every_codec_has_a_row(self):
        r = shoal.run("bench", "codec", *self.ONE, "-d", "laplace")
        self.assertEqual(r.returncode, 0, r.stderr)
        for name in ("identity", "fp16", "bf16", "inceptionn", "terngrad", "eden"):
            self.assertIn(f"\n{name} ", r.stdout)

    def test_gradients_of_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            data, out = os.path.join(folder, "digits"), os.path.join(folder, "g")
            r = shoal.run("data", "digits", "--out", data, "--train", 128, "--test", 20)
            if r.returncode == shoal.SKIP:
                self.skipTest(r.stderr)
            r = shoal.run(
                "train", "--data", data, "--model", "lenet", "--quiet", "--no-eval",
                "--dump-gradients", out, "--dump-every", 2,
            )  # fmt: skip
            self.assertEqual(r.returncode, 0, r.stderr)
            names = sorted(os.listdir(out))
            self.assertEqual(names, ["step-000001.safetensors", "step-000002.safetensors"])
            (row,) = self.rows("-k", "terngrad", "-i", os.path.join(out, names[0]))
            self.assertEqual((row["elements"], row["place"]), (431080, "input"))
            self.assertGreater(row["cosine"], 0.1)

    def test_bad_input(self):
        for args, text in (
            (["-k", "zip"], "identity"),
            (["-d", "noise"], "noise"),
            (["-i", "/nonexistent"], "/nonexistent"),
            (["-s", "-1"], "-1"),
        ):
            r = shoal.run("bench", "codec", *args)
            self.assertIn(r.returncode, (1, 2), (args, r.stderr))
            self.assertIn(text, r.stderr)


class Circulant(unittest.TestCase):
    def test_table(self):
        args = ["--shape", "64x96", "--block", 8, "--block", 5, "--batch", 3, "--rounds", 1]
        r = shoal.run("bench", "circulant", *args, "--training", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        table = json.loads(r.stdout)
        even, odd = table["rows"]
        self.assertEqual((even["weights"], even["storage_ratio"]), (64 * 96 / 8, 8))
        self.assertEqual(odd["weights"], 13 * 20 * 5)
        self.assertIsNone(odd["fftw_us"])
        for row in table["rows"]:
            self.assertLess(row["rel_l2"], 2e-6)
            self.assertGreater(row["train_ours_us"], 0)
        r = shoal.run("bench", "circulant", *args)
        self.assertEqual(len([x for x in r.stdout.splitlines() if x[0] != "#"]), 2)

    def test_convolutions(self):
        args = ["--conv", "6,9,8,10,3,1", "--block", 4, "--batch", 3, "--rounds", 1]
        r = shoal.run("bench", "circulant", *args, "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        (row,) = json.loads(r.stdout)["convolutions"]
        self.assertEqual((row["weights"], row["batch"], row["pad"]), (9 * 2 * 3 * 4, 3, 1))
        self.assertLess(row["rel_l2"], 2e-6)
        for key in ("dense_us", "ours_us", "train_dense_us", "train_ours_us"):
            self.assertGreater(row[key], 0)
        r = shoal.run("bench", "circulant", *args)
        self.assertEqual(len([x for x in r.stdout.splitlines() if x[0] != "#"]), 1)
        r = shoal.run("bench", "circulant", "--conv", "6,2,2,10,5,0", "--batch", 1)
        self.assertEqual(r.returncode, 2, r.stderr)
        self.assertIn("does not fit", r.stderr)

    def test_bad_input(self):
        for args, text in (
            (["--shape", "64"], "'64' is not taken"),
            (["--block", "0"], "'0' is not taken"),
            (["--conv", "3,8,8"], "'3,8,8' is not taken"),
            (["--rounds", "x"], "'x' is not taken"),
        ):
            r = shoal.run("bench", "circulant", *args)
            self.assertEqual(r.returncode, 2, r.stderr)
            self.assertIn(text, r.stderr)
        r = shoal.run("bench", "circulant", "--help")
        self.assertIn("Example:", r.stdout)


class Data(unittest.TestCase):
    def test_digits(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "digits")
            r = shoal.run("data", "digits", "--out", out, "--train", 60, "--test", 20)
            if r.returncode == shoal.SKIP:
                self.skipTest(r.stderr)
            self.assertEqual(r.returncode, 0, r.stderr)
            with open(os.path.join(out, "train-images-idx3-ubyte"), "rb") as f:
                data = f.read()
            self.assertEqual(data[:16].hex(), "00000803" "0000003c" "0000001c" "0000001c")
            self.assertEqual(len(data), 16 + 60 * 784)
            again = os.path.join(folder, "again")
            shoal.run("data", "digits", "--out", again, "--train", 60, "--test", 20)
            with open(os.path.join(again, "train-images-idx3-ubyte"), "rb") as f:
                self.assertEqual(f.read(), data)

    def test_colours(self):
        with tempfile.TemporaryDirectory(suffix=' "quoted"') as folder:
            sets = []
            for number, seed in enumerate((3, 3, 4)):
                out = os.path.join(folder, str(number))
                r = shoal.run(
                    *("data", "colours", "--out", out, "--train", 60, "--test", 20),
                    *("--seed", seed, "--json"),
                )
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertEqual(json.loads(r.stdout), {"dir": out, "images": 80})
                with open(os.path.join(out, "data_batch_5.bin"), "rb") as f:
                    sets.append(f.read())
            self.assertEqual(len(sets[0]), 12 * 3073)
            self.assertEqual(sets[0], sets[1])
            self.assertNotEqual(sets[0], sets[2])
            r = shoal.run(
                *("train", "--model", "cifarnet", "--data", out, "--batch", 4, "--steps", 2),
                *("--simulate", 2, "--codec", "terngrad", "--json", "--quiet"),
            )
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertEqual(json.loads(r.stdout)["steps"], 2)

    def test_bad_input(self):
        for args, text in (
            (["digits"], "--out"),
            (["colours"], "--out"),
            (["colours", "--out", "x", "--train", "0"], "--train '0'"),
            (["dogits", "--out", "x"], "unknown data set"),
            (["digits", "--out", "x", "--hard", "9"], "--hard '9'"),
        ):
            r = shoal.run("data", *args)
            self.assertEqual(r.returncode, 2, r.stderr)
            self.assertIn(text, r.stderr)
        self.assertEqual(
            shoal.run("data", "digits", "--out", "/proc/none", "--train", 1).returncode, 1
        )


if __name__ == "__main__":
    shoal.main()
