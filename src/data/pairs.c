/* SPDX-License-Identifier: Apache-2.0 */
#include "data/pairs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/new_file.h"
#include "data/input.h"

enum { HEAD_BYTES = 32 };
static const char magic[8] = {'S', 'H', 'O', 'A', 'L', 'P', 'R', 'S'};

/* ------------------------------------------------------------------ files */

static void put_head(const shoali_pairs *p, uint8_t head[HEAD_BYTES])
{
    const uint64_t all = p->starts[p->count];
    memcpy(head, magic, sizeof magic);
    shoali_put_word(head + 8, 1);
    shoali_put_word(head + 12, p->features);
    shoali_put_word(head + 16, p->classes);
    shoali_put_word(head + 20, p->count);
    shoali_put_word(head + 24, (uint32_t)all);
    shoali_put_word(head + 28, (uint32_t)(all >> 32));
}

shoal_status shoali_pairs_write(const char *path, const shoali_pairs *p)
{
    shoali_new_file out;
    uint8_t head[HEAD_BYTES];
    put_head(p, head);
    SHOALI_TRY(shoali_new_file_open(path, &out));
    (void)fwrite(head, 1, sizeof head, out.file);
    (void)fwrite(p->labels, sizeof *p->labels, p->count, out.file);
    for (uint32_t n = 0; n < p->count; n++) {
        const uint32_t count = (uint32_t)(p->starts[n + 1] - p->starts[n]);
        (void)fwrite(&count, sizeof count, 1, out.file);
    }
    for (uint64_t i = 0; i < p->starts[p->count]; i++) {
        const uint32_t feature = (uint32_t)p->pairs[2 * i];
        (void)fwrite(&feature, sizeof feature, 1, out.file);
    }
    for (uint64_t i = 0; i < p->starts[p->count]; i++)
        (void)fwrite(&p->pairs[2 * i + 1], sizeof *p->pairs, 1, out.file);
    return shoali_new_file_commit(&out); /* says what went wrong on the way */
}

static shoal_status read_head(shoali_input *in, shoali_pairs *p, uint64_t *all_out)
{
    uint8_t head[HEAD_BYTES];
    SHOALI_TRY(shoali_input_read(in, head, sizeof head));
    if (memcmp(head, magic, sizeof magic) != 0)
        return shoali_input_corrupt(in, 0, "no sparse samples: it does not start with SHOALPRS");
    if (shoali_word(head + 8) != 1)
        return shoali_input_corrupt(in, 8, "version %u; this program reads 1",
                                    shoali_word(head + 8));
    *p = (shoali_pairs){.features = shoali_word(head + 12),
                        .classes = shoali_word(head + 16),
                        .count = shoali_word(head + 20)};
    *all_out = shoali_word(head + 24) | (uint64_t)shoali_word(head + 28) << 32;
    if (p->features == 0 || p->features > SHOALI_PAIRS_FEATURES_MAX || p->classes == 0 ||
        p->classes > SHOALI_DATA_CLASSES_MAX || p->count == 0 ||
        *all_out > (uint64_t)p->count * SHOALI_PAIRS_MOST)
        return shoali_input_corrupt(in, 12, "%u features, %u classes, %u samples, %llu pairs",
                                    p->features, p->classes, p->count,
                                    (unsigned long long)*all_out);
    return shoali_input_expect(in, 6 * (uint64_t)p->count + 8 * *all_out);
}

/* counts: as in the file. */
static shoal_status sum_counts(const shoali_input *in, const uint32_t *counts, uint64_t all,
                               shoali_pairs *p)
{
    for (uint32_t n = 0; n < p->count; n++) {
        if (p->labels[n] >= p->classes)
            return shoali_input_corrupt(in, HEAD_BYTES + 2 * (uint64_t)n, "class %u of %u",
                                        p->labels[n], p->classes);
        if (counts[n] > SHOALI_PAIRS_MOST || counts[n] > all - p->starts[n])
            return shoali_input_corrupt(in, HEAD_BYTES + 2 * (uint64_t)p->count + 4 * (uint64_t)n,
                                        "sample %u has %u pairs, there are %llu of it and all "
                                        "behind it",
                                        n, counts[n], (unsigned long long)(all - p->starts[n]));
        p->starts[n + 1] = p->starts[n] + counts[n];
        p->most = p->most > counts[n] ? p->most : counts[n];
    }
    if (p->starts[p->count] != all)
        return shoali_input_corrupt(in, 24, "%llu pairs, the samples have %llu",
                                    (unsigned long long)all,
                                    (unsigned long long)p->starts[p->count]);
    return SHOAL_OK;
}

