# SPDX-License-Identifier: Apache-2.0
"""shoal data text: its tokens are those of a BPE written here, without cleverness, and of Hugging
Face's `tokenizers` where that is installed (make check-frameworks); what is wrong is said."""
import collections
import glob
import gzip
import json
import math
import os
import random
import re
import shutil
import struct
import tempfile
import unittest

import numpy

import shoal
import tensor_file

SEED = int(os.environ.get("SHOAL_TEST_SEED", "20181"))
# GPT-2's pattern for ASCII, where \s is what Unicode calls white space
PATTERN = re.compile(
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", re.ASCII
)
try:
    import tokenizers
except ImportError:
    tokenizers = None


def make_text(rng, words):
    """Sentences of few words, so that pairs are frequent and counts equal."""
    stock = ["".join(rng.choice("abcdeest") for _ in range(rng.randint(1, 9))) for _ in range(60)]
    ends = [" ", " ", " ", ", ", ". ", "'s ", "\n", "\n\n  ", " 12 ", "  "]
    return "".join(rng.choice(stock) + rng.choice(ends) for _ in range(words))


def join(word, pair, new):
    out, i = [], 0
    while i < len(word):
        both = i + 1 < len(word) and (word[i], word[i + 1]) == pair
        out.append(new if both else word[i])
        i += 2 if both else 1
    return out


def learn(texts, count):
    """Merges by counting all pairs of all words anew each time: [(left, right)] of ids."""
    words = collections.Counter(w for t in texts for w in PATTERN.findall(t))
    words = [(list(w.encode()), n) for w, n in words.items()]
    merges = []
    while 256 + len(merges) + 1 < count:
        pairs = collections.Counter()
        for word, n in words:
            for pair in zip(word, word[1:]):
                pairs[pair] += n
        best = min(pairs, key=lambda p: (-pairs[p], p), default=None)
        if best is None or pairs[best] < 2:
            break
        words = [(join(w, best, 256 + len(merges)), n) for w, n in words]
        merges.append(best)
    return merges


def encode(text, merges):
    ids = []
    for word in PATTERN.findall(text):
        word = list(word.encode())
        for rank, pair in enumerate(merges):  # learned in this order, so joined in it
            word = join(word, pair, 256 + rank)
        ids += word
    return ids


def read_tokens(path):
    with open(path, "rb") as f:
        data = f.read()
    magic, version, vocabulary, count, _, length, zero = struct.unpack_from("<8sIIQQII", data)
    assert (magic, version, zero) == (b"SHOALTOK", 1, 0) and len(data) == 40 + 2 * count
    return vocabulary, length, list(struct.unpack_from(f"<{count}H", data, 40))


def read_safetensors(path):
    return {name: array.ravel() for name, array in tensor_file.read(path).items()
            if array.dtype == numpy.float32}  # fmt: skip


