# SPDX-License-Identifier: Apache-2.0
"""The build folder of the mutants: the library made once, one object compiled anew for each mutant,
and the tests run with a library that holds it in the place of the original.

Nothing is written outside the build folder; sources are only read."""

import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import time

LIBRARIES = ("libshoal_internal.so", "libshoal.so", "libshoal_train.so")
FOLDERS = ("unit", "conformance", "sim", "proc")
LEAST_S, SLOWER = 3, 5  # what a test may take: so many times as long as without a mutant
TEST_S = 60
MEMORY_BYTES, FILE_BYTES = 16 << 30, 256 << 20
# A process namespace of its own ends what a test leaves behind, and bounds what kill() can hit.
ALONE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
AS_USER = ["--user", "--map-current-user"]


class Failure(Exception):
    """What ends the run, in one sentence."""


def told(command, cwd=None):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise Failure(f"{shlex.join(command[:6])} failed:\n{tail}")
    return done.stdout


def digest(*paths):
    known = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            known.update(file.read())
    return known.hexdigest()[:16]


class Test:
    """One entry of ctest."""

    def __init__(self, entry):
        properties = {p["name"]: p["value"] for p in entry.get("properties", [])}
        self.name = entry["name"]
        self.command = entry.get("command") or []  # none before it is built
        self.folder = properties.get("WORKING_DIRECTORY", ".")
        self.env = dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", []))
        self.seconds = None  # without a mutant

    @property
    def source(self):
        """Without what ctest's entries of the same program are told apart by."""
        return self.name.removesuffix("_ref")

    def limit(self):
        return TEST_S if self.seconds is None else max(LEAST_S, SLOWER * self.seconds)


