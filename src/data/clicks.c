/* SPDX-License-Identifier: Apache-2.0 */
/* Click logs in files, and made ones.
 *
 * A made log has fields of very different size, as Criteo's has: the first has 4 ids, the last the
 * larger part of the vocabulary. Ids of a field are drawn by a Zipf law and numbered from the most
 * to the least frequent, as vocabularies made by counting are. What decides a click is a weight per
 * id, and one per pair of ids in neighbouring fields, through a logistic function: so there is
 * something to learn for embeddings that a table of means would not know. */
#include "data/clicks.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/new_file.h"
#include "base/rng.h"
#include "data/input.h"
#include "shoal/data.h"

enum { HEAD_BYTES = 24, PATH_BYTES = 4096, SMALLEST_FIELD = 4 };
static const char magic[8] = {'S', 'H', 'O', 'A', 'L', 'C', 'L', 'K'};

/* ------------------------------------------------------------------ files */

shoal_status shoali_clicks_write(const char *path, const shoali_clicks *c)
{
    shoali_new_file out;
    uint8_t head[HEAD_BYTES];
    memcpy(head, magic, sizeof magic);
    shoali_put_word(head + 8, 1);
    shoali_put_word(head + 12, c->fields);
    shoali_put_word(head + 16, c->vocab);
    shoali_put_word(head + 20, c->count);
    SHOALI_TRY(shoali_new_file_open(path, &out));
    (void)fwrite(head, 1, sizeof head, out.file);
    (void)fwrite(c->clicks, 1, c->count, out.file);
    (void)fwrite(c->ids, sizeof *c->ids * c->fields, c->count, out.file);
    return shoali_new_file_commit(&out); /* says what went wrong on the way */
}

static shoal_status check_values(const shoali_input *in, const shoali_clicks *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->clicks[i] > 1)
            return shoali_input_corrupt(in, HEAD_BYTES + (uint64_t)i,
                                        "sample %u has %u clicks; it must be 0 or 1", i,
                                        c->clicks[i]);
    for (uint64_t i = 0; i < (uint64_t)c->count * c->fields; i++)
        if (c->ids[i] >= c->vocab)
            return shoali_input_corrupt(in, HEAD_BYTES + c->count + 4 * i,
                                        "id %u of a vocabulary of %u", c->ids[i], c->vocab);
    return SHOAL_OK;
}

