#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shoal.ray in a real Ray of a head and three nodes, all on this machine: ranks on several nodes;
an actor that Ray kills is replaced and joins, a node that is lost is named, and the model is in the
end what one process makes of the same batches; what cannot go on is said. Ray Train's TorchTrainer
with shoal.ddp. (make check-frameworks installs Ray; elsewhere the file is skipped.)"""

import contextlib
import importlib.util
import io
import os
import re
import runpy
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

if importlib.util.find_spec("ray") is None:
    print("skipped: no Ray (make check-frameworks installs it)")
    sys.exit(77)
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DEDUP_LOGS="0")
# All is on this machine, which may have fifty times more to do than cores; Ray's workers are nice.
os.environ.update(RAY_health_check_period_ms="1000", RAY_health_check_failure_threshold="20")
os.environ.update(RAY_worker_niceness="0")

import ray  # noqa: E402
import torch  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

import shoal  # noqa: E402
import shoal.ray  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SHOAL = os.environ.get("SHOAL", "build/release/shoal")
STEPS, DIES_AT, WAIT_S = 12, 4, 240.0


def batch(step, rank, ranks):
    """This rank's part of the samples of a step: 12 for all, however many there are."""
    g = torch.Generator().manual_seed(step)
    x, y = torch.randn(12, 8, generator=g), torch.randint(0, 4, (12,), generator=g)
    part = slice(12 * rank // ranks, 12 * (rank + 1) // ranks)
    return x[part], y[part]


def net():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))


def step_of(model, optimizer, x, y):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()


