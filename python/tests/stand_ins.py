# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for PyTorch Lightning, Accelerate and Hugging Face's Trainer, which Debian 12 lacks:
what of them the examples call, in the order in which the real ones call back. Like those, they take
the process group that is there, deal the samples to ranks and wrap the module in DDP."""

import sys
import types

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def dealt(loader):
    """The loader with every rank's own part of the samples."""
    if not dist.is_initialized() or dist.get_backend() != "shoal":
        raise AssertionError("no process group of Shoal's was there")
    sampler = DistributedSampler(loader.dataset)
    return DataLoader(loader.dataset, batch_size=loader.batch_size, sampler=sampler)


class DDPStrategy:
    """lightning.pytorch.strategies.DDPStrategy: setup() calls configure_ddp()."""

    model = None

    def setup(self, trainer):
        self.model = trainer.module
        self.configure_ddp()

    def configure_ddp(self):
        self.model = DistributedDataParallel(self.model)


class _Redirected(torch.nn.Module):
    """DDP calls forward(); Lightning's is training_step()."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *arguments):
        return self.module.training_step(*arguments)


class LightningTrainer:
    """lightning.pytorch.Trainer with automatic optimisation."""

    def __init__(self, accelerator, strategy, max_epochs, devices, num_nodes, **quiet):
        assert accelerator == "cpu" and not any(quiet.values())
        assert devices * num_nodes == dist.get_world_size()
        self.strategy, self.max_epochs, self.module = strategy, max_epochs, None

    def fit(self, model, loader):
        self.module = _Redirected(model)
        self.strategy.setup(self)
        optimizer = model.configure_optimizers()
        for _ in range(self.max_epochs):
            for index, batch in enumerate(dealt(loader)):
                optimizer.zero_grad()
                self.strategy.model(batch, index).backward()
                optimizer.step()


class Accelerator:
    """accelerate.Accelerator on the CPU."""

    def __init__(self, cpu):
        assert cpu

    def prepare(self, model, optimizer, loader):
        return DistributedDataParallel(model), optimizer, dealt(loader)

    def backward(self, loss):
        loss.backward()


class TrainingArguments(types.SimpleNamespace):
    """transformers.TrainingArguments: what the example sets."""


class HfTrainer:
    """transformers.Trainer: training_step(model, inputs, number of items) for each batch."""

    def __init__(self, model, args, train_dataset):
        self.model, self.args, self.data = model, args, train_dataset
        self.accelerator = Accelerator(cpu=args.use_cpu)

    def train(self):
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.args.learning_rate)
        loader = DataLoader(self.data, batch_size=self.args.per_device_train_batch_size)
        model, optimizer, loader = self.accelerator.prepare(self.model, optimizer, loader)
        for _ in range(self.args.num_train_epochs):
            for inputs in loader:
                self.training_step(model, inputs, None)
                optimizer.step()
                model.zero_grad()

    def training_step(self, model, inputs, num_items_in_batch=None):
        loss = model(**inputs)["loss"]
        self.accelerator.backward(loss)
        return loss.detach()


def install(name):
    """Put the stand-in for a package where import finds it."""

    def module(path, **contents):
        made = sys.modules[path] = types.ModuleType(path)
        vars(made).update(contents)
        return made

    if name == "lightning":
        strategies = module("lightning.pytorch.strategies", DDPStrategy=DDPStrategy)
        parts = {"LightningModule": torch.nn.Module, "Trainer": LightningTrainer}
        inner = module("lightning.pytorch", strategies=strategies, **parts)
        module("lightning", pytorch=inner)
    elif name == "accelerate":
        module("accelerate", Accelerator=Accelerator)
    else:
        module("transformers", Trainer=HfTrainer, TrainingArguments=TrainingArguments)