static shoal_status read_all(shoali_input *in, shoal_arena *arena, shoali_clicks *c)
{
    uint8_t head[HEAD_BYTES];
    SHOALI_TRY(shoali_input_read(in, head, sizeof head));
    if (memcmp(head, magic, sizeof magic) != 0)
        return shoali_input_corrupt(in, 0, "no click log: it does not start with SHOALCLK");
    if (shoali_word(head + 8) != 1)
        return shoali_input_corrupt(in, 8, "version %u; this program reads 1",
                                    shoali_word(head + 8));
    *c = (shoali_clicks){.fields = shoali_word(head + 12),
                         .vocab = shoali_word(head + 16),
                         .count = shoali_word(head + 20)};
    if (c->fields == 0 || c->fields > SHOALI_CLICKS_FIELDS_MAX || c->vocab == 0 ||
        c->vocab > SHOALI_CLICKS_VOCAB_MAX || c->count == 0)
        return shoali_input_corrupt(in, 12, "%u fields, a vocabulary of %u, %u samples", c->fields,
                                    c->vocab, c->count);
    SHOALI_TRY(shoali_input_expect(in, c->count * (1 + 4 * (uint64_t)c->fields)));
    c->clicks = shoali_arena_alloc(arena, c->count);
    c->ids = shoali_arena_array(arena, (size_t)c->count * c->fields, sizeof *c->ids);
    if (c->clicks == NULL || c->ids == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(shoali_input_read(in, c->clicks, c->count));
    SHOALI_TRY(shoali_input_read(in, c->ids, (size_t)c->count * c->fields * sizeof *c->ids));
    SHOALI_TRY(check_values(in, c));
    return shoali_input_end(in);
}

shoal_status shoali_clicks_read(const char *dir, const char *name, shoal_arena *arena,
                                shoali_clicks *clicks_out)
{
    shoali_input in;
    const char *path = shoali_data_path(arena, dir, name);
    if (path == NULL)
        return shoal_last_error()->status;
    SHOALI_TRY(shoali_input_open(path, &in));
    shoal_status status = read_all(&in, arena, clicks_out);
    shoali_input_close(&in);
    return status;
}

/* ------------------------------------------------------------------ as a data set */

static shoal_status use(shoali_dataset *d, const shoali_clicks *c, shoali_split *split)
{
    const size_t values = (size_t)c->count * c->fields;
    float *ids = shoali_arena_array(d->arena, values, sizeof *ids);
    uint16_t *labels = shoali_arena_array(d->arena, c->count, sizeof *labels);
    if (ids == NULL || labels == NULL)
        return SHOAL_ENOMEM;
    for (size_t i = 0; i < values; i++)
        ids[i] = (float)c->ids[i];
    for (uint32_t i = 0; i < c->count; i++)
        labels[i] = c->clicks[i];
    *split = (shoali_split){.labels = labels, .count = c->count, .frames = ids};
    return SHOAL_OK;
}

static shoal_status load_clicks(const char *dir, shoali_dataset *d)
{
    shoali_clicks train = {0}, test = {0};
    SHOALI_TRY(shoali_clicks_read(dir, "train.clicks", d->arena, &train));
    SHOALI_TRY(shoali_clicks_read(dir, "test.clicks", d->arena, &test));
    if (train.fields != test.fields)
        return shoali_fail(SHOAL_ECORRUPT, "%u fields to train on, %u to test", train.fields,
                           test.fields);
    d->channels = 1;
    d->height = train.fields;
    d->width = 1;
    d->classes = 2;
    d->ids = train.vocab > test.vocab ? train.vocab : test.vocab;
    SHOALI_TRY(use(d, &train, &d->train));
    return use(d, &test, &d->test);
}

const shoali_loader_row shoali_loader_clicks = {
    .name = "clicks",
    .help = "train.clicks and test.clicks, plain or .gz (docs/sparse.md)",
    .probe = "train.clicks",
    .load = load_clicks,
};

/* ------------------------------------------------------------------ making */

typedef struct maker {
    shoal_clicks_desc desc;
    uint32_t first[SHOALI_CLICKS_FIELDS_MAX], size[SHOALI_CLICKS_FIELDS_MAX];
} maker;

/* Sizes of fields grow by a constant factor; the last one takes what is left. */
static shoal_status share_vocabulary(maker *m)
{
    const uint32_t fields = m->desc.fields, vocab = m->desc.vocab;
    double factor = 1, used = 0;
    for (double low = 1, high = vocab; high - low > 1e-9 * high;) {
        factor = (low + high) / 2;
        double sum = 0, size = SMALLEST_FIELD;
        for (uint32_t f = 0; f < fields && sum <= vocab; f++) {
            sum += size;
            size *= factor;
        }
        *(sum <= vocab ? &low : &high) = factor;
        if (high < 1 + 1e-12)
            break;
    }
    double size = SMALLEST_FIELD;
    for (uint32_t f = 0; f < fields; f++) {
        const double left = vocab - used, take = f + 1 == fields ? left : floor(size);
        if (take < 1 || take > left)
            return shoali_fail(SHOAL_EINVAL, "%u fields need a vocabulary of %u ids and more",
                               fields, SMALLEST_FIELD * fields);
        m->first[f] = (uint32_t)used;
        m->size[f] = (uint32_t)take;
        used += take;
        size *= factor;
    }
    return SHOAL_OK;
}

/* By the inverse of the continuous law with density x^-skew on [1, size + 1). */
static uint32_t draw_id(const maker *m, uint32_t field, double u)
{
    const double s = m->desc.skew, n = m->size[field];
    const double x = fabs(s - 1) < 1e-9 ? pow(n + 1, u)
                                        : pow(1 + u * (pow(n + 1, 1 - s) - 1), 1 / (1 - s));
    const double at = floor(x) - 1;
    return m->first[field] + (uint32_t)(at < 0 ? 0 : at >= n ? n - 1 : at);
}

static double weight_of(const maker *m, uint64_t what)
{
    return shoali_rng_normal(m->desc.seed, 0x636c6b77, what); /* "clkw" */
}

static void draw_sample(const maker *m, uint64_t serial, uint32_t *ids, uint8_t *click_out)
{
    const uint32_t fields = m->desc.fields;
    const uint64_t stream = shoali_mix(0x636c6963, serial); /* "clic" */
    double score = 0;
    for (uint32_t f = 0; f < fields; f++) {
        ids[f] = draw_id(m, f, shoali_rng_double(m->desc.seed, stream, f));
        score += weight_of(m, ids[f]);
        if (f > 0)
            score += 0.5 * weight_of(m, shoali_mix(ids[f - 1], ids[f]));
    }
    score = 2 * score / sqrt(1.25 * fields) - 1; /* a quarter or so are clicks */
    *click_out = shoali_rng_double(m->desc.seed, stream, fields) < 1 / (1 + exp(-score));
}

static shoal_status make_file(const maker *m, const char *name, uint64_t first_serial,
                              uint32_t count, uint64_t *clicks_out)
{
    char path[PATH_BYTES];
    const int length = snprintf(path, sizeof path, "%s/%s", m->desc.dir, name);
    if (length < 0 || length >= (int)sizeof path)
        return shoali_fail(SHOAL_EINVAL, "the path %.40s... is too long", m->desc.dir);
    shoal_arena *arena = shoali_arena_create(1 << 16);
    if (arena == NULL)
        return SHOAL_ENOMEM;
    shoali_clicks c = {m->desc.fields, m->desc.vocab, count, shoali_arena_alloc(arena, count),
                       shoali_arena_array(arena, (size_t)count * m->desc.fields, sizeof *c.ids)};
    shoal_status status = c.clicks != NULL && c.ids != NULL ? SHOAL_OK : SHOAL_ENOMEM;
    for (uint32_t i = 0; status == SHOAL_OK && i < count; i++) {
        draw_sample(m, first_serial + i, c.ids + (size_t)i * c.fields, &c.clicks[i]);
        *clicks_out += c.clicks[i];
    }
    if (status == SHOAL_OK)
        status = shoali_clicks_write(path, &c);
    shoali_arena_destroy(arena);
    return status;
}

static shoal_status take_desc(const shoal_clicks_desc *desc, maker *m)
{
    if (desc == NULL || desc->size != sizeof *desc || desc->dir == NULL)
        return shoali_fail(SHOAL_EINVAL, "no directory to make click logs in");
    m->desc = *desc;
    m->desc.seed = desc->seed != 0 ? desc->seed : 1;
    m->desc.train_count = desc->train_count != 0 ? desc->train_count : 200000;
    m->desc.test_count = desc->test_count != 0 ? desc->test_count : 20000;
    m->desc.fields = desc->fields != 0 ? desc->fields : 26;
    m->desc.vocab = desc->vocab != 0 ? desc->vocab : 262144;
    m->desc.skew = desc->skew > 0 ? desc->skew : 1.1;
    if (m->desc.fields > SHOALI_CLICKS_FIELDS_MAX || m->desc.vocab > SHOALI_CLICKS_VOCAB_MAX ||
        !(m->desc.skew <= 4))
        return shoali_fail(SHOAL_EINVAL, "%u fields (at most %d), %u ids (at most %d), skew %g",
                           m->desc.fields, SHOALI_CLICKS_FIELDS_MAX, m->desc.vocab,
                           SHOALI_CLICKS_VOCAB_MAX, m->desc.skew);
    return share_vocabulary(m);
}

shoal_status shoal_clicks_make(const shoal_clicks_desc *desc, shoal_clicks_info *info_out)
{
    maker m;
    uint64_t clicks = 0;
    SHOALI_TRY(take_desc(desc, &m));
    if (mkdir(m.desc.dir, 0777) != 0 && errno != EEXIST)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot make the directory %s", m.desc.dir);
    SHOALI_TRY(make_file(&m, "train.clicks", 0, m.desc.train_count, &clicks));
    SHOALI_TRY(make_file(&m, "test.clicks", (uint64_t)1 << 40, m.desc.test_count, &clicks));
    *info_out = (shoal_clicks_info){.size = sizeof *info_out,
                                    .samples = (uint64_t)m.desc.train_count + m.desc.test_count,
                                    .clicks = clicks,
                                    .fields = m.desc.fields,
                                    .vocab = m.desc.vocab};
    return SHOAL_OK;
}
