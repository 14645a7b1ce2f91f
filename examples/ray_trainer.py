#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Shoal's own trainer on 8 workers of a cluster of Ray, 2 on each node: what `shoal run -n 8 --
shoal train` does elsewhere. The data set and the run folder lie where all nodes see them.

    RAY_ADDRESS=auto examples/ray_trainer.py DATA OUT
"""

import os
import sys

import shoal.ray


def train(data, out):
    result = shoal.train("lenet", data, batch=16, epochs=2, out=out)
    return result.train_loss, result.steps


def main():
    data, out = (os.path.abspath(name) for name in sys.argv[1:])
    outcome = shoal.ray.run(train, 8, data, out, timeout=600)
    loss, steps = outcome.results[0]
    print(f"8 workers, {steps} steps: training loss {loss:.6f}")


if __name__ == "__main__":
    main()
