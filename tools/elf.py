# SPDX-License-Identifier: Apache-2.0
"""What an ELF file asks of others, as readelf (binutils) tells it; no command by itself."""

import dataclasses
import os
import re
import subprocess

MAGIC = b"\x7fELF"


@dataclasses.dataclass
class Elf:
    """Names as they stand there; versions: the highest of each kind, as {"GLIBC": (2, 35)}."""

    machine: str
    soname: str
    needed: list
    paths: list
    versions: dict


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == MAGIC


def numbers(text):
    """ "2.35" as (2, 35), for comparisons."""
    return tuple(int(part) for part in text.split("."))


def read(path):
    """The Elf of a file; ValueError if readelf finds fault with it."""
    done = subprocess.run(
        ["readelf", "--wide", "--file-header", "--dynamic", "--version-info", path],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    if done.returncode != 0 or done.stderr:
        raise ValueError(f"{path}: {done.stderr.strip() or 'readelf failed'}")
    text = done.stdout
    versions = {}
    needs = text.partition("Version needs section")[2]
    for kind, number in re.findall(r"Name: ([A-Z]+)_(\d[\d.]*)\b", needs):
        versions[kind] = max(versions.get(kind, ()), numbers(number))
    soname = re.search(r"\(SONAME\).*\[(.*)\]", text)
    return Elf(
        machine=re.search(r"Machine:\s+(.*)", text).group(1).strip(),
        soname=soname.group(1) if soname else "",
        needed=re.findall(r"\(NEEDED\).*\[(.*)\]", text),
        paths=re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", text),
        versions=versions,
    )
