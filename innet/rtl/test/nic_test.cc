// SPDX-License-Identifier: Apache-2.0
// The engine against the software one, frame by frame, under random back-pressure.
//
//   nic_test FRAMES [SEED]
//
// Frames of all sorts go to the link: segments of marked connections, their handshakes, retries,
// odd ends and alignments, options, fragments, padding, wrong checksums, other protocols, jumbo
// frames. What comes out is compared byte by byte with the software engine. Some are damaged on the
// link, then all go the way back; what a host would take must be what the software engine decodes.
#include <cstdlib>

#include "nic.h"

namespace {

struct Stream { // a connection as its sender sees it
    std::vector<uint8_t> key;
    uint32_t seq;
    uint8_t tos;
};

struct Bench {
    Nic nic;
    SoftNic soft;
    Random random;
    std::vector<Stream> streams;
    std::deque<Frame> tx_want, rx_want;
    uint64_t frames = 0, coded = 0, damaged = 0, lost = 0, forgotten = 0, wrong = 0;

    explicit Bench(uint64_t seed) : nic(seed), random(seed + 9)
    {
    }

    void complain(const char *what)
    {
        if (wrong++ < 10)
            printf("cycle %llu, frame %llu: %s\n", (unsigned long long)nic.cycles,
                   (unsigned long long)frames, what);
    }

    Frame segment(const Stream &s, uint32_t seq, size_t payload, uint8_t flags)
    {
        size_t words = 5 + (random.below(2) ? 3 : random.below(11));
        Frame f(ETH + IP + 4 * words + payload);
        for (uint8_t &byte : f)
            byte = (uint8_t)random.below(256);
        put16(&f[12], 0x0800);
        f[14] = 0x45;
        f[15] = (uint8_t)(s.tos | random.below(4));
        put16(&f[16], (uint32_t)f.size() - ETH);
        put16(&f[20], random.below(2) ? 0x4000 : 0);
        f[23] = 6;
        memcpy(&f[26], s.key.data(), s.key.size());
        put16(&f[38], seq >> 16);
        put16(&f[40], seq);
        f[46] = (uint8_t)(words << 4);
        f[47] = flags;
        put16(&f[52], 0);
        size_t head = ETH + IP + 4 * words;
        for (size_t i = 0; i + 4 <= payload; i += 4) { // mostly small floats
            uint32_t e = random.below(10) == 0 ? random.below(256) : 112 + random.below(18);
            uint32_t bits = random.below(2) << 31 | e << 23 | (uint32_t)(random.next() >> 41);
            memcpy(&f[head + i], &bits, 4);
        }
        return f;
    }

    Stream &open_stream()
    {
        Stream s;
        for (int i = 0; i < 12; i++)
            s.key.push_back((uint8_t)random.below(256));
        s.seq = (uint32_t)random.next();
        s.tos = random.below(5) == 0 ? 0 : soft.set.tos;
        if (streams.size() < 20)
            streams.push_back(s);
        Stream &at = streams[random.below((uint32_t)streams.size())];
        at = s;
        return at;
    }

    Frame data_frame()
    {
        Stream &s = streams[random.below((uint32_t)streams.size())];
        size_t most = random.below(20) == 0 ? 8900 : random.below(3) == 0 ? 1448 : 200;
        size_t payload = 4 * (size_t)random.below((uint32_t)most / 4);
        uint32_t odd = random.below(12), seq = s.seq;
        if (odd == 0)
            payload += random.below(4);
        if (odd == 1)
            seq -= 4 * random.below(60); // sent again
        if (odd == 2)
            s.seq += 0x70000000;
        if (odd == 3)
            seq += random.below(4);
        Frame f = segment(s, seq, payload, 0x10);
        if (seq == s.seq)
            s.seq += (uint32_t)payload;
        switch (random.below(40)) {
        case 0:
            put16(&f[20], 0x2000);
            break;
        case 1:
            f[47] |= 0x20;
            put16(&f[52], random.below(65536));
            break;
        case 2:
            f.resize(f.size() + 1 + random.below(50)); // padded
            break;
        case 3:
            f[14] = 0x46;
            break;
        case 4:
            f[46] = (uint8_t)(random.below(5) << 4);
            break;
        case 5:
            f.resize(f.size() - random.below((uint32_t)f.size() - 20));
            break;
        case 6:
            f[23] = 17;
            break;
        default:
            make_sums(&f);
        }
        return f;
    }

