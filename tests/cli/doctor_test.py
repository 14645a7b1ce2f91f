# SPDX-License-Identifier: Apache-2.0
"""shoal doctor: finds what is planted in a lab, says nothing of a healthy one. Each lab has several
faults, at different ranks; the claim doctor-finds plants them one at a time."""
import concurrent.futures
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
HOSTS = os.path.exists("/etc/hosts")  # a system that was only unpacked has none
# Tests run on busy machines: what the load does to them is not wrong of the doctor to report.
LOAD = {"load", "speed", "latency"}
# name: (lab, planted faults, ranks). They mostly wait, so they run side by side.
LABS = {
    "healthy": ("rate=100mbit,burst=16", "", 3),
    "slow": ("rate=100mbit,burst=16,link=3:10mbit", "1:buffers,2:clock", 4),
    "hole": ("rate=100mbit,burst=16,hole=1:1300", "3:interface", 4),
    "closed": ("rate=100mbit,burst=16", "2:port", 4),
    "name": ("rate=100mbit,burst=16", "1:name", 2),
}


class Doctor(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.late = doctor_rank.build_late(cls.folder.name)
        if not LAB:
            labs = {name: lab for name, lab in LABS.items() if name != "name" or HOSTS}
            with concurrent.futures.ThreadPoolExecutor(len(labs)) as pool:
                runs = {name: pool.submit(cls.run_lab, *lab) for name, lab in labs.items()}
                cls.runs = {name: run.result() for name, run in runs.items()}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def run_lab(cls, lab, planted, ranks):
        own = tempfile.mkdtemp(dir=cls.folder.name)
        if cls.late:
            os.link(os.path.join(cls.folder.name, "late.so"), os.path.join(own, "late.so"))
        # Who is waited for in vain costs all of it: with a wrong name, one never comes.
        wait = 4 if "name" in planted else 40
        doctor = [os.path.abspath(shoal.SHOAL), own, planted, "--wait", wait]
        return shoal.run("run", "-n", ranks, "--lab", lab, "--", RANK, *doctor)

    def examined(self, name):
        r = self.runs[name]
        reports = [json.loads(line) for line in r.stdout.splitlines()]
        self.assertTrue(reports, r.stderr)
        found = {(f["kind"], f["rank"]) for report in reports for f in report["findings"]}
        self.assertEqual(r.returncode, 1 if found else 0, r.stderr)
        return {f for f in found if f[0] not in LOAD}, reports[-1]

    @unittest.skipIf(LAB, LAB)
    def test_healthy_lab(self):
        found, report = self.examined("healthy")
        self.assertEqual(found, set())
        self.assertEqual(len(report["pairs"]), 6)
        for pair in report["pairs"]:
            self.assertTrue(pair["reached"] and pair["bytes_per_s"] > 1e6, pair)
        self.assertEqual(
            [h["address"] for h in report["hosts"]], ["10.77.0.1", "10.77.0.2", "10.77.0.3"]
        )

    @unittest.skipIf(LAB, LAB)
    def test_slow_port_late_clock_tiny_buffers(self):
        if not self.late:
            self.skipTest("no C compiler")
        found, _ = self.examined("slow")
        found -= {("rate", 1)}  # with tiny buffers each wait for the processor stops the flow
        self.assertEqual(found, {("buffers", 1), ("clock", 2), ("rate", 3)})

    @unittest.skipIf(LAB, LAB)
    def test_wrong_interface_and_black_hole(self):
        found, _ = self.examined("hole")
        self.assertEqual(found, {("mtu", 1), ("interface", 3)})

    @unittest.skipIf(LAB, LAB)
    def test_closed_port(self):
        found, _ = self.examined("closed")
        self.assertEqual(found, {("port", 2)})

    @unittest.skipIf(LAB, LAB)
    @unittest.skipUnless(HOSTS, "no /etc/hosts that another could be mounted over")
    def test_name_that_is_loopback(self):
        found, report = self.examined("name")
        self.assertEqual(found, {("name", 1), ("missing", 1)})

    def test_providers_of_libfabric(self):
        """The same in words and as JSON; tcp is one of them wherever libfabric is."""
        listed = json.loads(shoal.run("doctor", "--json").stdout)["libfabric"]
        words = shoal.run("doctor").stdout.splitlines()[-1]
        told = ", ".join(f"{one['name']} ({one['domain']})" for one in listed)
        if not listed:
            self.assertRegex(words, r"^libfabric on this host: none \(.+\)$")
            return
        self.assertEqual(words, f"libfabric on this host: {told}")
        self.assertIn("tcp", [one["name"] for one in listed])

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
