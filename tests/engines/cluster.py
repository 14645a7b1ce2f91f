# SPDX-License-Identifier: Apache-2.0
"""Four hosts n1 to n4 and one named login on this machine: each in namespaces of its own (network,
host name, processes, IPC, mounts), on one Ethernet. What is below the repository is seen by all of
them, as a home that is mounted everywhere; /tmp, /run and /dev/shm are each host's own. A host ends
with everything in it when this process is gone, or when `off()` takes its power."""
import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("SHOAL_BUILD", os.path.join(ROOT, "build", "release")))
SHOAL = os.path.join(BUILD, "shoal")
HOSTS = ["n1", "n2", "n3", "n4"]
LOGIN = "login"
SKIP = 77
DEADLINE_S = 120  # of what a quiet machine does in a few seconds
# A host's first process. It ends when its standard input does.
INIT = r"""
set -e
hostname "$NAME"
mount -t tmpfs tmpfs /run
mkdir -p /run/keep /run/munge /run/sshd /run/slurmd /run/lock
mount --bind "$ROOT" /run/keep
for own in /tmp /dev/shm; do mount -t tmpfs -o mode=1777 tmpfs $own; done
[ -d "$ROOT" ] || { mkdir -p "$ROOT"; mount --bind /run/keep "$ROOT"; }
mount --bind "$SITE/hosts" /etc/hosts
mount --bind /dev/null /etc/resolv.conf
echo "$BOOT" >/run/boot_id
mount --bind /run/boot_id /proc/sys/kernel/random/boot_id
ip link set lo up
echo up
cat >/dev/null
exit 0 # not "exec cat": this process waits for orphans
"""