class Text(unittest.TestCase):
    def setUp(self):
        print(f"seed {SEED}")
        self.rng = random.Random(SEED)
        self.folder = tempfile.mkdtemp(prefix="shoal-test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        opened = gzip.open if name.endswith(".gz") else open
        with opened(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        return path

    def make(self, *args, name="out"):
        out = os.path.join(self.folder, name)
        result = shoal.run("data", "text", "--out", out, "--json", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return out, json.loads(result.stdout)

    def test_learned_tokens_are_those_of_counting(self):
        text = make_text(self.rng, 3000)
        path = self.write("a.txt", text)
        out, said = self.make("--tokens", "bpe=330", "--length", 16, path)
        border = len(text) - len(text) // 10  # of one document the last tenth is tested with
        merges = learn([text[:border]], 330)
        want = encode(text[:border], merges), encode(text[border:], merges) + [329]
        for split, ids in zip(("train", "test"), want):
            vocabulary, length, got = read_tokens(os.path.join(out, split + ".shoaltok"))
            self.assertEqual((vocabulary, length), (330, 16))
            self.assertEqual(got, ids, split)
        self.assertEqual(said["tokens"], len(want[0]) + len(want[1]))
        self.assertEqual(said["train_sequences"], (len(want[0]) - 1) // 16)
        # a tokenizer.json that is read gives the same as where it was learned
        again, _ = self.make("--tokens", os.path.join(out, "tokenizer.json"), "--length", 16, path,
                             name="again")
        for name in ("train.shoaltok", "test.shoaltok", "tokenizer.json"):
            with open(os.path.join(out, name), "rb") as a:
                with open(os.path.join(again, name), "rb") as b:
                    self.assertEqual(a.read(), b.read(), name)

    @unittest.skipIf(tokenizers is None, "tokenizers of the Python index is not installed")
    def test_hugging_face_reads_the_same(self):
        words = make_text(self.rng, 2000)
        text = words + " \u00e4\u00f6 \u65e5\u672c 1\u0662 \u2003x \U0001f41f\r\n\t" + words[:500]
        path = self.write("a.txt", text)
        border = len(text.encode()) - len(text.encode()) // 10
        for kind in ("bytes", "bpe=400"):
            out, _ = self.make("--tokens", kind, "--length", 8, path, name=kind)
            theirs = tokenizers.Tokenizer.from_file(os.path.join(out, "tokenizer.json"))
            part = text.encode()[:border].decode()
            ids = theirs.encode(part).ids
            self.assertEqual(read_tokens(os.path.join(out, "train.shoaltok"))[2], ids)
            self.assertEqual(theirs.decode(ids), part)

    def test_whole_documents_are_tested_with(self):
        texts = {f"d/{i:02}.txt": make_text(self.rng, 40) for i in range(40)}
        texts["d/sub/x.txt.gz"] = make_text(self.rng, 40)
        for name, text in texts.items():
            self.write(name, text)
        self.write("d/again.txt", texts["d/07.txt"])
        self.write("d/.hidden", "hidden " * 99)
        self.write("d/picture", b"\x89PNG\0\0" * 99)
        out, said = self.make("--tokens", "bytes", "--length", 8, "--from",
                              os.path.join(self.folder, "d"))
        self.assertEqual((said["documents"], said["repeated"], said["binary"]), (41, 1, 1))
        parts = []
        for split in ("train", "test"):
            ids = read_tokens(os.path.join(out, split + ".shoaltok"))[2]
            self.assertEqual(ids[-1], 256)
            ends = [i for i, one in enumerate(ids) if one == 256]
            parts.append([bytes(ids[a + 1 : b]).decode() for a, b in zip([-1] + ends, ends)])
        self.assertEqual(sorted(parts[0] + parts[1]), sorted(texts.values()))
        share = sum(map(len, parts[1])) / said["bytes"]
        self.assertTrue(0.05 <= share <= 0.1, share)

    def test_it_trains(self):
        path = self.write("a.txt", "a sentence that is said again and again, " * 100)
        out, _ = self.make("--tokens", "bytes", "--length", 32, path)
        layers = '["onehot:classes=257", "lstm:out=8", "framewise:out=257"]'
        model = self.write("m.json", '{"name": "m", "input": [1, 32, 1], "layers": %s}' % layers)
        result = shoal.run("train", "--model", model, "--data", out, "--batch", 4, "--json",
                           "--optimizer", "adam", "--lr", "0.01", "--workers", 2, "--epochs", 3)
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assertLess(answer["test_loss"], 5)  # ln 257 is 5.55
        self.assertIsNone(answer["symbol_error_rate"])
        result = shoal.run("train", "--model", "lstm-text", "--data", out, "--steps", 1)
        self.assertEqual(result.returncode, 2)
        self.assertIn("64 classes", result.stderr)

    def test_bits_per_byte_are_all_bits_by_all_bytes(self):
        """A bigram model's own weights, in NumPy, on the test tokens."""
        path = self.write("a.txt", make_text(self.rng, 2000) + "\u00e4" * 50)
        text, _ = self.make("--tokens", "bpe=300", "--length", 16, path)
        layers = '["onehot:classes=300", "framewise:out=300"]'
        model = self.write("m.json", '{"name": "m", "input": [1, 20, 1], "layers": %s}' % layers)
        run = os.path.join(self.folder, "run")
        result = shoal.run("train", "--model", model, "--data", text, "--batch", 8, "--json",
                           "--steps", 20, "--lr", "1", "--workers", 2, "--out", run)
        self.assertEqual(result.returncode, 0, result.stderr)
        said = json.loads(result.stdout)["bits_per_byte"]
        _, length, ids = read_tokens(os.path.join(text, "test.shoaltok"))
        used = (len(ids) - 1) // length * length + 1
        ids = numpy.array(ids[:used])
        tensors = read_safetensors(glob.glob(run + "/checkpoints/step-*/common.safetensors")[0])
        weights = next(t for name, t in tensors.items() if name.endswith(".weight"))
        bias = next(t for name, t in tensors.items() if name.endswith(".bias"))
        scores = weights.reshape(300, 300).T[ids[:-1]].astype(float) + bias
        scores -= scores.max(axis=1, keepdims=True)
        losses = numpy.log(numpy.exp(scores).sum(axis=1)) - scores[numpy.arange(used - 1), ids[1:]]
        with open(os.path.join(text, "tokenizer.json"), encoding="utf-8") as f:
            texts = {i: t for t, i in json.load(f)["model"]["vocab"].items()}
        bytes_ = sum(0 if i == 299 else len(texts[i]) for i in ids[1:].tolist())
        want = losses.sum() / math.log(2) / bytes_
        self.assertAlmostEqual(said, want, delta=1e-4)
        result = shoal.run("eval", "--from", run, "--json")
        self.assertAlmostEqual(json.loads(result.stdout)["float32"]["bits_per_byte"], want,
                               delta=1e-4)  # fmt: skip
        with open(os.path.join(run, "metrics.jsonl"), encoding="ascii") as f:
            last = [json.loads(line) for line in f if "bits_per_byte" in line][-1]
        self.assertAlmostEqual(last["bits_per_byte"], want, delta=1e-4)

    def test_what_is_wrong_is_said(self):
        text = self.write("a.txt", make_text(self.rng, 400))
        odd = self.write("odd.json", '{"model": {"type": "Unigram"}}')
        out = os.path.join(self.folder, "out")
        zip_ = self.write("b.gz", "text " * 999)
        with open(zip_, "r+b") as f:
            f.truncate(20)
        for args, code, part in (
            (("--tokens", "words", text), 2, '"words": characters, bytes, bpe=N'),
            (("--tokens", "bpe=256", text), 2, "257 to 65536"),
            (("--tokens", "bpe=x", text), 2, "a whole number"),
            (("--tokens", odd, text), 2, "odd.json: its model is neither of type BPE nor"),
            (("--tokens", "bytes", "/no/such"), 1, "/no/such"),
            (("--tokens", "bytes", "/dev/null"), 1, "/dev/null is neither"),
            (("--tokens", "bytes", zip_), 1, "b.gz: damaged"),
            (("--tokens", "bytes", "--length", 9999, text), 2, "less than one sequence"),
        ):
            result = shoal.run("data", "text", "--out", out, *args)
            self.assertIn(part, result.stderr, args)
            self.assertEqual(result.returncode, code, (args, result.stderr))
            self.assertFalse(os.path.exists(os.path.join(out, "train.shoaltok")))
        self.make("--tokens", "bytes", text)
        # files that do not belong together
        self.make("--tokens", "bpe=300", text, name="other")
        shutil.copy(os.path.join(self.folder, "other", "tokenizer.json"), out)
        result = shoal.run("train", "--model", "lstm-text", "--data", out)
        self.assertIn("was made by another tokenizer (257 tokens)", result.stderr)


if __name__ == "__main__":
    unittest.main()
