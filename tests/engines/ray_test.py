# SPDX-License-Identifier: Apache-2.0
"""shoal.ray in a Ray whose head and four nodes are hosts of their own. What the module does on one
machine stands in python/tests/ray_test.py."""
import json
import os
import re
import subprocess
import unittest

import cluster
import jobs
import python_packages
import ray_service

LOST = os.path.join(cluster.ROOT, "tests", "engines", "ray_lost.py")


class Ray(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.site = cluster.Site()
        cls.addClassCleanup(cls.site.close)
        cls.ray = ray_service.Ray(cls.site)

    def example(self, name):
        done = self.ray.python(os.path.join(cluster.ROOT, "examples", name), timeout=300)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def test_1_an_actor_that_ray_kills_is_replaced(self):
        """The recipe of docs/launching.md: ray.kill in the function of one worker."""
        told = self.example("ray_elastic.py")
        self.assertRegex(told, "worker 1 on node [0-9a-f]+ is lost after")
        self.assertGreater(float(re.search(r"accuracy ([\d.]+) %", told)[1]), 90)

    def test_2_torch_trainer(self):
        told = self.example("ray_train_ddp.py")
        found = re.search(r"2 workers in Ray Train, group shoal: accuracy ([\d.]+) %", told)
        self.assertIsNotNone(found, told)
        self.assertGreater(float(found[1]), 90)

    def test_3_a_node_loses_its_power(self):
        folder = self.site.path("power")
        os.mkdir(folder)
        out, err = self.site.path("power.stdout"), self.site.path("power.stderr")
        with open(out, "w") as to, open(err, "w") as errors:
            child = self.site.login.start(
                "python3", "-B", LOST, folder, env={"RAY_ADDRESS": self.ray.address},
                stdin=subprocess.DEVNULL, stdout=to, stderr=errors,
            )
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)

        def told():
            return self.site.read("power.stdout") + self.site.read("power.stderr")

        jobs.wait_step(self.site, "power", 20, told)
        self.site.hosts["n3"].off()
        took = jobs.next_step_s(self.site, "power", told)
        print(f"\nmeasured: next step after {took:.1f} s")
        self.site.write("power/enough")
        self.assertEqual(0, child.wait(cluster.DEADLINE_S), told())
        found = json.loads(self.site.read("power.stdout").splitlines()[-1])
        self.assertEqual(6, found["workers"], told())
        self.assertEqual([self.site.ip["n3"]] * 2, [host for _, host in found["lost"]])
        self.assertLess(took, 20)


if __name__ == "__main__":
    cluster.need()
    python_packages.need()
    cluster.main()
