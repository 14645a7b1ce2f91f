# SPDX-License-Identifier: Apache-2.0
"""Which options go together, asked of the library before anything starts."""

import ctypes as C

from . import _abi
from ._library import dll, struct


def check(sync=None, codec=None, collective=None, *, workers=0, reform=False) -> None:
    """Raise shoal.InvalidArgument, which names both options, if these specs do not go together.
    None: the default. workers 0: not known yet."""
    job = struct(
        _abi.shoal_job,
        sync=sync,
        codec=codec,
        collective=collective,
        workers=workers,
        asks=_abi.SHOAL_JOB_REFORM if reform else 0,
    )
    dll.shoal_job_check(C.byref(job))
