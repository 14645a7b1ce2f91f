// SPDX-License-Identifier: Apache-2.0
// Every float through lane_compress and lane_decompress, compared with the library's own functions.
//
//   lanes_test [STEP [K STRICT]]   every STEP-th of the 2^32 floats (1: all) and, with STEP > 1,
//                                  all next to a class limit; for one or all of the six rules
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "Vlanes_top.h"
#include "golden.h"

namespace {

constexpr int LANES = 32, COMPRESS_CYCLES = 2, CYCLES = 4;

// What the library says about the inputs of one clock.
struct Wanted {
    uint32_t bits[LANES];
    golden_element element[LANES];
};

struct Lanes {
    Vlanes_top top;
    uint32_t k;
    int strict;
    Wanted ring[CYCLES]; // of the last clocks
    uint64_t clocks = 0; // since the pipeline was empty
    uint64_t checked = 0, wrong = 0;

    void complain(const Wanted &want, int i, uint32_t got)
    {
        const golden_element &e = want.element[i];
        if (wrong++ < 10)
            printf("k %u strict %d float %08x: %08x, library %u %08x %08x\n", k, strict,
                   want.bits[i], got, e.tag, e.payload, e.decoded);
    }

    void check()
    {
        const Wanted &coded = ring[(clocks - COMPRESS_CYCLES) % CYCLES];
        for (int i = 0; i < LANES && clocks >= COMPRESS_CYCLES; i++) {
            uint32_t tag = (uint32_t)(top.tag >> 2 * i & 3);
            if (tag != coded.element[i].tag || top.payload[i] != coded.element[i].payload)
                complain(coded, i, top.payload[i]);
        }
        const Wanted &decoded = ring[clocks % CYCLES]; // the oldest
        for (int i = 0; i < LANES && clocks >= CYCLES; i++, checked++)
            if (top.y[i] != decoded.element[i].decoded)
                complain(decoded, i, top.y[i]);
    }

    void clock(uint64_t base, uint64_t step)
    {
        check();
        Wanted &want = ring[clocks++ % CYCLES];
        for (int i = 0; i < LANES; i++) {
            want.bits[i] = (uint32_t)(base + (uint64_t)i * step);
            want.element[i] = golden_code(k, strict, want.bits[i]);
            top.x[i] = want.bits[i];
        }
        top.clk = 0;
        top.eval();
        top.clk = 1;
        top.eval();
    }

    Lanes(uint32_t k_, int strict_) : k(k_), strict(strict_)
    {
        top.bound = (uint8_t)((k - 6) / 2);
        top.strict = (uint8_t)strict;
    }

    // Ends with the pipeline's contents checked.
    void run(uint64_t from, uint64_t to, uint64_t step)
    {
        clocks = 0;
        for (uint64_t base = from; base < to; base += step * LANES)
            clock(base, step);
        for (int i = 0; i < CYCLES; i++)
            clock(to, step);
    }

    // Around each power of two from 2^-12 to 4, of both signs.
    void run_limits()
    {
        for (uint64_t sign = 0; sign <= 1; sign++)
            for (uint64_t e = 115; e < 130; e++)
                run((sign << 31 | e << 23) - 4096, (sign << 31 | e << 23) + 4096, 1);
    }
};

} // namespace

int main(int argc, char **argv)
{
    uint64_t step = argc > 1 ? strtoull(argv[1], nullptr, 10) : 1, checked = 0, wrong = 0;
    for (uint32_t k = 6; k <= 10; k += 2)
        for (int strict = 0; strict <= 1; strict++) {
            if (argc > 3 && (k != (uint32_t)atoi(argv[2]) || strict != atoi(argv[3])))
                continue;
            Lanes lanes(k, strict);
            lanes.run(0, 1ull << 32, step);
            if (step > 1)
                lanes.run_limits();
            checked += lanes.checked;
            wrong += lanes.wrong;
        }
    printf("{\"floats\": %llu, \"wrong\": %llu}\n", (unsigned long long)checked,
           (unsigned long long)wrong);
    return wrong == 0 && checked > 0 ? 0 : 1;
}
