#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One step of the hardware's checks: builds what it needs and runs it. Exit status 77, with a
# reason, when a tool of packages-rtl.txt is missing.
#
#   step.sh lint | lanes [STEP [K STRICT]] | codec [BURSTS] [SEED] | nic [FRAMES] [SEED] | corners
#   step.sh pe [BLOCKS [SEED [K W THREE]]] | pe-corners
#   step.sh net DIR NAME DIGITS [SAMPLES] | text lstm|gru DIR NAME TEXT [SEQUENCES]
#   step.sh squash | cells [FRAMES [SEED [VARIANT ...]]] | pe-rate [FRAMES [VARIANT]]
#   step.sh path [OPTIONS OF test/in_path.py] | mutants [NUMBER ...]
#   step.sh formal [PART ...] | rate [FILE ...]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
made=${B:-$root/build/rtl}

need() {
    for tool; do
        if ! command -v "$tool" >/dev/null; then
            echo "rtl: $tool is not installed: tools/deps.sh packages-rtl.txt"
            exit 77
        fi
    done
}
build() { # targets; one build at a time
    mkdir -p "$made"
    flock "$made/lock" make -s -C "$here" B="$made" "${@/#/$made/}"
}

step=${1:-}
shift || true
case $step in
lint)
    need verilator
    for top in codec_compress codec_decompress nic_engine pe_engine pe_layer pe_lstm pe_gru; do
        verilator --lint-only -Wall -I"$here" --top-module $top "$here/$top.sv"
    done
    ;;
lanes)
    need verilator g++
    build lanes_test
    "$made/lanes_test" "${@:-997}"
    ;;
codec)
    need verilator g++
    build codec_test
    "$made/codec_test" "${@:-1000000}"
    ;;
nic)
    need verilator g++
    build nic_test
    "$made/nic_test" "${@:-20000}"
    ;;
pe) # an engine of processing elements; without K, all of them
    need verilator g++
    blocks=${1:-10000}
    seed=${2:-1}
    variants=("${@:3}")
    [ $# -gt 2 ] || variants=(4 12 0 4 16 0 8 12 0 8 16 0 8 12 1 16 12 0 16 16 0 1 12 0 2 16 0 \
        32 12 0 32 16 1 64 12 0 64 16 0)
    set -- "${variants[@]}"
    while [ $# -ge 3 ]; do
        build "pe-$1-$2-$3_test"
        "$made/pe-$1-$2-$3_test" "$blocks" "$seed"
        shift 3
    done
    ;;
squash) # the activations, all words
    need verilator g++
    for w in 12 16; do
        build squash-${w}_test
        "$made/squash-${w}_test"
    done
    ;;
cells) # layers with memory; the Makefile says what a variant's numbers are
    need verilator g++
    frames=${1:-1000}
    seed=${2:-1}
    [ $# -gt 2 ] || set -- '' '' lstm-8-12-32-20-12-1-1-0-2-2-2-3 lstm-8-16-32-20-32-0-0-1-3-1-8-1 \
        lstm-4-12-32-18-32-0-1-1-2-2-1-2 lstm-16-16-48-20-20-1-1-0-1-2-4-3 \
        gru-8-12-32-20-32-0-0-0-2-2-2-3 gru-4-16-32-18-32-0-0-0-3-2-4-1 \
        gru-16-12-48-20-48-0-0-0-2-1-16-2
    for variant in "${@:3}"; do
        build "${variant}_test"
        "$made/${variant}_test" "$frames" "$seed"
    done
    ;;
pe-rate) # cycles of a layer: the Google LSTM, 64 elements for its gates and 16 for its projection
    need verilator g++
    variant=${2:-8-12-1024-153-512-1-1-0-16-16-2-3}
    build "lstm-${variant}_rate"
    "$made/lstm-${variant}_rate" "${1:-8}"
    ;;
