#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Spares of `shoal run` in Python: one takes the place of a rank that is killed, with the others'
state; one that nobody needs ends with the job and changes nothing. (shoal.elastic does for a model
of PyTorch what `Member` does here: torch_elastic_test.py.)"""

import os
import signal
import subprocess
import sys
import unittest

import launch

np = launch.needs("numpy")

import shoal  # noqa: E402

RANKS, STEPS, KILL_AT, VICTIM = 3, 20, 4, 1
SHOAL = os.environ.get("SHOAL", "build/dev/shoal")
LOST = (shoal.PeerLost, shoal.EpochChanged)


class Member:
    """Counts steps that all make together, and adds one with each, however many they are."""

    def __init__(self):
        self.comm = shoal.Comm(on_loss="reform")
        self.state, self.since = np.zeros(2, np.float32), 0
        view = self.comm.view()
        if view.epoch > 0:  # a spare that has got a place
            self.go_on(view)

    def go_on(self, view):
        while True:
            try:
                self.comm.broadcast(self.state, root=view.done_rank)
                self.since = self.state[0]
                return
            except LOST:
                view = self.comm.reform(0)

    def step(self):
        try:
            if self.comm.reform_wanted():
                raise shoal.EpochChanged("somebody waits at the door")
            ones = np.ones(1, np.float32)
            self.comm.allreduce(ones, average=True)
        except LOST:
            self.go_on(self.comm.reform(int(self.state[0]) + 1))
        else:
            self.state += [1, ones[0]]


def main(dies):
    member = Member()
    comm, spare = member.comm, "SHOAL_SPARE" in os.environ

    def over():
        """With a death: once the spare has made five steps with the others."""
        if not dies:
            return member.state[0] == STEPS
        changed = comm.view().epoch > 0 and comm.world_size == RANKS
        return changed and member.state[0] == member.since + 5

    while not over():
        if dies and comm.view().epoch == 0 and member.state[0] == KILL_AT and comm.rank == VICTIM:
            os.kill(os.getpid(), signal.SIGKILL)
        member.step()
    assert member.state[0] == member.state[1], member.state
    comm.barrier()
    launch.say(f"{'spare' if spare else 'member'} of {comm.world_size}, "
               f"changed {member.since >= KILL_AT}")
    comm.close()


class SparesTest(unittest.TestCase):
    def job(self, how):
        words = [SHOAL, "run", "-n", RANKS, "--on-loss", "reform", "--spares", 1, "--",
                 sys.executable, __file__, how]
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=100,
                              check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        return sorted(done.stdout.splitlines()), done.stderr

    def test_a_spare_takes_the_place_of_the_killed(self):
        lines, said = self.job("dies")
        expected = [f"{who} of {RANKS}, changed True" for who in ("member", "member", "spare")]
        self.assertEqual(expected, lines, said)

    def test_one_that_nobody_needs_ends_with_the_job(self):
        lines, said = self.job("lives")
        self.assertEqual([f"member of {RANKS}, changed False"] * RANKS, lines, said)


if __name__ == "__main__":
    if sys.argv[1:] in (["dies"], ["lives"]):
        main(sys.argv[1] == "dies")
    else:
        unittest.main(verbosity=2)