def one_process():
    """What the model is after all steps, in plain PyTorch."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(STEPS):
        step_of(model, optimizer, *batch(step, 0, 1))
    return flat(model)


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).tolist()


def train(dies, goes_on):
    """Steps of an elastic job. dies(): called by worker 1 in the middle; goes_on(job): whether to
    wait for others before the step behind it."""
    model = shoal.ddp(net(), on_loss="reform")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    job = shoal.elastic(model, optimizer)
    while job.step < STEPS:
        with job:
            if job.step == DIES_AT and job.comm.view().epoch == 0 and shoal.rank() == 1:
                dies()
            if job.step == DIES_AT + 1:
                wait_for(lambda: job.comm.reform_wanted() or goes_on(job))
                if job.comm.reform_wanted():
                    raise shoal.EpochChanged("somebody waits at the door")
            step_of(model, optimizer, *batch(job.step, shoal.rank(), shoal.world_size()))
    assert job.step == STEPS
    return flat(model.module), job.since, shoal.world_size()


def wait_for(condition):
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.02)


def killed_by_ray():
    ray.kill(ray.get_runtime_context().current_actor)
    time.sleep(WAIT_S)  # it comes when Ray comes to it


def facts():
    total = torch.full((5,), float(shoal.rank() + 1))
    shoal.allreduce(total)
    torch.distributed.init_process_group("shoal")
    highest = torch.tensor([shoal.rank()])
    torch.distributed.all_reduce(highest, torch.distributed.ReduceOp.MAX)
    node = ray.get_runtime_context().get_node_id()
    names = ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    return shoal.rank(), total.tolist(), int(highest), node, [os.environ[n] for n in names]


def fails(how):
    if shoal.rank() == 1:
        how()
    shoal.barrier(timeout=WAIT_S)


def raises():
    raise LookupError("no such thing")


def own_trainer(data):
    result = shoal.train("lenet", data, steps=5, batch=16)
    return result.train_loss, result.workers


class RayTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        head = {"num_cpus": 0, "include_dashboard": False}
        cls.cluster = Cluster(initialize_head=True, head_node_args=head)
        cls.nodes = [cls.another_node() for _ in range(3)]
        ray.init(address=cls.cluster.address, log_to_driver=False)
        os.environ["RAY_ADDRESS"] = cls.cluster.address
        cls.addClassCleanup(cls.cluster.shutdown)
        cls.addClassCleanup(ray.shutdown)

    @classmethod
    def another_node(cls):
        """Ray gives a node 30 seconds to start in, whatever else this machine does."""
        for left in reversed(range(5)):
            try:
                return cls.cluster.add_node(num_cpus=2)
            except Exception as error:
                if "timed out" not in str(error) or left == 0:
                    raise

    def assert_same_model(self, results, expected):
        for result in results:
            self.assertLess(max(abs(a - b) for a, b in zip(result[0], expected)), 1e-5)

    def test_ranks_are_on_several_nodes(self):
        outcome = shoal.ray.run(facts, 3, strategy="STRICT_SPREAD", timeout=WAIT_S)
        self.assertEqual([], outcome.lost)
        self.assertEqual([0, 1, 2], [r[0] for r in outcome.results])
        self.assertEqual(3, len({r[3] for r in outcome.results}))
        for rank, (_, total, highest, _, names) in enumerate(outcome.results):
            self.assertEqual(([6.0] * 5, 2, ["0", "1", str(rank)]), (total, highest, names))

    def test_ranks_of_one_node_know_it(self):
        outcome = shoal.ray.run(facts, 2, strategy="STRICT_PACK", timeout=WAIT_S)
        names = [result[4] for result in outcome.results]
        self.assertEqual([["0", "2", "0"], ["1", "2", "0"]], names)

    def test_an_actor_that_ray_kills_is_replaced_and_joins(self):
        full = lambda job: job.comm.view().epoch > 0 and shoal.world_size() == 3  # noqa: E731
        options = {"strategy": "STRICT_SPREAD", "on_loss": "reform", "timeout": WAIT_S}
        outcome = shoal.ray.run(train, 3, killed_by_ray, full, **options)
        (lost,) = outcome.lost
        self.assertEqual((1, True), (lost.worker, lost.replaced), outcome.lost)
        self.assertIn(lost.node, [node.node_id for node in self.nodes])
        self.assertEqual([3, 3, 3], [result[2] for result in outcome.results])
        self.assertGreaterEqual(outcome.results[1][1], DIES_AT)  # the newcomer's first step
        self.assert_same_model(outcome.results, one_process())

    def test_a_lost_node_is_named_and_its_worker_comes_back_on_another(self):
        folder = tempfile.mkdtemp(prefix="shoal-ray-")
        word = os.path.join(folder, "here")

        def tell():
            Path(word + ".new").write_text(ray.get_runtime_context().get_node_id())
            os.rename(word + ".new", word)
            time.sleep(WAIT_S)  # until the node's end

        def remove():
            wait_for(lambda: os.path.exists(word))
            name = Path(word).read_text()
            (node,) = [node for node in self.nodes if node.node_id == name]
            self.nodes.remove(node)
            self.cluster.remove_node(node, allow_graceful=False)

        self.nodes.append(self.another_node())  # where the worker is to go
        thread = threading.Thread(target=remove)
        thread.start()
        full = lambda job: job.comm.view().epoch > 0 and shoal.world_size() == 3  # noqa: E731
        options = {"strategy": "STRICT_SPREAD", "on_loss": "reform", "timeout": WAIT_S}
        outcome = shoal.ray.run(train, 3, tell, full, **options)
        thread.join()
        self.assertEqual([(1, True)], [(lost.worker, lost.replaced) for lost in outcome.lost])
        self.assertEqual(Path(word).read_text(), outcome.lost[0].node)
        self.assertNotIn(outcome.lost[0].node, [node.node_id for node in self.nodes])
        self.assert_same_model(outcome.results, one_process())

    def test_without_replacements_the_others_go_on_alone(self):
        fewer = lambda job: shoal.world_size() == 2  # noqa: E731
        outcome = shoal.ray.run(
            train, 3, killed_by_ray, fewer, on_loss="reform", replacements=0, timeout=WAIT_S
        )
        self.assertEqual([(1, False)], [(lost.worker, lost.replaced) for lost in outcome.lost])
        self.assertIsNone(outcome.results[1])
        self.assert_same_model([r for r in outcome.results if r], one_process())

    def test_what_ends_a_job_is_said(self):
        with self.assertRaisesRegex(shoal.RankFailed, "worker 1 on .* raised") as caught:
            shoal.ray.run(fails, 2, raises, timeout=WAIT_S)
        self.assertIsInstance(caught.exception.__cause__, LookupError)
        self.assertEqual(1, caught.exception.rank)
        with self.assertRaisesRegex(shoal.RankFailed, "worker 1 on .* is lost|PeerLost"):
            shoal.ray.run(fails, 2, killed_by_ray, timeout=WAIT_S)
        with self.assertRaisesRegex(shoal.DeadlinePassed, r"no room for 8 workers .* \d nodes"):
            shoal.ray.run(facts, 8, strategy="STRICT_SPREAD", join_timeout=1)
        with self.assertRaisesRegex(shoal.DeadlinePassed, "have not returned within 1 s"):
            shoal.ray.run(time.sleep, 1, WAIT_S, timeout=1)
        for words, call in {
            "calls a function": lambda: shoal.ray.run("train", 2),
            "from 1 to 1024": lambda: shoal.ray.run(facts, 0),
            "'stop' or 'reform'": lambda: shoal.ray.run(facts, 2, on_loss="perhaps"),
            "PACK, SPREAD": lambda: shoal.ray.run(facts, 2, strategy="wide"),
            "amounts above 0": lambda: shoal.ray.run(facts, 2, resources={"CPU": 0}),
            "a number of actors": lambda: shoal.ray.run(facts, 2, replacements=-1),
            "'shoal' or": lambda: shoal.ray.TorchConfig(backend="gloo"),
        }.items():
            with self.assertRaisesRegex((TypeError, ValueError), words):
                call()

    def test_the_own_trainer_gives_the_losses_of_shoal_launch(self):
        with tempfile.TemporaryDirectory(prefix="shoal-ray-") as folder:
            data = os.path.join(folder, "digits")
            make = [SHOAL, "data", "digits", "--out", data, "--train", "400", "--test", "50"]
            subprocess.run(make + ["--quiet"], check=True)
            ours = shoal.ray.run(own_trainer, 2, data, timeout=WAIT_S).results
            self.assertEqual(shoal.launch(own_trainer, 2, data, timeout=WAIT_S), ours)

    def example(self, name):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return out.getvalue()

    def test_the_elastic_example(self):
        printed = self.example("ray_elastic.py")
        self.assertRegex(printed, "^worker 1 on node [0-9a-f]+ is lost")
        self.assertGreater(float(re.search(r"accuracy ([\d.]+) %", printed)[1]), 90)

    def test_ray_train(self):
        printed = self.example("ray_train_ddp.py")
        found = re.search(r"2 workers in Ray Train, group shoal: accuracy ([\d.]+) %", printed)
        self.assertIsNotNone(found, printed)
        self.assertGreater(float(found[1]), 90, printed)


if __name__ == "__main__":
    unittest.main()