    Frame draw()
    {
        uint32_t sort = random.below(30);
        if (sort < 2 || streams.empty()) {
            Stream &s = open_stream();
            Frame syn = segment(s, s.seq++, 0, 2);
            make_sums(&syn);
            return syn;
        }
        if (sort < 4) {
            Frame noise(15 + random.below(300));
            for (uint8_t &byte : noise)
                byte = (uint8_t)random.below(256);
            return noise;
        }
        return data_frame();
    }

    bool sound(const Frame &f)
    {
        return is_marked(f, soft.set.tos) && f.size() == be16(&f[16]) + (size_t)ETH &&
               ip_sum(f) == 0xffff && tcp_sum(f) == 0xffff;
    }

    void put(const Frame &f)
    {
        Frame want = soft.code(f);
        // The link takes damage to marked segments; a host must be able to see it.
        Frame link = want;
        bool harm = random.below(10) == 0 && sound(want) && has_data(want);
        if (harm && want != f && be16(&want[52]) > 1 && random.below(3) == 0)
            put16(&link[52], 1); // an end long before the payload's
        else if (harm)
            link[34 + random.below((uint32_t)link.size() - 34)] ^= (uint8_t)(1u << random.below(8));
        damaged += harm;
        nic.tx.put(f);
        tx_want.push_back(want);
        frames++;
        coded += want != f;
        nic.rx.put(link);
        Frame back = soft.decode(link);
        if (back.empty()) {
            forgotten++;
            return;
        }
        if (harm && back != link)
            back.clear(); // decoded: any bytes that a host refuses
        rx_want.push_back(back);
    }

    void check()
    {
        for (; !nic.tx.got.empty() && !tx_want.empty(); tx_want.pop_front()) {
            if (nic.tx.got.front() != tx_want.front())
                complain("to the link: not what the software engine makes");
            nic.tx.got.pop_front();
        }
        for (; !nic.rx.got.empty() && !rx_want.empty(); rx_want.pop_front()) {
            const Frame &got = nic.rx.got.front(), &want = rx_want.front();
            if (want.empty() ? sound(got) : got != want)
                complain(want.empty() ? "damage went unseen"
                                      : "from the link: not what the software engine makes");
            nic.rx.got.pop_front();
        }
    }

    void pace()
    {
        for (uint32_t *percent : {&nic.tx.in.gap_percent, &nic.rx.in.gap_percent,
                                  &nic.tx.out.wait_percent, &nic.rx.out.wait_percent})
            *percent = random.below(3) * random.below(45);
    }

    void drain()
    {
        uint64_t limit = nic.cycles + 100000;
        while ((!tx_want.empty() || !rx_want.empty()) && nic.cycles < limit && wrong == 0) {
            nic.cycle();
            check();
        }
        for (int i = 0; i < 200; i++)
            nic.cycle();
        if (!tx_want.empty() || !rx_want.empty())
            complain("nothing comes any more");
        if (!nic.tx.got.empty() || !nic.rx.got.empty())
            complain("a frame that nobody sent");
    }

    // One rule and one degree of back-pressure.
    void round(uint64_t goal)
    {
        soft.set = {6 + 2 * random.below(3), (int)random.below(2),
                    (uint8_t)(random.below(2) ? 0x28 : 4 * random.below(64)), 4 * random.below(60)};
        nic.set(soft.set);
        streams.clear();
        pace();
        for (uint64_t end = frames + goal; frames < end && wrong == 0;) {
            while (nic.tx.in.queue.size() < 600 || nic.rx.in.queue.size() < 600)
                put(draw());
            nic.cycle();
            check();
        }
        drain();
    }

    // Too long for the store: gone, counted, and the next one is there.
    void oversize()
    {
        for (size_t bytes : {32 * NIC_DEPTH - 32, 32 * NIC_DEPTH - 31, 40000}) {
            Frame f(bytes, 0x55);
            nic.tx.put(f);
            if (bytes > 32 * NIC_DEPTH - 32)
                lost++;
            else
                tx_want.push_back(f);
            put(Frame(60, 0x11));
            frames += 1;
        }
        drain();
    }

