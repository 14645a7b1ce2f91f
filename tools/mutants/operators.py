# SPDX-License-Identifier: Apache-2.0
"""Small faults of C text: where in a file each operator can be applied, and what it writes there.

Only bodies of functions are changed, by rules over the code without comments and literals. What
does not compile costs a moment and is not counted."""

import hashlib
import os
import re
import sys
from dataclasses import dataclass

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import check_sizes  # noqa: E402
import tree  # noqa: E402

# A fault in one of these would end, delete or write what belongs to others.
HARMFUL = re.compile(r"\b(?:kill|killpg|unlink|unlinkat|remove|rmdir|rename|renameat|truncate|"
                     r"setrlimit|fork|exec\w*)\s*\(")
PREFETCH = re.compile(r"\bprefetch\s*\(")  # no result depends on it
COMPARISON = re.compile(r"(?<=\s)(==|!=|<=|>=|<|>)(?=\s)")
SWAPPED = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}
BOUND = re.compile(r"(?<=\s)(?:<|<=|>|>=) [A-Za-z_][\w.>-]*(?=\s*(?:;|\)|&&|\|\|))(?!\s*\()")
SIGN = re.compile(r"(?<=[\w)\]]\s)[+-](?==?\s)|(?<=[=(,?:]\s)-(?=[\w(])|(?<=return )-(?=[\w(])")
LOGIC = re.compile(r"&&|\|\|")
INTEGER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+)(?=[uUlL]*(?![\w.]))")
REAL = re.compile(r"(?<![\w.])\d+\.\d*(?=[fF]?(?![\w.]))")
WORD = re.compile(r"\b(?:true|false)\b")
CONDITION = re.compile(r"\bif \(")
HEAD = re.compile(r"\s*(?:else\b|do\b|case\b[^:?]*:|\w+\s*:(?!:)|(?:if|for|while|switch)\s*(\())")
DECLARATION = re.compile(r"\w+ \**\w")  # two words side by side begin nothing else
JUMP = re.compile(r"(?:return\b|break\b|continue\b|goto\b)")
ARRAY = re.compile(r"^\s*(?:static |const |struct |unsigned )*\w+ \**\w+\[[^;]*$")


@dataclass(frozen=True)
class Mutant:
    """One change: text[start:end] becomes new."""

    path: str
    operator: str
    start: int
    end: int
    new: str
    line: int
    shown: str  # the line before
    changed: str  # and after
    name: str  # stays the same while the line does

    def apply(self, text):
        return text[:self.start] + self.new + text[self.end:]


def bodies(code):
    """(start, end) of each function's body, braces apart."""
    starts = [0]
    for line in code.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    for _, first, lines in check_sizes.c_functions(code):
        begin = code.index("\n{\n", starts[first - 1]) + 3
        yield begin, starts[first + lines - 2]


def closing(code, at):
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += code[i] in "([{"
        depth -= code[i] in ")]}"
        if depth == 0:
            return i + 1
    return len(code)


def statements(code, begin, end):
    """(start, end, guarded) of each statement without its if, for, else; guarded: it had one."""
    at = begin
    while at < end:
        guarded = False
        while match := HEAD.match(code, at, end):
            guarded = True
            at = closing(code, match.end() - 1) if match.group(1) else match.end()
        while at < end and code[at] in " \n{};":
            if code[at] in "{}":
                guarded = False
            at += 1
        if HEAD.match(code, at, end):
            continue
        stop = at
        while stop < end and code[stop] not in ";}":
            stop = closing(code, stop) if code[stop] in "([{" else stop + 1
        if stop > at and stop < end and code[stop] == ";":
            yield at, stop, guarded or code[:at].rstrip().endswith("{")
        at = stop + 1


def dropped(code, begin, end):
    for start, stop, guarded in statements(code, begin, end):
        text = code[start:stop]
        if JUMP.match(text):
            last = not code[stop + 1:end].strip(" \n}")
            if guarded and not last:
                yield "drop", start, stop, ""
        elif not DECLARATION.match(text):
            yield "drop", start, stop, ""


def constants(code, begin, end):
    for match in INTEGER.finditer(code, begin, end):
        line = code[code.rfind("\n", 0, match.start()) + 1:match.start()]
        if ARRAY.match(line + "x") and "=" not in line:
            continue  # a longer array holds what a shorter one did
        digits = match.group()
        base = 8 if len(digits) > 1 and digits.isdigit() and digits[0] == "0" else 0
        yield "constant", match.start(), match.end(), str(int(digits, base) + 1)
    for match in REAL.finditer(code, begin, end):
        yield "constant", match.start(), match.end(), repr(2 * float(match.group()) or 1.0)
    for match in WORD.finditer(code, begin, end):
        other = "false" if match.group() == "true" else "true"
        yield "constant", match.start(), match.end(), other


def conditions(code, begin, end):
    for match in CONDITION.finditer(code, begin, end):
        stop = closing(code, match.end() - 1)
        yield "negate", match.end(), stop - 1, f"!({code[match.end():stop - 1]})"
    for match in LOGIC.finditer(code, begin, end):
        yield "logic", match.start(), match.end(), {"&&": "||", "||": "&&"}[match.group()]


def signs(code, begin, end):
    for match in SIGN.finditer(code, begin, end):
        binary = code[match.end()] in " ="
        new = {"+": "-", "-": "+"}[match.group()] if binary else ""
        yield "sign", match.start(), match.end(), new


def bounds(code, begin, end):
    for match in COMPARISON.finditer(code, begin, end):
        yield "compare", match.start(), match.end(), SWAPPED[match.group()]
    for match in BOUND.finditer(code, begin, end):
        yield "off-by-one", match.end(), match.end(), " - 1"


OPERATORS = (bounds, conditions, constants, dropped, signs)


def name_of(path, operator, shown, column, new):
    return hashlib.sha256(f"{path}|{operator}|{shown}|{column}|{new}".encode()).hexdigest()[:10]


def mutants(path, text):
    """Every mutant of a C file, in its order."""
    code, found = tree.code_only(text), {}
    for begin, end in bodies(code):
        for operator in OPERATORS:
            for kind, start, stop, new in operator(code, begin, end):
                if kind == "negate":
                    new = f"!({text[start:stop]})"
                mutant = made(path, text, kind, (start, stop, new))
                if not HARMFUL.search(mutant.shown) and not PREFETCH.search(mutant.shown):
                    found.setdefault((mutant.start, kind), mutant)
    return [found[key] for key in sorted(found)]


def made(path, text, kind, change):
    start, stop, new = change
    head = text.rfind("\n", 0, start) + 1
    tail = text.find("\n", stop)
    shown = " ".join(text[head:tail].split())
    changed = " ".join((text[head:start] + new + text[stop:tail]).split())
    before = text.count(text[head:tail], 0, head)  # the same line again has another name
    return Mutant(path, kind, start, stop, new, text.count("\n", 0, start) + 1, shown, changed,
                  name_of(path, kind, shown, (start - head, before), new))
