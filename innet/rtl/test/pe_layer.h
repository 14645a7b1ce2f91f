/* SPDX-License-Identifier: Apache-2.0 */
/* Exported nets on benches (pe_net.h): layers without memory through a verilated pe_layer, files of
 * samples, the best of some scores. */
#ifndef SHOALI_RTL_PE_LAYER_H
#define SHOALI_RTL_PE_LAYER_H

#include <cstdlib>
#include <string>

#include "pe_golden.h"
#include "pe_net.h"

using Words = std::vector<int16_t>;

inline std::vector<uint8_t> read_file(const std::string &path, size_t header)
{
    FILE *file = fopen(path.c_str(), "rb");
    if (file == nullptr) {
        fprintf(stderr, "cannot read %s\n", path.c_str());
        exit(2);
    }
    std::vector<uint8_t> bytes;
    uint8_t block[1 << 16];
    for (size_t n; (n = fread(block, 1, sizeof block, file)) > 0;)
        bytes.insert(bytes.end(), block, block + n);
    fclose(file);
    bytes.erase(bytes.begin(), bytes.begin() + (ptrdiff_t)header);
    return bytes;
}

/** One layer on all samples. */
template <class Device, uint32_t BLOCK> struct Engine {
    Device top;
    uint64_t cycles = 0;

    void edge()
    {
        clock_edge(&top, &cycles);
    }
    void begin(const shoali_fixed_layer &layer, bool relu)
    {
        const shoali_fixed_matrix &m = layer.matrix;
        top.clk = top.load_start = top.load_valid = top.s_valid = top.m_ready = 0;
        top.rst = 1;
        top.rows = (uint16_t)((m.rows + BLOCK - 1) / BLOCK);
        top.cols = (uint16_t)((m.cols + BLOCK - 1) / BLOCK);
        top.relu = relu;
        for (uint32_t bin = 0; bin <= BLOCK / 2; bin++)
            set_field(&top.shifts, 6 * bin, 6, m.shift[bin]);
        edge();
        top.rst = 0;
        top.load_what = 0;
        load_words(&top, &cycles, W, m.w, (size_t)top.rows * top.cols * BLOCK);
        Words bias(layer.out);
        if (layer.bias != nullptr)
            bias.assign(layer.bias, layer.bias + layer.out);
        top.load_what = 1;
        load_words(&top, &cycles, W, bias.data(), bias.size());
    }
    std::vector<Words> run(const shoali_fixed_layer &layer, bool relu,
                           const std::vector<Words> &samples)
    {
        std::vector<Words> results(1);
        size_t sample = 0, block = 0;
        begin(layer, relu);
        top.m_ready = 1;
        for (uint64_t idle = 0; results.size() <= samples.size() && idle < 100000; idle++) {
            top.s_valid = sample < samples.size();
            for (uint32_t t = 0; top.s_valid && t < BLOCK; t++) {
                const size_t i = block * BLOCK + t;
                set_field(&top.s_x, t * W, W, i < layer.in ? samples[sample][i] : 0);
            }
            top.eval();
            if (top.m_valid) {
                for (uint32_t t = 0; t < BLOCK && results.back().size() < layer.out; t++)
                    results.back().push_back((int16_t)field(top.m_y, t * W, W));
                if (top.m_last)
                    results.emplace_back();
                idle = 0;
            }
            const bool taken = top.s_valid && top.s_ready;
            edge();
            if (taken && ++block == top.cols) {
                block = 0;
                sample++;
            }
        }
        results.resize(samples.size());
        return results;
    }
};

inline size_t best(const Words &scores)
{
    size_t at = 0;
    for (size_t i = 1; i < scores.size(); i++)
        at = scores[i] > scores[at] ? i : at;
    return at;
}

#endif
