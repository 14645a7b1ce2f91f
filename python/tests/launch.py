# SPDX-License-Identifier: Apache-2.0
"""Tests that need ranks. They are forked from the test's own process, which has imported PyTorch
once for all, and find each other through torchrun's variables."""

import os
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unittest

# A shell's `&` has it ignored, and who is started inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("SHOAL_PARENT", str(os.getpid()))  # no command outlives this process


def needs(module):
    """The module; without it the whole file is skipped, and counted as skipped."""
    try:
        return __import__(module)
    except ImportError as error:
        print(f"skipped: {error} (Debian's python3-{module})")
        sys.exit(77)


def say(text):
    """A line in one piece, whatever other ranks say at the same time."""
    os.write(1, f"{text}\n".encode())


def _child(main, rank, ranks, port, folder, pipe, replaces=None):
    import shoal

    os.dup2(pipe, 1)
    os.dup2(pipe, 2)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.environ.update(SHOAL_RENDEZVOUS=f"file://{folder}/job")
    os.environ.update(USE_LIBUV="0")  # Debian 13's PyTorch asks for libuv and was built without
    os.environ["SHOAL_LATE"] = str(int(replaces is not None))
    code = 1
    try:
        if replaces is not None:  # readable once that process is dead
            select.select([os.pidfd_open(replaces)], [], [])
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
        print(end.code)
    except BaseException:
        traceback.print_exc()
    shoal.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run(main, ranks=3, limit_s=200, replace=None):
    """([exit status of each rank, -9 if killed], what they printed). replace: a rank that is
    started once more when it has died; SHOAL_LATE is 1 there, and its status comes last."""
    reader, writer = os.pipe()
    from shoal.launching import reserved_port

    reserved, pids = reserved_port(), []
    port = reserved.getsockname()[1]
    folder = tempfile.mkdtemp(prefix="shoal-ranks-")
    for rank in [*range(ranks)] + [replace] * (replace is not None):
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _child(main, rank, ranks, port, folder, writer, dict(enumerate(pids)).get(rank))
        pids.append(pid)
    os.close(writer)
    printed, end = b"", time.monotonic() + limit_s
    while select.select([reader], [], [], max(0, end - time.monotonic()))[0]:
        part = os.read(reader, 65536)
        if not part:
            break
        printed += part
    else:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        printed += f"\nno end within {limit_s} s".encode()
    os.close(reader)
    reserved.close()
    statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    shutil.rmtree(folder)
    return statuses, printed.decode(errors="replace")


class RanksTest(unittest.TestCase):
    """assert_ranks(main): every rank called it and ended well."""

    def assert_ranks(self, main, ranks=3, **options):
        statuses, printed = run(main, ranks, **options)
        self.assertEqual([0] * ranks, statuses, f"{main.__name__}:\n{printed}")
        return printed
