# SPDX-License-Identifier: Apache-2.0
"""What is asked before an array is made: which values go together, of the command itself; the
answers are kept beside it."""
import concurrent.futures
import glob
import hashlib
import json
import os
import subprocess
import tempfile

import covering


class Asked:
    """A kind of job: its factors, and what the command says to two of their values. Each kind has
    bases(); ask(row), (code, text), the code None where the suite cannot mean it; job(name, row),
    with a folder of its own, command() and end_all(); look(job), which raises what is wrong."""

    def __init__(self, shoal):
        self.shoal = os.path.abspath(shoal)
        self.folder = tempfile.mkdtemp(prefix="shoal-combos-")
        os.chmod(self.folder, 0o700)
        self.factors, self.answers, self.alone = {}, {}, []

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def make(self, kind, *options, into=None):
        out = os.path.join(self.folder, into or kind)
        subprocess.run([self.shoal, "data", kind, "--out", out, *map(str, options)], check=True,
                       capture_output=True, timeout=60)

    def words(self, row):
        """The model, workers and launcher always; others where they are not the default."""
        return [self.factors[name][value] for name, value in sorted(row.items())]

    def accepts(self, row):
        return self.ask(row)[0] == 0

    def memory(self):
        """The file of answers of this command and these options."""
        digest = hashlib.sha256(json.dumps(self.factors).encode())
        here = os.path.dirname(self.shoal)
        for path in sorted(glob.glob(os.path.join(here, "libshoal.so*"))) + [self.shoal]:
            with open(path, "rb") as file:
                digest.update(file.read())
        return os.path.join(here, f"combos-{digest.hexdigest()[:16]}.json")

    def remembered(self):
        """The answers that an earlier call has kept."""
        try:
            with open(self.memory(), encoding="utf-8") as file:
                return {tuple(map(tuple, key)): tuple(to) for key, to in json.load(file)}
        except (OSError, ValueError):
            return {}

    def remember(self):
        path = self.memory()
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            json.dump(list(self.answers.items()), file)
        os.replace(f"{path}.part", path)

    def ask_all(self, jobs, names):
        """All pairs of these factors beforehand, side by side."""
        bases = self.bases()
        names = sorted(names or self.factors)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            alone = self.first_of(pool, covering.tuples_of(self.factors, names, 1), bases)
            self.alone = [(name_of(self, part), self.ask(covering.complete(part, bases)[0])[1])
                          for part in alone]
            gone = {item for part in alone for item in part}
            for name in names:  # a value that nothing takes has no pairs
                self.factors[name] = [words for value, words in enumerate(self.factors[name])
                                      if (name, value) not in gone]
            self.answers = self.remembered()
            bases = self.bases()
            self.first_of(pool, covering.tuples_of(self.factors, names, 2), bases)

    def first_of(self, pool, parts, bases):
        """Ask for one base after the other; the parts that go with none."""
        left = list(parts)
        for base in bases:
            rows = [covering.complete(part, [base])[0] for part in left]
            left = [part for part, yes in zip(left, pool.map(self.accepts, rows)) if not yes]
        return left


def name_of(suite, part):
    return " with ".join(suite.factors[name][value] or f"(no --{name})" for name, value in part)


def unnamed(suite, part, text):
    """What of a refused tuple its sentence does not name."""
    missing = []
    for name, value in part:
        words = suite.factors[name][value].replace("@", "--").split()
        named = [w.split("=")[0].split(":")[0] for w in words]
        if words and not any(w.lstrip("-") in text for w in (*named, name)):
            missing.append(" ".join(words))
    return missing


def refusals(suite, refused):
    """Of tuples that nothing makes go: each is refused as usage, in a sentence that names both.
    Each base has its answer: what one of them lacks is no word on the tuple."""
    faults, senseless = [], 0
    for part in refused:
        answers = [suite.ask(row)
                   for row in covering.complete(part, suite.bases())]
        if answers[0][0] is None:
            senseless += 1
            continue
        code, text = min(answers, key=lambda answer: len(unnamed(suite, part, answer[1])))
        if code != 2:
            faults.append(f"{name_of(suite, part)}: exit code {code}\n{text}")
        for words in unnamed(suite, part, text):
            faults.append(f"{name_of(suite, part)}: does not name {words}\n{text}")
    return faults, senseless
