#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/notebook.ipynb runs from its first cell to its last: by Jupyter's kernel where nbclient
is installed, else cell by cell in one process, which the output says."""

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import launch

launch.needs("numpy")
launch.needs("torch")

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "notebook.ipynb"
JUPYTER = all(importlib.util.find_spec(name) for name in ("nbclient", "ipykernel"))
LIMIT_S = 240
BORDER = "===== end of a cell\n"


def text_of(outputs):
    """What a cell printed, and what its last expression gave."""
    return "".join(o.get("text", "") + o.get("data", {}).get("text/plain", "") for o in outputs)


def by_jupyter(cells):
    """The text of each cell, by a real kernel: this Python's, whatever others are installed."""
    import nbclient
    import nbformat

    cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    notebook = nbformat.v4.new_notebook(cells=cells)
    with tempfile.TemporaryDirectory(prefix="shoal-jupyter-") as folder:
        for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_PATH"):
            os.environ[name] = folder
        spec = Path(folder) / "kernels" / "this"
        spec.mkdir(parents=True)
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        kernel = {"argv": command, "display_name": "this", "language": "python"}
        (spec / "kernel.json").write_text(json.dumps(kernel))
        nbclient.NotebookClient(notebook, timeout=LIMIT_S, kernel_name="this").execute(cwd=folder)
    return [text_of(cell.outputs) for cell in notebook.cells]


def by_one_process(cells):
    """The same without Jupyter, in a process of its own (ranks are forked from it)."""
    done = subprocess.run(
        [sys.executable, __file__, "--cells"],
        input=json.dumps(cells),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
    )
    if done.returncode != 0:
        raise AssertionError(done.stdout[-4000:])
    return done.stdout.split(BORDER)[:-1]


def run_cells():
    """That process: cells come as JSON, a border is printed behind each."""
    space = {}
    for cell in json.load(sys.stdin):
        body = ast.parse(cell).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), "cell", "exec"), space)
        if last is not None:
            print(repr(eval(compile(ast.Expression(last.value), "cell", "eval"), space)))
        print(BORDER, end="", flush=True)


class NotebookTest(unittest.TestCase):
    def test_it_runs(self):
        notebook = json.loads(NOTEBOOK.read_text())
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        self.assertTrue(all(not c["outputs"] and c["execution_count"] is None for c in code))
        print("Jupyter's kernel" if JUPYTER else "no nbclient: one process", flush=True)
        cells = ["".join(cell["source"]) for cell in code]
        _, trained, back, failed = (by_jupyter if JUPYTER else by_one_process)(cells)
        for rank in range(2):  # both codecs print from both ranks
            self.assertEqual(2, trained.count(f"rank {rank} of 2: accuracy"), trained)
        plain, coded = (
            re.search(rf"^{codec}: accuracy ([\d.]+) %, (\d+) bytes a step", trained, re.M)
            for codec in ("identity", "eden:bits=2,ef")
        )
        for found in (plain, coded):
            self.assertGreater(float(found.group(1)), 90, trained)
        self.assertLess(2 * int(coded.group(2)), int(plain.group(2)), trained)
        self.assertEqual("[0, 1]", back.strip())
        self.assertEqual("rank 1 failed: LookupError: no such batch", failed.strip())


if __name__ == "__main__":
    if "--cells" in sys.argv:
        run_cells()
    else:
        unittest.main()
