# SPDX-License-Identifier: Apache-2.0
"""The ways to train one model on all ranks: WAYS[name](model, rate). A way has model, rank, ranks,
step(x, y), finish(), leave(); steps() and exchanges() count what is done; began is when its last
step did."""

import datetime
import os
import socket
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

EVERY = 16  # steps between two exchanges of DiLoCo
OUTER = {"lr": 0.7, "momentum": 0.9}
PATIENCE = datetime.timedelta(seconds=120)


class Way:
    def __init__(self, model, rate):
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.done, self.began = 0, 0.0
        self.start(model, rate)

    def step(self, x, y):
        self.began = time.time()
        self.optimizer.zero_grad(set_to_none=False)
        self.model(x, y).backward()
        self.optimizer.step()
        self.done += 1

    def steps(self):
        return self.done

    exchanges = steps

    def finish(self):
        pass

    def leave(self):
        if dist.is_initialized():
            dist.barrier()
            dist.destroy_process_group()


class Gloo(Way):
    def start(self, model, rate):
        dist.init_process_group("gloo", timeout=PATIENCE)
        self.model = DistributedDataParallel(model)
        self.optimizer = torch.optim.Adam(self.model.parameters(), rate)


class Fp16(Gloo):
    def start(self, model, rate):
        super().start(model, rate)
        self.model.register_comm_hook(None, default_hooks.fp16_compress_hook)


class PowerSgd(Gloo):
    def start(self, model, rate):
        # All in one bucket: of two the second and third all-reduces start in whatever order
        # callbacks of Gloo's threads come, another one on every rank, and the process aborts.
        first, dist._DEFAULT_FIRST_BUCKET_BYTES = dist._DEFAULT_FIRST_BUCKET_BYTES, 1 << 30
        super().start(model, rate)
        dist._DEFAULT_FIRST_BUCKET_BYTES = first
        state = powerSGD_hook.PowerSGDState(None, 2, start_powerSGD_iter=2)
        self.model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


class ShoalIdentity(Way):
    codec, collective = None, None

    def start(self, model, rate):
        import shoal

        self.model = shoal.ddp(model, codec=self.codec, collective=self.collective)
        self.optimizer = torch.optim.Adam(self.model.parameters(), rate)

    def leave(self):
        import shoal

        shoal.close()


class ShoalEden(ShoalIdentity):
    codec, collective = "eden:bits=4", "direct"


class ShoalElastic(ShoalIdentity):
    def start(self, model, rate):
        import shoal

        self.model = shoal.ddp(model, codec="eden:bits=4", on_loss="reform")
        self.optimizer = torch.optim.Adam(self.model.parameters(), rate)
        self.job = shoal.elastic(self.model, self.optimizer)

    def step(self, x, y):
        with self.job:
            super().step(x, y)
        self.rank, self.ranks = self.job.comm.rank, self.job.comm.world_size

    def steps(self):
        return self.job.step

    exchanges = steps


class Local(Way):
    """DiLoCo: one exchange in EVERY steps."""

    def exchanges(self):
        return self.done // EVERY


class ShoalDiloco(Local):
    sync = f"diloco:every={EVERY},lr=0.7,momentum=0.9"

    def start(self, model, rate):
        import shoal

        self.model = model
        self.optimizer = shoal.wrap(torch.optim.Adam(model.parameters(), rate), sync=self.sync)

    def leave(self):
        import shoal

        shoal.close()


class TorchftDiloco(Local):
    def start(self, model, rate):
        from torchft.coordination import LighthouseServer
        from torchft.local_sgd import DiLoCo
        from torchft.manager import Manager
        from torchft.process_group import ProcessGroupGloo

        master, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect((master, 9))
            mine = way.getsockname()[0]
        if self.rank == 0:
            self.lighthouse = LighthouseServer(f"0.0.0.0:{port}", self.members())
        self.store = dist.TCPStore(mine, 0, 1, True, wait_for_workers=False)
        self.model, self.optimizer = model, torch.optim.Adam(model.parameters(), rate)
        self.manager = Manager(
            pg=ProcessGroupGloo(timeout=PATIENCE),
            load_state_dict=self.load,
            state_dict=self.save,
            min_replica_size=self.members(),
            use_async_quorum=False,
            init_sync=False,  # one seed has drawn all replicas
            timeout=PATIENCE,
            quorum_timeout=PATIENCE,
            rank=0,
            world_size=1,
            store_addr=mine,
            store_port=self.store.port,
            lighthouse_addr=f"http://{master}:{port}",
            replica_id=str(self.rank),
            hostname=mine,
        )
        outer = torch.optim.SGD(model.parameters(), nesterov=True, **OUTER)
        self.diloco = DiLoCo(self.manager, [model], self.optimizer, outer, EVERY, pin_memory=False)
        self.diloco.__enter__()

    def members(self):
        """Who is needed: all, or with a loss in view all but one."""
        return self.ranks - ("SHOAL_BENCH_KILL" in os.environ)

    def save(self):
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def exchanges(self):
        return self.manager.current_step()

    def leave(self):
        time.sleep(1)  # rank 0 serves the lighthouse, and others may still ask it
        self.manager.shutdown(wait=False)


WAYS = {
    "gloo": Gloo,
    "fp16": Fp16,
    "powersgd": PowerSgd,
    "shoal": ShoalIdentity,
    "shoal-eden": ShoalEden,
    "shoal-elastic": ShoalElastic,
    "torchft-diloco": TorchftDiloco,
    "shoal-diloco": ShoalDiloco,
}

