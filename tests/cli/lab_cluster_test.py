# SPDX-License-Identifier: Apache-2.0
"""`--lab cluster=FILE`: the lab is the cluster that the planners and the simulator read."""
import glob
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import shoal

REASON = shoal.lab_works()
CLUSTER = {
    "name": "four",
    "accelerators": [{"name": "core", "flops": 1e11}],
    "hosts": [{"workers": 2, "nic": "100mbit"},
              {"workers": 2, "nic": "20mbit", "nic_down": "50mbit"}],
    "stragglers": [{"worker": 2, "slowdown": 3}],
}  # fmt: skip
WORDS = ("--compute-ms", 2, "--batch", 8, "--model", "mlp-small", "--no-eval", "--quiet")


@unittest.skipIf(REASON, REASON)
class LabOfACluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.data = os.path.join(cls.folder.name, "data")
        made = shoal.run("data", "digits", "--out", cls.data, "--train", 160, "--test", 40)
        assert made.returncode == 0, made.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def cluster(self, **change):
        path = os.path.join(self.folder.name, self.id().rsplit(".", maxsplit=1)[-1] + ".json")
        with open(path, "w", encoding="ascii") as file:
            json.dump({**CLUSTER, **change}, file)
        return path

    def refused(self, *words, code=2):
        done = shoal.run(*words)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_ranks_stand_on_its_hosts_behind_its_links(self):
        look = (
            "echo $RANK $(ip -4 -o addr show eth0 | grep -o '10.77.0.[0-9]*') ${SHOAL_SLOW:-1} "
            "$(tc qdisc show dev eth0 | grep -o 'rate [^ ]* burst [^ ]*')"
        )
        done = shoal.run("run", "--lab", f"cluster={self.cluster()}", "--", "sh", "-c", look)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), [
            "0 10.77.0.1 1 rate 100Mbit burst 80Kb",
            "1 10.77.0.1 1 rate 100Mbit burst 80Kb",
            "2 10.77.0.2 3 rate 20Mbit burst 16Kb",
            "3 10.77.0.2 1 rate 20Mbit burst 16Kb"])  # fmt: skip

    def test_a_run_keeps_the_lab_and_not_the_name_of_the_file(self):
        path, out = self.cluster(), os.path.join(self.folder.name, "run")
        done = shoal.run("train", "--data", self.data, "--lab", f"mtu=1400,cluster={path}",
                         "--steps", 12, "--epochs", 3, "--out", out, *WORDS)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            run = json.load(file)
        self.assertEqual(run["cluster"]["workers"], 4)
        self.assertEqual(
            run["options"]["lab"], "hosts=2,rate=100mbit,link=1:20mbit/50mbit,slow=2:3x,"
            "burst=rate,limit=8192,mtu=1400")  # fmt: skip
        os.remove(path)
        told = shoal.run("whatif", out, "--straggler", "none", "--json")
        self.assertEqual(told.returncode, 2, told.stderr)  # up and down differ: whatif says so
        self.assertIn("one rate both ways", told.stderr)
        again = shoal.run("train", "--resume", out, "--steps", 16, "--quiet")
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_what_does_not_go_together_is_refused(self):
        path = self.cluster()
        lab = ("--lab", f"cluster={path}")
        for more in ("hosts=2", "rate=1gbit", "slow=1:2x", "loss=1%", "cables=ring", "up=1gbit"):
            told = self.refused("run", "--lab", f"{more},cluster={path}", "--", "true")
            self.assertIn("only mtu, burst, limit, hole and throttle go with it", told)
        train = ("train", "--data", self.data, *lab, *WORDS)
        self.assertIn("has 4 workers, and 3 ranks", self.refused(*train, "--workers", 3))
        self.assertIn("and 5 ranks", self.refused(*train, "--sync", "param_server:dedicated"))
        self.assertIn("and 5 ranks", self.refused(*train, "--on-loss", "reform", "--spares", 1))
        told = self.refused("run", "--lab", "cluster=", "--", "true")
        self.assertIn("wanted a cluster's file", told)
        self.refused("run", "--lab", "cluster=/nowhere.json", "--", "true", code=2)
        far = self.cluster(hosts=[{"nic": "1gbit", "latency_us": 9000}],
                           stragglers=[{"worker": 0, "slowdown": 2}])  # fmt: skip
        self.assertIn("9000 us away",
                      self.refused("run", "--lab", f"cluster={far}", "--", "true"))  # fmt: skip

    def test_what_nobody_can_mean_by_keys(self):
        for words, said in (
            ("clustr=x", "unknown key 'clustr' (did you mean cluster?)"),
            ("zzzzzzzz", "unknown key 'zzzzzzzz'; known keys"),
            (",", "unknown key ''"),
            ("rate=1gbit,rate=2gbit", "key 'rate' is given twice"),
            ("cluster=a.json,cluster=b.json", "key 'cluster' is given twice"),
        ):
            with self.subTest(words=words):
                self.assertIn(said, self.refused("run", "-n", 2, "--lab", words, "--", "true"))
        twice = shoal.run("run", "-n", 2, "--lab", "slow=0:2x,slow=1:3x", "--", "true")
        self.assertEqual(0, twice.returncode, twice.stderr)

    @unittest.skipIf(os.geteuid() != 0, "root alone can be another user")
    def test_ranks_of_another_user_are_where_that_user_looks(self):
        """In a lab of theirs all are root, but root's folder for status is not theirs."""
        with tempfile.TemporaryDirectory() as folder:  # where another user may read the command
            os.chmod(folder, 0o755)
            command = shutil.copy(shoal.SHOAL, folder)
            for library in glob.glob(os.path.join(shoal.BUILD, "libshoal*.so*")):
                shutil.copy(library, folder)
            env = {k: v for k, v in os.environ.items()
                   if k not in ("SHOAL_STATUS_DIR", "XDG_RUNTIME_DIR")}  # fmt: skip
            done = subprocess.run(
                [command, "run", "-n", "1", "--lab", "rate=1gbit", "--", "sh", "-c",
                 "id -u; echo $SHOAL_STATUS_DIR"], user=65534, group=65534, extra_groups=[],
                cwd="/", env={**env, "LD_LIBRARY_PATH": folder}, capture_output=True, text=True,
                timeout=60, check=False)  # fmt: skip
        if done.returncode == shoal.SKIP:
            self.skipTest(done.stderr.strip())
        self.assertEqual("0\n/tmp/shoal-65534\n", done.stdout, done.stderr)


if __name__ == "__main__":
    unittest.main()
