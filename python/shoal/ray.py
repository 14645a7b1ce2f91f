# SPDX-License-Identifier: Apache-2.0
"""Shoal in a cluster of Ray: `shoal.ray.run(function, n)`, one actor per rank in a placement group.

What the driver does with a place of the group:

    placing     an actor is made there, and tells its address and ports that it keeps
    joining     it meets the others at rank 0's; one that comes later knocks at the members' doors
    working     it calls the function
    done, lost  it has returned; or it is gone, and the place is given to another one

Ray Train's TorchTrainer needs none of this: shoal.ray.TorchConfig is its torch_config."""

import dataclasses
import importlib.util
import itertools
import logging
import os
import secrets
import time
from typing import Any, Callable, Dict, List, Optional

import ray
from ray.exceptions import RayActorError, RayError
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from . import _default
from ._comm import MEMBERSHIP
from ._errors import DeadlinePassed
from .launching import _OTHERS, RankFailed, reserved_port

_log = logging.getLogger("shoal.ray")
_jobs = itertools.count()
_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


@dataclasses.dataclass(frozen=True)
class Lost:
    """A worker that was lost. worker: its place in the group, 0 to n - 1; node: Ray's id of the
    node; host: that node's address; why: Ray's sentence, or the worker's own; after_s: seconds
    since the job began; replaced: whether another one came into the job in its place."""

    worker: int
    node: str
    host: str
    why: str
    after_s: float
    replaced: bool = False


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What run() gives. results: what the function returned, by worker (None where a lost one was
    not replaced); lost: in the order in which they were, [] if none was."""

    results: List[Any]
    lost: List[Lost]


def _at(address, port):
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


class _Worker:
    """The actor: a rank from the start, or one that comes later."""

    def place(self):
        """Where this is. Its ports stay bound, so that nobody else gets them before we listen."""
        self._kept = [reserved_port() for _ in range(3)]
        meeting, door, master = (kept.getsockname()[1] for kept in self._kept)
        address = ray.util.get_node_ip_address()
        return {
            "node": ray.get_runtime_context().get_node_id(),
            "host": address,
            "meeting": _at(address, meeting),
            "door": _at(address, door),
            "master": (address, master),
        }

    def join(self, settings, environment):
        """Enter the job; (rank, world size)."""
        for name in _OTHERS:
            os.environ.pop(name, None)
        comm = _default.init(**settings)
        os.environ.update(environment, RANK=str(comm.rank), WORLD_SIZE=str(comm.world_size))
        return comm.rank, comm.world_size

    def work(self, function, arguments):
        """What the function returns; the others hear of its end."""
        if importlib.util.find_spec("torch") is not None:  # we were imported before it
            from . import torch_process_group

            torch_process_group.register()
        try:
            return function(*arguments)
        finally:
            _default.close()


class _Member:
    """A place of the group as the driver sees it. stage: "placing", "joining", "working", "done",
    "lost", "unneeded"; late: it takes the place of a lost one."""

    def __init__(self, worker, actor, late):
        self.worker, self.actor, self.late = worker, actor, late
        self.stage, self.where = "placing", {"node": "?", "host": "?"}


class _Job:
    """The driver's side of one run()."""

    def __init__(self, call, n, group, options):
        self.call, self.n, self.group, self.options = call, n, group, options
        self.began = time.monotonic()
        self.left = options["replacements"]
        self.members = {}  # by their place in the group
        self.open = {}  # reference that we wait for: its member
        self.results, self.lost = [None] * n, []
        self.doors, self.first = [], {}  # first: where rank 0 was at the start
        self.settings = {
            "token": secrets.token_hex(16),
            "job": f"ray-{ray.get_runtime_context().get_job_id()}-{next(_jobs)}",
            "on_loss": options["on_loss"],
            "join_timeout": options["join_timeout"],
        }

    # ------------------------------------------------------------------ actors

    def start(self, worker, late=False):
        """An actor in this place of the group; Ray may have to find another node for it."""
        needs = dict(self.options["resources"])
        strategy = PlacementGroupSchedulingStrategy(
            self.group, placement_group_bundle_index=worker
        )
        options = {
            "num_cpus": needs.pop("CPU", 0),
            "num_gpus": needs.pop("GPU", 0),
            "memory": needs.pop("memory", None),
            "resources": needs,
            "scheduling_strategy": strategy,
            "max_restarts": 0,  # one that Ray starts again would not know where to join
            "runtime_env": self.options["runtime_env"],
        }
        actor = ray.remote(_Worker).options(**options).remote()
        member = self.members[worker] = _Member(worker, actor, late)
        self.open[actor.place.remote()] = member

    def _placed(self, member, where):
        member.where = where
        self.doors.insert(0, where["door"])
        if member.late:
            self._join(member)
        elif all(m.stage == "placing" and "door" in m.where for m in self._all()):
            self.first = self.members[0].where
            for each in self._all():
                self._join(each)

    def _join(self, member):
        member.stage = "joining"
        nodes = [m.where["node"] for _, m in sorted(self.members.items())]
        mine = [w for w, node in enumerate(nodes) if node == member.where["node"]]
        environment = {
            "MASTER_ADDR": self.first["master"][0],
            "MASTER_PORT": str(self.first["master"][1]),
            "LOCAL_RANK": str(mine.index(member.worker)),
            "LOCAL_WORLD_SIZE": str(len(mine)),
            "GROUP_RANK": str(sorted(set(nodes), key=nodes.index).index(member.where["node"])),
        }
        settings = dict(self.settings, rendezvous="tcp://" + self.first["meeting"])
        settings.update(rank=0 if member.late else member.worker, world_size=self.n)
        if self.settings["on_loss"] == "reform":
            settings.update(doors=",".join(self.doors), spare=member.late)
        self.open[member.actor.join.remote(settings, environment)] = member

    def _joined(self, member, place):
        member.stage = "working"
        _log.info("worker %d is rank %d of %d", member.worker, *place)
        if member.late:
            last = max(i for i, l in enumerate(self.lost) if l.worker == member.worker)
            self.lost[last] = dataclasses.replace(self.lost[last], replaced=True)
        self.open[member.actor.work.remote(*self.call)] = member

    def _done(self, member, result):
        member.stage = "done"
        self.results[member.worker] = result

    # ------------------------------------------------------------------ losses

    def _failed(self, member, error):
        """A call of an actor raised: what it means depends on what the actor was doing."""
        gone = isinstance(error, RayActorError)
        cause = getattr(error, "cause", None) or error
        if member.late and member.stage == "joining" and isinstance(cause, MEMBERSHIP):
            member.stage = "unneeded"  # the others are done
            _log.info("worker %d has not come back: %s", member.worker, cause)
            return
        apart = member.stage == "working" and isinstance(cause, MEMBERSHIP)
        goes_on = self.settings["on_loss"] == "reform" and (self._some("working") or apart)
        if not goes_on or not (gone or apart):
            kind = "is lost" if gone else "raised"
            text = f"worker {member.worker} on {member.where['host']} {kind}:\n{error}"
            raise RankFailed(text, member.worker) from (None if gone else cause)
        self._lose(member, str(cause).strip().splitlines()[0])

    def _lose(self, member, why):
        where = member.where
        if member.stage == "working":  # one that dies before is no loss of a worker
            after_s = time.monotonic() - self.began
            self.lost.append(Lost(member.worker, where["node"], where["host"], why, after_s))
        member.stage = "lost"
        _log.warning("worker %d on %s is lost: %s", member.worker, where["host"], why)
        if self._some("working") and self.left > 0:
            self.left -= 1
            ray.kill(member.actor)
            self.start(member.worker, late=True)

    # ------------------------------------------------------------------ until the end

    def _some(self, stage):
        return any(m.stage == stage for m in self._all())

    def _needed(self):
        """Whether somebody works, or the job has not begun."""
        begins = any(not m.late and m.stage in ("placing", "joining") for m in self._all())
        return begins or self._some("working")

    def _all(self):
        return self.members.values()

    def wait(self, timeout):
        """Until all that are in the job have returned."""
        go_on = {"placing": self._placed, "joining": self._joined, "working": self._done}
        end = None if timeout is None else self.began + timeout
        while self._needed():
            left = None if end is None else max(0.0, end - time.monotonic())
            ready, _ = ray.wait(list(self.open), num_returns=1, timeout=left)
            if not ready:
                missing = [str(w) for w, m in sorted(self.members.items()) if m.stage != "done"]
                raise DeadlinePassed(
                    f"workers {', '.join(missing)} have not returned within {timeout:g} s"
                )
            member = self.open.pop(ready[0])
            try:
                value = ray.get(ready[0])
            except RayError as error:
                self._failed(member, error)
            else:
                go_on[member.stage](member, value)
        if not self._some("done"):
            last = self.lost[-1]
            raise RankFailed(f"all workers are lost; the last: {last.why}", last.worker)
        return Outcome(self.results, self.lost)

    def end(self):
        for member in self._all():
            ray.kill(member.actor)


