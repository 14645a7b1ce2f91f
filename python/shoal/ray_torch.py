# SPDX-License-Identifier: Apache-2.0
"""Ray Train's TorchTrainer with the process group "shoal"."""

import dataclasses
from typing import Any

from ray.train import torch as ray_torch

from . import _default, torch_process_group

_TheirBackend: Any = ray_torch.TorchConfig().backend_cls


class _Backend(_TheirBackend):
    """PyTorch has to know "shoal" in the workers before Ray makes the process group there."""

    def on_start(self, worker_group, backend_config):
        worker_group.execute(torch_process_group.register)
        super().on_start(worker_group, backend_config)

    def on_shutdown(self, worker_group, backend_config):
        worker_group.execute_async(_default.close)  # their last word to each other
        super().on_shutdown(worker_group, backend_config)


@dataclasses.dataclass
class TorchConfig(ray_torch.TorchConfig):
    """Ray Train's TorchConfig whose process group is Shoal's:

        TorchTrainer(loop, torch_config=shoal.ray.TorchConfig(), scaling_config=...)

    In the loop, shoal.ddp(model, codec=...) takes the module, plain or behind
    ray.train.torch.prepare_model. backend: "shoal" (or "cpu:shoal,cuda:shoal"); the other fields
    are Ray's: init_method, and timeout_s, seconds. A worker that dies ends all of them; Ray starts
    them again as its FailureConfig says, and they meet anew. Errors are raised in the loop, as
    shoal.ddp raises them, and Ray Train hands them on. Source: ray.train.backend.BackendConfig."""

    backend: str = "shoal"

    def __post_init__(self):
        if "shoal" not in self.backend:
            raise ValueError(f"backend is 'shoal' or 'cpu:shoal,cuda:shoal', not {self.backend!r}")

    @property
    def backend_cls(self):
        return _Backend
