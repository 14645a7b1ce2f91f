#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Size and speed of the hardware blocks: post-synthesis estimates, nothing measured on a device.

Synthesis by yosys for xc7, ECP5 and iCE40, placing and routing by nextpnr on an iCE40 HX8K (median
of some seeds), cycles in the verilated simulation (test/rate_test.cc). Results are kept in
build/rtl/report, keyed by everything that they depend on, so a second run goes on where the first
one ended. `--json` prints the figures as one line. Exit status 77 when a tool is missing."""

import argparse
import hashlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KEPT = os.path.join(ROOT, "build", "rtl", "report")
TOOLS = ("yosys", "nextpnr-ice40", "verilator")
ENGINES = ("compress", "decompress")
SYNTHESIS = {
    "xc7": "synth_xilinx -family xc7 -flatten -noiopad -abc9 -nowidelut",
    "ecp5": "synth_ecp5 -abc9 -nowidelut",
    "ice40": "synth_ice40",
}
# Each module once, and sums over the hierarchy: nothing is shared or simplified across modules, so
# there are a few cells more than flat, in a fraction of the time.
BY_MODULE = {
    "xc7": SYNTHESIS["xc7"].replace("-flatten ", ""),
    "ecp5": SYNTHESIS["ecp5"] + " -noflatten",
    "ice40": SYNTHESIS["ice40"] + " -noflatten",
}
# Of the processing elements: one alone with the weights of the Google LSTM's gates, k = 8, with
# four and with three real products per complex one, and an engine of one with its transforms.
PARTS = {
    "pe_element": ("pe_element", "-set DEPTH 672"),
    "pe_element, 3 products": ("pe_element", "-set DEPTH 672 -set THREE 1"),
    "pe_element, 16 bits": ("pe_element", "-set DEPTH 672 -set W 16 -set XW 19 -set AW 43"),
    "pe_engine, one element": ("pe_engine", "-set N 1 -set COLS 84 -set DEPTH 672"),
}
# E-RNN's Google LSTM, blocks of 8, 12 bits, 200 MHz (Virtex-7): 12.9 us per frame, three at once.
PUBLISHED = {"us_per_frame": 12.9, "frames_per_second": 231514, "mhz": 200}
DENSE_OPERATIONS = 2 * 8 * 8  # of a block product, if it were not circulant
ROUTED_ELEMENT = "pe_element"  # k = 4, 12 bits: test/route_top.sv
# Which cells count as what, and how often; the others are buffers, multiplexers of LUTs, and
# carries beside LUTs (an ECP5's carry is made of two).
CELLS = {
    "lut": {r"LUT[1-6]|SB_LUT4": 1, "CCU2C": 2},
    "lutram": {r"RAM(32|64)M|RAM128X1D": 4, r"RAM(32|64)X1D": 2, "SRL16E": 1, "TRELLIS_DPR16X4": 6},
    "ff": {r"FD[RSCP]E|TRELLIS_FF|SB_DFF\w*": 1},
    "dsp": {"DSP48E1|MULT18X18D|SB_MAC16": 1},
    "bram": {r"RAMB36\w+|DP16KD|SB_RAM\w*": 1, r"RAMB18\w+": 0.5},
}


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=HERE).stdout


def kept(name, make, *depends):
    """The result of make(), from an earlier run if nothing that it depends on has changed."""
    digest = hashlib.sha256(json.dumps([name, *depends]).encode())
    for file in sources(name) + ["test/route_top.sv"]:
        with open(os.path.join(HERE, file), "rb") as source:
            digest.update(source.read())
    path = os.path.join(KEPT, f"{name}-{digest.hexdigest()[:16]}.json")
    if not os.path.exists(path):
        os.makedirs(KEPT, exist_ok=True)
        result = make()
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(result, file)
        os.replace(path + ".new", path)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def sources(top):
    """Files that a module may be made of: those of the processing elements, or all others."""
    files = sorted(f for f in os.listdir(HERE) if f.endswith(".sv"))
    return [f for f in files if f.startswith("pe_") == top.startswith("pe_")]


def counted(lines):
    """Cells of a list by yosys' stat."""
    found = dict.fromkeys(CELLS, 0)
    for cell, count in re.findall(r"^\s+(\$?\w+)\s+(\d+)$", lines, re.M):
        for kind, patterns in CELLS.items():
            for pattern, worth in patterns.items():
                if re.fullmatch(pattern, cell):
                    found[kind] += worth * int(count)
    return found


def stat(top, flow, parameters=""):
    """What yosys' stat says of one module after synthesis."""
    chosen = f"chparam {parameters} {top}; " if parameters else ""
    script = (
        f"read_verilog -sv {' '.join(sources(top))}; {chosen}{flow} -top {top}; "
        "tee -o /dev/stdout stat"
    )
    return run(["yosys", "-q", "-p", script])