def _check(function, n, resources, strategy, on_loss, replacements):
    if not callable(function):
        raise TypeError(f"shoal.ray.run calls a function, not {type(function).__name__}")
    if not isinstance(n, int) or not 1 <= n <= 1024:
        raise ValueError(f"n is a number of workers from 1 to 1024, not {n!r}")
    if on_loss not in ("stop", "reform"):
        raise ValueError(f"on_loss is 'stop' or 'reform', not {on_loss!r}")
    if strategy not in _STRATEGIES:
        raise ValueError(f"strategy is one of {', '.join(_STRATEGIES)}, not {strategy!r}")
    if not isinstance(replacements, int) or replacements < 0:
        raise ValueError(f"replacements is a number of actors, not {replacements!r}")
    if not resources or any(amount <= 0 for amount in resources.values()):
        raise ValueError(f"resources of a worker are amounts above 0, not {resources!r}")


def _placed(n, resources, strategy, timeout):
    """The placement group, once the cluster has room for all of it."""
    group = ray.util.placement_group([resources] * n, strategy=strategy)
    if group.wait(timeout_seconds=timeout):
        return group
    ray.util.remove_placement_group(group)
    has = {name: ray.cluster_resources().get(name, 0) for name in resources}
    nodes = sum(node["Alive"] for node in ray.nodes())
    raise DeadlinePassed(
        f"no room for {n} workers of {resources} ({strategy}) within {timeout:g} s:"
        f" the cluster's {nodes} nodes have {has}",
        advice="Fewer workers, another strategy, or a larger join_timeout.",
    )


