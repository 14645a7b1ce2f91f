# SPDX-License-Identifier: Apache-2.0
"""The picture of bench/e2e/language: loss over bytes on the left, then over time at each rate."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import plots  # noqa: E402

DASHES = ("1", "'-'", "'.'", "'-.'")


def panel(rows, name, title, unit):
    """Of one plot: its data, and the plot. unit: of a row, what an iteration takes."""
    script, drawn = [f"set title {plots.text(title)}"], []
    for i, row in enumerate(rows):
        points = [(step * unit(row), loss) for step, loss in row["curve"]]
        script.append(plots.data(f"{name}_{i}", points))
        colour, dash = plots.COLOURS[i % len(plots.COLOURS)], DASHES[i % len(DASHES)]
        look = f"lw 1.5 dt {dash} lc rgb '{colour}'"
        drawn.append(f"${name}_{i} with lines {look} title {plots.text(row['method'])}")
    return [*script, "plot " + ", ".join(drawn), "unset key", "unset ylabel"]


def picture(rows, rates):
    """rows: dicts with method, curve [(iteration, loss)], bytes per step, ms at RATE."""
    losses = [loss for row in rows for _, loss in row["curve"]]
    low, high = min(losses) * 0.98, min(max(losses), 2 * min(losses))
    script = [f"set multiplot layout 1,{1 + len(rates)}", "set logscale x", "set format x '1e%T'",
              f"set yrange [{low:.10g}:{high:.10g}]", "set ylabel 'loss'",
              "set key inside left bottom font ',9'"]  # fmt: skip
    script += panel(rows, "bytes", "bytes sent by a worker", lambda row: row["bytes per step"])
    for n, rate in enumerate(rates):
        script += panel(rows, f"at{n}", f"virtual s, {rate} Mbit/s",
                        lambda row, rate=rate: row[f"ms at {rate}"] / 1e3)  # fmt: skip
    return plots.svg(340 + 240 * len(rates), 420, *script, "unset multiplot")
