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

    def test_help_of_a_verb(self):
        for words in (("train",), ("bench",), ("bench", "codec"), ("data", "speech")):
            asked, said = shoal.run("help", *words), shoal.run(*words, "--help")
            self.assertEqual((asked.returncode, asked.stdout), (0, said.stdout), asked.stderr)
        self.assertIn("did you mean `shoal train`?", shoal.run("help", "trian").stderr)
        for words in (("trian",), ("bench", "--json"), ("train", "a", "b"), ("bench", "nope")):
            self.assertEqual(shoal.run("help", *words).returncode, 2)


if __name__ == "__main__":
    shoal.main()
