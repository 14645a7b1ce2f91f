# SPDX-License-Identifier: Apache-2.0
"""What runs on the hosts of cluster.py: sshd with keys of this site, and Slurm with munge."""
import os
import subprocess

import cluster

SLURM = """
ClusterName=lab
SlurmctldHost=login
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
StateSaveLocation={site}/state
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=2,batch_sched_delay=0
ReturnToService=2
SlurmdTimeout=10
MessageTimeout=10
KillWait=20
MpiDefault=none
RequeueExit=85
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=n[1-4] CPUs=16 State=UNKNOWN
PartitionName=usual Nodes=n[1-4] Default=YES PriorityTier=1 GraceTime=60 OverSubscribe=NO
PartitionName=urgent Nodes=n[1-4] PriorityTier=10 PreemptMode=off OverSubscribe=NO
"""

# What a site's administrator sets for mpirun, as Open MPI 4.1 and 5 (PRRTE) call it.
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_oob_tcp_if_include": "br0,eth0",
    "OMPI_MCA_btl_tcp_if_include": "eth0",
    "OMPI_MCA_btl": "tcp,self",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_prte_if_include": "br0,eth0",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": "slot",
}


class Ssh:
    """An sshd on each of n1 to n4, and an ssh of the login host that knows them."""

    def __init__(self, site):
        self.site = site
        for name in ("host", "user", "other"):
            key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", site.path(name)]
            subprocess.run(key, check=True)
        site.write(
            "sshd_config",
            f"HostKey {site.path('host')}\nAuthorizedKeysFile {site.path('user.pub')}\n"
            "PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\n"
            "PasswordAuthentication no\nMaxStartups 100\nClientAliveInterval 1\n"
            "ClientAliveCountMax 3\n"
            f"SetEnv HOME={site.env['HOME']} PATH={site.env['PATH']} OMP_NUM_THREADS=1\n",
        )
        self.know(cluster.HOSTS)
        site.write(
            "ssh_config",
            f"Host *\nIdentityFile {site.path('user')}\nIdentitiesOnly yes\n"
            f"UserKnownHostsFile {site.path('known')}\nGlobalKnownHostsFile /dev/null\n"
            "IdentityAgent none\nServerAliveInterval 1\nServerAliveCountMax 3\n",
        )
        self.rsh = site.write(
            "rsh",
            f"#!/bin/sh\nexec ssh -F {site.path('ssh_config')} -o BatchMode=yes "
            '-o ConnectTimeout=60 "$@"\n',
            mode=0o700,
        )
        for name in cluster.HOSTS:
            self.serve(site.hosts[name])

    def serve(self, host):
        config = self.site.path("sshd_config")
        log = f"sshd.{host.name}.log"
        before = self.site.read(log).count("Server listening on")
        host.daemon(cluster.which("sshd"), "-D", "-e", "-f", config)
        cluster.wait_until(lambda: self.site.read(log).count("Server listening on") > before, log)

    def bring_back(self):
        for name in cluster.HOSTS:
            if self.site.hosts[name].outer.poll() is not None:
                self.site.connect(self.site.add(name))
                self.serve(self.site.hosts[name])
                # the others' kernels may still know that nobody is there
                cluster.wait_until(lambda name=name: self.can_log_in(name), f"a login on {name}")

    def can_log_in(self, name):
        return self.site.login.run(self.rsh, name, "true").returncode == 0

    def know(self, names):
        key = " ".join(self.site.read("host.pub").split()[:2])
        self.site.write("known", *(f"{name} {key}\n" for name in names))

    def env(self):
        """A login may take longer than the usual 10 s where the machine is busy."""
        return {"SHOAL_RSH": self.rsh, "SHOAL_HOSTS_WAIT": "60"}

    def mpi(self):
        agents = ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent")
        return {**MPI, **{name: self.rsh for name in agents}}


class Slurm:
    """munged everywhere, slurmctld on the login host, slurmd on n1 to n4."""

    PROGRAMS = "munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol"

    def __init__(self, site):
        self.site = site
        key = site.path("munge.key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o400), "wb") as file:
            file.write(os.urandom(128))
        os.mkdir(site.path("state"), 0o700)
        site.write("slurm.conf", SLURM.format(site=site.folder))
        version = site.login.run("slurmctld", "-V").stdout.split()[-1]
        if int(version.split(".")[0]) >= 23:  # without them a daemon of that age does not begin
            site.write("cgroup.conf", "CgroupPlugin=disabled\n")
        site.env["SLURM_CONF"] = site.path("slurm.conf")
        for name in [*cluster.HOSTS, cluster.LOGIN]:
            self.munge(site.hosts[name], key)
        site.login.daemon("slurmctld", "-D", "-f", site.path("slurm.conf"))
        for name in cluster.HOSTS:
            self.serve(site.hosts[name])
        cluster.wait_until(self.is_up, self.states)

    def munge(self, host, key):
        options = ["--key-file", key, "--socket", "/run/munge/munge.socket.2"]
        options += ["--pid-file", "/run/munge/pid", "--seed-file", "/run/munge/seed"]
        made = host.run("munged", "--force", *options, "--log-file", "/run/munge/log")
        assert made.returncode == 0, made.stderr

    def serve(self, host):
        host.daemon("slurmd", "-D", "-f", self.site.path("slurm.conf"))

    def states(self):
        """The state of each node: IDLE, ALLOCATED, DOWN*, ..."""
        listed = self.site.login.run("sinfo", "-h", "-N", "-p", "usual", "-o", "%N %T").stdout
        return dict(line.split() for line in listed.splitlines())

    def is_up(self):
        return self.states() == {name: "idle" for name in cluster.HOSTS}

    def bring_back(self):
        """All nodes are idle; one that lost its power is started again."""
        site = self.site
        for name in cluster.HOSTS:
            if site.hosts[name].outer.poll() is not None:
                site.connect(site.add(name))
                self.munge(site.hosts[name], site.path("munge.key"))
                self.serve(site.hosts[name])
        cluster.wait_until(self.is_up, self.states)

    def submit(self, script, *options, env=None):
        """A script is handed in. @return the job's number"""
        path = self.site.write(f"job{len(os.listdir(self.site.folder))}.sh", script)
        done = self.site.login.run("sbatch", "--parsable", *options, path, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout.split(";")[0].strip()

    def show(self, job):
        """All that scontrol says of a job; {}: it has forgotten it."""
        told = self.site.login.run("scontrol", "-o", "show", "job", job).stdout
        return dict(word.split("=", 1) for word in told.split() if "=" in word)

    def state(self, job):
        return self.show(job).get("JobState", "gone")

    def wait(self, job, *states, seconds=cluster.DEADLINE_S):
        def reached():
            return self.state(job) in (states or ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT",
                                                  "NODE_FAIL", "PREEMPTED"))

        def now():
            return f"job {job}: {self.show(job)}\n{self.output(job)}"

        cluster.wait_until(reached, now, seconds)
        return self.state(job)

    def output(self, job):
        return self.site.read(f"slurm-{job}.out")
