# SPDX-License-Identifier: Apache-2.0
"""Covering arrays: few rows in which every t values of t factors that go together meet in some row.
Greedy, as AETG (Cohen et al., IEEE Trans. Software Eng. 1997): a row begins with a tuple that is
still missing and takes, factor by factor, the value that brings in most of the others. What goes
together is asked of `accepts`, a function of a row; nothing here knows what the values mean."""
import collections
import itertools
import random


def tuples_of(factors, names, strength):
    """All sets of `strength` values of different factors, as sorted tuples of (factor, value)."""
    for some in itertools.combinations(sorted(names), strength):
        for values in itertools.product(*(range(len(factors[name])) for name in some)):
            yield tuple(zip(some, values))


def rest_of(part, item):
    return tuple(other for other in part if other != item)


def complete(part, bases):
    """The rows that hold part and are otherwise one of the bases: the simplest that could do."""
    return [{**base, **dict(part)} for base in bases]


class Array:
    """The rows, and what is left over: `refused` holds the tuples that no base accepts."""

    def __init__(self, factors, bases, accepts, *, strength=2, names=None, seed=1, tries=12):
        self.factors, self.bases, self.accepts = factors, bases, accepts
        self.names = sorted(names or factors)
        self.random = random.Random(seed)
        self.strength, self.tries = strength, tries
        self.pairs = {}  # of pairs: whether some base accepts them
        self.goes = collections.defaultdict(dict)  # of an item: the same, by the other item
        self.missing, self.refused = set(), []
        self.lacks = collections.defaultdict(set)  # of an item: the rests of its missing tuples
        for part in tuples_of(factors, self.names, strength):
            if self.possible(part):
                self.missing.add(part)
                for item in part:
                    self.lacks[item].add(rest_of(part, item))
            else:
                self.refused.append(part)
        self.rows = []
        while self.missing:
            self.add_row()

    def possible(self, part):
        """Pairs are remembered; longer ones are asked only if their pairs are possible."""
        if len(part) > 2 and not all(
            self.possible(pair) for pair in itertools.combinations(part, 2)
        ):
            return False
        if len(part) != 2 or part not in self.pairs:
            found = any(self.accepts(row) for row in complete(part, self.bases))
            if len(part) == 2:
                self.pairs[part] = found
            return found
        return self.pairs[part]

    def fits(self, row, name, value):
        goes = self.goes[name, value]
        for item in row.items():
            if item not in goes:
                goes[item] = self.possible(tuple(sorted(((name, value), item))))
            if not goes[item]:
                return False
        return True

    def gain(self, row, name, value):
        """Missing tuples of which (name, value) is the last member."""
        lacks = self.lacks[name, value]
        others = itertools.combinations(sorted(row.items()), self.strength - 1)
        return sum(some in lacks for some in others)

    def candidate(self, first):
        row = dict(first)
        left = [name for name in self.names if name not in row]
        self.random.shuffle(left)
        for name in left:
            good = [v for v in range(len(self.factors[name])) if self.fits(row, name, v)]
            if not good:
                return None
            gains = {v: self.gain(row, name, v) for v in good}
            most = max(gains.values())
            row[name] = self.random.choice([v for v in good if gains[v] == most])
        return {**self.bases[0], **row}

    def add_row(self):
        first = self.random.choice(sorted(self.missing))
        rows = [row for row in (self.candidate(first) for _ in range(self.tries)) if row]
        rows.sort(key=lambda row: -len(self.brought(row)))
        rows += complete(first, self.bases)  # of which one is accepted: `possible` says so
        row = next(row for row in rows if self.accepts(row))
        for part in self.brought(row):
            self.missing.remove(part)
            for item in part:
                self.lacks[item].remove(rest_of(part, item))
        self.rows.append(row)

    def brought(self, row):
        items = sorted((name, row[name]) for name in self.names)
        return {
            some for some in itertools.combinations(items, self.strength) if some in self.missing
        }
