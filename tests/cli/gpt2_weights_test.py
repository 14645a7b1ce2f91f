# SPDX-License-Identifier: Apache-2.0
"""Weights of Hugging Face's GPT-2 in and out: a file with the published names, written here, gives
the scores of plain PyTorch in double; what we write has these names and shapes and comes back; what
does not fit is said by name. Beside `transformers` itself where that is installed (make
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

VOCAB, WIDTH, HEADS, FF, BLOCKS, PLACES, LENGTH, EPS = 257, 24, 4, 40, 2, 20, 16, 1e-4
CONFIG = {"model_type": "gpt2", "n_embd": WIDTH, "n_layer": BLOCKS, "n_head": HEADS,
          "n_inner": FF, "n_positions": PLACES, "vocab_size": VOCAB,
          "activation_function": "gelu_new", "layer_norm_epsilon": EPS,
          "tie_word_embeddings": True}  # fmt: skip
# Conv1D: [in, out]
IN_BLOCK = {"ln_1.weight": (WIDTH,), "ln_1.bias": (WIDTH,),
            "attn.c_attn.weight": (WIDTH, 3 * WIDTH), "attn.c_attn.bias": (3 * WIDTH,),
            "attn.c_proj.weight": (WIDTH, WIDTH), "attn.c_proj.bias": (WIDTH,),
            "ln_2.weight": (WIDTH,), "ln_2.bias": (WIDTH,),
            "mlp.c_fc.weight": (WIDTH, FF), "mlp.c_fc.bias": (FF,),
            "mlp.c_proj.weight": (FF, WIDTH), "mlp.c_proj.bias": (WIDTH,)}  # fmt: skip


def shapes(tied=True, places=PLACES):
    all_shapes = {"transformer.wte.weight": (VOCAB, WIDTH),
                  "transformer.wpe.weight": (places, WIDTH),
                  **{f"transformer.h.{b}.{name}": shape
                     for b in range(BLOCKS) for name, shape in IN_BLOCK.items()},
                  "transformer.ln_f.weight": (WIDTH,),
                  "transformer.ln_f.bias": (WIDTH,)}  # fmt: skip
    return all_shapes if tied else {**all_shapes, "lm_head.weight": (VOCAB, WIDTH)}


def make(tied=True):
    return hf_files.make({name: (shape, float(".ln_" in name and name.endswith("weight")))
                          for name, shape in shapes(tied).items()}, SEED)  # fmt: skip


def norm(x, t, name):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / (variance + EPS).sqrt() * t[name + ".weight"] + t[name + ".bias"]


def linear(x, t, name):
    return x @ t[name + ".weight"] + t[name + ".bias"]


def attend(x, t, name):
    q, k, v = (m.view(len(x), HEADS, -1).transpose(0, 1)
               for m in linear(x, t, name + ".c_attn").chunk(3, -1))  # fmt: skip
    seen = q @ k.transpose(1, 2) / math.sqrt(WIDTH // HEADS)
    seen = seen.masked_fill(torch.ones_like(seen).triu(1) > 0, -math.inf).softmax(-1)
    return linear((seen @ v).transpose(0, 1).reshape(len(x), -1), t, name + ".c_proj")


def gelu_new(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def scores_of(t, ids):
    x = t["transformer.wte.weight"][ids] + t["transformer.wpe.weight"][: len(ids)]
    for b in range(BLOCKS):
        at = f"transformer.h.{b}"
        x = x + attend(norm(x, t, at + ".ln_1"), t, at + ".attn")
        y = gelu_new(linear(norm(x, t, at + ".ln_2"), t, at + ".mlp.c_fc"))
        x = x + linear(y, t, at + ".mlp.c_proj")
    head = t.get("lm_head.weight", t["transformer.wte.weight"])
    return norm(x, t, "transformer.ln_f") @ head.T


class Gpt2Weights(hf_text.Text):
    LENGTH, CONFIG = LENGTH, CONFIG

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw = torch.Generator().manual_seed(SEED)
        cls.ids = torch.randint(VOCAB, (LENGTH,), generator=draw)

    def config(self, **other):
        return self.write_config(**other) + f",length={LENGTH}"

    def ask(self, *args):
        said = shoal.run(*args, "--json")
        self.assertEqual(said.returncode, 0, said.stderr)
        return json.loads(said.stdout)

    def assert_scores(self, model, file, tensors):
        want = scores_of(tensors, self.ids)
        got = hf_files.scores(model, file, self.ids.tolist()).view(want.shape)
        self.assertGreater(want.std(), 0.5)
        self.assertLess((got - want).abs().max(), 1e-4)

    def test_their_files_give_their_scores(self):
        for tied in (True, False):
            model, tensors = self.config(tie_word_embeddings=tied), make(tied)
            hf_files.write_file(self.file, tensors)
            self.assert_scores(model, self.file, tensors)
        # as the file that OpenAI published: no prefix, and masks
        bare = {name.replace("transformer.", ""): t for name, t in make().items()}
        bare["h.0.attn.bias"] = torch.ones(1, 1, PLACES, PLACES)
        hf_files.write_file(self.file, bare)
        self.assert_scores(self.config(), self.file, make())

    def test_what_we_write_has_their_names_and_comes_back(self):
        for tied in (True, False):
            run, out = self.at(f"run-{tied}"), self.at(f"out-{tied}/")
            model = self.config(tie_word_embeddings=tied)
            hf_files.write_file(self.file, make(tied))
            self.ask("train", "--model", model, "--start", self.file, "--data", self.data,
                     "--batch", 8, "--steps", 2, "--lr", 0.01, "--out", run)  # fmt: skip
            self.ask("export", "--from", run, "--safetensors", out)
            tensors = hf_files.read_file(out + "model.safetensors")
            self.assertEqual({n: tuple(t.shape) for n, t in tensors.items()}, shapes(tied))
            with open(out + "config.json", encoding="ascii") as f:
                said = json.load(f)
            self.assertLessEqual({**CONFIG, "tie_word_embeddings": tied}.items(), said.items())
            self.assertEqual(said["architectures"], ["GPT2LMHeadModel"])
            again = out + f"config.json:parts,length={LENGTH}"
            self.assert_scores(again, out + "model.safetensors", tensors)
            ours = self.ask("eval", "--from", run, "--data", self.data)["float32"]["loss"]
            back = self.ask("eval", "--from", out + "model.safetensors", "--data", self.data,
                            "--model", again)  # fmt: skip
            self.assertEqual(back["float32"]["loss"], ours)

    def test_dropout_of_their_file_is_trained_with_and_said(self):
        drops = {"embd_pdrop": 0.1, "resid_pdrop": 0.2, "attn_pdrop": 0.3}
        model, good = self.config(**drops), make()
        hf_files.write_file(self.file, good)
        self.assert_scores(model, self.file, good)  # tests leave nothing out
        asked = ("--start", self.file, "--data", self.data, "--steps", 3, "--lr", 0.01, "--no-eval")

        def train(run, model, *more):
            out = self.at(run) + "/hf/"
            self.ask("train", "--model", model, *asked, "--out", self.at(run), *more)
            self.ask("export", "--from", self.at(run), "--safetensors", out)
            return hf_files.read_file(out + "model.safetensors")

        def most(one, other):
            return max((one[n] - other[n]).abs().max() for n in one)

        one = train("drop-one", model, "--batch", 8)
        two = train("drop-two", model, "--batch", 4, "--workers", 2)
        again = train("drop-again", model, "--batch", 8)
        seed = train("drop-seed", model, "--batch", 8, "--seed", 2)
        off = train("drop-off", model + ",dropout=off", "--batch", 8)
        self.assertEqual({n: tuple(t.shape) for n, t in one.items()}, shapes())
        self.assertEqual(most(one, again), 0)
        self.assertLess(most(one, two), 2e-6)
        self.assertGreater(most(one, seed), 1e-3)
        self.assertGreater(most(one, off), 1e-3)
        with open(self.at("drop-one/hf/config.json"), encoding="ascii") as f:
            said = json.load(f)
        self.assertEqual({key: said[key] for key in drops}, drops)
        out = self.at("drop-one/hf/")
        again = out + f"config.json:parts,length={LENGTH}"
        self.assert_scores(again, out + "model.safetensors", one)
        self.ask("train", "--model", model, *asked[:4], "--batch", 8, "--lr", 0.01, "--no-eval",
                 "--steps", 2, "--out", self.at("drop-part"))  # fmt: skip
        self.ask("train", "--resume", self.at("drop-part"), "--steps", 3)
        self.ask("export", "--from", self.at("drop-part"), "--safetensors", self.at("part-hf/"))
        part = hf_files.read_file(self.at("part-hf/model.safetensors"))
        self.assertEqual(most(one, part), 0)

    def test_dropout_that_their_file_cannot_say_is_refused(self):
        layers = ["lookup:vocab=257,width=24,frames,positions=16", "layernorm",
                  "attention:rope=off,bias", "add:back=3", "layernorm", "framewise:out=40",
                  "gelu:tanh", "dropout:rate=0.1", "framewise:out=24", "add:back=6", "layernorm",
                  "framewise:out=257,tied,bias=off"]  # fmt: skip
        net, run = self.at("net.json"), self.at("odd")
        with open(net, "w", encoding="ascii") as f:
            json.dump({"name": "odd", "input": [1, LENGTH, 1], "layers": layers}, f)
        self.ask("train", "--model", net, "--data", self.data, "--batch", 8, "--steps", 1,
                 "--no-eval", "--out", run)  # fmt: skip
        said = shoal.run("export", "--from", run, "--safetensors", self.at("odd-hf/"))
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("no word for dropout behind it", said.stderr)

    def test_the_zoos_train_and_leave(self):
        run, out = self.at("nano"), self.at("nano/hf/")
        model = f"gpt-nano:length={LENGTH}"
        self.ask("train", "--model", model, "--data", self.data, "--batch", 8, "--steps", 30,
                 "--workers", 2, "--optimizer", "adamw", "--lr", 2e-3, "--out", run)  # fmt: skip
        loss = self.ask("eval", "--from", run, "--data", self.data)["float32"]["loss"]
        self.assertLess(loss, math.log(VOCAB) - 1)
        self.ask("export", "--from", run, "--safetensors", out)
        places = hf_files.read_file(out + "model.safetensors")["transformer.wpe.weight"]
        self.assertEqual(places.shape, (128, 128))
        told = shoal.run("generate", "--from", run, "--prompt", "1 and", "--tokens", 8)
        self.assertEqual(told.returncode, 0, told.stderr)

    @unittest.skipIf(transformers is None, "transformers is not installed")
    def test_transformers_reads_what_we_write_and_we_what_it_writes(self):
        theirs, run, out = self.at("theirs"), self.at("run-theirs"), self.at("ours/")
        torch.manual_seed(SEED)
        config = transformers.GPT2Config(
            n_embd=WIDTH, n_layer=BLOCKS, n_head=HEADS, n_inner=FF, n_positions=PLACES,
            vocab_size=VOCAB, layer_norm_epsilon=EPS, initializer_range=0.3,
            bos_token_id=None, eos_token_id=None)  # fmt: skip
        net = transformers.GPT2LMHeadModel(config)
        net.save_pretrained(theirs)
        model = os.path.join(theirs, "config.json") + f":parts,length={LENGTH}"
        file = os.path.join(theirs, "model.safetensors")
        self.assert_scores_of(net, model, file)
        self.ask("train", "--model", model, "--start", file, "--data", self.data, "--batch", 8,
                 "--steps", 2, "--lr", 0.01, "--out", run)  # fmt: skip
        self.ask("export", "--from", run, "--safetensors", out)
        back, told = transformers.GPT2LMHeadModel.from_pretrained(out, output_loading_info=True)
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            self.assertFalse(told[kind], told)
        self.assert_scores_of(
            back, out + f"config.json:parts,length={LENGTH}", out + "model.safetensors"
        )

    def assert_scores_of(self, net, model, file):
        with torch.no_grad():
            want = net.double().eval()(self.ids[None]).logits[0]
        got = hf_files.scores(model, file, self.ids.tolist()).view(want.shape)
        self.assertLess((got - want).abs().max(), 1e-4)

    def refused(self, model, says, *args):
        words = args or ("eval", "--from", self.file, "--model", model, "--data", self.data)
        said = shoal.run(*words)
        self.assertNotEqual(said.returncode, 0)
        self.assertIn(says, said.stderr)

    def test_what_does_not_fit_is_said_by_name(self):
        good, model = make(), self.config()
        c_attn, c_fc = (f"transformer.h.1.{m}.weight" for m in ("attn.c_attn", "mlp.c_fc"))
        for tensors, says in (
                ({n: t for n, t in good.items() if n != c_fc},
                 f"no tensor {c_fc} of shape [24, 40]"),
                ({**good, c_attn: good[c_attn].T.contiguous()},
                 f"{c_attn} is F32 [72, 24], wanted F32 [24, 72]"),
                ({**good, "transformer.h.2.ln_1.weight": good["transformer.ln_f.bias"]},
                 "transformer.h.2.ln_1.weight has no place")):  # fmt: skip
            hf_files.write_file(self.file, tensors)
            self.refused(model, says)
        hf_files.write_file(self.file, good)
        self.refused(self.config(tie_word_embeddings=False), "no tensor lm_head.weight")
        for other in ({"activation_function": "relu"}, {"scale_attn_by_inverse_layer_idx": True},
                      {"scale_attn_weights": False}):  # fmt: skip
            self.refused(self.config(**other), "activations other than silu and gpt2's")
        self.refused(self.config(hidden_dropout_prob=0.1), "asks for dropout (0.1) where")
        self.refused(self.config(attn_pdrop=1), "attdrop")
        self.refused(self.config(n_positions=8), "a sequence of 16 has no place in 8 positions")


if __name__ == "__main__":
    unittest.main()
