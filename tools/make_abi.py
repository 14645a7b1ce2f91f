#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes python/shoal/_abi.py from include/shoal/*.h: constants, structures, functions, defaults.

    tools/make_abi.py            write it
    tools/make_abi.py --check    exit 1 if the file that is there says something else

The headers are read by the C preprocessor and by pycparser, so that nothing is guessed."""

import glob
import os
import re
import subprocess
import sys
import tempfile

from pycparser import c_ast, c_parser

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "python", "shoal", "_abi.py")
INTS = {"int8_t": "int8", "uint8_t": "uint8", "int16_t": "int16", "uint16_t": "uint16",
        "int32_t": "int32", "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64",
        "size_t": "size_t", "bool": "bool"}
PLAIN = {"int": "int", "float": "float", "double": "double", "char": "char", "void": None,
         "unsigned int": "uint"}
# What the headers include of C's own library, as much of it as they use.
STUBS = {
    "stdint.h": "".join(
        f"typedef {'unsigned ' if name[0] == 'u' else 'signed '}{base} {name};\n"
        for bits, base in ((8, "char"), (16, "short"), (32, "int"), (64, "long"))
        for name in (f"int{bits}_t", f"uint{bits}_t")),
    "stddef.h": "typedef unsigned long size_t;\n#define NULL 0\n",
    "stdbool.h": "typedef _Bool bool;\n#define false 0\n#define true 1\n",
}


def preprocess():
    """All headers as one text without attributes, and a variable per *_INIT macro."""
    headers = sorted(glob.glob(os.path.join(ROOT, "include", "shoal", "*.h")))
    text = "".join(f'#include "shoal/{os.path.basename(h)}"\n' for h in headers)
    for header in headers:
        with open(header, encoding="utf-8") as file:
            for macro in re.findall(r"#define (SHOAL_\w+)_INIT\b", file.read()):
                text += f"{macro.lower()} default_{macro.lower()} = {macro}_INIT;\n"
    with tempfile.TemporaryDirectory() as folder:
        for name, stub in STUBS.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(stub)
        command = ["cc", "-E", "-P", "-nostdinc", "-I", folder, "-I", os.path.join(ROOT, "include"),
                   "-D__attribute__(x)=", "-U__GNUC__", "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout


class Reader:
    """What the declarations say, as lines of Python."""

    def __init__(self, tree):
        self.constants, self.structs, self.functions, self.defaults = {}, {}, {}, {}
        self.enums, self.named = set(), {}
        for node in tree.ext:
            if isinstance(node, c_ast.Typedef):
                self.typedef(node)
            elif isinstance(node.type, c_ast.FuncDecl):
                self.function(node)
            elif isinstance(node.type, c_ast.Enum):
                self.enum(node.type)
            elif isinstance(node, c_ast.Decl) and node.init is not None:
                self.default(node)

    def typedef(self, node):
        inner = node.type.type if isinstance(node.type, c_ast.TypeDecl) else None
        if isinstance(inner, c_ast.Enum):
            self.enums.add(node.name)
            self.enum(inner)
        elif isinstance(inner, c_ast.Struct) and inner.decls is not None:
            self.structs[node.name] = [(d.name, self.type(d.type)) for d in inner.decls]

    def enum(self, node):
        following = 0
        for item in node.values.enumerators if node.values else []:
            value = following if item.value is None else self.number(item.value)
            self.constants[item.name] = value
            following = value + 1

    def function(self, node):
        arguments = node.type.args.params if node.type.args else []
        kinds = [self.type(a.type) for a in arguments]
        if kinds == ["None"]:
            kinds = []
        base = node.type.type
        status = (isinstance(base, c_ast.TypeDecl) and
                  getattr(base.type, "names", None) == ["shoal_status"])
        self.functions[node.name] = ("STATUS" if status else self.type(base), kinds)

    def default(self, node):
        name = node.name[len("default_"):]
        fields = [field for field, _ in self.structs[name]]
        values = {}
        for position, expression in enumerate(node.init.exprs):
            field = fields[position]
            if isinstance(expression, c_ast.NamedInitializer):
                field, expression = expression.name[0].name, expression.expr
            value = self.value(expression)
            if field != "size" and value not in (0, None):
                values[field] = value
        self.defaults[name] = values

    def value(self, node):
        """A default: a number, or None of what is all zero or the structure's own size."""
        if isinstance(node, c_ast.InitList) or (isinstance(node, c_ast.UnaryOp) and
                                                node.op == "sizeof"):
            return None
        return self.number(node)

    def number(self, node):
        if isinstance(node, c_ast.Constant):
            if node.type in ("double", "float"):
                return float(node.value.rstrip("fF"))
            return int(node.value.rstrip("uUlL"), 0)
        if isinstance(node, c_ast.ID):
            return self.constants[node.name]
        if isinstance(node, c_ast.Cast):
            return self.number(node.expr)
        if isinstance(node, c_ast.FuncCall):  # __builtin_nanf("") is the only one
            return float("nan")
        if isinstance(node, c_ast.UnaryOp):
            return {"-": lambda x: -x, "+": lambda x: x, "~": lambda x: ~x}[node.op](
                self.number(node.expr))
        left, right = self.number(node.left), self.number(node.right)
        return {"<<": left << right, "|": left | right, "+": left + right, "-": left - right,
                "*": left * right}[node.op]

    def type(self, node):
        """The ctypes expression of a declared type."""
        if isinstance(node, c_ast.ArrayDecl):
            return f"{self.type(node.type)} * {self.number(node.dim)}"
        if isinstance(node, c_ast.PtrDecl):
            return self.pointer(node.type)
        names = node.type.names if isinstance(node.type, c_ast.IdentifierType) else None
        if names is None:
            raise SystemExit(f"make_abi: cannot read {node}")
        name = " ".join(names)
        if name in PLAIN:
            return "None" if PLAIN[name] is None else f"C.c_{PLAIN[name]}"
        if name in INTS:
            return f"C.c_{INTS[name]}"
        if name in self.enums:
            return "C.c_int"
        return name

    def pointer(self, target):
        """Texts and structures keep their type; arrays of numbers and handles are addresses."""
        if isinstance(target, c_ast.PtrDecl):
            inner = self.pointer(target.type)
            return f"C.POINTER({inner})"
        if isinstance(target, c_ast.TypeDecl) and isinstance(target.type, c_ast.IdentifierType):
            name = " ".join(target.type.names)
            if name == "char" and "const" in target.quals:
                return "C.c_char_p"
            if name in self.structs:
                return f"C.POINTER({name})"
        return "C.c_void_p"


