# SPDX-License-Identifier: Apache-2.0
"""Every option that takes a path, with what is missing, closed, full, endless, or another thing
than a file or folder: a sentence within a second, nothing written, nothing waited for."""
import os
import subprocess
import tempfile

import flags_sweep
import flags_verbs
import shoal
from flags_sweep import Case, tree_of

TEXTS = ("bytes", "a word of 1 MB", "JSON of 1 MB")  # to who takes any


def read_cases(verb, option, words, at):
    """Where a file or folder is read, what is none. `words` takes the path for None."""
    other = at("file" if option is not None and option.arg == "DIR" else "folder")
    for what, path in (("missing", at("missing")), ("of the other kind", other),
                       ("a pipe", at("pipe")), ("links in a circle", at("circle")),
                       ("nothing in it", at("empty")), ("no end", b"/dev/zero"),
                       ("bytes", at("bytes")), ("a word of 1 MB", at("word")),
                       ("JSON of 1 MB", at("long.json")), ("below a file", at("file") + b"/x"),
                       ("long", b"/" + b"x" * 300)):  # fmt: skip
        codes = (77,) if option is not None and option.arg == "PATH" else (1, 2)
        yield Case(verb, option, flags_verbs.put(words, path), what, codes=codes,
                   refused=verb != ("data", "text") or what not in TEXTS,
                   names=[[path, f"--{option.name}" if option else path]])  # fmt: skip


def written_cases(verb, option, words, at):
    """Where something is written, places where it cannot be."""
    other = at("folder") if option.arg != "DIR" else at("file")
    for what, path in (("of the other kind", other), ("a pipe that nobody reads", at("other-pipe")),
                       ("below a file", at("file") + b"/x"),
                       ("full", b"/dev/full"), ("long", b"x" * 300)):  # fmt: skip
        case = Case(verb, option, flags_verbs.put(words, path), what, codes=(1, 2),
                    names=[[path, f"--{option.name}"]])  # fmt: skip
        case.late = what == "full" and (verb[0], option.name) == ("train", "trace")
        yield case


def path_cases(verbs, top):
    def at(name):
        return os.fsencode(os.path.join(top, "paths", name))

    for verb, options in verbs.items():
        if verb in flags_verbs.BARE:
            yield from read_cases(verb, None, flags_verbs.BARE[verb], at)
        for option in (o for o in options if o.kind == "path"):
            cases = written_cases if option.name in flags_verbs.WRITTEN else read_cases
            yield from cases(verb, option, words_for(verb, option), at)


def words_for(verb, option):
    """A base, and the option without its value."""
    add, drop = flags_verbs.BESIDE.get((verb[0], option.name), ([], option.name))
    words = flags_verbs.without(flags_verbs.BASES[verb][0], option.name)
    return [f"--{option.name}=".encode(), *add, *flags_verbs.without(words, drop)]


def one_per_path(verbs, path_of, codes=(1, 2), written=None):
    """A case for each option that takes a path, with what path_of says for it."""
    for verb, options in verbs.items():
        for option in (o for o in options if o.kind == "path"):
            path = os.fsencode(path_of(option))
            if written is None or (option.name in flags_verbs.WRITTEN) == written:
                words = flags_verbs.put(words_for(verb, option), path)
                yield Case(verb, option, words, path_of.__name__,
                           codes=(77,) if option.arg == "PATH" else codes,
                           names=[[path, f"--{option.name}"]])  # fmt: skip


def make_paths(folder):
    os.makedirs(os.path.join(folder, "folder"))
    for name in ("pipe", "other-pipe"):
        os.mkfifo(os.path.join(folder, name))
    os.symlink("circle", os.path.join(folder, "circle"))
    word = b"x" * (1 << 20)
    for name, content in (("file", b"text\n"), ("empty", b""), ("bytes", bytes(range(256)) * 64),
                          ("word", word), ("long.json", b'{"' + word + b'": "' + word + b'"}')):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)


class Paths(flags_sweep.Sweep):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # shoal trace writes nothing without a job that runs: trace_live_test.py has it
        cls.alone = {v: options for v, options in cls.verbs.items() if v != ("trace",)}
        make_paths(os.path.join(cls.top, "paths"))

    def test_paths_that_are_none(self):
        cases = list(path_cases(self.alone, self.top))
        print(f"{len(cases)} cases", flush=True)
        before = tree_of(os.path.join(self.top, "paths"))
        self.sweep(cases)
        self.assertEqual(before, tree_of(os.path.join(self.top, "paths")))

    def test_what_this_user_may_not_touch(self):
        locked, secret = (os.path.join(self.top, n) for n in ("locked", "secret"))
        kwargs = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        for words in ([os.path.abspath(shoal.SHOAL), "--version"], ["cat", flags_verbs.LAB_4]):
            try:
                subprocess.run(words, capture_output=True, check=True, **kwargs)
            except (OSError, subprocess.CalledProcessError) as error:
                self.skipTest(f"another user cannot use this clone, below a closed folder: {error}")
        os.mkdir(locked)
        with open(secret, "wb"):
            pass
        os.chmod(locked, 0o500 if not kwargs else 0o700)
        os.chmod(secret, 0)

        def unreadable(option):
            return locked if option.arg == "DIR" else secret

        def below_a_closed_folder(_option):
            return locked + "/made"

        if not kwargs:
            os.chmod(locked, 0)
        self.sweep(one_per_path(self.verbs, unreadable, written=False), **kwargs)
        self.sweep(one_per_path(self.alone, below_a_closed_folder, written=True), **kwargs)
        os.chmod(locked, 0o700)

    def test_a_full_file_system(self):
        probe = subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False)
        if probe.returncode != 0:
            self.skipTest("no mount namespaces here")
        mount = os.path.join(self.top, "full")
        os.mkdir(mount)
        fill = 'mount -t tmpfs -o size=4k none "$0" && head -c 4096 /dev/zero >"$0/x" && exec "$@"'

        def full(_option):
            return mount + "/made"

        cases = list(one_per_path(self.alone, full, codes=(1,), written=True))
        beside = [("sim",), "tensorboard"]  # of a run folder that is there, and whole, by then
        cases = [case for case in cases if [case.verb, case.option.name] != beside]
        for case in cases:
            case.late = True  # what was done before may have been told
        self.sweep(cases, before_words=["unshare", "-rm", "sh", "-c", fill, mount])

    def test_links_to_another_file_system(self):
        """What a user names may be a link, wherever that leads."""
        if not os.access("/dev/shm", os.W_OK):
            self.skipTest("no second file system to write to")
        with tempfile.TemporaryDirectory(prefix="shoal-flags-", dir="/dev/shm") as other:
            for number, (verb, options) in enumerate(self.alone.items()):
                for option in options:
                    if option.kind != "path" or option.name not in flags_verbs.WRITTEN:
                        continue
                    link = os.path.join(self.top, f"link-{number}-{option.name}")
                    os.symlink(os.path.join(other, os.path.basename(link)), link)
                    if option.arg == "DIR":
                        os.mkdir(os.path.realpath(link))
                    words = flags_verbs.put(words_for(verb, option), os.fsencode(link))
                    done = shoal.run(*verb, *map(os.fsdecode, words), cwd=self.top)
                    self.assertEqual(0, done.returncode, (verb, option, done.stderr))
                    with self.subTest(verb=verb, option=option):
                        self.assertTrue(os.listdir(link) if option.arg == "DIR" else
                                        os.path.getsize(link))  # fmt: skip


if __name__ == "__main__":
    shoal.main()
