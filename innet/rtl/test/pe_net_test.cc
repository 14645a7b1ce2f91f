// SPDX-License-Identifier: Apache-2.0
// A trained net without memory, layer by layer through verilated processing elements, against the
// exported C, sample by sample.
//
//   pe_net_test DIGITS [SAMPLES]      a folder of shoal data digits
//
// The net is what `shoal export` wrote; its words are loaded as they are. Blocks of K = 8 and of 1
// (whole matrices) run in an engine each. Prints right answers of the hardware and of the C.
#include <cmath>
#include <memory>

#include "Vpe1.h"
#include "Vpe8.h"
#include "pe_layer.h"

namespace {

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
           (unsigned long long)wrong, (unsigned long long)(engine8->cycles + engine1->cycles));
    return wrong == 0 ? 0 : 1;
}
