/* SPDX-License-Identifier: Apache-2.0 */
/* AXI4-Stream for test benches: a queue of bursts to put in, one of bursts that came out, random
 * gaps at both ends, and what a stream must keep to: an offer stands until it is taken. */
#ifndef SHOALI_RTL_STREAM_H
#define SHOALI_RTL_STREAM_H

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <vector>

constexpr size_t BURST_BYTES = 32;

/** xorshift64*: fast, and the same everywhere. */
struct Random {
    uint64_t state;
    explicit Random(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15u + 1)
    {
    }
    uint64_t next()
    {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return state * 0x2545f4914f6cdd1du;
    }
    uint32_t below(uint32_t limit)
    {
        return (uint32_t)((next() >> 32) * limit >> 32);
    }
};

/** A whole period of the clock: what is at the inputs is taken at the rising edge. */
template <class Top> void clock_edge(Top *top, uint64_t *cycles)
{
    top->clk = 1;
    top->eval();
    top->clk = 0;
    top->eval();
    ++*cycles;
}

struct Burst {
    uint8_t data[BURST_BYTES] = {};
    uint32_t keep = 0, user = 0;
    bool last = false;

    size_t bytes() const
    {
        return (size_t)__builtin_popcount(keep);
    }
    bool operator==(const Burst &b) const
    {
        return keep == b.keep && last == b.last && memcmp(data, b.data, bytes()) == 0;
    }
};

/** Bytes as bursts; user goes with each. */
inline void cut_bursts(const uint8_t *bytes, size_t len_bytes, uint32_t user,
                       std::deque<Burst> *out)
{
    for (size_t at = 0; at < len_bytes; at += BURST_BYTES) {
        Burst b;
        size_t n = len_bytes - at < BURST_BYTES ? len_bytes - at : BURST_BYTES;
        memcpy(b.data, bytes + at, n);
        b.keep = n == BURST_BYTES ? 0xffffffffu : (1u << n) - 1;
        b.user = user;
        b.last = at + n == len_bytes;
        out->push_back(b);
    }
}

/** One direction of traffic into a device. Call offer() before the clock edge, taken() after it. */
struct Source {
    std::deque<Burst> queue;
    Random random;
    uint32_t gap_percent = 0; /* of cycles without an offer */
    bool offers = false;

    explicit Source(uint64_t seed) : random(seed)
    {
    }
    const Burst *offer()
    {
        if (!offers)
            offers = !queue.empty() && random.below(100) >= gap_percent;
        return offers ? &queue.front() : nullptr;
    }
    /** ready as the device said it before the edge. */
    bool taken(bool ready)
    {
        bool moved = offers && ready;
        if (moved) {
            queue.pop_front();
            offers = false;
        }
        return moved;
    }
};

/** One direction of traffic out of a device. */
struct Sink {
    Random random;
    uint32_t wait_percent = 0; /* of cycles without ready */
    bool ready = false, stood = false;
    Burst offered;
    uint64_t broken = 0; /* offers that were withdrawn or changed */

    explicit Sink(uint64_t seed) : random(seed)
    {
    }
    bool choose()
    {
        ready = random.below(100) >= wait_percent;
        return ready;
    }
    /** What the device offers before the edge; true: it moved. */
    bool see(bool valid, const Burst &burst)
    {
        if (stood && (!valid || !(burst == offered)))
            broken++;
        stood = valid && !ready;
        offered = burst;
        return valid && ready;
    }
};

#endif
