/* SPDX-License-Identifier: Apache-2.0 */
/* A verilated layer of cells (pe_lstm.sv, pe_gru.sv) on a bench: the library's words go in as they
 * are, frames of FLIGHT sequences in turn, h comes out. Macros K, W, CELLS, IN, OUT, PROJECT, PEEP,
 * SIGMOID, FLIGHT and GRU say how it was built. */
#ifndef SHOALI_RTL_PE_CELL_H
#define SHOALI_RTL_PE_CELL_H

#include "Vpe.h"
#include "pe_golden.h"

constexpr uint32_t X_BLOCKS = (IN + K - 1) / K, H_BLOCKS = (OUT + K - 1) / K;

/** A frame: what goes in and what the library says comes out. */
struct Frame {
    std::vector<int16_t> x, h;
    bool fresh = false;
};

struct CellBench {
    Vpe top;
    Gaps in, out;
    uint64_t cycles = 0, compared = 0, taken = 0, wrong = 0;
    std::vector<uint64_t> ends; /* in which cycle each frame was done */
    std::deque<Frame> to_send, to_come;
    std::vector<int16_t> h; /* all that came out, frame by frame */
    uint32_t sent_blocks = 0, come_blocks = 0;
    bool stood = false;
    std::vector<uint8_t> offered;

    explicit CellBench(uint64_t seed) : in(seed + 1), out(seed + 2)
    {
        top.load_start = top.load_valid = top.s_valid = top.m_ready = 0;
        reset();
    }
    void reset()
    {
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
            printf("cycle %llu, frame %zu, block %u: %s\n", (unsigned long long)cycles, ends.size(),
                   come_blocks, what);
    }

    void load(unsigned what, const int16_t *words, size_t count)
    {
        top.load_what = (uint8_t)what;
        load_words(&top, &cycles, W, words, count);
    }
    template <class Port>
    void load_matrix(unsigned what, const shoali_fixed_matrix &m, Port *shifts)
    {
        const size_t p = (m.rows + K - 1) / K, q = (m.cols + K - 1) / K;
        for (uint32_t bin = 0; bin <= K / 2; bin++)
            set_field(shifts, 6 * bin, 6, m.shift[bin]);
        load(what, m.w, p * q * K);
    }
    void load(const shoali_fixed_cells &l)
    {
        load_matrix(0, l.x, &top.shifts_x);
        load_matrix(1, l.r, &top.shifts_r);
        if (l.p.rows > 0)
            load_matrix(2, l.p, &top.shifts_p);
        load(3, l.bias, (GRU ? 3 : 4) * (size_t)CELLS);
#if !GRU
        if (l.peephole != nullptr)
            load(4, l.peephole, 3 * (size_t)CELLS);
        top.peephole_shift = l.peephole_shift;
#endif
    }

    void compare()
    {
        const Frame &frame = to_come.front();
        bool differ = false;
        for (uint32_t t = 0; t < K; t++) {
            const uint32_t i = come_blocks * K + t;
            const int64_t word = field(top.m_y, t * W, W);
            differ |= word != (i < OUT ? frame.h[i] : 0);
            if (i < OUT)
                h.push_back((int16_t)word);
        }
        if (differ)
            complain("h differs from the library's");
        come_blocks++;
        if ((bool)top.m_last != (come_blocks == H_BLOCKS))
            complain("the end of a frame");
        if (come_blocks < H_BLOCKS)
            return;
        come_blocks = 0;
        compared++;
        ends.push_back(cycles);
        to_come.pop_front();
    }

    void cycle()
    {
        top.s_valid = in.offer(!to_send.empty());
        if (top.s_valid) {
            const Frame &frame = to_send.front();
            for (uint32_t t = 0; t < K; t++) {
                const uint32_t i = sent_blocks * K + t;
                set_field(&top.s_x, t * W, W, i < IN ? frame.x[i] : 0);
            }
            top.s_fresh = sent_blocks == 0 && frame.fresh;
        }
        top.m_ready = out.random.below(100) >= out.percent;
        top.eval();
        const uint8_t *y = reinterpret_cast<const uint8_t *>(&top.m_y);
        std::vector<uint8_t> now(y, y + sizeof top.m_y);
        if (stood && (!top.m_valid || now != offered))
            complain("an offer was withdrawn or changed");
        stood = top.m_valid && !top.m_ready;
        offered = now;
        if (top.m_valid && to_come.empty())
            complain("a block that nobody asked for");
        else if (top.m_valid && top.m_ready)
            compare();
        const bool ready = top.s_ready;
        edge();
        if (in.taken(ready) && ++sent_blocks == X_BLOCKS) {
            to_send.pop_front();
            sent_blocks = 0;
        }
    }
    void add(const Frame &frame)
    {
        to_send.push_back(frame);
        to_come.push_back(frame);
    }
    /** Until all frames are there. */
    void drain(uint64_t per_frame)
    {
        const uint64_t stuck = cycles + per_frame * (to_come.size() + 4);
        while (!to_come.empty() && wrong == 0 && cycles < stuck)
            cycle();
        if (!to_come.empty() && wrong == 0)
            complain("nothing comes any more");
    }
};

/** Random words for all of a layer. */
struct LayerWords {
    Matrix x, r, p;
    std::vector<int16_t> bias, peephole;
    shoali_fixed_cells l = {};

    explicit LayerWords(Random *random)
    {
        const unsigned shift = W + 2;
        x = Matrix::draw(random, W, (GRU ? 3 : 4) * CELLS, IN, K, shift);
        r = Matrix::draw(random, W, (GRU ? 2 : 4) * CELLS, OUT, K, shift);
        if (GRU || PROJECT)
            p = Matrix::draw(random, W, GRU ? CELLS : OUT, CELLS, K, shift);
        bias = draw_words(random, W - 1, 4 * CELLS);
        peephole = draw_words(random, W, 3 * CELLS);
        l.count = CELLS;
        l.x = x.m;
        l.r = r.m;
        l.p = p.m;
        l.bias = bias.data();
        l.peephole = PEEP ? peephole.data() : nullptr;
        l.peephole_shift = (uint8_t)(W + random->below(3));
    }
};

/** One sequence in the library: what its cells remember. */
struct Sequence {
    std::vector<int16_t> h, halves;
    std::vector<int32_t> c, words;

    Sequence() : h(OUT), halves(CELLS), c(CELLS)
    {
    }
    void step(const shoali_fixed_cells &l, bool sigmoid, Frame *frame)
    {
        words.resize(shoali_fixed_cell_words(&l));
        if (frame->fresh) {
            h.assign(h.size(), 0);
            c.assign(c.size(), 0);
        }
        if (GRU)
            shoali_fixed_gru(&l, W, frame->x.data(), h.data(), words.data(), halves.data());
        else
            shoali_fixed_lstm(&l, W, sigmoid, frame->x.data(), h.data(), c.data(), words.data(),
                              halves.data());
        frame->h = h;
    }
};

#endif