class Workshop:
    """root: the tree; folder: its build folder; place: where mutants are made."""

    def __init__(self, root, folder, place=None):
        self.root, self.folder = os.path.abspath(root), os.path.abspath(folder)
        self.place = place or os.path.join(self.folder, "mutant")
        self.commands, self.links, self.includes, self.held = {}, {}, {}, None
        able = (c for c in (ALONE, ALONE + AS_USER) if shutil.which("unshare") and
                self._runs(c + ["true"]))
        self.alone = next(able, [])

    @staticmethod
    def _runs(command):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def lock(self):
        """Until this process ends, the build folder is its own."""
        os.makedirs(self.folder, exist_ok=True)
        self.held = open(os.path.join(self.folder, "lock"), "w", encoding="utf-8")
        try:
            fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Failure(f"another run is at work in {self.folder}: let it end") from None

    def configure(self):
        told(["cmake", "--preset", "mutants", "-B", self.folder], cwd=self.root)
        self._read_commands()
        return self._tests()

    def _read_commands(self):
        commands = os.path.join(self.folder, "compile_commands.json")
        if not os.path.exists(commands):
            raise Failure(f"{self.folder} is not built: make build")
        with open(commands, encoding="utf-8") as file:
            for entry in json.load(file):
                path = os.path.relpath(entry["file"], self.root)
                if path.startswith("src/"):
                    self.commands[path] = shlex.split(entry["command"])

    def know(self, programs=()):
        """A folder that is built already, with its libraries for programs; these programs have the
        library inside and are linked anew, too."""
        self._read_commands()
        self._read_links(LIBRARIES[1:])
        for name in programs:
            *_, last = told(["ninja", "-C", self.folder, "-t", "commands", name]).splitlines()
            self.links[name] = last

    def _tests(self):
        listed = json.loads(told(["ctest", "--test-dir", self.folder, "--show-only=json-v1"]))
        tests = [Test(entry) for entry in listed["tests"]]
        return [t for t in tests if t.name.split("/")[0] in FOLDERS]

    def build(self, tests, jobs):
        """The libraries and the programs of these tests, which can be run then."""
        targets = [name for name in LIBRARIES if self._makes(name)]
        programs = sorted({t.source.replace("/", ".") for t in tests})
        told(["ninja", "-C", self.folder, f"-j{jobs}", *targets, *programs])
        commands = {t.name: t.command for t in self._tests()}
        for test in tests:
            test.command = commands[test.name]
        self._read_links(targets)

    def _read_links(self, targets):
        shutil.rmtree(self.place, ignore_errors=True)
        os.makedirs(self.place)
        for name in targets:
            last = told(["ninja", "-C", self.folder, "-t", "commands", name]).splitlines()
            self.links[name] = next(c for c in reversed(last) if " -shared " in c)

    def _makes(self, name):
        return self._runs(["ninja", "-C", self.folder, "-n", name])

    def compile(self, path, text):
        """The object of this text instead of path's, as bytes; None: it does not compile. The same
        code gives the same bytes, since neither has debug information here."""
        source = os.path.join(self.place, os.path.basename(path))
        target = os.path.join(self.place, "mutant.o")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        command = list(self.commands[path])
        command[command.index("-o") + 1] = target
        command[command.index("-c") + 1] = source
        done = subprocess.run(command + ["-w", "-g0"], cwd=self.folder, capture_output=True,
                              check=False)
        if done.returncode != 0:
            return None
        with open(target, "rb") as file:
            return file.read()

    def link(self, path):
        """The libraries with the object compiled last in the place of path's, those that have none
        of it as they are; in a program it comes before the archive, which adds nothing to it."""
        object_name = self.commands[path][self.commands[path].index("-o") + 1]
        mutant = f"{self.place}/mutant.o"
        for name, command in self.links.items():
            soname = re.search(r"-soname,(\S+)", command)
            made = os.path.join(self.place, soname.group(1) if soname else name)
            os.makedirs(os.path.dirname(made), exist_ok=True)
            if os.path.lexists(made):
                os.remove(made)  # or the linker would write through a link
            if soname and f" {object_name} " not in command:
                os.symlink(os.path.join(self.folder, soname.group(1)), made)
                continue
            command = command.replace(f" {object_name} ", f" {mutant} ")
            first = "" if soname else f" {mutant}"
            command = re.sub(r" -o \S+", f" -Wl,--strip-debug{first} -o {made}", command)
            command = command.split(" && ")[1] if command.startswith(": && ") else command
            told(["sh", "-c", command], cwd=self.folder)

    def run(self, test, limit_s, original=False):
        """"passed", "skipped", "failed" or "hung", and the seconds."""
        scratch = os.path.join(self.folder, "scratch")
        shutil.rmtree(scratch, ignore_errors=True)
        os.makedirs(scratch)
        env = {**os.environ, **test.env, "TMPDIR": scratch}
        if not original:
            env["LD_LIBRARY_PATH"] = self.place
        limits = ["prlimit", f"--as={MEMORY_BYTES}", f"--fsize={FILE_BYTES}", "--core=0"]
        begin = time.monotonic()
        child = subprocess.Popen(self.alone + limits + test.command, cwd=test.folder, env=env,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            status = child.wait(limit_s)
            verdict = {0: "passed", 77: "skipped"}.get(status, "failed")
        except subprocess.TimeoutExpired:
            verdict = "hung"
        finally:
            end(child)
        return verdict, time.monotonic() - begin

    def reads(self, path):
        """The files of the tree that path includes, and what they do; tests/support/x.h stands for
        its x.c, too."""
        if path not in self.includes:
            found, left = set(), [path]
            while left:
                name = left.pop()
                if name not in found and os.path.isfile(os.path.join(self.root, name)):
                    found.add(name)
                    left += self._included(name)
            self.includes[path] = found
        return self.includes[path]

    def _included(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            names = re.findall(r'^#include "([^"]+)"', file.read(), re.M)
        if path.startswith("tests/support/") and path.endswith(".h"):
            yield path[:-2] + ".c"
        for name in names:
            yield from (f"{folder}/{name}" for folder in ("tests", "src"))


def end(child):
    """What is left of a test's processes."""
    try:
        os.killpg(child.pid, 9)
    except ProcessLookupError:
        pass
    child.wait()
