#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Members that change while PyTorch trains: a rank killed in backward(), the others go on with what
one process would compute from the batches of those who are there; a new one comes in with their
state; all that has the state lost is an error."""

import os
import signal
import time
import unittest

import launch

launch.needs("numpy")
torch = launch.needs("torch")

import torch.distributed as dist  # noqa: E402

import shoal  # noqa: E402

STEPS, KILL_AT, VICTIM = 12, 5, 1


class Net(torch.nn.Module):
    """A running statistic, which has to travel as well, beside several buckets of parameters."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(8)
        self.inner = torch.nn.Linear(8, 64)
        self.outer = torch.nn.Linear(64, 4)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(self.norm(x))))


def batch(step, rank, ranks):
    """This rank's part of the samples of a step: 12 for all, however many there are."""
    g = torch.Generator().manual_seed(step)
    x, y = torch.randn(12, 8, generator=g), torch.randint(0, 4, (12,), generator=g)
    part = slice(12 * rank // ranks, 12 * (rank + 1) // ranks)
    return x[part], y[part]


def make_ddp(**options):
    torch.manual_seed(os.getpid())
    model = shoal.ddp(Net(), on_loss="reform", bucket_cap_mb=0.002, **options)
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def make_wrapped():
    torch.manual_seed(os.getpid())
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return model, shoal.wrap(optimizer, on_loss="reform")


def is_late():
    return os.environ["SHOAL_LATE"] == "1"


def die_in_backward(job, model):
    """The victim's own process dies while gradients are made; the others note when it was."""
    if job.step == KILL_AT and job.reforms == 0:
        if job.comm.rank == VICTIM and not is_late():
            handle = model.outer.bias if hasattr(model, "outer") else model.module.outer.bias
            handle.register_hook(lambda g: os.kill(os.getpid(), signal.SIGKILL))
        return time.monotonic()
    return None


def train(model, optimizer, until, die=True):
    """Steps until `until(job)`; seconds from the step with the death to the next finished one."""
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)
    job = shoal.elastic(model, optimizer, schedule)
    began, stood = None, None
    while not until(job):
        with job:
            began = (die and die_in_backward(job, model)) or began
            x, y = batch(job.step, shoal.rank(), shoal.world_size())
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            before = job.step
            optimizer.step()
            schedule.step()
            if began is not None and job.reforms > 0 and stood is None:
                assert job.step == before + 1
                stood = time.monotonic() - began
    return job, stood


def assert_equal_replicas(model, job):
    for value in model.parameters():
        mine = value.detach().reshape(-1).clone()
        assert torch.equal(mine, job.comm.broadcast(mine.clone(), bits=True)), job.comm.rank
    job.comm.barrier()  # rank 0 is done with a broadcast before the last has entered it


def go_on(make):
    model, optimizer = make()
    job, stood = train(model, optimizer, lambda job: job.step == STEPS)
    assert job.reforms == 1 and job.comm.view().epoch == 1
    assert shoal.world_size() == int(os.environ["WORLD_SIZE"]) - 1
    assert isinstance(job.error, (shoal.PeerLost, shoal.EpochChanged)), repr(job.error)
    assert optimizer.state_dict()["state"][0]["step"] == STEPS
    assert_equal_replicas(model, job)
    launch.say("stood still %.3f s: %s" % (stood, str(job.error).splitlines()[0]))


def ddp_goes_on():
    go_on(make_ddp)
    total = torch.ones(3)
    dist.all_reduce(total)  # the process group follows
    left = int(os.environ["WORLD_SIZE"]) - 1
    assert dist.get_world_size() == left and (total == left).all()


def coded_ddp_goes_on():
    go_on(lambda: make_ddp(codec="eden:bits=4,ef"))


def wrapped_goes_on():
    go_on(make_wrapped)


def come_in(make):
    """Until the newcomer has made five steps with the others."""
    model, optimizer = make()

    def enough(job):
        changed = job.comm.view().epoch > 0
        return changed and shoal.world_size() == 3 and job.step == job.since + 5

    job, _ = train(model, optimizer, enough)
    assert_equal_replicas(model, job)
    if is_late():
        assert job.reforms == 0 and job.since >= KILL_AT and job.error is None
        launch.say("came in")


