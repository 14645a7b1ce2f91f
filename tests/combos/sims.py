# SPDX-License-Identifier: Apache-2.0
"""Every two options of `shoal sim` in one job: jobs so small that a run is the question whether its
options go together."""
import json
import os
import subprocess
import sys
import xml.etree.ElementTree

import asked
import factors
from job import Fault, Folder, check

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import event_reader  # noqa: E402

WORKERS, LIMIT_S = 4, 120
FORMS = {
    "syncs": ("auto", "hop:backup=1", "param_server:servers=2", "param_server:dedicated,async",
              "param_server:dedicated,backup=1", "diloco:every=2,fragments=2", "local_sgd:every=2",
              "noloco:every=2", "ripples:static"),
    "codecs": ("eden:ef", "inceptionn:layout=floats"),
    "collectives": ("auto", "ring:order=auto", "hierarchical:site=2", "direct:site=2"),
}
ACCELERATORS = [{"name": "a", "flops": 1e10}]
CLUSTERS = {
    "hosts": {"name": "h", "accelerators": ACCELERATORS,
              "hosts": [{"count": 2, "workers": 2, "nic": "1gbit", "latency_us": 20}],
              "stragglers": [{"worker": 3, "slowdown": 3}]},
    "shape": {"name": "s", "accelerators": ACCELERATORS, "dimensions": [
        {"topology": "fc:2", "rate": "3GB/s", "latency_us": 10},
        {"topology": "switch:2", "rate": "0.3GB/s", "latency_us": 20}]},
}
DATA = "--data @@digits --model mlp-small --batch 8"
WORDS = {  # "@" begins what this suite puts in: a file below the job's folder, or one of its own
    "work": ("--params 3000", "--params 3000 --problem quadratic:noise=0.1", "--model lenet",
             DATA + " --optimizer sgd:momentum=0.9 --schedule cosine:warmup=1",
             DATA + " --optimizer sgd:momentum=0 --no-eval --lr 0.01"),
    "length": ("--iterations 3", "--seconds 0.35"),
    "faults": ("", "--faults plan:die=1@0.15,detect_ms=100",
               "--faults plan:die=1@0.15,detect_ms=100,reform",
               "--faults plan:stop=2@0.15,detect_ms=100",
               "--faults plan:leave=1@0.15,rejoin=1@0.25,reform",
               "--faults plan:cut=1@0.1-0.2"),
    "links": ("", "--network links:rate=100mbit,hosts=2", "--network links:rate=1gbit,loss=0.01",
              "--network links:rate=1gbit,slow=3:10x,jitter_us=50",
              "--cluster @@hosts.json", "--cluster @@shape.json"),
    "compute": ("", "--compute fixed:ms=20,jitter=0.1,slow=1:4x",
                "--compute fixed:ms=20,random=6x:0.2",
                "--compute model:batch=8,gflops=0.5"),
    "workers": (f"--workers {WORKERS}", "--workers 2", "--workers 1"),
    "files": ("", "--out @out", "--trace @trace.json", "--timeline @line.json", "--log @log.txt",
              "--pictures @drawn", "--out @out --tensorboard @board",
              "--out @out --trace @trace.json --timeline @line.json --log @log.txt "
              "--pictures @drawn --tensorboard @board"),
    "told": ("--json", ""),
    "bucket": ("", "--bucket 4k", "--bucket model"),
    "mixing": ("--no-mixing", ""),
}

# What goes with everything, by what the command promises: not asked, but a row that is refused for
# it is a fault.
NEUTRAL = ("files", "told", "bucket", "mixing", "length")


