#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Shoal behind Hugging Face Accelerate: the module that prepare() makes gets Shoal's hook.

    shoal run -n 4 -- examples/accelerate_ddp.py
"""

import torch
from accelerate import Accelerator

import shoal


def main():
    torch.manual_seed(0)
    torch.distributed.init_process_group("shoal")  # Accelerate takes the group that is there
    accelerator = Accelerator(cpu=True)
    # Points in a plane, labelled by the ring that they lie in.
    x = torch.randn(120 * 32 * shoal.world_size(), 2)
    rings = torch.utils.data.TensorDataset(x, (x.norm(dim=1) > 1.1).long())
    net = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    model, optimizer, loader = accelerator.prepare(
        net,
        torch.optim.Adam(net.parameters(), lr=0.01),
        torch.utils.data.DataLoader(rings, batch_size=32),
    )
    shoal.ddp(model, codec="eden:bits=2,ef")
    for points, labels in loader:
        optimizer.zero_grad()
        accelerator.backward(torch.nn.functional.cross_entropy(model(points), labels))
        optimizer.step()
    accuracy = 100 * (net(x).argmax(1) == rings.tensors[1]).float().mean()
    if shoal.rank() == 0:
        print(f"{shoal.world_size()} workers in Accelerate: accuracy {accuracy:.1f} %")


if __name__ == "__main__":
    main()
