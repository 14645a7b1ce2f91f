# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class per status of the library, all of them shoal.Error."""

from . import _abi


class Error(Exception):
    """What a call into Shoal failed with.

    Attributes: status (name, "EPEER"), rank (the culprit's, -1 unknown), host, operation
    ("all-reduce 1182"), waited_s (-1 if it did not wait), os_error (errno or 0), text (the
    sentence), advice."""

    status = "?"

    def __init__(self, text, rank=-1, host="", operation="", waited_s=-1.0, os_error=0, advice=""):
        super().__init__(text + (f"\n  {advice}" if advice else ""))
        self.text, self.rank, self.host, self.operation = text, rank, host, operation
        self.waited_s, self.os_error, self.advice = waited_s, os_error, advice

    def __reduce__(self):
        fields = (self.text, self.rank, self.host, self.operation, self.waited_s, self.os_error)
        return type(self), (*fields, self.advice)


class InvalidArgument(Error, ValueError):
    """The call will fail again: an argument is wrong. Nothing has happened."""


class NotSupported(Error):
    """This build or machine cannot do it."""


class CorruptData(Error, ValueError):
    """Bytes or a file are not what they should be."""


class NotFinite(Error, ArithmeticError):
    """A value is NaN or infinite; the text names rank, tensor and index."""


class DeadlinePassed(Error, TimeoutError):
    """The operation is over on every member; the communicator is sound."""


class Cancelled(Error):
    """The operation was cancelled, here or by a peer."""


class Mismatch(Error):
    """Ranks started different operations; the text has both calls."""


class PeerLost(Error, ConnectionError):
    """A peer died, stopped or was cut off: error.rank and error.host say which. The communicator
    is over."""


class EpochChanged(Error, ConnectionError):
    """The membership changed under the operation."""


class AuthenticationFailed(Error, ConnectionError):
    """A stranger, or a wrong token."""


class VersionMismatch(Error, ConnectionError):
    """Ranks run versions that do not understand each other."""


class OutOfMemory(Error, MemoryError):
    """The library found no memory."""


class IOFailed(Error, OSError):
    """A file could not be read or written."""


class SystemFailed(Error, OSError):
    """A system call failed; error.os_error is its errno."""


class InternalError(Error):
    """A broken contract inside the library: please report."""


class Forked(Error):
    """The handle belongs to the parent process: make a new one in the child."""


CLASSES = {
    "EINVAL": InvalidArgument,
    "ENOTSUP": NotSupported,
    "ECORRUPT": CorruptData,
    "ENOTFINITE": NotFinite,
    "ETIMEDOUT": DeadlinePassed,
    "ECANCELLED": Cancelled,
    "EMISMATCH": Mismatch,
    "EPEER": PeerLost,
    "EEPOCH": EpochChanged,
    "EAUTH": AuthenticationFailed,
    "EVERSION": VersionMismatch,
    "ENOMEM": OutOfMemory,
    "EIO": IOFailed,
    "ESYSTEM": SystemFailed,
    "EINTERNAL": InternalError,
    "EFORKED": Forked,
}
for _name, _class in CLASSES.items():
    _class.status = _name
    _class.__module__ = "shoal"
_NAMES = {value: name for name, (value, _) in _abi.STATUSES.items()}


def from_last_error(status, error):
    """The exception of a failed call, from this thread's last error (a pointer to shoal_error)."""
    e = error.contents
    if e.status != status:  # the call left no description
        return CLASSES.get(_NAMES.get(status), Error)(f"status {status}")
    return CLASSES.get(_NAMES.get(status), Error)(
        e.text.decode(errors="replace"),
        e.rank,
        e.host.decode(errors="replace"),
        e.operation.decode(errors="replace"),
        e.waited_us * 1e-6 if e.waited_us >= 0 else -1.0,
        e.os_error,
        e.advice.decode(errors="replace"),
    )
