# SPDX-License-Identifier: Apache-2.0
"""tools/deps.sh: what it asks apt for, told by stand-ins for Debian's commands."""
import os
import stat
import subprocess
import tempfile
import unittest

DEPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "deps.sh")
COMMANDS = {
    "dpkg-query": 'sed "s/^/ii  /" "$FAKE/installed"',
    "apt-cache": 'grep -qxF "$2" "$FAKE/known" && echo "Candidate: 1" || echo "Candidate: (none)"',
    "apt-get": """
echo "$*" >>"$FAKE/asked"
case $1 in
update) cp "$FAKE/mirror" "$FAKE/known" ;;
install) grep -qxF broken "$FAKE/known" && exit 1 ;;
esac
exit 0""",
    "sudo": '[ "$1" = -n ] || exec "$@"',
}


class Deps(unittest.TestCase):
    def deps(self, packages, installed=(), known=(), mirror=None):
        """Run it; (result, the names that apt-get installed, whether the lists were fetched)."""
        with tempfile.TemporaryDirectory(prefix="shoal-test-") as folder:

            def write(name, lines):
                with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                    file.write("".join(line + "\n" for line in lines))

            for name, text in COMMANDS.items():
                write(name, ["#!/bin/sh", text])
                os.chmod(os.path.join(folder, name), stat.S_IRWXU)
            write("installed", installed)
            write("known", known)
            write("mirror", known if mirror is None else mirror)
            write("asked", [])
            write("list.txt", ["# what is needed", *packages])
            env = dict(os.environ, FAKE=folder, PATH=folder + ":" + os.environ["PATH"])
            result = subprocess.run(
                ["bash", DEPS, os.path.join(folder, "list.txt")],
                capture_output=True, text=True, env=env, timeout=30, check=False,
            )
            with open(os.path.join(folder, "asked"), encoding="ascii") as file:
                asked = [line.split() for line in file]
        installs = [[word for word in line if word.startswith("lib")] for line in asked
                    if line[0] == "install"]
        return result, installs, ["update", "-q"] in asked

    def test_what_is_there_is_not_asked_for(self):
        result, installs, fetched = self.deps(["liba # why", "libb"], installed=["liba", "libb"])
        self.assertEqual((result.returncode, installs, fetched), (0, [], False))

    def test_missing_ones_are_installed_at_once(self):
        result, installs, fetched = self.deps(
            ["liba", "libb", "libc"], installed=["libb"], known=["liba", "libb", "libc"]
        )
        self.assertEqual((result.returncode, installs, fetched), (0, [["liba", "libc"]], False))

    def test_of_alternatives_the_first_that_there_is(self):
        lines = ["libold | libnew"]
        for known, wanted in ((["libnew"], "libnew"), (["libold", "libnew"], "libold")):
            result, installs, _ = self.deps(lines, known=known)
            self.assertEqual((result.returncode, installs), (0, [[wanted]]), result.stderr)

    def test_an_installed_alternative_is_enough(self):
        result, installs, _ = self.deps(
            ["libold | libnew"], installed=["libnew"], known=["libold", "libnew"]
        )
        self.assertEqual((result.returncode, installs), (0, []))

    def test_without_package_lists_they_are_fetched(self):
        lines, mirror = ["libold | libnew", "liba"], ["liba", "libnew"]
        result, installs, fetched = self.deps(lines, mirror=mirror)
        self.assertEqual((result.returncode, installs), (0, [["libnew", "liba"]]), result.stderr)
        self.assertTrue(fetched)

    def test_what_no_list_has_is_named(self):
        result, installs, _ = self.deps(["liba", "libold | libnew", "libgone"], known=["liba"])
        self.assertEqual((result.returncode, installs), (1, []))
        self.assertIn("do not have libold or libnew, libgone\n", result.stderr)

    def test_an_install_that_fails_is_said(self):
        result, installs, _ = self.deps(["liba"], known=["liba", "broken"])
        self.assertEqual((result.returncode, len(installs)), (1, 2))
        self.assertIn("could not install: liba", result.stderr)


if __name__ == "__main__":
    unittest.main()
