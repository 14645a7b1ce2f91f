/* SPDX-License-Identifier: Apache-2.0 */
#include "data/sequence.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/new_file.h"
#include "data/input.h"

enum { HEAD_BYTES = 40 };
static const char magic[8] = {'S', 'H', 'O', 'A', 'L', 'S', 'E', 'Q'};

/* ---------------------------------------------------------------- reading */

static shoal_status check_head(const shoali_input *in, const uint8_t *head, shoali_sequences *s)
{
    if (memcmp(head, magic, sizeof magic) != 0)
        return shoali_input_corrupt(in, 0, "no file of sequences: it does not start with SHOALSEQ");
    if (shoali_word(head + 8) != 1)
        return shoali_input_corrupt(in, 8, "version %u; this program reads 1",
                                    shoali_word(head + 8));
    uint32_t kind = shoali_word(head + 12);
    *s = (shoali_sequences){.values = shoali_word(head + 16),
                            .classes = shoali_word(head + 20),
                            .count = shoali_word(head + 24),
                            .tokens = kind == 1,
                            .frames = shoali_word(head + 32) | (uint64_t)shoali_word(head + 36)
                                                                   << 32};
    if (kind > 1 || s->values == 0 || s->values > SHOALI_SEQUENCE_VALUES_MAX || s->classes == 0 ||
        s->classes > SHOALI_DATA_CLASSES_MAX || s->count == 0 || s->frames < s->count)
        return shoali_input_corrupt(
            in, 12, "kind %u, %u values, %u classes, %u sequences of %llu frames", kind, s->values,
            s->classes, s->count, (unsigned long long)s->frames);
    if (s->frames > UINT64_C(1) << 40)
        return shoali_input_corrupt(in, 32, "%llu frames", (unsigned long long)s->frames);
    return shoali_input_expect(in,
                               4 * (uint64_t)s->count + (2 + 4 * (uint64_t)s->values) * s->frames);
}

static shoal_status check_lengths(const shoali_input *in, const shoali_sequences *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->lengths[i] == 0 || s->lengths[i] > SHOALI_SEQUENCE_FRAMES_MAX)
            return shoali_input_corrupt(in, HEAD_BYTES + 4 * (uint64_t)i,
                                        "sequence %u has %u frames; it must be 1 .. %d", i,
                                        s->lengths[i], SHOALI_SEQUENCE_FRAMES_MAX);
        sum += s->lengths[i];
    }
    if (sum != s->frames)
        return shoali_input_corrupt(in, HEAD_BYTES, "sequences of %llu frames, %llu are announced",
                                    (unsigned long long)sum, (unsigned long long)s->frames);
    return SHOAL_OK;
}

static shoal_status check_values(const shoali_input *in, const shoali_sequences *s)
{
    uint64_t labels_at = HEAD_BYTES + 4 * (uint64_t)s->count, values_at = labels_at + 2 * s->frames;
    for (uint64_t t = 0; t < s->frames; t++)
        if (s->labels[t] >= s->classes)
            return shoali_input_corrupt(in, labels_at + 2 * t, "class %u of %u", s->labels[t],
                                        s->classes);
    for (uint64_t i = 0; i < s->frames * s->values; i++)
        if (!isfinite(s->x[i]))
            return shoali_input_corrupt(in, values_at + 4 * i, "a value that is not finite");
    return SHOAL_OK;
}

/* Files are little-endian, as are the machines that this is built for. */
static shoal_status read_body(shoali_input *in, shoal_arena *arena, shoali_sequences *s)
{
    uint8_t head[HEAD_BYTES];
    SHOALI_TRY(shoali_input_read(in, head, sizeof head));
    SHOALI_TRY(check_head(in, head, s));
    uint32_t *lengths = shoali_arena_array(arena, s->count, sizeof *lengths);
    uint16_t *labels = shoali_arena_array(arena, (size_t)s->frames, sizeof *labels);
    float *x = shoali_arena_array(arena, (size_t)s->frames * s->values, sizeof *x);
    if (lengths == NULL || labels == NULL || x == NULL)
        return SHOAL_ENOMEM;
    s->lengths = lengths;
    s->labels = labels;
    s->x = x;
    SHOALI_TRY(shoali_input_read(in, lengths, s->count * sizeof *lengths));
    SHOALI_TRY(check_lengths(in, s));
    SHOALI_TRY(shoali_input_read(in, labels, (size_t)s->frames * sizeof *labels));
    SHOALI_TRY(shoali_input_read(in, x, (size_t)s->frames * s->values * sizeof *x));
    SHOALI_TRY(check_values(in, s));
    return shoali_input_end(in);
}

static shoal_status read_file(const char *dir, const char *name, shoal_arena *arena,
                              shoali_sequences *s)
{
    shoali_input in;
    const char *path = shoali_data_path(arena, dir, name);
    if (path == NULL)
        return shoal_last_error()->status;
    SHOALI_TRY(shoali_input_open(path, &in));
    shoal_status status = read_body(&in, arena, s);
    shoali_input_close(&in);
    return status;
}

/* ---------------------------------------------------------------- as a data set */

static void normalise(const shoali_sequences *s, const double *mean, const double *scale)
{
    float *x = (float *)(uintptr_t)s->x; /* nobody else has seen them yet */
    for (uint64_t t = 0; t < s->frames; t++, x += s->values)
        for (uint32_t v = 0; v < s->values; v++)
            x[v] = (float)((x[v] - mean[v]) * scale[v]);
}

