# SPDX-License-Identifier: Apache-2.0
"""shoal run --hosts over a real sshd: two hosts of a lab have one each, the third starts a job
there."""
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import shoal

SSHD = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
DEADLINE_S = 60
# Rank 0 of the lab is the launcher, the others run sshd until it is done.
HOST = r"""
set -e
cd "$DIR"
if [ "$RANK" != 0 ]; then
    "$SSHD" -D -e -f sshd_config -o PidFile=none 2>>"sshd.$RANK.log" &
    server=$!
    until [ -e done ]; do read -t 0.05 _ <> idle || :; done
    kill $server
    exit 0
fi
trap 'touch done' EXIT
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE SHOAL_RENDEZVOUS SHOAL_TOKEN_FD
export SHOAL_RSH="$DIR/rsh"
until "$SHOAL_RSH" 10.77.0.2 true 2>/dev/null && "$SHOAL_RSH" 10.77.0.3 true 2>/dev/null; do
    read -t 0.05 _ <> idle || :
done
echo ready >ready
"$@"
"""


def until(condition):
    end = time.monotonic() + DEADLINE_S
    while not condition() and time.monotonic() < end:
        select.select([], [], [], 0.05)
    return condition()


def begun(pid):
    """When a process was started; its number does not say so, as they begin anew at some."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return int(file.read().rsplit(")", 1)[1].split()[19])


def cannot():
    if shoal.lab_works():
        return shoal.lab_works()
    if os.geteuid() != 0 or SSHD is None:
        return "sshd needs root and openssh-server"
    return None


CANNOT = cannot()


class Site:
    """A lab of three: a launcher, and two hosts with an sshd. Its job starts at once."""

    def __init__(self, *launch, mark="job"):
        self.folder = tempfile.TemporaryDirectory()
        self.mark = self.path(mark)  # the last argument of the command
        for name in ("host", "user"):
            key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path(name)]
            subprocess.run(key, check=True)
        os.mkfifo(self.path("idle"))
        self.write(
            "sshd_config",
            f"HostKey {self.path('host')}\nAuthorizedKeysFile {self.path('user.pub')}\n"
            "UsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\n"
            # no start-up files: this machine's may take long, and lock
            # in a lab the address sanitizer cannot look for leaks (shoal.lab_works)
            f"SetEnv HOME={self.folder.name} ASAN_OPTIONS=detect_leaks=0\n",
        )
        self.write(
            "rsh",
            f"#!/bin/sh\nexec ssh -F none -i {self.path('user')} -o BatchMode=yes "
            '-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "$@"\n',
        )
        os.chmod(self.path("rsh"), 0o700)
        command = [shoal.SHOAL, "run", "-n", "3", "--lab", "rate=1gbit", "--", "bash", "-c", HOST]
        command += ["host", os.path.abspath(shoal.SHOAL), "run", "-n", "2", "--hosts"]
        self.child = subprocess.Popen(
            [*command, "10.77.0.2,10.77.0.3", *launch, self.mark],
            env=dict(os.environ, DIR=self.folder.name, SSHD=SSHD),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="ascii") as file:
            file.write(text)

    def close(self):
        self.child.kill()
        self.child.communicate()
        self.folder.cleanup()

    def processes(self):
        """(launchers, ranks) that have the mark among their arguments."""
        launchers, ranks = [], []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    arguments = file.read().split(b"\0")
            except OSError:
                continue
            if self.mark.encode() in arguments:
                (launchers if b"--hosts" in arguments else ranks).append(int(pid))
        return launchers, ranks

    def signal(self, number):
        """To the inner launcher, the youngest of those with its arguments."""
        os.kill(max(self.processes()[0], key=begun), number)


@unittest.skipIf(CANNOT, CANNOT)
class Hosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.makedirs("/run/sshd", exist_ok=True)
        shell = os.path.abspath(shoal.SHOAL)
        bench = 'echo "rank $RANK $SHOAL_TOKEN_FILE"; exec ' + shell
        bench += " bench allreduce --size 64k --json"
        wait = "D=${0%/*}; trap 'echo >$D/caught.$RANK; exit 3' INT; echo >$D/up.$RANK; "
        wait += "while :; do sleep 0.05; done"
        cls.sites = {"job": Site("--tag-output", "--", "sh", "-c", bench)}
        for name in ("int", "kill"):
            cls.sites[name] = Site("--", "bash", "-c", wait, mark=name)

    @classmethod
    def tearDownClass(cls):
        for site in cls.sites.values():
            site.close()

    def test_a_job_over_ssh(self):
        out, err = self.sites["job"].child.communicate(timeout=60)
        self.assertEqual(self.sites["job"].child.returncode, 0, err)
        lines = out.splitlines()
        ranks = sorted(line.split()[:3] for line in lines if "] rank" in line)
        self.assertEqual(ranks, [["[0]", "rank", "0"], ["[1]", "rank", "1"]])
        self.assertTrue(any('"wrong": 0' in line for line in lines), out)
        for line in lines:
            if "] rank" in line:
                self.assertFalse(os.path.exists(line.split()[3]), "a token file is left")

    def wait_up(self, site):
        ups = [site.path(f"up.{rank}") for rank in range(2)]
        self.assertTrue(until(lambda: all(map(os.path.exists, ups))))

    def test_ctrl_c_reaches_all(self):
        site = self.sites["int"]
        self.wait_up(site)
        site.signal(signal.SIGINT)
        self.assertTrue(until(lambda: not site.processes()[1]))
        for rank in range(2):
            self.assertTrue(os.path.exists(site.path(f"caught.{rank}")), "no SIGINT came")

    def test_nothing_is_left_after_kill_9(self):
        site = self.sites["kill"]
        self.wait_up(site)
        self.assertNotEqual(site.processes()[1], [])
        site.signal(signal.SIGKILL)
        self.assertTrue(until(lambda: not site.processes()[1]))


if __name__ == "__main__":
    shoal.main()
