// SPDX-License-Identifier: Apache-2.0
// A trained net of characters (one-hot, lstm or gru, dense in each frame) on its test split, in
// hardware, against the exported C, frame by frame.
//
//   pe_text_test DIR [SEQUENCES]      a folder of shoal data text
//
// FLIGHT sequences take turns in the verilated cells; their h goes through a verilated pe_layer.
// Compared are each h with the library's step and each frame's scores with the exported net's.
#include <cstring>

#include "Vpe1.h"
#include "pe_cell.h"
#include "pe_layer.h"

namespace {

/** test.shoalseq of tokens, data/sequence.h. */
struct Text {
    std::vector<std::vector<uint32_t>> tokens, labels;

    explicit Text(const std::string &folder)
    {
        const std::vector<uint8_t> file = read_file(folder + "/test.shoalseq", 0);
        const uint32_t count = word(file, 24);
        std::vector<uint32_t> lengths;
        for (uint32_t i = 0; i < count; i++)
            lengths.push_back(word(file, 40 + 4 * (size_t)i));
        size_t at = 40 + 4 * (size_t)count;
        for (uint32_t length : lengths) {
            labels.emplace_back();
            for (uint32_t i = 0; i < length; i++, at += 2)
                labels.back().push_back(word(file, at) & 0xffff);
        }
        for (uint32_t length : lengths) {
            tokens.emplace_back();
            for (uint32_t i = 0; i < length; i++, at += 4) {
                float token = 0;
                memcpy(&token, &file.at(at + 3) - 3, sizeof token);
                tokens.back().push_back((uint32_t)token);
            }
        }
    }
    static uint32_t word(const std::vector<uint8_t> &file, size_t at)
    {
        uint32_t v = 0;
        for (size_t i = 0; i < 4 && at + i < file.size(); i++)
            v |= (uint32_t)file[at + i] << 8 * i;
        return v;
    }
};

/** Which frame of which sequence a turn of the hardware was; none: to fill it. */
struct Turn {
    size_t sequence, frame;
    bool real;
};

std::vector<Turn> take_turns(const Text &text)
{
    std::vector<Turn> turns;
    size_t next = 0, busy = 0;
    Turn slots[FLIGHT] = {};
    do {
        busy = 0;
        for (Turn &slot : slots) {
            if (slot.real && ++slot.frame == text.tokens[slot.sequence].size())
                slot.real = false;
            if (!slot.real && next < text.tokens.size())
                slot = {next++, 0, true};
            turns.push_back(slot);
            busy += slot.real;
        }
    } while (busy > 0);
    return turns;
}

bool fits(const shoali_fixed_net &net)
{
    const shoali_fixed_layer *l = net.layers;
    return net.count == 3 && l[0].kind == SHOALI_FIXED_ONEHOT && l[0].out == IN &&
           l[1].kind == (GRU ? SHOALI_FIXED_GRU : SHOALI_FIXED_LSTM) && l[1].directions == 1 &&
           l[1].out == OUT && l[1].cells[0].count == CELLS && l[1].cells[0].x.block == K &&
           l[1].cells[0].r.block == K && (l[1].cells[0].peephole != nullptr) == PEEP &&
           l[2].kind == SHOALI_FIXED_MATRIX && l[2].matrix.block == 1;
}

} // namespace

int main(int argc, char **argv)
{
    const auto *net = static_cast<const shoali_fixed_net *>(pe_net());
    if (!fits(*net)) {
        fprintf(stderr, "pe_text_test: the net is not what the hardware was built for\n");
        return 2;
    }
    Text text(argc > 1 ? argv[1] : ".");
    if (argc > 2 && strtoul(argv[2], nullptr, 10) < text.tokens.size())
        text.tokens.resize(strtoul(argv[2], nullptr, 10));
    const shoali_fixed_layer &cells = net->layers[1];
    const std::vector<Turn> turns = take_turns(text);
    CellBench bench(1);
    Sequence states[FLIGHT];
    bench.load(cells.cells[0]);
    for (size_t i = 0; i < turns.size(); i++) {
        Frame frame;
        frame.x.resize(IN);
        frame.fresh = turns[i].frame == 0;
        if (turns[i].real)
            frame.x[text.tokens[turns[i].sequence][turns[i].frame]] = (int16_t)(1 << net->layers[0]
                                                                                         .out_frac);
        states[i % FLIGHT].step(cells.cells[0], cells.sigmoid, &frame);
        bench.add(frame);
    }
    bench.drain(100000);

    std::vector<Words> h;
    for (size_t i = 0; i + OUT <= bench.h.size(); i += OUT)
        h.emplace_back(bench.h.begin() + (ptrdiff_t)i, bench.h.begin() + (ptrdiff_t)(i + OUT));
    Engine<Vpe1, 1> last;
    const std::vector<Words> scores = last.run(net->layers[2], false, h);

    uint64_t wrong = bench.wrong, right = 0, right_c = 0, frames = 0;
    std::vector<std::vector<size_t>> turn_of(text.tokens.size());
    for (size_t i = 0; i < turns.size(); i++)
        if (turns[i].real)
            turn_of[turns[i].sequence].push_back(i);
    for (size_t s = 0; s < text.tokens.size(); s++)
        for (size_t i = 0; i < text.tokens[s].size(); i++, frames++) {
            const size_t turn = turn_of[s][i];
            const int16_t token = (int16_t)text.tokens[s][i];
            Words y(net->layers[2].out);
            pe_net_run(&token, y.data(), i == 0);
            if (turn >= scores.size() || scores[turn] != y) {
                wrong++;
                continue;
            }
            right += best(scores[turn]) == text.labels[s][i];
            right_c += best(y) == text.labels[s][i];
        }
    printf("{\"cells\": \"%s\", \"w\": %d, \"sequences\": %zu, \"frames\": %llu, "
           "\"right\": %llu, \"right_in_c\": %llu, \"wrong\": %llu, \"cycles\": %llu}\n",
           GRU ? "gru" : "lstm", W, text.tokens.size(), (unsigned long long)frames,
           (unsigned long long)right, (unsigned long long)right_c, (unsigned long long)wrong,
           (unsigned long long)(bench.cycles + last.cycles));
    return wrong == 0 ? 0 : 1;
}