def synthesise(top, target, parameters=""):
    """Cells of one module on one target."""
    flow = SYNTHESIS[target]
    if target == "ice40" and top.startswith("pe_"):
        flow += " -dsp"  # of an UP5K; the HX8K has no multipliers
    return counted(stat(top, flow, parameters).rsplit("===", 1)[-1])


def synthesise_by_module(top, target):
    """Cells of one module on one target, and those of each module that it is made of: once,
    without what lies below."""
    parts = re.split(r"^=== (.*) ===$", stat(top, BY_MODULE[target]), flags=re.M)[1:]
    modules = []
    for name, lines in zip(parts[::2], parts[1::2]):
        if name == "design hierarchy":
            return {"all": counted(lines), "modules": modules}
        modules.append({"module": re.sub(r"^\$paramod.*?\\(\w+).*", r"\1", name), **counted(lines)})
    raise SystemExit(f"{top} on {target}: yosys prints no sums of its hierarchy")


def route(engine, seed):
    """Logic cells and MHz of one engine on an HX8K, harness included."""
    netlist = os.path.join(KEPT, f"{engine}-{seed}.netlist")
    script = (
        f"read_verilog -sv -DROUTE_{engine.upper()} {' '.join(sources(engine))} test/route_top.sv; "
        f"synth_ice40 -top route_top -json {netlist}"
    )
    run(["yosys", "-q", "-p", script])
    command = ["nextpnr-ice40", "--hx8k", "--package", "ct256", "--json", netlist]
    command += ["--freq", "100", "--seed", str(seed), "--timing-allow-fail"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=True)
    os.remove(netlist)
    cells = re.findall(r"ICESTORM_LC:\s+(\d+)/\s*(\d+)", done.stderr)[-1]
    mhz = re.findall(r"Max frequency for clock '[^']+': ([\d.]+) MHz", done.stderr)[-1]
    return {"cells": int(cells[0]), "of": int(cells[1]), "mhz": float(mhz)}


def rates(files):
    """Cycles in simulation, see test/rate_test.cc; files: recorded gradients."""
    done = subprocess.run(
        [os.path.join(HERE, "step.sh"), "rate", *files], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout.strip().splitlines()[-1])


def nic():
    """Size of the whole engine of a network card: both codecs, stores, table, registers."""
    return {
        t: kept(f"nic-{t}", lambda t=t: synthesise_by_module("nic_engine", t), t, flow, CELLS)
        for t, flow in BY_MODULE.items()
    }


HEADING = f"{'LUT':>7}{'LUTRAM':>8}{'FF':>7}{'DSP':>5}{'BRAM':>6}"


def size(c):
    """Columns of one module's cells."""
    return f"{c['lut']:7}{c['lutram']:8}{c['ff']:7}{c['dsp']:5}{c['bram']:6g}"


def table_of_nic(result):
    print("nic_engine, both directions: sums over its hierarchy, each module synthesised alone")
    print(f"{'':24}{'target':8}{HEADING}")
    for target, made in result.items():
        print(f"{'nic_engine':24}{target:8}{size(made['all'])}")
    print("  of these on xc7, each module once:")
    for module in sorted(result["xc7"]["modules"], key=lambda m: -m["lut"]):
        print(f"{module['module']:24}{'xc7':8}{size(module)}")
    small = result["ice40"]["all"]
    fits = "fits" if small["lut"] <= 7680 and small["bram"] <= 32 else "does not fit"
    print(f"  the whole engine {fits} an HX8K of 7680 cells and 32 memories")


def elements(seeds):
    """Size of the processing elements, one routed, cycles of the Google LSTM in simulation."""
    sizes = {}
    for name, (top, parameters) in PARTS.items():
        made = {}
        for t in SYNTHESIS if name in ("pe_element", "pe_engine, one element") else ("xc7",):
            made[t] = kept(
                f"{top}-{t}",
                lambda t=t: synthesise(top, t, parameters),
                *(t, parameters, SYNTHESIS, CELLS),
            )
        sizes[name] = made
    routed = [
        kept(f"{ROUTED_ELEMENT}-route{s}", lambda s=s: route(ROUTED_ELEMENT, s), s)
        for s in range(1, seeds + 1)
    ]
    done = subprocess.run(
        [os.path.join(HERE, "step.sh"), "pe-rate"], check=True, capture_output=True, text=True
    )
    cycles = json.loads(done.stdout.strip().splitlines()[-1])
    dsp = sizes["pe_element"]["xc7"]["dsp"]
    return {
        "sizes": sizes,
        "lstm": cycles,
        "routed": {"cells": routed[0]["cells"], "mhz": [r["mhz"] for r in routed]},
        "dense_operations_per_dsp_and_cycle": DENSE_OPERATIONS * cycles["macs_per_cycle"] / dsp,
        "frames_per_second_at_100_mhz": 100e6 / cycles["interval"],
        "frames_per_second_at_200_mhz": 200e6 / cycles["interval"],
        "published": PUBLISHED,
    }


