# SPDX-License-Identifier: Apache-2.0
"""Where shoal data puts a data set: in a folder that it makes or that is empty, never over what
somebody has there."""
import fcntl
import os
import subprocess
import tempfile
import unittest

import shoal

FEW = ("--train", 20, "--test", 10)


def everything_in(folder):
    """{name: (bytes, time of the last change)}."""
    found = {}
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with open(path, "rb") as f:
            found[name] = f.read(), os.stat(path).st_mtime_ns
    return found


class DataFolder(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="shoal-folder-"))
        self.own = self.write("notes.txt", "mine\n", inside="own")
        table = self.write("table.csv", "".join(f"{n % 2},1,2,3,{n}\n" for n in range(20)))
        pairs = self.write("pairs", "".join(f"{n % 2} {n + 1}:0.5\n" for n in range(40)))
        text = self.write("story", "said again, and said once more; " * 200)
        self.kinds = {
            "digits": FEW, "colours": FEW, "clicks": FEW,
            "text": ("--tokens", "bytes", "--length", 16, text),
            "svmlight": ("--from", pairs), "images": ("--from", table),
            "speech": ("--train", 0.02, "--test", 0.02),
        }  # fmt: skip

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content, inside="."):
        os.makedirs(self.path(inside), exist_ok=True)
        path = os.path.join(self.folder, inside, name)
        with open(path, "w", encoding="ascii") as f:
            f.write(content)
        return path

    def make(self, kind, out):
        return shoal.run("data", kind, "--out", out, *self.kinds[kind])

    def refused(self, kind, out, name, code=2):
        """In a sentence that names the folder and what is in it, and nothing changes there."""
        before = everything_in(out)
        r = self.make(kind, out)
        self.assertEqual((r.returncode, r.stdout), (code, ""), r.stderr)
        self.assertIn(f"{out} holds {name} already: take another --out", r.stderr)
        self.assertEqual(everything_in(out), before)

    def test_a_data_set_is_not_written_over(self):
        for kind in self.kinds:
            with self.subTest(kind):
                out = self.path(kind)
                os.mkdir(out)  # an empty one is as good as none
                r = self.make(kind, out)
                if r.returncode == shoal.SKIP:
                    self.skipTest(r.stderr)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.refused(kind, out, min(os.listdir(out)))

    def test_what_somebody_has_there_stays_alone(self):
        for kind in self.kinds:
            with self.subTest(kind):
                if kind == "speech" and not os.path.exists(
                        os.path.join(os.path.dirname(shoal.SHOAL), "shoal-speak")):
                    self.skipTest("no shoal-speak")
                self.refused(kind, os.path.dirname(self.own), "notes.txt")

    def test_through_a_link(self):
        link = self.path("link")
        os.symlink(os.path.dirname(self.own), link)
        self.refused("clicks", link, "notes.txt")

    def test_what_was_killed_can_be_made_anew(self):
        left = self.write("train.clicks.77.part", "half", inside="killed")
        r = self.make("clicks", os.path.dirname(left))
        self.assertEqual(r.returncode, 0, r.stderr)
        self.refused("clicks", os.path.dirname(left), "test.clicks")

    def test_two_at_once(self):
        """The second is refused for as long as the first one lives, whatever is there by then."""
        out = self.path("shared")
        argv = [shoal.SHOAL, "data", "colours", "--out", out, "--train", "9000000", "--quiet"]
        with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as first:
            try:
                shoal.wait_until(lambda: first.poll() is not None or self.is_locked(out))
                for kind in ("colours", "clicks"):
                    r = self.make(kind, out)
                    self.assertEqual((r.returncode, r.stdout), (2, ""), r.stderr)
                    self.assertIn(f"{out} is being filled by another `shoal data`", r.stderr)
            finally:
                first.kill()
        r = self.make("clicks", out)
        self.assertEqual(r.returncode, 0, r.stderr)

    @staticmethod
    def is_locked(folder):
        try:
            fd = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def test_what_fails_leaves_no_folder(self):
        out = self.path("none")
        r = shoal.run("data", "svmlight", "--out", out, "--from", self.own)
        self.assertNotEqual(r.returncode, 0)
        self.assertFalse(os.path.exists(out))

    def test_a_folder_that_cannot_be_looked_into(self):
        if os.geteuid() == 0:
            self.skipTest("root looks into every folder")
        shut = self.path("shut")
        os.mkdir(shut, 0o300)
        r = self.make("clicks", shut)
        self.assertEqual(r.returncode, 1, r.stderr)
        self.assertIn(f"cannot look into {shut}", r.stderr)
        os.chmod(shut, 0o700)
        self.assertEqual(os.listdir(shut), [])


if __name__ == "__main__":
    shoal.main()
