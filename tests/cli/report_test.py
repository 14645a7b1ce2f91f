# SPDX-License-Identifier: Apache-2.0
"""shoal report: pages and facts of run folders, against a reckoning of their own lines; whole,
damaged, running, hostile and long ones."""
import collections
import html.parser
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

import shoal

LAB = shoal.lab_works()
VOID = {"meta", "link", "br", "hr", "img"}
HOSTILE = "<script>alert(1)</script>\"'&\x1b[31m\x01\ufffe\u202e</svg>-->"


class Page(html.parser.HTMLParser):
    """Elements in order, tables by caption, and what is not closed as it was opened."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.bad = [], [], []
        self.tables, self.table, self.cell, self.ids = {}, None, None, collections.Counter()
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.append((tag, attrs))
        if "id" in attrs:
            self.ids[attrs["id"]] += 1
        if tag == "table":
            self.table = []
        elif tag == "tr" and self.table is not None:
            self.table.append([])
        elif tag in ("td", "th", "caption"):
            self.cell = ""
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.bad.append((tag, self.getpos()))
        if tag == "caption":
            self.tables[self.cell] = self.table
        elif tag in ("td", "th"):
            self.table[-1].append(self.cell)
        if tag in ("td", "th", "caption"):
            self.cell = None

    def handle_data(self, data):
        self.text += data
        if self.cell is not None:
            self.cell += data

    def rows(self, caption):
        """A table as {column: text} per row."""
        found = self.tables[caption]
        return [dict(zip(found[0], row)) for row in found[1:]]


def lines_of(out, name="metrics.jsonl"):
    with open(os.path.join(out, name), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def steps_of(out, rank):
    name = f"metrics.{rank}.jsonl" if rank else "metrics.jsonl"
    return [line for line in lines_of(out, name) if "step_us" in line]


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-report-"))
        cls.data = os.path.join(cls.folder, "data")
        r = shoal.run("data", "digits", "--out", cls.data, "--train", 240, "--test", 20)
        assert r.returncode == 0, r.stderr
        cls.whole, cls.other = cls.path("whole"), cls.path("other")
        for out, more in ((cls.whole, ("--codec", "int8:ef")), (cls.other, ("--lr", "0.01"))):
            r = shoal.run(*cls.words(out, *more))
            assert r.returncode == 0, r.stderr

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder, *names)

    @classmethod
    def words(cls, out, *more, workers=3):
        words = ["train", "--model", "mlp-small", "--data", cls.data, "--workers", workers]
        words += ["--batch", 8, *shoal.usual({"--epochs": 2}, more), "--quiet", "--out", out]
        return [*words, *more]

    def copy(self, name):
        out = self.path(name)
        shutil.copytree(self.whole, out)
        return out

    def facts(self, *folders, code=0):
        r = shoal.run("report", "--json", *folders)
        self.assertEqual(code, r.returncode, r.stderr)
        return json.loads(r.stdout)["runs"]

    def page(self, *folders, code=0, env=None):
        """What a page has to be, whatever is in the folders."""
        out = self.path("page.html")
        r = shoal.run("report", *folders, "--out", out, env=env)
        self.assertEqual(code, r.returncode, r.stderr)
        with open(out, encoding="utf-8") as file:
            text = file.read()
        page = Page(text)
        self.assertEqual([], page.bad)
        self.assertEqual([], page.open)
        self.assertEqual([], [i for i, n in page.ids.items() if n > 1])
        self.check_alone(text, page)
        self.check_pictures(text, page)
        return page

    def check_alone(self, text, page):
        """Nothing is asked of anybody, and nothing runs."""
        kinds = {tag for tag, _ in page.elements}
        self.assertFalse(kinds & {"script", "iframe", "img", "object", "embed", "form", "base"})
        for tag, attrs in page.elements:
            for name, value in attrs.items():
                self.assertFalse(name.startswith("on"), (tag, attrs))
                if name in ("href", "src", "action", "data"):
                    self.assertRegex(value, r"^(#|data:,$)")
        style = re.search(r"<style>(.*?)</style>", text, re.S)[1]
        self.assertNotRegex(style, r"url\(|@import|http")
        self.assertNotRegex(re.sub(r'xmlns="http://www.w3.org/2000/svg"', "", text),
                            r'(src|href)="?https?:')

    def check_pictures(self, text, page):
        """Each is XML, has a name and what it shows as text, and its table beside it."""
        pictures = re.findall(r"<svg.*?</svg>", text, re.S)
        self.assertEqual(len(pictures), sum(tag == "svg" for tag, _ in page.elements))
        for picture in pictures:
            root = xml.etree.ElementTree.fromstring(picture)
            self.assertEqual("img", root.attrib["role"])
            for i in root.attrib["aria-labelledby"].split():
                said = [e for e in root.iter() if e.attrib.get("id") == i]
                self.assertTrue(said[0].text, i)
            self.assertNotRegex(picture, r"nan|inf(?!e)")
        for figure in re.findall(r"<figure>.*?</figure>", text, re.S):
            self.assertIn("<details><summary>Table: ", figure)

    def test_the_page_can_be_read_by_everybody(self):
        page = self.page(self.whole)
        kinds = collections.Counter(tag for tag, _ in page.elements)
        self.assertEqual([1, 1, 1, 1, 1], [kinds[k] for k in ("main", "header", "nav", "h1",
                                                              "footer")])
        levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
        self.assertTrue(all(b <= a + 1 for a, b in zip(levels, levels[1:])), levels)
        for tag, attrs in page.elements:
            if tag == "th":
                self.assertIn(attrs.get("scope"), ("col", "row"))
            if attrs.get("role") == "group":
                self.assertEqual("0", attrs["tabindex"])
            if tag == "a":
                self.assertIn(attrs["href"][1:], page.ids)
        self.assertEqual(kinds["table"], kinds["caption"])
        self.assertIn(("html", {"lang": "en"}), page.elements)

    def test_figures_are_those_of_the_lines(self):
        facts, page = self.facts(self.whole)[0], self.page(self.whole)
        every = [steps_of(self.whole, rank) for rank in range(3)]
        ranks = page.rows("A step by its parts, per rank")
        for rank, steps in enumerate(every):
            told, shown = facts["ranks"][rank], ranks[rank]
            self.assertEqual((rank, 20), (told["rank"], told["steps"]))
            for key in ("step", "compute", "data", "forward", "backward", "update", "wait",
                        "encode", "decode", "comm"):  # fmt: skip
                mean = sum(line[key + "_us"] for line in steps) / len(steps) / 1e3
                self.assertAlmostEqual(mean, told[key + "_ms"], places=9)
            self.assertEqual(sum(line["sent_bytes"] for line in steps), told["sent_bytes"])
            for part in ("compute", "forward", "backward"):
                self.assertAlmostEqual(told[part + "_ms"], float(shown[part + ", ms"]),
                                       delta=0.000501)  # fmt: skip
        for step, point in enumerate(facts["loss_points"], 1):
            losses = [steps[step - 1]["loss"] for steps in every]
            self.assertEqual((step, step), (point["first"], point["last"]))
            self.assertAlmostEqual(sum(losses) / 3, point["mean"], places=9)
            self.assertAlmostEqual(min(losses), point["low"], places=12)
            self.assertAlmostEqual(max(losses), point["high"], places=12)
        epochs = [line for line in lines_of(self.whole) if "epoch" in line]
        self.assertEqual([e["test_accuracy"] for e in epochs],
                         [e["test_accuracy"] for e in facts["epoch_lines"]])
        sent = sum(line["sent_bytes"] for steps in every for line in steps)
        got = sum(line["received_bytes"] for steps in every for line in steps)
        self.assertEqual((sent, got), (facts["totals"]["sent_bytes"],
                                       facts["totals"]["received_bytes"]))
        dense = sum(line["dense_bytes"] for steps in every for line in steps)
        codec = page.rows("Bytes by codec, of all ranks")[0]
        self.assertEqual(("int8:ef", f"{sent / 1e6:.3f}", f"{dense / 1e6:.3f}"),
                         (codec["codec"], codec["sent, MB"], codec["dense, MB"]))
        self.assertGreater(dense, 3 * sent)
        self.check_time(facts, every[0])

    def check_time(self, facts, lead):
        """By the clock of the leading rank, from its first step's beginning."""
        seconds = lead[0]["step_us"] + lead[-1]["at_us"] - lead[0]["at_us"]
        self.assertAlmostEqual(seconds * 1e-6, facts["totals"]["seconds"], places=6)
        self.assertAlmostEqual(seconds * 1e-6, facts["loss_points"][-1]["time_s"], places=6)

    def test_waits_are_those_of_the_lines(self):
        waits = self.facts(self.whole)[0]["waits"]
        every = [steps_of(self.whole, rank) for rank in range(3)]
        wanted = [[0.0] * 3 for _ in range(3)]
        last = [0] * 3
        for at in zip(*every):
            late = max(range(3), key=lambda r: at[r]["compute_us"])
            last[late] += 1
            for r in range(3):
                gap = at[late]["compute_us"] - at[r]["compute_us"]
                wanted[r][late] += min(gap, at[r]["wait_us"]) / 20e3
        self.assertEqual([n / 20 for n in last], waits["last_share"])
        for r in range(3):
            for told, want in zip(waits["for_ms"][r], wanted[r]):
                self.assertAlmostEqual(want, told, places=4)
            whole = sum(line["wait_us"] for line in every[r]) / 20e3
            self.assertAlmostEqual(whole, sum(wanted[r]) + waits["exchange_ms"][r], places=3)

    def test_the_matrix_of_many_ranks_is_cut_to_the_width_of_paper(self):
        out = self.copy("many")
        for rank in range(3, 20):
            shutil.copy(os.path.join(out, "metrics.1.jsonl"),
                        os.path.join(out, f"metrics.{rank}.jsonl"))  # fmt: skip
        waits, page = self.facts(out)[0]["waits"], self.page(out)
        columns = []
        for part in (1, 2):
            table = page.tables[f"Who waits for whom, ms per step, part {part} of 2"]
            self.assertEqual(20 + 3, len(table))
            self.assertEqual({len(table[0])}, {len(row) for row in table})
            columns.append([row[1:] for row in table])
        whole = [a + b for a, b in zip(*columns)]
        self.assertEqual([16, 4 + 1], [len(c[0]) for c in columns])
        self.assertEqual([f"for {r}" for r in waits["ranks"]] + ["exchange"], whole[0])
        for i, row in enumerate(whole[1:21]):
            told = waits["for_ms"][i] + [waits["exchange_ms"][i]]
            for k, (value, cell) in enumerate(zip(told, row)):
                if k == i:
                    self.assertEqual("-", cell)
                else:  # both are rounded, each once
                    self.assertAlmostEqual(value, float(cell), delta=0.0011)
            self.assertEqual(len(told), len(row))

    def test_several_runs_are_compared(self):
        page = self.page(self.whole, self.other)
        rows = page.rows("Runs compared")
        self.assertEqual([self.whole, self.other], [row["run"] for row in rows])
        self.assertEqual(["int8:ef", "identity"], [row["codec"] or "identity" for row in rows])
        for row, out in zip(rows, (self.whole, self.other)):
            last = [line for line in lines_of(out) if "epoch" in line][-1]
            self.assertEqual(f"{last['train_loss']:.4f}", row["loss"])
        self.assertIn("all-loss-title", page.ids)
        self.assertEqual(2, len(self.facts(self.whole, self.other)))

    @unittest.skipIf(LAB, LAB)
    def test_who_is_slow_is_named_with_the_evidence(self):
        for lab, cause, says in (("rate=200mbit,slow=2:8x", "compute", "slow at computing"),
                                 ("rate=200mbit,burst=16,link=1:30mbit", "network", "slow link")):
            with self.subTest(lab=lab):
                out = self.path(cause)
                r = shoal.run(*self.words(out, "--steps", 60, "--epochs", 9, "--compute-ms", 5,
                                          "--codec", "int8", "--no-eval", "--lab", lab,
                                          workers=4))
                self.assertEqual(0, r.returncode, r.stderr)
                slow = self.facts(out)[0]["verdict"]["slow"]
                rank = 2 if cause == "compute" else 1
                self.assertEqual([(rank, cause)], [(s["culprit"], s["cause"]) for s in slow])
                text = self.page(out).text
                self.assertRegex(text, rf"Rank {rank} \(.*\) (is|has a) {says}")
                self.assertIn("It arrived last in" if rank == 2 else "Its best connection", text)
        links = self.facts(self.path("network"))[0]["links"]
        slow = min((link for link in links if link["bytes_s"]), key=lambda link: link["bytes_s"])
        self.assertIn(1, (slow["from"], slow["to"]))
        self.assertLess(slow["bytes_s"] * 8, 40e6)
        line = [x for x in lines_of(self.path("network"), f"metrics.{slow['from']}.jsonl")
                if x.get("link") == slow["to"]][-1] if slow["from"] else None
        if line:
            rate = min(line["acked_bytes"] / line["busy_us"] * 1e6, line["line_bytes_s"])
            self.assertAlmostEqual(rate, slow["bytes_s"], delta=1)

    def test_every_cause_is_told_with_its_number(self):
        out = self.copy("causes")
        for cause, key, says in (("input", "data_ms", "slow at making its batches: 7.25 ms"),
                                 ("load", "samples", "has more samples than the others: 7.25 per"),
                                 ("disk", "disk_ms", "its part of checkpoints: 7.25 ms"),
                                 ("pause", "paused_ms", "pauses now and then, for at least 7.25")):
            with open(os.path.join(out, "events.jsonl"), "a", encoding="utf-8") as file:
                file.write(json.dumps({"event": "slow", "culprit": 2, "cause": cause,
                                       "host": "a & b", key: 7.25}) + "\n")  # fmt: skip
            told, text = self.facts(out)[0]["verdict"]["slow"][-1], self.page(out).text
            self.assertEqual((2, cause), (told["culprit"], told["cause"]))
            self.assertRegex(text, rf"Rank 2 \(a & b\) .*{says}.*; all wait for it")
            self.assertIn(told["evidence"], text)
        self.assertEqual(4, len(self.facts(out)[0]["verdict"]["slow"]))

    def test_a_lost_rank_and_the_members_after_it(self):
        out = self.path("lost")
        argv = list(map(str, [shoal.SHOAL, *self.words(out, "--on-loss", "reform", "--steps", 40,
                                                       "--epochs", 9, "--compute-ms", 30)]))
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as job:
            shoal.wait_until(lambda: len(shoal.ranks_of(job.pid)) == 3)
            victim = shoal.ranks_of(job.pid)[2]
            path = os.path.join(out, "metrics.jsonl")
            shoal.wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 2000)
            os.kill(victim, signal.SIGKILL)
            job.wait(60)
        facts, page = self.facts(out)[0], self.page(out)
        self.assertEqual({(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)},
                         {(r["members_epoch"], r["rank"]) for r in facts["ranks"]})
        members = page.rows("Workers over time")
        self.assertEqual([("begin", "3"), ("members", "2"), ("end", "2")],
                         [(m["event"], m["workers"]) for m in members])
        self.assertTrue(any("rank 2" in w["text"] for w in facts["warnings"]), facts["warnings"])
        self.assertIn("Warnings", page.tables)

    def test_what_is_damaged_missing_or_not_over_is_said(self):
        out = self.copy("damaged")
        with open(os.path.join(out, "metrics.1.jsonl"), "r+b") as file:
            file.seek(30)
            file.write(b"\0\0{")
            file.seek(0, os.SEEK_END)
            file.write(b'{"step": 9' + b"9" * 10 ** 5 + b"}\n{\"step\": 3, \"lo")
        with open(os.path.join(out, "events.jsonl"), "ab") as file:
            file.write(b"nothing\n")
        os.unlink(os.path.join(out, "run.json"))
        notes = "\n".join(self.facts(out)[0]["notes"])
        self.assertRegex(notes, r"metrics\.1\.jsonl: 3 of \d+ lines are damaged .* is line 1\b")
        self.assertRegex(notes, r"events\.jsonl: 1 of \d+ lines are damaged")
        self.assertIn("run.json cannot be read", notes)
        self.assertIn("run.json cannot be read", self.page(out).text)
        self.assertEqual(19, self.facts(out)[0]["ranks"][1]["steps"])
        for name in ("events.jsonl", "metrics.jsonl"):
            os.unlink(os.path.join(out, name))
        os.mkfifo(os.path.join(out, "events.jsonl"))  # waits for nobody
        notes = "\n".join(self.facts(out)[0]["notes"])
        self.assertIn("events.jsonl cannot be read", notes)
        self.assertIn("metrics.jsonl is not there", notes)
        self.page(out)

    def test_an_empty_run_and_one_that_goes_on(self):
        out = self.path("empty")
        os.mkdir(out)
        shutil.copy(os.path.join(self.whole, "run.json"), out)
        self.assertIn("there is nothing to draw", self.page(out).text)
        self.assertIsNone(self.facts(out)[0]["waits"])
        going = self.path("going")
        argv = list(map(str, [shoal.SHOAL, *self.words(going, "--epochs", 50, "--compute-ms",
                                                       50)]))
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              start_new_session=True) as job:
            path = os.path.join(going, "metrics.jsonl")
            shoal.wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 2000)
            text = self.page(going).text
            os.killpg(job.pid, signal.SIGKILL)
        self.assertIn("the run is going on (process", text)
        self.assertIn("this one has not ended", text)
        shoal.wait_until(lambda: self.facts(going)[0]["state"] != "running")
        self.assertIn("ended by force", self.page(going).text)

    def test_hostile_texts_are_only_text(self):
        out = self.copy("hostile " + HOSTILE.replace("/", "|").replace("\ufffe", ""))
        with open(os.path.join(out, "events.jsonl"), "a", encoding="utf-8") as file:
            for line in ({"level": "warn", "rank": HOSTILE, "text": HOSTILE, "time": HOSTILE},
                         {"event": HOSTILE, "workers": 1e308, "time": "2026-01-01T00:00:00Z"},
                         {"event": "begin", "workers": -5, "time": "9999-99-99T99:99:99Z"},
                         {"event": "slow", "culprit": 1, "cause": "compute", "host": HOSTILE,
                          "caused_ms": 1e300}):
                file.write(json.dumps(line) + "\n")
        with open(os.path.join(out, "metrics.jsonl"), "a", encoding="utf-8") as file:
            for line in ({"codec": HOSTILE, "from_step": -3},
                         {"step": 10 ** 14, "loss": 1e308, "compute_us": -1e308, "step_us": 1e308,
                          "sent_bytes": 1e300, "dense_bytes": 1, "at_us": 1e300},
                         {"step": 21, "loss": None, "sent_bytes": 5, "dense_bytes": 7},
                         {"step": -1, "loss": 0}, {"epoch": 1e308, "step": -1e308},
                         {"link": 1, "host": HOSTILE, "acked_bytes": 1e300, "busy_us": 1e6}):
                file.write(json.dumps(line) + "\n")
        page = self.page(out)
        self.assertIn("<script>alert(1)</script>\"'&?[31m", page.text)
        self.assertTrue(any("of 1 steps is not finite" in n for n in self.facts(out)[0]["notes"]))

    def test_without_gnuplot_the_tables_stand(self):
        whole = self.page(self.whole)
        self.assertNotIn("No picture", whole.text)
        bare, broken = self.path("bare"), self.path("broken")
        for folder in (bare, broken):
            os.mkdir(folder)
        with open(os.path.join(broken, "gnuplot"), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nread line\necho '<svg></defs>'\n")
        os.chmod(os.path.join(broken, "gnuplot"), 0o755)
        for folder, why in ((bare, "gnuplot is not installed"), (broken, "gnuplot did not draw")):
            page = self.page(self.whole, env={"PATH": folder})
            self.assertEqual(whole.tables, page.tables)
            pictures = sum(tag == "svg" for tag, _ in whole.elements)
            self.assertEqual((0, pictures), (sum(tag == "svg" for tag, _ in page.elements),
                                             page.text.count(why)))

    def write_long(self, out, count):
        """A run of one rank; its extremes lie at a third and two thirds of its steps."""
        line = steps_of(self.whole, 0)[0]
        third, rest = count // 3, 2 * count // 3
        with open(os.path.join(out, "metrics.jsonl"), "w", encoding="ascii") as file:
            for step in range(1, count + 1):
                line.update(step=step, loss=1 + step % 7, at_us=1000 * step)
                line["loss"] = {third: 99.5, rest: -7.25}.get(step, line["loss"])
                line["step_us"] = {third + 1: 777000, rest + 1: 1}.get(step, 1000)
                file.write(json.dumps(line) + "\n")
        for rank in (1, 2):
            path = os.path.join(out, f"metrics.{rank}.jsonl")
            if os.path.exists(path):
                os.unlink(path)
        return third, rest

    def test_a_long_run_keeps_its_extremes_and_stays_small(self):
        out, sizes = self.copy("long"), []
        for count in (3000, 30000):
            third, rest = self.write_long(out, count)
            facts = self.facts(out)[0]
            points, steps = facts["loss_points"], facts["step_ms_points"]

            def at(points, step):
                return next(p for p in points if p["first"] <= step <= p["last"])

            self.assertEqual(99.5, at(points, third)["high"])
            self.assertEqual(-7.25, at(points, rest)["low"])
            self.assertEqual(777, at(steps, third + 1)["high"])
            self.assertEqual(0.001, at(steps, rest + 1)["low"])
            self.assertEqual(777, facts["ranks"][0]["step_ms_most"])
            for some in (points, steps):
                self.assertLessEqual(len(some), 512)
                self.assertGreater(len(some), 200)
                self.assertEqual((1, count), (some[0]["first"], some[-1]["last"]))
                self.assertTrue(all(a["last"] + 1 == b["first"] for a, b in zip(some, some[1:])))
            self.assertAlmostEqual(count * 1e-3, facts["totals"]["seconds"], places=6)
            page = self.page(out)
            self.assertIn("777", page.text)
            sizes.append(os.path.getsize(self.path("page.html")))
        self.assertLess(sizes[1], 1 << 20)
        self.assertLess(sizes[1], 1.25 * sizes[0])  # ten times the steps

    def test_lines_too_long_or_with_nul_are_left_out_alone(self):
        out = self.copy("odd")
        line = steps_of(self.whole, 0)[0]
        path = os.path.join(out, "metrics.jsonl")
        with open(path, "wb") as file:
            for step, length in enumerate((0, 65534, 65535, 65536, 65537, 131071, 200000, 0), 1):
                text = json.dumps(dict(line, step=step)).encode()
                file.write(text + b" " * (length - len(text)) + b"\n")
            for step, text in ((9, b"\0"), (10, b"{\0}" + b" " * 65530), (11, b" " * 65534 + b"\0"),
                               (12, b" " * 65533 + b"\0"), (13, b" " * 65535 + b"\0 ")):
                file.write(text + b"\n" + json.dumps(dict(line, step=step)).encode() + b"\n")
        for rank in (1, 2):
            os.unlink(os.path.join(out, f"metrics.{rank}.jsonl"))
        rank = self.facts(out)[0]["ranks"][0]
        self.assertEqual((8, 1, 13), (rank["steps"], rank["first_step"], rank["last_step"]))

    def test_links_are_cut_back_with_their_steps(self):
        out = self.copy("cut")
        for name in ("metrics.jsonl", "metrics.1.jsonl", "metrics.2.jsonl"):
            with open(os.path.join(out, name), "r+", encoding="ascii") as file:
                text = file.read().replace('"step": 1,', '"step": 1 ,', 1)  # by lines, then
                file.seek(0)
                file.write(text + '{"link": 1, "at_step": 21, "host": "undone"}\n')
        r = shoal.run("train", "--resume", out, "--epochs", 3, "--quiet")
        self.assertEqual(0, r.returncode, r.stderr)
        lines = [x for rank in range(3) for x in lines_of(out, f"metrics.{rank}.jsonl" if rank
                                                         else "metrics.jsonl")]
        self.assertNotIn("undone", [x.get("host") for x in lines])
        self.assertIn(30, [x.get("at_step") for x in lines])
        self.assertEqual(30, self.facts(out)[0]["ranks"][0]["steps"])

    def test_words(self):
        for words, code, says in (((), 2, "which folder?"), (("",), 2, "empty"),
                                  ((self.path("absent"),), 1, "no such file"),
                                  ((self.data,), 2, "holds no run"),
                                  ((self.whole,) * 17, 2, "at most 16 runs"),
                                  ((self.whole, "--json", "--out", "x"), 2, "writes no page"),
                                  ((self.whole, "--out", self.path("no", "x.html")), 1,
                                   "cannot write")):
            with self.subTest(words=words[:2]):
                r = shoal.run("report", *words)
                self.assertEqual((code, ""), (r.returncode, r.stdout), r.stderr)
                self.assertIn(says, r.stderr.lower())
        r = shoal.run("report", self.whole, cwd=self.folder)
        self.assertEqual("report.html: 1 run\n", r.stdout)
        with open(self.path("report.html"), encoding="utf-8") as file:
            self.assertEqual(file.read(), shoal.run("report", self.whole, "--out", "-").stdout)
        self.assertEqual(1, len(self.facts(self.whole, self.path("absent"), code=1)))


if __name__ == "__main__":
    shoal.main()
