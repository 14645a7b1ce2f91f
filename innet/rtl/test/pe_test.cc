// SPDX-License-Identifier: Apache-2.0
// The engine of processing elements against the library's product, block by block, under random
// gaps and back-pressure.
//
//   pe_test BLOCKS [SEED]
//
// Two units of three elements, two matrices side by side, shapes at random; words are extreme one
// time in four, shifts from such that all sums saturate to such that nothing is left of them.
#include <cstdlib>

#include "Vpe.h"
#include "pe_golden.h"

namespace {

constexpr unsigned L = K == 1 ? 0 : __builtin_ctz(K);
constexpr unsigned YW = W + L + 3 + (L > 2 ? (L - 1) / 2 : 0);
constexpr uint32_t UNITS = 2, PARTS = 2, N = 3, COLS = 16, DEPTH = 128;

/** What the device must give next: the blocks of all units. */
struct Want {
    std::vector<int32_t> y; // [UNITS][K]
    bool part = false, last = false;
};

struct Bench {
    Vpe top;
    Random random;
    Gaps in, out;
    Matrix matrix[PARTS];
    std::deque<std::vector<int16_t>> blocks; // of input, K words each
    std::deque<Want> want;
    bool stood = false;
    std::vector<uint8_t> offered;
    uint64_t cycles = 0, compared = 0, products = 0, saturated = 0, wrong = 0;

    explicit Bench(uint64_t seed) : random(seed), in(seed + 1), out(seed + 2)
    {
        top.load_start = top.load_valid = top.s_valid = top.m_ready = 0;
        top.rst = 1;
        for (int i = 0; i < 4; i++)
            edge();
        top.rst = 0;
    }
    void edge()
    {
        clock_edge(&top, &cycles);
    }
    void complain(const char *what)
    {
        if (wrong++ < 10)
            printf("cycle %llu: %s\n", (unsigned long long)cycles, what);
    }

    void load()
    {
        for (uint32_t part = 0; part < PARTS; part++) {
            top.load_part = (uint8_t)part;
            load_words(&top, &cycles, W, matrix[part].w.data(), matrix[part].w.size());
        }
    }

    void draw_shape()
    {
        const uint32_t rows = 1 + random.below(7);
        const unsigned usual = W + L + 1;
        top.rows = (uint16_t)rows;
        for (uint32_t part = 0; part < PARTS; part++) {
            const uint32_t cols = 1 + random.below(8);
            const uint32_t r = random.below(8);
            const unsigned shift = r == 0 ? 0 : r == 1 ? random.below(41) : usual - 2 + r / 2;
            matrix[part] = Matrix::draw(&random, W, UNITS * rows * K, cols * K, K, shift);
            set_field(&top.cols, 16 * part, 16, cols);
            for (uint32_t bin = 0; bin <= K / 2; bin++)
                set_field(&top.shifts, 6 * (part * (K / 2 + 1) + bin), 6,
                          matrix[part].m.shift[bin]);
        }
        load();
    }

    void add_frame()
    {
        const uint32_t rows = top.rows;
        std::vector<int32_t> y[PARTS];
        for (uint32_t part = 0; part < PARTS; part++) {
            const uint32_t cols = matrix[part].col_blocks();
            std::vector<int16_t> x = draw_words(&random, W, cols * K);
            for (uint32_t j = 0; j < cols; j++)
                blocks.emplace_back(x.begin() + j * K, x.begin() + (j + 1) * K);
            y[part].resize(matrix[part].m.rows);
            matrix[part].multiply(W, x.data(), y[part].data(), false);
        }
        products += (uint64_t)UNITS * rows * (matrix[0].col_blocks() + matrix[1].col_blocks());
        for (uint32_t at = 0; at < rows; at += N)
            for (uint32_t part = 0; part < PARTS; part++)
                for (uint32_t i = at; i < rows && i < at + N; i++) {
                    Want w;
                    for (uint32_t u = 0; u < UNITS; u++)
                        for (uint32_t t = 0; t < K; t++)
                            w.y.push_back(y[part][(u * rows + i) * K + t]);
                    w.part = part > 0;
                    w.last = part == PARTS - 1 && i == rows - 1;
                    want.push_back(w);
                }
    }

    void compare()
    {
        if (want.empty())
            return complain("a block that nobody asked for");
        const Want &w = want.front();
        for (uint32_t i = 0; i < UNITS * K; i++)
            if (field(top.m_y, i * YW, YW) != w.y[i]) {
                complain("a block differs from the library's");
                break;
            }
        if (top.m_part != w.part || top.m_last != w.last)
            complain("part or end of a block");
        compared += UNITS;
        want.pop_front();
    }

    void cycle()
    {
        top.s_valid = in.offer(!blocks.empty());
        if (top.s_valid)
            for (uint32_t t = 0; t < K; t++)
                set_field(&top.s_x, t * W, W, blocks.front()[t]);
        top.m_ready = out.random.below(100) >= out.percent;
        top.eval();
        const uint8_t *y = reinterpret_cast<const uint8_t *>(&top.m_y);
        std::vector<uint8_t> now(y, y + sizeof top.m_y);
        if (stood && (!top.m_valid || now != offered))
            complain("an offer was withdrawn or changed");
        stood = top.m_valid && !top.m_ready;
        offered = now;
        if (top.m_valid && top.m_ready)
            compare();
        const bool ready = top.s_ready;
        edge();
        if (in.taken(ready))
            blocks.pop_front();
    }

    void round()
    {
        draw_shape();
        in.percent = random.below(3) * random.below(45);
        out.percent = random.below(3) * random.below(45);
        for (int frames = 0; frames < 24; frames++)
            add_frame();
        const uint64_t stuck = cycles + 200000;
        while (!want.empty() && wrong == 0 && cycles < stuck)
            cycle();
        for (int i = 0; i < 40 && wrong == 0; i++)
            cycle();
        if (!want.empty() && wrong == 0)
            complain("nothing comes any more");
    }
};

} // namespace

int main(int argc, char **argv)
{
    const uint64_t goal = argc > 1 ? strtoull(argv[1], nullptr, 10) : 100000;
    const uint64_t seed = argc > 2 ? strtoull(argv[2], nullptr, 10) : 1;
    Bench bench(seed);
    while (bench.compared < goal && bench.wrong == 0)
        bench.round();
    printf("{\"k\": %d, \"w\": %d, \"blocks\": %llu, \"products\": %llu, \"cycles\": %llu, "
           "\"wrong\": %llu, \"seed\": %llu}\n",
           K, W, (unsigned long long)bench.compared, (unsigned long long)bench.products,
           (unsigned long long)bench.cycles, (unsigned long long)bench.wrong,
           (unsigned long long)seed);
    return bench.wrong == 0 ? 0 : 1;
}
