# SPDX-License-Identifier: Apache-2.0
"""A network that falls into parts which do not reach each other, and resets what connected them, as
a switch or a firewall may: one part at most goes on and writes, whatever each believes of the
other. The others end with code 6, or come back. Real processes, each in a network namespace of its
own."""

import os
import tempfile
import threading
import unittest

import parted
import shoal
from parted import Case

REASON = shoal.lab_works()
HALVES = ((0, 1), (2, 3))


@unittest.skipIf(REASON, REASON)
class Halves(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-halves-"))
        cls.data = os.path.join(cls.folder, "data")
        r = shoal.run("data", "digits", "--out", cls.data, "--train", 320, "--test", 40)
        assert r.returncode == 0, r.stderr
        cls.jobs = {}
        jobs = {
            "equal": Case("all_reduce", *HALVES, "reform"),
            "without 0": Case("all_reduce", (0,), (1, 2, 3), "reform"),
            "blackhole": Case("all_reduce", (0, 3), (1, 2), "reform", "blackhole"),
            "healed": Case("all_reduce", *HALVES, "reform", heal_s=1),
            "local_sgd": Case("local_sgd:every=4", *HALVES),
            "hop": Case("hop", *HALVES),
            "ripples": Case("ripples:smart", *HALVES),
            "hop without 0": Case("hop:graph=complete", (1, 2, 3), (0,)),
            "local_sgd reforms": Case("local_sgd:every=4", *HALVES, "reform"),
            "hop healed": Case("hop:graph=complete", *HALVES, "reform", heal_s=1),
        }
        names = list(jobs)
        for two in (names[i : i + 2] for i in range(0, len(names), 2)):
            threads = [threading.Thread(target=cls.job, args=(name, jobs[name])) for name in two]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    @classmethod
    def job(cls, name, case):
        """Into jobs: the case and its outcome."""
        out = os.path.join(cls.folder, name.replace(" ", "-"))
        cls.jobs[name] = case, parted.play(case, out, cls.data)

    def check(self, name, going_on, ended, codes=(6, None)):
        case, outcome = self.jobs[name]
        said = outcome.run.stderr
        self.assertEqual(0, outcome.run.returncode, said)
        self.assertEqual([], parted.two_halves(case, outcome), said)
        results = outcome.results()
        self.assertEqual(1, len(results), outcome.run.stdout)
        self.assertEqual(list(going_on), outcome.went_on(), said)
        self.assertEqual(len(going_on), results[0]["workers"], said)
        self.assertEqual(list(ended), sorted(loss["rank"] for loss in results[0]["lost"]))
        for rank in ended:
            self.assertIn(outcome.codes[rank], codes, said)
        return outcome

    def test_a_reform_is_of_one_half(self):
        self.check("local_sgd reforms", (0, 1), (2, 3))
        for name, going_on, ended in (
            ("equal", (0, 1), (2, 3)),
            ("without 0", (1, 2, 3), (0,)),
            ("blackhole", (0, 3), (1, 2)),
        ):
            outcome = self.check(name, going_on, ended)
            files = parted.soak_checks.Metrics(outcome.out).read()
            for rank in ended:  # not a step in another epoch of members
                lines = files[f"metrics.{rank}.jsonl" if rank else "metrics.jsonl"]
                self.assertFalse([x for x in lines if "reform" in x], (name, rank))
            self.assertIn("reaches only a minority", outcome.run.stderr)

    def test_protocols_that_average_go_on_in_one_half(self):
        for name in ("local_sgd", "hop", "ripples"):
            with self.subTest(sync=name):
                outcome = self.check(name, (0, 1), (2, 3), codes=(6,))
                self.assertIn("reaches only 2 of the 4 members", outcome.run.stderr)
        self.check("hop without 0", (1, 2, 3), (0,), codes=(6,))

    def test_who_was_cut_off_comes_back(self):
        """The network heals while the other half goes on: all four end together."""
        for name in ("healed", "hop healed"):
            case, outcome = self.jobs[name]
            said = outcome.run.stderr
            self.assertEqual(0, outcome.run.returncode, said)
            self.assertEqual([], parted.two_halves(case, outcome), said)
            self.assertEqual({0: 0, 1: 0, 2: 0, 3: 0}, outcome.codes, said)
            self.assertEqual([4], [result["workers"] for result in outcome.results()], said)


if __name__ == "__main__":
    shoal.main()
