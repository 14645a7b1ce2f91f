#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two lines in PyTorch: gradients of DistributedDataParallel in two bits each.

    shoal run -n 4 -- examples/torch_ddp.py
"""

import torch

import shoal  # the first line


def batches(rank, steps, size=32):
    """Points in a plane, labelled by the ring that they lie in."""
    generator = torch.Generator().manual_seed(1 + rank)
    for _ in range(steps):
        x = torch.randn(size, 2, generator=generator)
        yield x, (x.norm(dim=1) > 1.1).long()


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(2, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 2),
    )
    model = shoal.ddp(model, codec="eden:bits=2,ef")  # the second
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for x, y in batches(shoal.rank(), steps=120):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    x, y = next(batches(rank=99, steps=1, size=2000))
    accuracy = 100 * (model(x).argmax(1) == y).float().mean()
    if shoal.rank() == 0:
        print(f"{shoal.world_size()} workers, 2 bits per gradient: accuracy {accuracy:.1f} %")


if __name__ == "__main__":
    main()
