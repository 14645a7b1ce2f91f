# SPDX-License-Identifier: Apache-2.0
"""shoal whatif on run folders whose times are a formula, so that the answer is known: a ring among
n workers moves 2 (n - 1) / n of the gradients over each link. One small run is made for run.json;
its metrics are written anew by the test."""
import copy
import hashlib
import json
import os
import shutil
import tempfile
import unittest

import shoal

PARAMS = 235146  # of mlp-small: less than a bucket, so nothing is hidden
COMPUTE, UPDATE = 20.0, 0.5
SHARE, ROUND, START, LATENCY = 0.97, 0.033, 0.1, 0.05  # of links; ms


def exchange(workers, mbit, latency=LATENCY, part=1.0):
    """Milliseconds of a ring."""
    sent = 2 * (workers - 1) / workers * 4 * PARAMS * part
    return 8e-3 * sent / (SHARE * mbit) + 2 * (workers - 1) * (latency + ROUND) + START


def step_of(mbit=50, workers=4, compute=COMPUTE, more=0.0, **kwargs):
    return compute + UPDATE + exchange(workers, mbit, **kwargs) + more


class Whatif(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-whatif-"))
        cls.data, cls.real = (os.path.join(cls.folder, n) for n in ("data", "real"))
        made = shoal.run("data", "digits", "--out", cls.data, "--train", 64, "--test", 20)
        assert made.returncode == 0, made.stderr
        made = shoal.run("train", "--model", "mlp-small", "--data", cls.data, "--workers", 2,
                         "--batch", 8, "--steps", 2, "--no-eval", "--quiet", "--out", cls.real)
        assert made.returncode == 0, made.stderr
        with open(os.path.join(cls.real, "run.json"), encoding="utf-8") as file:
            cls.about = json.load(file)
        cls.about["data"].update(mean=[0.5], deviation=[0.25])  # every program writes those alike

    def make(self, name, step, *, workers=4, compute=None, steps=40, first=1, links=(), sent=None,
             events=(), **options):
        """A run folder; compute: ms by rank. Options are of run.json, with '_' for '-'."""
        out = os.path.join(self.folder, name)
        shutil.rmtree(out, ignore_errors=True)
        os.mkdir(out)
        about = copy.deepcopy(self.about)
        about["options"].update({"workers": str(workers), "lab": "rate=50mbit",
                                 "compute-ms": "20"})  # fmt: skip
        for key, value in options.items():
            about["options"][key.replace("_", "-")] = value
        about["options"] = {k: v for k, v in about["options"].items() if v is not None}
        about["cluster"]["workers"] = workers
        del about["sha256"]
        text = json.dumps(about, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        about["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        self.write(out, "run.json", [about])
        begin = {"time": "2026-01-01T00:00:00.000Z", "event": "begin", "rank": 0, "step": 0,
                 "members_epoch": 0, "steps": steps, "workers": workers,
                 "together": options.get("sync", "all_reduce") == "all_reduce"}
        self.write(out, "events.jsonl", [begin, *events])
        compute = compute or [COMPUTE] * workers
        sent = sent or round(2 * (workers - 1) / workers * 4 * PARAMS)
        for rank in range(workers):
            lines = [self.line(first + i, i, step, compute[rank], sent) for i in range(steps)]
            lines += [line for at, line in links if at == rank]
            self.write(out, f"metrics.{rank}.jsonl" if rank else "metrics.jsonl", lines)
        return out

    @staticmethod
    def line(number, i, step, compute, sent):
        slow = 5 if i < 4 or i == 20 else 1  # the first ones and an accident do not count
        us = round(1e3 * step * slow)
        return {"step": number, "samples": 8, "at_us": 10**6 + i * us, "loss": 1.0, "step_us": us,
                "compute_us": round(1e3 * compute), "update_us": round(1e3 * UPDATE),
                "wait_us": us - round(1e3 * compute) - round(1e3 * UPDATE), "comm_us": us,
                "sent_bytes": sent, "received_bytes": sent, "dense_bytes": sent,
                "skipped": False}  # fmt: skip

    @staticmethod
    def write(out, name, lines):
        with open(os.path.join(out, name), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def ask(self, out, *words):
        done = shoal.run("whatif", out, "--json", *words)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def near(self, out, words, ms, percent=1.5):
        told = self.ask(out, *words)
        p = told["predicted"]
        self.assertLess(abs(1e3 * p["step_s"] / ms - 1), percent / 100, (words, told, ms))
        self.assertTrue(p["low_s"] <= ms / 1e3 <= p["high_s"], (words, p, ms))
        return told

    # ------------------------------------------------------------------ by formula

    def test_each_change_does_what_the_formula_says(self):
        out = self.make("plain", step_of())
        told = self.near(out, ["--compute", "1x"], step_of())
        m = told["measured"]
        self.assertAlmostEqual(m["step_s"], step_of() / 1e3, 6)
        self.assertAlmostEqual(m["compute_s"], COMPUTE / 1e3, 6)
        self.assertEqual((m["steps"], m["workers"], m["slowest_link_mbit"]), (35, 4, 50))
        self.assertEqual(m["jitter"], 0)
        self.assertLess(abs(told["simulated"]["step_s"] / m["step_s"] - 1), 0.01)
        for words, ms in (
            (["--bandwidth", "200mbit"], step_of(200)),
            (["--bandwidth", "0.5x"], step_of(25)),
            (["--codec", "fp16"], step_of(part=0.5)),
            (["--workers", 2], step_of(workers=2)),
            (["--workers", 8, "--bandwidth", "100mbit"], step_of(100, workers=8)),
            (["--latency", 5050], step_of(latency=5.05)),
            (["--compute", "4x"], step_of(compute=COMPUTE / 4)),
            (["--straggler", "2:3x"], step_of(compute=3 * COMPUTE)),
            (["--collective", "direct"], step_of()),
        ):  # fmt: skip
            with self.subTest(words=words):
                self.near(out, words, ms, percent=6 if "--latency" in words else 1.5)

    def test_reports_tell_what_would_help(self):
        """The changes that a report asks about, by formula, those that help most first."""
        slow = [COMPUTE, COMPUTE, 3 * COMPUTE, COMPUTE]
        step = step_of(compute=3 * COMPUTE)
        wanted = {"--straggler none": (step_of(), 4),
                  "--bandwidth 2x": (step_of(100, compute=3 * COMPUTE), 4),
                  "--compute 2x": (step_of(compute=3 * COMPUTE / 2), 4),
                  "--workers 5": (step_of(workers=5, compute=3 * COMPUTE), 5)}  # fmt: skip
        done = shoal.run("report", "--json", self.make("helped", step, compute=slow))
        self.assertEqual(0, done.returncode, done.stderr)
        told = json.loads(done.stdout)["runs"][0]
        self.assertAlmostEqual(step, told["help"]["step_ms"], 2)
        changes = told["help"]["changes"]
        self.assertEqual(set(wanted), {one["change"] for one in changes})
        for one in changes:
            ms, workers = wanted[one["change"]]
            self.assertLess(abs(one["step_ms"] / ms - 1), 0.015, one)
            self.assertTrue(one["low_ms"] <= ms <= one["high_ms"], one)
            self.assertAlmostEqual(workers / 4 * step / ms, one["times"], delta=0.03)
        times = [one["times"] for one in changes]
        self.assertEqual(sorted(times, reverse=True), times)
        best = max(wanted, key=lambda c: wanted[c][1] / wanted[c][0])
        self.assertEqual(best, changes[0]["change"])
        self.assertIn(f"Most would help: {changes[0]['what']}.", told["help"]["text"])
        whole = (35 + 5 * 5) / 40 * step  # five of forty steps took five times as long
        three_wait = 2 * COMPUTE * 3 / 4
        exchange_ms = whole - 3 * COMPUTE - UPDATE
        self.assertAlmostEqual(exchange_ms / whole, told["totals"]["exchange_share"], 4)
        self.assertAlmostEqual(three_wait / whole, told["totals"]["others_share"], 4)

    def test_reports_say_why_nothing_is_told(self):
        out = self.make("planned", step_of(), plan="x")
        done = shoal.run("report", "--json", out)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        told = json.loads(done.stdout)["runs"][0]["help"]
        self.assertEqual([], told["changes"])
        self.assertIn("it ran by a plan", told["not_told"])

    def test_ranks_that_share_processors(self):
        out = self.make("crowd", step_of(), compute_ms=None)
        cores = os.sysconf("SC_NPROCESSORS_ONLN")
        for workers in (2, 8, 32):
            times = max(1, workers / cores) / max(1, 4 / cores)
            told = self.near(out, ["--workers", workers],
                             step_of(workers=workers, compute=COMPUTE * times))
            p, same = told["predicted"], step_of(workers=workers) / 1e3
            self.assertTrue(p["low_s"] < same < p["high_s"], (p, same))
            self.assertEqual("processors" in " ".join(told["notes"]), times != 1)

    def test_stragglers_go(self):
        out = self.make("slow", step_of(compute=60), compute=[20, 60, 20, 20],
                        lab="rate=50mbit,slow=1:3x")
        self.near(out, ["--straggler", "none"], step_of())
        self.near(out, ["--bandwidth", "100mbit"], step_of(100, compute=60))
        two = self.make("one_of_two", step_of(workers=2, compute=60), workers=2, compute=[60, 20])
        self.near(two, ["--straggler", "none"], step_of(workers=2))

    def test_what_is_not_explained_widens_the_interval(self):
        out = self.make("strange", step_of(more=30))
        exact, strange = (self.ask(o, "--bandwidth", "200mbit")["predicted"]
                          for o in (self.make("exact", step_of()), out))
        stays = step_of(200, more=30) / 1e3
        grows = step_of(200, more=30 * exchange(4, 200) / exchange(4, 50)) / 1e3
        self.assertTrue(strange["low_s"] < grows < stays < strange["high_s"], strange)
        self.assertGreater(strange["high_s"] - strange["low_s"],
                           2 * (exact["high_s"] - exact["low_s"]))

    def test_another_protocol_is_less_certain(self):
        out = self.make("plain2", step_of())
        told = [self.ask(out, *words)["predicted"] for words in
                (["--bandwidth", "51mbit"], ["--collective", "direct"],
                 ["--sync", "local_sgd:every=1"])]  # fmt: skip
        width = [(p["high_s"] - p["low_s"]) / p["step_s"] for p in told]
        self.assertGreater(width[1], 2.5 * width[0])
        self.assertGreater(width[2], width[1])
        # Every fourth step exchanges, and nothing else does.
        told = self.ask(out, "--sync", "local_sgd:every=4")["predicted"]
        ms = COMPUTE + UPDATE + exchange(4, 50) / 4
        self.assertTrue(told["low_s"] < ms / 1e3 < told["high_s"], told)

    def test_protocols_without_common_steps(self):
        """All steps count there, as only some exchange."""
        out = self.make("diloco", step_of(), sync="diloco:every=4")
        m = self.ask(out, "--sync", "all_reduce")["measured"]
        self.assertAlmostEqual(m["step_s"] * 1e3, step_of() * (35 + 5) / 36, 1)
        # What is not explained of it says nothing of another protocol.
        self.near(out, ["--sync", "all_reduce"], step_of())

    # ------------------------------------------------------------------ what ran where

    def test_labs_of_several_keys(self):
        out = self.make("keys", step_of(20), lab="rate=100mbit,link=2:20mbit,burst=16,limit=4096")
        told = self.near(out, ["--bandwidth", "100mbit"], step_of(100))
        self.assertEqual(told["measured"]["slowest_link_mbit"], 20)
        two = self.make("two", step_of(50), lab="rate=50mbit,hosts=2")
        self.near(two, ["--bandwidth", "100mbit"], step_of(100))
        # What is sent again takes a tenth of the rate, and who waits for a timer waits on.
        lossy = self.make("lossy", step_of(50 * 0.9) + 100, lab="rate=50mbit,loss=10%")
        told = 1e3 * self.ask(lossy, "--bandwidth", "100mbit")["predicted"]["step_s"]
        self.assertTrue(step_of(90) < told < step_of(50 * 0.9), (step_of(90), told))

    def links(self, hosts, rate):
        """(rank, line) of a ring's connections."""
        return [(r, {"link": (r + 1) % 4, "at_step": 40, "host": hosts[(r + 1) % 4],
                     "transport": "tcp", "sent_bytes": 10**8, "received_bytes": 0,
                     "acked_bytes": 10**8, "busy_us": round(1e14 / rate), "line_bytes_s": 0})
                for r in range(4)]  # fmt: skip

    def test_real_hosts(self):
        rate = SHARE * 50e6 / 8  # what was measured is payload
        out = self.make("real4", step_of(), lab=None, links=self.links("abcd", rate))
        told = self.near(out, ["--bandwidth", "2x"], step_of(100))
        self.assertAlmostEqual(told["measured"]["slowest_link_mbit"], SHARE * 50, 1)
        self.near(out, ["--link", "100mbit", "--compute", "1x"], step_of())
        one = self.make("one", step_of(), lab=None, links=self.links("aaaa", rate))
        self.near(one, ["--codec", "fp16"], step_of(part=0.5))
        for words in (["--bandwidth", "1gbit"], ["--latency", 10]):
            self.refused(one, words, f"{words[0]}", "on one host")
        unknown = self.make("unknown", step_of(), lab=None)
        self.refused(unknown, ["--codec", "fp16"], "--link 10gbit")

    def test_a_resumed_run_is_known_by_its_last_part(self):
        events = [{"time": "2026-01-01T00:00:00.000Z", "event": "resume", "rank": 0, "step": 40,
                   "members_epoch": 0, "steps": 80, "workers": 4, "together": True}]
        out = self.make("again", step_of(), events=events)
        for rank in range(4):  # by others, before: they took ten times as long
            path = os.path.join(out, f"metrics.{rank}.jsonl" if rank else "metrics.jsonl")
            with open(path, encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
            old = [dict(line, step_us=line["step_us"] * 10) for line in lines]
            self.write(out, os.path.basename(path),
                       old + [dict(line, step=line["step"] + 40) for line in lines])
        self.write(out, "events.jsonl", [
            dict(events[0], event="begin", step=0, workers=2), events[0]])  # fmt: skip
        m = self.ask(out, "--compute", "1x")["measured"]
        self.assertAlmostEqual(m["step_s"], step_of() / 1e3, 6)

    def test_a_codec_that_sends_other_bytes_than_usual(self):
        out = self.make("half", step_of(part=0.5), sent=round(0.75 * 4 * PARAMS))
        told = self.near(out, ["--bandwidth", "100mbit"], step_of(100, part=0.5))
        self.assertIn("0.5 times the bytes", " ".join(told["notes"]))

    # ------------------------------------------------------------------ refusals

    def refused(self, out, words, *says):
        done = shoal.run("whatif", out, *words)
        self.assertEqual(2, done.returncode, (words, done.stdout, done.stderr))
        for text in says:
            self.assertIn(text, done.stderr)
        self.assertEqual("", done.stdout)

    def test_what_is_refused(self):
        out = self.make("refused", step_of())
        for words, says in (
            ([], "what is changed?"),
            (["--bandwidth", "fast"], "--bandwidth fast"),
            (["--bandwidth", "0x"], "--bandwidth 0x"),
            (["--straggler", "9:2x"], "--straggler 9:2x"),
            (["--straggler", "1"], "--straggler 1"),
            (["--compute", "x"], "--compute"),
            (["--workers", 1], "--workers"),
            (["--codec", "no"], "unknown codec 'no'"),
            (["--collective", "omnireduce"], "omnireduce"),
            (["--sync", "d_psgd", "--collective", "no"], "no"),
            ([out, "--compute", "2x"], "one folder"),
        ):  # fmt: skip
            with self.subTest(words=words):
                self.refused(out, words, says)
        self.refused(self.make("few", step_of(), steps=9), ["--compute", "2x"], "let it run longer")
        for options, says in ((dict(simulate="4"), "simulated"), (dict(plan="/p"), "plan"),
                              (dict(no_exchange=True), "exchanged nothing"),
                              (dict(lab="rate=50mbit,cables=ring"), "no switch"),
                              (dict(lab="rte=5"), "rte")):  # fmt: skip
            with self.subTest(options=options):
                self.refused(self.make("odd", step_of(), **options), ["--compute", "2x"], says)
        gone = self.make("gone", step_of())
        os.remove(os.path.join(gone, "metrics.2.jsonl"))
        self.refused(gone, ["--compute", "2x"], "3 of its 4 workers")
        self.refused(self.folder, ["--compute", "2x"], "shoal whatif: " + self.folder[:20])

    def test_times_that_nobody_measured(self):
        """Lines that lie are left out; nothing crashes or is not finite."""
        out = self.make("lies", step_of())
        path = os.path.join(out, "metrics.1.jsonl")
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        for i, bad in enumerate((-1, 0, 1e300, 1e12, None, 2**60)):
            lines[6 + i]["step_us"] = bad
        lines[15]["compute_us"] = 1e9
        self.write(out, "metrics.1.jsonl", lines)
        self.near(out, ["--bandwidth", "100mbit"], step_of(100))

    def test_the_text_says_the_same(self):
        out = self.make("text", step_of())
        told = self.ask(out, "--codec", "fp16")
        done = shoal.run("whatif", out, "--codec", "fp16")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn(f"{1e3 * told['predicted']['step_s']:.3f} ms a step", done.stdout)
        self.assertIn("note: the time that coding takes is not in it", done.stdout)

    def test_a_run_in_a_lab(self):
        reason = shoal.lab_works()
        if reason:
            self.skipTest(reason)
        out = os.path.join(self.folder, "lab")
        done = shoal.run("train", "--model", "mlp-small", "--data", self.data, "--workers", 2,
                         "--lab", "rate=100mbit", "--batch", 8, "--steps", 16, "--epochs", 9,
                         "--no-eval", "--quiet", "--out", out)
        self.assertEqual(0, done.returncode, done.stderr)
        told = self.ask(out, "--bandwidth", "10mbit", "--codec", "fp16")
        self.assertEqual((told["measured"]["workers"], told["measured"]["steps"] > 8), (2, True))
        p = told["predicted"]
        self.assertTrue(0 < p["low_s"] < p["step_s"] < p["high_s"], p)


if __name__ == "__main__":
    shoal.main()