class Sim:
    """One job, in a folder of its own with all that it may write to."""

    def __init__(self, suite, name, words):
        self.suite, self.name = suite, name
        self.folder = Folder(suite.folder, name)
        self.args = [self.place(word) for value in words for word in value.split()]

    def place(self, word):
        if word.startswith("@@"):
            return os.path.join(self.suite.folder, word[2:])
        return os.path.join(self.folder.path, "tmp", word[1:]) if word.startswith("@") else word

    def option(self, name):
        return self.args[self.args.index(name) + 1] if name in self.args else None

    def command(self):
        return [self.suite.shoal, "sim", "--quiet", *self.args]

    def run(self, command=None):
        """(code, stdout, stderr)."""
        work = os.path.join(self.folder.path, "work")
        environ = {**os.environ, "TMPDIR": work, "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(command or self.command(), cwd=work, text=True, env=environ,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Fault(f"no end within {LIMIT_S} s") from None
        check(not os.listdir(work), f"left {os.listdir(work)} where it ran")
        return process.returncode, out, err

    def end_all(self):
        """It is one process, which has ended."""


class Sims(asked.Asked):
    def __init__(self, shoal):
        super().__init__(shoal)
        self.make("digits", "--train", 96, "--test", 20)
        for name, cluster in CLUSTERS.items():
            self.write(f"{name}.json", json.dumps(cluster))
        for option, (table, first) in {"sync": ("syncs", "all_reduce"),
                                       "codec": ("codecs", "identity"),
                                       "collective": ("collectives", "ring")}.items():
            names = [row["name"] for row in factors.listed(self.shoal, table)]
            names.remove(first)
            self.factors[option] = ("", *(f"--{option} {value}"
                                          for value in (*names, *FORMS[table])))
        self.factors.update(WORDS)

    def bases(self):
        plain = {name: 0 for name in self.factors}
        gather = next(i for i, words in enumerate(self.factors["collective"])
                      if words.endswith(" gather"))
        gathered = {**plain, "collective": gather}
        return [plain, gathered, {**gathered, "work": 4}, {**plain, "work": 4}]

    def ask(self, row):
        """A run: what it says of options that do not go together; how it ends is not asked here."""
        key = tuple(sorted({**row, **{name: 0 for name in NEUTRAL}}.items()))
        words = " ".join(self.words(dict(key)))
        if "site=2" in words and "reform" in words:
            return None, ""  # three are left, who are no two sites: the job ends by that
        if key not in self.answers:
            one = self.job(f"ask-{os.urandom(8).hex()}", dict(key))
            code, _, text = one.run()
            one.folder.drop()
            self.answers[key] = (2 if code == 2 else 0, text)
        return self.answers[key]

    def job(self, name, row):
        return Sim(self, name, self.words(row))

    def look(self, one):
        """What must hold of a simulation that was not refused."""
        code, out, err = one.run()
        lost = "--faults" in one.args
        check(code == 0 or (lost and code in (1, 5)), f"exit code {code}\n{err}")
        check(code != 2, f"refused in a row\n{err}")
        if "--json" in one.args:
            self.numbers(one, code, json.loads(out))
        else:
            check(out.count("\n") > 5, f"tells nothing\n{out}")
        self.files(one)
        if "--json" in one.args:
            self.again(one, json.loads(out))

    @staticmethod
    def numbers(one, code, result):
        check((result["error"] == "") == (code == 0), f"code {code}, error {result['error']!r}")
        check(result["iterations"] == sum(w["iterations"] for w in result["per_worker"]),
              "iterations are not the workers'")
        ended = [w["end"] for w in result["per_worker"]]
        check(code != 0 or "--seconds" in one.args or set(ended) <= {"done", "stopped"},
              f"ended well, with workers {ended}")
        sent, got = (sum(w[key] for w in result["per_worker"])
                     for key in ("sent_bytes", "received_bytes"))
        served = "dedicated" in (one.option("--sync") or "")
        check(sent == result["sent_bytes"] if not served else sent <= result["sent_bytes"],
              f"workers sent {sent} bytes, all {result['sent_bytes']}")
        broken = served or "--faults" in one.args or "--seconds" in one.args
        check(broken or sent == got, f"sent {sent} bytes, received {got}")
        check(result["duration_s"] > 0 and result["events"] > 0, "no time has passed")

    @staticmethod
    def again(one, result):
        """The same without any file: what is written changes nothing, nor does a second run."""
        left, words = list(one.args), []
        while left:
            word = left.pop(0)
            if word in ("--out", "--trace", "--timeline", "--log", "--pictures", "--tensorboard"):
                left.pop(0)
            else:
                words.append(word)
        _, out, _ = one.run([one.suite.shoal, "sim", "--quiet", *words])
        hashes = [r["log_hash"] for r in (result, json.loads(out))]
        check(hashes[0] == hashes[1], f"other events without files: {hashes}")

    def files(self, one):
        """Those asked for and no others, each whole."""
        tmp = one.folder / "tmp"
        asked_for = {os.path.basename(one.option(f"--{name}")): getattr(self, name)
                     for name in ("out", "trace", "timeline", "log", "pictures", "tensorboard")
                     if one.option(f"--{name}")}  # fmt: skip
        check(set(os.listdir(tmp)) == set(asked_for),
              f"asked for {sorted(asked_for)}, there are {sorted(os.listdir(tmp))}")
        for name, look in asked_for.items():
            look(one, os.path.join(tmp, name))

    @staticmethod
    def out(one, path):
        names = sorted(os.listdir(path))
        check({"run.json", "events.jsonl", "metrics.jsonl"} <= set(names), f"it has {names}")
        check(not [name for name in names if name.endswith((".part", ".tmp"))], f"left {names}")
        with open(os.path.join(path, "run.json"), encoding="utf-8") as file:
            json.load(file)
        for name in names:
            if name.endswith(".jsonl"):
                with open(os.path.join(path, name), encoding="utf-8") as file:
                    text = file.read()
                check(text == "" or text.endswith("\n"), f"{name} ends in the middle of a line")
                for line in text.splitlines():
                    json.loads(line)
        done = subprocess.run([one.suite.shoal, "report", path, "--json"], capture_output=True,
                              text=True, timeout=LIMIT_S, check=False)
        check(done.returncode == 0, f"report of it: {done.stderr}")

    @staticmethod
    def trace(_, path):
        with open(path, encoding="utf-8") as file:
            check(json.load(file)["traceEvents"], "an empty trace")

    timeline = trace

    @staticmethod
    def log(_, path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        check(text.endswith("\n"), "the log ends in the middle of a line")

    @staticmethod
    def pictures(_, path):
        names = os.listdir(path)
        check({"iterations.svg", "waits.svg"} <= set(names), f"pictures: {names}")
        for name in names:
            xml.etree.ElementTree.parse(os.path.join(path, name))

    @staticmethod
    def tensorboard(one, path):
        for file in event_reader.files(os.path.join(path, os.path.basename(one.option("--out")))):
            check(list(event_reader.events(file)), "no events for TensorBoard")
