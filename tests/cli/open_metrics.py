# SPDX-License-Identifier: Apache-2.0
"""A strict reader of OpenMetrics 1.0 pages, written from its text: whatever the specification
forbids is an error, and so is what Prometheus' naming conventions advise against."""
import math
import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)=\"((?:[^\"\\\n]|\\[\\\"n])*)\"")
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+|Inf)|NaN")
SUFFIX = {"counter": "_total", "info": "_info", "gauge": ""}
BASE_UNITS = {"seconds", "bytes", "ratio"}
NO_BASE_UNIT = re.compile(r"_(ms|us|msec|milliseconds|kb|mb|percent|bits|minutes)(_|$)")


class Malformed(ValueError):
    pass


def check(condition, what, line):
    if not condition:
        raise Malformed(f"{what}: {line!r}")


def unescape(text):
    return re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m.group(1), m.group(1)), text)


def labels_of(text, line):
    labels = {}
    while text:
        match = LABEL.match(text)
        check(match, "label", line)
        check(match.group(1) not in labels, "label twice", line)
        labels[match.group(1)] = unescape(match.group(2))
        text = text[match.end():]
        check(not text or text[0] == ",", "comma", line)
        check(text != ",", "comma at the end", line)
        text = text[1:]
    return labels


class Family:
    def __init__(self, name):
        self.name, self.help, self.type, self.unit = name, None, None, ""
        self.samples = {}


def metadata(words, family, line):
    check(not family.samples, "metadata behind samples", line)
    kind, text = words[1], words[3] if len(words) > 3 else ""
    if kind == "HELP":
        check(family.help is None and text, "HELP", line)
        family.help = unescape(text)
    elif kind == "TYPE":
        check(family.type is None and text in SUFFIX, "TYPE", line)
        family.type = text
    elif kind == "UNIT":
        check(not family.unit and family.name.endswith("_" + text), "UNIT", line)
        check(text in BASE_UNITS, "unit is no base unit", line)
        family.unit = text
    else:
        check(False, "comment", line)


def sample(family, line):
    name = NAME.match(line).group()
    check(name == family.name + SUFFIX[family.type], "sample outside of its family", line)
    rest, labels = line[len(name):], {}
    if rest.startswith("{"):
        end = re.match(r"\{(?:[^\"}]|\"(?:[^\"\\]|\\.)*\")*\}", rest)
        check(end, "labels", line)
        labels = labels_of(end.group()[1:-1], line)
        rest = rest[end.end():]
    check(rest.startswith(" ") and NUMBER.fullmatch(rest[1:]), "number", line)
    value = float(rest[1:])
    if family.type == "counter":
        check(value >= 0 and math.isfinite(value), "counter", line)
    if family.type == "info":
        check(value == 1, "info", line)
    key = tuple(sorted(labels.items()))
    check(key not in family.samples, "sample twice", line)
    family.samples[key] = value


def conventions(family):
    check(family.help and family.type, "family without HELP or TYPE", family.name)
    check(not family.name.endswith(("_total", "_info", "_count", "_sum", "_bucket")),
          "reserved suffix", family.name)
    check(not NO_BASE_UNIT.search(family.name), "no base unit", family.name)
    for unit in BASE_UNITS:
        check(not family.name.endswith("_" + unit) or family.unit == unit, "UNIT", family.name)


def parse(text):
    """{family name: Family}"""
    check(text.endswith("# EOF\n"), "end", text[-20:])
    families, family = {}, None
    for line in text[: -len("# EOF\n")].split("\n")[:-1]:
        check(line and line == line.strip() and "\t" not in line, "line", line)
        words = line.split(" ", 3)
        if words[0] == "#":
            check(len(words) >= 3 and NAME.fullmatch(words[2]), "metadata", line)
            if family is None or family.name != words[2]:
                check(words[2] not in families, "family in two parts", line)
                family = families[words[2]] = Family(words[2])
            metadata(words, family, line)
        else:
            check(family is not None, "sample without metadata", line)
            sample(family, line)
    for one in families.values():
        conventions(one)
    return families


def names(families):
    """Of samples, as queries have them."""
    return {f.name + SUFFIX[f.type] for f in families.values()}


def value(families, metric, /, **labels):
    """The sample of a family with these labels, of those that it has."""
    found = [v for key, v in families[metric].samples.items()
             if all((k, str(x)) in key for k, x in labels.items())]  # fmt: skip
    assert len(found) == 1, (metric, labels, found)
    return found[0]
