#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training through the engine: `shoal train` in namespaces whose network cards are nic_link.

    in_path.py [--shoal FILE] [--made FOLDER] [--steps N] [--model SPEC] [--bound K] [--faithful]

Each host is a namespace; its eth0 is a TAP device behind which nic_link stands, whose other TAP
device is a port of a bridge:

    worker 0 - eth0 = engine = link0 -+
    worker 1 - eth0 = engine = link1 -+- bridge
    server   - eth0 = engine = link2 -+

Runs, each with the same seed, and what must be equal to the bit (losses of each step and worker,
weights at the end):

    server, codec         gradients coded by the library, cards that code nothing    } equal
    server, rtl           codec identity, gradients marked, the verilated engine     }
    ring, soft            codec identity, marked, cards with the library's codec     } equal
    ring, rtl             codec identity, marked, the verilated engine               }
    ring, codec           gradients coded by the library, with feedback, no cards    } equal
    ring, floats          layout=floats with feedback, marked, the verilated engine  }

In a ring under identity the owner of a block keeps what it computed while the others get what the
cards make of it, so the replicas drift apart and no codec of the library does the same; with
layout=floats hosts round as the cards do, replicas are compared at every step, and losses are fed
back; with a server, the
weights come back unmarked and replicas are one. Beside the training go pings, datagrams and a
stream with another ToS, compared byte by byte. Prints one JSON object; 77: this machine cannot."""

import argparse
import ctypes
import glob
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", "..", ".."))
CANNOT, PORT, TRAFFIC_PORT, DEADLINE_S = 77, 29400, 29900, 240
MTU, LINK_MTU = 1500, 1700  # coded segments may be 1/16 longer


def built_shoal():
    """The command as built last for use, else for work."""
    paths = [f"{ROOT}/build/{preset}/shoal" for preset in ("release", "dev")]
    return next((path for path in paths if os.access(path, os.X_OK)), paths[0])


def cannot(reason):
    print(f"in_path: cannot run here: {reason}")
    sys.exit(CANNOT)


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def start(command, **options):
    return subprocess.Popen(command, text=True, preexec_fn=die_with_parent, **options)


def sh(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=30)


def within(host, *command):
    return ["nsenter", f"--net=/run/netns/w{host}", *map(str, command)]


def address(host):
    return f"10.79.0.{host + 1}"


# ---------------------------------------------------------------- other traffic


def ping(peer, count, rng):
    """Echo requests of all sizes; those that came back as they went."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        raw.settimeout(10)
        good = 0
        for number in range(count):
            body = rng.randbytes(rng.randrange(8, 1400))
            head = struct.pack("!BBHHH", 8, 0, 0, os.getpid() & 0xFFFF, number)
            total = ones_sum(head + body)
            raw.sendto(head[:2] + struct.pack("!H", ~total & 0xFFFF) + head[4:] + body, (peer, 0))
            while True:
                got = raw.recv(4096)[20:]
                if got[0] == 0 and got[4:8] == head[4:8]:
                    good += got[8:] == body
                    break
        return good


def serve():
    """Sends back a stream and datagrams."""
    listener = socket.create_server(("", TRAFFIC_PORT))
    packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    packets.bind(("", TRAFFIC_PORT))
    print("up", flush=True)
    if os.fork() == 0:
        die_with_parent()
        while True:
            body, peer = packets.recvfrom(4096)
            packets.sendto(body, peer)
    while True:
        stream, _ = listener.accept()
        while chunk := stream.recv(65536):
            stream.sendall(chunk)


def talk(peer, stream_bytes):
    """What went to the server and came back as it was: pings, datagrams, bytes of a stream."""
    rng = random.Random(7)
    good = {"pings": ping(peer, 20, rng), "datagrams": 0}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as packets:
        packets.settimeout(10)
        for size in [1, 2, 1400] + [rng.randrange(1, 1400) for _ in range(17)]:
            body = rng.randbytes(size)
            packets.sendto(body, (peer, TRAFFIC_PORT))
            good["datagrams"] += packets.recv(4096) == body
    with socket.create_connection((peer, TRAFFIC_PORT), timeout=60) as stream:
        stream.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0x10)  # as an interactive ssh
        body, back = rng.randbytes(stream_bytes), b""
        for at in range(0, len(body), 20011):
            stream.sendall(body[at : at + 20011])
            want = min(at + 20011, len(body))
            while len(back) < want:
                back += stream.recv(65536)
        good["stream_bytes"] = (
            len(body) if hashlib.sha256(back).digest() == hashlib.sha256(body).digest() else 0
        )
    print(json.dumps(good))


