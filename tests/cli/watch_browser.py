# SPDX-License-Identifier: Apache-2.0
"""What a browser does with shoal watch --http, without one: requests, a cookie, a stream."""
import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import threading
import time

import shoal

LIMIT_S = 60


class Server:
    """shoal watch --http --json WORDS."""

    def __init__(self, folder, *words, interval=0.1, **env):
        self.process = subprocess.Popen(
            [shoal.SHOAL, "watch", "--http", "--json", "--interval", str(interval),
             *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "SHOAL_STATUS_DIR": folder, **env})  # fmt: skip
        said = self.process.stdout.readline()
        if not said:
            raise AssertionError(self.process.communicate()[1])
        self.said = json.loads(said)
        self.url, self.port = self.said["url"], self.said["port"]
        found = re.search("#token=([0-9a-f]{32})$", self.url)
        self.token = found[1] if found else None

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate(timeout=LIMIT_S)

    def bearer(self, token=None):
        return {"Authorization": f"Bearer {token or self.token}"}

    def ask(self, path, method="GET", headers=None, body=None):
        """(code, headers, body), of a connection of its own."""
        one = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        try:
            one.request(method, path, body=body, headers=headers or {})
            answer = one.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            one.close()

    def state(self):
        code, _, body = self.ask("/state", headers=self.bearer())
        assert code == 200, (code, body)
        return json.loads(body)

    def events(self, headers=None):
        return Events(self.port, headers or self.bearer())


class Events:
    """The stream, as EventSource reads it: .got has what came."""

    def __init__(self, port, headers):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        self.connection.request("GET", "/events", headers=headers)
        self.socket = self.connection.sock
        self.answer = self.connection.getresponse()
        self.got, self.ids, self.over = [], [], False
        if self.answer.status != 200:
            self.connection.close()
            return
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        fields = {}
        try:
            for line in self.answer:
                name, _, value = line.decode("utf-8").rstrip("\n").partition(": ")
                if name:
                    fields[name] = value
                    continue
                self.ids.append(int(fields["id"]))
                self.got.append(json.loads(fields["data"]))
                fields = {}
        except (OSError, ValueError, http.client.HTTPException):
            pass
        self.over = True

    def until(self, condition):
        """The first event, from the first on, of which the condition holds."""
        end, at = time.monotonic() + LIMIT_S, 0
        while time.monotonic() < end:
            while at < len(self.got):
                if condition(self.got[at]):
                    return self.got[at]
                at += 1
            if self.over:
                break
            threading.Event().wait(0.01)
        last = [{**job, "rates": "..."} for state in self.got[-1:] for job in state["jobs"]]
        raise AssertionError(f"not among {at} events; the last: {json.dumps(last)[:5000]}")

    def close(self):
        if self.answer.status == 200:
            with contextlib.suppress(OSError):  # the server may have hung up
                self.socket.shutdown(socket.SHUT_RDWR)
            self.thread.join(LIMIT_S)
            self.connection.close()


def job_of(state, name):
    """The newest job of that name, or None."""
    found = [job for job in state["jobs"] if job["job"] == name]
    return max(found, key=lambda job: job["id"]) if found else None


def state_of(state, name):
    return (job_of(state, name) or {}).get("state")


def pace_of(state, name):
    """Operations per second; -1: not known."""
    pace = (job_of(state, name) or {}).get("pace")
    return -1 if pace is None else pace


def states_of(state, name):
    job = job_of(state, name)
    return [rank["state"] for rank in job["ranks"]] if job and "ranks" in job else []


def changes_of(state, name):
    return "\n".join(job_of(state, name)["changes"]) if job_of(state, name) else ""
