# SPDX-License-Identifier: Apache-2.0
"""shoal train: workers of its own, codecs, protocols, resume, failures, bad input."""
import glob
import json
import os
import shutil
import struct
import tempfile
import unittest

import shoal
import tensor_file

SIDE, CLASSES = 6, 4


def write_data(folder, train=200, test=60):
    """MNIST's files with stripes, from a small generator of our own."""
    state = 12345
    for images, labels, count in (
        ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", train),
        ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", test),
    ):
        pixels, kinds = bytearray(), bytearray()
        for _ in range(count):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            kind = (state >> 33) % CLASSES
            kinds.append(kind)
            for at in range(SIDE * SIDE):
                state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
                pixels.append((90 if at // SIDE == kind else 0) + (state >> 33) % 120)
        with open(os.path.join(folder, images), "wb") as f:
            f.write(struct.pack(">IIII", 0x803, count, SIDE, SIDE) + pixels)
        with open(os.path.join(folder, labels), "wb") as f:
            f.write(struct.pack(">II", 0x801, count) + kinds)


def read_weights(out):
    with open(os.path.join(out, "checkpoints", "latest"), encoding="ascii") as f:
        newest = f.read().strip()
    tensors, _ = tensor_file.parts(os.path.join(out, "checkpoints", newest, "common.safetensors"))
    return {name: raw for name, (_, _, raw) in tensors.items()}


class Train(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="shoal-train-")
        write_data(cls.folder)
        cls.model = os.path.join(cls.folder, "tiny.json")
        with open(cls.model, "w", encoding="ascii") as f:
            json.dump(
                {
                    "name": "tiny",
                    "input": [1, SIDE, SIDE],
                    "layers": ["flatten", "dense:out=24", "tanh", f"dense:out={CLASSES}"],
                },
                f,
            )

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def train(self, *args, code=0, **kwargs):
        usual = {"--model": self.model, "--data": self.folder, "--batch": 8, "--epochs": 2}
        usual["--lr"] = 0.05
        r = shoal.run("train", *shoal.usual(usual, args), *args, **kwargs)
        self.assertEqual(r.returncode, code, r.stderr)
        return r

    def result(self, *args, **kwargs):
        return json.loads(self.train(*args, "--json", **kwargs).stdout.strip().splitlines()[-1])

    def out(self, name):
        return os.path.join(self.folder, name)

    def test_circulant_layers_send_fewer_gradients(self):
        """The hidden layer's matrix has 4 times fewer weights, and as many times fewer bytes."""
        dense = self.result("--workers", 2)
        small = self.result("--workers", 2, "--circulant", "k=4")
        hidden, rest = SIDE * SIDE * 24, 24 + CLASSES * 25
        self.assertEqual(dense["params"], hidden + rest)
        self.assertEqual(small["params"], hidden // 4 + rest)
        self.assertEqual(
            small["raw_bytes_per_step"] / dense["raw_bytes_per_step"],
            small["params"] / dense["params"],
        )
        self.assertGreater(small["test_accuracy"], 50)
        coded = self.result("--workers", 2, "--circulant", "k=4", "--codec", "fp16")
        self.assertLess(coded["payload_bytes_per_step"], small["payload_bytes_per_step"])
        r = self.train("--circulant", "k=1", code=2)
        self.assertIn("k=8,conv=4", r.stderr)

    def test_what_was_not_tested_is_not_printed(self):
        seldom = self.train("--epochs", 2, "--eval-every", 2).stdout.splitlines()
        epochs = [line for line in seldom if line.startswith("epoch ")]
        self.assertEqual(["accuracy" in line for line in epochs], [False, True])
        never = self.train("--no-eval").stdout
        self.assertIn("train loss", never)
        for text in (*seldom, never):
            self.assertNotIn("nan", text)

    def test_admm_ends_in_a_block_circulant_model(self):
        """Three trainings in one command, on one worker and on two."""
        for workers in (1, 2):
            out = self.out(f"admm{workers}")
            r = self.train(
                "--workers", workers, "--circulant", "k=4", "--out", out,
                "--admm", "dense=1,iterations=3,rho=0.1", "--eval-every", 2,
                "--dump-gradients", out + "-dumps",
            )  # fmt: skip
            self.assertIn("towards block-circulant", r.stdout)
            gaps = [float(line.split()[-1]) for line in r.stdout.splitlines() if "gap" in line]
            self.assertEqual(len(gaps), 3)
            self.assertLess(gaps[-1], gaps[0])
            for part in ("dense", "admm", "."):
                self.assertTrue(os.path.exists(os.path.join(out, part, "checkpoints", "latest")))
                self.assertTrue(os.path.exists(os.path.join(out + "-dumps", part,
                                                            "step-000001.safetensors")))
        small = self.result("--circulant", "k=4", "--start", os.path.join(out, "dense"))
        self.assertEqual(small["params"], SIDE * SIDE * 24 // 4 + 24 + CLASSES * 25)
        for wrong, needs in (
            (["--admm", "dense=1"], "--circulant k=N"),
            (["--admm", "rho=1", "--circulant", "k=4"], "--out DIR"),
        ):
            self.assertIn(f"without {needs}", self.train(*wrong, code=2).stderr)
        r = self.train("--admm", "rhu=1", "--circulant", "k=4", "--out", out + "x", code=2)
        self.assertIn("rho", r.stderr)

    def test_admm_takes_convolutions(self):
        """Their gap closes as that of matrices does; training begins with the projection."""
        out = self.out("admm-conv")
        model = os.path.join(self.folder, "conv.json")
        conv = "conv:out=8,kernel=3,pad=1"
        layers = [conv, "relu", conv, "relu", "maxpool", f"dense:out={CLASSES}"]
        with open(model, "w", encoding="ascii") as f:
            json.dump({"name": "c", "input": [1, SIDE, SIDE], "layers": layers}, f)
        words = ["--model", model, "--circulant", "k=2,conv=4"]
        r = self.train(*words, "--out", out, "--admm", "dense=1,iterations=3,rho=0.1")
        gaps = [float(line.split()[-1]) for line in r.stdout.splitlines() if "gap" in line]
        self.assertEqual(len(gaps), 3)
        self.assertLess(gaps[-1], gaps[0])
        small = self.result(*words, "--start", os.path.join(out, "dense"))
        last = CLASSES * (8 * (SIDE // 2) ** 2 + 1)
        self.assertEqual(small["params"], 8 * 9 + 8 + 8 * 8 * 9 // 4 + 8 + last)

    def test_exchange_makes_no_difference_to_the_result(self):
        """Any lossless way to sum gives the weights of any other: same seed, same workers, float32
        sums of few."""
        weights = {}
        ways = {
            "ring": [],
            "again": [],
            "chunk": ["--chunk", "256"],
            "late": ["--no-overlap"],
            "lanes": ["--transport", "tcp:lanes=3,shm=off"],
            "bucket": ["--bucket", "1k"],
        }
        for name, extra in ways.items():
            out = self.out(name)
            r = self.result("--workers", 2, "--out", out, *extra)
            self.assertEqual((r["workers"], r["steps"], r["skipped"]), (2, 26, 0))
            self.assertGreater(r["test_accuracy"], 60)
            weights[name] = read_weights(out)
        for name in ways:
            self.assertEqual(weights[name], weights["ring"], name)

    def test_protocols_and_collectives(self):
        want = self.result("--workers", 3)
        for extra in (
            ["--sync", "param_server"],
            ["--sync", "param_server:servers=1,dedicated"],
            ["--sync", "param_server:servers=2"],
            ["--collective", "halving_doubling"],
            ["--collective", "direct"],
            ["--collective", "ring:both"],
            ["--collective", "worker_aggregator:servers=2"],
        ):
            r = self.result("--workers", 3, *extra)
            self.assertAlmostEqual(r["test_loss"], want["test_loss"], delta=1e-3, msg=str(extra))
            self.assertEqual(r["workers"], 3)

    def test_protocols_in_the_background(self):
        """Replicas are not equal and operations end when they end: the result is whole all the
        same, and a step's exchange is no longer than the run."""
        for sync in ("d_psgd", "hop:backup=1", "ad_psgd", "diloco:every=4"):
            r = self.result("--workers", 4, "--sync", sync)
            self.assertGreater(r["test_accuracy"], 40, sync)
            self.assertLessEqual(r["worker_accuracy_min"], r["worker_accuracy_max"])
            self.assertLessEqual(r["comm_ms"], r["seconds"] * 1000, sync)

    def test_codecs_send_less(self):
        for codec, least in (("fp16", 1.99), ("bf16", 1.99), ("inceptionn", 1.2)):
            r = self.result("--workers", 2, "--codec", codec)
            self.assertGreater(r["ratio"], least, codec)
            self.assertGreater(r["test_accuracy"], 60, codec)

    def test_resume_is_bit_identical_with_residuals(self):
        codec = ["--workers", 2, "--codec", "inceptionn:ef"]
        self.train(*codec, "--out", self.out("whole"))
        self.train(*codec, "--out", self.out("runs/half"), "--steps", 9, "--checkpoint-every", 9)
        r = self.train(*codec, "--resume", self.out("runs/half"), "--steps", 100)
        self.assertIn("epoch 2/2", r.stdout)
        # the schedule is constant, so a run cut at step 9 and one of 26 steps take the same steps
        self.assertEqual(read_weights(self.out("whole")), read_weights(self.out("runs/half")))
        self.assertEqual(len(glob.glob(self.out("runs/half") + "/metrics*.jsonl")), 2)

    def test_auto_codec_compares_and_changes_no_bit(self):
        plain = self.out("plain")
        self.train("--workers", 2, "--out", plain)
        out = self.out("auto")
        r = self.train("--workers", 2, "--codec", "auto", "--out", out)
        self.assertIn("predicted step ms", r.stdout)
        self.assertRegex(r.stdout, r"(?m)^codec auto: \w+")
        self.assertEqual(read_weights(out), read_weights(plain))
        with open(os.path.join(out, "metrics.jsonl"), encoding="ascii") as f:
            lines = [json.loads(line) for line in f]
        (choice,) = [line for line in lines if "candidates" in line]
        names = [c["codec"] for c in choice["candidates"]]
        self.assertEqual(names[0], "identity")
        self.assertIn("expo", names)
        self.assertIn(choice["codec"], names)
        self.assertTrue(all(c["lossless"] for c in choice["candidates"]))
        self.assertGreater(choice["probe_us"], 0)
        self.assertEqual(choice["from_step"], 3)
        again = self.result("--workers", 2, "--codec", "auto", "--epochs", 3, "--resume", out)
        self.assertEqual(again["codec_used"], choice["codec"])
        self.assertNotIn("candidates", again)

    def test_auto_codec_allows_only_what_it_is_told(self):
        r = self.result("--workers", 2, "--codec", "auto:allow=fp16+topk:k=0.1", "-c", "gather")
        lossy = [c["codec"] for c in r["candidates"] if not c["lossless"]]
        self.assertEqual(lossy, ["fp16", "topk:k=0.1"])
        best = min(c["step_ms"] for c in r["candidates"])
        (used,) = [c for c in r["candidates"] if c["codec"] == r["codec_used"]]
        self.assertLessEqual(used["step_ms"], 1.0201 * best)
        for codec in ("auto:allow=topk:k=0.1", "auto:allow=fp16+nonsense", "auto:deny=fp16"):
            self.train("--workers", 2, "--codec", codec, code=2)

    def test_parameter_server_resumes_its_optimiser(self):
        server = ["--workers", 2, "--sync", "param_server:servers=1,dedicated"]
        self.train(*server, "--out", self.out("ps"))
        self.train(*server, "--out", self.out("ps2"), "--steps", 9, "--checkpoint-every", 9)
        self.train(*server, "--resume", self.out("ps2"), "--steps", 100)
        self.assertEqual(read_weights(self.out("ps")), read_weights(self.out("ps2")))

    def partition(self, *args):
        path = self.out("plan.json")
        r = shoal.run("partition", "--model", self.model, "--batch", 16, "--out", path, *args)
        self.assertEqual(r.returncode, 0, r.stderr)
        return path

    def run_plan(self, plan, *args, code=0):
        r = shoal.run("train", "--plan", plan, "--data", self.folder, "--lr", 0.05, *args)
        self.assertEqual(r.returncode, code, r.stderr)
        return r

    def test_a_plan_trains_and_goes_on_from_a_checkpoint(self):
        plan = self.partition("--levels", 1, "--given", "11")
        common = ["--epochs", 2, "--json"]
        whole = json.loads(self.run_plan(plan, *common, "--out", self.out("plan-whole")).stdout)
        self.assertEqual(whole["workers"], 2)
        self.assertEqual(whole["batch"], 8)
        self.assertEqual(whole["sent_elements_per_step"], whole["planned_elements_per_step"])
        alone = self.result("--workers", 1, "--batch", 16)
        self.assertAlmostEqual(whole["test_loss"], alone["test_loss"], delta=1e-4)
        half = ["--out", self.out("plan-half"), *common]
        self.run_plan(plan, *half, "--steps", 9, "--checkpoint-every", 9)
        self.run_plan(plan, *half, "--resume", self.out("plan-half"), "--steps", 100)
        self.assertEqual(read_weights(self.out("plan-whole")), read_weights(self.out("plan-half")))

    def test_bad_plans(self):
        plan = self.partition("--levels", 1)
        for args, code, text in (
            (["--workers", 4], 2, "2 workers, there are 4"),
            (["--batch", 9], 2, "asked for 9"),
            (["--model", "lenet"], 2, "not lenet"),
            (["--sync", "param_server"], 2, "--plan does not go with --sync param_server"),
        ):
            r = self.run_plan(plan, *args, code=code)
            self.assertIn(text, r.stderr, args)
        r = shoal.run("train", "--plan", "/no/such.json", "--data", self.folder)
        self.assertEqual(r.returncode, 1)
        self.assertIn("/no/such.json", r.stderr)

    def test_bad_input(self):
        for args, code, text in (
            (["--model", "lenett"], 2, "lenet"),
            (["--codec", "zip"], 2, "inceptionn"),
            (["--collective", "rong"], 2, "ring"),
            (["--sync", "hope"], 2, "all_reduce"),
            (["--data", "/no/such"], 1, "/no/such"),
            (["--batch", "0"], 2, "--batch '0'"),
            (["--optimizer", "sgd:momentum=2"], 2, "momentum"),
            (["--resume", "/no/such"], 1, "/no/such"),
        ):
            r = self.train(*args, code=code)
            self.assertIn(text, r.stderr, args)
        self.assertEqual(shoal.run("train").returncode, 2)
        self.assertIn("Example:", shoal.run("train", "--help").stdout)

    def test_all_ranks_report_bad_input_together(self):
        r = self.train("--workers", 2, "--codec", "zip", code=2)
        self.assertIn("inceptionn", r.stderr)

    def test_a_run_that_diverges_names_the_value(self):
        model = os.path.join(self.folder, "steep.json")
        layers = ["flatten", "dense:out=24", "relu", "dense:out=24", "relu", f"dense:out={CLASSES}"]
        with open(model, "w", encoding="ascii") as f:
            json.dump({"name": "steep", "input": [1, SIDE, SIDE], "layers": layers}, f)
        r = self.train("--workers", 2, "--lr", 1e5, "--model", model, code=1)
        self.assertRegex(r.stderr, r"rank \d.*(dense|element)")

    def test_a_labs_hosts_are_several(self):
        """Two workers on each of two hosts: only the head of each uses the network at first."""
        reason = shoal.lab_works()
        if reason:
            self.skipTest(reason)
        out = self.out("hosts")
        self.result(
            "--workers", 4, "--lab", "hosts=2", "--sync", "ripples:static", "--steps", 1,
            "--out", out,
        )  # fmt: skip
        sent = []
        for rank in range(4):
            name = f"metrics.{rank}.jsonl" if rank > 0 else "metrics.jsonl"
            with open(os.path.join(out, name), encoding="utf-8") as f:
                sent.append(json.loads(f.readline())["sent_bytes"] > 0)
        self.assertEqual(sent, [True, False, True, False])

    def test_a_slow_rank(self):
        """slow=1:3x in a lab; everybody waits for it in a synchronous protocol."""
        reason = shoal.lab_works()
        if reason:
            self.skipTest(reason)
        r = self.result("--workers", 2, "--lab", "slow=1:3x", "--compute-ms", 4)
        self.assertGreaterEqual(r["slowest_step_ms"], 12)


if __name__ == "__main__":
    shoal.main()
