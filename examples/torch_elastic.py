#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Training that loses a worker and goes on: worker 1 kills itself in a backward pass, a spare takes
its place with the others' state.

    shoal run -n 3 --on-loss reform --spares 1 -- examples/torch_elastic.py
"""

import os
import signal

import torch

import shoal

STEPS, DIES_AT = 150, 40


def batch(step, rank, size=32):
    """Points in a plane, labelled by the ring that they lie in; others for each step and rank."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    x = torch.randn(size, 2, generator=generator)
    return x, (x.norm(dim=1) > 1.1).long()


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    model = shoal.ddp(model, codec="eden:bits=2,ef", on_loss="reform")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    job = shoal.elastic(model, optimizer)
    while job.step < STEPS:
        with job:  # one step; begun again with other workers if one is lost in it
            if job.step == DIES_AT and job.comm.view().epoch == 0 and shoal.rank() == 1:
                model.module[0].weight.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
            x, y = batch(job.step, shoal.rank())
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    x, y = batch(STEPS, rank=99, size=2000)
    accuracy = 100 * (model.module(x).argmax(1) == y).float().mean()
    if shoal.rank() == 0:
        print(
            f"{shoal.world_size()} workers at the end, accuracy {accuracy:.1f} %; {job.error.text}"
        )


if __name__ == "__main__":
    main()
