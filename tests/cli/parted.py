# SPDX-License-Identifier: Apache-2.0
"""A training run of several ranks, each in a network namespace of its own, whose network falls into
two parts in the middle, and what must be true of it afterwards (halves_test.py, tools/parts.py)."""

import json
import os
import sys
import threading
from dataclasses import dataclass, field

import shoal

sys.path.append(os.path.join(shoal.ROOT, "bench", "claims"))
import soak_checks  # noqa: E402

SAMPLES, BATCH = 320, 8

# As soon as one rank has made so many steps, each loses the other part: no way there, and where
# `reset` is set what connects to it is reset.
JOB = """
export SHOAL_STATUS_DIR={out}.status
file={out}/metrics.jsonl
[ "$RANK" = 0 ] || file={out}/metrics.$RANK.jsonl
case " {left} " in
*" $RANK "*) others="{right}" ;;
*) others="{left}"; [ {one_way} = 0 ] || others= ;;
esac
( until [ -e {out}.cut ]; do
    [ "$(wc -l 2>/dev/null <$file)" -ge {after} ] 2>/dev/null && touch {out}.cut || sleep 0.02
  done
  for r in $others; do ip route add {route} 10.77.0.$((r + 1))/32; done
  [ {reset} = 0 ] || for r in $others; do ss -K dst 10.77.0.$((r + 1)); done
  {heal}
) >/dev/null 2>&1 &
{command}
code=$?
echo $code >{out}.code.$RANK
exit $code
"""
HEAL = "sleep {}; for r in $others; do ip route del {} 10.77.0.$((r + 1))/32; done"


@dataclass
class Case:
    """left and right: ranks. how: reset (prohibit routes), blackhole (the same with resets that are
    heard at once), silent, one-way (what left says to right is lost)."""

    sync: str
    left: tuple
    right: tuple
    on_loss: str = "stop"
    how: str = "reset"
    heal_s: float = None
    after: int = 4  # steps, before it is cut
    epochs: int = 16
    step_ms: int = 8
    peer_timeout_s: float = 1
    checkpoint_every: int = 5

    def __str__(self):
        heals = "stays" if self.heal_s is None else f"heals after {self.heal_s} s"
        ranks = "|".join("".join(map(str, side)) for side in (self.left, self.right))
        return f"{self.sync} {self.on_loss} {ranks} {self.how} {heals}, cut at {self.after}"

    def deciding(self):
        """The ranks that may go on without the others: more than half, or half with the lowest."""
        sides = sorted((self.left, self.right), key=lambda side: (len(side), 0 in side))
        return sorted(sides[1])


@dataclass
class Outcome:
    out: str
    run: object
    codes: dict
    steps: list = field(default_factory=list)  # of `latest`, over time

    def results(self):
        lines = self.run.stdout.splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def went_on(self):
        return sorted(rank for rank, code in self.codes.items() if code == 0)


class Watcher(threading.Thread):
    """What `latest` of a run says, over time."""

    def __init__(self, out):
        super().__init__()
        self.path = os.path.join(out, "checkpoints", "latest")
        self.seen, self.over = [], threading.Event()

    def run(self):
        while not self.over.wait(0.005):
            try:
                with open(self.path, encoding="ascii") as file:
                    text = file.read().strip()
            except OSError:
                continue
            if text and (not self.seen or self.seen[-1] != text):
                self.seen.append(text)

    def steps(self):
        self.over.set()
        self.join()
        return [int(name.split("-")[1]) for name in self.seen]


def script(case, out, data):
    command = (
        f"{os.path.abspath(shoal.SHOAL)} train --model mlp-small --data {data} --batch {BATCH} "
        f"--compute-ms {case.step_ms} --epochs {case.epochs} --no-eval --json "
        f"--peer-timeout {case.peer_timeout_s} --sync {case.sync} --on-loss {case.on_loss} "
        f"--out {out}"
    )
    if not case.sync.startswith("local_sgd"):  # whose only one is at the end
        command += f" --checkpoint-every {case.checkpoint_every}"
    route = "prohibit" if case.how == "reset" else "blackhole"
    return JOB.format(
        out=out, command=command, route=route, after=case.after,
        left=" ".join(map(str, case.left)), right=" ".join(map(str, case.right)),
        one_way=int(case.how == "one-way"), reset=int(case.how in ("reset", "blackhole")),
        heal=HEAL.format(case.heal_s, route) if case.heal_s is not None else "",
    )  # fmt: skip


def play(case, out, data, timeout=120):
    ranks = len(case.left) + len(case.right)
    watcher = Watcher(out)
    watcher.start()
    try:
        r = shoal.run(
            "run", "-n", ranks, "--lab", "rate=500mbit", "--", "sh", "-c", script(case, out, data),
            timeout=timeout,
        )  # fmt: skip
    finally:
        steps = watcher.steps()
    codes = {}
    for rank in range(ranks):
        try:
            with open(f"{out}.code.{rank}", encoding="ascii") as file:
                codes[rank] = int(file.read())
        except OSError:
            codes[rank] = None  # ended by the launcher
    return Outcome(out, r, codes, steps)


def two_halves(case, outcome):
    """Sentences about what must never be, however slow the machine."""
    bad, went_on, results = [], outcome.went_on(), outcome.results()
    if len(results) > 1:
        bad.append(f"{len(results)} results")
    if results and results[0]["workers"] > len(went_on):
        bad.append(f"the result is of {results[0]['workers']} workers, and {went_on} ended well")
    if case.heal_s is None and len(went_on) < len(outcome.codes):
        for side in (case.left, case.right):
            if set(went_on) & set(side) and not set(went_on) <= set(side):
                bad.append(f"{went_on} went on, which do not reach each other")
                break
    if outcome.steps != sorted(outcome.steps):
        bad.append(f"latest went back: {outcome.steps}")
    if case.sync == "all_reduce" and results:
        metrics = soak_checks.Metrics(outcome.out)
        own = {f"metrics.{r}.jsonl" if r else "metrics.jsonl" for r in case.deciding()}
        files = metrics.read()
        checked = soak_checks.samples(files, SAMPLES * case.epochs, set(files) - own)
        bad += checked["violations"]
    return bad


def not_as_hoped(case, outcome):
    """Sentences about who should have gone on, or ended with code 6, given time."""
    bad, went_on = [], outcome.went_on()
    if not set(case.deciding()) <= set(went_on):
        bad.append(f"of {case.deciding()} only {went_on} went on")
    for rank, code in outcome.codes.items():
        if code not in (0, 6, None):
            bad.append(f"rank {rank} ended with code {code}")
    if outcome.run.returncode != 0:
        bad.append(f"the launcher ended with code {outcome.run.returncode}")
    return bad
