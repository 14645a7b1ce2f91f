# SPDX-License-Identifier: Apache-2.0
"""Ray on the hosts of cluster.py: its head on the login host, and a node with two places on each of
n1 to n4."""
import json
import os

import cluster
import python_packages

PORT = 6379
# All five are on one machine: Ray's workers are nice, and its agents many.
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_worker_niceness": "0",
    "RAY_prestart_worker_first_driver": "0",
}
ALIVE = """
import json, ray
ray.init(address="ADDRESS", log_to_driver=False)
print(json.dumps(sorted(n["NodeManagerAddress"] for n in ray.nodes() if n["Alive"])))
"""


class Ray:
    def __init__(self, site):
        self.site = site
        self.address = f"{site.ip[cluster.LOGIN]}:{PORT}"
        folder = os.path.join(python_packages.FOLDER, "bin")
        site.env.update(QUIET, PATH=f"{folder}:{site.env['PATH']}")
        site.env["PYTHONPATH"] = os.path.join(cluster.ROOT, "python")
        site.env["SHOAL_LIBRARY"] = os.path.join(cluster.BUILD, "libshoal.so")
        self.start(cluster.LOGIN, "--head", f"--port={PORT}", "--num-cpus=0",
                   "--include-dashboard=false")
        for name in cluster.HOSTS:
            self.node(name)
        nodes = self.alive()
        assert nodes == sorted(site.ip.values()), nodes

    def start(self, name, *options):
        """One node, and until it is there: Ray gives a node 30 seconds, however busy the machine,
        so one after the other, and again where that was too short."""
        more = ["--block", "--disable-usage-stats", f"--node-ip-address={self.site.ip[name]}"]
        more += ["--object-store-memory=100000000"]
        again = 'until "$@"; do echo again; done'
        words = ["sh", "-c", again, "sh", "ray", "start", *options, *more]
        self.site.hosts[name].daemon(*words, to="ray")
        told = f"ray.{name}.log"
        cluster.wait_until(lambda: "Ray runtime started" in self.site.read(told),
                           lambda: self.site.read(told), 240)

    def node(self, name):
        self.start(name, f"--address={self.address}", "--num-cpus=2")

    def alive(self):
        """Addresses of the nodes that Ray knows; []: it does not answer yet."""
        told = self.python("-c", ALIVE.replace("ADDRESS", self.address), timeout=120)
        lines = told.stdout.splitlines()[-1:] if told.returncode == 0 else []
        return json.loads(lines[0]) if lines else []

    def python(self, *words, timeout=cluster.DEADLINE_S):
        env = {"RAY_ADDRESS": self.address}
        return self.site.login.run("python3", "-B", *words, env=env, timeout=timeout)
