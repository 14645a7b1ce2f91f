# SPDX-License-Identifier: Apache-2.0
"""One job of the array: started, perhaps hurt, ended, and looked at. Every job has a folder of its
own with all that it may write to; whatever else it leaves behind is a fault."""
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import threading
import time

import factors

EPOCHS, SAMPLES = 2, 320
DEADLINE_S, DEADLINES = 60, 4
MARK = "SHOAL_COMBO"


class Fault(Exception):
    """What a job did that it must not do."""


def check(condition, text):
    if not condition:
        raise Fault(text)


def wait_until(condition, what, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"not within {seconds} s: {what}")
        threading.Event().wait(0.01)


def environ_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = (e.split(b"=", 1) for e in file.read().split(b"\0") if b"=" in e)
            return {key.decode(): value.decode(errors="replace") for key, value in pairs}
    except OSError:
        return {}


def processes(mark):
    """Those of a job, zombies not counted."""
    return [pid for pid in filter(str.isdigit, os.listdir("/proc"))
            if environ_of(pid).get(MARK) == mark]


class Folder:
    """work (where it runs), tmp, status and out of one job."""

    def __init__(self, above, name):
        self.path = os.path.join(above, name)
        for part in ("work", "tmp", "status"):
            os.makedirs(os.path.join(self.path, part), mode=0o700)

    def __truediv__(self, part):
        return os.path.join(self.path, part)

    def drop(self):
        shutil.rmtree(self.path)


