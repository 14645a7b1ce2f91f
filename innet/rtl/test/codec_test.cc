// SPDX-License-Identifier: Apache-2.0
// Compressor and decompressor against the library, burst by burst, under random back-pressure.
//
//   codec_test BURSTS [SEED]
//
// Packets of 1 to 400 floats of mixed magnitudes go through the compressor; what comes out is
// compared with golden_encode, bytes, ends and order. The same coded bytes go through the
// decompressor, some cut short, lengthened or flipped: what golden_decode refuses must be flagged,
// the others must come out as it has them.
#include <cstdlib>

#include "Vcodec_top.h"
#include "golden.h"
#include "stream.h"

namespace {

struct Packet {
    std::vector<uint8_t> bytes; // that must come out
    bool bad = false;           // only the end and the flag matter
};

struct Bench {
    Vcodec_top top;
    Random random;
    Source c_in, d_in;
    Sink c_out, d_out;
    std::deque<Burst> c_want;
    std::deque<Packet> d_want;
    std::vector<uint8_t> d_got;
    uint32_t k = 10;
    int strict = 1;
    uint64_t bursts = 0, packets = 0, corrupt = 0, cycles = 0, wrong = 0;

    explicit Bench(uint64_t seed)
        : random(seed), c_in(seed + 1), d_in(seed + 2), c_out(seed + 3), d_out(seed + 4)
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
            printf("cycle %llu, 2^-%u strict %d: %s\n", (unsigned long long)cycles, k, strict,
                   what);
    }

    // A float whose class the packet's mood decides: mixed, tiny, coded, large.
    float draw(uint32_t mood)
    {
        uint32_t e = mood == 0   ? 112 + random.below(20)
                     : mood == 1 ? 100 + random.below(18)
                     : mood == 2 ? 117 + random.below(10)
                                 : 127 + random.below(129);
        uint32_t bits = random.below(2) << 31 | e << 23 | (uint32_t)(random.next() >> 41);
        float x;
        memcpy(&x, &bits, sizeof x);
        return x;
    }

    void damage(std::vector<uint8_t> *coded)
    {
        switch (random.below(3)) {
        case 0:
            coded->resize(1 + random.below((uint32_t)coded->size()));
            break;
        case 1:
            coded->resize(coded->size() + 1 + random.below(70));
            break;
        default:
            (*coded)[random.below((uint32_t)coded->size())] ^= (uint8_t)(1u << random.below(8));
        }
    }

    // A byte for a float that is not there: the last tag of a group that is not full.
    void add_ghost(const std::vector<float> &floats, std::vector<uint8_t> *coded)
    {
        std::vector<uint8_t> whole(coded->size() + 34);
        size_t word = golden_encode(k, strict, floats.data(), floats.size() / 8 * 8, whole.data());
        (*coded)[word + 1] |= 0x40;
        coded->push_back(0);
    }

    void add_packet()
    {
        std::vector<float> floats(1 + random.below(random.below(8) == 0 ? 400 : 60));
        uint32_t mood = random.below(5);
        for (float &x : floats)
            x = draw(mood == 4 ? 0 : mood);
        std::vector<uint8_t> coded(floats.size() * 5 + 2);
        coded.resize(golden_encode(k, strict, floats.data(), floats.size(), coded.data()));
        cut_bursts((const uint8_t *)floats.data(), 4 * floats.size(), 0, &c_in.queue);
        cut_bursts(coded.data(), coded.size(), 0, &c_want);
        bool damaged = random.below(10) == 0;
        if (damaged && floats.size() % 8 != 0 && random.below(4) == 0)
            add_ghost(floats, &coded);
        else if (damaged)
            damage(&coded);
        Packet p;
        p.bytes.resize(4 * floats.size());
        size_t used = golden_decode(k, strict, coded.data(), coded.size(), (float *)p.bytes.data(),
                                    floats.size());
        p.bad = used != coded.size(); // in a packet nothing may follow
        cut_bursts(coded.data(), coded.size(), (uint32_t)floats.size(), &d_in.queue);
        d_want.push_back(p);
        corrupt += damaged;
        packets++;
    }

    static Burst burst_of(const VlWide<8> &data, uint32_t keep, bool last)
    {
        Burst b;
        memcpy(b.data, &data[0], BURST_BYTES);
        b.keep = keep;
        b.last = last;
        return b;
    }

