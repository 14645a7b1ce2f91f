# SPDX-License-Identifier: Apache-2.0
"""`--hosts` over OpenSSH's own sshd on four hosts, started from a fifth."""
import os
import signal
import unittest

import cluster
import jobs
import services

ALL = ",".join(cluster.HOSTS)
TWICE = ",".join(f"{name}:2" for name in cluster.HOSTS)


class Ssh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.site = cluster.Site()
        cls.addClassCleanup(cls.site.close)
        cls.ssh = services.Ssh(cls.site)
        jobs.make_data(cls.site)

    def setUp(self):
        self.ssh.bring_back()

    def launch(self, *words, code=0):
        done = self.site.login.run(*words, env=self.ssh.env())
        self.assertEqual(code, done.returncode, done.stderr)
        return done

    def start(self, name, *words):
        """In the background; its output goes to files. @return the process, how to read them"""
        out, err = self.site.path(name + ".stdout"), self.site.path(name + ".stderr")
        with open(out, "w") as to, open(err, "w") as errors:
            child = self.site.login.start(*words, env=self.ssh.env(), stdout=to, stderr=errors)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child, lambda: self.site.read(name + ".stdout") + self.site.read(name + ".stderr")

    def test_eight_ranks_on_four_hosts(self):
        words = [*jobs.LENET, "--steps", 6, "--hosts", TWICE]
        found, wanted = jobs.result(self.launch(*words).stdout), jobs.expected(self.site)
        for name in ("train_loss", "steps", "workers", "params"):
            self.assertEqual(wanted[name], found[name], name)

    def test_environment(self):
        say = ["sh", "-c", 'echo "$RANK $(hostname) [$GIVEN] [$KEPT]"']
        words = ["shoal", "run", "--hosts", ALL, "-x", "GIVEN=a b", "--", *say]
        out = self.site.login.run(*words, env={**self.ssh.env(), "KEPT": "secret"}).stdout
        wanted = [f"{i} {name} [a b] []" for i, name in enumerate(cluster.HOSTS)]
        self.assertEqual(wanted, sorted(out.splitlines()))

    def test_ctrl_c_ends_it_everywhere(self):
        mark = "ctrl-c-mark"
        wait = ["sh", "-c", "echo up; while :; do sleep 0.1; done", mark]
        child, told = self.start("int", "shoal", "run", "--hosts", ALL, "--", *wait)
        cluster.wait_until(lambda: told().count("up\n") == 4, told)
        launcher = self.site.login.processes("--hosts")
        self.site.login.run("kill", "-INT", min(launcher))
        self.assertEqual(128 + signal.SIGINT, child.wait(cluster.DEADLINE_S))
        for name in cluster.HOSTS:
            host = self.site.hosts[name]
            cluster.wait_until(lambda host=host: not host.processes(mark), name)

    def test_a_host_that_dies(self):
        train = [*jobs.LENET, "--steps", 120, "--on-loss", "reform", "--out", "dies"]
        child, told = self.start("dies", *train, "--hosts", TWICE)
        jobs.wait_step(self.site, "dies", 5, told)
        self.site.hosts["n3"].off()
        took = jobs.next_step_s(self.site, "dies", told)
        print(f"\nmeasured: next step after {took:.1f} s")
        self.assertEqual(0, child.wait(cluster.DEADLINE_S), told())
        found = jobs.result(self.site.read("dies.stdout"))
        self.assertEqual(6, found["workers"])
        self.assertEqual(["n3", "n3"], [lost["host"] for lost in found["lost"]])
        self.assertLess(took, 20)

    def test_one_of_two_goes_on_by_the_word_of_the_launcher(self):
        train = [*jobs.LENET, "--steps", 120, "--on-loss", "reform", "--out", "proof"]
        child, told = self.start("proof", *train, "--hosts", "n1,n2")
        jobs.wait_step(self.site, "proof", 5, told)
        jobs.kill_rank(self.site, 0)
        self.assertEqual(0, child.wait(cluster.DEADLINE_S), told())
        self.assertEqual(1, jobs.result(self.site.read("proof.stdout"))["workers"])

    def test_an_unknown_key(self):
        self.ssh.know(["n1", "n2", "n4"])
        self.addCleanup(self.ssh.know, cluster.HOSTS)
        err = self.launch("shoal", "run", "--hosts", ALL, "--", "true", code=1).stderr
        self.assertIn("host n3: its key is not known here", err)

    def test_another_version_on_one_host(self):
        old = self.site.write("old", "#!/bin/sh\necho shoal 0.0.9\n", mode=0o755)
        host = self.site.hosts["n2"]
        self.assertEqual(0, host.run("mount", "--bind", old, cluster.SHOAL).returncode)
        self.addCleanup(host.run, "umount", cluster.SHOAL)
        began = self.site.path("began")
        words = ["shoal", "run", "--hosts", ALL, "--", "touch", began]
        err = self.launch(*words, code=1).stderr
        self.assertIn("host n2: it has shoal 0.0.9, this host shoal 0.1", err)
        self.assertFalse(os.path.exists(began))


if __name__ == "__main__":
    cluster.need("ssh", "sshd", "ssh-keygen")
    cluster.main()
