# SPDX-License-Identifier: Apache-2.0
"""shoal network: LIBRA's tables from files, sweeps as CSV, SVG and HTML, errors with names."""
import csv
import json
import math
import os
import tempfile
import unittest
import xml.dom.minidom

import shoal

HERE = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "network")


def path(name):
    return os.path.join(HERE, name)


NET = ["network", "-n", path("4d.yml"), "-c", path("4d-cost.yml")]
GPT3 = ["-w", path("gpt3.txt"), "-g", path("gpt3-4d.yml")]


def shapes_of(npus, blocks, most_dims):
    """Every (block, size) sequence, blocks in order, whose sizes multiply to npus."""
    if npus == 1:
        return [()]
    found = []
    for i, (_, least, most, _) in enumerate(blocks):
        for n in range(least, min(most, npus) + 1):
            if npus % n == 0 and most_dims > 0:
                rest = shapes_of(npus // n, [(None, 9, 1, 0)] * i + blocks[i:], most_dims - 1)
                found += [((i, n),) + tail for tail in rest]
    return found


def placed(sizes, members):
    """Members of a group per dimension, inner ones first, and what is left of each; None: no."""
    taken, left = [], []
    for n in sizes:
        part = min(n, members) if members > 1 else 1
        if n % part or members % part:
            return None, None
        taken.append(part)
        left.append(n // part)
        members //= part
    return (taken, left) if members == 1 else (None, None)


def sent(size, groups):
    """Bytes of an all-reduce on each dimension."""
    out = []
    for c in groups:
        out.append(2 * size * (c - 1) / c)
        size /= c
    return out


def least_time(one, two, weights, budget):
    """The least t1 + t2 of two collectives on bandwidths b with weights . b <= budget: for each
    ratio r = t2 / t1, b_d = max(one_d, two_d / r) / t1; the best ratio by golden section."""

    def at(log_r):
        r = math.exp(log_r)
        need = sum(w * max(a, b / r) for w, a, b in zip(weights, one, two))
        return need / budget * (1 + r)

    low, high, cut = -20.0, 20.0, (math.sqrt(5) - 1) / 2
    for _ in range(200):
        a, b = high - cut * (high - low), low + cut * (high - low)
        low, high = (low, b) if at(a) < at(b) else (a, high)
    return at((low + high) / 2)


class Network(unittest.TestCase):
    def one(self, *args):
        r = shoal.run(*NET, *args, "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)

    def test_shortest_time(self):
        (result,) = self.one(*GPT3, "-l", "sum == 500")["results"]
        self.assertAlmostEqual(result["time_ns"], 722411780.9, delta=0.06)
        self.assertAlmostEqual(result["equal_time_ns"], 775045208.4, delta=0.06)
        self.assertLess(result["gap"], 1e-12)
        for got, want in zip(result["bandwidth_gb_s"], (338.450, 84.612, 58.158, 18.780)):
            self.assertAlmostEqual(got, want, delta=6e-4)

    def test_other_sources_of_the_same(self):
        table = ["network", "-n", "ring:4, fc:8, ring:4, switch:32", "-c", "2,4,4,57.4"]
        r = shoal.run(*table, "-w", path("gpt3.txt"), "-g", "tp=16", "-l", "sum == 500", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        (result,) = json.loads(r.stdout)["results"]
        self.assertAlmostEqual(result["time_ns"], 722411780.9, delta=0.06)

    def test_objectives_and_groups(self):
        args = [*GPT3, "-w", path("tnlg.txt") + "@2", "-l", "sum == 500"]
        (fast,) = self.one(*args)["results"]
        (cheap,) = self.one(*args, "-o", "perf-per-cost")["results"]
        self.assertAlmostEqual(
            fast["time_ns"] / (fast["job_time_ns"][0] + 2 * fast["job_time_ns"][1]), 1, 12
        )
        self.assertLess(cheap["time_ns"] * cheap["cost"], fast["time_ns"] * fast["cost"])
        self.assertLess(cheap["gap"], 1e-9)
        (least,) = self.one(*GPT3, "-o", "cost", "-l", "time <= 8e8")["results"]
        self.assertLessEqual(least["time_ns"], 8e8 * (1 + 1e-12))

    def test_a_trace_is_the_same_workload(self):
        with tempfile.TemporaryDirectory() as d:
            trace = os.path.join(d, "gpt3.et")
            (text,) = self.one(*GPT3, "-l", "sum == 500", "--trace", trace)["results"]
            (again,) = self.one("-w", trace, "-g", "tp=16", "-l", "sum == 500")["results"]
        self.assertAlmostEqual(again["time_ns"] / text["time_ns"], 1, 12)

    def test_text_says_what_it_found(self):
        r = shoal.run(*NET, *GPT3, "-l", "sum == 500", "--collectives")
        self.assertEqual(r.returncode, 0, r.stderr)
        for text in ("722411780.9 ns", "1.0729x", "3.886x", "gap", "block1.q", "all_gather"):
            self.assertIn(text, r.stdout)

    def test_sweep(self):
        with tempfile.TemporaryDirectory() as d:
            files = {k: os.path.join(d, "front." + k) for k in ("csv", "svg", "html")}
            options = [x for k, f in files.items() for x in ("--" + k, f)]
            r = shoal.run(*NET, *GPT3, "--sweep", "cost=1e6:1e8:15", *options)
            self.assertEqual(r.returncode, 0, r.stderr)
            with open(files["csv"], encoding="utf-8") as f:
                rows = list(csv.DictReader(f))
            xml.dom.minidom.parse(files["svg"])
            with open(files["html"], encoding="utf-8") as f:
                page = f.read()
            none = shoal.run(*NET, *GPT3, "--sweep", "cost=1e6:1e8:3", "--svg", files["svg"],
                             env={"PATH": d})  # fmt: skip
            self.assertEqual(none.returncode, 1)
            self.assertIn("gnuplot is not installed", none.stderr)
            without = shoal.run(*NET, *GPT3, "--sweep", "cost=1e6:1e8:3", "--html", files["html"],
                                env={"PATH": d})  # fmt: skip
            self.assertEqual(without.returncode, 0, without.stderr)
            with open(files["html"], encoding="utf-8") as f:
                self.assertEqual(1, f.read().count("gnuplot is not installed"))
        self.assertEqual(len(rows), 15)
        times = [float(row["time_ns"]) for row in rows]
        self.assertEqual(times, sorted(times, reverse=True))  # a front: dearer is faster
        for row in rows:
            self.assertTrue(0.999999 < float(row["cost"]) / float(row["cost_limit"]) < 1.000001)
            self.assertLess(float(row["gap"]), 1e-12)
        self.assertEqual((page.count("<svg"), page.count("<tr>")), (2, 16))

    def test_a_model_is_a_workload(self):
        a100 = os.path.join(HERE, "..", "clusters", "a100-80g.json")
        model = ["network", "-n", "ring:4, fc:8, ring:4, switch:32", "-l", "sum == 500"]
        model += ["-m", "megatron-175b@2"]
        model += ["--parallel", "tensor=8,pipeline=8,batch=64,sequence"]
        r = shoal.run(*model, "--accelerator", a100, "--chunks", "32", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        answer = json.loads(r.stdout)
        (result,), chunked = answer["results"], answer["chunked"]
        self.assertAlmostEqual(result["time_ns"] / (2 * result["job_time_ns"][0]), 1, 12)
        for which in ("found", "even"):
            one = chunked[which]
            self.assertLessEqual(one["bound_ns"], one["chosen_ns"])
            self.assertLessEqual(one["chosen_ns"], one["one_order_ns"])
        self.assertGreater(chunked["gain_bandwidths"], 1.05)
        self.assertGreater(chunked["gain_orders"], 1.05)
        r = shoal.run(*model, "--accelerator", a100, "--collectives")
        for text in ("block0 ", "scores ", "next-stage ", " send "):
            self.assertIn(text, r.stdout)
        r = shoal.run(*model)
        self.assertEqual(r.returncode, 2)
        self.assertIn("--model needs --accelerator", r.stderr)
        r = shoal.run(*model, "--accelerator", a100, "--trace", "x.et")
        self.assertEqual(r.returncode, 2)
        self.assertIn("stages of a pipeline", r.stderr)

    def test_all_to_alls_are_counted(self):
        with tempfile.TemporaryDirectory() as d:
            rows = os.path.join(d, "tables.txt")
            with open(rows, "w", encoding="ascii") as f:
                f.write("tables -1 10 ALLTOALL 6400 10 ALLTOALL 6400 10 NONE 0 10\n")
            args = ["network", "-n", "fc:4, switch:8", "-l", "sum == 10", "-w", rows]
            (whole,) = json.loads(shoal.run(*args, "--json").stdout)["results"]
            (part,) = json.loads(shoal.run(*args, "-g", "tp=4,ep=2", "--json").stdout)["results"]
            alone = shoal.run(*args, "-g", "tp=32")
        self.assertGreater(whole["time_ns"], 30 + 2 * 6400 * (3 / 4 + 7 / 8) / 10 * (1 - 1e-9))
        self.assertAlmostEqual(part["time_ns"], 30 + 2 * 6400 / 2 / 10, 6)
        self.assertEqual(alone.returncode, 2)
        self.assertIn("all-to-all of tables", alone.stderr)

    def test_the_best_of_all_shapes(self):
        blocks = [("ring", 2, 6, 2.0), ("fc", 2, 4, 3.0), ("switch", 3, 12, 7.5)]
        texts = [f"--block={k}:least={a},most={b},cost={c}" for k, a, b, c in blocks]
        size, other, busy = 8e8, 3e8, 100 + 200 + 300
        for npus, budget in ((24, 9e4), (36, 2e4), (64, 5e5)):
            best, fit = (math.inf, ""), 0
            for shape in shapes_of(npus, blocks, 3):
                tensor, replicas = placed([n for _, n in shape], 4)
                if tensor is None:
                    continue
                fit += 1
                prices = [npus * blocks[i][3] for i, _ in shape]
                time = busy + least_time(sent(2 * size, tensor), sent(other, replicas), prices,
                                         budget)  # fmt: skip
                text = ", ".join(f"{blocks[i][0]}:{n}" for i, n in shape)
                best = min(best, (time, text))
            with tempfile.TemporaryDirectory() as d:
                rows = os.path.join(d, "rows.txt")
                with open(rows, "w", encoding="ascii") as f:
                    f.write(f"x -1 100 ALLREDUCE {size:.0f} 200 ALLREDUCE {size:.0f} 300 "
                            f"ALLREDUCE {other:.0f} 0\n")  # fmt: skip
                r = shoal.run("network", "--shapes", str(npus), *texts, "--dimensions", "3", "-w",
                              rows, "-g", "tp=4", "-l", f"cost <= {budget}", "--json")  # fmt: skip
            self.assertEqual(r.returncode, 0, r.stderr)
            answer = json.loads(r.stdout)
            first, space = answer["results"][0], answer["results"][0]["space"]
            self.assertEqual(space["shapes"], fit)
            self.assertAlmostEqual(first["time_ns"] / best[0], 1, 9, (first, best))
            self.assertLessEqual(space["bound"], best[0] * (1 + 1e-9))
            self.assertLess(space["gap"], 1e-9)
            self.assertEqual(len(answer["results"]), 5)

    def test_shapes_are_a_front(self):
        shapes = ["network", "--shapes", "4096", "--block", "ring:most=16,cost=2", "--block",
                  "fc:most=16,cost=4", "--block", "switch:most=64,cost=57.4,rate=100", "-w",
                  path("gpt3.txt"), "-g", "tp=16"]  # fmt: skip
        given = ["-n", "ring:4, fc:8, ring:4, switch:32", "-c", "2,4,4,57.4", "-l", "b3 <= 100"]
        sweep = ["--sweep", "cost=1e6:1e8:4"]
        with tempfile.TemporaryDirectory() as d:
            table = os.path.join(d, "front.csv")
            page = os.path.join(d, "front.html")
            r = shoal.run(*shapes, *sweep, "--csv", table, "--html", page)
            self.assertEqual(r.returncode, 0, r.stderr)
            with open(table, encoding="utf-8") as f:
                rows = list(csv.DictReader(f))
            with open(page, encoding="utf-8") as f:
                self.assertIn(rows[0]["shape"], f.read())
        self.assertIn(rows[0]["shape"], r.stdout)
        r = shoal.run("network", *given, *shapes[-4:], *sweep, "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        for row, one in zip(rows, json.loads(r.stdout)["results"], strict=True):
            self.assertLessEqual(float(row["time_ns"]), one["time_ns"] * (1 + 1e-12))
            self.assertEqual(row["front"], "1")
            self.assertLess(float(row["gap"]), 1e-9)
        r = shoal.run(*shapes, "-l", "cost <= 1e7", "--chunks", "16", "--collectives")
        self.assertEqual(r.returncode, 0, r.stderr)
        for text in ("excluded by a bound", "gap", "16 chunks", "block1.q"):
            self.assertIn(text, r.stdout)

    def test_orders_of_chunks_on_each_shape(self):
        shapes = ["network", "--shapes", "64", "--block", "ring:most=8,cost=2", "--block",
                  "switch:most=16,cost=9", "-w", path("gpt3.txt"), "-g", "tp=16", "--top", "3"]
        budget = ["-l", "cost <= 1e5", "--chunks", "8"]
        r = shoal.run(*shapes, *budget, "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        answer = json.loads(r.stdout)
        self.assertEqual(len(answer["results"]), 3)
        self.assertEqual(answer["chunked"], answer["results"][0]["chunked"])
        for one in answer["results"]:  # as if its shape had been given
            costs = ",".join(map(str, one["unit_cost"]))
            alone = shoal.run("network", "-n", one["shape"], "-c", costs, "-w", path("gpt3.txt"),
                              "-g", "tp=16", *budget, "--json")  # fmt: skip
            self.assertEqual(alone.returncode, 0, alone.stderr)
            want = json.loads(alone.stdout)["chunked"]
            for place in ("found", "even"):
                for name in ("one_order_ns", "chosen_ns", "bound_ns"):
                    self.assertAlmostEqual(one["chunked"][place][name] / want[place][name], 1, 6)
            self.assertGreaterEqual(one["chunked"]["gain_orders"], 1)
        r = shoal.run(*shapes, *budget, "--csv", "-")
        rows = list(csv.DictReader(r.stdout.splitlines()))
        for row, one in zip(rows, answer["results"], strict=True):
            want = one["chunked"]["even"]["chosen_ns"]
            self.assertAlmostEqual(float(row["even_chosen_ns"]) / want, 1, 9)
        r = shoal.run(*shapes[:-2], "--sweep", "cost=1e5:1e6:3", "--chunks", "8")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("in 8 chunks, simulated", r.stdout)

    def test_energy_is_refused_with_the_reason(self):
        r = shoal.run("network", "-n", "ring:64", "-w", path("gpt3.txt"), "-g", "tp=16", "-o",
                      "energy", "-l", "sum == 500")  # fmt: skip
        self.assertEqual(r.returncode, 2)
        self.assertIn("no watts", r.stderr)

    def test_bad_shapes(self):
        work = ["-w", path("gpt3.txt"), "-g", "tp=16", "-l", "sum == 500"]
        ring = ["--shapes", "64", "--block", "ring:cost=1"]
        for args, text in (
            (["--shapes", "64", *work], "needs a --block"),
            ([*ring, "-n", "ring:64", *work], "not both"),
            ([*ring, "-c", "2", *work], "leave --cost out"),
            (["-n", "ring:64", "--top", "3", *work], "belong to --shapes"),
            ([*ring, "--block", "torus", *work], "torus"),
            ([*ring, "--dimensions", "9", *work], "--dimensions"),
            ([*ring, *work, "-l", "b0 <= 5"], "names a dimension"),
            ([*ring, *work, "--top", "2", "--sweep", "cost=1:9:3"], "leave --top out"),
            (["--shapes", "7", "--block", "fc:most=4", "-w", path("tnlg.txt")], "no sizes"),
        ):
            r = shoal.run("network", *args)
            self.assertEqual(r.returncode, 2, (args, r.stderr))
            self.assertIn(text, r.stderr)

    def test_bad_input(self):
        for args, text in (
            ([], "at least one --workload"),
            ([*GPT3], "nothing ends the bandwidth"),
            ([*GPT3, "-l", "sum == 100", "-l", "b1 >= 101"], "'sum == 100' and 'b1 >= 101'"),
            ([*GPT3, "-l", "sum = 100 furlongs"], "furlongs"),
            (["-w", path("gpt3.txt"), "-g", "tp=3"], "does not divide"),
            ([*GPT3, "--sweep", "sum=9:1:3"], "is not taken"),
            ([*GPT3, "-l", "sum == 1", "--svg", "x.svg"], "draw a --sweep"),
            ([*GPT3, "--sweep", "sum=1:9:3", "--chunks", "4"], "--chunks simulates one"),
            ([*GPT3, "-l", "sum == 1", "--chunks", "0"], "--chunks"),
            ([*GPT3, "-l", "sum == 1", "--accelerator", "x.json"], "computes a --model"),
            ([*GPT3, "--parallel", "tensor=2"], "--parallel"),
            (["-m", "lenet", "--parallel", "codec=fp16"], "--parallel"),
        ):
            r = shoal.run(*NET, *args)
            self.assertEqual(r.returncode, 2, (args, r.stderr))
            self.assertIn(text, r.stderr)
        r = shoal.run(*NET, "-w", path("4d.yml"), "-l", "sum == 1")
        self.assertEqual(r.returncode, 1)
        self.assertIn("4d.yml:1:", r.stderr)


if __name__ == "__main__":
    shoal.main()