def table_of_elements(result):
    print(
        "processing elements, k = 8 and 12 bits if nothing else is said; post-synthesis estimates"
    )
    print(f"{'':24}{'target':8}{HEADING}")
    for name, made in result["sizes"].items():
        for target, c in made.items():
            print(f"{name:24}{target:8}{size(c)}")
    mhz, cells = result["routed"]["mhz"], result["routed"]["cells"]
    print(
        f"pe_element, k = 4 and 12 bits, multipliers of logic cells: HX8K {cells} "
        f"of 7680 cells with its harness, routed {statistics.median(mhz):.1f} MHz (median of {mhz})"
    )
    lstm, said = result["lstm"], result["published"]
    print(
        f"{lstm['macs_per_cycle']:.3f} block products per cycle and element, "
        f"{result['dense_operations_per_dsp_and_cycle']:.1f} dense-equivalent operations per DSP "
        "block and cycle (a dense multiply-accumulate: 2)"
    )
    print(
        f"Google LSTM, {lstm['elements']} elements for the gates and "
        f"{lstm['projection_elements']} for the projection, {lstm['frames']} frames simulated: "
        f"{lstm['gates']} cycles until a frame's gates are summed, {lstm['alone']} until its h is "
        f"out, a frame each {lstm['interval']:.0f}"
    )
    print(
        f"  predicted: {result['frames_per_second_at_100_mhz']:.0f} frames/s and "
        f"{lstm['alone'] / 100:.2f} us per frame at 100 MHz, "
        f"{result['frames_per_second_at_200_mhz']:.0f} and {lstm['alone'] / 200:.2f} at 200; "
        f"E-RNN published {said['frames_per_second']} and {said['us_per_frame']} us at "
        f"{said['mhz']} MHz"
    )


def figures(seeds, files):
    result = {}
    for engine in ENGINES:
        mine = {
            t: kept(f"{engine}-{t}", lambda t=t: synthesise(f"codec_{engine}", t), t, flow, CELLS)
            for t, flow in SYNTHESIS.items()
        }
        routed = [
            kept(f"{engine}-route{s}", lambda s=s: route(engine, s), s) for s in range(1, seeds + 1)
        ]
        mine["mhz"] = [r["mhz"] for r in routed]
        mine["median_mhz"] = statistics.median(mine["mhz"])
        mine["hx8k_cells"] = routed[0]["cells"]
        result[engine] = mine
    result["cycles"] = rates(files)
    return result


def table(result):
    print("post-synthesis estimates: yosys, nextpnr and simulated cycles; nothing was measured")
    print(f"{'':24}{'target':8}{HEADING}{'LUT per Gbit/s':>16}")
    for engine in ENGINES:
        for target in SYNTHESIS:
            c = result[engine][target]
            mhz = result[engine]["median_mhz"] if target == "ice40" else 100
            per_gbit = c["lut"] / (256 * mhz / 1000)
            print(f"{engine:24}{target:8}{size(c)}{per_gbit:16.0f}")
    for engine in ENGINES:
        e, c = result[engine], result["cycles"][engine]
        print(
            f"{engine}: HX8K {e['hx8k_cells']} of 7680 cells with its harness, routed "
            f"{e['median_mhz']:.1f} MHz (median of {e['mhz']})"
        )
        for name, data in c["data"].items():
            at_100, at_hx8k = (
                256e-3 * mhz / data["cycles_per_burst"] for mhz in (100, e["median_mhz"])
            )
            print(
                f"  {name:14} {data['cycles_per_burst']:.4f} cycles per burst of floats "
                f"(worst packet {data['worst']:.4f}), {at_100:.1f} Gbit/s at 100 MHz, "
                f"{at_hx8k:.1f} on the HX8K"
            )
        print(f"  latency {c['latency']} cycles")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="figures as one line of JSON")
    parser.add_argument("--seeds", type=int, default=5, help="of placing (5)")
    parser.add_argument(
        "--gradients", action="append", default=[], help="a file of shoal train --dump-gradients"
    )
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--elements", action="store_true", help="the processing elements alone")
    part.add_argument("--nic", action="store_true", help="the engine of a network card alone")
    options = parser.parse_args()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print(f"rtl-report: {', '.join(missing)} not installed: tools/deps.sh packages-rtl.txt")
        sys.exit(77)
    parts = [
        (lambda: figures(options.seeds, options.gradients), table),
        (nic, table_of_nic),
        (lambda: elements(options.seeds), table_of_elements),
    ]
    if options.nic or options.elements:
        parts = parts[1:2] if options.nic else parts[2:]
    elif options.json:
        parts = parts[:1]
    for make, show in parts:
        result = make()
        if options.json:
            print(json.dumps(result))
        else:
            show(result)


if __name__ == "__main__":
    main()