/* words: a value per pair, as in the file: features, or bits of values. */
static shoal_status take_words(const shoali_input *in, const uint32_t *words, bool values,
                               shoali_pairs *p)
{
    const uint64_t first = in->offset - 4 * p->starts[p->count];
    for (uint32_t n = 0; n < p->count; n++)
        for (uint64_t i = p->starts[n]; i < p->starts[n + 1]; i++) {
            float value;
            memcpy(&value, &words[i], sizeof value);
            if (values ? !isfinite(value)
                       : words[i] >= p->features || (i > p->starts[n] && words[i] <= words[i - 1]))
                return shoali_input_corrupt(
                    in, first + 4 * i, "sample %u: %s", n,
                    values ? "a value that is no number"
                           : "its features do not ascend, or are more than there are");
            p->pairs[2 * i + values] = values ? value : (float)words[i];
        }
    return SHOAL_OK;
}

static shoal_status read_all(shoali_input *in, shoal_arena *arena, shoali_pairs *p)
{
    uint64_t all;
    SHOALI_TRY(read_head(in, p, &all));
    const size_t room = all > p->count ? (size_t)all : p->count;
    uint32_t *words = shoali_arena_array(arena, room, sizeof *words);
    p->labels = shoali_arena_array(arena, p->count, sizeof *p->labels);
    p->starts = shoali_arena_array(arena, p->count + (size_t)1, sizeof *p->starts);
    p->pairs = shoali_arena_array(arena, 2 * (size_t)all + 1, sizeof *p->pairs);
    if (words == NULL || p->labels == NULL || p->starts == NULL || p->pairs == NULL)
        return SHOAL_ENOMEM;
    p->starts[0] = 0;
    SHOALI_TRY(shoali_input_read(in, p->labels, p->count * sizeof *p->labels));
    SHOALI_TRY(shoali_input_read(in, words, p->count * sizeof *words));
    SHOALI_TRY(sum_counts(in, words, all, p));
    SHOALI_TRY(shoali_input_read(in, words, all * sizeof *words));
    SHOALI_TRY(take_words(in, words, false, p));
    SHOALI_TRY(shoali_input_read(in, words, all * sizeof *words));
    SHOALI_TRY(take_words(in, words, true, p));
    return shoali_input_end(in);
}

shoal_status shoali_pairs_read(const char *dir, const char *name, shoal_arena *arena,
                               shoali_pairs *pairs_out)
{
    shoali_input in;
    const char *path = shoali_data_path(arena, dir, name);
    if (path == NULL)
        return shoal_last_error()->status;
    SHOALI_TRY(shoali_input_open(path, &in));
    shoal_status status = read_all(&in, arena, pairs_out);
    shoali_input_close(&in);
    return status;
}

/* ------------------------------------------------------------------ as a data set */

static shoali_split split_of(const shoali_pairs *p)
{
    return (shoali_split){
        .labels = p->labels, .count = p->count, .frames = p->pairs, .starts = p->starts};
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static shoal_status load_pairs(const char *dir, shoali_dataset *d)
{
    shoali_pairs train = {0}, test = {0};
    SHOALI_TRY(shoali_pairs_read(dir, "train.pairs", d->arena, &train));
    SHOALI_TRY(shoali_pairs_read(dir, "test.pairs", d->arena, &test));
    d->pairs = true;
    d->channels = 1;
    d->height = larger(1, larger(train.most, test.most));
    d->width = 2;
    d->classes = larger(train.classes, test.classes);
    d->ids = larger(train.features, test.features);
    d->train = split_of(&train);
    d->test = split_of(&test);
    return SHOAL_OK;
}

const shoali_loader_row shoali_loader_pairs = {
    .name = "pairs",
    .help = "train.pairs and test.pairs, plain or .gz (docs/sparse.md)",
    .probe = "train.pairs",
    .load = load_pairs,
};
