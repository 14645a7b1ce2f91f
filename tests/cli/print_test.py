# SPDX-License-Identifier: Apache-2.0
"""What --print-slurm and --print-k8s hand to schedulers. Scripts run here, with a srun and a
scontrol that do what Slurm's do for one task; tests/engines runs them under Slurm itself, and reads
the objects for Kubernetes by its published schemas."""
import os
import re
import subprocess
import tempfile
import unittest

import shoal

SRUN = """#!/bin/sh
echo "srun $*" >>"$HOME/calls"
while [ "${1#-}" != "$1" ]; do shift; done
export SLURM_PROCID=${RANK_HERE:-0} SLURM_NTASKS=${TASKS:-3}
"$@"
"""
SCONTROL = """#!/bin/sh
case "$1 $2" in
"show hostnames") printf 'n7\\nn8\\n' ;;
*) echo "scontrol $*" >>"$HOME/calls"; exit 1 ;;
esac
"""


def printed(*options, command=("true",), code=0):
    done = shoal.run("run", "-n", 2, *options, "--", *command)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


class Slurm(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
            with open(os.path.join(self.folder.name, name), "w", encoding="ascii") as file:
                file.write(text)
            os.chmod(file.name, 0o700)

    def start(self, script, code=0, **more):
        """Its output, what it asked Slurm for, and the names of what it left."""
        env = dict(os.environ, HOME=self.folder.name, SLURM_JOB_ID="7", SLURM_JOB_NODELIST="n[7-8]")
        for name in ("SHOAL_SPARE", "SHOAL_RENDEZVOUS", "SHOAL_LAUNCH_ID", "SLURM_HET_SIZE"):
            env.pop(name, None)
        env.update(more, PATH=f"{self.folder.name}:{env['PATH']}")
        ran = subprocess.run(["bash"], input=script, capture_output=True, text=True, env=env)
        self.assertEqual(code, ran.returncode, ran.stderr)
        path = os.path.join(self.folder.name, "calls")
        with open(path, encoding="ascii") as file:
            calls = file.read()
        os.remove(path)
        return ran.stdout, calls, sorted(os.listdir(self.folder.name))

    def test_a_plain_job(self):
        script = printed("--print-slurm", command=("sh", "-c", "wc -c <$SHOAL_TOKEN_FILE; echo $1",
                                                   "sh", "it's here"))
        self.assertIn("#SBATCH --ntasks=2\n", script)
        out, calls, left = self.start(script)
        self.assertEqual(["65", "it's here"], out.split("\n")[:2])
        self.assertEqual(["scontrol", "srun"], left)  # the token is gone
        self.assertIn("--kill-on-bad-exit=1", calls)
        self.assertNotIn("--het-group", calls)
        self.assertNotIn("--label", calls)  # it breaks long lines
        self.assertIn("--label", printed("--print-slurm", "--tag-output"))
        for word in ("SHOAL_RENDEZVOUS", "SHOAL_RANK", "requeue", "no-kill"):
            self.assertNotIn(word, script)

    def test_parts_of_a_heterogeneous_job_are_one_step(self):
        calls = self.start(printed("--print-slurm"), SLURM_HET_SIZE="3")[1]
        self.assertIn("srun --het-group=0-2 ", calls)

    def test_where_they_meet(self):
        script = printed("--print-slurm", "--port", 4000, command=("printenv", "SHOAL_RENDEZVOUS"))
        self.assertEqual("tcp://n7:4001\n", self.start(script)[0])
        script = printed("--print-slurm", "--requeue", command=("printenv", "SHOAL_RENDEZVOUS"))
        self.assertEqual("tcp://n7:20091\n", self.start(script)[0])

    def test_members_and_spares(self):
        say = "echo $SHOAL_RANK/$SHOAL_WORLD_SIZE ${SHOAL_SPARE:-none} $SHOAL_LAUNCH_ID"
        script = printed("--print-slurm", "--on-loss", "reform", "--spares", 1,
                         command=("sh", "-c", say))
        self.assertIn("#SBATCH --ntasks=3\n", script)
        self.assertIn("#SBATCH --no-kill\n", script)
        out, calls, left = self.start(script, RANK_HERE="1")
        self.assertEqual("1/2 none 7.0.1\n", out)
        self.assertIn("--kill-on-bad-exit=0 --no-kill --wait=0", calls)
        self.assertEqual(["scontrol", "srun"], left)
        out = self.start(script, RANK_HERE="2", SLURM_RESTART_COUNT="4")[0]
        self.assertEqual("0/2 2 7.4.2\n", out)

    def test_who_ended_is_named_to_the_others(self):
        """The ledger has a task's name when its command is over, and not before."""
        look = 'cat "$SHOAL_LAUNCH_PROOF" 2>/dev/null; echo looked'
        script = printed("--print-slurm", "--on-loss", "reform", command=("sh", "-c", look))
        twice = SRUN + '"$@"\n'
        with open(os.path.join(self.folder.name, "srun"), "w", encoding="ascii") as file:
            file.write(twice)
        self.assertEqual("looked\n7.0.0\nlooked\n", self.start(script, TASKS="2")[0])

    def test_one_result_is_enough_where_the_others_go_on(self):
        lost = SRUN + '"$@" || exit 9\nexit 137\n'
        with open(os.path.join(self.folder.name, "srun"), "w", encoding="ascii") as file:
            file.write(lost)
        script = printed("--print-slurm", "--on-loss", "reform", "--spares", 1)
        self.start(script, code=0, RANK_HERE="0")
        self.start(script, code=137, RANK_HERE="2")  # a spare's end says nothing

    def test_a_job_that_was_asked_to_end_is_started_again(self):
        script = printed("--print-slurm", "--requeue", command=("sh", "-c", "exit 85"))
        for line in ("--requeue", "--open-mode=append", "--signal=TERM@120"):
            self.assertIn(f"#SBATCH {line}\n", script)
        self.assertIn("scontrol requeue 7\n", self.start(script, code=85)[1])
        array = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "2"}
        self.assertIn("scontrol requeue 5_2\n", self.start(script, code=85, **array)[1])
        script = printed("--print-slurm", "--requeue", command=("sh", "-c", "exit 5"))
        self.assertNotIn("scontrol requeue", self.start(script, code=5)[1])

    def test_the_others_may_end_when_one_was_asked_to(self):
        """srun ends all tasks when one has failed, and to be started again is no failure."""
        look = SRUN + 'echo "a task: $?"\n'
        with open(os.path.join(self.folder.name, "srun"), "w", encoding="ascii") as file:
            file.write(look)
        for options in (), ("--on-loss", "reform"):
            script = printed("--print-slurm", "--requeue", *options,
                             command=("sh", "-c", "exit 85"))
            out, calls, _ = self.start(script, code=85)
            self.assertEqual("a task: 0\n", out)
            self.assertIn("scontrol requeue 7\n", calls)

    def test_what_has_ended_is_not_started_once_more(self):
        """As Slurm before 26.05 would do it with a job that was preempted once."""
        script = printed("--print-slurm", "--requeue")
        self.assertNotIn("scontrol", self.start(script)[1])
        calls = self.start(script, SLURM_RESTART_COUNT="1")[1]
        self.assertIn("scontrol update jobid=7 requeue=0\n", calls)
        again = printed("--print-slurm", "--requeue", command=("sh", "-c", "exit 85"))
        calls = self.start(again, code=85, SLURM_RESTART_COUNT="1")[1]
        self.assertNotIn("requeue=0", calls)

    def test_a_signal_is_the_commands(self):
        """Slurm signals whole tasks: what stands around the command waits for its word."""
        ask = "trap 'exit 85' TERM; kill -TERM $PPID; kill -TERM $$; exit 1"
        script = printed("--print-slurm", "--requeue", command=("sh", "-c", ask))
        self.assertIn("scontrol requeue 7\n", self.start(script, code=85)[1])


