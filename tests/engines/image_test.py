# SPDX-License-Identifier: Apache-2.0
"""examples/Containerfile: an image of a bare Debian and the packages of `make packages`, built by
buildah, in which a user without root trains as the pods of --print-k8s ask for it. No registry is
asked: the Debian beneath is made here."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import cluster

PACKAGES = os.path.join(cluster.ROOT, "build", "packages")
RELEASE = "bookworm"


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="shoal-image-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        base = os.path.join(cls.folder, "base.tar")
        cls.say("mmdebstrap", "--variant=minbase", "--quiet", RELEASE, base)
        scratch = cls.buildah("from", "scratch").strip()
        cls.buildah("add", "--quiet", scratch, base, "/")
        cls.buildah("commit", "--quiet", scratch, "localhost/base")
        file = os.path.join(cluster.ROOT, "examples", "Containerfile")
        build = ["build", "--quiet", "--isolation", "chroot", "--build-arg", "BASE=localhost/base"]
        cls.buildah(*build, "-f", file, "-t", "localhost/shoal", PACKAGES)
        cls.container = cls.buildah("from", "localhost/shoal").strip()

    @classmethod
    def say(cls, *words):
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr[-2000:]}"
        return done.stdout

    @classmethod
    def buildah(cls, *words):
        store = ["--storage-driver", "vfs", "--root", os.path.join(cls.folder, "store")]
        store += ["--runroot", os.path.join(cls.folder, "run")]
        return cls.say("buildah", *store, *words)

    def within(self, *words):
        return self.buildah("run", "--isolation", "chroot", self.container, "--", *words)

    def test_the_command_and_python(self):
        self.assertRegex(self.within("shoal", "--version"), "^shoal 0.1")
        self.assertEqual("65532", self.within("id", "-u").strip())
        told = self.within("python3", "-c", "import shoal; print(shoal.codecs()[0])")
        self.assertTrue(told.strip(), told)

    def test_a_training(self):
        """Its data are put in from outside: digits want fonts, which no pod needs."""
        data = os.path.join(self.folder, "digits")
        make = ["data", "digits", "--out", data, "--train", "100", "--test", "50", "--quiet"]
        self.say(cluster.SHOAL, *make)
        owner = ["--chown", "65532:65532"]
        self.buildah("copy", "--quiet", *owner, self.container, data, "/tmp/digits")
        told = self.within("shoal", "train", "--model", "mlp-small", "--data", "/tmp/digits",
                           "--workers", "2", "--steps", "2", "--json", "--quiet")
        self.assertIn('"workers": 2', told)


if __name__ == "__main__":
    cluster.need("buildah", "mmdebstrap")
    if not glob.glob(os.path.join(PACKAGES, "shoal_*.deb")):
        print("skipped: no packages (make packages)")
        sys.exit(cluster.SKIP)
    cluster.main()
