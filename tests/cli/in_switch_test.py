# SPDX-License-Identifier: Apache-2.0
"""Sums in the kernel: shoal aggregator --ports, by hand at loopback and on the lab's switch. The
same bits as user space, under losses, too; where there is no right to it, user space and one
warning; nothing stays attached, whoever dies."""
import ctypes
import functools
import json
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import shoal

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
LIBRARY = os.path.join(shoal.BUILD, "libshoal.so")
DEADLINE_S = 60

# Half of all blocks are not zero anywhere; magnitudes differ by a billion.
RANK = """
import array, hashlib, os, random, sys
import shoal
draw = random.Random(int(os.environ["RANK"]))
zero = [random.Random(b).random() < 0.3 for b in range(33)]
x = array.array("f", (0 if zero[i // 360] else draw.gauss(0, 1) * 10 ** ((i // 720) % 9 - 6)
                      for i in range(33 * 360 - 7)))
for codec, collective in [a.split("/") for a in sys.argv[1:]]:
    y = array.array("f", x)
    shoal.allreduce(y, collective=collective, codec=codec)
    if os.environ["RANK"] == "0":
        print(collective, hashlib.sha256(y.tobytes()).hexdigest())
shoal.close()
"""
CASES = ["identity/switchml:dedicated", "identity/switchml:dedicated,sparse"]
INTEGERS = [f"blockint:bound=2^-8,ef=off/{c}" for c in ("switchml:dedicated", "ring")]


def attached():
    """Ids of the programs at loopback's ingress (BPF_PROG_QUERY of BPF_TCX_INGRESS)."""
    libc = ctypes.CDLL(None, use_errno=True)
    ids = (ctypes.c_uint32 * 64)()
    query = bytearray(128)
    struct.pack_into(
        "IIIIQI", query, 0, socket.if_nametoindex("lo"), 46, 0, 0, ctypes.addressof(ids), 64
    )
    raw = (ctypes.c_char * len(query)).from_buffer(query)
    if libc.syscall(321, 16, raw, len(query)) != 0:  # x86-64's bpf(2)
        raise OSError(ctypes.get_errno(), "BPF_PROG_QUERY")
    return set(ids[: struct.unpack_from("I", query, 24)[0]])


@functools.lru_cache
def no_kernel():
    """The reason why this kernel sums nothing for us, or None."""
    with Daemon("--kernel=on") as d:
        return d.refused


class Daemon:
    """At loopback; its ports and its program there are the kernel's choice."""

    def __init__(self, *args, ports="lo"):
        self.folder = tempfile.TemporaryDirectory(prefix="shoal-")
        self.token = os.path.join(self.folder.name, "token")
        with open(self.token, "w", encoding="ascii") as f:
            f.write("0123456789abcdef0123456789abcdef\n")
        os.chmod(self.token, 0o600)
        command = [shoal.SHOAL, "aggregator", "--listen=127.0.0.1:0", "--json", f"--ports={ports}"]
        self.process = subprocess.Popen(
            [*command, f"--token-file={self.token}", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ, SHOAL_LOG="info"),
        )
        hello = self.process.stdout.readline()
        self.refused = None if hello else self.process.communicate()[1].strip()
        self.address = f"127.0.0.1:{json.loads(hello)['port']}" if hello else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        self.folder.cleanup()

    def end(self):
        """SIGTERM; its last words and errors."""
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=DEADLINE_S)
        return json.loads(out), err

    def job(self, ranks, command, **env):
        """The processes of a job whose aggregator it is."""
        meet = "file://" + os.path.join(self.folder.name, f"meet-{time.monotonic_ns()}")
        env = dict(
            os.environ,
            SHOAL_AGGREGATORS=self.address,
            SHOAL_TOKEN_FILE=self.token,
            SHOAL_RENDEZVOUS=meet,
            WORLD_SIZE=str(ranks),
            PYTHONPATH=os.path.join(SOURCE, "python"),
            PYTHONDONTWRITEBYTECODE="1",
            SHOAL_LIBRARY=os.path.abspath(LIBRARY),
            **env,
        )
        pipe = subprocess.PIPE
        return [
            subprocess.Popen(
                command, env=dict(env, RANK=str(r)), stdout=pipe, stderr=pipe, text=True
            )
            for r in range(ranks)
        ]

    def sums(self, ranks, cases):
        """What rank 0 prints of the sums."""
        ended = [
            p.communicate(timeout=60)
            for p in self.job(ranks, ["python3", "-P", "-c", RANK, *cases])
        ]
        assert ended[0][0].count("\n") == len(cases), ended
        return ended[0][0]


