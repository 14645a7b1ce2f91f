# SPDX-License-Identifier: Apache-2.0
"""shoal data speech, text, clicks: what they make can be trained on and repeats; bad usage."""
import json
import os
import shutil
import struct
import subprocess
import tempfile
import time
import unittest

import shoal

SPEAK = os.path.join(os.path.dirname(shoal.SHOAL), "shoal-speak")
LAYERS = {
    "speech": '["gru:out=16,k=4", "framewise:out=40"]',
    "text": '["onehot", "lstm:out=8", "framewise:out=64"]',
}


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as f:
        return f.read()


def first_sequence(folder):
    """(labels, values by frame) of the first utterance of train.shoalseq."""
    bytes_ = read(folder, "train.shoalseq")
    values, _, count, _, frames = struct.unpack_from("<IIIIQ", bytes_, 16)
    length = struct.unpack_from("<I", bytes_, 40)[0]
    labels_at = 40 + 4 * count
    labels = struct.unpack_from(f"<{length}H", bytes_, labels_at)
    flat = struct.unpack_from(f"<{length * values}f", bytes_, labels_at + 2 * frames)
    return labels, [flat[t * values : (t + 1) * values] for t in range(length)]


def utterances(said):
    """What shoal-speak answers, in parts."""
    at = 0
    while at < len(said):
        head = struct.unpack_from("<III", said, at)
        _, samples, phonemes = head
        names = list(struct.iter_unpack("<I8s", said[at + 12 : at + 12 + 12 * phonemes]))
        at += 12 + 12 * phonemes
        yield {"head": head, "phonemes": names, "samples": said[at : at + 2 * samples]}
        at += 2 * samples


