#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that includes follow the directions of tools/layers.txt, and that these make no circle."""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree  # noqa: E402

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(["<])([^">\n]+)[">]', re.M)


class Layers:
    """The rules of layers.txt."""

    def __init__(self, root):
        self.allowed = {}  # folder -> folders it may include
        self.open, self.closed, self.measures = set(), set(), set()
        self.only = {}  # token -> rooms
        self.problems = []
        for number, line in enumerate(tree.read(root, "tools/layers.txt").splitlines(), 1):
            line = line.split("#")[0].strip()
            if line:
                self._rule(number, line)

    def _rule(self, number, line):
        word, _, rest = line.partition(" ")
        if "<-" in line:
            lower, upper = ([n.strip() for n in part.split(",")] for part in line.split("<-"))
            for folder in upper:
                self.allowed.setdefault(folder, set()).update(lower)
        elif word in ("open", "closed", "measures"):
            getattr(self, word).add(rest.strip())
        elif word == "only" and ":" in rest:
            token, _, rooms = rest.partition(":")
            self.only[token.strip()] = {room.strip() for room in rooms.split(",")}
        else:
            self.problems.append(f"tools/layers.txt:{number}: not understood: {line}")

    def folders(self):
        named = set(self.allowed) | self.open | self.closed | self.measures
        for lower in self.allowed.values():
            named |= lower
        return named

    def folder_of(self, name):
        """The folder whose rules hold for a file: a room for src/, else the longest match."""
        parts = name.split("/")
        if parts[0] == "src":
            return parts[1] if len(parts) > 2 else None
        matches = [f for f in self.folders() if name.startswith(f + "/")]
        return max(matches, key=len, default=None)

    def may_include(self, user, used):
        if user == used or used in self.allowed.get(user, ()):
            return True
        if user in self.measures:
            return True
        return used in self.open and user not in self.closed


    def circle(self):
        """Folders of which each may include the next and the last the first; or none."""
        over = set()  # no circle goes through these

        def walk(folder, way):
            if folder in way:
                return way[way.index(folder):]
            if folder in over:
                return []
            for lower in sorted(self.allowed.get(folder, ())):
                found = walk(lower, [*way, folder])
                if found:
                    return found
            over.add(folder)
            return []

        for folder in sorted(self.allowed):
            found = walk(folder, [])
            if found:
                return found
        return []


def resolve(root, user, quoted, target):
    """The file of ours that an include names, or None for a system header."""
    for base in ("src", "include", "tests", os.path.dirname(user) if quoted else ""):
        path = os.path.join(base, target)
        if base and os.path.isfile(os.path.join(root, path)):
            return path
    return None


def check_includes(root, layers, name, text, problems):
    user = layers.folder_of(name)
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        quoted, target = match.group(1) == '"', match.group(2)
        if ".." in target.split("/"):
            problems.append(f'{name}:{line}: write "room/file.h", not "{target}"')
            continue
        path = resolve(root, name, quoted, target)
        used = layers.folder_of(path) if path else None
        if user is None or used is None:
            continue
        if not layers.may_include(user, used):
            problems.append(f"{name}:{line}: {user} may not include {used} ({target})")


def check_only(layers, name, text, problems):
    parts = name.split("/")
    if parts[0] != "src" or len(parts) < 3:
        return
    code = tree.code_only(text)
    included = [match.group(2) for match in INCLUDE.finditer(text)]
    for token, rooms in layers.only.items():
        used = token in included or re.search(rf"\b{re.escape(token)}\s*\(", code)
        if used and parts[1] not in rooms:
            problems.append(f"{name}: {token} belongs to {', '.join(sorted(rooms))} only")


def check_rooms_are_named(root, layers, problems):
    rooms = {n.split("/")[1] for n in tree.files(root, (".c", ".h"), "src") if n.count("/") > 1}
    for room in sorted(rooms - layers.folders()):
        problems.append(f"src/{room}: not named in tools/layers.txt")


def main():
    root = tree.arguments(__doc__).root
    layers = Layers(root)
    problems = list(layers.problems)
    if layers.circle():
        problems.append(f"tools/layers.txt: a circle: {' <- '.join(layers.circle())}")
    names = tree.files(root, (".c", ".h"))
    for name in names:
        text = tree.read(root, name)
        check_includes(root, layers, name, text, problems)
        check_only(layers, name, text, problems)
    check_rooms_are_named(root, layers, problems)
    tree.finish(problems, f"{len(names)} files keep the directions")


if __name__ == "__main__":
    main()