def loads_library():
    """Python cannot load a library with sanitizers in it."""
    probe = ["python3", "-c", f"import ctypes; ctypes.CDLL({os.path.abspath(LIBRARY)!r})"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


class AtLoopback(unittest.TestCase):
    def setUp(self):
        reason = no_kernel()
        if reason:
            self.skipTest(reason)

    def test_the_same_bits(self):
        if not loads_library():
            self.skipTest("Python does not load this library")
        with Daemon("--kernel=on") as kernel, Daemon("--kernel=off") as user:
            self.assertEqual(kernel.sums(3, CASES), user.sums(3, CASES))
            here, ring = (line.split()[1] for line in kernel.sums(4, INTEGERS).splitlines())
            self.assertEqual(here, ring)
            last, err = kernel.end()
            self.assertEqual((last["operations"], last["in_kernel"]), (3, 3), err)
            self.assertGreater(last["received_bytes"], 2 * 3 * 11873 * 4 * 0.6)
            last, err = user.end()
            self.assertEqual((last["operations"], last["in_kernel"]), (2, 0), err)

    def test_too_large_goes_up(self):
        """More slots than the maps have: user space, and the reason."""
        with Daemon("--kernel=on") as d:
            command = [shoal.SHOAL, "bench", "allreduce", "--size=68k", "--iters=1"]
            command += ["--collective=switchml:dedicated,slots=2049,block=8"]
            ranks = d.job(2, command)
            outputs = [r.communicate(timeout=150) for r in ranks]
            self.assertEqual([r.returncode for r in ranks], [0, 0], outputs)
            last, err = d.end()
            self.assertEqual((last["failed"], last["in_kernel"]), (0, 0), err)
            self.assertIn("is summed in user space: 2 workers, blocks of 8 values, 2049 slots", err)

    def test_past_the_ports(self):
        """Its port is another interface than the packets': clearly refused."""
        with Daemon("--kernel=on") as at_lo:
            other = [n for _, n in socket.if_nameindex() if n != "lo"]
            at_lo.end()
        if not other:
            self.skipTest("there is no interface but lo")
        with Daemon("--kernel=on", ports=other[0]) as d:
            command = [shoal.SHOAL, "bench", "allreduce", "--size=64k", "--iters=1"]
            ranks = d.job(2, [*command, "--collective=switchml:dedicated"])
            outputs = [r.communicate(timeout=60) for r in ranks]
            self.assertEqual([r.returncode for r in ranks], [77, 77], outputs)
            self.assertIn("past the ports where the kernel sums", outputs[0][1])
            self.assertIn("give all interfaces", outputs[0][1])

    def test_who_dies(self):
        """A worker, then the daemon by SIGKILL: errors name them, and nothing stays."""
        before = attached()
        with Daemon("--kernel=on") as d:
            mine = attached() - before
            self.assertTrue(mine)
            command = [shoal.SHOAL, "bench", "allreduce", "--size=1M", "--iters=1000"]
            command += ["--collective=switchml:dedicated", "--no-check"]
            ranks = d.job(3, command, SHOAL_FAULT="fault:kill=100,rank=1")
            errors = [r.communicate(timeout=60)[1] for r in ranks]
            self.assertEqual([ranks[0].returncode, ranks[2].returncode], [5, 5], errors)
            self.assertEqual(ranks[1].returncode, -signal.SIGKILL)
            self.assertIn("rank 1", errors[0])
            # the maps are as before: a job of another number of workers sums
            command = [shoal.SHOAL, "bench", "allreduce", "--size=64k", "--iters=1"]
            ranks = d.job(2, [*command, "--collective=switchml:dedicated"])
            errors = [r.communicate(timeout=60)[1] for r in ranks]
            self.assertEqual([r.returncode for r in ranks], [0, 0], errors)
            d.process.kill()
            d.process.wait()
            until = time.monotonic() + DEADLINE_S
            while mine & attached():  # the kernel detaches what nobody holds, in its own time
                self.assertLess(time.monotonic(), until)


class InTheLab(unittest.TestCase):
    def setUp(self):
        reason = shoal.lab_works()
        if reason:
            self.skipTest(reason)

    def bench(self, mode, lab, *wrapper):
        run = [
            shoal.SHOAL,
            "run",
            "-n3",
            "-a1",
            f"--in-switch={mode}",
            f"--lab={lab}",
            "--grace=0.2",
        ]
        command = ["--", shoal.SHOAL, "bench", "allreduce", "--json", "--size=256k", "--iters=2"]
        return subprocess.run(
            [*wrapper, *run, *command, "--collective=switchml:dedicated"],
            capture_output=True,
            text=True,
            timeout=60,
            env=dict(os.environ, SHOAL_LOG="info"),
            check=False,
        )

    def check(self, done, operations):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["wrong"], 0)
        over = re.search(r"0 failed, (\d+) given to the kernel", done.stderr)
        self.assertEqual(int(over[1]), operations, done.stderr)

    def test_kernel(self):
        reason = no_kernel()
        if reason:
            self.skipTest(reason)
        self.check(self.bench("on", "rate=500mbit,loss=3%udp"), 3)

    def test_user_space(self):
        self.check(self.bench("off", "rate=500mbit,loss=3%udp"), 0)

    def test_no_right(self):
        """A user of a namespace of its own may make a lab, but load no program."""
        probe = ["unshare", "-Ur", "true"]
        if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
            self.skipTest("no user namespaces here")
        done = self.bench("auto", "rate=500mbit", "unshare", "-Ur")
        self.check(done, 0)
        self.assertEqual(done.stderr.count(" W "), 1, done.stderr)
        self.assertIn("sums are user space's, not the kernel's: ", done.stderr)
        self.assertIn("it may not load programs into the kernel", done.stderr)
        done = self.bench("on", "rate=500mbit", "unshare", "-Ur")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("it may not load programs into the kernel", done.stderr)


class Usage(unittest.TestCase):
    def test_usage(self):
        for args, text in [
            (["aggregator", "--kernel=perhaps"], "wanted auto, on or off"),
            (["aggregator", "--kernel=on"], "takes the ports"),
            (["aggregator", "--ports=none-such"], "no interface 'none-such'"),
            (["run", "--in-switch=on", "--", "true"], "--in-switch goes with --lab"),
        ]:
            r = shoal.run(*args)
            self.assertEqual(r.returncode, 2, (args, r.stderr))
            self.assertIn(text, r.stderr)


if __name__ == "__main__":
    shoal.main()
