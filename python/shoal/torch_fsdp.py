# SPDX-License-Identifier: Apache-2.0
"""Shoal between the replicas of FSDP2 (hybrid sharding): inside a host whatever PyTorch uses,
across hosts coded all-reduces."""

from typing import Optional, Sequence

import torch

from . import _staging, torch_process_group
from ._comm import Comm, Tensor, key_of
from ._errors import NotSupported


class ReplicaHook:
    """Called by FSDP2 with a reduced shard of gradients; averages it over replicas, in place."""

    def __init__(self, name, comm, members, codec, collective):
        self.key, self.comm, self.members = key_of("fsdp " + name), comm, members
        self.codec, self.collective = codec, collective

    def _start(self, flat):
        return self.comm.start(
            "all_reduce",
            flat,
            members=self.members,
            codec=self.codec,
            collective=self.collective,
            tensors=[Tensor(self.key, 0, flat.numel())],
        )

    def __call__(self, shard: torch.Tensor) -> None:
        staging, count = _staging.of(shard), len(self.members)
        if staging is not None:
            mean = _staging.mean(count)
            staging.follow(staging.float32(shard, self._start, mean, self.key, 2).result())
            return
        flat = shard.detach().float().contiguous().view(-1)
        self._start(flat).result()
        flat.div_(count)
        if flat.data_ptr() != shard.data_ptr():
            shard.copy_(flat.view(shard.shape))


def fsdp(
    module: torch.nn.Module,
    replicas: Optional[Sequence[int]] = None,
    codec: Optional[str] = None,
    collective: Optional[str] = None,
    comm: Optional[Comm] = None,
) -> torch.nn.Module:
    """Average a fully_shard()ed module's gradients over its replicas through Shoal.

    replicas: ranks that hold the same shard as this one (the replica dimension of the mesh); None:
    all, for a mesh of replicas only. codec, collective: specs, as for shoal.ddp. Every FSDP module
    inside gets a hook of its own, so that error feedback is kept apart. Shards are float32 or half
    (summed in float32), on the CPU or a CUDA device. Returns module; raises NotSupported where this
    PyTorch's FSDP has no set_all_reduce_hook (2.6 and older).
    """
    targets = [(n, m) for n, m in module.named_modules() if hasattr(m, "set_all_reduce_hook")]
    if not targets:
        raise NotSupported(
            f"no FSDP2 module with set_all_reduce_hook in it (this is PyTorch {torch.__version__}; "
            "versions behind 2.6 have it)"
        )
    comm = comm or torch_process_group.default_comm()
    members = list(range(comm.world_size)) if replicas is None else sorted(replicas)
    if comm.rank not in members:
        raise ValueError(f"rank {comm.rank} is not among the replicas {members}")
    for name, target in targets:
        target.set_all_reduce_hook(ReplicaHook(name, comm, members, codec, collective))
    return module
