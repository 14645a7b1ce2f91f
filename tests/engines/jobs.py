# SPDX-License-Identifier: Apache-2.0
"""What the tests of every engine start, and how they look at it."""
import json
import subprocess
import time

import cluster

# Eight workers on four hosts; what they end with does not depend on where they run.
LENET = ["shoal", "train", "--model", "lenet", "--data", "digits", "--batch", 16, "--epochs", 50]
LENET += ["--no-eval", "--json", "--quiet"]


def make_data(site):
    words = ["data", "digits", "--out", "digits", "--train", 400, "--test", 100, "--quiet"]
    subprocess.run([cluster.SHOAL, *map(str, words)], cwd=site.folder, check=True)


def token(site):
    return site.write("token", "b2f5ff47436671b6e533d8dc3614845d\n", mode=0o600)


def results(text):
    """The objects among the lines of a job's output, whatever stands before them."""
    found = []
    for line in text.splitlines():
        at = line.find("{")
        if at >= 0 and line.rstrip().endswith("}"):
            found.append(json.loads(line[at:]))
    return found


def result(text):
    found = [one for one in results(text) if "train_loss" in one]
    assert len(found) == 1, f"{len(found)} results in {text}"
    return found[0]


def expected(site, steps=6, workers=8):
    """The same training on one host, started by shoal itself; in the environment that the hosts
    have, as OPENBLAS_CORETYPE and the like choose kernels that round in another way."""
    done = site.login.run(*LENET, "--steps", steps, "--workers", workers)
    assert done.returncode == 0, done.stderr
    return result(done.stdout)


def step_of(site, out):
    """The newest step that any worker has written down."""
    newest = 0
    for name in site.names(out, "metrics"):
        for line in site.read(name).splitlines():
            try:
                newest = max(newest, json.loads(line).get("step", 0))
            except ValueError:
                pass
    return newest


def wait_step(site, out, step, what=""):
    cluster.wait_until(lambda: step_of(site, out) >= step, lambda: f"{out}: {what()}")


def next_step_s(site, out, what):
    """Seconds until two more steps are written down, one of which may have been under way."""
    began, at = time.monotonic(), step_of(site, out)
    wait_step(site, out, at + 2, what)
    return time.monotonic() - began


def kill_rank(site, rank):
    """Kill the process of a worker, wherever it is; its environment tells which it is. @return the
    name of its host"""
    script = f"""for p in /proc/[0-9]*; do
        [ "$(cat $p/comm 2>/dev/null)" = shoal ] &&
            tr '\\0' '\\n' <$p/environ |
            grep -qxE "(SHOAL_|OMPI_COMM_WORLD_)?RANK={rank}" && kill -9 ${{p#/proc/}} && exit 0
    done; exit 1"""
    for name in cluster.HOSTS:
        if site.hosts[name].run("sh", "-c", script).returncode == 0:
            return name
    raise AssertionError(f"no host has rank {rank}")
