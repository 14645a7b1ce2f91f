# SPDX-License-Identifier: Apache-2.0
"""BERT: weights of Hugging Face's in and out, a file with the published names, written here, giving
the scores (of masked tokens, of the pooler, the mean that sentence encoders like MiniLM take) of
plain PyTorch in double; what does not fit is said by name. It trains on text: two workers as one,
resumed bit for bit. Beside `transformers` itself where that is installed (make
check-frameworks)."""
import json
import math
import os
import sys
import unittest

import shoal

try:
    import torch
except ImportError:
    print("no PyTorch here")
    sys.exit(shoal.SKIP)

import hf_files
import hf_text
from hf_text import SEED

try:
    import transformers
except ImportError:
    transformers = None

VOCAB, WIDTH, HEADS, FF, BLOCKS, PLACES, LENGTH, EPS = 258, 24, 4, 40, 2, 20, 16, 1e-4
CONFIG = {"model_type": "bert", "hidden_size": WIDTH, "num_hidden_layers": BLOCKS,
          "num_attention_heads": HEADS, "intermediate_size": FF, "type_vocab_size": 2,
          "max_position_embeddings": PLACES, "vocab_size": VOCAB, "hidden_act": "gelu",
          "layer_norm_eps": EPS, "tie_word_embeddings": True}  # fmt: skip
LINEAR = {"attention.self.query": (WIDTH, WIDTH), "attention.self.key": (WIDTH, WIDTH),
          "attention.self.value": (WIDTH, WIDTH), "attention.output.dense": (WIDTH, WIDTH),
          "intermediate.dense": (FF, WIDTH), "output.dense": (WIDTH, FF)}  # fmt: skip
HEAD = {"masked": ("cls.predictions.transform.dense.weight", "cls.predictions.bias"),
        "pooler": ("bert.pooler.dense.weight",), "mean": ()}  # fmt: skip


def with_bias(name, shape):
    return {name + ".weight": shape, name + ".bias": shape[:1]}


def shapes(head):
    said = {"bert.embeddings.word_embeddings.weight": (VOCAB, WIDTH),
            "bert.embeddings.position_embeddings.weight": (PLACES, WIDTH),
            "bert.embeddings.token_type_embeddings.weight": (2, WIDTH),
            **with_bias("bert.embeddings.LayerNorm", (WIDTH,))}  # fmt: skip
    for b in range(BLOCKS):
        at = f"bert.encoder.layer.{b}."
        for name, shape in LINEAR.items():
            said |= with_bias(at + name, shape)
        said |= with_bias(at + "attention.output.LayerNorm", (WIDTH,))
        said |= with_bias(at + "output.LayerNorm", (WIDTH,))
    if head == "pooler":
        said |= with_bias("bert.pooler.dense", (WIDTH, WIDTH))
    if head == "masked":
        said |= with_bias("cls.predictions.transform.dense", (WIDTH, WIDTH))
        said |= with_bias("cls.predictions.transform.LayerNorm", (WIDTH,))
        said["cls.predictions.bias"] = (VOCAB,)
    return said


def make(head):
    return hf_files.make({name: (shape, float("LayerNorm.weight" in name))
                          for name, shape in shapes(head).items()}, SEED)  # fmt: skip


def norm(x, t, name):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / (variance + EPS).sqrt() * t[name + ".weight"] + t[name + ".bias"]


def linear(x, t, name):
    return x @ t[name + ".weight"].T + t[name + ".bias"]


