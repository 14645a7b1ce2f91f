# SPDX-License-Identifier: Apache-2.0
"""Weights of Hugging Face's LLaMA in and out: a file with the published names, written here, gives
the loss that loops in double give; what we write has these names and comes back; what does not fit
is said by name. Beside `transformers` itself: docs/language-models.md."""
import json
import os
import shutil
import unittest

import numpy

import hf_text
import shoal
import tensor_file
from data_text_test import read_tokens
from hf_text import SEED

VOCAB, WIDTH, HEADS, KV, DIM, FF, BLOCKS, LENGTH = 257, 24, 4, 2, 6, 40, 2, 16
EPS, THETA = 1e-4, 300.0
CONFIG = {"model_type": "llama", "hidden_size": WIDTH, "intermediate_size": FF,
          "num_hidden_layers": BLOCKS, "num_attention_heads": HEADS, "num_key_value_heads": KV,
          "head_dim": DIM, "vocab_size": VOCAB, "max_position_embeddings": LENGTH,
          "rms_norm_eps": EPS, "rope_theta": THETA, "tie_word_embeddings": False,
          "hidden_act": "silu"}  # fmt: skip
IN_BLOCK = {"input_layernorm": (WIDTH,), "self_attn.q_proj": (HEADS * DIM, WIDTH),
            "self_attn.k_proj": (KV * DIM, WIDTH), "self_attn.v_proj": (KV * DIM, WIDTH),
            "self_attn.o_proj": (WIDTH, HEADS * DIM), "post_attention_layernorm": (WIDTH,),
            "mlp.gate_proj": (FF, WIDTH), "mlp.up_proj": (FF, WIDTH),
            "mlp.down_proj": (WIDTH, FF)}  # fmt: skip


def shapes(tied):
    yield "model.embed_tokens.weight", (VOCAB, WIDTH)
    for block in range(BLOCKS):
        for name, shape in IN_BLOCK.items():
            yield f"model.layers.{block}.{name}.weight", shape
    yield "model.norm.weight", (WIDTH,)
    if not tied:
        yield "lm_head.weight", (VOCAB, WIDTH)


def make(tied=False):
    draw = numpy.random.default_rng(SEED)
    return {name: (("norm" in name) + draw.normal(size=shape) * 0.3).astype("<f4")
            for name, shape in shapes(tied)}  # fmt: skip


def write_file(path, tensors, kind="F32"):
    made = {"F32": lambda t: t, "F16": lambda t: t.astype("<f2"),
            "BF16": lambda t: (t.view("<u4") >> 16).astype("<u2"),
            "F64": lambda t: t.astype("<f8")}[kind]  # fmt: skip
    tensor_file.write(path, {name: made(tensor) for name, tensor in tensors.items()},
                      {"format": "pt"}, kind)  # fmt: skip


def norm(x, scale):
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + EPS) * scale


def turn(x):
    """[frames, heads, dim], as complex numbers."""
    half = DIM // 2
    angles = numpy.arange(len(x))[:, None, None] * THETA ** (-2 * numpy.arange(half) / DIM)
    z = (x[..., :half] + 1j * x[..., half:]) * numpy.exp(1j * angles)
    return numpy.concatenate([z.real, z.imag], -1)


