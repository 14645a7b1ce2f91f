# SPDX-License-Identifier: Apache-2.0
"""Shoal between the replicas of FSDP2 (hybrid sharding): inside a host whatever PyTorch uses,
across hosts coded all-reduces."""

from typing import Optional, Sequence

import torch
import torch.distributed as dist

from . import _staging, torch_process_group
from ._comm import Comm, Tensor, key_of
from ._errors import NotSupported


def _parts(module):
    """FSDP's own state of a module, one for each group of its parameters: PyTorch has no public way
    to ask what the module was told (2.7 to 2.15 have them here)."""
    state = module._get_fsdp_state() if hasattr(module, "_get_fsdp_state") else None
    one = getattr(state, "_fsdp_param_group", None)
    return list(getattr(state, "_fsdp_param_groups", None) or ([] if one is None else [one]))


def _averaged_already(part, members):
    """Whether FSDP itself averages over one of these ranks: its mesh has a replica dimension."""
    if not getattr(part, "_is_hsdp", False):
        return False
    own = dist.get_process_group_ranks(part._all_reduce_process_group)
    return len(set(own) & set(members)) > 1


class ReplicaHook:
    """Called by FSDP2 with a reduced shard of gradients; averages it over replicas, in place.

    Under set_requires_all_reduce(False) shards are added up here, and PyTorch is given zeros, until
    a backward pass that may travel: FSDP does so for its own all-reduce, and asks no hook to."""

    def __init__(self, name, comm, members, codec, collective, parts):
        self.key, self.comm, self.members = key_of("fsdp " + name), comm, members
        self.codec, self.collective = codec, collective
        self.parts, self.kept = parts, None

    def _keep(self, shard):
        """True if this shard is to wait for those that follow."""
        if all(getattr(part, "all_reduce_grads", True) for part in self.parts):
            if self.kept is not None:
                shard.add_(self.kept)
            self.kept = None
            return False
        self.kept = shard.clone() if self.kept is None else self.kept.add_(shard)
        shard.zero_()
        return True

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
        if self._keep(shard):
            return
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
    (summed in float32), on the CPU or a CUDA device. set_requires_all_reduce(False) is kept to.

        mesh = init_device_mesh("cpu", (hosts, ranks), mesh_dim_names=("replica", "shard"))
        fully_shard(module, mesh=mesh["shard"])  # FSDP is not to know of the replicas
        shoal.fsdp(module, replicas=mesh["replica"].mesh.tolist(), codec="eden:bits=4,ef")

    Returns module. Raises NotSupported where this PyTorch has no set_all_reduce_hook (2.6 and
    older), ValueError if this rank is no replica, or the mesh that FSDP has averages over them
    already.
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
    parts = {name: _parts(target) for name, target in targets}
    if any(_averaged_already(part, members) for found in parts.values() for part in found):
        raise ValueError(
            f"FSDP averages over the replicas {members} itself, since its mesh has them: give"
            " fully_shard() the dimension of shards alone, mesh['shard']"
        )
    for name, target in targets:
        target.set_all_reduce_hook(
            ReplicaHook(name, comm, members, codec, collective, parts[name])
        )
    return module