def ddp_takes_one_in():
    come_in(make_ddp)


def wrapped_takes_one_in():
    come_in(make_wrapped)


def same_as_one_process():
    """Elastic or not, sums are those of the whole batch."""
    model, optimizer = make_wrapped()
    job = shoal.elastic(model, optimizer)
    alone = Net()
    alone.load_state_dict(model.state_dict())
    other = torch.optim.Adam(alone.parameters(), lr=0.01)
    model.eval(), alone.eval()  # statistics of parts are not those of the whole
    while job.step < 4:
        with job:
            for net, opt, where in (
                (model, optimizer, (shoal.rank(), shoal.world_size())),
                (alone, other, (0, 1)),
            ):
                x, y = batch(job.step if net is model else job.step - 1, *where)
                opt.zero_grad()
                torch.nn.functional.cross_entropy(net(x), y).backward()
                opt.step()
    for mine, its in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(mine, its, atol=1e-5)


def wait_for(path):
    end = time.monotonic() + 150
    while not os.path.exists(path):
        assert time.monotonic() < end, path
        time.sleep(0.01)


def a_step_without_an_exchange_is_none():
    """A rank that reforms before the others' step ends it there: what follows an optimizer's step
    in the training loop (schedulers) must not run."""
    model, optimizer = make_wrapped()
    job = shoal.elastic(model, optimizer)
    begun = os.environ["SHOAL_RENDEZVOUS"][len("file://") :] + ".begun"
    if shoal.rank() == 0:
        wait_for(begun)  # what rank 1 begins with must not be what fails
        optimizer.shoal.close()
    else:
        open(begun, "x").close()
        x, y = batch(0, 1, 2)
        torch.nn.functional.cross_entropy(model(x), y).backward()
        before = [p.detach().clone() for p in model.parameters()]
        try:
            optimizer.step()
        except shoal.EpochChanged:
            assert job.step == 0 and all(map(torch.equal, before, model.parameters()))
        else:
            raise AssertionError("the step looks as if it had been made")
    job.comm.reform(1)


def what_does_not_fit():
    sgd, alone = torch.optim.SGD(Net().parameters(), 1), shoal.Comm("tcp://127.0.0.1:0", 0, 1)
    for call, word in (
        (lambda: shoal.wrap(sgd, "hop", on_loss="reform"), "all_reduce"),
        (lambda: shoal.init(on_loss="perhaps"), "'stop' or 'reform'"),
        (lambda: shoal.elastic(sgd, comm=alone), "fixed"),
        (lambda: alone.reform(), "fixed"),
        (lambda: shoal.elastic(Net()), "optimizer"),  # joins
    ):
        try:
            call()
        except (ValueError, TypeError) as error:
            assert word in str(error), error
        else:
            raise AssertionError(word)
    alone.close()


class TorchElasticTest(launch.RanksTest):
    def survive(self, main, says, replace=None):
        statuses, printed = launch.run(main, 3, replace=replace)
        expected = [0, -signal.SIGKILL, 0] + [0] * (replace is not None)
        self.assertEqual(expected, statuses, printed)
        self.assertEqual(says[1], printed.count(says[0]), printed)

    def test_ddp_goes_on_without_a_rank_killed_in_backward(self):
        self.survive(ddp_goes_on, ("stood still", 2))

    def test_a_codec_with_error_feedback_goes_on_too(self):
        self.survive(coded_ddp_goes_on, ("stood still", 2))

    def test_a_wrapped_optimizer_goes_on(self):
        self.survive(wrapped_goes_on, ("stood still", 2))

    def test_ddp_takes_a_new_rank_in(self):
        self.survive(ddp_takes_one_in, ("came in", 1), replace=VICTIM)

    def test_a_wrapped_optimizer_takes_a_new_rank_in(self):
        self.survive(wrapped_takes_one_in, ("came in", 1), replace=VICTIM)

    def test_sums_are_of_the_whole_batch(self):
        self.assert_ranks(same_as_one_process, ranks=2)

    def test_a_step_without_an_exchange_is_none(self):
        self.assert_ranks(a_step_without_an_exchange_is_none, ranks=2)

    def test_what_does_not_fit_is_said(self):
        self.assert_ranks(what_does_not_fit, ranks=2)


if __name__ == "__main__":
    unittest.main()