path) # training through the engine, in namespaces
    need verilator g++ python3
    build nic_link
    "$here/test/in_path.py" --made "$made" "$@"
    ;;
pe-corners) # shared vectors in a second simulator
    need iverilog
    build pe_corners
    (cd "$root" && vvp -n "$made/pe_corners")
    ;;
net) # a folder and a name of shoal export, one of shoal data digits: the net on its test split
    need verilator g++
    folder=$(cd "$1" && pwd)
    w=$(sed -n "s/^#define ${2}_BITS //p" "$folder/$2.h")
    build fixed.o "layer-8-$w.a" "layer-1-$w.a"
    include=$(verilator --getenv VERILATOR_ROOT)/include
    cc -std=gnu17 -O2 -I"$here/test" -DNET="$2" -DNET_HEADER="\"$folder/$2.h\"" -c \
        -o "$folder/net.o" "$here/test/pe_net.c"
    g++ -O2 -DW="$w" -I"$here/test" -I"$root/src" -I"$include" -I"$include/vltstd" \
        -I"$made/layer-8-$w" -I"$made/layer-1-$w" -o "$folder/net_test" \
        "$here/test/pe_net_test.cc" "$folder/net.o" "$made/fixed.o" \
        "$made/layer-8-$w.a" "$made/layer-1-$w.a" \
        "$include/verilated.cpp" "$include/verilated_threads.cpp" -pthread
    "$folder/net_test" "$3" "${@:4}"
    ;;
text) # the same of shoal data text: a net of 64 characters, 32 cells in blocks of 8, 12 bits
    need verilator g++
    cells=$1 folder=$(cd "$2" && pwd)
    variant=$cells-8-12-32-64-32-0-0-0-2-1-2-3
    build fixed.o layer-1-12.a "$variant.a"
    include=$(verilator --getenv VERILATOR_ROOT)/include
    cc -std=gnu17 -O2 -I"$here/test" -DNET="$3" -DNET_HEADER="\"$folder/$3.h\"" -c \
        -o "$folder/net.o" "$here/test/pe_net.c"
    g++ -O2 -DK=8 -DW=12 -DCELLS=32 -DIN=64 -DOUT=32 -DPROJECT=0 -DPEEP=0 -DSIGMOID=0 -DFLIGHT=3 \
        -DGRU=$([ "$cells" = gru ] && echo 1 || echo 0) -I"$here/test" -I"$root/src" \
        -I"$include" -I"$include/vltstd" -I"$made/$variant.lib" -I"$made/layer-1-12" \
        -o "$folder/net_test" "$here/test/pe_text_test.cc" "$folder/net.o" "$made/fixed.o" \
        "$made/$variant.a" "$made/layer-1-12.a" \
        "$include/verilated.cpp" "$include/verilated_threads.cpp" -pthread
    "$folder/net_test" "$4" "${@:5}"
    ;;
mutants)
    need verilator g++ iverilog
    "$here/test/mutate.py" "$@"
    ;;
rate)
    need verilator g++
    build rate_test
    "$made/rate_test" "$@"
    ;;
corners)
    need iverilog
    build corners
    (cd "$root" && vvp -n "$made/corners")
    ;;
formal) # the aligner, part by part: from reset on and from each step to the next, so for ever
    need yosys yosys-smtbmc z3
    [ $# -gt 0 ] || set -- 0 1 2 3 4 5
    wrong=0
    for part; do
        build "aligner-$part.smt2"
        for how in "-t 4" "-i -t 2"; do
            # shellcheck disable=SC2086
            yosys-smtbmc --noprogress --unroll -s z3 $how "$made/aligner-$part.smt2" |
                tail -n 1 || wrong=$((wrong + 1))
        done
    done
    echo "{\"parts\": $#, \"wrong\": $wrong}"
    [ $wrong -eq 0 ]
    ;;
*)
    sed -n '6,11s/^# *//p' "$0"
    exit 2
    ;;
esac
