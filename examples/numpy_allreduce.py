#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The mean of NumPy arrays over all ranks, as float32 and in half the bytes.

    shoal run -n 4 -- examples/numpy_allreduce.py
"""

import numpy

import shoal


def main():
    comm = shoal.comm()
    mine = numpy.random.default_rng(comm.rank).standard_normal(100_000).astype(numpy.float32)
    exact = comm.allreduce(mine.copy(), average=True)
    half = comm.allreduce(mine.copy(), average=True, codec="fp16")
    wanted = numpy.mean(
        [numpy.random.default_rng(r).standard_normal(100_000) for r in range(comm.world_size)], 0
    )
    error = abs(exact - wanted).max(), abs(half - wanted).max()
    if comm.rank == 0:
        print(f"{comm.world_size} ranks: largest error {error[0]:.1e}, with fp16 {error[1]:.1e}")
    if error[0] > 1e-6 or error[1] > 5e-3:
        raise SystemExit("wrong mean")


if __name__ == "__main__":
    main()