def gelu(x):
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def attend(x, t, at):
    q, k, v = (linear(x, t, f"{at}.self.{m}").view(len(x), HEADS, -1).transpose(0, 1)
               for m in ("query", "key", "value"))  # fmt: skip
    seen = (q @ k.transpose(1, 2) / math.sqrt(WIDTH // HEADS)).softmax(-1)
    return linear((seen @ v).transpose(0, 1).reshape(len(x), -1), t, at + ".output.dense")


def scores_of(t, ids, head):
    """ids: those of the second segment are VOCAB more."""
    at = "bert.embeddings."
    x = t[at + "word_embeddings.weight"][ids % VOCAB]
    x = x + t[at + "position_embeddings.weight"][: len(ids)]
    x = norm(x + t[at + "token_type_embeddings.weight"][ids // VOCAB], t, at + "LayerNorm")
    for b in range(BLOCKS):
        at = f"bert.encoder.layer.{b}"
        x = norm(x + attend(x, t, at + ".attention"), t, at + ".attention.output.LayerNorm")
        y = linear(gelu(linear(x, t, at + ".intermediate.dense")), t, at + ".output.dense")
        x = norm(x + y, t, at + ".output.LayerNorm")
    if head == "pooler":
        return torch.tanh(linear(x[:1], t, "bert.pooler.dense"))
    if head == "mean":
        return x.mean(0, keepdim=True)
    x = gelu(linear(x, t, "cls.predictions.transform.dense"))
    x = norm(x, t, "cls.predictions.transform.LayerNorm")
    return x @ t["bert.embeddings.word_embeddings.weight"].T + t["cls.predictions.bias"]


class BertWeights(hf_text.Text):
    LENGTH, CONFIG = LENGTH, CONFIG

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw = torch.Generator().manual_seed(SEED)
        cls.ids = torch.randint(2 * VOCAB, (LENGTH,), generator=draw)

    def config(self, head="masked", **other):
        nets = {"masked": "BertForMaskedLM", "pooler": "BertModel", "mean": "BertModel"}
        config = self.write_config(**{"architectures": [nets[head]], **other})
        return config + f",length={LENGTH}" + (
            ",head=mean" if head == "mean" else "")

    def ask(self, *args):
        said = shoal.run(*args, "--json")
        self.assertEqual(said.returncode, 0, said.stderr)
        return json.loads(said.stdout)

    def assert_scores(self, model, file, tensors, head):
        want = scores_of(tensors, self.ids, head)
        got = hf_files.scores(model, file, self.ids.tolist()).view(want.shape)
        self.assertGreater(want.std(), 0.3)
        self.assertLess((got - want).abs().max(), 1e-4)

    def test_their_files_give_their_scores(self):
        for head in ("masked", "pooler", "mean"):
            hf_files.write_file(self.file, make(head))
            self.assert_scores(self.config(head), self.file, make(head), head)
        # as BERT's own files: old names of norms, heads of both tasks, a table of places
        whole = {**make("pooler"), **make("masked")}
        old = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"): t for name, t in whole.items()}  # fmt: skip
        old["cls.seq_relationship.weight"] = torch.ones(2, WIDTH)
        old["bert.embeddings.position_ids"] = torch.ones(1, PLACES)
        hf_files.write_file(self.file, old)
        self.assert_scores(self.config(), self.file, whole, "masked")
        # as a sentence encoder's: no prefix, and a pooler that nobody asks
        bare = {name.removeprefix("bert."): t for name, t in make("pooler").items()}
        hf_files.write_file(self.file, bare)
        self.assert_scores(self.config("mean"), self.file, make("pooler"), "mean")
        self.assert_scores(self.config("pooler"), self.file, make("pooler"), "pooler")

    def train(self, run, *more, workers=1, batch=8, optimizer="adamw"):
        return self.ask("train", "--model", self.config(), "--data", self.data, "--batch", batch,
                        "--workers", workers, "--optimizer", optimizer, "--lr", 0.01,
                        "--out", self.at(run), *more)  # fmt: skip

    def exported(self, run):
        out = self.at(run) + "-hf/"
        self.ask("export", "--from", self.at(run), "--safetensors", out)
        return hf_files.read_file(out + "model.safetensors")

    def test_what_we_write_has_their_names_and_comes_back(self):
        hf_files.write_file(self.file, make("masked"))
        self.train("out", "--start", self.file, "--steps", 2)
        tensors, out = self.exported("out"), self.at("out-hf/")
        self.assertEqual({n: tuple(t.shape) for n, t in tensors.items()}, shapes("masked"))
        with open(out + "config.json", encoding="ascii") as f:
            said = json.load(f)
        self.assertLessEqual(CONFIG.items(), said.items())
        self.assertEqual(said["architectures"], ["BertForMaskedLM"])
        self.assertEqual(said["mask_token_id"], VOCAB - 1)
        again = out + f"config.json:parts,length={LENGTH}"
        file = out + "model.safetensors"
        self.assert_scores(again, file, tensors, "masked")
        ours = self.ask("eval", "--from", self.at("out"), "--data", self.data)["float32"]
        back = self.ask("eval", "--from", file, "--data", self.data, "--model", again)["float32"]
        self.assertEqual(back["loss"], ours["loss"])
        self.assertNotIn("bits_per_byte", ours)

    def test_a_folder_without_the_head_begins_with_a_fresh_one(self):
        folder, given = self.at("encoder"), make("mean")
        os.makedirs(folder, exist_ok=True)
        hf_files.write_file(os.path.join(folder, "model.safetensors"),
                            {n.removeprefix("bert."): t for n, t in given.items()})  # fmt: skip
        command = ("train", "--model", self.config(), "--start", folder, "--data", self.data,
                   "--batch", 8, "--steps", 1, "--lr", 1e-12, "--no-eval", "--out")  # fmt: skip
        said = shoal.run(*command, self.at("fresh"))
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("lacks the head of this model: its 5 tensors begin with first", said.stderr)
        tensors = self.exported("fresh")
        for name, tensor in given.items():
            self.assertLess((tensors[name].double() - tensor).abs().max(), 1e-6, name)
        self.assertGreater(tensors["cls.predictions.transform.dense.weight"].std(), 0.01)
        # a part of a head is a mistake, and so is a missing block
        for part in ("cls.predictions.bias", "bert.encoder.layer.1.output.dense.bias"):
            whole = make("masked")
            del whole[part]
            hf_files.write_file(os.path.join(folder, "model.safetensors"), whole)
            said = shoal.run(*command, self.at("none"))
            self.assertIn(f"no tensor {part}", said.stderr)
        os.unlink(os.path.join(folder, "model.safetensors"))
        said = shoal.run(*command, self.at("none"))
        self.assertIn("and no model.safetensors", said.stderr)

    def test_it_learns_and_resumes_bit_for_bit(self):
        whole = self.train("whole", "--epochs", 4, workers=2)
        self.assertLess(whole["test_loss"], math.log(VOCAB) - 1.5)
        self.train("part", "--epochs", 4, "--steps", 31, workers=2)
        resumed = self.ask("train", "--resume", self.at("part"), "--epochs", 4, "--steps", 60)
        self.assertEqual(resumed["test_loss"], whole["test_loss"])
        one, other = self.exported("whole"), self.exported("part")
        for name in shapes("masked"):
            self.assertTrue(torch.equal(one[name], other[name]), name)

    def test_two_workers_hide_what_one_hides(self):
        asked = ("--steps", 3, "--no-eval")
        self.train("start", "--steps", 1, "--no-eval", optimizer="sgd")
        self.train("one", *asked, optimizer="sgd")
        self.train("two", *asked, workers=2, batch=4, optimizer="sgd")
        start, one, two = (self.exported(run) for run in ("start", "one", "two"))
        for name in one:
            self.assertLess((one[name] - two[name]).abs().max(), 2e-6, name)
        self.assertGreater(max((one[n] - start[n]).abs().max() for n in one), 1e-3)

    def test_dropout_of_their_file_is_trained_with_and_said(self):
        drops = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.2}
        for head in ("masked", "pooler", "mean"):
            hf_files.write_file(self.file, make(head))
            self.assert_scores(self.config(head, **drops), self.file, make(head), head)
        hf_files.write_file(self.file, make("masked"))
        asked = ("--data", self.data, "--start", self.file, "--steps", 3, "--lr", 0.01, "--no-eval")
        runs = {"one": (8, 1, ""), "two": (4, 2, ""), "off": (8, 1, ",dropout=off")}
        weights = {}
        for run, (batch, workers, key) in runs.items():
            self.ask("train", "--model", self.config(**drops) + key, *asked, "--batch", batch,
                     "--workers", workers, "--out", self.at("drop-" + run))  # fmt: skip
            weights[run] = self.exported("drop-" + run)
        one, two, off = (weights[run] for run in runs)
        self.assertEqual({n: tuple(t.shape) for n, t in one.items()}, shapes("masked"))
        self.assertLess(max((one[n] - two[n]).abs().max() for n in one), 2e-6)
        self.assertGreater(max((one[n] - off[n]).abs().max() for n in one), 1e-3)
        with open(self.at("drop-one-hf/config.json"), encoding="ascii") as f:
            said = json.load(f)
        self.assertEqual({key: said[key] for key in drops}, drops)

    @unittest.skipIf(transformers is None, "transformers is not installed")
    def test_transformers_reads_what_we_write_and_we_what_it_writes(self):
        theirs, run, out = self.at("theirs"), self.at("run-theirs"), self.at("ours/")
        torch.manual_seed(SEED)
        config = transformers.BertConfig(
            **{key: value for key, value in CONFIG.items() if key != "model_type"},
            initializer_range=0.3)  # fmt: skip
        net = transformers.BertForMaskedLM(config)
        net.save_pretrained(theirs)
        model = os.path.join(theirs, "config.json") + f":parts,length={LENGTH}"
        file = os.path.join(theirs, "model.safetensors")
        self.assert_scores_of(net, model, file)
        self.ask("train", "--model", model, "--start", file, "--data", self.data, "--batch", 8,
                 "--steps", 2, "--lr", 0.01, "--out", run)  # fmt: skip
        self.ask("export", "--from", run, "--safetensors", out)
        back, told = transformers.BertForMaskedLM.from_pretrained(out, output_loading_info=True)
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            self.assertFalse(told[kind], told)
        self.assert_scores_of(
            back, out + f"config.json:parts,length={LENGTH}", out + "model.safetensors"
        )

    def assert_scores_of(self, net, model, file):
        with torch.no_grad():
            want = net.double().eval()(
                (self.ids % VOCAB)[None], token_type_ids=(self.ids // VOCAB)[None]).logits[0]
        got = hf_files.scores(model, file, self.ids.tolist()).view(want.shape)
        self.assertLess((got - want).abs().max(), 1e-4)

    def refused(self, model, says, *args):
        words = args or ("eval", "--from", self.file, "--model", model, "--data", self.data)
        said = shoal.run(*words)
        self.assertNotEqual(said.returncode, 0)
        self.assertIn(says, said.stderr)

    def test_what_does_not_fit_is_said_by_name(self):
        good, model = make("masked"), self.config()
        query = "bert.encoder.layer.1.attention.self.query.weight"
        up = "bert.encoder.layer.1.intermediate.dense.weight"
        for tensors, says in (
                ({n: t for n, t in good.items() if n != query},
                 f"no tensor {query} of shape [24, 24]"),
                ({**good, up: good[up].T.contiguous()},
                 f"{up} is F32 [24, 40], wanted F32 [40, 24]"),
                ({**good, "bert.encoder.layer.2.output.dense.bias": good["cls.predictions.bias"]},
                 "bert.encoder.layer.2.output.dense.bias has no place")):  # fmt: skip
            hf_files.write_file(self.file, tensors)
            self.refused(model, says)
        hf_files.write_file(self.file, make("mean"))
        for missing in HEAD["masked"][:1]:
            self.refused(model, f"no tensor {missing}")
        hf_files.write_file(self.file, good)
        for other in ({"hidden_act": "relu"}, {"position_embedding_type": "relative_key"},
                      {"is_decoder": True}, {"tie_word_embeddings": False}):  # fmt: skip
            self.refused(self.config(**other), "(other)")
        self.refused(self.config(vocab_size=257), "say vocab=258")
        self.refused(self.config(attention_dropout=0.25), "asks for dropout (0.25) where")
        self.refused("gpt-nano:head=mean", "no blocks like BERT's")


if __name__ == "__main__":
    unittest.main()
