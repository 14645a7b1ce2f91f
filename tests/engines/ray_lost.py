# SPDX-License-Identifier: Apache-2.0
"""Ray's driver of a job that goes on without the workers of a lost node: ray_lost.py FOLDER. Worker
0 writes down each step that is done; the job ends when there is a file FOLDER/enough. Prints what
was lost, as JSON."""
import json
import os
import sys

import torch

import shoal.ray


def train(folder):
    torch.manual_seed(0)
    model = shoal.ddp(torch.nn.Linear(64, 64), on_loss="reform")
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    job = shoal.elastic(model, optimizer)
    enough = 0.0
    while enough == 0:
        with job:
            optimizer.zero_grad()
            model(torch.ones(4, 64)).square().mean().backward()
            optimizer.step()
            said = torch.tensor([float(os.path.exists(os.path.join(folder, "enough")))])
            shoal.allreduce(said)
            enough = float(said)
        if shoal.rank() == 0:
            with open(os.path.join(folder, "metrics.jsonl"), "a", encoding="ascii") as file:
                file.write(json.dumps({"step": job.step}) + "\n")
    return shoal.world_size()


def main():
    outcome = shoal.ray.run(train, 8, sys.argv[1], on_loss="reform", replacements=0, timeout=300)
    lost = [[one.worker, one.host] for one in outcome.lost]
    print(json.dumps({"workers": outcome.results[0], "lost": lost}))


if __name__ == "__main__":
    main()
