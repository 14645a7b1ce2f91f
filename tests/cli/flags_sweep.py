# SPDX-License-Identifier: Apache-2.0
"""Sweeps over the options of all verbs: what --help lists, a case, and what its answer must be."""
import concurrent.futures
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import flags_verbs
import shoal

ALL = os.environ.get("SHOAL_FLAGS_ALL") == "1"
SEED = int(os.environ.get("SHOAL_TEST_SEED", "0")) or random.randrange(1, 1 << 31)
PART = 600  # cases of a run that does not try all
LEAST = 100
SECONDS = 1.0  # longer with sanitizers in it
BUDGET_S = 60  # after which a busy machine leaves the rest to other runs; a quiet one needs 20
TRIES = 5  # until an answer is called late: others use this machine, too
TEXT_MOST = 2000  # of an answer, whatever was typed


class Option:
    """A line of --help."""

    def __init__(self, name, arg, text, optional=False):
        self.name, self.arg, self.text = name, arg, text
        self.optional = optional  # its value may be left out
        self.repeats = "repeat" in text
        self.kind = flags_verbs.kind_of(self)

    def __repr__(self):
        return f"--{self.name}={self.arg}"


def options_of(words):
    """All that `shoal WORDS --help` names."""
    said = shoal.run(*words, "--help", env={"ARGP_HELP_FMT": "rmargin=100000"}).stdout
    found = []
    for line in said.splitlines():
        m = re.match(r" +(?:-., +)?--([a-z0-9-]+)(\[)?(?:=(\S+(?: \S+)*?)\]?)?(?:  +(.*))?$",
                     line)  # fmt: skip
        if m and m[1] not in ("help", "usage"):
            found.append([m[1], m[3], m[4] or "", m[2] is not None])
        elif found and line.startswith(" " * 16):  # behind a long placeholder
            found[-1][2] += line
    return [Option(*f) for f in found]


class Case:
    """Words behind a verb, and what the answer must be."""

    def __init__(self, verb, option, words, what, refused=True, codes=(2,), names=()):
        self.verb, self.option, self.words, self.what = verb, option, words, what
        self.refused, self.codes, self.names, self.late = refused, codes, names, False

    def __str__(self):
        words = [w if len(w) < 80 else w[:20] + b"..." for w in map(os.fsencode, self.words)]
        return f"{' '.join(self.verb)} {self.what}: {b' '.join(words)!r}"


def shown(value):
    """As an answer shows it."""
    return re.sub(r"[^\x20-\x7e]+", "?", os.fsdecode(value))[:20]


def tree_of(folder):
    return {
        p: (s.st_size, s.st_mtime_ns, s.st_mode)
        for p in sorted(pathlib.Path(folder).rglob("*"))
        for s in [p.lstat()]
        if not p.is_dir()
    } | {p: None for p in pathlib.Path(folder).rglob("*") if p.is_dir()}


def says(stderr, name):
    if isinstance(name, (list, tuple)):
        return any(says(stderr, n) for n in name)
    if os.fsencode(name).startswith(b"--"):  # "unknown codec 'no'" says which option, too
        name = os.fsencode(name)[2:].rstrip(b"s")
    said = re.sub("[^\x20-\x7e]+", "?", stderr).replace("optimiser", "optimizer")
    return shown(name) in said


def ask(case, folder, patience, before_words=(), **kwargs):
    """What is wrong with the answer; None: nothing. What is taken, and is still at work after
    `patience` seconds, is ended."""
    before, start, ended = tree_of(folder), time.monotonic(), False
    argv = [*before_words, os.path.abspath(shoal.SHOAL), *case.verb, *case.words]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, cwd=folder, process_group=0,
                          **kwargs) as process:  # fmt: skip
        try:
            out, err = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 15)
            try:
                out, err = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.communicate()
                return "does not end, not even when asked to"
            if case.refused:
                return f"took longer than {patience} s; said {err[:300]!r}"
            ended = True
    took, code, after = time.monotonic() - start, process.returncode, tree_of(folder)
    if ended and code in (-15, 128 + 15):  # our own signal, and no fault
        code = 0
    return judge(case, code, out, err, took, before == after)


def in_time():
    """Seconds that an answer may take: one, of a machine that has a core for each that wants it."""
    return SECONDS * max(1, os.getloadavg()[0] / os.cpu_count())


def judge(case, code, out, err, took, untouched):
    text = err.decode("utf-8", "replace")
    if re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", err + out) or "\ufffd" in text:
        return f"raw bytes: {(err + out)[:300]!r}"
    if len(err) > TEXT_MOST:
        return f"{len(err)} bytes are no sentence: {text[:200]}"
    if code < 0 or code > 77:
        return f"code {code}: {text}"
    if not case.refused:
        return None
    if case.refused and code == 0:
        return "was taken"
    if case.refused and code not in case.codes:
        return f"code {code}: {text}"
    if not text.startswith("shoal"):
        return f"no sentence: {text}"
    if out and not case.late:
        return f"printed {out[:200]!r}"
    if not untouched:
        return f"wrote something; said {text}"
    if not all(says(text, n) for n in case.names):
        return f"does not name it: {text}"
    return f"took {took:.2f} s" if took > in_time() and not case.late else None


class Sweep(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-flags-"))
        global SECONDS, PART
        if shoal.is_sanitized():
            SECONDS, PART = 10.0, 150
        flags_verbs.prepare(cls.top)
        os.chmod(cls.top, 0o755)
        cls.verbs = {v: options_of(v) for v in flags_verbs.verbs()}
        print(f"seed {SEED}: SHOAL_TEST_SEED={SEED} repeats this", flush=True)

    def sweep(self, cases, **kwargs):
        """Two at a time, each in a folder of its own that is empty before. In any order, so that
        what a busy machine leaves out is another part each time."""
        wrong, asked, cases, end = [], [], list(cases), time.monotonic() + BUDGET_S
        random.Random(SEED).shuffle(cases)

        def one(numbered):
            number, case = numbered
            if time.monotonic() > end and len(asked) > LEAST and not ALL:
                return
            asked.append(case)
            folder = os.path.join(self.top, f"case-{number}")
            for attempt in range(TRIES):
                patience = in_time() * 2**attempt if case.refused else SECONDS
                said = once(case, folder, 3 * patience)
                if said is None or not said.startswith("took"):
                    break
            if said is not None:
                wrong.append(f"{case}\n    {said}")

        def once(case, folder, patience):
            os.mkdir(folder)
            os.chmod(folder, 0o777)
            try:
                return ask(case, folder, patience, **kwargs)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(one, enumerate(cases)))
        if len(asked) < len(cases):
            print(f"{len(asked)} of {len(cases)} cases: the machine is busy", flush=True)
        listed = "\n".join(sorted(wrong))
        self.assertFalse(wrong, f"{len(wrong)} of {len(cases)}:\n{listed}")
