#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Shoal behind PyTorch Lightning: DDP's strategy, its module with Shoal's hook.

    shoal run -n 4 -- examples/lightning_ddp.py
"""

import os

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.strategies import DDPStrategy

import shoal


class ShoalStrategy(DDPStrategy):
    """Gradients in two bits each. Lightning's own ddp_comm_hook is for CUDA alone."""

    def configure_ddp(self):
        super().configure_ddp()
        shoal.ddp(self.model, codec="eden:bits=2,ef")


class Rings(LightningModule):
    """Points in a plane, labelled by the ring that they lie in."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)
        )

    def training_step(self, batch, _index):
        return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main():
    torch.manual_seed(0)
    torch.distributed.init_process_group("shoal")  # Lightning takes the group that is there
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    os.environ.setdefault("NODE_RANK", str(shoal.rank() // local))
    x = torch.randn(120 * 32 * shoal.world_size(), 2)
    rings = torch.utils.data.TensorDataset(x, (x.norm(dim=1) > 1.1).long())
    model = Rings()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    hosts = {"devices": local, "num_nodes": shoal.world_size() // local}
    trainer = Trainer(accelerator="cpu", strategy=ShoalStrategy(), max_epochs=1, **hosts, **quiet)
    trainer.fit(model, torch.utils.data.DataLoader(rings, batch_size=32))
    accuracy = 100 * (model.net(x).argmax(1) == rings.tensors[1]).float().mean()
    if shoal.rank() == 0:
        print(f"{shoal.world_size()} workers in Lightning: accuracy {accuracy:.1f} %")


if __name__ == "__main__":
    main()
