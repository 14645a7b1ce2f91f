# SPDX-License-Identifier: Apache-2.0
"""shoal sim --out and --trace: a simulated run as a folder and as a trace, like a real one's. Times
against what sim --json says and closed forms; the folder by shoal runs, report and train."""
import json
import os
import resource
import signal
import subprocess
import tempfile
import unittest

import event_reader
import report_test
import shoal
import trace_test

FOUR = (
    "--workers", 4, "--params", 100000, "--compute", "fixed:ms=20,slow=2:3x,update_ms=1",
    "--network", "links:rate=1gbit,latency_us=100,hosts=4", "--iterations", 60,
)  # fmt: skip
UNEVEN = (
    "--workers", 3, "--params", 50000, "--bucket", "64k", "--iterations", 20,
    "--compute", "fixed:ms=20,jitter=0.3,update_ms=1", "--network", "links:rate=200mbit,hosts=3",
)  # fmt: skip
spans, end = trace_test.spans, trace_test.end


def lines_of(folder, rank=0):
    return report_test.lines_of(folder, f"metrics.{rank}.jsonl" if rank else "metrics.jsonl")


class SimRun(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="shoal-sim-run-"))

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def sim(self, *args, code=0):
        r = shoal.run("sim", *args, "--no-mixing", "--quiet", "--json")
        self.assertEqual(code, r.returncode, r.stderr)
        return json.loads(r.stdout) if r.stdout else r.stderr

    def runs(self, folder):
        r = shoal.run("runs", folder, "--json")
        self.assertEqual(0, r.returncode, r.stderr)
        return json.loads(r.stdout)["runs"][0]

    def facts(self, *folders):
        r = shoal.run("report", "--json", *folders)
        self.assertEqual(0, r.returncode, r.stderr)
        return json.loads(r.stdout)["runs"]

    def page(self, *folders):
        out = self.path("page.html")
        r = shoal.run("report", *folders, "--out", out)
        self.assertEqual(0, r.returncode, r.stderr)
        with open(out, encoding="utf-8") as file:
            page = report_test.Page(file.read())
        self.assertEqual(([], []), (page.bad, page.open))
        self.assertEqual([], [i for i, n in page.ids.items() if n > 1])
        return page

    def all_files(self, folder):
        found = {}
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), "rb") as file:
                found[name] = file.read()
        del found["lock"]  # says which process has it
        return found

    def test_the_folder_is_whole(self):
        out = self.path("x")
        self.sim(*FOUR, "--out", out)
        run = self.runs(out)
        self.assertEqual(("finished", True, 60, 60, 4, "all_reduce", None),
                         tuple(run[k] for k in ("state", "simulated", "step", "steps", "workers",
                                                "sync", "command")))  # fmt: skip
        self.assertEqual([f"metrics{n}.jsonl" for n in ("", ".1", ".2", ".3")],
                         sorted((n for n in os.listdir(out) if n.startswith("metrics")),
                                key=lambda n: (len(n), n)))  # fmt: skip
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            about = json.load(file)
        self.assertEqual("virtual", about["clock"])
        self.assertEqual(FOUR[5], about["options"]["compute"])
        self.assertNotIn("out", about["options"])
        events = report_test.lines_of(out, "events.jsonl")
        self.assertEqual(["begin", "slow", "end"], [e["event"] for e in events])
        self.assertEqual("1970-01-01T00:00:00.000Z", events[0]["time"])
        r = shoal.run("runs", out)
        self.assertIn("clock        virtual", r.stdout)

    def test_times_are_those_that_sim_tells(self):
        out = self.path("x")
        told = self.sim(*FOUR, "--out", out)
        for worker in told["per_worker"]:
            lines = lines_of(out, worker["worker"])
            self.assertEqual(list(range(1, 61)), [line["step"] for line in lines])
            total = {key: sum(line[key] for line in lines) for key in lines[0]
                     if key not in ("skipped", "lr")}  # fmt: skip
            within = 60 * 2e-6  # a step's parts are cut to microseconds
            self.assertAlmostEqual(worker["compute_s"],
                                   (total["compute_us"] + total["update_us"]) * 1e-6, delta=within)
            self.assertAlmostEqual(worker["idle_s"], total["wait_us"] * 1e-6, delta=within)
            self.assertEqual(worker["sent_bytes"], total["sent_bytes"])
            self.assertEqual(worker["received_bytes"], total["received_bytes"])
            self.assertAlmostEqual(told["duration_s"], lines[-1]["at_us"] * 1e-6, delta=2e-6)
            before = 0
            for line in lines:
                self.assertEqual(line["step_us"], line["at_us"] - before)
                self.assertEqual(line["step_us"],
                                 line["compute_us"] + line["wait_us"] + line["update_us"])
                self.assertEqual(line["compute_us"], line["forward_us"] + line["backward_us"])
                self.assertLessEqual(line["comm_us"], line["step_us"])
                wanted = 60000 if worker["worker"] == 2 else 20000
                self.assertAlmostEqual(wanted, line["compute_us"], delta=1)
                self.assertAlmostEqual(1000, line["update_us"], delta=1)
                self.assertNotIn("loss", line)
                before = line["at_us"]
        # A ring sends 2 (n - 1) / n of the model.
        self.assertEqual(60 * 600000, sum(line["sent_bytes"] for line in lines_of(out, 1)))

    def test_bytes_beside_dense_ones(self):
        self.sim(*UNEVEN, "--codec", "int8", "--out", self.path("x"))
        for line in lines_of(self.path("x"), 1):
            self.assertAlmostEqual(4, line["dense_bytes"] / line["sent_bytes"], delta=0.2)

    def test_the_same_arguments_write_the_same_bytes(self):
        for name, seed in (("a", 7), ("b", 7), ("c", 8)):
            self.sim(*UNEVEN, "--seed", seed, "--out", self.path(name), "--trace",
                     self.path(name + ".json"))  # fmt: skip
        a, b, c = (self.all_files(self.path(name)) for name in "abc")
        self.assertEqual(a, b)
        self.assertNotEqual(a["metrics.jsonl"], c["metrics.jsonl"])
        traces = []
        for name in "ab":
            with open(self.path(name + ".json"), "rb") as file:
                traces.append(file.read())
        self.assertEqual(*traces)

    def test_keeping_changes_nothing(self):
        kept = self.sim(*UNEVEN, "--out", self.path("x"), "--trace", self.path("x.json"))
        self.assertEqual(self.sim(*UNEVEN), kept)

    def test_a_folder_is_not_written_over(self):
        out = self.path("x")
        self.sim(*UNEVEN, "--out", out)
        before = self.all_files(out)
        self.assertIn("holds a run already", self.sim(*FOUR, "--out", out, code=2))
        r = shoal.run("train", "--resume", out)
        self.assertEqual(2, r.returncode)
        self.assertIn("shoal sim wrote it", r.stderr)
        r = shoal.run("data", "digits", "--out", self.path("data"), "--train", 60, "--test", 20)
        self.assertEqual(0, r.returncode, r.stderr)
        r = shoal.run("train", "--model", "mlp-small", "--data", self.path("data"), "--out", out)
        self.assertEqual(2, r.returncode)
        self.assertIn("holds a run already", r.stderr)
        self.assertNotEqual(0, shoal.run("eval", "--from", out).returncode)
        self.assertEqual(before, self.all_files(out))

    def test_what_cannot_be_written_is_said_first(self):
        for option, value, code in (("--out", "", 2), ("--trace", "", 2),
                                    ("--out", "/dev/null/x", 1), ("--trace", "/nowhere/x", 1),
                                    ("--trace", "/dev/full", 1)):  # fmt: skip
            with self.subTest(option=option, value=value):
                r = shoal.run("sim", *UNEVEN, option, value)
                self.assertEqual((code, ""), (r.returncode, r.stdout), r.stderr)
                self.assertIn(option[2:] if value == "" else value, r.stderr)

    def left_by(self, *words, code, spoilt=None):
        """What is there after a simulation that asks for every kind of file, in a folder that held
        one of them before; spoilt: another value of one option."""
        where = self.path(f"files-{len(os.listdir(self.folder))}")
        os.mkdir(where)
        asked = {"--trace": "t.json", "--timeline": "line.json", "--log": "log.txt"}
        asked |= {"--pictures": "drawn", "--out": "deep/er/run", "--tensorboard": "board"}
        asked = {k: os.path.join(where, v) for k, v in asked.items()} | (spoilt or {})
        with open(os.path.join(where, "log.txt"), "w", encoding="ascii") as file:
            file.write("before")
        r = shoal.run("sim", *words, "--no-mixing", *(w for pair in asked.items() for w in pair))
        self.assertEqual((code, ""), (r.returncode, r.stdout), r.stderr)
        with open(os.path.join(where, "log.txt"), encoding="ascii") as file:
            self.assertEqual("before", file.read())
        return sorted(os.listdir(where))

    def test_what_is_refused_or_fails_leaves_nothing(self):
        few = ("--params", 1000, "--workers")
        cases = ((2, ("--collective", "switchml"), {}),  # refused in the middle of the run
                 (2, ("--faults", "plan:lie=1:flip"), {}), (2, ("--sync", "hopp"), {}),
                 (2, ("--compute", "fixed:ms=0", "--seconds", 1), {}),  # no second passes
                 (1, (), {"--log": "/nowhere/x"}), (1, (), {"--timeline": "/nowhere/x"}),
                 (1, (), {"--pictures": "/nowhere/x/y"}), (1, (), {"--pictures": "/dev/null"}),
                 (1, (), {"--trace": "/dev/full"}), (1, (), {"--timeline": "/dev/full"}),
                 (1, (), {"--out": "/dev/null/x"}),
                 (2, (), {"--tensorboard": "/dev/null/x"}))  # fmt: skip
        for code, words, spoilt in cases:
            with self.subTest(words=words, spoilt=spoilt):
                self.assertEqual(["log.txt"], self.left_by(
                    *few, 1 if "--seconds" in words else 3, *words, code=code, spoilt=spoilt))

    def test_who_is_killed_leaves_no_half_file(self):
        where = self.path("killed")
        os.mkdir(where)
        asked = [os.path.join(where, name) for name in ("t.json", "line.json", "log.txt")]
        words = ("--workers", 2, "--seconds", 1e8, "--no-mixing", "--trace", asked[0], "--timeline",
                 asked[1], "--log", asked[2], "--pictures", where)  # fmt: skip
        if not self.has_files_without_names(where):
            self.skipTest("files have names from the start here")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            argv = [shoal.SHOAL, "sim", *map(str, words)]
            with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as p:
                shoal.wait_until(lambda p=p: p.poll() or self.writes_below(p.pid, where))
                p.send_signal(number)
                self.assertEqual(-number, p.wait(timeout=60))
            self.assertEqual([], os.listdir(where))

    def test_a_run_that_is_interrupted_leaves_no_folder(self):
        """By Ctrl-C or SIGTERM, while the job steps; the same folder is free afterwards."""
        where = self.path("asked")
        out = os.path.join(where, "deep/er/run")
        os.mkdir(where)
        words = ("--workers", 4, "--params", 1000, "--seconds", 1e8, "--no-mixing", "--out", out,
                 "--tensorboard", os.path.join(where, "board"))  # fmt: skip
        for number in (signal.SIGINT, signal.SIGTERM):
            argv = [shoal.SHOAL, "sim", *map(str, words)]
            with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
                shoal.wait_until(lambda p=p: p.poll() or self.has_metrics(out))
                p.send_signal(number)
                stdout, stderr = p.communicate(timeout=60)
            self.assertEqual((-number, b""), (p.returncode, stdout), stderr)
            self.assertIn(b"nothing is left", stderr)
            self.assertEqual([], os.listdir(where))

    @staticmethod
    def has_metrics(out):
        try:
            return os.path.getsize(os.path.join(out, "metrics.jsonl")) > 0
        except OSError:
            return False

    @staticmethod
    def has_files_without_names(where):
        try:
            os.close(os.open(where, os.O_TMPFILE | os.O_WRONLY))
        except OSError:
            return False
        return True

    @staticmethod
    def writes_below(pid, where):
        """Whether a process has two files without names open there."""
        folder = f"/proc/{pid}/fd"
        try:
            to = [os.readlink(os.path.join(folder, fd)) for fd in os.listdir(folder)]
        except OSError:
            return False
        return sum(link.startswith(where) for link in to) == 2

    def test_a_full_disk_leaves_nothing(self):
        def little_room():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        where = self.path("little")
        os.mkdir(where)
        for option, name in (("--out", "deep/run"), ("--log", "log.txt"), ("--trace", "t.json"),
                             ("--timeline", "line.json"), ("--pictures", "drawn")):  # fmt: skip
            argv = [shoal.SHOAL, "sim", *map(str, FOUR), "--no-mixing", option]
            r = subprocess.run([*argv, os.path.join(where, name)], capture_output=True, text=True,
                               timeout=60, preexec_fn=little_room, check=False)  # fmt: skip
            self.assertEqual(1, r.returncode, r.stderr)
            self.assertIn("File too large", r.stderr)
            self.assertEqual([], os.listdir(where), option)

    def test_the_log_may_be_the_output(self):
        out = self.path("out.txt")
        for name in ("/dev/stdout", "/dev/fd/1"):
            with open(out, "w", encoding="ascii") as file:
                argv = [shoal.SHOAL, "sim", *map(str, UNEVEN), "--no-mixing", "--log", name]
                subprocess.run(argv, stdout=file, check=True, timeout=60)
            with open(out, encoding="ascii") as file:
                text = file.read()
            self.assertIn(" START", text)
            self.assertIn("\nevent log ", text)

    def test_who_was_slow(self):
        for compute, network, wanted in (
                ("jitter=0.05,slow=2:3x", "", [(2, "compute")]),
                ("jitter=0.05", ",slow=1:10x", [(1, "network")]),
                ("jitter=0.05", "", [])):  # fmt: skip
            with self.subTest(compute=compute, network=network):
                out = self.path("x" + str(len(os.listdir(self.folder))))
                self.sim("--workers", 8, "--params", 100000, "--iterations", 60, "--compute",
                         "fixed:ms=20," + compute, "--network",
                         "links:rate=200mbit,hosts=8" + network, "--out", out)  # fmt: skip
                verdict = self.facts(out)[0]["verdict"]
                self.assertEqual(wanted, [(s["culprit"], s["cause"]) for s in verdict["slow"]])
                if not wanted:
                    self.assertEqual("No straggler.", verdict["text"])

    def test_a_network_learns_in_its_folder(self):
        r = shoal.run("data", "digits", "--out", self.path("data"), "--train", 240, "--test", 40)
        self.assertEqual(0, r.returncode, r.stderr)
        words = ("--data", self.path("data"), "--model", "mlp-small", "--batch", 20, "--epochs", 2,
                 "--workers", 3)  # fmt: skip
        told = self.sim(*words, "--compute", "fixed:ms=20", "--out", self.path("sim"))
        lab = shoal.run("train", *words, "--out", self.path("lab"), "--quiet")
        self.assertEqual(0, lab.returncode, lab.stderr)
        for rank in range(3):  # the samples, rates and losses of the real run
            real = report_test.steps_of(self.path("lab"), rank)
            ours = report_test.steps_of(self.path("sim"), rank)
            for key in ("step", "samples", "first", "step_first", "step_samples", "lr", "loss"):
                self.assertEqual([x[key] for x in real], [x[key] for x in ours], (rank, key))
        last = lines_of(self.path("sim"))[-1]
        self.assertEqual((2, told["test_accuracy"]), (last["epoch"], last["test_accuracy"]))
        page, facts = (f(self.path("lab"), self.path("sim")) for f in (self.page, self.facts))
        rows = page.rows("Runs compared")
        self.assertEqual(["real", "virtual"], [row["clock"] for row in rows])
        self.assertEqual([False, True], [f["simulated"] for f in facts])
        self.assertIn("all-loss-title", page.ids)
        self.assertIn("all-parts-title", page.ids)
        for row, run in zip(page.rows("A step by its parts, per run"), facts):
            parts = [float(row[part + ", ms"]) for part in ("compute", "waiting", "update",
                                                            "other")]  # fmt: skip
            self.assertAlmostEqual(run["totals"]["step_ms"], sum(parts), delta=0.003)
        self.assertIn("This run is simulated", page.text)
        self.assertIn("shoal sim --", page.text)

    def test_the_lost_and_those_who_come_back(self):
        faults = ("--workers", 4, "--compute", "fixed:ms=20", "--iterations", 60, "--faults")
        out = self.path("end")
        self.assertIn("error", self.sim(*faults, "plan:die=1@1", "--out", out, code=5))
        self.assertEqual(("stopped", None), tuple(self.runs(out)[k] for k in ("state", "command")))
        self.assertIn("rank 1 is gone", self.page(out).text)
        out = self.path("back")
        self.sim(*faults, "plan:die=1@1,rejoin=1@2,reform", "--out", out)
        facts = self.facts(out)[0]
        self.assertEqual({(0, 4), (1, 3), (2, 4)},
                         {(e, sum(r["members_epoch"] == e for r in facts["ranks"]))
                          for e in range(3)})  # fmt: skip
        members = self.page(out).rows("Workers over time")
        self.assertEqual([("begin", "4"), ("members", "3"), ("members", "4"), ("end", "4")],
                         [(m["event"], m["workers"]) for m in members])
        self.assertEqual("finished", self.runs(out)["state"])

    def check_nesting(self, trace, pid):
        """Steps one after the other; in each, what it is made of, without a gap."""
        before = 0
        for step in spans(trace, "step", pid):
            inner = [s for name in ("compute", "wait", "update") for s in spans(trace, name, pid)
                     if s["args"]["step"] == step["args"]["step"]]  # fmt: skip
            inner.sort(key=lambda s: (s["ts"], s["dur"]))
            self.assertEqual(before, step["ts"])
            at = step["ts"]
            for span in inner:
                self.assertEqual(at, span["ts"])
                at = end(span)
            self.assertEqual(end(step), at)
            before = at
            compute = next(s for s in inner if s["name"] == "compute")
            parts = [s for name in ("forward", "backward") for s in spans(trace, name, pid)
                     if s["args"]["step"] == step["args"]["step"]]  # fmt: skip
            self.assertEqual(compute["ts"], parts[0]["ts"])
            self.assertEqual(end(parts[0]), parts[1]["ts"])
            self.assertEqual(end(compute), end(parts[1]))

    def test_a_trace_in_virtual_time(self):
        out, file = self.path("x"), self.path("x.json")
        told = self.sim(*UNEVEN, "--out", out, "--trace", file)
        with open(file, encoding="utf-8") as text:
            trace = json.load(text)
        about = trace["otherData"]
        self.assertEqual((True, 20), (about["whole"], about["steps"]))
        self.assertIn("virtual", about["made_by"])
        self.assertEqual([0, 1, 2], [r["rank"] for r in about["ranks"]])
        for rank in range(3):
            self.check_nesting(trace, rank)
            lines = lines_of(out, rank)
            for name in ("step", "compute", "forward", "backward", "update"):
                found = spans(trace, name, rank)
                self.assertEqual(20, len(found))
                for span, line in zip(found, lines):
                    self.assertEqual(span["args"]["step"] + 1, line["step"])
                    self.assertAlmostEqual(span["dur"], line[name + "_us"], delta=1)
            sent = sum(s["args"]["sent_bytes"] for s in spans(trace, "exchange", rank))
            self.assertEqual(told["per_worker"][rank]["sent_bytes"], sent)
        trace_test.Trace.check_arrows(self, trace, 3)
        trace_test.Trace.check_waits(self, trace, 3)
        self.assertTrue(any("for" in w["args"] for w in spans(trace, "wait")))

    def test_tensorboard(self):
        out, boards = self.path("x"), self.path("boards")
        words = (*UNEVEN, "--problem", "quadratic:lr=0.3", "--tensorboard", boards)
        self.assertIn("add --out", shoal.run("sim", *words).stderr)
        self.sim(*words, "--out", out)
        (name,) = os.listdir(os.path.join(boards, "x"))
        found = {}
        for _, step, what in event_reader.events(os.path.join(boards, "x", name)):
            if not isinstance(what, str):
                found.update({(tag, step): value for tag, value in what.items()})
        for line in lines_of(out):
            for tag, wanted in (("loss/train", line["loss"]),
                                ("step_seconds/whole", line["step_us"] * 1e-6),
                                ("step_seconds/wait", line["wait_us"] * 1e-6),
                                ("sent_bytes", line["sent_bytes"]), ("workers", 3),
                                ("samples_per_second", 3e6 / line["step_us"])):  # fmt: skip
                self.assertAlmostEqual(1, found[tag, line["step"]] / wanted, delta=1e-6)
        self.assertEqual(20, max(step for _, step in found))
        os.rename(out, self.path("y"))
        before = os.stat(os.path.join(boards, "x", name)).st_size
        self.assertIn("holds another run's x", self.sim(*words, "--out", out, code=2))
        self.assertEqual(before, os.stat(os.path.join(boards, "x", name)).st_size)

    def test_many_ranks_and_many_steps_make_a_small_page(self):
        out = self.path("ranks")
        self.sim("--workers", 1000, "--params", 1000, "--iterations", 4, "--compute",
                 "fixed:ms=20,jitter=0.3,slow=7:4x", "--out", out)  # fmt: skip
        page = self.page(out)
        self.assertLess(os.path.getsize(self.path("page.html")), 2_000_000)
        self.assertIn("more are in the table", page.text)
        self.assertEqual(1000, len(self.facts(out)[0]["ranks"]))
        means = []
        for rank in range(1000):
            lines = lines_of(out, rank)
            means.append((sum(line["compute_us"] for line in lines) / len(lines) / 1e3, rank))
        means.sort()
        row = page.rows("A step by its parts, over all 1000 ranks")[1]
        self.assertEqual("compute", row["ms per step, mean"])
        for name, place in (("least", 0), ("median", 500), ("a tenth above", 899), ("largest", -1)):
            self.assertAlmostEqual(means[place][0], float(row[name]), delta=0.000501)
        self.assertEqual("7", row["of rank"])
        long = self.path("steps")
        self.sim("--workers", 1, "--params", 100, "--iterations", 10000, "--out", long)
        facts = self.facts(long)[0]
        self.assertLess(len(facts["step_ms_points"]), 513)
        self.assertEqual(10000, facts["totals"]["lines"])
        self.page(long)
        self.assertLess(os.path.getsize(self.path("page.html")), 500_000)


if __name__ == "__main__":
    shoal.main()
