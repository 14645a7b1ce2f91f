# SPDX-License-Identifier: Apache-2.0
"""One training under every engine, each started by the command that stands in docs/launching.md:
every loss of every rank is the same, bit for bit."""
import json
import os
import re
import unittest

import cluster
import jobs
import python_packages
import ray_service
import services

PAGE = os.path.join(cluster.ROOT, "docs", "launching.md")
TITLE = "## The same training under each\n"
RANKS, STEPS = 8, 8


def commands():
    """{engine: what a shell is to run} of the page's block; each begins with the first line."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    block = re.search(r"```sh\n(.*?)```", text[text.index(TITLE):], re.S)[1]
    first, *parts = re.split(r"^# (\w+).*\n", block, flags=re.M)
    return {name: first + body for name, body in zip(parts[::2], parts[1::2])}


class Same(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.site = site = cluster.Site()
        cls.addClassCleanup(site.close)
        cls.commands = commands()
        jobs.make_data(site)
        os.symlink(os.path.join(cluster.ROOT, "examples"), site.path("examples"))
        cls.ssh = services.Ssh(site)
        site.env.update(cls.ssh.mpi(), **cls.ssh.env())
        cls.finish(cls.start("here", site.login), "here")
        cls.wanted = cls.losses("here")

    @classmethod
    def start(cls, name, host):
        out = cls.site.path(f"{name}.{host.name}.out")
        with open(out, "w") as to:
            return host.start("bash", "-ec", cls.commands[name], stdout=to, stderr=to)

    @classmethod
    def told(cls, name):
        return "".join(cls.site.read(f) for f in cls.site.names("", name + "."))

    @classmethod
    def finish(cls, child, name):
        code = child.wait(240)
        assert code == 0, f"{name}: exit code {code}\n{cls.told(name)}"

    @classmethod
    def losses(cls, out):
        """{(file of a rank, step): loss as it was written}"""
        found = {}
        for name in cls.site.names(out, "metrics"):
            for line in cls.site.read(name).splitlines():
                one = json.loads(line, parse_float=str)
                if "loss" in one:
                    found[os.path.basename(name), one["step"]] = one["loss"]
        return found

    def check(self, name, *hosts):
        children = [self.start(name, host) for host in hosts or [self.site.login]]
        for child in children:
            self.addCleanup(child.kill)
        for child in children:
            self.finish(child, name)
        found = self.losses(name)
        self.assertEqual(RANKS * STEPS, len(found), self.told(name))
        self.assertEqual(self.wanted, found)

    def test_1_ssh(self):
        self.check("ssh")

    def test_2_mpirun(self):
        if reason := cluster.cannot("mpirun"):
            self.skipTest(reason)
        self.check("mpirun")

    def test_3_torchrun(self):
        # Debian 12's crashes under Python 3.11, Debian 13's wants a libuv that it has not
        folder = os.path.join(cluster.ROOT, "build", "frameworks", "bin")
        path = {"PATH": f"{folder}:{self.site.env['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
        words = ["torchrun", "--nnodes=1", "--nproc_per_node=1", "--rdzv_backend=c10d",
                 "--rdzv_endpoint=localhost:0", "--no_python", "true"]
        if self.site.hosts["n1"].run(*words, env=path).returncode != 0:
            self.skipTest("no torchrun here that works (make check-frameworks fetches one)")
        kept = dict(self.site.env)
        self.addCleanup(self.site.env.update, kept)
        self.site.env.update(path)
        self.check("torchrun", *(self.site.hosts[name] for name in cluster.HOSTS))

    def test_4_slurm(self):
        if reason := cluster.cannot(*services.Slurm.PROGRAMS):
            self.skipTest(reason)
        services.Slurm(self.site)
        self.check("slurm")

    def test_5_ray(self):
        if reason := python_packages.environment()[1]:
            self.skipTest(reason)
        ray_service.Ray(self.site)
        self.check("ray")


if __name__ == "__main__":
    cluster.need("ssh", "sshd", "ssh-keygen", "openssl")
    cluster.main()
