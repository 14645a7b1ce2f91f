# SPDX-License-Identifier: Apache-2.0
"""shoal watch --http: the page and its stream, who may read them, and a job that loses a rank."""
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time

import shoal
from status_fake import rank
from watch_browser import LIMIT_S, Events, Server, changes_of, job_of, pace_of, state_of, states_of
from watch_case import Watch

BUSY = {"busy": True, "doing_s": 3.5, "operation": "all-reduce 7"}


class Http(Watch):
    def serve(self, *words, **kwargs):
        server = Server(self.folder, *words, **kwargs)
        self.addCleanup(server.close)
        return server

    def events(self, server, headers=None):
        events = server.events(headers)
        self.addCleanup(events.close)
        return events

    def file(self, name, text, mode=0o600):
        path = os.path.join(self.top, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, mode)
        return path


class Page(Http):
    def test_the_page_asks_nobody_else_for_anything(self):
        server = self.serve()
        self.assertRegex(server.url, rf"^http://127\.0\.0\.1:{server.port}/#token=[0-9a-f]{{32}}$")
        for path, kind in {"/": "text/html", "/watch.css": "text/css",
                           "/watch.js": "text/javascript"}.items():  # fmt: skip
            code, headers, body = server.ask(path)
            self.assertEqual(code, 200, path)
            self.assertIn(kind, headers["Content-Type"])
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
            self.assertNotIn("unsafe", headers["Content-Security-Policy"])
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["Cache-Control"], "no-store")
            text = body.decode("utf-8").replace("http://www.w3.org/2000/svg", "")
            self.assertNotRegex(text, "[a-z]://|[\"'(]//|@import|import ", path)
            self.assertNotRegex(text, "innerHTML|style=|onclick|eval")
            self.assertNotIn(server.token, text)
            code, headers, nothing = server.ask(path, method="HEAD")
            self.assertEqual((code, nothing, int(headers["Content-Length"])), (200, b"", len(body)))
        named = re.findall(r'(?:src|href)="([^"]*)"', server.ask("/")[2].decode("utf-8"))
        self.assertEqual(named, ["/watch.css", "/watch.js", "#main"])
        self.assertEqual(server.ask("/favicon.ico")[0], 204)
        self.assertEqual(server.ask("/../etc/passwd")[0], 404)

    def test_only_looking_and_only_by_its_name(self):
        server = self.serve()
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"):
            code, headers, _ = server.ask("/", method=method)
            self.assertIn((code, headers["Allow"]), [(405, "GET, HEAD")], method)
        port = server.port
        for name, code in {f"127.0.0.1:{port}": 200, "localhost": 200, f"localhost:{port + 1}": 200,
                           f"[::1]:{port}": 200, socket.gethostname(): 200,
                           f"rebound.example:{port}": 421, "127.0.0.1.nip.example": 421,
                           "localhost.example": 421, "[x]": 421, "": 421, ":": 421,
                           "a" * 300: 421}.items():  # fmt: skip
            for path in ("/", "/state"):
                said = server.ask(path, headers={"Host": name, **server.bearer()})[0]
                self.assertEqual(said, code, (name, path))

    def test_strangers(self):
        job = self.job("secret-name", [rank()])
        server = self.serve()
        wrong = server.token[:-1] + ("0" if server.token[-1] != "0" else "1")
        cookie = f"shoal-watch-{server.port}="
        for headers in ({}, server.bearer(wrong), server.bearer(server.token + "0"),
                        server.bearer(server.token[:-1]), {"Authorization": server.token},
                        {"Cookie": cookie + server.token}, {"Cookie": cookie},
                        {"Cookie": cookie + 64 * "0"}, {"Authorization": "Bearer "}):  # fmt: skip
            for path in ("/state", "/events", "/enter"):
                code, got, body = server.ask(path, headers=headers)
                self.assertEqual(code, 401, (headers, path))
                self.assertEqual(got["WWW-Authenticate"], "Bearer")
                self.assertIsNone(got["Set-Cookie"])
                self.assertNotIn(job.name.encode(), body)
        # The token in an address is no way in: addresses are written down everywhere.
        self.assertEqual(server.ask("/state?token=" + server.token)[0], 401)
        code, got, _ = server.ask("/enter", headers=server.bearer())
        self.assertEqual(code, 200)
        self.assertRegex(got["Set-Cookie"],
                         f"^{cookie}[0-9a-f]{{64}}; Path=/; HttpOnly; SameSite=Strict$")
        self.assertNotIn(server.token, got["Set-Cookie"])
        mine = {"Cookie": got["Set-Cookie"].split(";")[0]}
        self.assertEqual(server.ask("/state", headers=mine)[0], 200)
        self.events(server, mine).until(lambda s: job_of(s, "secret-name"))
        self.assertEqual(server.ask("/enter", headers=mine)[0], 401)  # no way to keep it alive

    def test_what_jobs_do(self):
        job = self.job("night", [rank(ended=500, **BUSY), rank(host="b", ended=499, doing_s=3)],
                       "rank 0 to rank 1 (b): link 10.0.0.2 is not used any more\n")  # fmt: skip
        server = self.serve()
        events = self.events(server)
        first = job_of(events.until(lambda s: job_of(s, "night")), "night")
        self.assertEqual((first["state"], first["count"]), ("running", "2 ranks, all running"))
        self.assertEqual([r["waits_for"] for r in first["ranks"]], [[1], []])
        self.assertIn("rank 1 (b) has been computing for 3.0 s", first["ranks"][1]["text"])
        self.assertIn("10.0.0.2 is not used", first["notes"])
        events.until(lambda s: pace_of(s, "night") == 0)
        job.ranks = [rank(ended=900, **BUSY), rank("dead", host="b", ended=499, seen_s=9)]
        dead = events.until(lambda s: states_of(s, "night") == ["running", "dead"])
        self.assertIn("rank 1 (b) is dead, was running", changes_of(dead, "night"))
        self.assertEqual(job_of(dead, "night")["ranks"][0]["waits_for"], [1])
        self.assertGreater(job_of(events.until(lambda s: pace_of(s, "night") > 0),
                                  "night")["rates"][-1][3], 0)  # fmt: skip
        job.ranks = [rank(ended=1) for _ in range(3)]
        events.until(lambda s: "met anew: 3, before 2" in changes_of(s, "night"))
        other = self.job("day", [rank(cause="compute", slow_s=9, caused_ms=4), rank(**BUSY)])
        both = events.until(lambda s: len(states_of(s, "day")) == 2)
        self.assertEqual(job_of(both, "night")["state"], "running")
        self.assertIn("slow at computing", job_of(both, "day")["ranks"][0]["text"])
        self.assertEqual(job_of(both, "day")["ranks"][1]["waits_for"], [0])
        other.mute = True
        events.until(lambda s: state_of(s, "day") == "silent")
        self.end(other)
        over = events.until(lambda s: state_of(s, "day") == "over")
        self.assertEqual([j["job"] for j in over["jobs"]], ["night", "day"])
        self.assertEqual(len(job_of(over, "day")["ranks"]), 2)  # as it was last seen
        self.job("day", [rank()])
        again = events.until(lambda s: len([j for j in s["jobs"] if j["job"] == "day"]) == 2)
        self.assertEqual(job_of(again, "day")["state"], "running")
        self.assertEqual(events.ids, sorted(set(events.ids)))

    def test_how_far_it_trains(self):
        """A loss for each step that was seen, those of steps that are made again but once."""
        def ranks(step, *losses):
            return [rank(ended=step, step=step, epoch=2, loss=loss, accuracy=81.25)
                    for loss in losses]  # fmt: skip
        job = self.job("night", [rank(), rank()])
        events = self.events(self.serve())
        first = job_of(events.until(lambda s: s["jobs"]), "night")
        self.assertEqual((first["training"], first["far"], first["losses"]), (None, "", []))
        for step, losses in ((10, (2.5, 1.5)), (20, (1.0, 0.5)), (15, (0.75, float("nan")))):
            job.ranks = ranks(step, *losses)
            got = job_of(events.until(lambda s, step=step: (job_of(s, "night")["training"] or {})
                                      .get("step") == step), "night")  # fmt: skip
        self.assertEqual(got["losses"], [[10, 2], [15, 0.75]])
        self.assertEqual(got["training"],
                         {"step": 15, "epoch": 2, "loss": 0.75, "accuracy": 81.25})  # fmt: skip
        self.assertEqual(got["far"], "step 15, epoch 2, loss 0.75, accuracy 81.25 %")
        self.assertEqual((got["ranks"][0]["loss"], got["ranks"][1]["loss"]), (0.75, None))

    def test_one_job_and_hostile_names(self):
        name = "n\x1b[31m\u202e</script>\n\ndata: {}"
        job = self.job(name, [rank(host="h\r\n\r\ndata: 1", operation="\x9b\n", **{"busy": True})])
        self.job("other", [rank()])
        number = 1 + [j["job"] for j in json.loads(
            shoal.run("status", "--json", env={"SHOAL_STATUS_DIR": self.folder}).stdout
        )["jobs"]].index("other")  # fmt: skip
        events = self.events(self.serve())
        both = events.until(lambda s: len(s["jobs"]) == 2)
        shown = next(j["job"] for j in both["jobs"] if j["job"] != "other")
        self.assertEqual((shown[:1], "\n" in shown, len(shown)), ("n", False, len(name)))
        one = self.events(self.serve("--job", number))
        self.assertEqual([j["job"] for j in one.until(lambda s: s["jobs"])["jobs"]], ["other"])
        self.end(job)  # and the number is another's; the page stays with its job
        events.until(lambda s: state_of(s, shown) == "over")
        seen = len(one.got)
        shoal.wait_until(lambda: len(one.got) > seen + 3)
        self.assertEqual([(j["job"], j["state"]) for j in one.got[-1]["jobs"]],
                         [("other", "running")])  # fmt: skip

    def test_ctrl_c_ends_it_at_once(self):
        job = self.job("night", [rank()])
        server = self.serve()
        events = self.events(server)
        events.until(lambda s: s["jobs"])
        job.mute = True  # a question is on its way, for a second
        server.process.send_signal(signal.SIGINT)
        self.assertEqual(server.process.wait(LIMIT_S), -signal.SIGINT)
        shoal.wait_until(lambda: events.over)