static shoal_status normalise_both(shoal_arena *arena, const shoali_sequences *train,
                                   const shoali_sequences *test)
{
    double *mean = shoali_arena_array(arena, train->values, sizeof *mean);
    double *scale = shoali_arena_array(arena, train->values, sizeof *scale);
    if (mean == NULL || scale == NULL)
        return SHOAL_ENOMEM;
    for (uint64_t i = 0; i < train->frames * train->values; i++)
        mean[i % train->values] += (double)train->x[i] / (double)train->frames;
    for (uint64_t i = 0; i < train->frames * train->values; i++) {
        double off = (double)train->x[i] - mean[i % train->values];
        scale[i % train->values] += off * off / (double)train->frames;
    }
    for (uint32_t v = 0; v < train->values; v++)
        scale[v] = scale[v] > 0 ? 1 / sqrt(scale[v]) : 1;
    normalise(train, mean, scale);
    normalise(test, mean, scale);
    return SHOAL_OK;
}

static shoal_status make_split(shoali_dataset *d, const shoali_sequences *s, shoali_split *split)
{
    uint64_t *starts = shoali_arena_array(d->arena, (size_t)s->count + 1, sizeof *starts);
    if (starts == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < s->count; i++) {
        starts[i + 1] = starts[i] + s->lengths[i];
        d->height = s->lengths[i] > d->height ? s->lengths[i] : d->height;
    }
    *split = (shoali_split){
        .labels = s->labels, .count = s->count, .starts = starts, .frames = s->x};
    return SHOAL_OK;
}

shoal_status shoali_sequences_use(shoali_dataset *dataset, const shoali_sequences *train,
                                  const shoali_sequences *test)
{
    if (train->values != test->values || train->tokens != test->tokens)
        return shoali_fail(SHOAL_ECORRUPT,
                           "frames to train on have %u values, those of the test %u", train->values,
                           test->values);
    if (!train->tokens)
        SHOALI_TRY(normalise_both(dataset->arena, train, test));
    dataset->channels = 1;
    dataset->height = 0;
    dataset->width = train->values;
    dataset->classes = train->classes > test->classes ? train->classes : test->classes;
    dataset->sequences = true;
    dataset->tokens = train->tokens;
    SHOALI_TRY(make_split(dataset, train, &dataset->train));
    return make_split(dataset, test, &dataset->test);
}

static shoal_status load_sequence(const char *dir, shoali_dataset *dataset)
{
    shoali_sequences train = {0}, test = {0};
    SHOALI_TRY(read_file(dir, "train.shoalseq", dataset->arena, &train));
    SHOALI_TRY(read_file(dir, "test.shoalseq", dataset->arena, &test));
    return shoali_sequences_use(dataset, &train, &test);
}

const shoali_loader_row shoali_loader_sequence = {
    .name = "sequence",
    .help = "train.shoalseq and test.shoalseq, plain or .gz (docs/sequence-models.md)",
    .probe = "train.shoalseq",
    .load = load_sequence,
};

void shoali_dataset_fill_sequences(const shoali_dataset *dataset, const shoali_split *split,
                                   const uint32_t *indices, uint32_t count, uint32_t frames,
                                   float *x_out, uint32_t *labels_out, uint32_t *lengths_out)
{
    size_t values = dataset->width;
    if (split->stream != NULL) {
        shoali_dataset_fill_tokens(dataset, split, indices, count, frames, x_out, labels_out,
                                   lengths_out);
        return;
    }
    for (uint32_t n = 0; n < count; n++, x_out += frames * values, labels_out += frames) {
        uint64_t start = split->starts[indices[n]];
        uint32_t length = (uint32_t)(split->starts[indices[n] + 1] - start);
        memcpy(x_out, split->frames + start * values, length * values * sizeof *x_out);
        memset(x_out + length * values, 0, (frames - length) * values * sizeof *x_out);
        for (uint32_t t = 0; t < length; t++)
            labels_out[t] = split->labels[start + t];
        lengths_out[n] = length;
    }
}

/* ---------------------------------------------------------------- writing */

shoal_status shoali_sequences_write(const char *path, const shoali_sequences *s)
{
    shoali_new_file out;
    uint8_t head[HEAD_BYTES] = {0};
    memcpy(head, magic, sizeof magic);
    shoali_put_word(head + 8, 1);
    shoali_put_word(head + 12, s->tokens);
    shoali_put_word(head + 16, s->values);
    shoali_put_word(head + 20, s->classes);
    shoali_put_word(head + 24, s->count);
    shoali_put_word(head + 32, (uint32_t)s->frames);
    shoali_put_word(head + 36, (uint32_t)(s->frames >> 32));
    SHOALI_TRY(shoali_new_file_open(path, &out));
    (void)fwrite(head, 1, sizeof head, out.file);
    (void)fwrite(s->lengths, sizeof *s->lengths, s->count, out.file);
    (void)fwrite(s->labels, sizeof *s->labels, (size_t)s->frames, out.file);
    (void)fwrite(s->x, sizeof *s->x * s->values, (size_t)s->frames, out.file);
    return shoali_new_file_commit(&out); /* says what went wrong on the way */
}