class Sequences(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="shoal-test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def make(self, kind, name, *args):
        out = os.path.join(self.folder, name)
        result = shoal.run("data", kind, "--out", out, "--json", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return out, json.loads(result.stdout)

    def train(self, kind, data, frames, values, *args):
        model = os.path.join(self.folder, "model.json")
        with open(model, "w", encoding="ascii") as f:
            f.write(f'{{"name": "m", "input": [1, {frames}, {values}], "layers": {LAYERS[kind]}}}')
        result = shoal.run(
            *("train", "--model", model, "--data", data, "--batch", 2, "--epochs", 6, "--json"),
            *("--optimizer", "adam", "--lr", "0.01", *args),
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    @unittest.skipUnless(os.path.exists(SPEAK), "shoal-speak is not built: no libespeak-ng-dev")
    def test_speech_repeats_and_trains(self):
        args = ("--train", 1, "--test", 0.2)
        first, said = self.make("speech", "a", *args)
        again, _ = self.make("speech", "b", *args)
        other, _ = self.make("speech", "c", *args, "--seed", 2, "--features", "logmel")
        for name in ("train.shoalseq", "test.shoalseq", "phonemes.txt"):
            self.assertEqual(read(first, name), read(again, name), name)
        self.assertNotEqual(read(first, "train.shoalseq"), read(other, "train.shoalseq"))
        self.assertGreater(said["train_phonemes"], 100)
        self.assertEqual(len(read(first, "phonemes.txt").split()), 40)
        two = self.train("speech", first, 400, 39, "--workers", 2)
        self.assertGreater(two["symbol_error_rate"], 0)
        self.assertLess(two["train_loss"], 3.4)  # ln 40, that of guessing, is 3.69

    @unittest.skipUnless(os.path.exists(SPEAK), "shoal-speak is not built: no libespeak-ng-dev")
    def test_a_line_sounds_the_same_at_another_time(self):
        voices = ("en-us+f2", "en-us+whisper", "en-029+klatt2", "en-gb-scotland+Gene")
        lines = "".join(f"{voice}\t150\t40\tseven children\n" for voice in voices).encode()

        def speak():
            said = subprocess.run([SPEAK], input=lines, stdout=subprocess.PIPE, check=True).stdout
            return dict(zip(voices, utterances(said), strict=True))

        def compare(again):
            for voice in voices:
                for part in ("head", "phonemes", "samples"):
                    one, other = first[voice][part], again[voice][part]
                    at = [i for i in range(min(len(one), len(other))) if one[i] != other[i]]
                    here = (at[0], one[at[0]], other[at[0]]) if at else None
                    self.assertTrue(one == other, f"{voice}: {part}: {len(one)}, {len(other)} "
                                    f"values, {len(at)} differ, the first at {here}")  # fmt: skip

        begin = int(time.time())
        first = speak()
        while int(time.time()) == begin:  # espeak-ng's own seed is the time in seconds
            compare(speak())
        compare(speak())

    @unittest.skipUnless(os.path.exists(SPEAK), "shoal-speak is not built: no libespeak-ng-dev")
    def test_a_fresh_home_is_left_alone_and_changes_no_sound(self):
        home = os.path.join(self.folder, "home")
        os.mkdir(home)
        env = {"PATH": os.environ["PATH"], "HOME": home, "TMPDIR": home}
        line = b"en-us+f2\t150\t40\tseven children\n"

        def speak():
            return subprocess.run([SPEAK], input=line, env=env, capture_output=True, check=True)

        first, later = speak(), speak()
        self.assertEqual(os.listdir(home), [])
        self.assertEqual(first.stderr, b"")
        self.assertTrue(first.stdout == later.stdout)

    @unittest.skipUnless(os.path.exists(SPEAK), "shoal-speak is not built: no libespeak-ng-dev")
    def test_stacked_frames_are_those_that_lie_together(self):
        args = ("--train", 0.1, "--test", 0.1)
        every, _ = self.make("speech", "every", *args)
        third, _ = self.make("speech", "third", *args, "--every", 3)
        stack, _ = self.make("speech", "stack", *args, "--every", 3, "--stack")
        labels, frames = first_sequence(every)
        self.assertEqual(first_sequence(third), (labels[::3], frames[::3]))
        frames += frames[-1:] * (-len(frames) % 3)
        joined = [sum(frames[t : t + 3], ()) for t in range(0, len(frames), 3)]
        middles = labels[1::3] + labels[-1:] * (len(joined) - len(labels[1::3]))
        self.assertEqual(first_sequence(stack), (middles, joined))

    def test_text_trains(self):
        text = os.path.join(self.folder, "text")
        with open(text, "w", encoding="ascii") as f:
            f.write("a sentence that is said again and again, " * 100)
        out, made = self.make("text", "t", "--length", 32, text)
        self.assertGreater(made["train_sequences"], 100)
        result = self.train("text", out, 32, 1)
        self.assertIsNone(result["symbol_error_rate"])
        self.assertGreater(result["test_accuracy"], 10)

    def test_bad_usage_is_explained(self):
        for args, code, text in (
            (("data", "speech"), 2, "--out DIR"),
            (("data", "speech", "--out", "x", "--train", "no"), 2, "is not taken"),
            (("data", "speech", "--out", "x", "--program", "/no/such"), 77, "/no/such"),
            (("data", "text"), 2, "where to"),
            (("data", "text", "--out", self.folder, "/no/such"), 1, "/no/such"),
            (("data", "songs"), 2, "digits, colours, images, speech, text"),
        ):
            result = shoal.run(*args)
            self.assertEqual(result.returncode, code, args)
            self.assertIn(text, result.stderr)


class Clicks(unittest.TestCase):
    def test_sparse_training(self):
        with tempfile.TemporaryDirectory(prefix="shoal-test-") as folder:
            data, model = os.path.join(folder, "clicks"), os.path.join(folder, "model.json")
            wanted = ["--train", 400, "--test", 100, "--fields", 4, "--vocab", 3000]
            r = shoal.run("data", "clicks", "--out", data, "--json", *wanted)
            self.assertEqual(r.returncode, 0, r.stderr)
            made = json.loads(r.stdout)
            self.assertEqual((made["samples"], made["fields"], made["vocab"]), (500, 4, 3000))
            self.assertTrue(50 < made["clicks"] < 250)
            first = read(data, "train.clicks")
            self.assertEqual(len(first), 24 + 400 * (1 + 4 * 4))
            again = os.path.join(folder, "again")
            shoal.run("data", "clicks", "--out", again, *wanted)
            self.assertEqual(read(again, "train.clicks"), first)
            with open(model, "w", encoding="ascii") as f:
                layers = '["lookup:vocab=3000,width=8", "dense:out=8", "relu", "dense:out=2"]'
                f.write(f'{{"name": "m", "input": [1, 4, 1], "layers": {layers}}}')
            losses = []
            for collective in ("ring", "omnireduce:dedicated,block=16"):
                command = ["train", "--model", model, "--data", data, "--batch", "20", "--json"]
                command += ["--epochs", "2", "--lr", "0.1", "--collective", collective]
                r = shoal.run("run", "-n", 2, "-a", 1, "--", shoal.SHOAL, *command)
                self.assertEqual(r.returncode, 0, r.stderr)
                losses.append(json.loads(r.stdout.splitlines()[-1])["train_loss"])
            self.assertAlmostEqual(losses[0], losses[1], delta=1e-5)

    def test_bad_usage(self):
        for args, text in (
            ([], "where to?"),
            (["--out", "x", "--skew", "0"], "--skew '0'"),
            (["--out", "/proc/none"], "cannot make the directory"),
            (["--out", "/tmp/none", "--vocab", "9"], "26 fields need a vocabulary of"),
        ):
            r = shoal.run("data", "clicks", *args)
            self.assertIn(r.returncode, (1, 2), args)
            self.assertIn(text, r.stderr)


if __name__ == "__main__":
    shoal.main()
