# SPDX-License-Identifier: Apache-2.0
"""What flags_test.py has to know beside --help: how each verb is run in a moment, and what the
placeholders of its options stand for."""
import json
import os
import re

import explore_test
import shoal

EXAMPLES = os.path.join(shoal.ROOT, "examples")
LAB_4 = os.path.join(EXAMPLES, "clusters", "lab-4.json")
TEXT = os.path.join(shoal.ROOT, "LICENSE")
NUMBERS = """N K A S X MS SECONDS BYTES ELEMS RATE FACTOR POINTS BITS PERCENT CYCLES MHZ MINUTES
MICROSECONDS
STEPS EPOCHS PORT SHARE BYTE BYTES|model N|auto[:N] N|HxW""".split()
PATHS = ("FILE", "DIR", "CSV", "PATH", "FILE.et", "FILE[@WEIGHT]",
         "FILE|tp=N[,ep=M]")
# What is written; other paths are read.
WRITTEN = {"out", "csv", "svg", "html", "trace", "timeline", "log", "pictures", "dump-gradients",
           "tensorboard", "safetensors"}
# What some of them say nothing without, and what they do not go together with.
BESIDE = {
    ("export", "safetensors"): ([], "out"),
    ("sim", "tensorboard"): ([b"--out=of-a-board"], "out"),
    ("network", "csv"): ([b"--sweep=sum=100:500:2"], "limit"),
    ("network", "svg"): ([b"--sweep=sum=100:500:2"], "limit"),
    ("network", "html"): ([b"--sweep=sum=100:500:2"], "limit"),
    ("network", "accelerator"): ([b"--model=lenet"], "cost"),
    ("calibrate", "fit"): ([b"--cluster=" + os.fsencode(LAB_4)], "models"),
    ("calibrate", "cluster"): ([b"--fit=" + os.fsencode(LAB_4)], "models"),
    ("calibrate", "hold"): ([b"--fit=" + os.fsencode(LAB_4), b"--cluster=" + os.fsencode(LAB_4)],
                            "models"),
    ("calibrate", "seed"): ([b"--fit=" + os.fsencode(LAB_4), b"--cluster=" + os.fsencode(LAB_4)],
                            "models"),
    ("predict", "allow"): ([b"--search"], "plan"),
    ("predict", "keep"): ([b"--search"], "plan"),
    ("predict", "objective"): ([b"--search"], "plan"),
    ("predict", "svg"): ([b"--search"], "plan"),
    ("predict", "plan"): ([], "model"),
    ("train", "metrics-token-file"): ([b"--metrics=0"], "metrics"),
    ("watch", "token-file"): ([b"--http=0"], "http"),
}
# Paths that stand for themselves, behind a verb.
BARE = {("model",): [b"show", None], ("data", "text"): [b"--out=made", None]}
# Names of the user's own: any text will do.
FREE = {("calibrate", "name"), ("generate", "prompt"), ("run", "export"), ("doctor", "interface")}
ENDLESS = "for ever"
BASES = {}


def kind_of(option):
    if option.arg is None:
        return "switch"
    if option.arg in PATHS:
        return "path"
    if option.arg in NUMBERS:
        return "number"
    return "choice" if re.fullmatch(r"[a-z0-9|]+", option.arg) else "text"


def values_of(verb, option, numbers, texts):
    """Which none can mean."""
    if option.kind == "number":
        return numbers
    if option.kind == "path" or (verb[0], option.name) in FREE:
        return []
    return texts


def perhaps_of(verb, option, texts):
    """Which are taken or refused."""
    if option.kind == "number":
        return [b"0"]
    return texts if (verb[0], option.name) in FREE else []


def verbs():
    """Every verb and, where it has some, every verb below it."""
    said = shoal.run("--help").stdout.split("\n\n")[1]
    for verb in re.findall(r"^  ([a-z]+) ", said, re.M):
        if verb == "bench":
            below = re.findall(r"^  ([a-z]+) ", shoal.run("bench", "--help").stdout, re.M)
        elif verb == "data":
            below = shoal.run("data", "nope").stderr.split("known: ")[1].split("\n")[0].split(", ")
        else:
            below = [None]
        for word in below:
            yield (verb, word) if word is not None else (verb,)


def without(words, name):
    """The words less an option, which has its value behind a '='."""
    return [w for w in map(os.fsencode, words) if w.split(b"=")[0] != b"--" + os.fsencode(name)]


def sequences(folder):
    """Data, models and a run for the recurrent verbs."""
    os.mkdir(folder)
    for kind, count in (("train", 48), ("test", 24)):
        explore_test.write_split(os.path.join(folder, f"{kind}.shoalseq"), count, 1)
    about = {"input": [1, explore_test.FRAMES, explore_test.VALUES]}
    for cell in ("lstm", "gru"):
        layers = [f"{cell}:out=32", f"framewise:out={explore_test.CLASSES}"]
        with open(os.path.join(folder, cell + ".json"), "w", encoding="ascii") as f:
            json.dump({"name": cell, "layers": layers, **about}, f)
    done = shoal.run("train", "--model", f"{folder}/lstm.json", "--data", folder, "--steps", 1,
                     "--batch", 8, "--no-eval", "--quiet", "--out", f"{folder}/run")  # fmt: skip
    assert done.returncode == 0, done.stderr


