# SPDX-License-Identifier: Apache-2.0
"""--hosts over real sshds of this user's own: 127.0.0.1 and 127.0.0.2 are two hosts."""
import contextlib
import json
import os
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import shoal
from train_test import write_data

SSHD = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
CANNOT = None if SSHD and shutil.which("ssh") else "openssh-client and openssh-server are missing"
if os.path.basename(pwd.getpwuid(os.geteuid()).pw_shell) in ("nologin", "false"):
    CANNOT = "this user has no shell to log in to"
HOSTS = "127.0.0.1", "127.0.0.2"
DEADLINE_S = 60
# Ranks say where they meet, wait until they may go on, and sum.
WAITING = 'echo "meet $SHOAL_RENDEZVOUS"; : <"$1"; exec "$0" bench allreduce --size 64k --json'


def until(condition):
    end = time.monotonic() + DEADLINE_S
    while not condition() and time.monotonic() < end:
        select.select([], [], [], 0.05)
    return condition()


class Sshd:
    """One of this user's own; it needs no root."""

    def __init__(self, folder, address):
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)  # which only a sshd of root's asks for
        self.reserved = shoal.reserved_port(address)
        self.port = self.reserved.getsockname()[1]
        config = os.path.join(folder, f"sshd_config.{address}")
        with open(config, "w", encoding="ascii") as file:
            file.write(
                f"ListenAddress {address}\nPort {self.port}\nHostKey {folder}/host\n"
                f"AuthorizedKeysFile {folder}/user.pub\nPidFile none\nUsePAM no\nStrictModes no\n"
                "PermitRootLogin yes\nPasswordAuthentication no\n"
                "MaxStartups 7\n"  # logins under way; one more is refused
                # no start-up files: this machine's may take long, and lock
                f"SetEnv HOME={folder}\n"
            )
        self.log = open(config + ".log", "w+", encoding="ascii")
        self.child = subprocess.Popen([SSHD, "-D", "-e", "-f", config], stderr=self.log)
        self.up = until(self.listens)

    def listens(self):
        with open(self.log.name, encoding="ascii") as log:
            return "Server listening" in log.read()

    def close(self):
        self.child.terminate()
        self.child.wait()
        self.log.close()
        self.reserved.close()


