#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""DiLoCo in PyTorch: workers speak once in 20 steps, without DistributedDataParallel.

    shoal run -n 4 -- examples/torch_diloco.py
"""

import torch

import shoal


def batches(rank, steps, size=32):
    """Points in a plane, labelled by the ring that they lie in."""
    generator = torch.Generator().manual_seed(1 + rank)
    for _ in range(steps):
        x = torch.randn(size, 2, generator=generator)
        yield x, (x.norm(dim=1) > 1.1).long()


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    optimizer = shoal.wrap(optimizer, sync="diloco:every=20")
    for x, y in batches(shoal.rank(), steps=200):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    optimizer.finish()
    x, y = next(batches(rank=99, steps=1, size=2000))
    accuracy = 100 * (model(x).argmax(1) == y).float().mean()
    if shoal.rank() == 0:
        print(f"{shoal.world_size()} workers, 10 exchanges in 200 steps: accuracy {accuracy:.1f} %")


if __name__ == "__main__":
    main()
