// SPDX-License-Identifier: Apache-2.0
// Cycles that compressor and decompressor take per burst of 8 floats, with a source that always
// offers and a sink that is always ready.
//
//   rate_test [GRADIENTS.safetensors ...]   float32 tensors, as shoal train --dump-gradients writes
//
// Data: floats that cost nothing, floats that cost all (34 bytes for 32), and the recorded ones,
// each in packets of a 1500-byte Ethernet frame (360 floats) and of 8192 floats, at bound 2^-10,
// strict. Prints one line of JSON.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "Vcodec_top.h"
#include "golden.h"
#include "stream.h"

namespace {

constexpr uint32_t K = 10;
constexpr int STRICT = 1;

struct Figures {
    double mean = 0, worst = 0; // cycles per burst of floats, of all and of the worst packet
    uint64_t latency = 0;       // from the first burst taken to the first offered
    double ratio = 0;
};

struct Engine {
    Vcodec_top top;
    bool compress;
    uint64_t cycles = 0;

    explicit Engine(bool compress_) : compress(compress_)
    {
        top.bound = (K - 6) / 2;
        top.strict = STRICT;
        top.rst = 1;
        for (int i = 0; i < 4; i++)
            edge();
        top.rst = 0;
        top.c_m_tready = top.d_m_tready = 1;
    }

    void edge()
    {
        clock_edge(&top, &cycles);
    }

    void offer(const Burst *b)
    {
        top.c_s_tvalid = compress && b != nullptr;
        top.d_s_tvalid = !compress && b != nullptr;
        if (b != nullptr) {
            memcpy(compress ? &top.c_s_tdata[0] : &top.d_s_tdata[0], b->data, BURST_BYTES);
            top.c_s_tkeep = top.d_s_tkeep = b->keep;
            top.c_s_tlast = top.d_s_tlast = b->last;
            top.d_s_floats = (uint16_t)b->user;
        }
        top.eval();
    }

    // Packets one after the other; a packet's cycles end as the next one's first burst is taken, so
    // the last one has none.
    Figures run(const std::vector<float> &floats, size_t per_packet)
    {
        std::deque<Burst> in;
        std::vector<double> bursts; // of floats in each packet
        Figures f;
        size_t coded_bytes = 0;
        for (size_t at = 0; at < floats.size(); at += per_packet) {
            size_t n = std::min(per_packet, floats.size() - at);
            std::vector<uint8_t> coded(5 * n + 2);
            size_t len = golden_encode(K, STRICT, &floats[at], n, coded.data());
            coded_bytes += len;
            if (compress)
                cut_bursts((const uint8_t *)&floats[at], 4 * n, 0, &in);
            else
                cut_bursts(coded.data(), len, (uint32_t)n, &in);
            bursts.push_back((double)((n + 7) / 8));
        }
        f.ratio = 4.0 * (double)floats.size() / (double)coded_bytes;
        uint64_t begin = cycles, packet_begin = cycles, first_out = 0;
        double counted = 0; // bursts of floats in the packets before the last
        size_t started = 0, ended = 0;
        bool fresh = true;
        while (ended < bursts.size() && cycles < begin + 100 * floats.size() + 1000) {
            offer(in.empty() ? nullptr : &in.front());
            bool taken = !in.empty() && (compress ? top.c_s_tready : top.d_s_tready);
            bool out = compress ? top.c_m_tvalid : top.d_m_tvalid;
            ended += out && (compress ? top.c_m_tlast : top.d_m_tlast);
            if (out && first_out == 0)
                first_out = cycles;
            if (taken && fresh) {
                if (started > 0) {
                    double n = bursts[started - 1], took = (double)(cycles - packet_begin);
                    f.worst = std::max(f.worst, took / n);
                    f.mean += took;
                    counted += n;
                }
                packet_begin = cycles;
                started++;
            }
            if (taken) {
                fresh = in.front().last;
                in.pop_front();
            }
            edge();
        }
        f.latency = first_out - begin;
        f.mean /= counted;
        return f;
    }
};

std::vector<float> read_tensors(const char *path)
{
    std::vector<float> floats;
    uint64_t header = 0;
    FILE *file = fopen(path, "rb");
    if (file == nullptr || fread(&header, sizeof header, 1, file) != 1 || header > 1 << 20 ||
        fseek(file, (long)header, SEEK_CUR) != 0) {
        fprintf(stderr, "rate_test: cannot read %s\n", path);
        exit(2);
    }
    float block[4096];
    for (size_t n; (n = fread(block, sizeof *block, 4096, file)) > 0;)
        floats.insert(floats.end(), block, block + n);
    fclose(file);
    return floats;
}

} // namespace

int main(int argc, char **argv)
{
    struct Data {
        std::string name;
        std::vector<float> floats;
    };
    std::vector<Data> data = {{"zeros", std::vector<float>(360 * 400, 0.0f)},
                              {"incompressible", std::vector<float>(360 * 400, 1.5f)}};
    std::vector<float> recorded;
    for (int i = 1; i < argc; i++) {
        std::vector<float> more = read_tensors(argv[i]);
        recorded.insert(recorded.end(), more.begin(), more.end());
    }
    if (!recorded.empty())
        data.push_back({"recorded", recorded});
    printf("{");
    for (bool compress : {true, false}) {
        uint64_t latency = 0;
        printf("%s\"%s\": {\"data\": {", compress ? "" : ", ",
               compress ? "compress" : "decompress");
        const char *comma = "";
        for (const Data &d : data)
            for (size_t per_packet : {360, 8192}) {
                Figures f = Engine(compress).run(d.floats, per_packet);
                if (d.name == "incompressible") // whose first burst in is enough for one out
                    latency = std::max(latency, f.latency);
                printf("%s\"%s, %zu\": {\"cycles_per_burst\": %.5f, \"worst\": %.5f, "
                       "\"ratio\": %.3f, \"floats\": %zu}",
                       comma, d.name.c_str(), per_packet, f.mean, f.worst, f.ratio,
                       d.floats.size());
                comma = ", ";
            }
        printf("}, \"latency\": %llu}", (unsigned long long)latency);
    }
    printf("}\n");
    return 0;
}
