#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Communicators and operations on arrays, against what NumPy says."""

import array
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import launch

numpy = launch.needs("numpy")

import shoal  # noqa: E402


def values(rank, count=1000):
    return numpy.random.default_rng(rank).standard_normal(count).astype(numpy.float32)


def operations():
    comm = shoal.comm()
    n, total = comm.world_size, sum(values(r).astype(float) for r in range(comm.world_size))
    x = values(comm.rank)
    assert shoal.allreduce(x) is x
    assert numpy.allclose(x, total, atol=1e-5)
    mean = shoal.allreduce(values(comm.rank).reshape(10, 100), average=True, collective="direct")
    assert numpy.allclose(mean, (total / n).reshape(10, 100), atol=1e-5)
    top = comm.allreduce(values(comm.rank), reduce="max")
    assert (top == numpy.maximum.reduce([values(r) for r in range(n)])).all()
    coded = comm.allreduce(values(comm.rank), codec="fp16")
    assert numpy.allclose(coded, total, atol=2e-2) and not (coded == total).all()
    assert (comm.broadcast(values(comm.rank), root=1) == values(1)).all()
    whole, mine = numpy.zeros(10, numpy.float32), comm.shard(10)
    whole[mine] = comm.rank + 1
    comm.allgather(whole)
    assert [whole[comm.shard(10, r)][0] for r in range(n)] == [r + 1 for r in range(n)]
    part = comm.reduce_scatter(numpy.arange(10, dtype=numpy.float32))
    assert (part[mine] == n * numpy.arange(10)[mine]).all()
    pair = numpy.full(4, comm.rank, numpy.float32)
    if comm.rank != 1:
        comm.allreduce(pair, members=[0, 2])
        assert (pair == 2).all()
    plain = array.array("f", [1, 2, 3])
    assert list(comm.allreduce(plain, average=True)) == [1, 2, 3]
    comm.barrier()


def futures():
    """Many operations at once, waited for in another order, by several threads."""
    comm = shoal.comm()
    arrays = [numpy.full(100, i + comm.rank, numpy.float32) for i in range(40)]
    started = [comm.start("all_reduce", a) for a in arrays]
    threads = [threading.Thread(target=f.result) for f in reversed(started)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    n = comm.world_size
    for i, a in enumerate(arrays):
        assert (a == n * i + n * (n - 1) / 2).all()
    cost = started[0].result()
    assert cost["seconds"] > 0 and cost["sent_bytes"] > 0


def mismatch():
    comm = shoal.comm()
    try:
        comm.allreduce(numpy.zeros(10 + comm.rank, numpy.float32))
    except shoal.Mismatch as error:
        assert "10" in error.text and error.status == "EMISMATCH"
    else:
        raise SystemExit("no mismatch")


def killed():
    comm = shoal.comm()
    begin = time.monotonic()
    try:
        comm.barrier()  # rank 1 may be through, and gone, before the others are
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            comm.allreduce(numpy.zeros(1000, numpy.float32))
    except shoal.PeerLost as error:
        assert error.rank == 1 and "rank 1" in str(error), error
        assert isinstance(error, ConnectionError) and time.monotonic() - begin < 60  # of 300
        launch.say(f"named {error.rank}")


def forked():
    comm = shoal.comm()
    comm.barrier()
    child = os.fork()
    if child == 0:
        try:
            comm.barrier()
        except shoal.Forked:
            comm.close()
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    comm.barrier()


def closed_early():
    """An operation that its peers never start ends with the communicator."""
    comm = shoal.comm()
    comm.barrier()
    if comm.rank == 0:
        left = comm.start("all_reduce", numpy.zeros(5, numpy.float32))
        comm.close()
        assert isinstance(left.exception(timeout=5), shoal.Error), left
        try:
            comm.barrier()
        except shoal.Cancelled:
            return
        raise SystemExit("a closed communicator works")
    time.sleep(0)


class CommTest(launch.RanksTest):
    def test_operations(self):
        self.assert_ranks(operations)

    def test_futures(self):
        self.assert_ranks(futures)

    def test_a_mismatch_is_told_to_all(self):
        self.assert_ranks(mismatch, ranks=2)

    def test_a_lost_rank_is_named(self):
        statuses, printed = launch.run(killed)
        self.assertEqual([0, -signal.SIGKILL, 0], statuses, printed)
        self.assertEqual(2, printed.count("named 1"), printed)

    def test_a_forked_child_is_told_and_the_parent_goes_on(self):
        self.assert_ranks(forked, ranks=2)

    def test_what_is_open_ends_with_the_communicator(self):
        self.assert_ranks(closed_early, ranks=2)

    def test_alone(self):
        with shoal.Comm() as comm:
            self.assertEqual((0, 1), (comm.rank, comm.world_size))
            x = numpy.ones(3, numpy.float32)
            self.assertIs(comm.allreduce(x, average=True), x)
            self.assertEqual([1, 1, 1], x.tolist())
        self.assertIn("closed", repr(comm))

    def test_what_cannot_travel_is_refused_with_a_reason(self):
        with shoal.Comm() as comm:
            for bad, why in (
                (numpy.zeros(3), "holds <f8"),
                (numpy.zeros((4, 4), numpy.float32)[:, ::2], "not contiguous"),
                (b"1234", "format 'B'"),
                ([1.0], "has no buffer"),
            ):
                with self.assertRaisesRegex(TypeError, why):
                    comm.allreduce(bad)
            frozen = numpy.zeros(3, numpy.float32)
            frozen.flags.writeable = False
            with self.assertRaisesRegex(TypeError, "read-only"):
                comm.allreduce(frozen)
            with self.assertRaisesRegex(shoal.InvalidArgument, "nope"):
                comm.allreduce(numpy.zeros(3, numpy.float32), codec="nope")

    def test_aggregators_are_in_the_view(self):
        """Those of `shoal run`, which sum, beside the ranks that they sum for."""
        program = (
            "import array, os, shoal\n"
            "x = array.array('f', [shoal.rank() + 1] * 500)\n"
            "shoal.allreduce(x, collective='omnireduce:dedicated')\n"
            "view = shoal.comm().view()\n"
            "line = f'{list(set(x))} {view.rank_count} {view.workers} {view.aggregators}\\n'\n"
            "os.write(1, line.encode())\n"  # at once: both write to one pipe
        )
        command = [os.environ.get("SHOAL", "build/dev/shoal"), "run", "-n", "2"]
        for aggregators in (1, 2):
            done = subprocess.run(
                [*command, "--aggregators", str(aggregators), "--", sys.executable, "-c", program],
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertEqual(2, done.stdout.count(f"[3.0] 2 2 {aggregators}"), done.stdout)

    def test_ranks_that_do_not_come_are_named(self):
        with self.assertRaisesRegex(shoal.DeadlinePassed, "rank 1"):
            shoal.Comm("tcp://127.0.0.1:0", rank=0, world_size=2, join_timeout=0.2)


if __name__ == "__main__":
    unittest.main()
