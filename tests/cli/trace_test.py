# SPDX-License-Identifier: Apache-2.0
"""shoal train --trace: spans against the run's own metrics, clocks against the one that all ranks
of a host share, who waits for whom and every arrow against a brute-force look at the spans."""
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import unittest

import shoal

LAB = shoal.lab_works()


def spans(trace, name, rank=None):
    return [e for e in trace["traceEvents"] if e["ph"] == "X" and e["name"] == name
            and rank in (None, e["pid"])]  # fmt: skip


def end(span):
    return span["ts"] + span["dur"]


class Trace(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.data = os.path.join(self.folder, "data")
        made = shoal.run("data", "digits", "--out", self.data, "--train", 192, "--test", 20)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.file = os.path.join(self.folder, "trace.json")

    def words(self, *more):
        return ["train", "--model", "mlp-small", "--data", self.data, "--batch", 8, "--trace",
                self.file, *more]  # fmt: skip

    def read(self):
        with open(self.file, encoding="utf-8") as file:
            return json.load(file)

    def train(self, *more):
        done = shoal.run(*self.words(*more))
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.read()

    def check_arrows(self, trace, ranks):
        """From the start of the bucket that began last to the end of each other one, once."""
        buckets = {}
        for span in spans(trace, "exchange"):
            buckets.setdefault((span["args"]["step"], span["args"]["offset"]), []).append(span)
        wanted = set()
        for group in buckets.values():
            self.assertEqual(sorted(s["pid"] for s in group), list(range(ranks)))
            last = max(group, key=lambda s: s["ts"])
            wanted |= {(last["pid"], round(last["ts"]), s["pid"], round(end(s)))
                       for s in group if s is not last}  # fmt: skip
        begins = {e["id"]: e for e in trace["traceEvents"] if e["ph"] == "s"}
        ends = {e["id"]: e for e in trace["traceEvents"] if e["ph"] == "f"}
        self.assertEqual(begins.keys(), ends.keys())
        found = {(s["pid"], round(s["ts"]), ends[i]["pid"], round(ends[i]["ts"]))
                 for i, s in begins.items()}  # fmt: skip
        self.assertEqual(len(found), len(begins))
        if all(len({s["ts"] for s in group}) == ranks for group in buckets.values()):
            self.assertEqual(found, wanted)
        self.assertEqual(len(begins), len(buckets) * (ranks - 1))

    def check_parts(self, trace):
        """Making the batch, forward, backward: in this order, in their step's computing."""
        every = {(s["name"], s["pid"], s["args"]["step"]): s for s in trace["traceEvents"]
                 if s["ph"] == "X" and s["name"] in ("data", "forward", "backward")}  # fmt: skip
        whole = spans(trace, "compute")
        self.assertEqual(len(every), 3 * len(whole))
        for span in whole:
            at = span["ts"]
            for name in ("data", "forward", "backward"):
                part = every[name, span["pid"], span["args"]["step"]]
                self.assertGreaterEqual(part["ts"], at)
                at = end(part)
            self.assertLessEqual(at, end(span))

    def check_waits(self, trace, ranks):
        for wait in spans(trace, "wait"):
            if "for" in wait["args"]:
                done = {s["pid"]: end(s) for s in spans(trace, "compute")
                        if s["args"]["step"] == wait["args"]["step"]}  # fmt: skip
                self.assertEqual(len(done), ranks)
                self.assertEqual(done[wait["args"]["for"]], max(done.values()))
                self.assertGreater(max(done.values()), wait["ts"])

    def test_of_four_ranks(self):
        out = os.path.join(self.folder, "out")
        trace = self.train("--workers", 4, "--bucket", "64k", "--epochs", 2, "--out", out)
        about = trace["otherData"]
        self.assertEqual((about["whole"], about["steps"], about["lost"]), (True, 12, []))
        self.assertEqual([r["rank"] for r in about["ranks"]], [0, 1, 2, 3])
        for rank in about["ranks"]:  # one host, so in truth there is no offset
            self.assertLessEqual(abs(rank["clock_offset_us"]), rank["clock_error_us"] + 1e-9)
            self.assertEqual(rank["overwritten"], 0)
        with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as file:
            lines = {s["step"]: s for s in map(json.loads, file) if "step_us" in s}
        for name, key in (("compute", "compute_us"), ("update", "update_us"), ("data", "data_us"),
                          ("forward", "forward_us"), ("backward", "backward_us")):
            found = {s["args"]["step"]: s["dur"] for s in spans(trace, name, 0)}
            self.assertEqual(len(found), 12)
            for step, line in lines.items():
                self.assertAlmostEqual(found[step - 1], line[key], delta=max(50, 0.1 * line[key]))
        self.assertEqual(len(spans(trace, "checkpoint", 0)), 2)
        for wait in spans(trace, "wait"):
            self.assertGreaterEqual(wait["ts"], 0)
        self.check_parts(trace)
        self.check_arrows(trace, 4)
        self.check_waits(trace, 4)
        took = {}
        for step in spans(trace, "step"):
            took[step["args"]["step"]] = max(took.get(step["args"]["step"], 0), step["dur"])
        slow = [e["args"]["took_us"] for e in trace["traceEvents"] if e["ph"] == "i"]
        self.assertEqual(slow, sorted(took.values(), reverse=True)[:5])

    def test_the_last_steps_alone(self):
        trace = self.train("--steps", 20, "--trace-last", 3, "--sync", "all_reduce")
        self.assertEqual([s["args"]["step"] for s in spans(trace, "step")], [17, 18, 19])

    @unittest.skipIf(LAB, LAB)
    def test_who_is_slow(self):
        trace = self.train("--workers", 3, "--steps", 10, "--compute-ms", 10, "--no-eval", "--lab",
                           "rate=1gbit,slow=2:8x")  # fmt: skip
        others = [w for w in spans(trace, "wait") if w["pid"] != 2 and "for" in w["args"]]
        self.assertGreaterEqual(len(others), 8)  # of 20, if nothing else runs here
        named = sum(w["args"]["for"] == 2 for w in others)
        self.assertGreater(named, 0.5 * len(others))
        own = spans(trace, "wait", 2)  # on a busy machine it waits for others now and then
        self.assertLess(sum("for" in w["args"] for w in own), max(3, len(own) * 2 // 3), own)

    def test_a_lost_rank_is_in_it(self):
        words = self.words("--workers", 3, "--epochs", 100000, "--steps", 150, "--compute-ms", 10,
                           "--no-eval", "--on-loss", "reform", "--out", self.folder + "/out")
        with subprocess.Popen([shoal.SHOAL, *map(str, words)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as job:  # fmt: skip
            metrics = os.path.join(self.folder, "out", "metrics.jsonl")
            shoal.wait_until(lambda: os.path.exists(metrics) and os.path.getsize(metrics) > 0)
            os.kill(shoal.ranks_of(job.pid)[0], signal.SIGKILL)
            self.assertEqual(job.wait(60), 0, job.stderr.read())
        trace = self.read()
        self.assertEqual([r["rank"] for r in trace["otherData"]["ranks"]], [0, 1])
        self.assertEqual([r["rank"] for r in trace["otherData"]["lost"]], [0])
        self.assertEqual(len(spans(trace, "reform")), 2)

    def test_the_clocks_error_is_said(self):
        words = self.words("--workers", 3, "--steps", 3)
        said = json.loads(shoal.run(*words, "--json").stdout.splitlines()[-1])["trace_error_us"]
        ranks = self.read()["otherData"]["ranks"]
        self.assertEqual(said, max(rank["clock_error_us"] for rank in ranks))
        self.assertGreater(said, 0)
        text = rf"\n  the trace is in {self.file}; its ranks' clocks agree within \d+ us\n"
        self.assertRegex(shoal.run(*words).stdout, text)
        words = [word for word in words if word not in ("--trace", self.file)]
        said = json.loads(shoal.run(*words, "--json").stdout.splitlines()[-1])["trace_error_us"]
        self.assertIsNone(said)
        self.assertNotIn("the trace is in", shoal.run(*words).stdout)

    def test_slow_steps_are_kept_unasked(self):
        """By each rank in the run's folder; not beside --trace, nor where there are no events. A
        rank that is killed has none, and the others theirs."""
        out = os.path.join(self.folder, "out")

        def kept():
            return sorted(name for name in os.listdir(out) if "slowest" in name)

        def words(*more):
            return [str(word) for word in self.words("--out", out, *more)
                    if word not in ("--trace", self.file)]  # fmt: skip

        def run(*more):
            done = shoal.run(*words(*more))
            self.assertEqual(done.returncode, 0, done.stderr)

        run("--workers", 3, "--steps", 7)
        self.assertEqual(kept(), ["slowest.1.json", "slowest.2.json", "slowest.json"])
        for rank, name in enumerate(["slowest.json", "slowest.1.json", "slowest.2.json"]):
            self.file = os.path.join(out, name)
            trace = self.read()
            self.assertEqual(trace["otherData"]["made_by"], "shoal train --out")
            self.assertEqual([e["rank"] for e in trace["otherData"]["ranks"]], [rank])
            steps = spans(trace, "step", rank)
            self.assertEqual(sorted(s["args"]["step"] for s in steps), list(range(7)))
            marks = [e["args"]["took_us"] for e in trace["traceEvents"] if e["ph"] == "i"]
            self.assertEqual(marks, sorted((s["dur"] for s in steps), reverse=True)[:5])
            self.assertGreaterEqual(len(spans(trace, "exchange", rank)), 7)
        shutil.rmtree(out)
        more = ("--workers", 3, "--compute-ms", 10, "--epochs", 99)
        with subprocess.Popen([shoal.SHOAL, *words(*more)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as job:
            log = os.path.join(out, "metrics.1.jsonl")
            shoal.wait_until(lambda: os.path.exists(log) and os.path.getsize(log) > 8192)
            os.kill(shoal.ranks_of(job.pid)[0], signal.SIGKILL)
            self.assertNotEqual(job.wait(60), 0)
        self.assertEqual(kept(), ["slowest.1.json", "slowest.2.json"])
        self.file = os.path.join(out, "slowest.1.json")
        self.assertEqual(len(spans(self.read(), "step", 1)), 8)
        for more, names in ((("--workers", 1), ["slowest.json"]), (("--simulate", 2), [])):
            shutil.rmtree(out)
            run("--steps", 7, *more)
            self.assertEqual(kept(), names)
        shutil.rmtree(out)
        self.file = os.path.join(self.folder, "trace.json")
        self.train("--workers", 2, "--steps", 7, "--out", out)
        self.assertEqual(kept(), [])

    def test_what_is_refused(self):
        for more, text in (
            (("--simulate", 2), "--trace and --simulate exclude each other"),
            (("--no-exchange",), "--trace and --no-exchange exclude each other"),
            (("--plan", "p.json"), "--trace and --plan exclude each other"),
        ):
            done = shoal.run(*self.words(*more))
            self.assertEqual((done.returncode, text in done.stderr), (2, True), done.stderr)
        self.file = os.path.join(self.folder, "none", "trace.json")
        done = shoal.run(*self.words("--steps", 2))
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write the trace to", done.stderr)
        done = shoal.run(*self.words("--steps", 2, "--workers", 2))  # said once, by no rank
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("cannot write the trace to", done.stderr)

    def test_a_device_takes_a_trace(self):
        """/dev takes no new file of an ordinary user, and the device itself does."""
        self.file = "/dev/null"
        done = shoal.run(*self.words("--steps", 2, "--workers", 2))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_half_a_file_is_none(self):
        def little_room():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        words = self.words("--steps", 20, "--epochs", 9, "--no-eval")
        done = subprocess.run([shoal.SHOAL, *map(str, words)], capture_output=True, text=True,
                              timeout=60, preexec_fn=little_room, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("trace.json: File too large", done.stderr)
        self.assertFalse(os.path.exists(self.file))


if __name__ == "__main__":
    shoal.main()