def texts(folder):
    """A data set of tokens, and a run on it."""
    made = shoal.run("data", "text", "--out", folder, "--tokens=bytes", "--length=8", TEXT)
    assert made.returncode == 0, made.stderr
    layers = ["onehot:classes=257", "framewise:out=257"]
    with open(os.path.join(folder, "m.json"), "w", encoding="ascii") as f:
        json.dump({"name": "m", "input": [1, 8, 1], "layers": layers}, f)
    done = shoal.run("train", "--model", f"{folder}/m.json", "--data", folder, "--steps", 1,
                     "--no-eval", "--quiet", "--out", f"{folder}/run")  # fmt: skip
    assert done.returncode == 0, done.stderr


def pem(path):
    """What looks like a certificate and like a key, beside which the other one is tried."""
    with open(path, "w", encoding="ascii") as f:
        f.write("-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n")
    os.chmod(path, 0o600)
    for name, other in (("tls-cert", b"--tls-key="), ("tls-key", b"--tls-cert=")):
        BESIDE["watch", name] = [b"--http=0", other + os.fsencode(path)], "http"


def prepare(top):
    """Make what the bases read, and the bases: words and the code they end with."""
    digits, seq = os.path.join(top, "digits"), os.path.join(top, "seq")
    done = shoal.run("data", "digits", "--out", digits, "--train", 40, "--test", 10)
    assert done.returncode == 0, done.stderr
    sequences(seq)
    table = os.path.join(top, "table.csv")
    with open(table, "w", encoding="ascii") as f:
        f.writelines(f"{n % 2},1,2,3,{n}\n" for n in range(8))
    libsvm = os.path.join(top, "libsvm.txt")
    with open(libsvm, "w", encoding="ascii") as f:
        f.writelines(f"{n % 2} {n + 1}:0.5\n" for n in range(40))
    texts(os.path.join(top, "text"))
    pem(os.path.join(top, "key.pem"))
    done = shoal.run("train", "--model", "mlp-small", "--data", digits, "--steps", 14,
                     "--epochs", 9, "--batch", 8, "--workers", 2, "--no-eval", "--quiet",
                     "--out", f"{top}/pair")
    assert done.returncode == 0, done.stderr
    network = os.path.join(EXAMPLES, "network")
    explore = ["--lstm=" + seq + "/lstm.json", "--gru=" + seq + "/gru.json", "--data=" + seq]
    explore += ["--batch=8", "--epochs=1", "--limit=100", "--trials=2", "--memory=60000"]
    BASES.update({
        ("train",): (["--model=mlp-small", "--data=" + digits, "--steps=1", "--batch=8",
                      "--no-eval", "--quiet"], 0),
        ("run",): (["--ranks=1", "--", "true"], 0),
        ("status",): (["--job=nobody-has-this-job"], 2),
        ("watch",): (["--job=nobody-has-this-job"], 2),
        ("trace",): (["--job=nobody-has-this-job"], 2),
        ("aggregator",): (["--listen=127.0.0.1:0"], ENDLESS),
        ("doctor",): (["--ranks=1"], 0),
        ("bench", "allreduce"): (["--ranks=1", "--size=64", "--iters=1"], 0),
        ("bench", "codec"): (["--codec=fp16", "--data=gauss", "--place=cache", "--rounds=1"], 0),
        ("bench", "circulant"): (["--shape=64x64", "--block=4", "--batch=1", "--rounds=1",
                                  "--no-fftw"], 0),
        ("sim",): (["--workers=2", "--iterations=2"], 0),
        ("list",): (["codecs"], 0),
        ("data", "digits"): (["--out=made", "--train=20", "--test=10"], 0),
        ("data", "colours"): (["--out=made", "--train=20", "--test=10"], 0),
        ("data", "speech"): (["--out=made", "--train=0.02", "--test=0.02"], 0),
        ("data", "text"): (["--out=made", TEXT], 0),
        ("data", "clicks"): (["--out=made", "--train=20", "--test=10"], 0),
        ("data", "svmlight"): (["--from=" + libsvm, "--out=made"], 0),
        ("data", "images"): (["--from=" + table, "--out=made", "--size=4"], 0),
        ("data", "check"): ([table], 0),
        ("runs",): ([seq + "/run"], 0),
        ("report",): (["--out=made.html", seq + "/run"], 0),
        ("eval",): (["--from=" + seq + "/run"], 0),
        ("generate",): (["--from=" + os.path.join(top, "text", "run"), "--tokens=2"], 0),
        ("export",): (["--from=" + seq + "/run", "--out=made"], 0),
        ("explore",): (explore, 0),
        ("model",): (["show", "lenet"], 0),
        ("partition",): (["--model=lenet"], 0),
        ("calibrate",): (["--ranks=1", "--budget-ms=1", "--models=mlp-small", "--batches=2",
                          "--codecs=fp16", "--out=made.json"], 0),
        ("predict",): (["--model=lenet", "--cluster=" + LAB_4], 0),
        ("whatif",): (["--compute=2x", "--link=1gbit", top + "/pair"], 0),
        ("network",): (["--network=ring:4, fc:8, ring:4, switch:32",
                        f"--workload={network}/gpt3.txt", "--cost=2,4,4,57.4", "--groups=tp=16",
                        "--limit=sum == 500"], 0),
    })  # fmt: skip


def put(words, path):
    """Where a path is meant: behind "--NAME=", or None."""
    return [path if w is None else w + path if w.startswith(b"--") and w.endswith(b"=") else w
            for w in words]  # fmt: skip