class Kubernetes(unittest.TestCase):
    def test_a_job(self):
        text = printed("--print-k8s", command=("echo", 'a "b"'))
        name = re.search(r"metadata: \{name: (shoal-[0-9a-f]{8})\}", text)[1]
        for line in (
            "completions: 2\n",
            "backoffLimit: 0\n",
            'command: ["echo", "a \\"b\\""]\n',
            '{name: SHOAL_WORLD_SIZE, value: "2"}\n',
            f'value: "tcp://{name}-0.{name}:29401"}}\n',
            "runAsNonRoot: true\n",
            "readOnlyRootFilesystem: true\n",
            "terminationGracePeriodSeconds: 60",
        ):
            self.assertIn(line, text)
        self.assertNotIn("85", re.sub("shoal-[0-9a-f]{8}", "", text))
        self.assertNotIn(name, printed("--print-k8s"))  # two jobs have two names

    def test_a_port(self):
        self.assertIn(':4001"}\n', printed("--print-k8s", "--port", 4000))

    def test_loss_spares_and_a_new_start(self):
        text = printed("--print-k8s", "--on-loss", "reform", "--spares", 1, "--requeue")
        for line in ("completions: 3\n", '{name: SHOAL_WORLD_SIZE, value: "2"}\n',
                     "backoffLimit: 12\n", "values: [85]", "DisruptionTarget", "SHOAL_SPARE"):
            self.assertIn(line, text)

    def test_kinds(self):
        set_ = printed("--print-k8s", "--kind", "JobSet")
        self.assertIn("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n", set_)
        self.assertRegex(set_, r"tcp://(shoal-\w+)-rank-0-0\.\1:29401")
        train = printed("--print-k8s", "--kind", "trainjob")
        self.assertIn("kind: TrainingRuntime\n", train)
        self.assertIn("kind: TrainJob\n", train)
        self.assertRegex(train, r"tcp://(shoal-\w+)-node-0-0\.\1:29401")


class Refused(unittest.TestCase):
    def test_what_does_not_go_together(self):
        for options, word in (
            (("--print-slurm", "--print-k8s"), "exclude each other"),
            (("--print-slurm", "--hosts", "a"), "exclude each other"),
            (("--print-slurm", "--kind", "job"), "--kind goes with --print-k8s"),
            (("--kind", "job"), "--kind goes with --print-k8s"),
            (("--print-k8s", "--kind", "pod"), "wanted job, jobset or trainjob"),
            (("--requeue",), "--requeue goes with --print-slurm or --print-k8s"),
            (("--print-slurm", "-a", 1), "shoal aggregator"),
            (("--print-k8s", "--spares", 1), "--on-loss reform"),
            (("--print-slurm", "--grace", 3), "--grace is for ranks that are started here"),
            (("--print-k8s", "--grace", 10), "--grace is for ranks that are started here"),
            (("--print-k8s", "--tag-output"), "kubectl logs --prefix"),
            (("--print-slurm", "--in-switch", "on"), "--in-switch goes with --lab"),
            (("--print-k8s", "--colocate"), "--colocate goes with --lab and --aggregators"),
        ):
            self.assertIn(word, printed(*options, code=2), options)


if __name__ == "__main__":
    shoal.main()