class Crowd(Http):
    def test_silent_connections_keep_nobody_out(self):
        self.job("night", [rank()])
        server = self.serve()
        events = self.events(server)
        events.until(lambda s: s["jobs"])
        silent = []
        self.addCleanup(lambda: [one.close() for one in silent])
        for i in range(200):
            silent.append(socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_S))
            if i % 2:
                silent[-1].sendall(b"GET / HTTP/1.1\r\nHo")
        self.assertEqual(server.ask("/")[0], 200)
        self.assertEqual(len(server.state()["jobs"]), 1)
        seen = len(events.got)
        shoal.wait_until(lambda: len(events.got) > seen + 3)

    def test_who_does_not_read_is_dropped_and_holds_up_nobody(self):
        self.job("night", [rank(host=f"host-{i}", operation="x" * 60) for i in range(300)])
        server = self.serve()
        events = self.events(server)
        lazy = socket.socket()
        self.addCleanup(lazy.close)
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.settimeout(LIMIT_S)
        lazy.connect(("127.0.0.1", server.port))
        lazy.sendall((f"GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                      f"{server.token}\r\n\r\n").encode())  # fmt: skip
        lazy.recv(1)
        local = "%02X%02X%02X%02X:%04X" % (1, 0, 0, 127, lazy.getsockname()[1])

        def held():  # the server's end of it
            with open("/proc/net/tcp", encoding="ascii") as file:
                rows = [line.split() for line in file]
            return any(r[2] == local and r[3] == "01" for r in rows)

        self.assertTrue(held())
        shoal.wait_until(lambda: not held())
        seen = len(events.got)
        self.assertGreater(seen, 3)
        shoal.wait_until(lambda: len(events.got) > seen + 1)

    def test_more_watchers_than_places(self):
        server = self.serve()
        many = [server.events() for _ in range(32)]
        for one in many:
            one.until(lambda s: True)
        full = Events(server.port, server.bearer())
        self.assertEqual(full.answer.status, 503)
        self.assertEqual(server.ask("/state", headers=server.bearer())[0], 200)
        for one in many:
            one.close()

        def let_in():
            one = server.events()
            one.close()
            return one.answer.status == 200

        shoal.wait_until(let_in)

    def test_long_requests_and_bodies(self):
        server = self.serve()
        for head in ("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + "x" * 100_000,
                     "GET /" + "x" * 100_000 + " HTTP/1.1\r\nHost: localhost",
                     "GET / HTTP/1.1\r\nHost: localhost\r\n" + "X: y\r\n" * 20_000):  # fmt: skip
            with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_S) as one:
                try:
                    one.sendall(head.encode() + b"\r\n\r\n")
                    said = one.recv(100)
                except OSError:
                    said = b""
                self.assertTrue(said == b"" or said.startswith(b"HTTP/1.1 4"), said)
        with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_S) as one:
            one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
            said = b""
            while part := one.recv(65536):  # the answer, and an end: it does not wait for a body
                said += part
            self.assertTrue(said.startswith(b"HTTP/1.1 200"), said[:100])
        self.assertEqual(server.ask("/")[0], 200)


