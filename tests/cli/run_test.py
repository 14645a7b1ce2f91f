# SPDX-License-Identifier: Apache-2.0
"""shoal run: environment of the ranks, exit codes, the lab, remote hosts by a stand-in for ssh."""
import glob
import json
import os
import signal
import stat
import subprocess
import tempfile
import time
import unittest

import shoal

LAB = shoal.lab_works()


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(x) for x in f.read().split()]
    except OSError:  # it has just ended
        return []


def descendants(pid):
    found = []
    for child in children_of(pid):
        found += [child] + descendants(child)
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        os.sched_yield()
    return False


def popen(test, *args):
    p = subprocess.Popen([shoal.SHOAL, *args])
    test.addCleanup(lambda: (p.kill(), p.wait()))
    return p


class Run(unittest.TestCase):
    def test_a_port_that_is_taken_is_named_as_it_was_given(self):
        with shoal.reserved_port("127.0.0.1") as taken:
            taken.listen()
            port = taken.getsockname()[1] - 1
            r = shoal.run("run", "-n", 2, "--grace", 1, "--port", port, "--", shoal.SHOAL, "bench",
                          "allreduce", "--size", "4k", "--iters", 1)  # fmt: skip
        self.assertNotEqual(0, r.returncode)
        self.assertIn(f"cannot listen at tcp://127.0.0.1:{port + 1}", r.stderr)
        self.assertIn("Name another port, with --port", r.stderr)
        self.assertNotIn("SHOAL_RENDEZVOUS", r.stderr)

    def test_environment(self):
        r = shoal.run(
            "run",
            "-n",
            3,
            "-t",
            "--",
            "sh",
            "-c",
            "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR; "
            "wc -c < /proc/self/fd/$SHOAL_TOKEN_FD; echo $MASTER_PORT",
        )
        self.assertEqual(r.returncode, 0, r.stderr)
        lines = r.stdout.split("\n")
        ports = set()
        for rank in range(3):
            mine = [l.split("] ", 1)[1] for l in lines if l.startswith(f"[{rank}] ")]
            self.assertEqual(mine[0], f"{rank} 3 {rank} 3 127.0.0.1")
            self.assertEqual(mine[1], "64")
            ports.add(mine[2])
        self.assertEqual(len(ports), 1)

    def test_jobs_have_names(self):
        """After the program and the launcher, one for all ranks, here and elsewhere."""
        say = ["--", "sh", "-c", "echo $SHOAL_JOB"]
        with shoal.shell_for_ssh() as rsh:
            for hosts in ([], ["--hosts", "a,b"]):
                env = {"SHOAL_RSH": rsh, "SHOAL_JOB": ""}
                names = shoal.run("run", "-n", 2, *hosts, *say, env=env).stdout.split()
                self.assertRegex(names[0], r"^sh-[0-9]+$")
                self.assertEqual(names, 2 * names[:1])
                env["SHOAL_JOB"] = "the night's"
                r = shoal.run("run", "-n", 2, *hosts, *say, env=env)
                self.assertEqual(r.stdout.splitlines(), 2 * ["the night's"])
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "net.v2.py")
            with open(script, "w", encoding="ascii") as f:
                f.write("import os; print(os.environ['SHOAL_JOB'])")
            r = shoal.run("run", "-n", 1, "--", "python3", script, env={"SHOAL_JOB": ""})
        self.assertRegex(r.stdout, r"^net.v2-[0-9]+$")

    def test_exit_codes(self):
        self.assertEqual(shoal.run("run", "-n", 2, "--", "true").returncode, 0)
        self.assertEqual(shoal.run("run", "-n", 2, "--", "sh", "-c", "exit 6").returncode, 6)
        r = shoal.run(
            "run",
            "-n",
            3,
            "-g",
            "0",
            "--",
            "sh",
            "-c",
            "[ $RANK = 1 ] && kill -9 $$; exec sleep 100",
        )
        self.assertEqual(r.returncode, 5)
        self.assertIn("rank 1 was killed by signal 9", r.stderr)
        for code in (1, 2):  # a failure or a usage error explains a lost peer
            with tempfile.TemporaryDirectory() as folder:
                fifo = os.path.join(folder, "trapped")
                os.mkfifo(fifo)
                script = (
                    f"[ $RANK = 1 ] && read x < {fifo} && exit 5; trap 'exit {code}' TERM; "
                    f"echo yes > {fifo}; while :; do sleep 0.05; done"
                )
                r = shoal.run("run", "-n", 2, "-g", "0", "--", "sh", "-c", script)
            self.assertEqual(r.returncode, code)
        r = shoal.run("run", "-n", 1, "--", "/no/such/command")
        self.assertEqual(r.returncode, 127)
        self.assertIn("cannot start /no/such/command", r.stderr)

    def test_usage(self):
        for args, text in (
            (["-n", "0"], "--ranks 0"),
            (["--grace", "x"], "--grace x"),
            ([], "no command"),
            (["--lab", "rate=fast", "--", "true"], "rate=fast"),
            (["--lab", "nonsense=1", "--", "true"], "known keys"),
            (["--lab", "slow=1:0.5x", "--", "true"], "slow=1:0.5x"),
            (["--lab", "throttle=1:2%", "--", "true"], "throttle=1:2%"),
            (["--on-loss", "perhaps", "--", "true"], "stop or reform"),
            (["--spares", "1", "--", "true"], "--on-loss reform"),
            (["-n", "9", "--hosts", "a:2,b:2", "--", "true"], "4 slots"),
        ):
            r = shoal.run("run", *args)
            self.assertEqual(r.returncode, 2, (args, r.stderr))
            self.assertIn(text, r.stderr)
        self.assertIn("Examples:", shoal.run("run", "--help").stdout)

    def test_what_only_a_launcher_can_do_is_refused_below_one(self):
        train = ("train", "--data", "nowhere", "--model", "mlp-small", "--on-loss", "reform")
        below = {"RANK": "0", "WORLD_SIZE": "1"}
        for words in (("--spares", 1), ("--hosts", "a"), ("--port", 4000), ("--lab", "rate=1gbit")):
            r = shoal.run(*train, *words, env=below)
            self.assertEqual(r.returncode, 2, (words, r.stderr))
            self.assertIn(f"{words[0]} would start nothing: a launcher has started", r.stderr)
        for words in (("bench", "allreduce", "-l", "rate=1gbit"), ("doctor", "--hosts", "a,b")):
            r = shoal.run(*words, env=below)
            self.assertEqual((r.returncode, "would start nothing" in r.stderr), (2, True), r.stderr)
        r = shoal.run("run", "-n", 2, "--", shoal.SHOAL, *train, "--workers", 3)
        self.assertEqual(r.returncode, 2, r.stderr)
        self.assertIn("--workers 3, but the launcher has started 2:", r.stderr)
        r = shoal.run("run", "-n", 2, "--", shoal.SHOAL, *train, "--workers", 2)
        self.assertIn("nowhere", r.stderr)  # the number is right: that is what is looked at next

    def test_hosts_through_stand_in(self):
        with tempfile.TemporaryDirectory() as folder:
            rsh = os.path.join(folder, "rsh")
            with open(rsh, "w", encoding="ascii") as f:
                f.write('#!/bin/sh\necho "on $1"\nexec sh -c "$2"\n')
            os.chmod(rsh, stat.S_IRWXU)
            r = shoal.run(
                "run",
                "-n",
                3,
                "--hosts",
                "a:1,b:2",
                "--",
                "sh",
                "-c",
                "echo \"it's $RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR "
                '$(wc -c < $SHOAL_TOKEN_FILE)"',
                env={"SHOAL_RSH": rsh},
            )
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(
            sorted(l for l in r.stdout.split("\n") if "it" in l),
            ["it's 0 0 1 a 64", "it's 1 0 2 a 64", "it's 2 1 2 a 64"],
        )
        self.assertEqual(r.stdout.count("on b"), 2)

    def test_nothing_survives_kill_9(self):
        for lab in ([], ["--lab", "rate=100mbit"]):
            if lab and LAB:
                continue
            p = popen(self, "run", "-n", "2", *lab, "--", "sleep", "100")
            want = 3 if lab else 2
            self.assertTrue(wait_for(lambda: len(descendants(p.pid)) >= want))
            family = descendants(p.pid)
            p.kill()
            p.wait()
            self.assertTrue(wait_for(lambda: not any(alive(pid) for pid in family)), family)

    def test_terminate_goes_on_to_the_ranks(self):
        p = popen(self, "run", "-n", "2", "--", "sleep", "100")
        self.assertTrue(wait_for(lambda: len(descendants(p.pid)) == 2))
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(timeout=60), 128 + signal.SIGTERM)


