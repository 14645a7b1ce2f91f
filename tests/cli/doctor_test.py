# SPDX-License-Identifier: Apache-2.0
"""shoal doctor: finds what is planted in a lab, says nothing of a healthy one. Each lab has several
faults, at different ranks; the claim doctor-finds plants them one at a time."""
import json
import os
import sys
import tempfile
import unittest

import shoal

CLAIMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "claims")
sys.path.insert(0, CLAIMS)
import doctor_rank  # noqa: E402

LAB = shoal.lab_works()
RANK = os.path.join(CLAIMS, "doctor_rank.py")
# Tests run on busy machines: what the load does to them is not wrong of the doctor to report.
LOAD = {"load", "speed", "latency"}


class Doctor(unittest.TestCase):
    def examine(self, lab, planted="", ranks=4):
        with tempfile.TemporaryDirectory() as folder:
            if "clock" in planted and not doctor_rank.build_late(folder):
                self.skipTest("no C compiler")
            r = shoal.run(
                "run",
                "-n",
                ranks,
                "--lab",
                lab,
                "--",
                RANK,
                os.path.abspath(shoal.SHOAL),
                folder,
                planted,
                "--wait",
                2,
            )
        reports = [json.loads(line) for line in r.stdout.splitlines()]
        self.assertTrue(reports, r.stderr)
        found = {(f["kind"], f["rank"]) for report in reports for f in report["findings"]}
        self.assertEqual(r.returncode, 1 if found else 0, r.stderr)
        return {f for f in found if f[0] not in LOAD}, reports[-1]

    @unittest.skipIf(LAB, LAB)
    def test_healthy_lab(self):
        found, report = self.examine("rate=100mbit,burst=16", ranks=3)
        self.assertEqual(found, set())
        self.assertEqual(len(report["pairs"]), 6)
        for pair in report["pairs"]:
            self.assertTrue(pair["reached"] and pair["bytes_per_s"] > 1e6, pair)
        self.assertEqual(
            [h["address"] for h in report["hosts"]], ["10.77.0.1", "10.77.0.2", "10.77.0.3"]
        )

    @unittest.skipIf(LAB, LAB)
    def test_slow_port_late_clock_tiny_buffers(self):
        found, _ = self.examine("rate=100mbit,burst=16,link=3:10mbit", "1:buffers,2:clock")
        self.assertEqual(found, {("buffers", 1), ("clock", 2), ("rate", 3)})

    @unittest.skipIf(LAB, LAB)
    def test_wrong_interface_and_black_hole(self):
        found, _ = self.examine("rate=100mbit,burst=16,hole=1:1300", "3:interface")
        self.assertEqual(found, {("mtu", 1), ("interface", 3)})

    @unittest.skipIf(LAB, LAB)
    def test_closed_port(self):
        found, _ = self.examine("rate=100mbit,burst=16", "2:port")
        self.assertEqual(found, {("port", 2)})

    @unittest.skipIf(LAB, LAB)
    def test_name_that_is_loopback(self):
        found, report = self.examine("rate=100mbit,burst=16", "1:name", ranks=2)
        self.assertEqual(found, {("name", 1), ("missing", 1)})

    def test_alone_and_usage(self):
        r = shoal.run("doctor", "--json")
        report = json.loads(r.stdout)
        self.assertEqual((report["ranks"], report["met"]), (1, True))
        self.assertEqual(r.returncode == 0, report["ok"])
        self.assertIn("rank", shoal.run("doctor").stdout)
        self.assertIn("Example:", shoal.run("doctor", "--help").stdout)
        self.assertEqual(shoal.run("doctor", "--ranks", 0).returncode, 2)
        self.assertEqual(shoal.run("doctor", "x").returncode, 2)
        r = shoal.run("doctor", "--interface", "nowhere0", "--json")
        self.assertEqual(r.returncode, 1, r.stderr)
        self.assertEqual(json.loads(r.stdout)["findings"][0]["kind"], "interface")


if __name__ == "__main__":
    shoal.main()