    // Cycles from one full segment to the next, nobody waiting; marked or passing.
    uint64_t pace_of(uint8_t tos)
    {
        enum { RUN = 50, FULL = 1448 };
        Stream &s = open_stream();
        s.tos = tos;
        soft.set.skip = 0;
        nic.set(soft.set);
        for (NicPort *port : {&nic.tx, &nic.rx})
            port->in.gap_percent = port->out.wait_percent = 0;
        Frame syn = segment(s, s.seq++, 0, 2);
        make_sums(&syn);
        put(syn);
        drain();
        for (int i = 0; i < RUN; i++, s.seq += FULL) {
            Frame f = segment(s, s.seq, FULL, 0x10);
            f[46] = 8 << 4; // timestamps: a head of 66 bytes
            f.resize(66 + FULL);
            put16(&f[16], (uint32_t)f.size() - ETH);
            make_sums(&f);
            nic.tx.put(f);
            tx_want.push_back(soft.code(f));
            coded += tx_want.back() != f;
            frames++;
        }
        uint64_t begin = 0;
        for (uint64_t out = 0; out < RUN; nic.cycle()) {
            for (; !nic.tx.got.empty(); nic.tx.got.pop_front(), tx_want.pop_front()) {
                if (nic.tx.got.front() != tx_want.front())
                    complain("a full segment");
                if (out++ == 0)
                    begin = nic.cycles;
            }
        }
        return (nic.cycles - begin) / (RUN - 1);
    }

    // Registers of the connection that began last: nothing of it was under way when it began, so
    // its counters are exact, and nothing is left of the one whose place it took.
    void count_newest()
    {
        for (const auto &[key, flow] : soft.flows) {
            if (flow.age + 1 != soft.born)
                continue;
            uint32_t at = 0x400 + 64 * (flow.age % NIC_FLOWS), words[3];
            memcpy(words, key.data(), sizeof words);
            bool same = nic.read(at) == 1;
            for (uint32_t i = 0; i < 3; i++)
                same &= nic.read(at + 4 + 4 * i) == words[i];
            for (uint32_t i = 0; i < 6; i++)
                same &= nic.read(at + 16 + 4 * i) == flow.counts[i];
            if (!same)
                complain("the newest flow's registers");
        }
    }

    // Registers: settings read back, and frames are all accounted for.
    void count()
    {
        uint32_t per_flow = 0;
        for (uint32_t flow = 0; flow < NIC_FLOWS; flow++) {
            uint32_t at = 0x400 + 64 * flow, packets = nic.read(at + 16);
            uint32_t before = nic.read(at + 20), after = nic.read(at + 24);
            uint32_t one = nic.read(at + 28), two = nic.read(at + 32), four = nic.read(at + 36);
            per_flow += packets;
            uint32_t words = after - one - 2 * two - 4 * four; // the rest are tag words
            if (words % 2 != 0 || words / 2 < before / 32 || words / 2 > before / 32 + packets)
                complain("a flow's counters do not add up");
        }
        if (nic.read(0) != 0x31434853 || nic.read(0x10) != soft.set.skip ||
            nic.read(0x0c) != soft.set.tos || nic.read(0x1c) != 0)
            complain("registers");
        if (nic.read(0x20) != frames || nic.read(0x24) != coded || nic.read(0x2c) != lost ||
            per_flow > coded || nic.read(0x3c) != forgotten)
            complain("counters");
    }
};

} // namespace

int main(int argc, char **argv)
{
    uint64_t goal = argc > 1 ? strtoull(argv[1], nullptr, 10) : 20000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], nullptr, 10) : 1;
    Bench bench(seed);
    while (bench.frames < goal && bench.wrong == 0)
        bench.round(400);
    if (bench.wrong == 0)
        bench.oversize();
    uint64_t coded_cycles = 0, passing_cycles = 0;
    if (bench.wrong == 0) {
        coded_cycles = bench.pace_of(bench.soft.set.tos);
        passing_cycles = bench.pace_of(bench.soft.set.tos ^ 4);
        bench.count_newest();
        bench.count();
    }
    bench.wrong += bench.nic.tx.out.broken + bench.nic.rx.out.broken;
    printf("{\"frames\": %llu, \"coded\": %llu, \"damaged\": %llu, \"cycles\": %llu, "
           "\"cycles_per_coded_segment\": %llu, \"cycles_per_passing_segment\": %llu, "
           "\"wrong\": %llu, \"seed\": %llu}\n",
           (unsigned long long)bench.frames, (unsigned long long)bench.coded,
           (unsigned long long)bench.damaged, (unsigned long long)bench.nic.cycles,
           (unsigned long long)coded_cycles, (unsigned long long)passing_cycles,
           (unsigned long long)bench.wrong, (unsigned long long)seed);
    return bench.wrong == 0 ? 0 : 1;
}
