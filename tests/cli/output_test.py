# SPDX-License-Identifier: Apache-2.0
"""A result that did not get out is no success; a misspelt verb is told its neighbour."""
import subprocess
import unittest

import shoal

CLUSTER = "examples/clusters/lab-4.json"


def to_full_device(*words):
    with open("/dev/full", "w", encoding="ascii") as full:
        return subprocess.run(
            [shoal.SHOAL, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
            check=False,
        )


class Output(unittest.TestCase):
    def test_a_full_device_is_a_failure(self):
        for words in (
            ("predict", "--model", "lenet", "--cluster", f"{shoal.ROOT}/{CLUSTER}"),
            ("predict", "--model", "lenet", "--cluster", f"{shoal.ROOT}/{CLUSTER}", "--json"),
            ("model", "show", "lenet"),
            ("sim", "--workers", "4", "--iterations", "5"),
            ("sim", "--workers", "4", "--iterations", "5", "--json"),
            ("partition", "--model", "sfc", "--workers", "4"),
        ):
            with self.subTest(words=words):
                done = to_full_device(*words)
                self.assertEqual(1, done.returncode, done.stderr)
                self.assertIn("could not be written: No space left on device", done.stderr)

    def test_a_misspelt_verb_is_told_its_neighbour(self):
        for typed, meant in (("trian", "train"), ("predcit", "predict"), ("dat", "data")):
            done = shoal.run(typed)
            self.assertEqual(2, done.returncode)
            self.assertIn(f"did you mean `shoal {meant}`?", done.stderr)
        done = shoal.run("frobnicate")
        self.assertEqual(2, done.returncode)
        self.assertNotIn("did you mean", done.stderr)


class Hosts(unittest.TestCase):
    """Which ranks go where, with a shell in the place of ssh."""

    def launch(self, hosts, script, *more, code=0):
        with shoal.shell_for_ssh() as rsh:
            words = ["run", "--hosts", hosts, *more, "--", "sh", "-c", script]
            done = shoal.run(*words, env={"SHOAL_RSH": rsh})
        self.assertEqual(code, done.returncode, done.stderr)
        return sorted(done.stdout.splitlines()), done.stderr

    def test_one_rank_on_each_host_or_its_slots(self):
        size = "echo $RANK/$WORLD_SIZE"
        self.assertEqual(["0/4", "1/4", "2/4", "3/4"], self.launch("a,b,c,d", size)[0])
        self.assertEqual(["0/3", "1/3", "2/3"], self.launch("a:2,b", size)[0])
        self.assertEqual(["0/2", "1/2"], self.launch("a,b,c", size, "-n", 2)[0])

    def test_addresses_of_version_6(self):
        said, _ = self.launch("[::1]:2,b", "echo $SHOAL_RENDEZVOUS $LOCAL_WORLD_SIZE")
        self.assertEqual(["tcp://[::1]:29401 1", *2 * ["tcp://[::1]:29401 2"]], said)
        for bad in ("[::1]junk:2", "[::1", "[]"):
            self.assertIn("is no host name", self.launch(bad, "true", code=2)[1])
        self.assertEqual(["0/1"], self.launch("::1", "echo $RANK/$WORLD_SIZE")[0])

    def test_variables_go_with_the_ranks(self):
        said, _ = self.launch("a,b", 'echo "$FOO|$HOME"', "-x", "FOO=it's one", "-x", "HOME")
        self.assertTrue(all(line.startswith("it's one|/") for line in said), said)
        for bad in ("1A=2", "=x", "A-B=1", "NO_SUCH_VARIABLE_HERE", "RANK=0", "SHOAL_LAB=1"):
            self.assertIn("-x", self.launch("a", "true", "-x", bad, code=2)[1])
        done = shoal.run("run", "-n", 1, "-x", "A=1", "--", "true")
        self.assertEqual(2, done.returncode)

    def test_a_rank_that_is_killed_there(self):
        said = self.launch("a,b", "[ $RANK = 1 ] && kill -9 $$; exit 0", code=5)[1]
        self.assertIn("rank 1 was killed by signal 9", said)

    def test_a_host_that_cannot_be_reached(self):
        said = self.launch("a", "exit 255", code=1)[1]
        self.assertIn("host a cannot be reached", said)


if __name__ == "__main__":
    shoal.main()
