# SPDX-License-Identifier: Apache-2.0
"""A device for shoal._staging that no machine has to have: its memory is the host's, its streams
run when nobody expects it.

Nothing that a stream is given runs at once. After a moment in which no more is given, or when many
things wait, the streams run in an order of preference that the seed chooses, so that of two streams
of which one ought to have waited for the other, the wrong one is first with some seed. Pinned
memory is poisoned with NaN, at first and whenever a buffer is handed out."""

import collections
import random
import threading
import weakref

import torch

ORDERS = (("user", "out", "back"), ("out", "back", "user"), ("back", "user", "out"))
GATHERS_S = 0.001


class _Event:
    def __init__(self):
        self.come = False


class FakeDevice:
    """seed: chooses the order in which streams run. on_host: what the caller does, it does at
    once, as PyTorch on the CPU does: its stream is the thread itself. pinned_limit: bytes of pinned
    memory that there are. fails_after: how many copies succeed before the device is broken."""

    def __init__(
        self, seed=0, on_host=False, pinned_limit=None, fails_after=None, name="fake:0"
    ):
        self.name, self.failure, self.on_host = name, None, on_host
        self.preference = ORDERS[seed % len(ORDERS)]
        self.random = random.Random(seed)
        self.pinned_limit, self.pinned_bytes, self.fails_after = pinned_limit, 0, fails_after
        self.copies = 0
        self.streams = collections.OrderedDict(user=collections.deque())
        self.changed = threading.Condition()
        self.given, self.held = 0, None
        threading.Thread(target=self._run, daemon=True).start()

    # ------------------------------------------------------------------ what staging calls

    def stream(self):
        if self.failure is not None:
            raise RuntimeError(self.failure)
        name = ("out", "back")[len(self.streams) - 1]
        self.streams[name] = collections.deque()
        return name

    def current(self):
        return "user"

    def record(self, stream):
        event = _Event()

        def come():
            event.come = True

        self._give(stream, come)
        return event

    def wait(self, stream, event):
        if stream == "user" and self.on_host:
            self._until(lambda: event.come)
        else:
            self._give(stream, event)

    def done(self, event):
        with self.changed:
            if self.failure is not None:
                raise RuntimeError(self.failure)
            return event.come

    def copy(self, target, source, stream):
        def run():
            if self.fails_after is not None and self.copies >= self.fails_after:
                self.failure = "CUDA error: an illegal memory access was encountered\nmore lines"
            self.copies += 1
            target.copy_(source)

        self._give(stream, run)

    def run(self, action, stream):
        self._give(stream, action)

    def pinned(self, count):
        self.pinned_bytes += count
        if self.pinned_limit is not None and self.pinned_bytes > self.pinned_limit:
            self.pinned_bytes -= count
            raise RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be ...")
        memory = torch.full((count,), 0xFF, dtype=torch.uint8)  # NaN of every type of floats
        weakref.finalize(memory, self._unpin, count)
        return memory

    def _unpin(self, count):
        self.pinned_bytes -= count

    def keep(self, tensor, stream):
        assert stream in self.streams

    def future(self):
        return torch.futures.Future()

    def finish(self, future, value, stream):
        if self.failure is not None:
            future.set_result(value)
        else:
            self._give(stream, lambda: future.set_result(value))

    def recording(self):
        return False

    # ------------------------------------------------------------------ what tests call

    def compute(self, action):
        """action() on the stream that the test's own work is given to."""
        if self.on_host:
            action()
        else:
            self._give("user", action)

    def hold(self, stream):
        """This stream stands still until another one is named, or None."""
        with self.changed:
            self.held = stream
            self.given += 1
            self.changed.notify_all()

    def synchronize(self):
        """Returns when all streams have come to their ends."""
        events = [self.record(stream) for stream in list(self.streams)]
        self._until(lambda: all(event.come for event in events))

    def _until(self, come):
        with self.changed:
            over = self.changed.wait_for(lambda: self.failure or come(), 60)
            assert over, "the streams stand still"

    # ------------------------------------------------------------------ streams

    def _give(self, stream, task):
        with self.changed:
            self.streams[stream].append(task)
            self.given += 1
            self.changed.notify_all()

    def _next(self):
        """The task of the stream that comes first and need not wait."""
        for stream in self.preference:
            tasks = self.streams.get(stream, ()) if stream != self.held else ()
            while tasks and isinstance(tasks[0], _Event) and tasks[0].come:
                tasks.popleft()
            if tasks and not isinstance(tasks[0], _Event):
                return tasks.popleft()
        return None

    def _run(self):
        while True:
            with self.changed:
                seen = self.given
                self.changed.wait_for(lambda: self.given != seen, GATHERS_S)
                if self.given != seen and self.random.random() < 0.9:
                    continue  # more may come
                task = self._next() if self.failure is None else None
            while task is not None:
                task()
                with self.changed:
                    self.changed.notify_all()
                    task = self._next() if self.failure is None else None
