/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of svmlight into the files of pairs.h. Classes are the numbers in the texts, in their
 * order; classes.txt names them, a line each. The file that says that a data set is there comes
 * last. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/new_file.h"
#include "base/rng.h"
#include "data/pairs.h"
#include "data/svmlight_text.h"
#include "shoal/data.h"

enum { PATH_BYTES = 4096 };

typedef struct maker {
    shoal_svmlight_desc desc;
    shoali_svmlight texts[2]; /* with one alone the second is empty */
    int64_t *classes;         /* [class_count], ascending */
    uint32_t class_count;
    uint32_t *order;        /* [texts[0].count] where one is divided: tests first */
    shoali_pairs splits[2]; /* training, tests */
} maker;

/* ------------------------------------------------------------------ classes */

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static uint32_t class_of(const maker *m, int64_t label)
{
    const int64_t *found = bsearch(&label, m->classes, m->class_count, sizeof label, by_number);
    return found != NULL ? (uint32_t)(found - m->classes) : UINT32_MAX;
}

static shoal_status find_classes(maker *m)
{
    const shoali_svmlight *t = &m->texts[0], *tests = &m->texts[1];
    m->classes = shoali_alloc_array(t->count, sizeof *m->classes);
    if (m->classes == NULL)
        return SHOAL_ENOMEM;
    memcpy(m->classes, t->labels, t->count * sizeof *m->classes);
    qsort(m->classes, t->count, sizeof *m->classes, by_number);
    for (uint32_t i = 0; i < t->count; i++)
        if (i == 0 || m->classes[i] != m->classes[m->class_count - 1])
            m->classes[m->class_count++] = m->classes[i];
    if (m->class_count < 2 || m->class_count > SHOALI_DATA_CLASSES_MAX)
        return shoali_fail(SHOAL_ECORRUPT, "%s has samples of %u classes; there must be 2 to %d",
                           m->desc.from, m->class_count, SHOALI_DATA_CLASSES_MAX);
    for (uint32_t i = 0; i < tests->count; i++)
        if (class_of(m, tests->labels[i]) == UINT32_MAX)
            return shoali_fail(SHOAL_ECORRUPT, "%s has class %" PRId64 ", which %s has not",
                               m->desc.test_from, tests->labels[i], m->desc.from);
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ which are tests */

typedef struct drawn {
    uint32_t class, sample;
    uint64_t by;
} drawn;

static int by_class_and_chance(const void *a, const void *b)
{
    const drawn *x = a, *y = b;
    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    if (x->by != y->by)
        return x->by < y->by ? -1 : 1;
    return (x->sample > y->sample) - (x->sample < y->sample);
}

/* The same share of each class, rounded; a class keeps one to train on. */
static uint32_t mark_tests(const maker *m, const drawn *all, uint8_t *is_test)
{
    const uint32_t count = m->texts[0].count;
    uint32_t tests = 0;
    for (uint32_t first = 0, end; first < count; first = end) {
        for (end = first; end < count && all[end].class == all[first].class;)
            end++;
        const uint32_t take = (uint32_t)(m->desc.test * (end - first) + 0.5);
        for (uint32_t i = first; i < first + take && i + 1 < end; i++) {
            is_test[all[i].sample] = 1;
            tests++;
        }
    }
    return tests;
}

/* order: tests, then what is left, each as in the text. */
static shoal_status divide(maker *m, uint32_t *tests_out)
{
    const uint32_t count = m->texts[0].count;
    drawn *all = shoali_alloc_array(count, sizeof *all);
    uint8_t *is_test = shoali_alloc(count);
    m->order = shoali_alloc_array(count, sizeof *m->order);
    shoal_status status = all != NULL && is_test != NULL && m->order != NULL ? SHOAL_OK
                                                                             : SHOAL_ENOMEM;
    for (uint32_t i = 0; status == SHOAL_OK && i < count; i++)
        all[i] = (drawn){class_of(m, m->texts[0].labels[i]), i,
                         shoali_rng_u64(m->desc.seed, 0x73766d6c, i)}; /* "svml" */
    if (status == SHOAL_OK) {
        qsort(all, count, sizeof *all, by_class_and_chance);
        *tests_out = mark_tests(m, all, is_test);
        for (uint32_t i = 0, test = 0, left = *tests_out; i < count; i++)
            m->order[is_test[i] ? test++ : left++] = i;
        if (*tests_out == 0)
            status = shoali_fail(SHOAL_EINVAL,
                                 "%s has %u samples, of which no test would be left at a share of "
                                 "%g; name tests by --test-from",
                                 m->desc.from, count, m->desc.test);
    }
    shoali_free(all);
    shoali_free(is_test);
    return status;
}

/* ------------------------------------------------------------------ files */

/* Samples order[0 .. count) of a text, all of them in its order if order is NULL. */
static shoal_status gather(const maker *m, const shoali_svmlight *t, const uint32_t *order,
                           uint32_t count, shoali_pairs *out)
{
    uint64_t pairs = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t n = order != NULL ? order[i] : i;
        pairs += t->starts[n + 1] - t->starts[n];
    }
    out->starts = shoali_alloc_array(count + (size_t)1, sizeof *out->starts);
    out->labels = shoali_alloc_array(count, sizeof *out->labels);
    out->pairs = shoali_alloc_array(2 * pairs + 1, sizeof *out->pairs);
    if (out->starts == NULL || out->labels == NULL || out->pairs == NULL)
        return shoali_fail(SHOAL_ENOMEM, "no memory for %u samples", count);
    out->features = m->desc.vocab;
    out->classes = m->class_count;
    out->count = count;
    out->starts[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t n = order != NULL ? order[i] : i;
        const uint64_t first = t->starts[n], most = t->starts[n + 1] - first;
        memcpy(out->pairs + 2 * out->starts[i], t->pairs + 2 * first,
               2 * most * sizeof *out->pairs);
        out->starts[i + 1] = out->starts[i] + most;
        out->labels[i] = (uint16_t)class_of(m, t->labels[n]);
        out->most = out->most > most ? out->most : (uint32_t)most;
    }
    return SHOAL_OK;
}

