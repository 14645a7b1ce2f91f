// SPDX-License-Identifier: Apache-2.0
// A trained net without memory, layer by layer through verilated processing elements, against the
// exported C, sample by sample.
//
//   pe_net_test DIGITS [SAMPLES]      a folder of shoal data digits
//
// The net is what `shoal export` wrote; its words are loaded as they are. Blocks of K = 8 and of 1
// (whole matrices) run in an engine each. Prints right answers of the hardware and of the C.
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>

#include "Vpe1.h"
#include "Vpe8.h"
#include "pe_golden.h"
#include "pe_net.h"

namespace {

using Words = std::vector<int16_t>;
uint64_t cycles = 0;

std::vector<uint8_t> read_file(const std::string &path, size_t header)
{
    FILE *file = fopen(path.c_str(), "rb");
    if (file == nullptr) {
        fprintf(stderr, "pe_net_test: cannot read %s\n", path.c_str());
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

/** Pixels as the library's loader gives them: mean 0, deviation 1 over the train split. */
std::vector<Words> normalised(const std::vector<uint8_t> &train, const std::vector<uint8_t> &test,
                              size_t in, unsigned frac)
{
    uint64_t sum = 0, squares = 0;
    for (uint8_t v : train) {
        sum += v;
        squares += (uint64_t)v * v;
    }
    const double values = (double)train.size(), mean = (double)sum / values;
    const double variance = (double)squares / values - mean * mean;
    const float inverse = (float)(255.0 / sqrt(variance));
    const float scale = inverse / 255.0f, shift = -(float)(mean / 255.0) * inverse;
    std::vector<Words> samples;
    for (size_t at = 0; at + in <= test.size(); at += in) {
        Words words(in);
        for (size_t i = 0; i < in; i++) {
            const float x = (float)test[at + i] * scale + shift;
            const double v = floor(ldexp((double)x, (int)frac) + 0.5);
            words[i] = (int16_t)shoali_fixed_sat((int64_t)v, W);
        }
        samples.push_back(words);
    }
    return samples;
}

/** One layer on all samples. */
template <class Device, uint32_t K> struct Engine {
    Device top;

    void edge()
    {
        top.clk = 1;
        top.eval();
        top.clk = 0;
        top.eval();
        cycles++;
    }
    void load(int what, const int16_t *words, size_t count)
    {
        top.load_start = 1;
        top.load_what = (uint8_t)what;
        edge();
        top.load_start = 0;
        top.load_valid = 1;
        for (size_t i = 0; i < count; i++) {
            set_field(&top.load_word, 0, W, words[i]);
            edge();
        }
        top.load_valid = 0;
    }
    void begin(const shoali_fixed_layer &layer, bool relu)
    {
        const shoali_fixed_matrix &m = layer.matrix;
        top.clk = top.load_start = top.load_valid = top.s_valid = top.m_ready = 0;
        top.rst = 1;
        top.rows = (uint16_t)((m.rows + K - 1) / K);
        top.cols = (uint16_t)((m.cols + K - 1) / K);
        top.relu = relu;
        for (uint32_t bin = 0; bin <= K / 2; bin++)
            set_field(&top.shifts, 6 * bin, 6, m.shift[bin]);
        edge();
        top.rst = 0;
        load(0, m.w, (size_t)top.rows * top.cols * K);
        Words bias(layer.out);
        if (layer.bias != nullptr)
            bias.assign(layer.bias, layer.bias + layer.out);
        load(1, bias.data(), bias.size());
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
            for (uint32_t t = 0; top.s_valid && t < K; t++) {
                const size_t i = block * K + t;
                set_field(&top.s_x, t * W, W, i < layer.in ? samples[sample][i] : 0);
            }
            top.eval();
            if (top.m_valid) {
                for (uint32_t t = 0; t < K && results.back().size() < layer.out; t++)
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

size_t best(const Words &scores)
{
    size_t at = 0;
    for (size_t i = 1; i < scores.size(); i++)
        at = scores[i] > scores[at] ? i : at;
    return at;
}

} // namespace

int main(int argc, char **argv)
{
    const auto *net = static_cast<const shoali_fixed_net *>(pe_net());
    const std::string folder = argc > 1 ? argv[1] : ".";
    const size_t most = argc > 2 ? strtoul(argv[2], nullptr, 10) : 1000000;
    std::vector<Words> x = normalised(read_file(folder + "/train-images-idx3-ubyte", 16),
                                      read_file(folder + "/t10k-images-idx3-ubyte", 16),
                                      net->layers[0].in, pe_net_in_frac());
    const std::vector<uint8_t> labels = read_file(folder + "/t10k-labels-idx1-ubyte", 8);
    x.resize(x.size() < most ? x.size() : most);
    const std::vector<Words> input = x;
    auto engine8 = std::make_unique<Engine<Vpe8, 8>>();
    auto engine1 = std::make_unique<Engine<Vpe1, 1>>();
    for (uint32_t i = 0; i < net->count; i++) {
        const shoali_fixed_layer &layer = net->layers[i];
        const bool relu = i + 1 < net->count && net->layers[i + 1].kind == SHOALI_FIXED_RELU;
        if (layer.kind != SHOALI_FIXED_MATRIX ||
            (layer.matrix.block != 8 && layer.matrix.block != 1)) {
            fprintf(stderr, "pe_net_test: layer %u is none of blocks of 8 or 1\n", i);
            return 2;
        }
        x = layer.matrix.block == 8 ? engine8->run(layer, relu, x) : engine1->run(layer, relu, x);
        i += relu;
    }
    uint64_t wrong = 0, right = 0, right_c = 0;
    for (size_t n = 0; n < input.size(); n++) {
        Words y(net->layers[net->count - 1].out);
        pe_net_run(input[n].data(), y.data(), 1);
        wrong += y != x[n];
        right += best(x[n]) == labels[n];
        right_c += best(y) == labels[n];
    }
    printf("{\"w\": %d, \"samples\": %zu, \"right\": %llu, \"right_in_c\": %llu, \"wrong\": %llu, "
           "\"cycles\": %llu}\n",
           W, input.size(), (unsigned long long)right, (unsigned long long)right_c,
           (unsigned long long)wrong, (unsigned long long)cycles);
    return wrong == 0 ? 0 : 1;
}
