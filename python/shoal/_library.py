# SPDX-License-Identifier: Apache-2.0
"""Finds libshoal and libshoal_train, checks that they speak this package's ABI, and turns statuses
into exceptions."""

import ctypes as C
import ctypes.util
import os

from . import _abi
from ._errors import from_last_error

_HERE = os.path.dirname(os.path.abspath(__file__))
_SONAME = f"libshoal.so.{_abi.VERSION[0]}"


def candidates():
    """Where the library is looked for, in order: SHOAL_LIBRARY, inside the package (a wheel), the
    build folder of a source tree, the system."""
    named = os.environ.get("SHOAL_LIBRARY")
    if named:
        return [named]
    found = [os.path.join(_HERE, "_lib", _SONAME)]
    tree = os.path.dirname(os.path.dirname(_HERE))
    if os.path.exists(os.path.join(tree, "include", "shoal", "shoal.h")):
        found += [os.path.join(tree, "build", kind, _SONAME) for kind in ("release", "dev")]
    found = [path for path in found if os.path.exists(path)]
    system = ctypes.util.find_library("shoal")
    return found + ([system] if system else []) + [_SONAME]


def check_version(said, path):
    """Before 1.0 a minor version may change the ABI, a patch never does."""
    want = _abi.VERSION
    try:
        got = tuple(int(part) for part in said.split("."))
    except ValueError:
        got = ()
    if len(got) != 3 or got[0] != want[0] or (got[0] == 0 and got[1] != want[1]):
        need = f"{want[0]}.{want[1]}.x" if want[0] == 0 else f"{want[0]}.x"
        raise ImportError(
            f"{path} is libshoal {said}, this package needs {need}: install the package and the "
            "library from one release, or name another library in SHOAL_LIBRARY"
        )


def _check(status, function, arguments):
    """0 and PENDING go on; everything else is an exception with the library's own words."""
    del arguments
    if status not in (_abi.SHOAL_OK, _abi.SHOAL_PENDING):
        raise from_last_error(status, C.cast(dll.shoal_last_error(), C.POINTER(_abi.shoal_error)))
    return status


def _declare(function, name):
    result, arguments = _abi.FUNCTIONS[name]
    function.argtypes = arguments
    function.restype = C.c_int if result is _abi.STATUS else result
    if result is _abi.STATUS:
        function.errcheck = _check
    return function


def beside(path):
    """Where libshoal_train lies, which belongs to the libshoal at path: beside it."""
    folder, name = os.path.split(path)
    return os.path.join(folder, name.replace("libshoal", "libshoal_train", 1))


class Library:
    """Functions of libshoal and, looked for when the first of them is called, of libshoal_train."""

    def __init__(self, talks, path):
        self._talks, self._path, self._train = talks, path, None

    def __getattr__(self, name):
        if name not in _abi.FUNCTIONS:
            raise AttributeError(name)
        try:
            function = getattr(self._talks, name)
        except AttributeError:
            function = self._of_train(name)
        setattr(self, name, _declare(function, name))
        return function

    def _of_train(self, name):
        path = beside(self._path)
        try:
            if self._train is None:
                self._train = C.CDLL(path)
            return getattr(self._train, name)
        except OSError as error:
            raise ImportError(
                f"{name} is of libshoal_train, which lies beside {self._path}: {error}"
            ) from None
        except AttributeError:
            raise ImportError(f"{path} has no {name}: it is of another release") from None


def load():
    """libshoal, and where it was; ImportError says where it was looked for."""
    tried = []
    for path in candidates():
        try:
            library = C.CDLL(path)
        except OSError as error:
            tried.append(f"{path}: {error}")
            continue
        library.shoal_version.restype = C.c_char_p
        check_version(library.shoal_version().decode(), path)
        return Library(library, path), path
    raise ImportError(
        "libshoal was not found: build it (make), install it, or name it in SHOAL_LIBRARY. Tried "
        + "; ".join(tried)
    )


dll, path = load()


def struct(kind, /, **fields):
    """A structure as its *_INIT macro makes it, with fields set; None keeps the default. Texts may
    be str."""
    value = kind()
    names = [name for name, _ in kind._fields_]
    if names[0] == "size":
        value.size = C.sizeof(kind)
    for name, default in _abi.DEFAULTS.get(kind.__name__, {}).items():
        setattr(value, name, default)
    for name, given in fields.items():
        if name not in names:
            raise TypeError(f"{kind.__name__} has no field {name}")
        if given is not None:
            setattr(value, name, given.encode() if isinstance(given, str) else given)
    return value


def text(value):
    """char * as str; "" if there is none."""
    return value.decode(errors="replace") if value else ""