def attend(x, of):
    q, k, v = (x @ of[f"self_attn.{m}_proj"].T for m in "qkv")
    q, k = turn(q.reshape(-1, HEADS, DIM)), turn(k.reshape(-1, KV, DIM))
    k, v = (numpy.repeat(m.reshape(-1, KV, DIM), HEADS // KV, axis=1) for m in (k, v))
    scores = numpy.einsum("thd,shd->hts", q, k) / numpy.sqrt(DIM)
    scores[:, numpy.triu(numpy.ones(scores.shape[1:], bool), 1)] = -numpy.inf
    weights = numpy.exp(scores)
    weights /= weights.sum(-1, keepdims=True)
    mixed = numpy.einsum("hts,shd->thd", weights, v)
    return mixed.reshape(len(x), -1) @ of["self_attn.o_proj"].T


def loss_of(tensors, ids, labels):
    t = {name: values.astype(float) for name, values in tensors.items()}
    x = t["model.embed_tokens.weight"][ids]
    for block in range(BLOCKS):
        of = {name: t[f"model.layers.{block}.{name}.weight"] for name in IN_BLOCK}
        x = x + attend(norm(x, of["input_layernorm"]), of)
        y = norm(x, of["post_attention_layernorm"])
        gate = y @ of["mlp.gate_proj"].T
        x = x + (gate / (1 + numpy.exp(-gate)) * (y @ of["mlp.up_proj"].T)) @ of["mlp.down_proj"].T
    head = t.get("lm_head.weight", t["model.embed_tokens.weight"])
    scores = norm(x, t["model.norm.weight"]) @ head.T
    most = scores.max(-1)
    sums = numpy.log(numpy.exp(scores - most[:, None]).sum(-1)) + most
    return (sums - scores[numpy.arange(len(ids)), labels]).mean()


class LlamaWeights(hf_text.Text):
    LENGTH, CONFIG = LENGTH, CONFIG

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tokens = numpy.array(read_tokens(os.path.join(cls.data, "test.shoaltok"))[2])

    def config(self, **other):
        return self.write_config(**other)

    def ask(self, *args):
        said = shoal.run(*args, "--json")
        self.assertEqual(said.returncode, 0, said.stderr)
        return json.loads(said.stdout)

    def loss(self, model):
        said = self.ask("eval", "--from", self.file, "--model", model, "--data", self.data)
        return said["float32"]["loss"]

    def want(self, tensors):
        count = (len(self.tokens) - 1) // LENGTH
        return numpy.mean([loss_of(tensors, self.tokens[i * LENGTH:][:LENGTH],
                                   self.tokens[i * LENGTH + 1:][:LENGTH])
                           for i in range(count)])  # fmt: skip

    def test_their_files_give_their_losses(self):
        for tied in (False, True):
            model, tensors = self.config(tie_word_embeddings=tied), make(tied)
            write_file(self.file, tensors)
            self.assertAlmostEqual(self.loss(model), self.want(tensors), delta=1e-4)
        for kind in ("F16", "BF16"):
            write_file(self.file, tensors, kind)
            cut = {n: t.astype("<f2") if kind == "F16" else
                   (t.view("<u4") & 0xFFFF0000).view("<f4") for n, t in tensors.items()}
            self.assertAlmostEqual(self.loss(model), self.want(cut), delta=1e-4)

    def test_newer_files_say_theta_elsewhere(self):
        tensors = make()
        write_file(self.file, tensors)
        model = self.config(rope_theta=None, rope_parameters={"rope_type": "default",
                                                              "rope_theta": THETA})
        self.assertAlmostEqual(self.loss(model), self.want(tensors), delta=1e-4)

    def test_what_we_write_has_their_names_and_comes_back(self):
        for tied in (False, True):
            model, run, out = self.config(tie_word_embeddings=tied), self.at("run"), self.at("out/")
            write_file(self.file, make(tied))
            self.ask("train", "--model", model, "--start", self.file, "--data", self.data,
                     "--batch", 8, "--steps", 2, "--lr", 0.01, "--out", run)  # fmt: skip
            self.ask("export", "--from", run, "--safetensors", out)
            tensors = tensor_file.read(out + "model.safetensors")
            self.assertEqual({n: t.shape for n, t in tensors.items()}, dict(shapes(tied)))
            with open(out + "config.json", encoding="ascii") as f:
                said = json.load(f)
            self.assertLessEqual(CONFIG.items() - {("tie_word_embeddings", False)}, said.items())
            self.assertEqual(said["tie_word_embeddings"], tied)
            self.assertEqual(said["architectures"], ["LlamaForCausalLM"])
            ours = self.ask("eval", "--from", run, "--data", self.data)["float32"]["loss"]
            self.assertAlmostEqual(ours, self.want(tensors), delta=1e-4)
            back = self.ask("eval", "--from", out + "model.safetensors", "--data", self.data,
                            "--model", out + "config.json:parts")  # fmt: skip
            self.assertEqual(back["float32"]["loss"], ours)
            shutil.rmtree(run)

    def refused(self, model, says, *args):
        words = args or ("eval", "--from", self.file, "--model", model, "--data", self.data)
        said = shoal.run(*words)
        self.assertNotEqual(said.returncode, 0)
        self.assertIn(says, said.stderr)

    def test_what_does_not_fit_is_said_by_name(self):
        good, model = make(), self.config()
        q, k = (f"model.layers.1.self_attn.{m}_proj.weight" for m in "qk")
        for tensors, says in (
                ({n: t for n, t in good.items() if n != k}, f"no tensor {k} of shape [12, 24]"),
                ({**good, q: good[q].T.copy()[:, :5]}, f"{q} is F32 [24, 5], wanted F32 [24, 24]"),
                ({**good, "model.layers.2.mlp.up_proj.weight": good[q]},
                 "model.layers.2.mlp.up_proj.weight has no place")):
            write_file(self.file, tensors)
            self.refused(model, says)
        write_file(self.file, good, "F64")
        self.refused(model, "model.embed_tokens.weight is F64")
        write_file(self.file, make(True))
        self.refused(model, "no tensor lm_head.weight")
        write_file(self.file, good)
        for other in ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
                      {"hidden_act": "gelu"}, {"sliding_window": 4}):
            self.refused(self.config(**other), "stretched rope, windows or activations")
        self.refused(self.config(attention_bias=True), "qkvbias=")

    def test_a_folder_is_for_llamas_only(self):
        run, model = self.at("bigram"), self.at("bigram.json")
        with open(model, "w", encoding="ascii") as f:
            json.dump({"name": "m", "input": [1, LENGTH, 1],
                       "layers": ["lookup:vocab=257,width=8,frames", "framewise:out=257"]}, f)
        self.ask("train", "--model", model, "--data", self.data, "--batch", 8, "--steps", 1,
                 "--out", run)  # fmt: skip
        says = "for models of LLaMA's, GPT-2's or BERT's kind"
        self.refused(None, says, "export", "--from", run, "--safetensors",
                     self.at("none/"))  # fmt: skip
        self.assertFalse(os.path.exists(self.at("none")))
        self.ask("export", "--from", run, "--safetensors", self.at("b.safetensors"))
        self.assertIn("lookup1.weight", tensor_file.read(self.at("b.safetensors")))


if __name__ == "__main__":
    unittest.main()