class Refused(Http):
    def test_what_is_refused(self):
        self.job("night", [rank()])
        token, short = self.file("token", "0123456789abcdef\n"), self.file("short", "0123\n")
        shown = self.file("shown", "0123456789abcdef\n", 0o644)
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        port = taken.getsockname()[1]
        for words, names in {
            ("--http", "0.0.0.0:0"): "--token-file",
            ("--http=[::]:0",): "--token-file",
            ("--http", "0.0.0.0:0", "--token-file", token): "--tls-cert",
            ("--http", f"127.0.0.1:{port}"): f"--http 127.0.0.1:{port}: Address already in use",
            ("--http=1.2.3.4.5:6",): "no address", ("--http=70000",): "no address",
            ("--http", "night"): "named by --job", ("--http=0", "1"): "one address at a time",
            ("--http", "--job", "x"): "'x'",
            ("--http", "--token-file", short): "fewer than 16",
            ("--http", "--token-file", shown): "others may read it",
            ("--http", "--tls-cert", token): "--tls-cert needs --tls-key",
            ("--http", "--tls-key", token): "--tls-key needs --tls-cert",
            ("--http", "--tls-cert", token, "--tls-key", token): "no PEM file",
            ("--http", "--ascii"): "--ascii", ("--http", "--interval=0"): "--interval",
            ("--json",): "--json is the page's", ("--token-file", token): "needs --http",
            ("--tls-cert", token): "needs --http",
        }.items():  # fmt: skip
            done = shoal.run("watch", *words, env={"SHOAL_STATUS_DIR": self.folder})
            self.assertEqual((done.returncode, done.stdout), (2, ""), (words, done.stderr))
            self.assertIn(names, done.stderr, words)

    def test_beyond_this_host(self):
        """With a token and TLS; no word without TLS, and none without the token."""
        if shutil.which("openssl") is None:
            self.skipTest("no certificate is made without the program openssl")
        cert, key = (os.path.join(self.top, n) for n in ("cert.pem", "key.pem"))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-subj", "/CN=watch", "-addext", "subjectAltName=IP:127.0.0.1",
             "-keyout", key, "-out", cert], check=True, capture_output=True)  # fmt: skip
        self.job("night", [rank()])
        token = self.file("token", "0123456789abcdef-watch\n")
        words = ["--token-file", token, "--tls-cert", cert, "--tls-key", key]
        done = shoal.run("watch", "--http", *words[:-1], self.file("other", "-----BEGIN PRIVATE KEY"
                         "-----\nno\n"), env={"SHOAL_STATUS_DIR": self.folder})  # fmt: skip
        self.assertEqual(done.returncode, 2)
        self.assertIn("are not a certificate and its key", done.stderr)
        server = self.serve("0.0.0.0:0", *words)
        self.assertEqual(server.url, f"https://{socket.gethostname()}:{server.port}/")
        context = ssl.create_default_context(cafile=cert)

        def ask(path, header=""):
            with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_S) as one:
                with context.wrap_socket(one, server_hostname="127.0.0.1") as safe:
                    self.assertIn(safe.version(), ("TLSv1.2", "TLSv1.3"))
                    safe.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{header}\r\n".encode())
                    said, end = b"", time.monotonic() + LIMIT_S
                    while b"\r\n\r\n" not in said and time.monotonic() < end:
                        part = safe.recv(4096)
                        if not part:
                            break
                        said += part
                    return said

        right = "Authorization: Bearer 0123456789abcdef-watch\r\n"
        self.assertIn(b" 200 ", ask("/").split(b"\r\n")[0])
        self.assertIn(b" 401 ", ask("/state").split(b"\r\n")[0])
        self.assertIn(b" 200 ", ask("/events", right).split(b"\r\n")[0])
        self.assertRegex(ask("/enter", right), rb"Set-Cookie: [^\r]*; Secure\r")
        with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_S) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            try:
                self.assertNotIn(b"HTTP", plain.recv(100))
            except ConnectionError:
                pass


