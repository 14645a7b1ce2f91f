/* SPDX-License-Identifier: Apache-2.0 */
/* The library's fixed point (src/kernel/fixed.h) for C++ test benches, random words, and fields of
 * a verilated device's ports, whatever type their width has. */
#ifndef SHOALI_RTL_PE_GOLDEN_H
#define SHOALI_RTL_PE_GOLDEN_H

#include <cstddef>
#include <cstdint>
#include <vector>

extern "C" {
#include "kernel/fixed.h"
}

#include "stream.h"

/** A word of so many bits; one in four is the largest or smallest. */
inline int32_t draw_word(Random *random, unsigned bits)
{
    const int64_t low = -(INT64_C(1) << (bits - 1));
    const uint64_t r = random->next() >> 8;
    if (r % 8 < 2)
        return (int32_t)(r % 8 == 0 ? low : -low - 1);
    return (int32_t)(low + (int64_t)(r >> 8) % (INT64_C(1) << bits));
}

inline std::vector<int16_t> draw_words(Random *random, unsigned bits, size_t count)
{
    std::vector<int16_t> words(count);
    for (int16_t &word : words)
        word = (int16_t)draw_word(random, bits);
    return words;
}

/** Verilator keeps a port's bits little-endian, in bytes, halves, words, or arrays of words. */
template <class Port> int64_t field(const Port &port, size_t at, unsigned bits)
{
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&port);
    uint64_t v = 0;
    for (unsigned i = 0; i < bits; i++, at++)
        v |= (uint64_t)(bytes[at / 8] >> at % 8 & 1) << i;
    return (int64_t)(v << (64 - bits)) >> (64 - bits);
}

template <class Port> void set_field(Port *port, size_t at, unsigned bits, int64_t value)
{
    uint8_t *bytes = reinterpret_cast<uint8_t *>(port);
    for (unsigned i = 0; i < bits; i++, at++)
        bytes[at / 8] = (uint8_t)((bytes[at / 8] & ~(1u << at % 8)) | ((value >> i & 1) << at % 8));
}

/** Words into the memory that the caller's load_what (or load_part) names. */
template <class Top>
void load_words(Top *top, uint64_t *cycles, unsigned bits, const int16_t *words, size_t count)
{
    top->load_start = 1;
    clock_edge(top, cycles);
    top->load_start = 0;
    top->load_valid = 1;
    for (size_t i = 0; i < count; i++) {
        set_field(&top->load_word, 0, bits, words[i]);
        clock_edge(top, cycles);
    }
    top->load_valid = 0;
}

/** A matrix with the words that it points to. */
struct Matrix {
    shoali_fixed_matrix m = {};
    std::vector<int16_t> w;

    uint32_t row_blocks() const
    {
        return (m.rows + m.block - 1) / m.block;
    }
    uint32_t col_blocks() const
    {
        return (m.cols + m.block - 1) / m.block;
    }
    static Matrix draw(Random *random, unsigned bits, uint32_t rows, uint32_t cols, uint32_t k,
                       unsigned shift)
    {
        Matrix made;
        made.m.rows = rows;
        made.m.cols = cols;
        made.m.block = k;
        made.w = draw_words(random, bits, (size_t)made.row_blocks() * made.col_blocks() * k);
        for (uint32_t bin = 0; bin <= k / 2; bin++) {
            unsigned own = shift + random->below(4);
            made.m.shift[bin] = (uint8_t)(own > SHOALI_FIXED_SHIFT_MAX ? 40 : own);
        }
        made.m.w = made.w.data();
        return made;
    }
    Matrix() = default;
    Matrix(const Matrix &from) : m(from.m), w(from.w)
    {
        m.w = w.data();
    }
    Matrix &operator=(const Matrix &from)
    {
        m = from.m;
        w = from.w;
        m.w = w.data();
        return *this;
    }
    /** y[rows], += with add. */
    void multiply(unsigned bits, const int16_t *x, int32_t *y, bool add) const
    {
        std::vector<int32_t> slots((size_t)col_blocks() * m.block);
        shoali_fixed_analyse(&m, x, slots.data());
        shoali_fixed_multiply(&m, bits, slots.data(), y, add);
    }
};

/** An offer that stands until it is taken, with random gaps. Call offer() before, taken() after. */
struct Gaps {
    Random random;
    uint32_t percent = 0;
    bool offers = false;

    explicit Gaps(uint64_t seed) : random(seed)
    {
    }
    bool offer(bool more)
    {
        offers = offers || (more && random.below(100) >= percent);
        return offers;
    }
    bool taken(bool ready)
    {
        bool moved = offers && ready;
        offers = offers && !ready;
        return moved;
    }
};

#endif
