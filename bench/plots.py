# SPDX-License-Identifier: Apache-2.0
"""Pictures of measurements, as SVG, by gnuplot."""

import subprocess

COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07600", "#56b4e9", "#999999")


def text(words):
    """As gnuplot takes text."""
    return "'" + str(words).replace("'", "''").replace("\n", " ") + "'"


def data(name, rows):
    """A block of data with a name: numbers, and texts without quotes."""
    lines = (" ".join(v if isinstance(v, str) else f"{v:.10g}" for v in row) for row in rows)
    return "\n".join([f"${name} << END", *lines, "END"])


def svg(width, height, *script):
    head = [
        f"set term svg size {width},{height} noenhanced background 'white' font 'sans-serif,12'",
        "set encoding utf8",
        "set border 3",
        "set tics nomirror out",
        "set grid lt 1 lc rgb '#dddddd'",
    ]
    done = subprocess.run(["gnuplot", "-d"], input="\n".join([*head, *script, ""]), text=True,
                          capture_output=True, check=True, timeout=120)  # fmt: skip
    return done.stdout
