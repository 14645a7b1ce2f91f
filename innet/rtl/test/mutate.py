#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Are the checks able to fail? Each mutant is one small mistake in one source of the hardware; the
short checks (innet/rtl/step.sh) must refuse every one.

    mutate.py [NUMBER ...]     all, or these

Prints a table and, last, one line of JSON; exit status 1 if a mutant survives."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", "..", ".."))
CANNOT, LIMIT_S = 77, 600  # a mutant that hangs is caught, too

CORNERS, CODEC, NIC = ["corners"], ["codec", "30000"], ["nic", "4000"]
VECTORS, ENGINE = ["pe-corners"], ["pe", "4000", "1", "8", "12", "0"]
FOLDED = ["pe", "1000", "1", "32", "12", "0"]
SQUASH = ["squash"]
RING, KEPT = ["formal", "2"], ["formal", "4"]
# source, what stands there (once), the mistake, the check that must see it
MUTANTS = [
    ("lane_compress", "is_raw = e >= 8'd127", "is_raw = e > 8'd127", CORNERS),
    ("lane_compress", "{e < 8'd117, e >= 8'd122}", "{e < 8'd117, e >= 8'd121}", CORNERS),
    ("lane_compress", "{8'd0, m0[14:8]}", "{7'd0, m0[14:7]}", CORNERS),
    ("lane_compress", "a_x[15] && |m[14:8]", "a_x[15]", CORNERS),
    ("lane_compress", "(bound[1] && |m[7:5])", "(bound[1] && |m[7:6])", CORNERS),
    ("lane_decompress", "4'd14 - lead", "4'd13 - lead", CORNERS),
    ("lane_decompress", "2'd1: lead[0] = !h[4];", "2'd1: lead[0] = !h[5];", CORNERS),
    ("group_pack", "moved = {16'd0, p, 16'd0}", "moved = {24'd0, p, 8'd0}", CORNERS),
    ("group_pack", "right_at <= left_len + 5'd2", "right_at <= left_len + 5'd1", CORNERS),
    ("aligner", "hold <= more || total[6]", "hold <= more", CORNERS),
    ("aligner", "b_split <= a_fill == 5'd31", "b_split <= a_fill == 5'd30", CORNERS),
    ("aligner", "i < {26'd0, a_count}", "i <= {26'd0, a_count}", CORNERS),
    ("aligner", "if (b_hold) next[W-1:0] = spare;", "", CORNERS),
    ("aligner", "if (b_hold) next[W-1:0] = spare;", "", KEPT),
    ("aligner", "left_to[1] ? {left_1,", "left_to[2] ? {left_1,", RING),
    (
        "aligner",
        "right_to = fill[4:0] + right_at;",
        "right_to = fill[4:0] + right_at + 5'd1;",
        CORNERS,
    ),
    ("group_split", "place[14:10] <= {1'b0, p01}", "place[14:10] <= {1'b0, p23}", CORNERS),
    ("burst_window", "skip <= fire && to[6] && !done", "skip <= 1'b0", CORNERS),
    ("burst_window", "done = at_final || ended", "done = at_final", CODEC),
    ("burst_window", "in_next <= leaves || !there", "in_next <= leaves", CODEC),
    ("burst_window", "if (coming_valid) size_before", "size_before", CODEC),
    ("burst_window", "in_next ? coming_valid : next_valid;", "next_valid;", CODEC),
    ("burst_window", "bad <= a_done && (a_short || !exact)", "bad <= a_done && a_short", CODEC),
    ("codec_decompress", "bads[STAGES-2:0], bad || ghosts}", "bads[STAGES-2:0], bad}", CODEC),
    ("frame_parse", "wrapped || offset >= skip", "wrapped || offset > skip", NIC),
    ("frame_parse", "& 16'hff3f", "& 16'hffff", NIC),
    ("flow_table", "bases[at] <= seq + 32'd1", "bases[at] <= seq", NIC),
    ("flow_table", "if (begins) fresh[at] <= 1'b1;", "", NIC),
    ("flow_table", "if (add) fresh[add_flow] <= 1'b0;", "", NIC),
    ("frame_split", "s_bytes <= {1'b0, place, 2'd2}", "s_bytes < {1'b0, place, 2'd2}", NIC),
    ("frame_join", "c_tlast && bytes <= 7'd32", "c_tlast && bytes < 7'd32", NIC),
    ("frame_store", "swallows <= 1'b1;", "swallows <= 1'b0;", NIC),
    ("ones_sum", "folded[15:0] + {15'd0, folded[16]}", "folded[15:0]", NIC),
    ("header_fix", "{4'd0, ~old_tcp_sum}", "{4'd0, old_tcp_sum}", NIC),
    ("nic_path", "commit = settled && !(now_code && bad)", "commit = settled", NIC),
    ("nic_path", "(committed || gone) && !more", "committed && !more", NIC),
    ("pe_rotate", "sum + PW'(16384)", "sum", VECTORS),
    ("pe_rotate", "MINUS ? '0 - PW'(b)", "!MINUS ? '0 - PW'(b)", VECTORS),
    ("pe_rfft", "t_im - e_im", "e_im - t_im", VECTORS),
    ("pe_rfft", "<= '0 - OW'(o1)", "<= OW'(o1)", VECTORS),
    ("pe_irfft", "a_im - b_im", "a_im + b_im", VECTORS),
    ("pe_irfft", "a - b - im", "a - b + im", VECTORS),
    ("pe_mac", "apart ? a : a - b;", "apart ? a : a + b;", VECTORS),
    ("pe_product", "sum <= sum + AW'(product)", "sum <= AW'(product)", VECTORS),
    ("pe_round", "(AW + 2)'(1)) >>> 1", "(AW + 2)'(0)) >>> 1", VECTORS),
    ("pe_squash", "TANH && minus[2] ? '0 - kept", "TANH && minus[1] ? '0 - kept", SQUASH),
    ("pe_engine", "+ HALF", "", VECTORS),
    ("pe_engine", "begins <= cols_end", "begins <= pass_ends", ENGINE),
    ("pe_engine", "PARTS == 2 && part ? cols[15:0] : 16'd0;", "16'd0;", FOLDED),
    ("pe_engine", ".apart(fold_v[2*FA+:FA] == '0)", ".apart(1'b0)", FOLDED),
    ("pe_engine", "if (l_slot_ends) l_fold <= '0;", "if (l_row_ends) l_fold <= '0;", FOLDED),
    ("pe_engine", "step = !done || held == '0 ||", "step = !done || held != '0 ||", ENGINE),
    ("pe_engine", "!coming[AHEAD-1] || !full[fill_bank]", "1'b1", ENGINE),
    ("pe_round", "half > MOST ? MOST[OW-1:0] : ", "", ENGINE),
]