@unittest.skipIf(LAB, LAB)
class Lab(unittest.TestCase):
    def test_hosts_are_encrypted_by_themselves(self):
        """A lab that does not say so is a network of strangers: who refuses TLS stays out."""
        for lab in ("unset SHOAL_LAB", "SHOAL_LAB=1", "SHOAL_LAB=net:[1]"):  # none, or left behind
            with self.subTest(lab=lab):
                self.check_encrypted(lab)

    def check_encrypted(self, lab):
        script = (
            f"{lab}; T=tcp; [ $RANK = 1 ] && T=tcp:tls=$TLS; "
            "exec $SHOAL bench allreduce --transport $T --size 64k --json"
        )
        env = {"SHOAL": os.path.abspath(shoal.SHOAL)}
        args = ["run", "-n", 2, "--grace", 0.1, "--lab", "rate=100mbit", "--", "sh", "-c", script]
        r = shoal.run(*args, env=dict(env, TLS="off"))
        self.assertNotEqual(r.returncode, 0)
        self.assertIn("refused this one: TLS is wanted here", r.stderr)
        self.assertIn("a caller speaks without TLS", r.stderr)
        r = shoal.run(*args, env=dict(env, TLS="auto"))
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(json.loads(r.stdout)["wrong"], 0)

    def test_addresses_and_shape(self):
        r = shoal.run(
            "run",
            "-n",
            3,
            "-t",
            "--lab",
            "rate=100mbit,hosts=2,link=1:10mbit,slow=2:5x",
            "--",
            "sh",
            "-c",
            "PATH=$PATH:/usr/sbin; ip -4 -o addr show eth0; tc qdisc show dev eth0; "
            "echo slow=$SHOAL_SLOW; "
            "echo local $LOCAL_RANK of $LOCAL_WORLD_SIZE at $MASTER_ADDR",
        )
        self.assertEqual(r.returncode, 0, r.stderr)
        for rank, host, rate in ((0, 1, "100Mbit"), (1, 1, "100Mbit"), (2, 2, "10Mbit")):
            mine = "\n".join(l for l in r.stdout.split("\n") if l.startswith(f"[{rank}] "))
            self.assertIn(f"10.77.0.{host}/16", mine)
            self.assertIn(f"rate {rate}", mine)
            self.assertIn("slow=5" if rank == 2 else "slow=\n", mine + "\n")
            self.assertIn("at 10.77.0.1", mine)

    def groups(self, pid):
        """Control groups that a launcher made."""
        return glob.glob(f"/sys/fs/cgroup/**/shoal-lab-{pid}-*", recursive=True)

    def test_a_throttled_rank_gets_its_share(self):
        """A group of its own, in which it waits for time; gone after the end and after kill -9."""
        spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
        r = shoal.run("run", "-n", 2, "-t", "--lab", "throttle=1:10%", "--", "sh", "-c",
                      f"{spin}; cat /proc/self/cgroup")  # fmt: skip
        if r.returncode == 77:
            self.assertIn("throttle", r.stderr)
            self.skipTest(r.stderr.strip())
        self.assertEqual(r.returncode, 0, r.stderr)
        mine = [l for l in r.stdout.split("\n") if "shoal-lab-" in l]
        self.assertEqual([l[:3] for l in mine], ["[1]"])
        p = popen(self, "run", "-n", "2", "--lab", "throttle=1:10%", "--", "sh", "-c",
                  "while true; do :; done")  # fmt: skip
        self.assertTrue(wait_for(lambda: len(self.groups(p.pid)) == 1))
        stat = os.path.join(self.groups(p.pid)[0], "cpu.stat")

        def throttled():
            with open(stat, encoding="utf-8") as file:
                return int(file.read().split("nr_throttled ")[1].split()[0]) > 2

        self.assertTrue(wait_for(throttled))
        p.kill()
        p.wait()
        self.assertTrue(wait_for(lambda: not self.groups(p.pid)))

    def test_no_address_outside(self):
        before = subprocess.run(
            ["ip", "-o", "addr"], capture_output=True, text=True, check=True
        ).stdout
        p = popen(self, "run", "-n", "2", "--lab", "rate=100mbit", "--", "sleep", "100")
        self.assertTrue(wait_for(lambda: len(descendants(p.pid)) >= 3))
        during = subprocess.run(
            ["ip", "-o", "addr"], capture_output=True, text=True, check=True
        ).stdout
        p.terminate()
        p.wait(timeout=60)
        self.assertEqual(before, during)


if __name__ == "__main__":
    shoal.main()
