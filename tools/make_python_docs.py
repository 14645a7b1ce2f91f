#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make docs/python/: a page per class and function of the Python package, from its docstrings and
type hints.

    tools/make_python_docs.py            write the pages
    tools/make_python_docs.py --check    exit 1 if they are not what the docstrings say

Nothing is imported: the sources are read, so that neither the library nor PyTorch is needed. Public
is what `import shoal` names, what shoal.ray has, and the classes of this package that these return.
A public thing without a docstring, or with a parameter that its docstring does not name, is an
error."""

import argparse
import ast
import dataclasses
import os
import re
import sys
import textwrap

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
MADE = "Made by tools/make_python_docs.py from the docstrings; edit those."
RAY = ("run", "Outcome", "Lost", "TorchConfig")
GROUPS = (
    ("Jobs and operations", ("_comm", "_default", "launching")),
    ("PyTorch", ("torch_ddp", "torch_sync", "torch_elastic", "torch_fsdp", "circulant")),
    ("Ray", ("ray", "ray_torch")),
    ("Codecs", ("codec",)),
    ("Training and what comes after", ("trainer", "deploy")),
    ("Planners", ("plan",)),
    ("Exceptions", ("_errors",)),
)


@dataclasses.dataclass
class Thing:
    """A public class or function."""

    name: str  # shoal.Comm
    module: str  # _comm
    node: ast.AST
    beside: dict  # what else its module defines

    @property
    def page(self):
        name = self.name[len("shoal.") :]
        return name + (".function.md" if name == "comm" else ".md")  # where names have no case


def read(folder, module):
    with open(os.path.join(folder, module + ".py"), encoding="utf-8") as file:
        return file.read()


def public_names(folder):
    """{public name: (module, name there)} of what __init__ imports now, and later."""
    found = {}
    for node in ast.parse(read(folder, "__init__")).body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            for alias in node.names:
                name = alias.asname or alias.name
                if not name.startswith("_"):
                    found[name] = (node.module, alias.name)
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_LATER":
            for name, module in later(node.value):
                found[name] = (module.lstrip("."), name)
    return found


def later(table):
    """(name, module) of the literal _LATER."""
    for key, value in zip(table.keys, table.values):
        if key is not None:
            yield key.value, value.value
        else:  # **dict.fromkeys((names), module)
            names, module = value.args
            yield from ((name.value, module.value) for name in names.elts)


def definitions(body):
    """{name: node} of the classes and functions of a module, or of a class."""
    return {node.name: node for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}


def things(folder):
    """All that is public, and the classes of the same modules that it returns or keeps."""
    wanted = {f"shoal.{name}": place for name, place in public_names(folder).items()}
    for name in RAY:
        wanted[f"shoal.ray.{name}"] = ("ray_torch" if name == "TorchConfig" else "ray", name)
    found, bodies = {}, {}
    for name, (module, there) in wanted.items():
        if module not in bodies:
            bodies[module] = definitions(ast.parse(read(folder, module)).body)
        node = bodies[module].get(there)
        if node is not None:
            found[name] = Thing(name, module, node, bodies[module])
    for thing in list(found.values()):
        for node in ast.walk(thing.node):
            named = getattr(node, "returns", None) or getattr(node, "annotation", None)
            add_returned(found, thing, named)
    return found


def add_returned(found, thing, annotation):
    known = {(t.module, t.node.name) for t in found.values()}
    classes = {n: d for n, d in thing.beside.items() if isinstance(d, ast.ClassDef)}
    for node in ast.walk(annotation) if annotation is not None else ():
        name = getattr(node, "id", None)
        if name in classes and not name.startswith("_") and (thing.module, name) not in known:
            new = f"shoal.{thing.module}.{name}"
            found[new] = Thing(new, thing.module, classes[name], thing.beside)
            for inner in ast.walk(classes[name]):
                add_returned(found, found[new], getattr(inner, "annotation", None))


# ---------------------------------------------------------------- one thing


def parameters(function, is_method):
    """[(name as in a call, annotation, default)] of a function."""
    a = function.args
    plain = a.posonlyargs + a.args
    defaults = [None] * (len(plain) - len(a.defaults)) + a.defaults
    found = list(zip(plain, defaults))[1 if is_method else 0 :]
    rows = [(arg.arg, arg.annotation, default) for arg, default in found]
    if a.vararg:
        rows.append(("*" + a.vararg.arg, a.vararg.annotation, None))
    elif a.kwonlyargs:
        rows.append(("*", None, None))
    rows += [(arg.arg, arg.annotation, d) for arg, d in zip(a.kwonlyargs, a.kw_defaults)]
    if a.kwarg:
        rows.append(("**" + a.kwarg.arg, a.kwarg.annotation, None))
    return rows


def shown(node):
    """An annotation or default in one line, the same with every Python."""
    text = node.value if isinstance(getattr(node, "value", None), str) else ast.unparse(node)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = f'"{node.value}"'
    return text


def signature(name, function, is_method=False, returns=True):
    parts = []
    for parameter, annotation, default in parameters(function, is_method):
        text = parameter + (f": {shown(annotation).strip(chr(34))}" if annotation else "")
        if default is not None:
            text += f" = {shown(default)}" if annotation else f"={shown(default)}"
        parts.append(text)
    end = f" -> {shown(function.returns).strip(chr(34))}" if returns and function.returns else ""
    line = f"{name}({', '.join(parts)}){end}"
    if len(line) > 96:
        line = f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){end}"
    return ["```python", *line.split("\n"), "```"]


def prose(text):
    """A docstring as Markdown: what is indented becomes a block of code."""
    out, code = [], []
    for line in [*text.splitlines(), None]:
        if line is not None and (line.startswith("    ") or (code and not line.strip())):
            code.append(line)
            continue
        if code:
            block = textwrap.dedent("\n".join(code)).rstrip()
            out += ([""] if out and out[-1] else []) + ["```python", *block.split("\n"), "```"]
            out += [""] if line is not None and line.strip() else []
            code = []
        if line is not None:
            out.append(escaped(line))
    return "\n".join(out).rstrip().split("\n")


def escaped(line):
    """Stars of *arguments and __names__ are no emphasis."""
    return re.sub(r"(?<![`\w])(\*{1,2}\w+|__\w+__)", r"`\1`", line)


def fields(cls):
    """(name, type, default) of a dataclass."""
    for node in cls.body:
        if isinstance(node, ast.AnnAssign):
            yield node.target.id, shown(node.annotation), node.value


def is_dataclass(cls):
    return any("dataclass" in ast.unparse(d) for d in cls.decorator_list)


def is_property(function):
    return any(ast.unparse(d) == "property" for d in function.decorator_list)


def methods(cls):
    for node in cls.body:
        public = isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        if public and ast.get_docstring(node):
            yield node


def class_page(thing):
    cls, out = thing.node, []
    init = definitions(cls.body).get("__init__")
    if is_dataclass(cls):
        out += ["| field | type | default |", "|---|---|---|"]
        for name, kind, default in fields(cls):
            kind, given = kind.replace("|", "\\|"), f"`{shown(default)}`" if default else ""
            out.append(f"| `{name}` | `{kind}` | {given} |")
        out.append("")
    elif init is not None and thing.module != "_errors":
        out += [*signature(thing.name, init, True, returns=False), ""]
    bases = [ast.unparse(base) for base in cls.bases]
    out += [f"A `{', '.join(bases)}`.", ""] if bases else []
    out += prose(ast.get_docstring(cls) or "")
    short = thing.node.name.lower()
    for method in methods(cls):
        out += ["", f"## {method.name}", ""]
        if is_property(method):
            out += ["```python", f"{short}.{method.name}: {shown(method.returns)}", "```"]
        else:
            out += signature(f"{short}.{method.name}", method, True)
        out += ["", *prose(ast.get_docstring(method))]
    return out


def page(thing):
    out = [f"# {thing.name}", "", f"<!-- {MADE} -->", ""]
    if isinstance(thing.node, ast.ClassDef):
        out += class_page(thing)
    else:
        out += [*signature(thing.name, thing.node), "", *prose(ast.get_docstring(thing.node) or "")]
    path = f"python/shoal/{thing.module}.py"
    out += ["", f"Source: [{path}](../../{path}). All: [README.md](README.md)"]
    return "\n".join(out) + "\n"


def first_sentence(thing):
    text = " ".join((ast.get_docstring(thing.node) or "").split("\n\n")[0].split())
    return escaped(re.split(r"(?<=[.:;])\s", text, maxsplit=1)[0].rstrip(":;"))


def index(found):
    out = ["# The Python package, by name", "", f"<!-- {MADE} -->", ""]
    out += ["How they go together: [python.md](../python.md).", ""]
    for title, modules in GROUPS:
        rows = [t for m in modules for t in found.values() if t.module == m]
        if rows:
            out += [f"## {title}", "", "| | |", "|---|---|"]
            out += [f"| [{t.name}]({t.page}) | {first_sentence(t)} |" for t in rows] + [""]
    return "\n".join(out)


# ---------------------------------------------------------------- all of them


def complaints(found):
    """Sentences about docstrings that are missing, or that keep a parameter to themselves."""
    for thing in found.values():
        text, where = ast.get_docstring(thing.node), f"{thing.module}.py: {thing.name}"
        if not text:
            yield f"{where} has no docstring"
            continue
        calls = [("", thing.node, text)]
        if isinstance(thing.node, ast.ClassDef):
            both = methods(thing.node)
            calls = [("." + m.name, m, f"{text} {ast.get_docstring(m)}") for m in both]
            init = definitions(thing.node.body).get("__init__")
            calls += [("()", init, text)] if init and thing.module != "_errors" else []
        for name, function, said in calls:
            for parameter, annotation, _ in parameters(function, name != ""):
                bare = parameter.strip("*")
                told = re.search(rf"\b{bare}s?\b", said) or bare == "comm" and annotation
                if bare and not told:
                    yield f"{where}{name} does not say what `{bare}` is"
    grouped = {m for _, modules in GROUPS for m in modules}
    for module in sorted({t.module for t in found.values()} - grouped):
        yield f"{module}.py is in no group of the index"


def pages(folder):
    found = things(folder)
    return {"README.md": index(found), **{t.page: page(t) for t in found.values()}}, found


def stale(out, made):
    """Sentences about files that are not what they should be."""
    have = set(os.listdir(out)) if os.path.isdir(out) else set()
    for name in sorted(have - set(made)):
        yield f"{name} is of something that is not there (any more)"
    for name, text in made.items():
        if name not in have:
            yield f"{name} is missing"
            continue
        with open(os.path.join(out, name), encoding="utf-8") as file:
            if file.read() != text:
                yield f"{name} is not what the docstrings say"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--root", default=ROOT, help="the tree [this one]")
    options = parser.parse_args()
    made, found = pages(os.path.join(options.root, "python", "shoal"))
    out = os.path.join(options.root, "docs", "python")
    wrong = list(complaints(found))
    if options.check:
        wrong += [f"docs/python/{line}: tools/make_python_docs.py" for line in stale(out, made)]
    print("\n".join(wrong), end="\n" if wrong else "")
    if not options.check:
        os.makedirs(out, exist_ok=True)
        for name in set(os.listdir(out)) - set(made):
            os.remove(os.path.join(out, name))
        for name, text in made.items():
            with open(os.path.join(out, name), "w", encoding="utf-8") as file:
                file.write(text)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