class Site:
    """Two sshds, and an ssh that knows them; with other names something is wrong."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="shoal-ssh-")
        for name in ("host", "user", "other"):
            key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path(name)]
            subprocess.run(key, check=True)
        self.servers = [Sshd(self.folder, address) for address in HOSTS]
        self.closed = shoal.reserved_port("127.0.0.1")
        nobody = self.closed.getsockname()[1]
        known = [self.read("host.pub", "site "), self.read("other.pub", "changed ")]
        self.write("known", "".join(known))
        first, second = (server.port for server in self.servers)
        self.write(
            "ssh_config",
            "Host stranger\nHostKeyAlias stranger\nHost changed\nHostKeyAlias changed\n"
            f"Host denied\nIdentityFile {self.path('other')}\nHost down\nPort {nobody}\n"
            f"Host mute\nProxyCommand cat 3>&1 >/dev/null\n"
            f"Host {HOSTS[1]}\nHostName %h\nPort {second}\n"
            f"Host * !denied\nIdentityFile {self.path('user')}\n"
            f"Host *\nHostName {HOSTS[0]}\nPort {first}\nHostKeyAlias site\nIdentitiesOnly yes\n"
            f"UserKnownHostsFile {self.path('known')}\nGlobalKnownHostsFile /dev/null\n"
            "IdentityAgent none\n",
        )
        self.write(
            "rsh",
            f"#!/bin/sh\nexec ssh -F {self.path('ssh_config')} -o BatchMode=yes "
            '-o ConnectTimeout=60 "$@"\n',
        )
        os.chmod(self.path("rsh"), 0o700)

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name, before):
        with open(self.path(name), encoding="ascii") as file:
            return before + " ".join(file.read().split()[:2]) + "\n"

    def write(self, name, text):
        with open(self.path(name), "w", encoding="ascii") as file:
            file.write(text)

    def processes(self, kind="environ", word=None):
        """What runs on the hosts: their sshds give it the home of this site."""
        word, found = (word or f"HOME={self.folder}").encode(), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/{kind}", "rb") as file:
                if word in file.read().split(b"\0"):
                    found.append(int(pid))
        return found

    def empty(self):
        """Nothing on the hosts, and no ssh on its way to them."""
        return not self.processes() and not self.processes("cmdline", self.path("ssh_config"))

    def close(self):
        for server in self.servers:
            server.close()
        self.closed.close()
        shutil.rmtree(self.folder)


@unittest.skipIf(CANNOT, CANNOT)
class Ssh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.site = Site()
        cls.addClassCleanup(cls.site.close)
        assert all(server.up for server in cls.site.servers), "no sshd came up"
        cls.env = dict(os.environ, SHOAL_RSH=cls.site.path("rsh"))
        cls.shoal = os.path.abspath(shoal.SHOAL)

    def start(self, *words, hosts=",".join(HOSTS), verb="run"):
        child = subprocess.Popen(
            [self.shoal, verb, "--hosts", hosts, *map(str, words)],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        return child

    def launch(self, *words, code=0, **more):
        child = self.start(*words, **more)
        out, err = child.communicate(timeout=60)
        self.assertEqual(code, child.returncode, err)
        return out, err

    def test_a_job_on_two_hosts(self):
        word = "echo $SHOAL_TOKEN_FILE; exec " + self.shoal + " bench allreduce --size 64k --json"
        out, err = self.launch("--", "sh", "-c", word)
        self.assertIn("shoal run: sh on 2 hosts: rank 0 on 127.0.0.1, rank 1 on 127.0.0.2", err)
        self.assertIn('"wrong": 0', out)
        tokens = [line for line in out.splitlines() if line.startswith("/")]
        self.assertEqual(2, len(tokens))
        self.assertFalse(any(map(os.path.exists, tokens)), "a token file is left")

    def test_training_on_two_hosts(self):
        with tempfile.TemporaryDirectory() as folder:
            write_data(folder)
            model = os.path.join(folder, "tiny.json")
            layers = ["flatten", "dense:out=4"]
            with open(model, "w", encoding="ascii") as file:
                json.dump({"name": "tiny", "input": [1, 6, 6], "layers": layers}, file)
            words = ["--data", folder, "--model", model, "--steps", 3, "--batch", 10, "--json"]
            out, err = self.launch(*words, verb="train")
            self.assertEqual(2, json.loads(out.splitlines()[-1])["workers"])
            self.assertIn("shoal train: shoal on 2 hosts", err)
            self.assertEqual("", self.launch(*words, "--quiet", verb="train")[1])

    def test_each_host_that_fails_gets_its_sentence(self):
        bad = {
            "stranger": "its key is not known here",
            "changed": "its key is another one than known_hosts has",
            "down": "connection refused",
            "denied": "permission denied",
            "mute": "did not answer within 15 s; SHOAL_HOSTS_WAIT gives it more",
        }
        self.addCleanup(self.env.update, self.env.copy())
        self.env.update(SHOAL_HOSTS_WAIT="15")
        silent = self.start("--", "true", hosts="127.0.0.1,mute")
        began = self.site.path("began")
        out, err = self.launch("--", "touch", began, hosts=",".join(["127.0.0.1", *bad]), code=1)
        self.assertFalse(os.path.exists(began))
        self.assertEqual("", out)
        lines = err.splitlines()
        self.assertEqual(len(bad) + 1, len(lines), err)
        for line, (host, why) in zip(lines, bad.items()):
            self.assertIn(f"shoal run: host {host}: ", line)
            self.assertIn(why, line)
        self.assertIn("nothing was started, as 5 of 6 hosts cannot take part", lines[-1])
        err = silent.communicate(timeout=60)[1]
        self.assertEqual((6, 2), (silent.returncode, len(err.splitlines())), err)

    def test_how_long_a_host_may_take(self):
        for wait, says in (("x", "=x: wanted"), ("0", "=0: wanted"), ("601", "from 1 to 600"),
                           ("1", "mute: it did not answer within 1 s")):  # fmt: skip
            done = shoal.run("run", "--hosts", "mute", "--", "true",
                             env={**self.env, "SHOAL_HOSTS_WAIT": wait})  # fmt: skip
            self.assertEqual(6 if wait == "1" else 2, done.returncode, done.stderr)
            self.assertIn(says, done.stderr)

    def folder_with(self, script):
        folder = tempfile.mkdtemp(dir=self.site.folder)
        if script is None:
            os.symlink(self.shoal, os.path.join(folder, "shoal"))
        elif script:
            with open(os.path.join(folder, "shoal"), "w", encoding="ascii") as file:
                file.write("#!/bin/sh\n" + script)
            os.chmod(os.path.join(folder, "shoal"), 0o700)
        return folder

    def test_programs_there(self):
        """The other hosts' shoal: none, another version, one that does not run, the right one."""
        began = self.site.path("never")
        for script, why in (
            ("", "shoal; --path is the folder"),
            ("echo shoal 0.0.9", "it has shoal 0.0.9, this host shoal 0.1"),
            ("echo no libshoal.so.0; exit 127", "its shoal does not run: no libshoal.so.0"),
        ):
            with self.subTest(why):
                path = self.folder_with(script)
                out, err = self.launch("--path", path, "--", "touch", began, code=1)
                self.assertEqual(3, len(err.splitlines()), err)
                for line, host in zip(err.splitlines(), HOSTS):
                    self.assertIn(f"host {host}: ", line)
                    self.assertIn(why, line)
                self.assertFalse(os.path.exists(began))
        err = self.launch("--", "no-such-program", began, code=1)[1]
        self.assertIn("host 127.0.0.2: there is no program no-such-program; --path", err)
        out = self.launch("--path", self.folder_with(None), "--", "shoal", "--version")[0]
        self.assertEqual(2, out.count("shoal 0.1"))

    def test_a_rank_that_is_killed_there(self):
        script = "[ $RANK = 1 ] && kill -9 $$; exec sleep 100"
        err = self.launch("-g", 0, "--", "sh", "-c", script, code=5)[1]
        self.assertIn("rank 1 was killed by signal 9", err)

    def test_no_process_outlives_the_launcher(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number.name):
                child = self.start("--", "sh", "-c", "echo up; while :; do sleep 0.1; done")
                for _ in HOSTS:
                    self.assertEqual("up\n", child.stdout.readline(), child.poll())
                self.assertNotEqual([], self.site.processes())
                child.send_signal(number)
                child.communicate(timeout=60)
                expected = -number if number == signal.SIGKILL else 128 + number
                self.assertEqual(expected, child.returncode)
                self.assertTrue(until(self.site.empty), "something is left")

    def test_an_end_while_hosts_are_asked(self):
        for number in (signal.SIGINT, signal.SIGKILL):
            child = self.start("--", "true", hosts="127.0.0.1,mute")
            self.assertTrue(until(self.site.processes))  # ports are held there
            child.send_signal(number)
            self.assertEqual("", child.communicate(timeout=60)[0])
            self.assertEqual(-number, child.returncode)
            self.assertTrue(until(self.site.empty), "something is left")

    def test_more_ranks_than_logins_at_once(self):
        self.launch("--", "true", hosts="127.0.0.1:16,127.0.0.2:2")

    def test_two_jobs_at_once(self):
        """Both meet on one host at one time: each has ports of its own."""
        jobs, gates = [], []
        for name in ("one", "two"):
            gates.append(self.site.path(name))
            os.mkfifo(gates[-1])
            jobs.append(self.start("--", "sh", "-c", WAITING, self.shoal, gates[-1]))
        places = [{job.stdout.readline() for _ in HOSTS} for job in jobs]
        self.assertEqual([1, 1], [len(place) for place in places], places)
        self.assertRegex(min(places[0]), r"^meet tcp://127\.0\.0\.1:[0-9]+\n$")
        self.assertNotEqual(places[0], places[1])
        # A writer that stays lets all readers go on, whenever they come.
        writers = [os.open(gate, os.O_RDWR) for gate in gates]
        for job in jobs:
            out, err = job.communicate(timeout=60)
            self.assertEqual(0, job.returncode, err)
            self.assertIn('"wrong": 0', out)
        for writer in writers:
            os.close(writer)


if __name__ == "__main__":
    shoal.main()