static shoal_status path_of(const maker *m, const char *name, char path[PATH_BYTES])
{
    const int length = snprintf(path, PATH_BYTES, "%s/%s", m->desc.dir, name);
    return length > 0 && length < PATH_BYTES
               ? SHOAL_OK
               : shoali_fail(SHOAL_EINVAL, "the path %.40s... is too long", m->desc.dir);
}

static shoal_status write_classes(const maker *m)
{
    char path[PATH_BYTES];
    shoali_new_file out;
    SHOALI_TRY(path_of(m, "classes.txt", path));
    SHOALI_TRY(shoali_new_file_open(path, &out));
    for (uint32_t c = 0; c < m->class_count; c++)
        (void)fprintf(out.file, "%" PRId64 "\n", m->classes[c]);
    return shoali_new_file_commit(&out);
}

static shoal_status write_all(const maker *m)
{
    char path[PATH_BYTES];
    if (mkdir(m->desc.dir, 0777) != 0 && errno != EEXIST)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot make the directory %s", m->desc.dir);
    SHOALI_TRY(write_classes(m));
    SHOALI_TRY(path_of(m, "test.pairs", path));
    SHOALI_TRY(shoali_pairs_write(path, &m->splits[1]));
    SHOALI_TRY(path_of(m, "train.pairs", path));
    return shoali_pairs_write(path, &m->splits[0]);
}

/* ------------------------------------------------------------------ making */

static shoal_status take_desc(const shoal_svmlight_desc *desc, maker *m)
{
    if (desc == NULL || desc->size != sizeof *desc || desc->dir == NULL || desc->from == NULL)
        return shoali_fail(SHOAL_EINVAL, "svmlight data need a text to read and a directory");
    m->desc = *desc;
    m->desc.seed = desc->seed != 0 ? desc->seed : 1;
    if (desc->test != 0 && desc->test_from != NULL)
        return shoali_fail(SHOAL_EINVAL, "a share for tests, where %s are the tests: leave one out",
                           desc->test_from);
    m->desc.test = desc->test != 0 ? desc->test : 0.1;
    if (!(m->desc.test > 0 && m->desc.test < 1) || desc->vocab > SHOALI_PAIRS_FEATURES_MAX)
        return shoali_fail(SHOAL_EINVAL, "a share of %g for tests, %u features (at most %d)",
                           m->desc.test, desc->vocab, SHOALI_PAIRS_FEATURES_MAX);
    return SHOAL_OK;
}

static shoal_status count_features(maker *m)
{
    const uint32_t a = m->texts[0].features, b = m->texts[1].features, most = a > b ? a : b;
    if (most == 0)
        return shoali_fail(SHOAL_ECORRUPT, "no sample in %s has a feature", m->desc.from);
    if (m->desc.vocab != 0 && most > m->desc.vocab)
        return shoali_fail(SHOAL_EINVAL, "there are %u features, more than the %u that were said",
                           most, m->desc.vocab);
    m->desc.vocab = m->desc.vocab != 0 ? m->desc.vocab : most;
    return SHOAL_OK;
}

static shoal_status make(maker *m, shoal_svmlight_info *info)
{
    const shoal_svmlight_desc *d = &m->desc;
    uint32_t tests = 0;
    SHOALI_TRY(shoali_svmlight_read(d->from, d->zero_based, &m->texts[0]));
    if (d->test_from != NULL)
        SHOALI_TRY(shoali_svmlight_read(d->test_from, d->zero_based, &m->texts[1]));
    SHOALI_TRY(count_features(m));
    SHOALI_TRY(find_classes(m));
    if (d->test_from == NULL)
        SHOALI_TRY(divide(m, &tests));
    SHOALI_TRY(gather(m, &m->texts[0], m->order != NULL ? m->order + tests : NULL,
                      m->texts[0].count - tests, &m->splits[0]));
    SHOALI_TRY(m->order != NULL ? gather(m, &m->texts[0], m->order, tests, &m->splits[1])
                                : gather(m, &m->texts[1], NULL, m->texts[1].count, &m->splits[1]));
    *info = (shoal_svmlight_info){.size = sizeof *info,
                                  .train = m->splits[0].count,
                                  .test = m->splits[1].count,
                                  .vocab = m->desc.vocab,
                                  .classes = m->class_count};
    for (int s = 0; s < 2; s++) {
        info->pairs += m->splits[s].starts[m->splits[s].count];
        info->most = info->most > m->splits[s].most ? info->most : m->splits[s].most;
    }
    return write_all(m);
}

shoal_status shoal_svmlight_make(const shoal_svmlight_desc *desc, shoal_svmlight_info *info_out)
{
    maker m = {0};
    SHOALI_TRY(take_desc(desc, &m));
    const shoal_status status = make(&m, info_out);
    for (int s = 0; s < 2; s++) {
        shoali_svmlight_free(&m.texts[s]);
        shoali_free(m.splits[s].starts);
        shoali_free(m.splits[s].labels);
        shoali_free(m.splits[s].pairs);
    }
    shoali_free(m.classes);
    shoali_free(m.order);
    return status;
}