def cannot(*programs):
    """Why there can be no cluster here, or None."""
    if os.geteuid() != 0:
        return "hosts of namespaces with daemons of their own need root"
    missing = [name for name in ("unshare", "nsenter", "ip", *programs) if which(name) is None]
    if missing:
        return f"missing: {', '.join(missing)} (packages-engines.txt)"
    probe = subprocess.run(
        ["unshare", "-munip", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/run"],
        capture_output=True,
        text=True,
    )
    return None if probe.returncode == 0 else f"no namespaces here: {probe.stderr.strip()}"


def which(program):
    return shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def wait_until(condition, what, seconds=DEADLINE_S):
    """What condition() is once it is true."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        threading.Event().wait(0.05)
    return found


class Host:
    def __init__(self, name, site):
        self.name, self.site = name, site
        env = dict(os.environ, NAME=name, ROOT=ROOT, SITE=site.folder, BOOT=str(uuid.uuid4()))
        words = ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork"]
        self.outer = subprocess.Popen(
            [*words, "--kill-child", "--mount-proc", "sh", "-c", INIT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        if self.outer.stdout.readline() != "up\n":
            raise AssertionError(f"host {name} did not start")
        with open(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children", "rb") as file:
            self.init = int(file.read())

    def command(self, words, folder=None):
        """Those that run `words` in this host."""
        enter = ["nsenter", "-t", str(self.init), "-m", "-u", "-i", "-n", "-p", "--"]
        return [*enter, "env", "-C", folder or self.site.folder, *map(str, words)]

    def start(self, *words, folder=None, env=None, **more):
        full = dict(self.site.env, **(env or {}))
        return subprocess.Popen(self.command(words, folder), env=full, text=True, **more)

    def run(self, *words, folder=None, env=None, input=None, timeout=DEADLINE_S):
        return subprocess.run(
            self.command(words, folder),
            env=dict(self.site.env, **(env or {})),
            capture_output=True,
            text=True,
            input=input,
            timeout=timeout,
        )

    def daemon(self, *words, env=None, to=None):
        """One that lives as long as its host; its output goes to a file of the site."""
        path = self.site.path(f"{to or os.path.basename(words[0])}.{self.name}.log")
        with open(path, "a") as log:
            return self.start(*words, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def processes(self, word):
        """Numbers of processes here that have `word` among their arguments; of this host's."""
        found = []
        listed = self.run("sh", "-c", "cd /proc; echo [0-9]*").stdout.split()
        for pid in listed:
            line = self.run("cat", f"/proc/{pid}/cmdline").stdout
            if word in line.split("\0"):
                found.append(int(pid))
        return found

    def off(self):
        """As if it had lost its power: no process ends in order, no connection is closed."""
        self.site.cut(self)
        self.outer.kill()  # takes its child with it, and that all that is in the host
        self.outer.wait()
        self.outer.stdin.close()
        self.outer.stdout.close()


class Site:
    """The hosts, by name, and the folder that all of them share."""

    def __init__(self):
        os.makedirs(os.path.join(BUILD, "engines"), exist_ok=True)
        self.folder = tempfile.mkdtemp(dir=os.path.join(BUILD, "engines"))
        atexit.register(self.close)
        self.env = {
            "PATH": f"{BUILD}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": self.path("home"),
            "LANG": "C.UTF-8",
            "OMP_NUM_THREADS": "1",
            "TERM": "dumb",
        }
        os.mkdir(self.path("home"))
        names = [*HOSTS, LOGIN]
        self.ip = {name: f"10.88.0.{i + 1}" for i, name in enumerate(names)}
        self.write("hosts", "127.0.0.1 localhost\n", *(f"{self.ip[n]} {n}\n" for n in names))
        self.hosts = {}
        self.login = self.add(LOGIN)
        self.net(self.login, "link", "add", "br0", "type", "bridge")
        self.net(self.login, "address", "add", f"{self.ip[LOGIN]}/24", "dev", "br0")
        self.net(self.login, "link", "set", "br0", "up")
        for name in HOSTS:
            self.connect(self.add(name))

    def add(self, name):
        self.hosts[name] = Host(name, self)
        return self.hosts[name]

    def net(self, host, *words):
        enter = ["nsenter", "-t", str(host.init), "-n", "ip", *words]
        subprocess.run(enter, check=True)

    def connect(self, host):
        # the same card as before, which the others may still know
        card = f"02:00:0a:58:00:{int(self.ip[host.name].split('.')[-1]):02x}"
        other = ["peer", "name", "eth0", "address", card, "netns", str(host.init)]
        self.net(self.login, "link", "add", host.name, "type", "veth", *other)
        self.net(self.login, "link", "set", host.name, "master", "br0", "up")
        self.net(host, "address", "add", f"{self.ip[host.name]}/24", "dev", "eth0")
        self.net(host, "link", "set", "eth0", "up")

    def cut(self, host):
        self.net(self.login, "link", "delete", host.name)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, *texts, mode=0o644):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write("".join(texts))
        os.chmod(self.path(name), mode)
        return self.path(name)

    def read(self, name):
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def names(self, folder, begin):
        try:
            listed = os.listdir(self.path(folder))
        except OSError:
            return []
        return [os.path.join(folder, name) for name in sorted(listed) if name.startswith(begin)]

    def close(self):
        atexit.unregister(self.close)
        for host in self.hosts.values():
            if host.outer.poll() is None:
                host.outer.kill()
            host.outer.wait()
            host.outer.stdin.close()
            host.outer.stdout.close()
        self.hosts = {}
        if not os.environ.get("SHOAL_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)


def need(*programs):
    """Skip this file with a reason, as ctest knows it, where no cluster can be."""
    reason = cannot(*programs)
    if reason is None and not os.access(SHOAL, os.X_OK):
        reason = f"{SHOAL} is not built"
    if reason is not None:
        print(f"skipped: {reason}")
        sys.exit(SKIP)


def main():
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that hosts go at exit
    program = unittest.main(exit=False, verbosity=2)
    sys.exit(0 if program.result.wasSuccessful() else 1)
