/* SPDX-License-Identifier: Apache-2.0 */
#include "nn/fixed_text.h"

#include <inttypes.h>

static const unsigned char runtime[] = {
#include "fixed_runtime.inc"
};

enum { NUMBERS_PER_LINE = 16 };

/* ---------------------------------------------------------------- code */

static const char head[] =
    "/* %s: %s\n"
    " * in fixed point of %" PRIu32
    " bits. Include it in one source file; nothing else is needed.\n"
    " *\n"
    " *     static int32_t words[%s_WORDS(frames)];\n"
    " *     static int16_t halves[%s_HALVES(frames)];\n"
    " *     %s_reset(words, halves);\n"
    " *     %s_run(x, frames, y, words, halves);\n"
    " *\n"
    " * x: int16_t[frames][%s_IN] with %s_IN_FRAC fraction bits; y: int16_t[frames][%s_OUT] with\n"
    " * %s_OUT_FRAC. A model without frames has one. All words have %" PRIu32
    " bits, sign included.\n"
    " * Where memory is tight, keep a compiler from making calls of loops:\n"
    " * -fno-tree-loop-distribute-patterns. */\n";

static void write_macros(FILE *to, const shoali_fixed_model *m, const char *name, uint32_t frames)
{
    uint64_t words = 0, halves = 0, more_words = 0, more_halves = 0;
    shoali_fixed_sizes(&m->net, 0, &words, &halves);
    shoali_fixed_sizes(&m->net, 1, &more_words, &more_halves);
    fprintf(to, "#define %s_BITS %" PRIu32 "\n#define %s_FRAMES %" PRIu32 "\n", name, m->net.bits,
            name, frames);
    fprintf(to, "#define %s_IN %" PRIu32 "\n#define %s_OUT %" PRIu32 "\n", name, m->in, name,
            m->out);
    fprintf(to, "#define %s_IN_FRAC %u\n#define %s_OUT_FRAC %u\n", name, m->in_frac, name,
            m->out_frac);
    fprintf(to, "#define %s_WORDS(frames) %" PRIu64 "\n", name, words > 0 ? words : 1);
    fprintf(to, "#define %s_HALVES(frames) (%" PRIu64 " + %" PRIu64 " * (frames))\n\n", name,
            halves, more_halves - halves);
}

void shoali_fixed_write_code(FILE *to, const shoali_fixed_model *m, const char *name,
                             const char *about, uint32_t frames)
{
    fprintf(to, head, name, about, m->net.bits, name, name, name, name, name, name, name, name,
            m->net.bits);
    fprintf(to, "#ifndef SHOAL_%s_H\n#define SHOAL_%s_H\n\n", name, name);
    fputs("#ifndef SHOAL_FIXED_RUNTIME\n#define SHOAL_FIXED_RUNTIME\n"
          "#define SHOALI_FIXED_API static inline\n#define SHOALI_FIXED_TABLE static\n\n",
          to);
    fwrite(runtime, 1, sizeof runtime, to);
    fprintf(to, "\n#endif\n\n#include \"%s_weights.h\"\n\n", name);
    write_macros(to, m, name, frames);
    fprintf(to,
            "static inline void %s_reset(int32_t *words, int16_t *halves)\n{\n"
            "    shoali_fixed_reset(&%s_net, words, halves);\n}\n\n",
            name, name);
    fprintf(to,
            "static inline void %s_run(const int16_t *x, uint32_t frames, int16_t *y, int32_t "
            "*words, int16_t *halves)\n{\n"
            "    shoali_fixed_run(&%s_net, x, frames, y, words, halves);\n}\n\n#endif\n",
            name, name);
}

/* ---------------------------------------------------------------- tables */

/* Tables are numbered in the order in which the net names them. */
typedef struct writer {
    FILE *to;
    const char *name;
    unsigned next;
    bool tables; /* else the structs that refer to them */
} writer;

static void words(writer *w, const char *field, const int16_t *values, size_t count)
{
    if (count == 0 || values == NULL)
        return;
    const unsigned number = w->next++;
    if (!w->tables) {
        fprintf(w->to, ".%s = %s_t%u, ", field, w->name, number);
        return;
    }
    fprintf(w->to, "static const int16_t %s_t%u[%zu] = {", w->name, number, count);
    for (size_t i = 0; i < count; i++)
        fprintf(w->to, "%s%d,", i % NUMBERS_PER_LINE == 0 ? "\n    " : " ", values[i]);
    fputs("\n};\n", w->to);
}

