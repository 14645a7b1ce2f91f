#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Shoal behind Ray Train: the trainer's workers get the process group "shoal", and the module that
prepare_model() makes gets Shoal's hook.

    RAY_ADDRESS=auto examples/ray_train_ddp.py
"""

import ray.train
import ray.train.torch
import torch

import shoal.ray


def loop(config):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    model = shoal.ddp(ray.train.torch.prepare_model(net), codec="eden:bits=2,ef")
    optimizer = torch.optim.Adam(model.parameters(), lr=config["rate"])
    generator = torch.Generator().manual_seed(shoal.rank())
    for _ in range(150):  # points in a plane, labelled by the ring that they lie in
        x = torch.randn(32, 2, generator=generator)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), (x.norm(dim=1) > 1.1).long()).backward()
        optimizer.step()
    x = torch.randn(2000, 2, generator=generator)
    accuracy = 100 * (net(x).argmax(1) == (x.norm(dim=1) > 1.1)).float().mean()
    ray.train.report({"accuracy": float(accuracy)})
    return shoal.world_size(), torch.distributed.get_backend(), float(accuracy)


def main():
    trainer = ray.train.torch.TorchTrainer(
        loop,
        train_loop_config={"rate": 0.01},
        torch_config=shoal.ray.TorchConfig(),
        scaling_config=ray.train.ScalingConfig(num_workers=2, placement_strategy="SPREAD"),
    )
    workers, group, accuracy = trainer.fit().return_value
    print(f"{workers} workers in Ray Train, group {group}: accuracy {accuracy:.1f} %")


if __name__ == "__main__":
    main()
