#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Training in a cluster of Ray that loses a worker and goes on: worker 1 is killed by Ray in the
middle, and another actor takes its place with the others' state.

    RAY_ADDRESS=auto examples/ray_elastic.py
"""

import ray
import torch

import shoal.ray

STEPS, DIES_AT = 150, 40


def batch(step, rank, size=32):
    """Points in a plane, labelled by the ring that they lie in; others for each step and rank."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    x = torch.randn(size, 2, generator=generator)
    return x, (x.norm(dim=1) > 1.1).long()


def train(rate):
    """On each worker. It may be called again, on another node, in the place of a lost one."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    model = shoal.ddp(model, codec="eden:bits=2,ef", on_loss="reform")
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    job = shoal.elastic(model, optimizer)
    while job.step < STEPS:
        with job:  # one step; begun again with other workers if one is lost in it
            if job.step == DIES_AT and job.comm.view().epoch == 0 and shoal.rank() == 1:
                ray.kill(ray.get_runtime_context().current_actor)
            x, y = batch(job.step, shoal.rank())
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    x, y = batch(STEPS, rank=99, size=2000)
    return float(100 * (model.module(x).argmax(1) == y).float().mean())


def main():
    outcome = shoal.ray.run(train, 3, 0.02, on_loss="reform")
    for lost in outcome.lost:
        print(f"worker {lost.worker} on node {lost.node} is lost after {lost.after_s:.1f} s")
    print(f"accuracy {outcome.results[0]:.1f} %")


if __name__ == "__main__":
    main()
