#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for CUDA's libraries: no_cuda.py FOLDER_OF_LIBTORCH

The Python index has PyTorch for Linux with CUDA only, and its libraries name some fifteen of
NVIDIA's, gigabytes that a machine without a GPU never calls. Here each that is missing gets a
library of its name with every symbol that is asked of it: functions that answer 35, which is
cudaErrorInsufficientDriver, so that torch.cuda says that there is no device, and texts that say so.
Nothing of PyTorch is changed: what runs on the CPU is what the index has."""

import re
import subprocess
import sys
from pathlib import Path

# By name where the symbol has no version that names its library.
PREFIXES = (
    ("libcusparseLt", r"cusparseLt"),
    ("libcufile", r"cuFile"),
    ("libnccl", r"p?nccl"),
    ("libnvshmem_host", r"nvshmem"),
    ("libcuda.so", r"cu[A-Z]"),
)
SYSTEM = re.compile(
    r"(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libz|libquadmath|ld-.*)\.so"
)


def read(files):
    """(libraries that the files need, {symbol: (kind, version)} that they ask for and nobody of
    them has)."""
    needed, asked, had = set(), {}, set()
    for file in files:
        told = subprocess.run(
            ["readelf", "-dW", "--dyn-syms", str(file)], capture_output=True, text=True, check=True
        ).stdout
        needed.update(re.findall(r"\(NEEDED\).*\[(.*)\]", told))
        for line in told.splitlines():
            words = line.split()
            if len(words) < 8 or not words[0][:-1].isdigit():
                continue
            name, _, version = words[7].partition("@")
            if words[6] == "UND":
                asked[name] = (words[3], version.strip("@"))
            else:
                had.add(name)
    return needed, {name: facts for name, facts in asked.items() if name not in had}


def library_of(name, version, missing):
    """Which of the missing libraries a symbol belongs to, or None."""
    if version in missing:
        return version
    if version == "NVSHMEM":
        return next(lib for lib in missing if lib.startswith("libnvshmem"))
    for library, pattern in PREFIXES:
        if not version and re.match(pattern, name):
            return next((lib for lib in missing if lib.startswith(library)), None)
    return None


def source(symbols):
    """C of a library with these {name: kind}."""
    lines = ['static const char text[] = "no CUDA: a stand-in";']
    for name, kind in sorted(symbols.items()):
        if kind == "OBJECT":
            lines.append(f"long {name}[512];")
        elif re.search(r"Get(Error|Status)?(String|Name)$|GetLastError$", name) and not re.match(
            r"cudaGetLastError|cuGetError|cuGetProc", name
        ):
            lines.append(f"const char *{name}(void) {{ return text; }}")
        else:
            lines.append(f"long {name}(void) {{ return 35; }}")
    return "\n".join(lines) + "\n"


def make(folder):
    files = [*folder.glob("*.so*"), *folder.parent.glob("*.so")]
    needed, asked = read(files)
    here = {file.name for file in files}
    missing = sorted(lib for lib in needed if lib not in here and not SYSTEM.match(lib))
    symbols, versions = {lib: {} for lib in missing}, {lib: set() for lib in missing}
    for name, (kind, version) in asked.items():
        library = library_of(name, version, missing)
        if library:
            symbols[library][name] = kind
            versions[library].add(version)
    for library in missing:
        script = folder / f"{library}.map"
        named = [v for v in versions[library] if v] or [library]
        script.write_text(f"{named[0]} {{ global: *; }};\n")
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-w", "-fno-builtin", "-x", "c", "-", "-o"]
            + [str(folder / library), f"-Wl,-soname,{library}"]
            + ([f"-Wl,--version-script={script}"] if any(versions[library]) else []),
            input=source(symbols[library]),
            text=True,
            check=True,
        )
        script.unlink()
    return missing


if __name__ == "__main__":
    print(f"stand-ins for {' '.join(make(Path(sys.argv[1])))}")
