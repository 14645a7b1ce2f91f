// SPDX-License-Identifier: Apache-2.0
// Every word through the activations, against the library's.
#include "Vpe.h"
#include "pe_golden.h"

int main()
{
    constexpr int LATENCY = 4;
    constexpr int32_t GATES = 1 << (W - 1), CELLS = 1 << (W + 3);
    Vpe top;
    top.clk = 0;
    top.eval(); // else the first edge is none
    uint64_t words = 0, wrong = 0, cycles = 0;
    for (int32_t v = -CELLS; v < CELLS + LATENCY; v++) {
        const int32_t gate = v % GATES;
        set_field(&top.gate, 0, W, gate);
        set_field(&top.cell_word, 0, W + 4, v < CELLS ? v : 0);
        clock_edge(&top, &cycles);
        const int32_t was = v - (LATENCY - 1); // what comes out now went in then
        if (was < -CELLS || was >= CELLS)
            continue;
        wrong += field(top.sigmoid_gate, 0, W) != shoali_fixed_sigmoid(W, was % GATES, W - 4);
        wrong += field(top.tanh_gate, 0, W) != shoali_fixed_tanh(W, was % GATES, W - 4);
        wrong += field(top.tanh_cell, 0, W) != shoali_fixed_tanh(W, was, W - 1);
        words++;
    }
    // -2^(W-1) is no remainder.
    set_field(&top.gate, 0, W, -GATES);
    for (int i = 0; i < LATENCY; i++)
        clock_edge(&top, &cycles);
    wrong += field(top.sigmoid_gate, 0, W) != shoali_fixed_sigmoid(W, -GATES, W - 4);
    wrong += field(top.tanh_gate, 0, W) != shoali_fixed_tanh(W, -GATES, W - 4);
    printf("{\"w\": %d, \"words\": %llu, \"wrong\": %llu}\n", W, (unsigned long long)words,
           (unsigned long long)wrong);
    return wrong == 0 ? 0 : 1;
}
