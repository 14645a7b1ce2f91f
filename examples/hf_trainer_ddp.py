#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Shoal behind Hugging Face's Trainer: the module that it trains gets Shoal's hook.

    shoal run -n 4 -- examples/hf_trainer_ddp.py
"""

import tempfile

import torch
from transformers import Trainer, TrainingArguments

import shoal


class ShoalTrainer(Trainer):
    """Gradients in two bits each: the hook is there before the first step."""

    def training_step(self, model, *rest, **options):
        wrapped = isinstance(model, torch.nn.parallel.DistributedDataParallel)
        if wrapped and not hasattr(model, "shoal"):
            shoal.ddp(model, codec="eden:bits=2,ef")
        return super().training_step(model, *rest, **options)


class Rings(torch.nn.Module):
    """Points in a plane, labelled by the ring that they lie in."""

    def __init__(self):
        super().__init__()
        layers = torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)
        self.net = torch.nn.Sequential(*layers)

    def forward(self, x, labels):
        scores = self.net(x)
        return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}


def main():
    torch.manual_seed(0)
    torch.distributed.init_process_group("shoal")  # the Trainer takes the group that is there
    x = torch.randn(120 * 32 * shoal.world_size(), 2)
    labels = (x.norm(dim=1) > 1.1).long()
    rings = [{"x": point, "labels": label} for point, label in zip(x, labels)]
    model = Rings()
    quiet = {"report_to": "none", "save_strategy": "no", "disable_tqdm": True, "use_cpu": True}
    with tempfile.TemporaryDirectory(prefix="shoal-trainer-") as folder:
        size = {"num_train_epochs": 1, "per_device_train_batch_size": 32, "learning_rate": 0.01}
        arguments = TrainingArguments(output_dir=folder, **size, **quiet)
        ShoalTrainer(model=model, args=arguments, train_dataset=rings).train()
    accuracy = 100 * (model.net(x).argmax(1) == labels).float().mean()
    if shoal.rank() == 0:
        print(f"{shoal.world_size()} workers in the Trainer: accuracy {accuracy:.1f} %")


if __name__ == "__main__":
    main()