def statuses():
    """Name, number and text of each status, from the list that the header keeps for bindings."""
    with open(os.path.join(ROOT, "include", "shoal", "status.h"), encoding="utf-8") as file:
        return re.findall(r'X\((\w+), (\d+), "([^"]*)"\)', file.read())


def version():
    with open(os.path.join(ROOT, "include", "shoal", "version.h"), encoding="utf-8") as file:
        text = file.read()
    return tuple(int(re.search(rf"SHOAL_VERSION_{part} (\d+)", text).group(1))
                 for part in ("MAJOR", "MINOR", "PATCH"))


def render(reader):
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        "# Made by tools/make_abi.py from include/shoal/*.h: run it after a change there.",
        "# fmt: off",
        '"""The C library\'s public ABI; a test compares sizes and offsets with the compiler."""',
        "",
        "import ctypes as C",
        "",
        f"VERSION = {version()}",
        "# name: (value, text)",
        "STATUSES = {",
        *[f'    "{name}": ({value}, "{text}"),' for name, value, text in statuses()],
        "}",
        "",
        *[f"{name} = {value}" for name, value in reader.constants.items()],
    ]
    for name, fields in reader.structs.items():
        lines += ["", "", f"class {name}(C.Structure):", "    _fields_ = ["]
        lines += [f'        ("{field}", {kind}),' for field, kind in fields]
        lines += ["    ]"]
    lines += ["", "", "# What the *_INIT macros set besides size; all else is zero."]
    lines += ["DEFAULTS = {"]
    lines += [f'    "{name}": {values!r},'.replace("'", '"').replace("nan", 'float("nan")')
              for name, values in reader.defaults.items()]
    lines += ["}", "", 'STATUS = "status"', "# name: (result, arguments)", "FUNCTIONS = {"]
    for name, (result, arguments) in reader.functions.items():
        lines.append(f'    "{name}": ({result}, [{", ".join(arguments)}]),')
    lines += ["}", ""]
    return "\n".join(lines)


def main():
    text = render(Reader(c_parser.CParser().parse(preprocess())))
    if sys.argv[1:] == ["--check"]:
        with open(OUT, encoding="utf-8") as file:
            if file.read() != text:
                print("python/shoal/_abi.py is not what the headers say: run tools/make_abi.py")
                return 1
        return 0
    with open(OUT, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