# ---------------------------------------------------------------- on the wire


def ones_sum(data):
    """16-bit ones' complement sum."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def is_sound(frame):
    """IPv4 with TCP: whether lengths and both checksums are right; anything else is."""
    if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
        return True
    packet, head = frame[14:], 4 * (frame[14] & 15)
    length = struct.unpack("!H", packet[2:4])[0]
    pseudo = packet[12:20] + struct.pack("!HH", socket.IPPROTO_TCP, length - head)
    return (
        len(packet) == length
        and ones_sum(packet[:head]) == 0xFFFF
        and ones_sum(pseudo + packet[head:]) == 0xFFFF
    )


def watch(device):
    """Counts frames on a device, coded ones (a count of floats in the urgent pointer), damaged
    ones, until SIGTERM."""
    counted = {"frames": 0, "coded": 0, "longest": 0, "wrong": 0}
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 25)
        raw.bind((device, 0))
        print("up", flush=True)
        over = []
        signal.signal(signal.SIGTERM, lambda number, frame: over.append(number))
        raw.settimeout(0.2)
        while True:
            try:
                frame = raw.recv(65536)
            except TimeoutError:
                if over:
                    break
                continue
            counted["frames"] += 1
            counted["longest"] = max(counted["longest"], len(frame))
            counted["wrong"] += not is_sound(frame)
            marked = frame[12:14] == b"\x08\x00" and frame[15] & 0xFC == 0x28
            counted["coded"] += marked and len(frame) > 54 and frame[52:54] != b"\0\0"
    print(json.dumps(counted))


# ---------------------------------------------------------------- the lab


class Lab:
    """Hosts with their cards, as long as a `with` lasts."""

    def __init__(self, made, hosts, engine):
        self.made, self.hosts, self.engine, self.links = made, hosts, engine, []

    def __enter__(self):
        for host in range(self.hosts):
            link = start(
                [
                    f"{self.made}/nic_link",
                    f"/run/netns/w{host}",
                    "eth0",
                    f"link{host}",
                    *self.engine,
                ],
                stdout=subprocess.PIPE,
            )
            self.links.append(link)
            if not link.stdout.readline():
                cannot("no TAP devices")
            sh("ip", "link", "set", f"link{host}", "mtu", str(LINK_MTU), "master", "hub", "up")
            sh(*within(host, "ip", "address", "add", f"{address(host)}/24", "dev", "eth0"))
            sh(*within(host, "ip", "link", "set", "eth0", "mtu", MTU, "up"))
            sh(*within(host, "ip", "link", "set", "lo", "up"))
        return self

    def counts(self):
        """What the cards counted; ends them."""
        counted = []
        for link in self.links:
            link.send_signal(signal.SIGTERM)
            counted.append(json.loads(link.communicate(timeout=30)[0].splitlines()[-1]))
        self.links = []
        return counted

    def __exit__(self, *_):
        for link in self.links:
            link.kill()
            link.wait()


def kernel_counts(host):
    """Checksum errors that a host's kernel saw, segments that it sent again."""
    text = subprocess.run(
        within(host, "cat", "/proc/net/snmp"), capture_output=True, text=True, check=True
    ).stdout.splitlines()
    values = {}
    for names, numbers in zip(text[::2], text[1::2]):
        kind = names.split()[0]
        for name, number in zip(names.split()[1:], numbers.split()[1:]):
            values[kind + name] = int(number)
    wrong = values["Tcp:InCsumErrors"] + values["Ip:InHdrErrors"] + values["Udp:InCsumErrors"]
    return wrong, values["Tcp:RetransSegs"]


