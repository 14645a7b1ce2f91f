# SPDX-License-Identifier: Apache-2.0
"""Bad input: every option of every verb, as --help lists them, with values that nobody can mean,
given twice, misspelt, and, where it is a path, with what is no such file. The answer is a sentence
within a second that names the option or the value, and nothing is written.

A new verb or option is swept by being registered. SHOAL_FLAGS_ALL=1 tries all (minutes); else each
run draws a part, by SHOAL_TEST_SEED."""
import concurrent.futures
import errno
import json
import os
import random
import subprocess
import tempfile

import flags_sweep
import flags_verbs
import shoal
from flags_sweep import Case

WORD = 32 * os.sysconf("SC_PAGE_SIZE") - 1  # bytes: Linux refuses a longer one, so 1 MB of them
NUMBERS = [b"abc", b"3x", b"-1", b"nan", b"inf", b"1e300", b"18446744073709551616", b" 3", b"0x",
           b"3\x1b[31m", b"3\xff", b"--json"]  # fmt: skip
TEXTS = [b"no:such=thing", b"\x1b]0;owned\x07", b"\xff\xfe\x9b31m", b",", b":", b"=", b"%s%n"]
TAKING_WORDS = {("run",), ("runs",), ("report",), ("data", "text")}  # as many as you like


def misspelt(name, known, draw):
    """One letter of it is another one."""
    while True:
        at = draw.randrange(len(name))
        other = draw.choice("qzxkv") if name[at] not in "qzxkv" else "b"
        word = name[:at] + other + name[at + 1 :]
        if not any(n.startswith(word) for n in known):
            return word


def surplus(verb):
    """A word that nobody asked for, named in the answer; `run` would start it, others read it."""
    if verb not in TAKING_WORDS:
        yield Case(verb, None, [*flags_verbs.BASES[verb][0], b"surplus-word"], "a word too many",
                   names=["surplus-word"])  # fmt: skip


def cases_of(verb, options, draw):
    yield from surplus(verb)
    known = [o.name for o in options]
    for option in options:
        base = flags_verbs.without(flags_verbs.BASES[verb][0], option.name)
        flag = f"--{option.name}".encode()
        yield Case(verb, option, [b"--" + misspelt(option.name, known, draw).encode(), *base],
                   "misspelt", names=["did you mean", f"--{option.name}"])  # fmt: skip
        if option.arg is None:
            yield Case(verb, option, [flag + b"=1", *base], "a value for a switch", names=[flag])
            yield Case(verb, option, [flag, flag, *base], "a switch twice", refused=False)
            continue
        yield Case(verb, option, [flag + b"=", *base], "empty", names=[flag])
        longest = (flag + b"=").ljust(WORD, b"x")
        yield Case(verb, option, [longest, *base], "as long as can be", names=[flag])
        if not option.optional:
            yield Case(verb, option, [flag], "without a value", names=[flag])
        twice = [flag + b"=1", flag + b"=2", *base]
        if option.repeats:
            yield Case(verb, option, twice, "twice", refused=False)
        else:
            yield Case(verb, option, twice, "twice", names=[flag, "twice"])
        for value in flags_verbs.values_of(verb, option, NUMBERS, TEXTS):
            codes = (1, 2) if option.name == "hosts" else (2,)  # a host that is not there is 1
            yield Case(verb, option, [flag + b"=" + value, *base], "value", codes=codes,
                       names=[[flag, value]])  # fmt: skip
        for value in flags_verbs.perhaps_of(verb, option, TEXTS):
            yield Case(verb, option, [flag + b"=" + value, *base], "perhaps", refused=False)


