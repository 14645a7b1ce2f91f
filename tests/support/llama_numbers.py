# SPDX-License-Identifier: Apache-2.0
"""Writes llama_numbers.h: loss and gradients of a small LLaMA as PyTorch and `transformers` compute
them in double. Both packages are needed here only; the numbers are kept."""
import math
import os

import torch
import transformers

VOCAB, WIDTH, HEADS, KV, FF, BLOCKS, FRAMES, COUNT = 11, 16, 4, 2, 20, 2, 7, 2
EVERY = 41  # of the gradients, one of so many is written down
OURS = (  # the order of the arena: theirs, within a block
    "input_layernorm.weight", "self_attn.q_proj.weight", "self_attn.k_proj.weight",
    "self_attn.v_proj.weight", "self_attn.o_proj.weight", "post_attention_layernorm.weight",
    "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight")


def names():
    blocks = [f"model.layers.{b}.{name}" for b in range(BLOCKS) for name in OURS]
    return ["model.embed_tokens.weight", *blocks, "model.norm.weight", "lm_head.weight"]


def make_net():
    config = transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=WIDTH, intermediate_size=FF, num_hidden_layers=BLOCKS,
        num_attention_heads=HEADS, num_key_value_heads=KV, max_position_embeddings=FRAMES,
        rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 50.0},
        tie_word_embeddings=False, attn_implementation="eager")
    net = transformers.LlamaForCausalLM(config).double()
    at = 0
    for name, tensor in ((n, net.get_parameter(n)) for n in names()):
        values = [0.5 * math.sin(0.9 * i + 0.05 * (i % 31) ** 2)
                  for i in range(at, at + tensor.numel())]
        base = 1.0 if "norm" in name else 0.0
        made = torch.tensor(values, dtype=torch.float64).add(base).float().double()
        with torch.no_grad():
            tensor.copy_(made.view(tensor.shape))
        at += tensor.numel()
    return net


def rows(values):
    text = [f"{v:.17g}" for v in values]
    return "".join("    " + ", ".join(text[i:i + 3]) + ",\n" for i in range(0, len(text), 3))


def main():
    net = make_net()
    ids = torch.tensor([[(5 * n + 3 * t * t + t) % VOCAB for t in range(FRAMES)]
                        for n in range(COUNT)])
    labels = torch.tensor([[(2 * n + 7 * t + 1) % VOCAB for t in range(FRAMES)]
                           for n in range(COUNT)])
    scores = net(ids).logits
    loss = torch.nn.functional.cross_entropy(scores.view(-1, VOCAB), labels.view(-1))
    loss.backward()
    grads = torch.cat([net.get_parameter(n).grad.reshape(-1) for n in names()])
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "llama_numbers.h")
    with open(path, "w", encoding="ascii") as f:
        f.write("/* SPDX-License-Identifier: Apache-2.0 */\n"
                "/* Written by llama_numbers.py with PyTorch "
                f"{torch.__version__.split('+')[0]}, transformers {transformers.__version__}. */\n"
                "#ifndef SHOALI_TESTS_SUPPORT_LLAMA_NUMBERS_H\n"
                "#define SHOALI_TESTS_SUPPORT_LLAMA_NUMBERS_H\n\n"
                "/* clang-format off */\n"
                f"enum {{ LLAMA_EVERY = {EVERY}, LLAMA_PARAMS = {len(grads)} }};\n"
                f"static const double llama_loss = {loss.item():.17g};\n"
                "static const double llama_scores[] = { /* of the last frame of each sample */\n"
                + rows(scores[:, -1].reshape(-1).tolist()) +
                "};\nstatic const double llama_grads[] = {\n" + rows(grads[::EVERY].tolist()) +
                "};\n/* clang-format on */\n\n#endif\n")


main()