def train(options, folder, hosts, name, arguments):
    """One training among all hosts: losses by worker and step, and the weights' digest."""
    out = os.path.join(folder, name.replace(" ", "-"))
    secret = os.path.join(folder, "token")
    ranks = []
    for rank in range(hosts):
        environment = dict(
            os.environ,
            RANK=str(rank),
            WORLD_SIZE=str(hosts),
            LOCAL_RANK="0",
            SHOAL_RENDEZVOUS=f"tcp://{address(0)}:{PORT}",
            SHOAL_TOKEN_FILE=secret,
            OPENBLAS_NUM_THREADS="1",
        )
        command = [options.shoal, "train", "--model", options.model, "--data", folder + "/digits"]
        command += [
            "--batch",
            options.batch,
            "--steps",
            options.steps,
            "--epochs",
            "99",
            "--no-eval",
        ]
        command += ["--transport", "tcp:tls=off", "--interface", "eth0", "--out", out, "--quiet"]
        ranks.append(
            start(
                within(rank, *command, *arguments),
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
    for rank in ranks:
        text = rank.communicate(timeout=DEADLINE_S)[0]
        if rank.returncode != 0:
            raise SystemExit(
                f"{name}: rank {ranks.index(rank)} ended with {rank.returncode}\n{text}"
            )
    losses = {}
    for path in sorted(glob.glob(out + "/metrics*.jsonl")):
        with open(path, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        losses[os.path.basename(path)] = [r["loss"] for r in rows if "loss" in r and "step" in r]
    digest = hashlib.sha256()
    for path in glob.glob(out + "/checkpoints/step-*/common.safetensors"):
        with open(path, "rb") as file:
            data = file.read()
        digest.update(data[8 + struct.unpack("<Q", data[:8])[0] :])
    return {"losses": losses, "weights": digest.hexdigest()}


def experiment(options, folder, name, hosts, engine, arguments, traffic=False):
    """A training over fresh cards, with what everybody counted."""
    begun, before = time.monotonic(), [kernel_counts(host) for host in range(hosts)]
    with Lab(options.made, hosts, engine) as lab:
        server = talker = None
        watcher = start([sys.executable, __file__, "--watch", "link0"], stdout=subprocess.PIPE)
        watcher.stdout.readline()
        if traffic:
            server = start(within(0, sys.executable, __file__, "--serve"), stdout=subprocess.PIPE)
            server.stdout.readline()
            talker = start(
                within(1, sys.executable, __file__, "--talk", address(0), options.stream_bytes),
                stdout=subprocess.PIPE,
            )
        got = train(options, folder, hosts, name, arguments)
        if traffic:
            got["traffic"] = json.loads(talker.communicate(timeout=DEADLINE_S)[0])
            server.kill()
            server.wait()
        kernel = [kernel_counts(host) for host in range(hosts)]
        watcher.send_signal(signal.SIGTERM)
        got["link"] = json.loads(watcher.communicate(timeout=DEADLINE_S)[0])
        got["cards"] = lab.counts()
    got["checksum_errors"] = sum(k[0] - b[0] for k, b in zip(kernel, before))
    got["sent_again"] = sum(k[1] - b[1] for k, b in zip(kernel, before))
    got["seconds"] = round(time.monotonic() - begun, 1)
    print(f"{name}: {got['seconds']} s", flush=True)
    return got


# ---------------------------------------------------------------- all of it


def summary(runs):
    """What must hold, as counts of what does not."""
    cards = [card for run in runs.values() for card in run["cards"]]
    ways = [card[way] for card in cards for way in ("tx", "rx")]
    verilated = ("server, rtl", "ring, rtl", "ring, floats")
    rtl = [card for name in verilated for card in runs[name]["cards"]]
    floats = runs["ring, floats"]["cards"]
    floats_before = sum(card["tx"]["bytes_before"] for card in floats)
    unequal = 0
    pairs = {
        "server, rtl": "server, codec",
        "ring, rtl": "ring, soft",
        "ring, floats": "ring, codec",
    }
    for name, other in pairs.items():
        mine, theirs = runs[name]["losses"], runs[other]["losses"]
        unequal += mine.keys() != theirs.keys()
        unequal += sum(
            sum(a != b for a, b in zip(mine[k], theirs[k])) + abs(len(mine[k]) - len(theirs[k]))
            for k in mine.keys() & theirs.keys()
        )
        unequal += runs[name]["weights"] != runs[other]["weights"]
    before = sum(card["tx"]["bytes_before"] for card in rtl)
    return {
        "unequal": unequal,
        "losses": sum(
            len(v) for n in verilated for v in runs[n]["losses"].values()
        ),
        "frames": sum(way["in"] for way in ways),
        "missing": sum(way["in"] - way["out"] for way in ways),
        "lost": sum(way["lost"] + way["refused"] for way in ways),
        "out_of_place": sum(way["differ"] for way in ways),
        "wrong_sums": sum(way["bad_sums"] for way in ways)
        + sum(run["checksum_errors"] + run["link"]["wrong"] for run in runs.values()),
        "sent_again": sum(run["sent_again"] for run in runs.values()),
        "coded": sum(card["coded"] for card in rtl),
        "decoded": sum(card["decoded"] for card in rtl),
        "exact": sum(card["exact"] for card in rtl),
        "cycles": sum(card["cycles"] for card in rtl),
        "link_share": round(sum(card["tx"]["bytes_after"] for card in rtl) / before, 4),
        "floats_link_share": round(
            sum(card["tx"]["bytes_after"] for card in floats) / floats_before, 4
        ),
        "coded_on_link0": sum(runs[name]["link"]["coded"] for name in verilated),
        "longest": max(run["link"]["longest"] for run in runs.values()),
        "other_traffic": runs["server, rtl"]["traffic"],
        "steps": {name: len(next(iter(run["losses"].values()))) for name, run in runs.items()},
        "seconds": {name: run["seconds"] for name, run in runs.items()},
    }


def inside(options):
    """In namespaces of its own."""
    sh("mount", "--make-rprivate", "/")
    sh("mount", "-t", "tmpfs", "none", "/run")
    quiet = "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6 2>/dev/null; true"
    sh("sh", "-c", quiet)
    for host in range(3):
        sh("ip", "netns", "add", f"w{host}")
        sh(*within(host, "sh", "-c", quiet))
    sh("ip", "link", "add", "hub", "type", "bridge")
    sh("ip", "link", "set", "hub", "up")
    strict = "faithful" if options.faithful else "strict"
    card = [f"--bound={options.bound}"] + (["--faithful"] if options.faithful else [])
    codec = ["--codec", f"inceptionn:bound=2^-{options.bound},{strict},ef=off"]
    server = ["--sync", "param_server:servers=1,dedicated"]
    marked, drifting = ["--codec", "identity", "--tos", "0x28"], ["--check-every", "0"]
    with tempfile.TemporaryDirectory(prefix="shoal-path-") as folder:
        with open(f"{folder}/token", "w", encoding="ascii") as file:
            file.write("0123456789abcdef" * 4)
        os.chmod(f"{folder}/token", 0o600)
        sh(
            options.shoal,
            "data",
            "digits",
            "--out",
            f"{folder}/digits",
            "--train",
            "600",
            "--test",
            "20",
        )
        if options.model == "tiny":
            options.model = f"{folder}/tiny.json"
            layers = ["flatten", "dense:out=32", "relu", "dense:out=10"]
            with open(options.model, "w", encoding="ascii") as file:
                json.dump({"name": "tiny", "input": [1, 28, 28], "layers": layers}, file)
        runs = {}

        def run(name, hosts, engine, arguments, **more):
            runs[name] = experiment(options, folder, name, hosts, engine, arguments, **more)

        run("server, codec", 3, ["--soft", *card], [*server, *codec])
        run("server, rtl", 3, card, [*server, *marked], traffic=True)
        run("ring, soft", 2, ["--soft", *card], [*drifting, *marked])
        run("ring, rtl", 2, card, [*drifting, *marked])
        rule = f"inceptionn:bound=2^-{options.bound},{strict}"
        compared = ["--check-every", "1"]
        coded = ["--codec", rule + ",layout=interleaved"]
        rounded = ["--codec", rule + ",layout=floats", "--tos", "0x28"]
        run("ring, codec", 2, ["--soft", *card], [*compared, *coded])
        run("ring, floats", 2, card, [*compared, *rounded])
    print(json.dumps(summary(runs)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shoal", default=built_shoal())
    parser.add_argument("--made", default=f"{ROOT}/build/rtl", help="where nic_link was built")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--steps", default="6")
    parser.add_argument("--batch", default="16")
    parser.add_argument("--bound", type=int, default=10)
    parser.add_argument("--faithful", action="store_true")
    parser.add_argument("--stream-bytes", type=int, default=200000)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--talk", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--watch", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
    elif options.talk:
        talk(options.talk[0], int(options.talk[1]))
    elif options.watch:
        watch(options.watch)
    elif options.inside:
        inside(options)
    else:
        for tool in ("unshare", "nsenter", "ip"):
            if shutil.which(tool) is None:
                cannot(f"{tool} is not installed")
        if not os.path.exists("/dev/net/tun"):
            cannot("no /dev/net/tun")
        if not os.access(options.shoal, os.X_OK):
            cannot(f"{options.shoal} is missing: make build")
        enter = ["unshare", "-Urnm", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if subprocess.run([*enter, "true"], capture_output=True, check=False).returncode != 0:
            cannot("namespaces are not allowed")
        os.execvp("unshare", [*enter, sys.executable, __file__, "--inside", *sys.argv[1:]])


if __name__ == "__main__":
    main()