class Flags(flags_sweep.Sweep):
    def test_every_verb_has_options_and_a_base(self):
        for verb in self.verbs:
            self.assertIn(verb, flags_verbs.BASES, "say how it is run in a moment")
        self.assertGreater(sum(map(len, self.verbs.values())), 200)

    def test_no_longer_word_comes_in(self):
        """What is longer is in a file: long_values_test.py."""
        for length, comes in ((WORD, True), (WORD + 1, False), (1 << 20, WORD >= 1 << 20)):
            try:
                said = shoal.run("--job=".ljust(length, "x")).stderr
            except OSError as error:
                self.assertEqual((errno.E2BIG, False), (error.errno, comes))
            else:
                self.assertTrue(comes and said, length)

    def test_bases_work(self):
        """Else a refusal below would say nothing."""
        def one(verb):
            words, end = flags_verbs.BASES[verb]
            case = Case(verb, None, words, "base", refused=False)
            folder = tempfile.mkdtemp(dir=self.top)
            argv = [os.path.abspath(shoal.SHOAL), *case.verb, *case.words]
            try:
                done = subprocess.run(argv, cwd=folder, capture_output=True, check=False,
                                      timeout=1 if end is flags_verbs.ENDLESS else 60)  # fmt: skip
                finds = verb == ("doctor",) and done.returncode == 1
                return (verb, finds or done.returncode == end, done.stderr)
            except subprocess.TimeoutExpired:
                return (verb, end is flags_verbs.ENDLESS, b"does not end")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for verb, good, said in pool.map(one, self.verbs):
                self.assertTrue(good, (verb, said))

    def ends(self):
        """(verb, base) of those that come to an end."""
        for verb in self.verbs:
            words, end = flags_verbs.BASES[verb]
            if end is not flags_verbs.ENDLESS:
                yield verb, words

    def test_answers_that_do_not_get_out(self):
        """To a full device, of every verb that has something to say."""
        told = 0
        for verb, words in self.ends():
            with tempfile.TemporaryDirectory(dir=self.top) as folder, self.subTest(verb=verb):
                said = shoal.run(*verb, *map(os.fsdecode, words), cwd=folder).stdout
            if said == "":
                continue
            with tempfile.TemporaryDirectory(dir=self.top) as folder, self.subTest(verb=verb):
                with open("/dev/full", "wb") as full:
                    done = subprocess.run([os.path.abspath(shoal.SHOAL), *verb, *words],
                                          cwd=folder, stdout=full, stderr=subprocess.PIPE,
                                          check=False, timeout=60)  # fmt: skip
                self.assertEqual(1, done.returncode, done.stderr)
                self.assertIn(b"No space left on device", done.stderr)
                told += 1
        self.assertGreater(told, 12)

    def test_json_of_every_verb_parses(self):
        for verb, words in self.ends():
            if not any(o.name == "json" for o in self.verbs[verb]):
                continue
            with tempfile.TemporaryDirectory(dir=self.top) as folder, self.subTest(verb=verb):
                said = shoal.run(*verb, "--json", *map(os.fsdecode, words), cwd=folder).stdout
                try:
                    json.loads(said or "null")
                except ValueError:
                    for line in said.splitlines():
                        json.loads(line)

    def test_values_nobody_can_mean(self):
        draw = random.Random(flags_sweep.SEED)
        cases = [c for verb, options in self.verbs.items() for c in cases_of(verb, options, draw)]
        print(f"{len(cases)} cases", flush=True)
        if not flags_sweep.ALL and len(cases) > flags_sweep.PART:
            cases = draw.sample(cases, flags_sweep.PART)
        self.sweep(cases)

    def test_little_memory_is_a_sentence(self):
        """OpenBLAS's threads wait for ever for memory that a limit keeps from them."""
        if shoal.is_sanitized():
            self.skipTest("sanitizers need more than any limit")
        cases = [Case(v, None, [], "little memory", codes=(1,), names=["ulimit -v"])
                 for v in (("model",), ("predict",))]  # fmt: skip
        env = dict(os.environ, OPENBLAS_NUM_THREADS="2")
        for mib in (100, 200):
            limit = ["prlimit", f"--as={mib << 20}"]
            try:  # the first thing that main() does is to look at the limit
                subprocess.run([*limit, os.path.abspath(shoal.SHOAL), "--version"], env=env,
                               capture_output=True, timeout=3, check=False)
            except subprocess.TimeoutExpired:
                self.skipTest("this OpenBLAS (Debian 13's) waits for memory before main() begins")
            self.sweep(cases, before_words=limit, env=env)


if __name__ == "__main__":
    shoal.main()
