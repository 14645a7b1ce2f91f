# SPDX-License-Identifier: Apache-2.0
"""What claims share that hold a simulation beside a lab: commands, a calibration of this machine
that is made once and frozen, a cluster file for `shoal sim` with the lab's links."""

import json
import os
import subprocess

from simulated import SHOAL

CALIBRATION_MBIT = 200


def links(mbit):
    """Keys of --lab for links as simulated ones are: nothing above the rate, nothing dropped.

    tbf's burst of 96 KiB would let a small model through a slow link for nothing, and its queue of
    a megabyte makes TCP send again; a burst of less than 6.5 ms of a fast link loses rate."""
    return f"rate={mbit:.4f}mbit,burst={round(min(max(0.8 * mbit, 16), 96))},limit=8192"


class Cannot(Exception):
    """This machine can make no lab."""


def run(*arguments):
    """The JSON object that a command prints."""
    done = subprocess.run(
        [SHOAL, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode == 77:
        raise Cannot(done.stderr.strip())
    if done.returncode != 0:
        raise SystemExit(f"shoal {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def digits(folder, train=2000):
    """A data set for real workers, made once."""
    data = os.path.join(folder, f"digits-{train}")
    if not os.path.exists(os.path.join(data, "train-images-idx3-ubyte")):
        run("data", "digits", "--out", data, "--train", train, "--test", 200, "--json")
    return data


def calibrated(cells, model, batch):
    """What this machine takes, measured once and kept: accelerators, overhead, optimiser."""

    def measure():
        path = os.path.join(cells.folder, "calibrated.json")
        link = ("--lab", links(CALIBRATION_MBIT), "--ranks", 4)
        run("calibrate", *link, "--models", model, "--batches", batch, "--out", path, "--json")
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        return {
            "accelerators": found["accelerators"],
            "overhead": found["overhead"],
            "update_ms": found["profiles"][0]["update_us"] / 1e3,
        }

    return cells.get(["calibration", links(CALIBRATION_MBIT), model, batch], measure)


def cluster(folder, machine, hosts, mbit):
    """Path of a cluster file: four workers of the calibrated machine behind such links."""
    path = os.path.join(folder, "lab.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(
            {
                "name": "lab",
                "accelerators": machine["accelerators"],
                "hosts": [{"count": hosts, "workers": 4 // hosts, "nic": f"{mbit:.6f}mbit"}],
                "overhead": machine["overhead"],
            },
            file,
        )
    return path