def run(
    function: Callable,
    n: int,
    *arguments: Any,
    resources: Optional[Dict[str, float]] = None,
    strategy: str = "SPREAD",
    on_loss: str = "stop",
    replacements: int = 3,
    timeout: Optional[float] = None,
    join_timeout: float = 60.0,
    runtime_env: Optional[dict] = None,
) -> Outcome:
    """Call function(*arguments) on n workers of Ray's cluster, which are the ranks of one job.

        def train(rate):
            model = shoal.ddp(Net(), codec="eden:bits=4,ef", on_loss="reform")
            optimizer = torch.optim.SGD(model.parameters(), rate)
            job = shoal.elastic(model, optimizer)
            ...
            return float(loss)
        outcome = shoal.ray.run(train, 4, 0.1, on_loss="reform")

    Called in Ray's driver, which connects to the cluster as Ray does (ray.init, RAY_ADDRESS). Each
    worker is an actor of its own in one placement group. resources: of one worker, in Ray's names
    ({"CPU": 1}); strategy: the group's. Function and arguments travel as Ray pickles them; shoal
    itself has to be installed on the nodes, or to come by runtime_env, which is Ray's. The job's
    token goes by Ray's own connections: between hosts they are as safe as Ray's (RAY_USE_TLS).

    on_loss="stop": a worker that dies ends the others. "reform": the others go on, and another
    actor takes its place, on another node if need be, at most `replacements` times in all; the
    function then has to use shoal.elastic (or Comm.reform). Without room for it they go on alone.
    A worker whose function ends with PeerLost (it was cut off) is replaced as well.

    timeout: seconds for all; join_timeout: until the cluster has room, and until all have joined.
    Raises RankFailed with what a worker raised, or why it was lost (the others are ended),
    DeadlinePassed after a timeout, ValueError for what cannot be. No actor outlives the call."""
    resources = {"CPU": 1.0} if resources is None else dict(resources)
    _check(function, n, resources, strategy, on_loss, replacements)
    options = {
        "resources": resources,
        "on_loss": on_loss,
        "replacements": replacements,
        "join_timeout": join_timeout,
        "runtime_env": runtime_env,
    }
    group = _placed(n, resources, strategy, join_timeout)
    job = _Job((function, arguments), n, group, options)
    try:
        for worker in range(n):
            job.start(worker)
        return job.wait(timeout)
    finally:
        job.end()
        ray.util.remove_placement_group(group)


def __getattr__(name):
    if name == "TorchConfig":  # needs PyTorch
        from .ray_torch import TorchConfig

        return TorchConfig
    raise AttributeError(f"module 'shoal.ray' has no attribute {name!r}")