class Real(Http):
    def test_a_rank_is_killed_and_another_comes(self):
        data = os.path.join(self.top, "data")
        made = shoal.run("data", "digits", "--out", data, "--train", 96, "--test", 20)
        self.assertEqual(made.returncode, 0, made.stderr)

        def train(name, *words):
            job = subprocess.Popen(
                [shoal.SHOAL, *"train --model mlp-small --batch 4 --compute-ms 10 --epochs 10000 "
                 "--no-eval --quiet --workers 3".split(), *words, "--data", data],
                env={**os.environ, "SHOAL_STATUS_DIR": self.folder, "SHOAL_JOB": name},
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
            self.addCleanup(job.wait)
            self.addCleanup(job.terminate)
            return job

        server = self.serve()
        events = self.events(server)
        self.assertEqual(events.until(lambda s: True)["jobs"], [])
        night = train("night", "--on-loss", "reform", "--spares", "1")
        events.until(lambda s: states_of(s, "night") == ["running"] * 3
                     and pace_of(s, "night") > 1)  # fmt: skip
        os.kill(shoal.ranks_of(night.pid, spares=False)[2], signal.SIGKILL)
        events.until(lambda s: re.search("rank 2 .* is dead|met anew", changes_of(s, "night")))
        back = "rank 2 .* is running, was|met anew"
        events.until(lambda s: re.search(back, changes_of(s, "night"))
                     and states_of(s, "night") == ["running"] * 3
                     and pace_of(s, "night") > 1)  # fmt: skip
        day = train("day", "--sync", "hop:graph=complete")  # others go on without a lost one
        events.until(lambda s: states_of(s, "day") == ["running"] * 3
                     and pace_of(s, "day") > 1)  # fmt: skip
        os.kill(shoal.ranks_of(day.pid)[1], signal.SIGKILL)
        said = events.until(lambda s: states_of(s, "day") == ["running", "dead", "running"])
        self.assertIn("is dead: last seen", job_of(said, "day")["ranks"][1]["text"])
        self.assertRegex(changes_of(said, "day"), r"rank 1 \(.*\) is dead, was ")
        night.terminate()
        events.until(lambda s: state_of(s, "night") == "over")


if __name__ == "__main__":
    shoal.main()
