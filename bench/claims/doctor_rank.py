#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of a lab in which something is wrong: plants its faults, then becomes `shoal doctor`.

    doctor_rank.py SHOAL FOLDER RANK:FAULT[,RANK:FAULT...] [ARG...]

FOLDER holds late.so (see build_late) for the fault `clock`."""

import os
import subprocess
import sys

STORE_PORT, EPHEMERAL = "29401", "32768-60999"
LATE_C = """#include <dlfcn.h>
#include <sys/time.h>
int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    int (*real)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
    int result = real(t, zone);
    t->tv_sec -= 60;
    return result;
}
"""


def build_late(folder):
    """A clock that is a minute late, to be preloaded; false: no compiler."""
    source = os.path.join(folder, "late.c")
    with open(source, "w", encoding="ascii") as file:
        file.write(LATE_C)
    return (
        subprocess.run(
            [
                "cc",
                "-D_GNU_SOURCE",
                "-shared",
                "-fPIC",
                "-o",
                os.path.join(folder, "late.so"),
                source,
                "-ldl",
            ],
            check=False,
        ).returncode
        == 0
    )


def ip(*arguments):
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    subprocess.run(["ip", *arguments], check=True, env=dict(os.environ, PATH=path))


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def wrong_interface(_folder):
    ip("link", "add", "eth9", "type", "veth", "peer", "name", "eth8")
    ip("addr", "add", "10.99.0.9/24", "dev", "eth9")
    ip("link", "set", "eth9", "up")
    ip("link", "set", "eth8", "up")
    os.environ["SHOAL_INTERFACE"] = "eth9"


def closed_port(_folder):
    """Connections that others open vanish; the way to the store stays open."""
    ip("rule", "add", "pref", "10", "lookup", "local")
    ip(
        "rule",
        "add",
        "pref",
        "5",
        "iif",
        "eth0",
        "ipproto",
        "tcp",
        "sport",
        EPHEMERAL,
        "dport",
        EPHEMERAL,
        "blackhole",
    )
    ip("rule", "del", "pref", "0")


def loopback_name(folder):
    """The store by a name that this host maps to itself."""
    hosts = os.path.join(folder, f"hosts.{os.environ['RANK']}")
    write(hosts, "127.0.0.1 localhost\n127.0.1.1 boxa\n")
    os.environ["SHOAL_RENDEZVOUS"] = f"tcp://boxa:{STORE_PORT}"
    return ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts]


def tiny_buffers(_folder):
    write("/proc/sys/net/ipv4/tcp_rmem", "4096 8192 16384")
    write("/proc/sys/net/ipv4/tcp_wmem", "4096 8192 16384")


def loaded_host(_folder):
    """Three others on this rank's one core; they die with the lab."""
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    for _ in range(3):
        subprocess.Popen([sys.executable, "-c", "while True: pass"])


def late_clock(folder):
    os.environ["LD_PRELOAD"] = os.path.join(folder, "late.so")
    # A build with the address sanitizer else refuses what is loaded before its runtime.
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"


PLANTS = {
    "interface": wrong_interface,
    "port": closed_port,
    "name": loopback_name,
    "buffers": tiny_buffers,
    "load": loaded_host,
    "clock": late_clock,
}


def main():
    shoal, folder, faults = sys.argv[1:4]
    command = [shoal, "doctor", "--json", *sys.argv[4:]]
    for fault in filter(None, faults.split(",")):
        rank, kind = fault.split(":")
        if rank == os.environ["RANK"]:
            command = (PLANTS[kind](folder) or []) + command
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
