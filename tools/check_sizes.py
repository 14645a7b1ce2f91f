#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check sizes: files, functions, structs, columns, READMEs, prose of public headers, licences."""

import ast
import os
import re
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree  # noqa: E402

FILE_LINES, HEADER_LINES, README_LINES = 600, 400, 80
INNER_HEADER_LINES, STRUCT_FIELDS = 200, 40
FUNCTION_LINES, FUNCTION_MEDIAN = 60, 15
COLUMNS = 100
PROSE = 0.5
MADE = "# Made by tools/"  # second line of what a program writes: only its licence line is checked
CODE = (".c", ".cc", ".h", ".py", ".sh", ".cmake", "CMakeLists.txt", "Makefile", ".ci/run")
SPDX = "SPDX-License-Identifier: Apache-2.0"
GPL_FOLDER, GPL_SPDX = "speech/", "SPDX-License-Identifier: GPL-3.0-or-later"
# include guards, includes and the braces of extern "C": no header is better or worse for them
FRAME = re.compile(r'#\s*(if|ifdef|ifndef|else|elif|endif|include|undef)\b|extern "C"|\}$')
NO_FUNCTION = re.compile(r"^(typedef|struct|enum|union)\b|=\s*$|=\s*\{?$")


def c_functions(text):
    """(name, first line, lines) of each function: a head, then "{" and "}" alone in column 0."""
    lines = tree.code_only(text).split("\n")
    head = 0  # first line of the current declaration
    opened = None
    for number, line in enumerate(lines):
        if line.rstrip() == "{" and number > 0:
            opened = number
        elif opened is not None and line.startswith("}"):
            signature = " ".join(lines[head:opened])
            name = re.search(r"(\w+)\s*\(", signature)
            if name and line.rstrip() == "}" and not NO_FUNCTION.search(signature.strip()):
                yield name.group(1), head + 1, number - head + 1
            opened = None
            head = number + 1
        elif opened is None and (not line.strip() or line[0] == "#" or line.rstrip()[-1] in ";}"):
            head = number + 1


def py_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


STRUCT = re.compile(r"\b(?:struct|union)\b(?:\s+\w+)*\s*\{")
DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*(?:\\\n[^\n]*)*", re.M)
NESTED = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")


def closing(code, start):
    """Where the "}" is that closes the "{" before start."""
    depth = 1
    while depth and start < len(code):
        depth += {"{": 1, "}": -1}.get(code[start], 0)
        start += 1
    return start - 1


def c_structs(text):
    """(name, first line, fields) of each struct or union; one inside of another counts once there
    and by its own fields."""
    code = DIRECTIVE.sub(lambda found: "\n" * found.group().count("\n"), tree.code_only(text))
    for found in STRUCT.finditer(code):
        end = closing(code, found.end())
        name = re.findall(r"\w+", found.group())[-1]
        if name in ("struct", "union"):
            name = (re.match(r"\}[\s*]*(\w*)", code[end:]) or [""])[1] or "(no name)"
        body, before = code[found.end():end], None
        while body != before:
            before, body = body, NESTED.sub(" ", body)
        fields = sum(1 + field.count(",") for field in body.split(";") if field.strip())
        yield name, code.count("\n", 0, found.start()) + 1, fields


def check_structs(name, text, problems):
    """Descriptors of the public headers only grow: they are left out."""
    if not name.endswith((".c", ".cc", ".h")) or name.startswith("include/shoal/"):
        return
    for struct, line, fields in c_structs(text):
        if fields > STRUCT_FIELDS:
            limit = f"at most {STRUCT_FIELDS}"
            problems.append(f"{name}:{line}: {struct} has {fields} fields, {limit}")


def check_functions(name, text, lengths, problems):
    if not name.endswith((".c", ".h", ".py")):
        return
    found = py_functions(text) if name.endswith(".py") else c_functions(text)
    for function, line, length in found:
        if name.startswith("src/"):
            lengths.append(length)
        if length > FUNCTION_LINES:
            limit = f"at most {FUNCTION_LINES}"
            problems.append(f"{name}:{line}: {function} has {length} lines, {limit}")


def check_columns(name, lines, problems):
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            problems.append(f"{name}:{number}: {len(line)} columns, at most {COLUMNS}")
        if line.endswith((" ", "\t")):
            problems.append(f"{name}:{number}: blanks at the end of the line")


def check_licence(name, lines, problems):
    first = lines[:2] if lines and lines[0].startswith("#!") else lines[:1]
    licence = GPL_SPDX if name.startswith(GPL_FOLDER) else SPDX
    if not any(licence in line for line in first):
        problems.append(f"{name}:1: first line lacks {licence}")


def prose_share(text):
    """Lines that hold a comment over lines that hold anything but the frame of a header."""
    rows = list(zip(text.split("\n"), tree.comments_only(text).split("\n")))[1:]
    counted = [comment for line, comment in rows if line.strip() and not FRAME.match(line)]
    return sum(1 for comment in counted if comment.strip()) / max(len(counted), 1)


def check_inner_header(name, lines, problems):
    if name.startswith("src/") and name.endswith(".h") and len(lines) > INNER_HEADER_LINES:
        limit = f"at most {INNER_HEADER_LINES}"
        problems.append(f"{name}: {len(lines)} lines, a header of src/ has {limit}")


def check_header(name, text, lines, problems):
    if not name.startswith("include/shoal/"):
        return
    share = prose_share(text)
    if share < PROSE:
        problems.append(f"{name}: {100 * share:.0f} % of the lines hold prose, at least 50 %")
    if len(lines) > HEADER_LINES:
        problems.append(f"{name}: {len(lines)} lines, a public header has at most {HEADER_LINES}")


def check_readmes(root, problems):
    rooms = {n.split("/")[1] for n in tree.files(root, (".c",), "src") if n.count("/") > 1}
    for room in sorted(rooms):
        name = f"src/{room}/README.md"
        if not os.path.exists(os.path.join(root, name)):
            problems.append(f"{name}: missing (purpose, invariants, reading order, limits)")
        elif len(tree.read(root, name).splitlines()) > README_LINES:
            problems.append(f"{name}: more than {README_LINES} lines")


def main():
    root = tree.arguments(__doc__).root
    problems, lengths = [], []
    names = tree.files(root, CODE)
    for name in names:
        text = tree.read(root, name)
        lines = text.splitlines()
        check_licence(name, lines, problems)
        if lines[1:2] and lines[1].startswith(MADE):
            continue
        if len(lines) > FILE_LINES:
            problems.append(f"{name}: {len(lines)} lines, at most {FILE_LINES}")
        check_functions(name, text, lengths, problems)
        check_columns(name, lines, problems)
        check_header(name, text, lines, problems)
        check_inner_header(name, lines, problems)
        check_structs(name, text, problems)
    check_readmes(root, problems)
    median = statistics.median(lengths) if lengths else 0
    if median > FUNCTION_MEDIAN:
        problems.append(f"src: the median function has {median} lines, over {FUNCTION_MEDIAN}")
    tree.finish(problems, f"{len(names)} files, {len(lengths)} functions, median {median:g} lines")


if __name__ == "__main__":
    main()
