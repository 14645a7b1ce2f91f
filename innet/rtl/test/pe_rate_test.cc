// SPDX-License-Identifier: Apache-2.0
// Cycles of an lstm layer: FLIGHT sequences, a source that always offers, a sink that always takes.
//
//   pe_rate_test [FRAMES]
//
// Words are random and compared with the library's, so it is the computation whose cycles are
// counted. `gates`: from the offer of the first block of a frame that finds the layer empty until
// its last sums of gates leave; `alone`: until its h is there; `interval`: between ends of frames
// that wait for each other; `macs_per_cycle`: block products of a gates' element in that time.
#include <cstdlib>

#include "pe_cell.h"

int main(int argc, char **argv)
{
    const uint32_t frames = argc > 1 ? (uint32_t)strtoul(argv[1], nullptr, 10) : 8;
    Random random(1);
    CellBench bench(1);
    const LayerWords layer(&random);
    bench.load(layer.l);
    Sequence sequences[FLIGHT];
    std::vector<Frame> all;
    for (uint32_t i = 0; i < frames; i++) {
        Frame frame;
        frame.x = draw_words(&random, W, IN);
        frame.fresh = i < FLIGHT;
        sequences[i % FLIGHT].step(layer.l, SIGMOID, &frame);
        all.push_back(frame);
    }
    // One frame alone, then all of them without a pause.
    const uint64_t begun = bench.cycles;
    bench.add(all[0]);
    uint64_t gates = 0;
    while (bench.to_come.size() > 0 && bench.wrong == 0 && bench.cycles < begun + 100000) {
        bench.cycle();
        if (bench.top.gates_done && gates == 0)
            gates = bench.cycles - begun;
    }
    const uint64_t alone = bench.cycles - begun;
    bench.reset();
    bench.ends.clear();
    for (const Frame &frame : all)
        bench.add(frame);
    bench.drain(100000);
    const size_t from = FLIGHT;
    const double interval = (double)(bench.ends[frames - 1] - bench.ends[from]) /
                            (double)(frames - 1 - from);
    const uint64_t blocks = 4ull * (CELLS / K) * (X_BLOCKS + H_BLOCKS);
    printf("{\"cells\": %d, \"elements\": %d, \"projection_elements\": %d, \"frames\": %u, "
           "\"block_macs\": %llu, \"gates\": %llu, \"alone\": %llu, \"interval\": %.2f, "
           "\"macs_per_cycle\": %.4f, \"wrong\": %llu}\n",
           CELLS, 4 * N_GATE, N_PROJECTION, frames, (unsigned long long)blocks,
           (unsigned long long)gates, (unsigned long long)alone, interval,
           (double)blocks / (interval * 4 * N_GATE), (unsigned long long)bench.wrong);
    return bench.wrong == 0 ? 0 : 1;
}
