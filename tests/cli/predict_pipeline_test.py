# SPDX-License-Identifier: Apache-2.0
"""Pipelines of unequal stages: shoal predict against a scheduler of its own here."""

import json
import os
import random
import tempfile
import unittest

import shoal

WIDTH, HEADS, LENGTH = 256, 8, 32


def passes(stages, chunks, micros, stage):
    """What one stage runs, in order, as Megatron's loops do: (forward?, chunk, microbatch)."""
    groups = [range(g, min(g + stages, micros)) for g in range(0, micros, stages)]
    there = [(True, c, m) for g in groups for c in range(chunks) for m in g]
    back = [(False, c, m) for g in groups for c in reversed(range(chunks)) for m in g]
    if chunks == 1:
        warm = min(stages - stage - 1, micros)
    elif micros == stages:
        warm = micros * chunks
    else:
        warm = min((stages - stage - 1) * 2 + (chunks - 1) * stages, micros * chunks)
    steady = [x for pair in zip(there[warm:], back) for x in pair]
    return there[:warm] + steady + back[len(there) - warm :]


def brute_force(stages, chunks, micros, forward, backward):
    """The longest way through the graph of all passes, by relaxing every arrow until none moves."""
    last, arrows = stages * chunks - 1, []
    for stage in range(stages):
        row = [(f, c * stages + stage, m) for f, c, m in passes(stages, chunks, micros, stage)]
        arrows += zip(row, row[1:])
    for m in range(micros):
        arrows += [((True, c, m), (True, c + 1, m)) for c in range(last)]
        arrows += [((False, c + 1, m), (False, c, m)) for c in range(last)]
        arrows.append(((True, last, m), (False, last, m)))
    begin = {x: 0.0 for pair in arrows for x in pair}
    length = {x: (forward if x[0] else backward)[x[1]] for x in begin}
    moved = True
    while moved:
        moved = False
        for a, b in arrows:
            if begin[a] + length[a] > begin[b]:
                begin[b] = begin[a] + length[a]
                moved = True
    return max(begin[x] + length[x] for x in begin)


def flops(width):
    """Of one block forward: four projections, scores and values, two feed-forward products."""
    linear = 2 * LENGTH * (4 * WIDTH * WIDTH + 2 * WIDTH * width)
    return linear + 2 * 2 * LENGTH * LENGTH * WIDTH


class Pipelines(unittest.TestCase):
    def predict(self, folder, widths, vocab, *args):
        blocks = [f"transformer:heads={HEADS},ff={w}" for w in widths]
        ends = [f"embedding:vocab={vocab},width={WIDTH}"], [f"unembedding:vocab={vocab}"]
        model = {"name": "m", "input": [1, LENGTH, 1], "layers": ends[0] + blocks + ends[1]}
        cluster = {
            "name": "c",
            "accelerators": [{"name": "a", "flops": 1e12, "vector_flops": 1e20}],
            "hosts": [{"count": 8, "nic": "1gbit", "latency_us": 0}],
        }
        paths = []
        for name, content in (("m.json", model), ("c.json", cluster)):
            paths.append(os.path.join(folder, name))
            with open(paths[-1], "w", encoding="ascii") as file:
                json.dump(content, file)
        return shoal.run("predict", "--model", paths[0], "--cluster", paths[1], *args)

    def compare(self, rng, folder):
        stages, chunks = rng.randint(2, 5), rng.choice((1, 1, 2, 3))
        micros = stages * rng.randint(1, 4) + (rng.randint(0, stages - 1) if chunks == 1 else 0)
        each = rng.randint(1, 3) * chunks  # blocks of a stage
        widths = [rng.choice((64, 512, 2048)) for _ in range(stages * each)]
        vocab = rng.choice((10, 1000, 20000))
        words = ["--workers", stages, "--pipeline", stages, "--batch", micros, "--microbatch", 1]
        words += ["--interleave", chunks] if chunks > 1 else []
        got = self.predict(folder, widths, vocab, *words, "--json")
        self.assertEqual(0, got.returncode, got.stderr)
        p = json.loads(got.stdout)
        hop = 2 * LENGTH * WIDTH / 125e6
        per_chunk = each // chunks
        forward = []
        for c in range(stages * chunks):
            forward.append(sum(map(flops, widths[c * per_chunk : (c + 1) * per_chunk])) / 1e12)
        forward[-1] += 2 * LENGTH * WIDTH * vocab / 1e12
        backward = [2 * f + hop for f in forward]
        forward = [f + hop for f in forward]
        want = brute_force(stages, chunks, micros, forward, backward)
        case = f"{words} {widths} {vocab}"
        self.assertAlmostEqual(1, p["iteration_s"] / want, delta=1e-6, msg=case)
        parts = sum(v for k, v in p["causes"].items())
        self.assertAlmostEqual(1, parts / p["iteration_s"], delta=1e-9)
        closed = micros * max(f + b for f, b in zip(forward, backward)) if chunks == 1 else 0
        rest = sum(f + b for f, b in zip(forward, backward)) - closed / micros
        return chunks == 1 and closed + rest > 1.005 * want

    def test_unequal_stages_by_brute_force(self):
        rng = random.Random(int(os.environ.get("SHOAL_TEST_SEED", "11")))
        with tempfile.TemporaryDirectory() as folder:
            differ = sum(self.compare(rng, folder) for _ in range(100))
        self.assertGreater(differ, 5)  # the sum of all stages is no answer

    def test_many_microbatches(self):
        """Beyond 64 per stage each costs the busiest stage's time."""
        with tempfile.TemporaryDirectory() as folder:
            widths, found = [64, 2048, 512, 1024], []
            for micros in (500, 1000):
                words = ["--workers", 4, "--pipeline", 4, "--batch", micros, "--json"]
                found.append(json.loads(self.predict(folder, widths, 10, *words).stdout))
            hop = 2 * LENGTH * WIDTH / 125e6
            forward = [flops(w) / 1e12 + hop for w in widths]
            forward[-1] += 2 * LENGTH * WIDTH * 10 / 1e12
            backward = [2 * (f - hop) + hop for f in forward]
            want = brute_force(4, 1, 500, forward, backward)
            self.assertAlmostEqual(1, found[0]["iteration_s"] / want, delta=1e-6)
            more = 500 * max(f + b for f, b in zip(forward, backward))
            self.assertAlmostEqual(1, found[1]["iteration_s"] / (want + more), delta=1e-6)

    def test_interleaving_needs_whole_groups(self):
        with tempfile.TemporaryDirectory() as folder:
            words = ["--workers", 2, "--pipeline", 2, "--interleave", 2, "--batch", 3]
            got = self.predict(folder, [64] * 4, 10, *words)
        self.assertEqual(2, got.returncode)
        self.assertIn("do not divide by pipeline 2", got.stderr)


if __name__ == "__main__":
    unittest.main()
