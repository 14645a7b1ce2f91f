# SPDX-License-Identifier: Apache-2.0
"""One rank of a training by one way; `run` beside it starts the ranks and reads what rank 0 says.

    rank.py WAY --model conv|transformer --steps N --seed S [--data FOLDER] [--kill STEP]

The last line of rank 0 is JSON: a row for each look at the test set (step, loss, seconds, bytes,
cpu_s). A look does not count: seconds and CPU seconds are of steps alone; bytes are all that this
rank's host has sent in the lab. With --kill rank 1 kills itself in that step, and every survivor
says how long after that its next step (or exchange, with DiLoCo) was done."""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["GLOO_SOCKET_IFNAME"] = "eth0" if "SHOAL_LAB" in os.environ else "lo"
os.environ["USE_LIBUV"] = "0"  # Debian 13's PyTorch was built without

import torch  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
import models  # noqa: E402
import ways  # noqa: E402


def say(found):
    """A line in one piece, whatever other ranks say at the same time."""
    sys.stdout.flush()
    os.write(1, f"{json.dumps(found)}\n".encode())


def sent_bytes():
    """What this rank's host in the lab has sent; None elsewhere, where others send, too."""
    if "SHOAL_LAB" not in os.environ:
        return None
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == "eth0":
            return int(rest.split()[8])
    return None


class Clock:
    """Seconds and CPU seconds of steps."""

    def __init__(self):
        self.seconds = self.cpu_s = 0.0

    def __enter__(self):
        self.began = time.perf_counter(), time.process_time()

    def __exit__(self, *exception):
        self.seconds += time.perf_counter() - self.began[0]
        self.cpu_s += time.process_time() - self.began[1]


def train(way, task, options):
    rows, clock, before = [], Clock(), sent_bytes()
    for step in range(options.steps):
        with clock:
            way.step(*task.batch(step, way.rank, way.ranks))
        if (step + 1) % options.every == 0:
            sent = sent_bytes()
            rows.append(
                {
                    "step": step + 1,
                    "loss": round(task.test_loss(way.model), 5),
                    "seconds": round(clock.seconds, 4),
                    "bytes": None if sent is None else sent - before,
                    "cpu_s": round(clock.cpu_s, 4),
                }
            )
    way.finish()
    return rows


def survive(way, task, options):
    """Seconds between the death of rank 1 and the end of this rank's next step that was done."""
    mark = Path(options.mark)
    while True:
        done = way.exchanges()
        if done >= options.kill and way.rank == 1 and os.environ["RANK"] == "1":
            mark.with_suffix(".new").write_text(repr(time.time()))
            os.replace(mark.with_suffix(".new"), mark)
            os.kill(os.getpid(), signal.SIGKILL)
        way.step(*task.batch(way.steps(), way.rank, way.ranks))
        if way.exchanges() > done and mark.exists():
            died = float(mark.read_text())
            if way.began > died:  # the step that was begun before does not count
                return time.time() - died


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=ways.WAYS)
    parser.add_argument("--model", choices=models.TASKS, default="conv")
    parser.add_argument("--data")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--every", type=int, default=10, help="steps between looks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kill", type=int, help="rank 1 dies after so many exchanges")
    parser.add_argument("--mark", help="with --kill: a file that says when")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    task = models.TASKS[options.model](options)
    way = ways.WAYS[options.way](task.model(), task.rate)
    if options.kill is not None:
        say({"survived_s": round(survive(way, task, options), 3)})
        way.leave()
        return
    rows = train(way, task, options)
    if way.rank == 0:
        parameters = sum(p.numel() for p in way.model.parameters())
        say({"parameters": parameters, "rows": rows})
    way.leave()


if __name__ == "__main__":
    main()
