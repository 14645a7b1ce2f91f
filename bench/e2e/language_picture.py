# SPDX-License-Identifier: Apache-2.0
"""The picture of bench/e2e/language: loss over bytes on the left, then over time at each rate."""

import math
from xml.sax.saxutils import escape

COLOURS = ("#000", "#1f77b4", "#17becf", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#ff7f0e")
LEFT, TOP, HIGH, GAP = 60, 34, 300, 26


class Panel:
    """x by decades. lines: one list of (x, loss) for each method."""

    def __init__(self, title, lines, left, width):
        self.title, self.lines, self.left, self.width = title, lines, left, width
        xs = [x for line in lines for x, _ in line]
        self.x0, self.x1 = math.log10(min(xs)), math.log10(max(xs)) + 1e-9

    def x(self, value):
        return self.left + (math.log10(value) - self.x0) / (self.x1 - self.x0) * self.width

    def draw(self, y):
        out = [f'<text x="{self.left}" y="{TOP - 10}">{self.title}</text>',
               f'<rect x="{self.left}" y="{TOP}" width="{self.width}" height="{HIGH}" '
               'fill="none" stroke="#aaa"/>']  # fmt: skip
        for decade in range(math.ceil(self.x0), math.floor(self.x1) + 1):
            at = self.x(10**decade)
            out.append(f'<path d="M{at:.0f} {TOP}v{HIGH}" stroke="#ddd"/>'
                       f'<text x="{at:.0f}" y="{TOP + HIGH + 14}">1e{decade}</text>')
        for colour, line in zip(COLOURS, self.lines):
            path = "L".join(f"{self.x(x):.1f} {y(loss):.1f}" for x, loss in line)
            out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        return out


def picture(rows, rates):
    """rows: dicts with method, curve [(iteration, loss)], bytes per step, ms at RATE."""
    losses = [loss for row in rows for _, loss in row["curve"]]
    low, high = min(losses) * 0.98, min(max(losses), 2 * min(losses))

    def y(loss):
        return TOP + (high - min(loss, high)) / (high - low) * HIGH

    def lines(unit):
        return [[(i * unit(row), loss) for i, loss in row["curve"]] for row in rows]

    panels = [Panel("bytes sent by a worker", lines(lambda row: row["bytes per step"]), LEFT, 300)]
    for n, rate in enumerate(rates):
        left = LEFT + 300 + GAP + n * (170 + GAP)
        unit = lines(lambda row, rate=rate: row[f"ms at {rate}"] / 1e3)
        panels.append(Panel(f"virtual s, {rate} Mbit/s", unit, left, 170))
    width = panels[-1].left + panels[-1].width + 20
    height = TOP + HIGH + 40 + 16 * math.ceil(len(rows) / 4)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           'font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for step in range(5):
        loss = low + (high - low) * step / 4
        out.append(f'<text x="8" y="{y(loss):.0f}">{loss:.2f}</text>')
    for panel in panels:
        out += panel.draw(y)
    for i, (colour, row) in enumerate(zip(COLOURS, rows)):
        at = (LEFT + 240 * (i % 4), TOP + HIGH + 40 + 16 * (i // 4))
        out.append(f'<text x="{at[0]}" y="{at[1]}" fill="{colour}">{escape(row["method"])}</text>')
    return "\n".join([*out, "</svg>", ""])