    void coded_burst(const Burst &got)
    {
        if (c_want.empty() || !(got == c_want.front()))
            complain("the compressor's burst is not the library's");
        if (!c_want.empty())
            c_want.pop_front();
        bursts++;
    }

    void decoded_burst(const Burst &got, bool bad)
    {
        d_got.insert(d_got.end(), got.data, got.data + got.bytes());
        bursts++;
        if (!got.last)
            return;
        if (d_want.empty())
            return complain("a packet that nobody sent");
        const Packet &want = d_want.front();
        if (bad != want.bad || (!bad && d_got != want.bytes))
            complain(bad        ? "a good packet is called bad"
                     : want.bad ? "a bad packet is called good"
                                : "a decoded packet is wrong");
        d_got.clear();
        d_want.pop_front();
    }

    void cycle()
    {
        const Burst *c = c_in.offer(), *d = d_in.offer();
        top.c_s_tvalid = c != nullptr;
        if (c != nullptr) {
            memcpy(&top.c_s_tdata[0], c->data, BURST_BYTES);
            top.c_s_tkeep = c->keep;
            top.c_s_tlast = c->last;
        }
        top.d_s_tvalid = d != nullptr;
        if (d != nullptr) {
            memcpy(&top.d_s_tdata[0], d->data, BURST_BYTES);
            top.d_s_tkeep = d->keep;
            top.d_s_tlast = d->last;
            top.d_s_floats = (uint16_t)d->user;
        } else {
            top.d_s_tdata[31 / 4] ^= 0xa5000000; // nobody may look at what is not offered
        }
        top.c_m_tready = c_out.choose();
        top.d_m_tready = d_out.choose();
        top.eval();
        bool c_ready = top.c_s_tready, d_ready = top.d_s_tready, bad = top.d_m_bad;
        Burst c_burst = burst_of(top.c_m_tdata, top.c_m_tkeep, top.c_m_tlast);
        Burst d_burst = burst_of(top.d_m_tdata, top.d_m_tkeep, top.d_m_tlast);
        bool c_moved = c_out.see(top.c_m_tvalid, c_burst);
        bool d_moved = d_out.see(top.d_m_tvalid, d_burst);
        edge();
        c_in.taken(c_ready);
        d_in.taken(d_ready);
        if (c_moved)
            coded_burst(c_burst);
        if (d_moved)
            decoded_burst(d_burst, bad);
    }

    bool busy() const
    {
        return !c_in.queue.empty() || !d_in.queue.empty() || !c_want.empty() || !d_want.empty();
    }

    // One rule and one degree of back-pressure; false: stuck.
    bool round(uint64_t goal)
    {
        k = 6 + 2 * random.below(3);
        strict = (int)random.below(2);
        top.bound = (uint8_t)((k - 6) / 2);
        top.strict = (uint8_t)strict;
        for (uint32_t *percent :
             {&c_in.gap_percent, &d_in.gap_percent, &c_out.wait_percent, &d_out.wait_percent})
            *percent = random.below(3) * random.below(45);
        uint64_t end = bursts + goal, stuck = cycles + 100 * goal + 10000;
        while (bursts < end) {
            while (c_in.queue.size() < 64 || d_in.queue.size() < 64)
                add_packet();
            cycle();
            if (cycles > stuck)
                return false;
        }
        while (busy() && cycles <= stuck)
            cycle();
        return !busy();
    }
};

} // namespace

int main(int argc, char **argv)
{
    uint64_t goal = argc > 1 ? strtoull(argv[1], nullptr, 10) : 100000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], nullptr, 10) : 1;
    Bench bench(seed);
    while (bench.bursts < goal && bench.wrong == 0)
        if (!bench.round(2000))
            bench.complain("nothing comes any more");
    bench.wrong += bench.c_out.broken + bench.d_out.broken;
    printf("{\"bursts\": %llu, \"packets\": %llu, \"damaged\": %llu, \"cycles\": %llu, "
           "\"wrong\": %llu, \"seed\": %llu}\n",
           (unsigned long long)bench.bursts, (unsigned long long)bench.packets,
           (unsigned long long)bench.corrupt, (unsigned long long)bench.cycles,
           (unsigned long long)bench.wrong, (unsigned long long)seed);
    return bench.wrong == 0 ? 0 : 1;
}
