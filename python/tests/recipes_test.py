#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples for PyTorch Lightning, Accelerate and Hugging Face's Trainer train: with the package
where it is installed, else with a stand-in (stand_ins.py), which the output says."""

import importlib.util
import os
import re
import unittest

import launch

launch.needs("numpy")
torch = launch.needs("torch")

import shoal  # noqa: E402
import stand_ins  # noqa: E402
from shoal import torch_ddp  # noqa: E402

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")


def run_example(package, file):
    """main() of an example on this rank; one hook with the codec was at work in every step."""
    os.environ["LOCAL_WORLD_SIZE"] = os.environ["WORLD_SIZE"]
    if importlib.util.find_spec(package) is None:
        stand_ins.install(package)
    hooks = []
    made = torch_ddp.Hook.__init__

    def remember(self, *arguments):
        hooks.append(self)
        made(self, *arguments)

    torch_ddp.Hook.__init__ = remember
    spec = importlib.util.spec_from_file_location("example", os.path.join(EXAMPLES, file))
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main()
    assert [hook.codec for hook in hooks] == ["eden:bits=2,ef"], hooks
    assert hooks[0].sequence > 100 and hooks[0].error is None
    torch.distributed.destroy_process_group()


class RecipesTest(launch.RanksTest):
    def trains(self, package, file):
        real = importlib.util.find_spec(package) is not None
        print(f"{file}: {'the real' if real else 'a stand-in for'} {package}", flush=True)
        ranks = lambda: run_example(package, file)  # noqa: E731
        printed = self.assert_ranks(ranks, ranks=2)
        accuracy = float(re.search(r"2 workers in .*: accuracy ([\d.]+) %", printed).group(1))
        self.assertGreater(accuracy, 90)

    def test_lightning(self):
        self.trains("lightning", "lightning_ddp.py")

    def test_accelerate(self):
        self.trains("accelerate", "accelerate_ddp.py")

    def test_hugging_face_trainer(self):
        self.trains("transformers", "hf_trainer_ddp.py")


if __name__ == "__main__":
    unittest.main()
