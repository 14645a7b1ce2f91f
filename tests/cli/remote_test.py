# SPDX-License-Identifier: Apache-2.0
"""--hosts: which ranks go where and what they find there, with a shell in the place of ssh."""
import json
import os
import select
import socket
import subprocess
import tempfile
import unittest

import shoal


class Hosts(unittest.TestCase):
    def launch(self, hosts, script, *more, code=0):
        with shoal.shell_for_ssh() as rsh:
            words = ["run", "--hosts", hosts, *more, "--", "sh", "-c", script]
            done = shoal.run(*words, env={"SHOAL_RSH": rsh})
        self.assertEqual(code, done.returncode, done.stderr)
        return sorted(done.stdout.splitlines()), done.stderr

    def test_one_rank_on_each_host_or_its_slots(self):
        size = "echo $RANK/$WORLD_SIZE"
        self.assertEqual(["0/4", "1/4", "2/4", "3/4"], self.launch("a,b,c,d", size)[0])
        self.assertEqual(["0/3", "1/3", "2/3"], self.launch("a:2,b", size)[0])
        self.assertEqual(["0/2", "1/2"], self.launch("a,b,c", size, "-n", 2)[0])

    def test_addresses_of_version_6(self):
        said, _ = self.launch("[::1]:2,b", "echo $SHOAL_RENDEZVOUS $LOCAL_WORLD_SIZE")
        self.assertEqual(["1", "2", "2"], [line[-1] for line in said])
        self.assertRegex(said[0], r"^tcp://\[::1\]:[0-9]+ 1$")
        for bad in ("[::1]junk:2", "[::1", "[]"):
            self.assertIn("is no host name", self.launch(bad, "true", code=2)[1])
        self.assertEqual(["0/1"], self.launch("::1", "echo $RANK/$WORLD_SIZE")[0])

    def test_variables_go_with_the_ranks(self):
        said, _ = self.launch("a,b", 'echo "$FOO|$HOME"', "-x", "FOO=it's one", "-x", "HOME")
        self.assertTrue(all(line.startswith("it's one|/") for line in said), said)
        ours = ("RANK=0", "SHOAL_LAB=1", "SHOAL_SPARE=1")
        for bad in ("1A=2", "=x", "A-B=1", "NO_SUCH_VARIABLE_HERE", *ours):
            self.assertIn("--export", self.launch("a", "true", "-x", bad, code=2)[1])
        for words in (("-x", "A=1"), ("--path", "/usr/bin")):
            done = shoal.run("run", "-n", 1, *words, "--", "true")
            self.assertEqual(2, done.returncode)
            self.assertIn(f"{words[0]} goes with --hosts", done.stderr)

    def test_the_launcher_is_witness_of_who_failed(self):
        """To ranks on other hosts, which cannot see it; who ends well needs no witness."""
        script = (
            'case $RANK in 1) exit 7 ;; 2) exit 0 ;; 3) kill -9 $$ ;; esac; '
            'until [ "$(wc -l <"$SHOAL_LAUNCH_PROOF")" -ge 2 ]; do sleep 0.02; done; '
            'echo "$SHOAL_LAUNCH_ID"; cat "$SHOAL_LAUNCH_PROOF"; '
            'stat -c %a "$SHOAL_LAUNCH_PROOF"'
        )
        said, _ = self.launch("a,b,c,d", script, code=5)
        self.assertIn("600", said)
        names = [line.split(".") for line in said if line != "600"]
        self.assertEqual(["0", "1", "3"], sorted(rank for _, rank in names))
        self.assertEqual(1, len({launcher for launcher, _ in names}))

    def test_names_of_the_shells_own_variables(self):
        """What the script there calls its variables is no affair of the user's."""
        names = [word for name in "stcwxd" for word in ("-x", f"{name}=mine")]
        said, _ = self.launch("a", "echo $s$t$c$w$x$d; wc -c <$SHOAL_TOKEN_FILE", *names)
        self.assertEqual(["64", 6 * "mine"], said)

    def test_the_path_there(self):
        """--path comes first, then the PATH that -x hands over, then the PATH there."""
        with tempfile.TemporaryDirectory() as folder:
            for place, says in (("a", "first"), ("b", "second")):
                os.mkdir(f"{folder}/{place}")
                with open(f"{folder}/{place}/word", "w", encoding="ascii") as file:
                    file.write(f"#!/bin/sh\necho {says}\n")
                os.chmod(f"{folder}/{place}/word", 0o700)
            os.symlink(os.path.abspath(shoal.SHOAL), f"{folder}/a/shoal")
            words = ("--path", f"{folder}/a", "-x", f"PATH={folder}/b:{os.environ['PATH']}")
            self.assertEqual(["first"], self.launch("h", "word", *words)[0])
            self.assertEqual(["second"], self.launch("h", "word", *words[2:])[0])
        self.assertIn("--path", self.launch("h", "true", "--path", "a:b", code=2)[1])

    def test_spares_wait_there_too(self):
        say = "echo $RANK/$WORLD_SIZE ${SHOAL_SPARE:-member}"
        words = ("-n", 2, "--on-loss", "reform", "--spares", 1, "-g", 0)
        said, _ = self.launch("a:2,b", say, *words)
        self.assertEqual(["0/2 1", "0/2 member", "1/2 member"], said)

    def test_doctor_looks_at_all_hosts(self):
        with shoal.shell_for_ssh() as rsh:
            done = shoal.run("doctor", "--hosts", "127.0.0.1,127.0.0.2", "--json",
                             env={"SHOAL_RSH": rsh})
        self.assertEqual(2, json.loads(done.stdout)["ranks"], done.stderr)

    def test_a_rank_that_is_killed_there(self):
        said = self.launch("a,b", "[ $RANK = 1 ] && kill -9 $$; exit 0", code=5)[1]
        self.assertIn("rank 1 was killed by signal 9", said)

    def test_a_host_that_is_gone_after_the_start(self):
        said = self.launch("a", "exit 255", code=1)[1]
        self.assertIn("host a cannot be reached", said)

    def test_a_file_that_one_host_lacks(self):
        """Its sentence comes first, and its code is the job's; also where a lost rank costs
        nothing."""
        with tempfile.TemporaryDirectory() as folder:
            path = {name: os.path.join(folder, name) for name in ("data", "m.json", "rsh")}
            made = shoal.run("data", "digits", "--out", path["data"], "--train", 40, "--test", 10)
            self.assertEqual(0, made.returncode, made.stderr)
            with open(path["m.json"], "w", encoding="ascii") as file:
                json.dump({"name": "m", "input": [1, 28, 28], "layers": ["dense:out=10"]}, file)
            for lacks, sync in ((path["data"], "all_reduce"), (path["m.json"], "hop"),
                                (path["data"], "ad_psgd"),
                                (path["data"], "param_server:dedicated,async")):
                with self.subTest(lacks=lacks, sync=sync):
                    with open(path["rsh"], "w", encoding="ascii") as file:
                        file.write(f"""#!/bin/sh
[ "$1" = 127.0.0.1 ] || set -- "$1" "$(printf %s "$2" | sed "s,{lacks},/not/there,g")"
exec sh -c "$2"
""")
                    os.chmod(path["rsh"], 0o700)
                    workers = 2 if "dedicated" in sync else 3
                    done = shoal.run("train", "--quiet", "--json", "--data", path["data"],
                                     "--model", path["m.json"], "--sync", sync, "--hosts",
                                     "127.0.0.1:2,127.0.0.2", "--workers", workers,
                                     env={"SHOAL_RSH": path["rsh"]})
                    self.assertEqual(1, done.returncode, done.stderr)
                    self.assertRegex(done.stderr, "^shoal train: rank 2: [^\n]*/not/there")
                    self.assertEqual("", done.stdout)

    def test_what_starts_where(self):
        said = self.launch("a:2,b", "true")[1].splitlines()[0]
        start = "shoal run: sh on 2 hosts: ranks 0-1 on a, rank 2 on b; they meet at a, port "
        self.assertEqual(start, said[: len(start)])
        self.assertIn("ranks 0-2 on a; they", self.launch("a:4", "true", "-n", 3)[1])
        many = self.launch(",".join(f"h{i}" for i in range(9)), "true")[1]
        self.assertIn("on 9 hosts: rank 0 on h0, ", many)
        self.assertIn("rank 7 on h7, ...; they meet at h0", many)

    def test_ports_are_kept(self):
        """Nobody who asks for any gets them, rank 0 does; until the launcher's end."""
        held = subprocess.Popen(
            [shoal.SHOAL, "run", "--hold-ports=0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        ports = [int(port) for port in held.stdout.readline().split()[2:]]
        self.assertEqual(2, len(set(ports)))
        self.assertEqual([], select.select([held.stdout], [], [], 0.3)[0])  # no end of its own
        for port in ports:
            for family, any_host in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
                with socket.socket(family) as stranger, self.assertRaises(OSError):
                    stranger.bind((any_host, port))
            socket.create_server(("127.0.0.1", port)).close()  # allows the address to be used again
        held.communicate(timeout=60)
        self.assertEqual(0, held.returncode)

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as busy:
            port = busy.getsockname()[1]
            for given in (port, port - 1):
                said = self.launch("a", "echo began", "--port", given, code=1)
                self.assertEqual([], said[0])
                self.assertIn("host a: the port, or the one behind it, is taken", said[1])
        self.assertIn("--port", self.launch("a", "true", "--port", 65535, code=2)[1])


if __name__ == "__main__":
    shoal.main()
