# SPDX-License-Identifier: Apache-2.0
"""What a job can be asked for, as factors of values: each value is the words of a command line.
Rows come from `shoal list`, so a new protocol, codec or collective is in the array once it is
registered; FORMS adds keys that change what a row does."""
import json
import subprocess

FORMS = {
    "syncs": (
        "param_server:servers=2", "param_server:dedicated", "param_server:dedicated,async",
        "param_server:dedicated,staleness=2", "param_server:dedicated,backup=1",
        "param_server:pull=codec", "diloco:every=4,fragments=2", "diloco:every=4,delay=1",
        "diloco:every=4,trust=median",
        "local_sgd:every=2", "noloco:every=2",
        "ripples:static", "ripples:smart,laggards", "ad_psgd:blocking",
        "hop:backup=1", "hop:staleness=2,skip=2", "hop:graph=complete",
        "d_psgd:graph=exponential",
    ),
    "codecs": (
        "auto", "auto:allow=eden+bf16", "auto:error=0.3,every=2,allow=eden:ef",
        "inceptionn:prescale=auto", "inceptionn:layout=floats",
        "terngrad:ef", "eden:ef",
        "terngrad:scaler=rms", "eden:allot=energy", "powersgd:rank=1", "blocks:pick=random,k=0.1",
        "truncate:bits=16", "chunk_topk:decay=0.5", "onebit:warmup=3",
        "onebit:warmup=3,local=2 --optimizer adam:freeze=3,local=2,eps=0.1",
        "onebit:warmup=3,kappa=2",
    ),
    "collectives": (
        "auto", "ring:both", "ring:order=auto", "direct:weights=auto", "hierarchical:dims=2/2",
        "hierarchical:site=2", "direct:site=2",
        "worker_aggregator:servers=2", "omnireduce:block=64", "omnireduce:hosts",
        "switchml:sparse",
    ),
    "optimizers": ("sgd:momentum=0", "adam:freeze=3,kappa=2,eps=0.1", "adamw:ema=0.9",
                   "muon:ema=0.9",
                   "sgd:momentum=0.9,nesterov,decay=1e-4"),
    "schedules": ("step:at=0.5,factor=0.1", "cosine:warmup=2"),
}
# What --model @llama.json says: LLaMA's block, grouped queries, a table that is used twice, and
# dropout wherever a block may have it.
LLAMA = {"name": "llama", "input": [1, 8, 1], "init": "xavier", "layers": [
    "embedding:vocab=257,width=96,drop=0.1",
    "transformer:heads=4,kv=1,ff=256,gated,bias=off,drop=0.1,attdrop=0.1",
    "unembedding:vocab=257,norm=1"]}
# What --model @bert.json says: bert-mini cut small, whose last token is the mask.
BERT = {"name": "bert", "input": [1, 8, 1], "layers": [
    "embedding:vocab=258,width=32,positions=8,types=2,norm",
    "transformer:heads=2,ff=64,encoder", "unembedding:vocab=258,transform,norm=2,bias",
    "masked"]}
# What --model @clicks.json says: the recommender with an eighth of its table, as sparse as that one
# (208 of 32768 rows a step), in an eighth of the time.
CLUSTER = {"name": "lab", "accelerators": [{"name": "core", "flops": 1e11}],
           "stragglers": [{"slowdown": 2, "probability": 0.1}]}  # fmt: skip
CLICKS = {"name": "clicks", "input": [1, 26, 1], "layers": [
    "lookup:vocab=32768,width=16", "dense:out=64", "relu", "dense:out=32", "relu", "dense:out=2"]}
# --model @dlrm.json and @ncf.json: those of the zoo, with few parameters.
DLRM = {"name": "dlrm", "input": [1, 26, 1], "layers": [
    "lookup:vocab=32768,width=16", "dots:width=16,keep=1", "dense:out=32", "relu", "dense:out=2"]}
NCF = {"name": "ncf", "input": [1, 2, 1], "layers": [
    "lookup:vocab=16384,width=16", "dense:out=32", "relu", "branch:back=4",
    "lookup:vocab=16384,width=8", "dots:width=8,by=value", "concat:back=4", "dense:out=2"]}
