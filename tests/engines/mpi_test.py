# SPDX-License-Identifier: Apache-2.0
"""Open MPI's mpirun on four hosts, which it reaches by ssh."""
import os
import re
import shlex
import subprocess
import unittest

import cluster
import jobs
import services


REFORM = (os.path.join(cluster.ROOT, "examples", "mpirun_reform.sh"),)


class Mpi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.site = cluster.Site()
        cls.addClassCleanup(cls.site.close)
        cls.ssh = services.Ssh(cls.site)
        jobs.make_data(cls.site)
        cls.env = cls.ssh.mpi()
        cls.hosts = ",".join(f"{name}:2" for name in cluster.HOSTS)

    def setUp(self):
        self.ssh.bring_back()

    def words(self, *words, hosts=None, ranks=8, by=("mpirun",)):
        self.env["SHOAL_TOKEN_FILE"] = jobs.token(self.site)
        start = [*by, "-n", ranks, "--host", hosts or self.hosts]
        for name in ("SHOAL_TOKEN_FILE", "SHOAL_RENDEZVOUS", "OMPI_MCA_btl", "PATH"):
            start += ["-x", name] if name in self.env or name == "PATH" else []
        return [*start, "--wdir", self.site.folder, *(["--"] if by == REFORM else []), *words]

    def run_it(self, *words, code=0, **more):
        done = self.site.login.run(*self.words(*words, **more), env=self.env)
        self.assertEqual(code == 0, done.returncode == 0, done.stdout + done.stderr)
        return done

    def launch(self, *words, **more):
        done = self.run_it(*words, **more)
        return done.stdout + done.stderr

    def meet(self, place):
        self.env["SHOAL_RENDEZVOUS"] = place
        self.addCleanup(self.env.pop, "SHOAL_RENDEZVOUS")

    def test_eight_ranks_on_four_hosts(self):
        self.meet("tcp://n1:29401")
        found = jobs.result(self.launch(*jobs.LENET, "--steps", 6))
        wanted = jobs.expected(self.site)
        for name in ("train_loss", "steps", "workers", "params"):
            self.assertEqual(wanted[name], found[name], name)

    def test_one_host_needs_no_meeting_point(self):
        bench = ["shoal", "bench", "allreduce", "--size", "64k", "--json"]
        told = self.launch(*bench, hosts="n2:3", ranks=3)
        self.assertEqual([0], [one["wrong"] for one in jobs.results(told)], told)

    def test_several_hosts_need_one(self):
        told = self.launch("shoal", "bench", "allreduce", "--size", "64k", code=1)
        self.assertIn("nothing says where rank 0 is to be met", told)
        self.assertIn("Set SHOAL_RENDEZVOUS to tcp://HOST:PORT", told)

    def test_variables(self):
        say = "echo $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE $PMIX_RANK $(hostname)"
        # mpirun's standard error may have warnings of its own, as of a setpgid that came too late
        told = self.run_it("sh", "-c", say).stdout
        self.assertEqual([f"{i}/8 {i} n{i // 2 + 1}" for i in range(8)], sorted(told.splitlines()))

    def lose(self, name, wrap, how, **more):
        """A long training under mpirun, of which how() takes something away. @return mpirun, how to
        read what it printed"""
        self.meet("tcp://n1:29401")
        train = [*jobs.LENET, "--steps", 120, "--on-loss", "reform", "--out", name]
        words = self.words(*wrap, *train, **more)
        with open(self.site.path(name + ".stdout"), "w") as to:
            child = self.site.login.start(*words, env=self.env, stdout=to, stderr=subprocess.STDOUT)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)

        def told():
            return self.site.read(name + ".stdout")

        jobs.wait_step(self.site, name, 5, told)
        how()
        took = jobs.next_step_s(self.site, name, told)
        print(f"\nmeasured: next step after {took:.1f} s")
        self.assertLess(took, 20)
        return child, told

    def test_a_killed_rank_does_not_end_the_others(self):
        """By the words of docs/launching.md, which give mpirun 0 for a rank that was killed."""
        with open(os.path.join(cluster.ROOT, "docs", "launching.md"), encoding="utf-8") as file:
            wrap = shlex.split(re.search(r"\n    mpirun .*? (sh -c .* sh) shoal", file.read())[1])
        gone = []
        child, told = self.lose("killed", wrap, lambda: gone.append(jobs.kill_rank(self.site, 5)))
        self.assertEqual(0, child.wait(cluster.DEADLINE_S), told())
        found = jobs.result(told())
        self.assertEqual((7, [(5, gone[0])]), (found["workers"], [
            (lost["rank"], lost["host"]) for lost in found["lost"]]))

    def test_a_lost_host_ends_all_by_mpiruns_own_will(self):
        """The others go on; mpirun has lost its daemon there, and ends them."""
        child, told = self.lose("power", [], self.site.hosts["n3"].off)
        self.assertNotEqual(0, child.wait(cluster.DEADLINE_S), told())
        cluster.wait_until(lambda: not self.site.hosts["n1"].processes("--on-loss"), "its end")

    def test_a_lost_host_does_not_end_the_others(self):
        """By examples/mpirun_reform.sh: mpirun is shown no failure, and is ended at the end."""
        child, told = self.lose("goes-on", [], self.site.hosts["n3"].off, by=REFORM)
        self.assertEqual(0, child.wait(cluster.DEADLINE_S), told())
        found = jobs.result(told())
        self.assertEqual((120, 6), (found["steps"], found["workers"]))
        self.assertEqual(["n3", "n3"], [lost["host"] for lost in found["lost"]])
        self.nothing_is_left()

    def nothing_is_left(self):
        def clean():
            left = [self.site.hosts[name].run("pgrep", "-l", "shoal|orted|prted|mpirun").stdout
                    for name in ("n1", "n2", "n4", cluster.LOGIN)]
            return not any(left)

        cluster.wait_until(clean, "nothing left of it")
        self.assertEqual([], self.site.names("", ".mpirun-"))

    def test_what_fails_under_the_script_is_told(self):
        started = self.run_it("sh", "-c", 'exit "$((3 + OMPI_COMM_WORLD_RANK))"', code=3, by=REFORM)
        self.assertEqual(3, started.returncode)
        self.run_it("true", code=1, by=REFORM, hosts="n1:2,nowhere:2", ranks=4)
        for words in ([REFORM[0]], [REFORM[0], "-n", 2, "true"], [REFORM[0], "-n", 2, "--"]):
            done = self.site.login.run(*words)
            self.assertEqual(2, done.returncode, done.stderr)
            self.assertIn("usage: ", done.stderr)
        done = self.site.login.run(*REFORM, "--", "true", env={"SLURM_JOB_ID": "1"})
        self.assertIn("--print-slurm", done.stderr)
        self.nothing_is_left()

    def test_a_program_with_both(self):
        source = os.path.join(cluster.ROOT, "examples", "mpi_and_shoal.c")
        program = self.site.path("mpi_and_shoal")
        build = ["mpicc", "-Wall", "-Werror", "-I", os.path.join(cluster.ROOT, "include"), source]
        build += ["-o", program, "-L", cluster.BUILD, "-lshoal", f"-Wl,-rpath,{cluster.BUILD}"]
        made = subprocess.run(build, capture_output=True, text=True)
        self.assertEqual(0, made.returncode, made.stderr)
        self.assertIn("8 ranks: MPI and Shoal differ by 0\n", self.launch(program))


if __name__ == "__main__":
    cluster.need("ssh", "sshd", "mpirun", "mpicc")
    cluster.main()