class Job:
    """A command line made of a row's words. Words with @ are for this class: @workers, @launcher,
    @out, @resume, @term, @kill, @spares, @start, @tmp, the job's own folder, and @NAME.json, the
    suite's models."""

    def __init__(self, suite, name, words):
        self.suite, self.name = suite, name
        self.workers, self.launcher, self.kill, self.resume = 4, "train", False, False
        self.args, self.out, self.spares, self.term = [], None, 0, False
        self.mark = f"{os.getpid()}-{name}"
        self.folder = Folder(suite.folder, name)
        for value in words:
            self.take(value)

    def take(self, value):
        left = shlex.split(value)
        while left:
            word = left.pop(0)
            if word == "@workers":
                self.workers = int(left.pop(0))
            elif word == "@launcher":
                self.launcher = left.pop(0)
            elif word == "@spares":
                self.spares = int(left.pop(0))
            elif word == "@kill":
                self.kill = True
            elif word in ("@out", "@resume", "@term"):
                self.out, self.resume = self.folder / "out", word == "@resume"
                self.term = word == "@term"
            elif word == "--on-loss" and word in self.args:
                check(self.option(word) == left.pop(0), "two ways to take a loss")
            else:
                for file in factors.MODELS:
                    word = word.replace(f"@{file}", os.path.join(self.suite.folder, file))
                self.args.append(word.replace("@tmp", self.folder / "tmp"))

    def option(self, name):
        return self.args[self.args.index(name) + 1] if name in self.args else None

    def sparse(self):
        """Most of a gradient is zero."""
        model = self.option("--model") or ""
        return model.startswith("svm") or model.endswith(("clicks.json", "dlrm.json", "ncf.json"))

    def train_words(self, epochs, more):
        model = self.option("--model")
        args = [self.suite.start(model) if word == "@start" else word for word in self.args]
        words = ["train", *args, "--data", self.suite.data(model)]
        words += ["--epochs", epochs] if "--epochs" not in more else []
        words.append("--json")
        words += ["--peer-timeout", 2] if self.launcher != "simulate" else []
        return [*words, *more]

    def command(self, epochs=EPOCHS, more=()):
        words = self.train_words(epochs, more)
        shoal = self.suite.shoal
        if self.launcher == "run":
            spares = ["--on-loss", "reform", "--spares", self.spares] if self.spares else []
            words = ["run", "-n", self.workers + self.servers(), *spares, "--", shoal, *words]
        elif self.launcher == "simulate":
            words += ["--simulate", self.workers]
        elif self.launcher == "hosts" and self.workers == 4 and "site=2" in " ".join(self.args):
            hosts = "127.0.0.1:2,127.0.0.2:2" + ",127.0.0.3:1" * bool(self.spares)
            words += ["--workers", self.workers, "--hosts", hosts]
        elif self.launcher == "hosts":
            words += ["--hosts", ",".join(f"127.0.0.{1 + i}" for i in range(self.workers))]
        elif self.launcher == "lab":
            words += ["--workers", self.workers, "--lab", self.lab()]
        else:
            words += ["--workers", self.workers]
        if self.spares and self.launcher != "run":
            words += ["--spares", self.spares]
        return [shoal, *map(str, words)]

    def lab(self):
        """A cluster's file brings as many ranks as it has workers: none that come on top."""
        if self.spares or self.servers():
            return "up=1gbit,down=2gbit,random=2x:0.1"
        return "cluster=" + self.suite.clusters[self.workers]

    def servers(self):
        sync = self.option("--sync") or ""
        return int("dedicated" in sync)

    def environ(self):
        env = {key: value for key, value in os.environ.items() if not key.startswith("SHOAL")}
        env.update({MARK: self.mark, "TMPDIR": self.folder / "tmp", "HOME": self.folder / "work",
                    "SHOAL_STATUS_DIR": self.folder / "status", "SHOAL_RSH": self.suite.rsh})
        return env

    def start(self, command):
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                cwd=self.folder / "work", env=self.environ(),
                                start_new_session=True)

    def finish(self, process):
        """Its end. It hangs when DEADLINE_S pass in which no rank has ended an operation: on a
        machine that others use, too, a job that goes on may take longer."""
        ended = None
        for _ in range(DEADLINES):
            try:
                stdout, stderr = process.communicate(timeout=DEADLINE_S)
                return process.returncode, stdout, stderr
            except subprocess.TimeoutExpired:
                says = self.status()
            before, ended = ended, says and [rank["ended"] for rank in says["ranks"]]
            if ended == before:
                break
        self.end_all()
        stdout, stderr = process.communicate()
        raise Fault(f"hangs: {DEADLINE_S} s\n{stderr}\n{says}")

    def end_all(self):
        for pid in processes(self.mark):
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)

    # ------------------------------------------------------------- what is asked before

    def dry_run(self):
        """Return code and what is said, of these options alone; nothing may be written."""
        more = ["--out", self.out] if self.out else []
        more += ["--resume", self.out] if self.resume else []
        command = self.command(more=[*more, "--dry-run"])
        if self.launcher == "run":  # the ranks are asked, not the launcher
            command = command[command.index("--") + 1 :]
            command += ["--workers", str(self.workers)]
            command += ["--spares", str(self.spares)] if self.spares else []
        done = subprocess.run(command, capture_output=True, text=True, timeout=20,
                              cwd=self.folder / "work", env=self.environ(), check=False)
        self.left_nothing("a dry run")
        return done.returncode, done.stderr

    # ------------------------------------------------------------- the run

    def whole(self, out, more=()):
        """Uninterrupted, or hurt; the result as an object."""
        out_words = ["--out", out] if out else []
        if "--resume" not in more:
            self.forget_dumps()
        pace = ["--compute-ms", 15] if self.kill else []
        epochs = 3 * EPOCHS if self.kill else EPOCHS
        process = self.start(self.command(epochs, [*out_words, *pace, *more]))
        try:
            victim = self.hurt(process) if self.kill else None
        except Fault as fault:
            self.end_all()
            raise Fault(f"{fault}\n{self.finish(process)[2]}") from None
        return self.result(self.finish(process), victim)

    def forget_dumps(self):
        """A run takes no folder with another one's gradients."""
        shutil.rmtree(self.folder / "tmp/dump", ignore_errors=True)

    def drowns(self):
        """Weights that come back in few bits carry noise as large as a part of themselves, new in
        each step: they grow without end, and are no numbers after some fifty (docs/protocols.md).
        """
        eden = (self.option("--codec") or "").startswith("eden")
        return eden and "pull=codec" in (self.option("--sync") or "")

    def slowly(self, out, ask=False):
        """Its end when it takes a while; ask: to end, as soon as it tells of a step."""
        epochs = EPOCHS if self.drowns() else 3 * EPOCHS
        process = self.start(self.command(epochs, ["--out", out, "--compute-ms", 15]))
        metrics = os.path.join(out, "metrics.jsonl")
        with contextlib.suppress(Fault):
            wait_until(lambda: process.poll() is not None or not ask or (
                os.path.exists(metrics) and os.path.getsize(metrics) > 0), "metrics", DEADLINE_S)
        if ask:
            process.send_signal(signal.SIGTERM)
        return self.finish(process)

    def result(self, ended, victim):
        code, stdout, stderr = ended
        too_few = "have cut graph" in stderr or "of two nobody can tell" in stderr
        if victim is not None and code == 5 and (not self.goes_on() or too_few):
            check(f"rank {victim}" in stderr or "server" in stderr, f"names no culprit\n{stderr}")
            check(stdout == "", f"prints a result, and ends with 5\n{stdout}")
            return None
        check(code == 0, f"exit code {code}\n{stderr}")
        try:
            result = json.loads(stdout)
        except ValueError:
            raise Fault(f"prints no JSON\n{stdout}{stderr}") from None
        lost = [] if victim is None else [victim]
        check([one["rank"] for one in result["lost"]] == lost, f"lost: {result['lost']}\n{stderr}")
        check(result["workers"] in self.who_end(len(lost)), f"workers: {result['workers']}")
        return result

    def who_end(self, lost):
        """How many may have made the result. A spare takes the place of the lost, unless a worker
        had made all its steps by then, after which nobody is let in (docs/failures.md): both
        numbers are right where the loss comes late, and when it comes is not ours to choose."""
        return {self.workers - lost, self.workers - max(0, lost - self.spares)}

    def goes_on(self):
        sync, _, keys = (self.option("--sync") or "all_reduce").partition(":")
        directed = "graph=exponential" in keys  # a loss unbalances it
        return "--on-loss" in self.args or (sync in self.suite.survivors and not directed)

    def ranks(self):
        """Rank of each process of the job that is one."""
        found = {}
        for pid in processes(self.mark):
            environ = environ_of(pid)
            rank = environ.get("RANK") if "SHOAL_SPARE" not in environ else None
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/comm", encoding="ascii") as file:
                    if rank is not None and file.read().startswith("shoal"):
                        found[int(rank)] = int(pid)
        return found

    def status(self):
        """What the job says of itself while it runs; None: nothing yet."""
        if not os.listdir(self.folder / "status"):
            return None
        done = subprocess.run([self.suite.shoal, "status", "--json"], capture_output=True,
                              text=True, timeout=20, env=self.environ(), check=False)
        try:
            jobs = json.loads(done.stdout)["jobs"] if done.returncode == 0 else []
        except ValueError:
            raise Fault(f"its status is no JSON: {done.stdout}") from None
        check(len(jobs) <= 1, f"status tells of {len(jobs)} jobs")
        return jobs[0] if jobs else None

    def hurt(self, process):
        """Kill a rank once the job has said of itself that it steps."""
        wait_until(lambda: process.poll() is not None or self.steps(), "a status of steps")
        check(process.poll() is None, "ended before anybody hurt it")
        victim = len(self.name) % self.workers
        pid = self.ranks().get(victim)
        check(pid is not None, f"rank {victim} is no process any more")
        os.kill(pid, signal.SIGKILL)
        return victim

    def steps(self):
        """All ranks have told that the protocol's start is behind them."""
        status = self.status()
        # the run folder is agreed upon first, and that the other run is there
        before = (1 if self.out else 0) + (1 if self.option("--start") else 0)
        return status is not None and all(rank["ended"] > before for rank in status["ranks"])

    # ------------------------------------------------------------- afterwards

    def left_nothing(self, what):
        left = os.listdir(self.folder / "work")
        check(not left, f"{what} left {left} where it ran")
        left = [name for name in os.listdir(self.folder / "tmp")
                if name not in ("dump", "board") and (what == "a dry run" or name != "trace.json")]
        check(not left, f"{what} left {left} in TMPDIR")
        check(self.out is None or what != "a dry run" or not os.path.exists(self.out),
              f"{what} made {self.out}")

    def left_nobody(self):
        with contextlib.suppress(Fault):
            wait_until(lambda: not processes(self.mark), "all processes gone", 5)
        left = processes(self.mark)
        self.end_all()
        check(not left, f"left processes: {left}")
        sockets = os.listdir(self.folder / "status")
        check(self.kill or not sockets, f"left status sockets: {sockets}")
