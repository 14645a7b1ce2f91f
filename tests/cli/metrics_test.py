# SPDX-License-Identifier: Apache-2.0
"""shoal train --metrics: the page as OpenMetrics, its figures against the run's own file, ports in
use, strangers, two jobs, the loss of rank 0, and the rules and the board that are installed."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import open_metrics
import shoal

OPEN = "application/openmetrics-text; version=1.0.0"
HERE = os.path.dirname(os.path.abspath(__file__))
MONITORING = os.path.join(shoal.ROOT, "examples", "monitoring")
WORD = re.compile(r"\bshoal_[a-z_]+\b")


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.data = os.path.join(cls.folder, "data")
        made = shoal.run("data", "digits", "--out", cls.data, "--train", 96, "--test", 20)
        assert made.returncode == 0, made.stderr

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def port(self):
        """Of this test alone, until its end."""
        reserved = shoal.reserved_port()
        self.addCleanup(reserved.close)
        return reserved.getsockname()[1]

    def words(self, port, *more):
        return [shoal.SHOAL, "train", "--model", "mlp-small", "--data", self.data, "--batch", "8",
                "--metrics", str(port), *map(str, more)]  # fmt: skip

    def start(self, port, *more, **env):
        job = subprocess.Popen(self.words(port, *more), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True,
                               env=dict(os.environ, **env))  # fmt: skip
        self.addCleanup(job.communicate)
        self.addCleanup(job.terminate)
        return job

    def get(self, port, **headers):
        request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.headers["Content-Type"], answer.read().decode("utf-8")

    def page(self, port, condition, **headers):
        """The first page of which the condition holds."""
        found = []

        def look():
            try:
                kind, text = self.get(port, Accept=OPEN, **headers)
            except OSError:
                return False
            self.assertIn("application/openmetrics-text", kind)
            found[:] = [open_metrics.parse(text)]
            return condition(found[0])

        shoal.wait_until(look)
        return found[0]

    def steps(self, page):
        return open_metrics.value(page, "shoal_train_steps")

    def test_figures_are_those_of_the_run(self):
        """Sums of the page against sums over the lines of the run's own file."""
        port, out = self.port(), os.path.join(self.folder, "run")
        job = self.start(port, "--workers", 3, "--compute-ms", 20, "--epochs", 20, "--codec",
                         "fp16", "--out", out, "--json", SHOAL_JOB='a "b" \\ c')  # fmt: skip
        page = self.page(port, lambda p: self.steps(p) >= 12
                         and p["shoal_train_rank_compute_seconds"].samples)  # fmt: skip
        done = int(self.steps(page))
        answer = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 0, answer[1])
        with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        steps = [line for line in lines if "step_us" in line][:done]
        self.assertEqual(len(steps), done)

        def value(metric, /, **labels):
            return open_metrics.value(page, "shoal_train_" + metric, **labels)

        self.assertEqual(value("sent_bytes"), sum(s["sent_bytes"] for s in steps))
        self.assertEqual(value("samples"), sum(s["step_samples"] for s in steps))
        self.assertAlmostEqual(value("dense_bytes") / value("sent_bytes"), 2, delta=0.05)
        parts = {p: value("step_seconds", part=p) for p in ("compute", "wait", "update", "other")}
        for part in ("compute", "wait", "update"):
            self.assertAlmostEqual(parts[part], sum(s[part + "_us"] for s in steps) / 1e6,
                                   delta=1e-6 * done)  # fmt: skip
        self.assertAlmostEqual(sum(parts.values()), sum(s["step_us"] for s in steps) / 1e6,
                               delta=1e-6 * done)  # fmt: skip
        inner = {p: value("compute_seconds", part=p) for p in ("data", "forward", "backward")}
        self.assertAlmostEqual(sum(inner.values()), parts["compute"], delta=1e-6 * done)
        self.assertAlmostEqual(inner["forward"], sum(s["forward_us"] for s in steps) / 1e6,
                               delta=1e-6 * done)  # fmt: skip
        self.assertEqual(value("workers"), 3)
        self.assertEqual(value("step"), done)
        self.assertTrue(0 <= value("test_accuracy_ratio") <= 1)
        self.assertEqual(value("job", name='a "b" \\ c', codec="fp16"), 1)
        for rank in range(3):
            self.assertEqual(value("rank_up", rank=rank), 1)
        self.assertEqual(len(page["shoal_train_rank_straggler"].samples), 3 * 6)
        self.assertLess(value("last_checkpoint_timestamp_seconds"),
                        value("last_step_timestamp_seconds") + 60)  # fmt: skip

    def test_the_older_format(self):
        port = self.port()
        self.start(port, "--compute-ms", 20, "--epochs", 1000, "--no-eval", "--quiet")
        self.page(port, lambda p: self.steps(p) >= 1)
        kind, text = self.get(port)
        self.assertIn("text/plain; version=0.0.4", kind)
        self.assertIn("# TYPE shoal_train_steps_total counter\nshoal_train_steps_total ", text)
        self.assertNotIn("# UNIT", text)
        self.assertNotIn("# EOF", text)
        with self.assertRaises(urllib.error.HTTPError) as nowhere:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10)
        self.assertEqual(nowhere.exception.code, 404)

    def test_two_jobs_and_a_port_in_use(self):
        ports = [self.port(), self.port()]
        for port, workers in zip(ports, (3, 2)):
            self.start(port, "--workers", workers, "--compute-ms", 20, "--epochs", 1000,
                       "--no-eval", "--quiet", SHOAL_JOB="same")  # fmt: skip
        for port, workers in zip(ports, (3, 2)):  # each tells of its own ranks
            page = self.page(port, lambda p: self.steps(p) >= 2
                             and p["shoal_train_rank_up"].samples)  # fmt: skip
            self.assertEqual(len(page["shoal_train_rank_up"].samples), workers)
        self.assertEqual(len(page["shoal_train_job"].samples), 1)
        out = os.path.join(self.folder, "refused")
        for workers in (1, 2):
            done = subprocess.run(self.words(ports[0], "--workers", workers, "--out", out),
                                  capture_output=True, text=True, timeout=60)  # fmt: skip
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"--metrics {ports[0]}: Address already in use", done.stderr)
            self.assertFalse(os.path.exists(out))

    def test_strangers(self):
        done = subprocess.run(self.words("0.0.0.0:0", "--steps", 1), capture_output=True,
                              text=True, timeout=60)  # fmt: skip
        self.assertEqual(done.returncode, 2)
        self.assertIn("--metrics-token-file", done.stderr)
        token = os.path.join(self.folder, "token")
        with open(token, "w", encoding="ascii") as file:
            file.write("0123456789abcdef-scrape\n")
        os.chmod(token, 0o644)
        port = self.port()
        done = subprocess.run(
            self.words(f"0.0.0.0:{port}", "--metrics-token-file", token, "--steps", 1),
            capture_output=True, text=True, timeout=60)  # fmt: skip
        self.assertEqual(done.returncode, 2)
        self.assertIn("others may read it", done.stderr)
        os.chmod(token, 0o600)
        self.start(f"0.0.0.0:{port}", "--metrics-token-file", token, "--workers", 2,
                   "--compute-ms", 20, "--epochs", 1000, "--no-eval", "--quiet")  # fmt: skip
        self.page(port, lambda p: self.steps(p) >= 1,
                  Authorization="Bearer 0123456789abcdef-scrape")  # fmt: skip
        for wrong in ({}, {"Authorization": "Bearer 0123456789abcdef-scrapE"},
                      {"Authorization": "Bearer 0123456789abcdef-scrape2"}):  # fmt: skip
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.get(port, **wrong)
            self.assertEqual(refused.exception.code, 401)

    def test_the_page_outlives_rank_0(self):
        port = self.port()
        job = self.start(port, "--workers", 3, "--compute-ms", 20, "--epochs", 1000, "--no-eval",
                         "--quiet", "--on-loss", "reform")  # fmt: skip
        before = self.page(port, lambda p: self.steps(p) >= 5)
        self.assertEqual(open_metrics.value(before, "shoal_train_workers"), 3)
        os.kill(shoal.ranks_of(job.pid)[0], signal.SIGKILL)
        after = self.page(port, lambda p: open_metrics.value(p, "shoal_train_workers") == 2
                          and len(p["shoal_train_rank_up"].samples) == 2)  # fmt: skip
        self.assertEqual(open_metrics.value(after, "shoal_train_workers_lost"), 1)
        self.assertGreaterEqual(open_metrics.value(after, "shoal_train_membership_epoch"), 1)
        self.assertGreaterEqual(open_metrics.value(after, "shoal_train_step"), 5)

    def test_rules_and_board_know_the_page(self):
        """Each metric that they ask for is on the page, and promtool takes the rules."""
        port = self.port()
        self.start(port, "--workers", 2, "--compute-ms", 20, "--epochs", 1000, "--no-eval",
                   "--quiet")  # fmt: skip
        known = open_metrics.names(self.page(port, lambda p: self.steps(p) >= 1))
        with open(os.path.join(MONITORING, "shoal-board.json"), encoding="utf-8") as file:
            board = json.load(file)
        asked = [t["expr"] for panel in board["panels"] for t in panel["targets"]]
        rules = os.path.join(MONITORING, "shoal-alerts.yml")
        with open(rules, encoding="utf-8") as file:
            asked += re.findall(r"expr: (.*)", file.read())
        self.assertGreater(len(asked), 20)
        for expression in asked:
            self.assertTrue(WORD.findall(expression), expression)
            self.assertLessEqual(set(WORD.findall(expression)), known, expression)
        if shutil.which("promtool") is None:
            self.skipTest("rules were not checked by promtool: package prometheus is missing")
        self.promtool("check", "rules", rules)
        self.promtool("check", "metrics", input=self.get(port)[1])

    def promtool(self, *words, input=None):
        done = subprocess.run(["promtool", *words], input=input, capture_output=True, text=True,
                              timeout=60)  # fmt: skip
        self.assertEqual((done.returncode, ""), (0, done.stderr), done.stdout)  # hints count, too

    @unittest.skipIf(shutil.which("promtool") is None, "no promtool: package prometheus is missing")
    def test_each_rule_fires_when_it_should_and_only_then(self):
        cases = os.path.join(HERE, "alert_rules.yml")
        self.promtool("test", "rules", cases)
        names = []
        for path in (cases, os.path.join(MONITORING, "shoal-alerts.yml")):
            with open(path, encoding="utf-8") as file:
                names.append(set(re.findall(r"\bShoal[A-Z]\w+", file.read())))
        self.assertEqual(*names)

    def test_another_reader_of_the_format(self):
        """The page by the reader of Prometheus' own Python client, beside the one of this test."""
        try:
            from prometheus_client.openmetrics import parser
        except ImportError:
            self.skipTest("no second reader: package python3-prometheus-client is missing")
        port = self.port()
        self.start(port, "--workers", 2, "--compute-ms", 20, "--epochs", 1000, "--no-eval",
                   "--quiet")  # fmt: skip
        self.page(port, lambda p: self.steps(p) >= 1 and p["shoal_train_rank_up"].samples)
        text = self.get(port, Accept=OPEN)[1]
        theirs = {family.name: family for family in parser.text_string_to_metric_families(text)}
        ours = open_metrics.parse(text)
        self.assertEqual(set(theirs), set(ours))
        self.assertEqual(sum(len(family.samples) for family in theirs.values()),
                         sum(len(family.samples) for family in ours.values()))  # fmt: skip

    def test_a_real_prometheus_scrapes_and_alerts(self):
        if shutil.which("prometheus") is None:
            self.skipTest("no real Prometheus: package prometheus is missing")
        port, own = self.port(), self.port()
        config = os.path.join(self.folder, "prometheus.yml")
        with open(config, "w", encoding="ascii") as file:
            file.write(f"""
global: {{scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}}
rule_files: [{MONITORING}/shoal-alerts.yml]
scrape_configs: [{{job_name: shoal, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}]
""")
        job = self.start(port, "--workers", 3, "--compute-ms", 20, "--epochs", 1000, "--no-eval",
                         "--quiet", "--on-loss", "reform")  # fmt: skip
        self.page(port, lambda p: self.steps(p) >= 2)
        server = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--web.listen-address=127.0.0.1:{own}",
             f"--storage.tsdb.path={self.folder}/tsdb"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)

        def ask(query):
            try:
                url = f"http://127.0.0.1:{own}/api/v1/query?query={query}"
                with urllib.request.urlopen(url, timeout=60) as answer:
                    return json.load(answer)["data"]["result"]
            except OSError:
                return []

        shoal.wait_until(lambda: ask("shoal_train_steps_total"))
        self.assertEqual(ask("up")[0]["value"][1], "1")
        self.assertEqual(ask("ALERTS"), [])
        os.kill(shoal.ranks_of(job.pid)[1], signal.SIGKILL)
        shoal.wait_until(lambda: ask('ALERTS{alertname="ShoalWorkerLost"}'))
        self.assertEqual(ask("shoal_train_workers")[0]["value"][1], "2")


if __name__ == "__main__":
    shoal.main()
