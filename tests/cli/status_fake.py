# SPDX-License-Identifier: Apache-2.0
"""A job that says what the test wants: a status socket as docs/wire.md describes it."""
import os
import socket
import struct
import threading

STATES = ("running", "missing", "unresponsive", "dead", "left")
CAUSES = ("", "compute", "network", "input", "load", "disk", "pause")
NAN = float("nan")


def rank(state="running", cause="", busy=False, last=0.0, doing_s=0.1, seen_s=0.0, ended=0,
         compute_ms=1.0, caused_ms=0.0, slow_s=0.0, sends=0, receives=0, host="a",
         operation="", data_ms=0.0, disk_ms=0.0, paused_ms=0.0, samples=0.0, step=0, epoch=0,
         loss=NAN, accuracy=NAN):  # fmt: skip
    return struct.pack(
        "<4I8Q64s64s5QI2f", STATES.index(state), CAUSES.index(cause), busy, round(last * 1000),
        round(doing_s * 1e6), round(seen_s * 1e6), ended, round(compute_ms * 1e3),
        round(caused_ms * 1e3), round(slow_s * 1e6), sends, receives, host.encode(),
        operation.encode(), round(data_ms * 1e3), round(disk_ms * 1e3), round(paused_ms * 1e3),
        round(samples * 1e3), step, epoch, loss, accuracy)  # fmt: skip


class Job:
    """Set .ranks (of rank()), .notes, .name and .age_s at any time."""

    numbers = 0

    def __init__(self, folder, name, ranks, notes=""):
        Job.numbers += 1
        self.name, self.ranks, self.notes, self.age_s, self.mute = name, ranks, notes, 312.0, False
        os.makedirs(folder, mode=0o700, exist_ok=True)
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in name)
        self.path = os.path.join(folder, f"{plain}.{Job.numbers:08x}.0.00000001")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        self.asked, self.kept = 0, []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def answer(self):
        name = self.name.encode()
        head = struct.pack("<4sIIIQQ64s", b"SHST", 2, 0, len(self.ranks), 0,
                           round(self.age_s * 1e6), name)  # fmt: skip
        return head + b"".join(self.ranks) + self.notes.encode()

    def serve(self):
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            self.asked += 1
            if self.mute:
                self.kept.append(one)
                continue
            with one:
                try:
                    one.recv(64)
                    one.sendall(self.answer())
                except OSError:
                    pass

    def close(self):
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        for one in self.kept:
            one.close()
