// SPDX-License-Identifier: Apache-2.0
// A layer of cells against the library's, frame by frame, under random gaps and back-pressure.
//
//   pe_cell_test FRAMES [SEED]
//
// FLIGHT sequences in turn, of random length; weights, biases, peepholes and x are random words,
// one in four as large as can be. Prints also the cycles of a frame when nobody waits.
#include <cstdlib>

#include "pe_cell.h"

int main(int argc, char **argv)
{
    const uint64_t goal = argc > 1 ? strtoull(argv[1], nullptr, 10) : 1000;
    const uint64_t seed = argc > 2 ? strtoull(argv[2], nullptr, 10) : 1;
    Random random(seed);
    CellBench bench(seed);
    uint64_t frames = 0, per_frame = 0;
    for (int round = 0; bench.compared < goal && bench.wrong == 0; round++) {
        const LayerWords layer(&random);
        Sequence sequences[FLIGHT];
        bench.reset();
        bench.load(layer.l);
        // The first round is not held up: its last frames tell the rate.
        bench.in.percent = round == 0 ? 0 : random.below(3) * random.below(45);
        bench.out.percent = round == 0 ? 0 : random.below(3) * random.below(45);
        const size_t before = bench.ends.size();
        for (uint32_t i = 0; i < 40; i++) {
            Frame frame;
            frame.x = draw_words(&random, W, IN);
            frame.fresh = i < FLIGHT ? random.below(2) > 0 : random.below(8) == 0;
            sequences[i % FLIGHT].step(layer.l, SIGMOID, &frame);
            bench.add(frame);
        }
        bench.drain(100000);
        frames += 40;
        if (round == 0 && bench.wrong == 0)
            per_frame = (bench.ends[before + 39] - bench.ends[before + 9]) / 30;
    }
    printf("{\"k\": %d, \"w\": %d, \"cells\": %d, \"frames\": %llu, \"cycles_per_frame\": %llu, "
           "\"wrong\": %llu, \"seed\": %llu}\n",
           K, W, CELLS, (unsigned long long)bench.compared, (unsigned long long)per_frame,
           (unsigned long long)bench.wrong, (unsigned long long)seed);
    return bench.wrong == 0 ? 0 : 1;
}