def tree(folder, source, text):
    """A tree as step.sh knows it, with one source changed."""
    rtl = os.path.join(folder, "innet", "rtl")
    shutil.copytree(os.path.join(ROOT, "innet", "rtl"), rtl)
    for part in ("src", "include", "innet/vectors"):
        os.symlink(os.path.join(ROOT, part), os.path.join(folder, part))
    with open(os.path.join(rtl, source + ".sv"), "w", encoding="ascii") as file:
        file.write(text)
    return os.path.join(rtl, "step.sh")


def caught(number):
    """Whether the check refuses a mutant; None: it cannot run here."""
    source, before, after, check = MUTANTS[number]
    with open(os.path.join(ROOT, "innet", "rtl", source + ".sv"), encoding="ascii") as file:
        text = file.read()
    if text.count(before) != 1:
        raise SystemExit(
            f"mutant {number}: {source}.sv holds '{before}' {text.count(before)} times"
        )
    with tempfile.TemporaryDirectory(prefix="shoal-mutant-") as folder:
        step = tree(folder, source, text.replace(before, after))
        quick = {"OPT": "-O0", "WARNINGS": "-Wno-fatal"}
        environment = {**os.environ, **quick, "B": os.path.join(folder, "made")}
        command = ["timeout", "-s", "KILL", str(LIMIT_S), step, *check]  # all of its processes
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode in (128 + signal.SIGKILL, -signal.SIGKILL):
        return True
    if done.returncode == CANNOT:
        print(done.stdout.strip())
        return None
    # A mutant that does not even build would prove nothing.
    if done.returncode != 0 and '"wrong":' not in done.stdout:
        raise SystemExit(f"mutant {number} does not run\n{done.stdout}{done.stderr}")
    return done.returncode != 0


def main():
    numbers = [int(word) for word in sys.argv[1:]] or range(len(MUTANTS))
    survivors = 0
    for number in numbers:
        source, before, after, check = MUTANTS[number]
        begin = time.monotonic()
        found = caught(number)
        if found is None:
            sys.exit(CANNOT)
        survivors += not found
        verdict = "caught" if found else "SURVIVES"
        took = time.monotonic() - begin
        change = f"{before} -> {after or '(nothing)'}"
        print(
            f"{number:3} {source:16} {check[0]:8} {verdict:8} {took:4.0f} s  {change}", flush=True
        )
    print(json.dumps({"mutants": len(numbers), "survivors": survivors}))
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
