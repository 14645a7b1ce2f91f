# SPDX-License-Identifier: Apache-2.0
"""A shoal sim that runs answers as a job does: shoal status, shoal watch, its page of metrics."""
import json
import os
import re
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import open_metrics
import shoal
import watch_browser

SLOW = ("--workers", "6", "--compute", "fixed:ms=20,jitter=0.02,slow=4:3x", "--seconds", "1e8",
        "--params", "100000", "--quiet")  # fmt: skip


class SimLive(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="shoal-sim-live-"))
        self.env = {"SHOAL_STATUS_DIR": os.path.join(self.folder, "run")}

    def start(self, *args, **env):
        plain = {k: v for k, v in os.environ.items() if k != "SHOAL_JOB"}
        child = subprocess.Popen([shoal.SHOAL, "sim", *args], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True,
                                 env=dict(plain, **self.env, **env))  # fmt: skip
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        return child

    def status(self, *args):
        return shoal.run("status", "--timeout-ms", 60000, *args, env=self.env)

    def until(self, condition, *args):
        found = []

        def look():
            r = self.status("--json", *args)
            found[:] = [json.loads(r.stdout)] if r.returncode == 0 else []
            return bool(found) and condition(found[0])

        shoal.wait_until(look)
        return found[0]

    def test_status_names_the_slow_worker(self):
        self.start(*SLOW, SHOAL_JOB="lab")
        job = self.until(lambda j: j["ranks"][4]["cause"] == "compute", "lab")
        self.assertEqual(6, len(job["ranks"]))
        self.assertEqual([""] * 5, [r["cause"] for r in job["ranks"] if r["rank"] != 4])
        self.assertIn("times are virtual", job["notes"])
        text = self.status("lab").stdout
        self.assertIn("rank 4 (host 4) is slow at computing", text)
        self.assertNotIn("epoch", text.splitlines()[1])  # it has none
        watch = subprocess.Popen([shoal.SHOAL, "watch", "--job", "lab", "--interval", "0.1"],
                                 env=dict(os.environ, **self.env), stdout=subprocess.PIPE,
                                 text=True)  # fmt: skip
        self.addCleanup(watch.communicate)
        self.addCleanup(watch.kill)
        self.assertRegex(watch.stdout.readline(),
                         "job lab: 6 ranks, all running; .*rank 4 .* is slow .*; simulated")

    def test_the_page_follows_it(self):
        """What shoal watch --http tells a browser, until the slow worker is named."""
        self.start(*SLOW, SHOAL_JOB="lab")
        self.until(lambda j: j["ranks"][4]["cause"] == "compute", "lab")
        server = watch_browser.Server(self.env["SHOAL_STATUS_DIR"])
        self.addCleanup(server.close)
        found = []

        def look():
            found[:] = [job for job in server.state()["jobs"] if job["job"] == "lab"]
            return found and found[0]["pace"] and found[0]["ranks"][4]["cause"] == "compute"

        shoal.wait_until(look)
        job = found[0]
        self.assertEqual(("running", 6), (job["state"], len(job["ranks"])))
        self.assertIn("rank 4 (host 4) is slow at computing", job["ranks"][4]["text"])
        self.assertIn("simulated", job["notes"])
        self.assertRegex(job["far"], r"^step \d+$")

    def test_a_job_without_a_name(self):
        child = self.start(*SLOW)
        jobs = self.until(lambda j: bool(j["jobs"]))["jobs"]
        self.assertEqual([f"sim-{child.pid}"], [j["job"] for j in jobs])

    def test_it_keeps_no_events_and_says_what_does(self):
        child = self.start(*SLOW)
        self.until(lambda j: bool(j["jobs"]))
        r = shoal.run("trace", "--last", "1s", "--out", os.path.join(self.folder, "x.json"),
                      env=self.env)  # fmt: skip
        self.assertEqual(2, r.returncode)
        self.assertIn(f"sim-{child.pid} keeps no events", r.stderr)
        self.assertIn("sim with --trace FILE", r.stderr)

    def port_of(self, child):
        line = child.stderr.readline()
        return int(re.fullmatch(r"shoal sim: metrics are at port (\d+)\n", line).group(1))

    def page(self, port):
        kind = "application/openmetrics-text; version=1.0.0"
        request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics",
                                         headers={"Accept": kind})  # fmt: skip
        with urllib.request.urlopen(request, timeout=60) as answer:
            return open_metrics.parse(answer.read().decode("utf-8"))

    def test_metrics_are_those_of_a_job(self):
        port = self.port_of(self.start(*SLOW, "--metrics", "0", SHOAL_JOB="lab"))
        found = []

        def look():
            page = self.page(port)
            found[:] = [page]  # without its ranks where the simulation has not answered in time
            return page["shoal_train_rank_straggler"].samples and open_metrics.value(
                page, "shoal_train_rank_straggler", rank="4", cause="compute") == 1  # fmt: skip

        shoal.wait_until(look)
        page = found[0]

        def one(metric, /, **labels):
            return open_metrics.value(page, "shoal_train_" + metric, **labels)

        self.assertEqual(1, one("job", name="lab", clock="virtual"))
        steps = one("steps")
        parts = [one("step_seconds", part=p) for p in ("compute", "wait")]
        self.assertAlmostEqual(0.02 * steps, parts[0], delta=0.02 * 0.02 * steps + 0.1)
        self.assertGreater(parts[1], 1.9 * parts[0])  # all wait for who takes 60 ms
        self.assertAlmostEqual(0.06, one("rank_compute_seconds", rank="4"), delta=0.003)
        self.assertEqual(6, one("workers"))
        self.assertEqual({}, page["shoal_train_loss"].samples)  # a cost has none
        for left_out in ("samples", "dense_bytes", "exchange_seconds", "compute_seconds"):
            self.assertNotIn("shoal_train_" + left_out, page)

    def test_metrics_are_for_whom_they_are(self):
        token = os.path.join(self.folder, "token")
        with open(token, "w", encoding="utf-8") as file:
            file.write("a" * 32 + "\n")
        os.chmod(token, 0o600)
        child = self.start(*SLOW, "--metrics", "0", "--metrics-token-file", token)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.page(self.port_of(child))
        self.assertEqual(401, refused.exception.code)
        refused.exception.close()
        for words, why in ((("--metrics", "0.0.0.0:9464"), "reached from other hosts"),
                           (("--metrics", "nowhere:1:2"), "wanted [HOST:]PORT"),
                           (("--metrics-token-file", token), "without --metrics")):  # fmt: skip
            r = shoal.run("sim", *SLOW, *words)
            self.assertEqual((2, True), (r.returncode, why in r.stderr), r.stderr)
        taken = self.port_of(self.start(*SLOW, "--metrics", "0"))
        r = shoal.run("sim", *SLOW, "--metrics", taken)
        self.assertEqual((2, True), (r.returncode, str(taken) in r.stderr), r.stderr)


if __name__ == "__main__":
    shoal.main()
