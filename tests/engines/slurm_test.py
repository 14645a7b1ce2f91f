# SPDX-License-Identifier: Apache-2.0
"""Slurm on four nodes: sbatch gets what `shoal run --print-slurm` prints, and nodes fail."""
import os
import re
import subprocess
import unittest

import cluster
import jobs
import services

NAMES = "train_loss", "steps", "workers", "params"


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.site = cluster.Site()
        cls.addClassCleanup(cls.site.close)
        cls.slurm = services.Slurm(cls.site)
        jobs.make_data(cls.site)

    def setUp(self):
        self.slurm.bring_back()

    def script(self, *options, command):
        words = [cluster.SHOAL, "run", *options, "--print-slurm", "--", *command]
        done = subprocess.run(map(str, words), capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def ended(self, job, state="COMPLETED", seconds=cluster.DEADLINE_S):
        self.assertEqual(state, self.slurm.wait(job, seconds=seconds), self.slurm.output(job))
        return self.slurm.output(job)

    def same(self, found, wanted):
        self.assertEqual([wanted[n] for n in NAMES], [found[n] for n in NAMES])

    def test_eight_ranks_on_four_nodes(self):
        """Printed for sbatch, or srun alone: the losses of one host, bit for bit."""
        train = [*jobs.LENET, "--steps", 6]
        nodes = ["--nodes=4", "--ntasks-per-node=2"]
        job = self.slurm.submit(self.script("-n", 8, command=train), *nodes)
        wanted = jobs.expected(self.site)
        self.same(jobs.result(self.ended(job)), wanted)
        env = {"SHOAL_TOKEN_FILE": jobs.token(self.site)}
        done = self.site.login.run("srun", *nodes, *train, env=env)
        self.assertEqual(0, done.returncode, done.stderr)
        self.same(jobs.result(done.stdout), wanted)

    def test_parts_of_a_heterogeneous_job(self):
        script = self.script("-n", 6, command=[*jobs.LENET, "--steps", 6])
        parts = ["--nodes=1", "--ntasks=2", ":", "--nodes=2", "--ntasks=4"]
        job = self.slurm.submit(script, *parts)
        wanted = jobs.expected(self.site, workers=6)
        self.same(jobs.result(self.ended(job)), wanted)

    def test_two_jobs_of_an_array_on_one_node(self):
        bench = ["shoal", "bench", "allreduce", "--size", "64k", "--json"]
        script = self.script("-n", 2, command=bench)
        job = self.slurm.submit(script, "--array=0-1", "--nodelist=n2", "--nodes=1")
        for task in (0, 1):
            self.slurm.wait(f"{job}_{task}")
            out = self.slurm.output(f"{job}_{task}")
            self.assertEqual([0], [one["wrong"] for one in jobs.results(out)], out)

    def test_a_node_loses_its_power(self):
        train = [*jobs.LENET, "--steps", 120, "--on-loss", "reform", "--out", "power"]
        script = self.script("-n", 8, "--on-loss", "reform", command=train)
        job = self.slurm.submit(script, "--nodes=4", "--ntasks-per-node=2")
        jobs.wait_step(self.site, "power", 5, lambda: self.slurm.output(job))
        self.site.hosts["n3"].off()
        took = jobs.next_step_s(self.site, "power", lambda: self.slurm.output(job))
        print(f"\nmeasured: next step after {took:.1f} s")
        found = jobs.result(self.ended(job))
        self.assertEqual(6, found["workers"])
        self.assertEqual(["n3", "n3"], [lost["host"] for lost in found["lost"]])
        self.assertLess(took, 20)

    def test_a_node_is_set_down_and_srun_brings_a_replacement(self):
        """scontrol takes n3 away; a step of the words of docs/launching.md joins in its place."""
        train = [*jobs.LENET, "--steps", 400, "--on-loss", "reform", "--out", "down"]
        script = self.script("-n", 4, "--on-loss", "reform", command=train)
        job = self.slurm.submit(script, "--nodes=4", "--ntasks-per-node=1")
        told = lambda: self.slurm.output(job)  # noqa: E731
        jobs.wait_step(self.site, "down", 5, told)
        words = ["scontrol", "update", "nodename=n3", "state=down", "reason=test"]
        self.addCleanup(self.site.login.run, *words[:3], "state=resume")
        self.assertEqual(0, self.site.login.run(*words).returncode)
        took = jobs.next_step_s(self.site, "down", told)
        print(f"\nmeasured: next step after {took:.1f} s")
        with open(os.path.join(cluster.ROOT, "docs", "launching.md"), encoding="utf-8") as file:
            words = re.search(r"\n    (srun --jobid=\$JOB (.|\\\n)*?) CMD\n", file.read())[1]
        line = f"JOB={job}; {words} {' '.join(map(str, train))}"
        newcomer = self.site.login.start("bash", "-c", line, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT)
        self.addCleanup(newcomer.kill)
        said = newcomer.communicate(timeout=cluster.DEADLINE_S)[0]
        self.assertEqual(0, newcomer.returncode, said)
        found = jobs.result(self.ended(job))
        self.assertEqual((4, ["n3"]), (found["workers"], [one["host"] for one in found["lost"]]))

    def test_a_spare_takes_the_place_of_a_killed_one(self):
        train = [*jobs.LENET, "--steps", 120, "--on-loss", "reform", "--out", "spare"]
        script = self.script("-n", 3, "--spares", 1, "--on-loss", "reform", command=train)
        job = self.slurm.submit(script, "--nodes=4", "--ntasks-per-node=1")
        jobs.wait_step(self.site, "spare", 5, lambda: self.slurm.output(job))
        self.assertEqual("n2", jobs.kill_rank(self.site, 1))
        found = jobs.result(self.ended(job))
        self.assertEqual((3, 1), (found["workers"], len(found["lost"])), found)

    def test_one_of_two_goes_on_by_the_word_of_the_batch_system(self):
        """Nobody is more than half of two: that rank 0 is dead has to be proven."""
        train = [*jobs.LENET, "--steps", 120, "--on-loss", "reform", "--out", "proof"]
        script = self.script("-n", 2, "--on-loss", "reform", command=train)
        job = self.slurm.submit(script, "--nodes=2", "--ntasks-per-node=1", "--nodelist=n1,n2")
        jobs.wait_step(self.site, "proof", 5, lambda: self.slurm.output(job))
        jobs.kill_rank(self.site, 0)
        found = jobs.result(self.ended(job))
        self.assertEqual((1, [0]), (found["workers"], [lost["rank"] for lost in found["lost"]]))

    def test_a_preemption_keeps_what_was_trained(self):
        """An urgent job takes all nodes: the other one writes a checkpoint, and goes on later."""
        train = [*jobs.LENET, "--steps", 60, "--checkpoint-every", 1000, "--out", "preempted"]
        train += ["--on-term", "checkpoint"]
        job = self.slurm.submit(self.script("-n", 4, "--requeue", command=train), "--nodes=4")
        jobs.wait_step(self.site, "preempted", 3, lambda: self.slurm.output(job))
        urgent = "#!/bin/bash\n#SBATCH --nodes=4 --exclusive --partition=urgent\nhostname\n"
        self.ended(self.slurm.submit(urgent))
        kept = self.site.read("preempted/checkpoints/latest")
        self.assertRegex(kept, "^step-[1-9]")
        cluster.wait_until(lambda: self.slurm.show(job).get("Restarts") == "1", "a new start")
        # Slurm before 26.05 goes on to call it preempted, though it has ended by itself
        self.assertIn(self.slurm.wait(job), ("COMPLETED", "PREEMPTED"))
        out, shown = self.slurm.output(job), self.slurm.show(job)
        self.assertEqual(("0:0", "1"), (shown["ExitCode"], shown["Restarts"]), out)
        self.assertNotIn(" is lost", out)  # srun ends nobody who writes the checkpoint
        wanted = jobs.expected(self.site, steps=60, workers=4)
        self.assertEqual(wanted["train_loss"], jobs.result(out)["train_loss"])
        print(f"\nmeasured: kept {kept.strip()} of 60, and went on to the same loss")

    def test_64_ranks_join(self):
        train = "shoal train --model mlp-small --data digits --batch 2 --steps 1 --no-eval --quiet "
        train += "--peer-timeout 60 --join-timeout 100 --check-every 0"
        say = f"begin=$(date +%s%N); {train} >/dev/null && "
        say += 'echo "took $(( ($(date +%s%N) - begin) / 1000000 )) ms"'
        script = self.script("-n", 64, "--tag-output", command=["sh", "-c", say])
        job = self.slurm.submit(script, "--nodes=4", "--ntasks-per-node=16")
        out = self.ended(job, seconds=3 * cluster.DEADLINE_S)  # of 64 on a busy machine
        took = [int(line.split()[-2]) for line in out.splitlines() if "took " in line]
        self.assertEqual(64, len(took), out)
        print(f"\nmeasured: 64 ranks joined, made a step and ended in {max(took) / 1000:.1f} s")

    def test_status_is_asked_for_from_the_login_node(self):
        train = [*jobs.LENET, "--steps", 150, "--out", "status"]
        job = self.slurm.submit(self.script("-n", 4, command=train), "--nodes=4")
        jobs.wait_step(self.site, "status", 3, lambda: self.slurm.output(job))
        ask = ["srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", "-w", "n2"]
        told = self.site.login.run(*ask, "shoal", "status", "--json", "--job", "1")
        self.assertEqual(0, told.returncode, told.stderr)
        self.assertEqual(4, len(jobs.results(told.stdout)[0]["ranks"]), told.stdout)
        self.ended(job)


if __name__ == "__main__":
    cluster.need(*services.Slurm.PROGRAMS)
    cluster.main()
