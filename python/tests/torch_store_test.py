#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A store that is older than the ranks: torchrun serves one that outlives those that it starts
again, with all that they have said in a former life. Here the store has that from the start, and
whoever could read it does so before the others say anything new."""

import datetime
import os
import socket
import unittest

import launch

launch.needs("numpy")
torch = launch.needs("torch")

import torch.distributed as dist  # noqa: E402

import shoal  # noqa: E402
from shoal import torch_process_group  # noqa: E402

PATIENCE = datetime.timedelta(seconds=60)
FORMER = ("shoal-group", "shoal--group")  # where groups found their names, with and without a life


class Hasty:
    """Rank 1's store: it reads what a former life has said, and only then says that it has asked;
    of what is new it says so before it waits."""

    def __init__(self, store):
        self.store = store

    def set(self, key, value):
        self.store.set(key, value)

    def get(self, key):
        value = self.store.get(key) if key in FORMER else None
        if key.endswith("group"):
            self.store.set("has asked", "yes")
        return self.store.get(key) if value is None else value


class Slow(Hasty):
    """Rank 0's store: it names the group when the others have asked how it is called."""

    def set(self, key, value):
        if key.endswith("group"):
            self.store.wait(["has asked"], PATIENCE)
        self.store.set(key, value)

    def get(self, key):
        return self.store.get(key)


def common_store():
    rank, port = int(os.environ["RANK"]), int(os.environ["MASTER_PORT"])
    store = torch_process_group.tcp_store("127.0.0.1", port, 2, rank == 0)
    store.set_timeout(PATIENCE)
    return store


def sum_of_ranks(group):
    tensor = torch.tensor([float(shoal.rank() + 1)])
    group.allreduce([tensor]).wait()
    return float(tensor)


def former_name():
    """Rank 1 asks for the group's name while the store has that of a former life."""
    rank, store = int(os.environ["RANK"]), common_store()
    if rank == 0:
        for key in FORMER:
            store.set(key, "former")
    store.set(f"ready {rank}", "yes")
    store.wait(["ready 0", "ready 1"], PATIENCE)
    mine = (Slow if rank == 0 else Hasty)(store)
    group = torch_process_group._create(mine, rank, 2, PATIENCE)
    assert sum_of_ranks(group) == 3


def former_place():
    """Ranks of a later life whose torchrun counts no restart, as the node has lost none: rank 1
    asks where rank 0 is while the store has the place of the former one."""
    rank, store = int(os.environ["RANK"]), common_store()
    os.environ["TORCHELASTIC_RESTART_COUNT"] = "0"
    if rank == 0:
        with socket.socket() as dead:
            dead.bind(("127.0.0.1", 0))
            place = f"tcp://127.0.0.1:{dead.getsockname()[1]}"
            store.set("shoal", f"{place}|{os.urandom(16).hex()}")
            store.wait(["has asked"], PATIENCE)
            group = torch_process_group._create(store, rank, 2, PATIENCE)
    else:
        store.wait(["shoal"], PATIENCE)
        group = torch_process_group._create(Asking(store), rank, 2, PATIENCE)
    assert sum_of_ranks(group) == 3


class Asking(Hasty):
    def get(self, key):
        value = self.store.get(key)
        if key == "shoal":
            self.store.set("has asked", "yes")
        return value


def lives():
    """Two lives in one process: each draws a word of its own."""
    rank, store, words = int(os.environ["RANK"]), common_store(), []
    for _ in range(2):
        group = torch_process_group._create(store, rank, 2, PATIENCE)
        assert sum_of_ranks(group) == 3
        words.append(shoal.comm().life)
        shoal.close()
    assert words[0] and words[1] and words[0] != words[1], words


class TorchStoreTest(launch.RanksTest):
    def test_the_name_of_a_former_life(self):
        self.assert_ranks(former_name, 2)

    def test_the_place_of_a_former_life(self):
        self.assert_ranks(former_place, 2)

    def test_each_life_has_a_word(self):
        self.assert_ranks(lives, 2)


if __name__ == "__main__":
    unittest.main()