static void matrix(writer *w, const char *field, const shoali_fixed_matrix *m)
{
    if (m->rows == 0)
        return;
    if (!w->tables)
        fprintf(w->to,
                "\n     .%s = {.rows = %" PRIu32 ", .cols = %" PRIu32 ", .block = %" PRIu32 ", ",
                field, m->rows, m->cols, m->block);
    words(w, "w", m->w, shoali_fixed_weights(m));
    if (w->tables)
        return;
    fputs(".shift = {", w->to);
    for (uint32_t bin = 0; bin <= m->block / 2; bin++)
        fprintf(w->to, "%s%u", bin > 0 ? ", " : "", m->shift[bin]);
    fputs("}},", w->to);
}

static void cells(writer *w, const shoali_fixed_layer *layer, const shoali_fixed_cells *l)
{
    const bool gru = layer->kind == SHOALI_FIXED_GRU;
    if (!w->tables)
        fprintf(w->to, "{.count = %" PRIu32 ", .peephole_shift = %u, ", l->count,
                l->peephole_shift);
    matrix(w, "x", &l->x);
    matrix(w, "r", &l->r);
    matrix(w, "p", &l->p);
    words(w, "bias", l->bias, (gru ? 3 : 4) * (size_t)l->count);
    words(w, "peephole", l->peephole, 3 * (size_t)l->count);
    if (!w->tables)
        fputs("}, ", w->to);
}

static void window(const writer *w, const shoali_fixed_window *of)
{
    if (w->tables || of->kernel == 0)
        return;
    fprintf(w->to,
            "\n     .window = {.channels = %" PRIu32 ", .height = %" PRIu32 ", .width = %" PRIu32
            ", .out_height = %" PRIu32 ", .out_width = %" PRIu32 ", .kernel = %" PRIu32
            ", .stride = %" PRIu32 ", .pad = %" PRIu32 "},",
            of->channels, of->height, of->width, of->out_height, of->out_width, of->kernel,
            of->stride, of->pad);
}

static void layer_text(writer *w, const shoali_fixed_layer *layer)
{
    const bool with_cells = layer->kind == SHOALI_FIXED_LSTM || layer->kind == SHOALI_FIXED_GRU;
    if (!w->tables)
        fprintf(w->to,
                "    {.kind = %u, .in = %" PRIu32 ", .out = %" PRIu32
                ", .in_frac = %u, .out_frac = %u, .directions = %u, .reverse = %u, .concat = %u, "
                ".sigmoid = %u, ",
                layer->kind, layer->in, layer->out, layer->in_frac, layer->out_frac,
                layer->directions, layer->reverse, layer->concat, layer->sigmoid);
    window(w, &layer->window);
    matrix(w, "matrix", &layer->matrix);
    words(w, "bias", layer->bias, layer->matrix.rows);
    if (with_cells && !w->tables)
        fputs("\n     .cells = {", w->to);
    for (uint32_t d = 0; with_cells && d < layer->directions; d++)
        cells(w, layer, &layer->cells[d]);
    if (with_cells && !w->tables)
        fputs("}", w->to);
    if (!w->tables)
        fputs("},\n", w->to);
}

void shoali_fixed_write_weights(FILE *to, const shoali_fixed_model *m, const char *name)
{
    writer w = {.to = to, .name = name, .tables = true};
    fprintf(to, "/* Tables of %s.h, which includes them: spectra [p][slot][q], biases. */\n", name);
    for (uint32_t i = 0; i < m->net.count; i++)
        layer_text(&w, &m->layers[i]);
    w.tables = false;
    w.next = 0;
    fprintf(to, "static const shoali_fixed_layer %s_layers[%" PRIu32 "] = {\n", name, m->net.count);
    for (uint32_t i = 0; i < m->net.count; i++)
        layer_text(&w, &m->layers[i]);
    fprintf(to,
            "};\nstatic const shoali_fixed_net %s_net = {%" PRIu32 ", %" PRIu32 ", %s_layers};\n",
            name, m->net.bits, m->net.count, name);
}