MODELS = {"llama": LLAMA, "bert": BERT, "clicks": CLICKS, "dlrm": DLRM, "ncf": NCF}
TRANSPORTS = ("tcp", "tcp:lanes=2", "tcp:shm=off", "tcp:shm=off,tls=on", "tcp:checksum",
              "libfabric:plain",
              "fault:delay_us=200,seed=3")

# Factors whose values are no rows. "@" begins what the runner does, not the command line.
OTHERS = {
    "workers": ("@workers 4", "@workers 1", "@workers 2", "@workers 3"),
    "launcher": ("@launcher train", "@launcher run", "@launcher hosts", "@launcher simulate",
                 "@launcher lab"),
    "files": ("", "@out", "@out --checkpoint-every 3", "@resume", "@resume --checkpoint-every 3",
              "@term --on-term checkpoint"),
    "loss": ("", "@kill", "@kill --on-loss reform"),
    "spares": ("", "--on-loss reform @spares 1"),
    "model": ("--model mlp-small", "--model mlp-small --circulant k=8",
              "--model mlp-small --augment crop=2,flip",
              "--model mlp-small:side=28,classes=12", "--model @clicks.json",
              "--model svm:vocab=16384,length=8",
              "--model @llama.json:parts", "--model @bert.json:parts",
               "--model mlp-small --precision bf16", "--model @dlrm.json", "--model @ncf.json"),
    "start": ("", "--start @start"),
    "batch": ("--batch 8", "--batch auto:8"),
    "exchange": ("", "--no-overlap", "--bucket 64k", "--bucket model", "--chunk 4096",
                 "--no-exchange"),
    "checks": ("", "--check-every 2", "--nonfinite skip", "--dump-gradients @tmp/dump"),
    "step": ("", "--clip-norm 0.5", "--label-smoothing 0.1"),
    "tos": ("", "--tos 0x28"),
    "watched": ("", "--metrics 0 --tensorboard @tmp/board",
                "--trace @tmp/trace.json --trace-last 4"),
    "evaluation": ("", "--no-eval", "--eval-every 2"),
}


def listed(shoal, table):
    done = subprocess.run([shoal, "list", table, "--json"], capture_output=True, text=True,
                          timeout=20, check=True)
    return json.loads(done.stdout)[table]


def rows_and_forms(shoal, table, first, forms):
    """The default first, so that value 0 of every factor is it."""
    names = [row["name"] for row in listed(shoal, table)]
    names.remove(first)
    return (first, *names, *(FORMS.get(table, ()) if forms else ()))


def factors(shoal, forms=True):
    """forms: rows with other keys, too, not at their default keys alone."""
    options = {
        "sync": ("syncs", "all_reduce"),
        "codec": ("codecs", "identity"),
        "collective": ("collectives", "ring"),
        "optimizer": ("optimizers", "sgd"),
        "schedule": ("schedules", "constant"),
    }
    made = {}
    for option, (table, first) in options.items():
        values = rows_and_forms(shoal, table, first, forms)
        made[option] = ("", *(f"--{option} {value}" for value in values[1:]))
    made["transport"] = ("", *(f"--transport {value}" for value in TRANSPORTS[1:]))
    made.update(OTHERS)
    return made


def bases(made):
    """Rows that are otherwise plain: with the collective that every codec has, too, and with the
    optimizers that codecs ask for which keep the momentum, or the variance, themselves."""
    def value(name, end):
        return next(i for i, words in enumerate(made[name]) if words.endswith(end))

    plain = {name: 0 for name in made}
    return [plain, {**plain, "collective": value("collective", " gather")},
            {**plain, "workers": 2}, {**plain, "optimizer": value("optimizer", " sgd:momentum=0")},
            {**plain, "optimizer": value("optimizer", ",kappa=2,eps=0.1")}]


def words_of(made, row):
    """The values of a row that are not the default."""
    return [made[name][value] for name, value in sorted(row.items()) if made[name][value]]
