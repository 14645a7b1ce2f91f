/* SPDX-License-Identifier: Apache-2.0 */
#include "data/svmlight_text.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "data/input.h"
#include "data/pairs.h"

enum { LINE_BYTES = 1 << 22, SHOWN = 24 };

typedef struct reader {
    shoali_input in;
    shoali_svmlight *text;
    uint64_t line; /* from 1 */
    bool zero_based;
    char *bytes; /* [LINE_BYTES + 1] */
    size_t first, end;
} reader;

static shoal_status wrong(const reader *r, const char *format, ...) SHOAL_PRINTF(2, 3);
static shoal_status wrong(const reader *r, const char *format, ...)
{
    char reason[256];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return shoali_fail(SHOAL_ECORRUPT, "%s, line %llu: %s", r->in.path, (unsigned long long)r->line,
                       reason);
}

/* ------------------------------------------------------------------ what is kept */

static shoal_status grow(void **array, size_t *room, size_t needed, size_t size)
{
    if (needed <= *room)
        return SHOAL_OK;
    const size_t more = *room > 0 ? 2 * *room : 1024;
    void *grown = shoali_realloc(*array, *room * size, more * size);
    if (grown == NULL)
        return shoali_fail(SHOAL_ENOMEM, "no memory for %zu samples or features of them", more);
    *array = grown;
    *room = more;
    return SHOAL_OK;
}

/* Of labels and of starts, which have one more. */
static shoal_status add_sample(reader *r, int64_t label)
{
    shoali_svmlight *t = r->text;
    size_t room = t->label_room;
    void *labels = t->labels, *starts = t->starts;
    if (t->count == UINT32_MAX - 1)
        return wrong(r, "more than 2^32 - 2 samples");
    shoal_status status = grow(&labels, &room, (size_t)t->count + 2, sizeof *t->labels);
    t->labels = labels;
    if (status == SHOAL_OK && room != t->label_room)
        status = grow(&starts, &t->label_room, (size_t)t->count + 2, sizeof *t->starts);
    t->starts = starts;
    if (status != SHOAL_OK)
        return status;
    if (t->count == 0)
        t->starts[0] = 0;
    t->labels[t->count++] = label;
    t->starts[t->count] = t->starts[t->count - 1];
    return SHOAL_OK;
}

static shoal_status add_pair(reader *r, uint32_t feature, float value)
{
    shoali_svmlight *t = r->text;
    const uint64_t at = t->starts[t->count];
    void *pairs = t->pairs;
    shoal_status status = grow(&pairs, &t->pair_room, (size_t)at + 1, 2 * sizeof *t->pairs);
    t->pairs = pairs;
    if (status != SHOAL_OK)
        return status;
    t->pairs[2 * at] = (float)feature;
    t->pairs[2 * at + 1] = value;
    t->starts[t->count]++;
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ a line */

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

static size_t word_length(const char *at)
{
    return strcspn(at, " \t#");
}

static int shown(const char *at)
{
    const size_t length = word_length(at);
    return (int)(length < SHOWN ? length : SHOWN);
}

/* A number that begins here and not behind blanks; false: there is none. */
static bool read_real(const char *at, char **end, double *value_out)
{
    if (strchr("+-.0123456789", *at) == NULL || *at == '\0')
        return false;
    /* a constant of glibc: nothing to free */
    *value_out = strtod_l(at, end, newlocale(LC_ALL_MASK, "C", (locale_t)0));
    return *end != at;
}

static shoal_status read_label(const reader *r, const char **at, int64_t *label_out)
{
    char *end = NULL;
    double label = 0;
    const bool number = read_real(*at, &end, &label);
    if (number && *end == ',')
        return wrong(r, "'%.*s': several classes of a sample; there must be one", shown(*at), *at);
    if (!number || end != *at + word_length(*at))
        return wrong(r, "'%.*s' instead of a class, which is a whole number", shown(*at), *at);
    if (!(fabs(label) <= INT32_MAX) || label != floor(label))
        return wrong(r, "class %.*s is no whole number: targets of regression are not taken",
                     shown(*at), *at);
    *label_out = (int64_t)label;
    *at = end;
    return SHOAL_OK;
}

/* INDEX of INDEX:VALUE, as a feature from 0 on. */
static shoal_status read_index(const reader *r, const char *word, const char **at,
                               uint32_t *feature_out)
{
    uint64_t index = 0;
    const char *end = word;
    for (; *end >= '0' && *end <= '9' && end - word < 12; end++)
        index = 10 * index + (uint64_t)(*end - '0');
    if (end == word || *end != ':')
        return strncmp(word, "qid:", 4) == 0
                   ? wrong(r, "qid: ranking is not taken, each sample needs its own class")
                   : wrong(r, "'%.*s' instead of INDEX:VALUE", shown(word), word);
    if (index == 0 && !r->zero_based) {
        (void)wrong(r, "index 0, where indices begin at 1");
        shoali_error_advice("If they begin at 0 in this file, say so: --zero-based");
        return SHOAL_ECORRUPT;
    }
    index -= !r->zero_based;
    if (index >= SHOALI_PAIRS_FEATURES_MAX)
        return wrong(r, "index %.*s is too large: there may be %d features", (int)(end - word),
                     word, SHOALI_PAIRS_FEATURES_MAX);
    *feature_out = (uint32_t)index;
    *at = end + 1;
    return SHOAL_OK;
}

static shoal_status read_value(const reader *r, const char *word, const char **at, float *value_out)
{
    char *end = NULL;
    double value = 0;
    if (!read_real(*at, &end, &value) || end != word + word_length(word))
        return wrong(r, "'%.*s' instead of INDEX:VALUE", shown(word), word);
    *value_out = (float)value;
    if (!isfinite(*value_out))
        return wrong(r, "'%.*s': its value is no number of float32", shown(word), word);
    *at = end;
    return SHOAL_OK;
}

static shoal_status read_pairs(reader *r, const char *at)
{
    shoali_svmlight *t = r->text;
    int64_t last = -1;
    for (at = skip_blanks(at); *at != '\0' && *at != '#'; at = skip_blanks(at)) {
        const char *const word = at;
        uint32_t feature = 0;
        float value = 0;
        SHOALI_TRY(read_index(r, word, &at, &feature));
        SHOALI_TRY(read_value(r, word, &at, &value));
        if (feature <= last)
            return wrong(r, "'%.*s': indices of a sample must ascend", shown(word), word);
        last = feature;
        t->features = t->features > feature ? t->features : feature + 1;
        if (value == 0)
            continue;
        if (t->starts[t->count] - t->starts[t->count - 1] == SHOALI_PAIRS_MOST)
            return wrong(r, "more than %d features of a sample", SHOALI_PAIRS_MOST);
        SHOALI_TRY(add_pair(r, feature, value));
    }
    return SHOAL_OK;
}

static shoal_status read_sample(reader *r, char *line, size_t length)
{
    int64_t label = 0;
    if (memchr(line, '\0', length) != NULL)
        return wrong(r, "a byte of 0: this is no text");
    if (length > 0 && line[length - 1] == '\r')
        line[length - 1] = '\0';
    const char *at = skip_blanks(line);
    if (*at == '\0' || *at == '#')
        return SHOAL_OK;
    SHOALI_TRY(read_label(r, &at, &label));
    SHOALI_TRY(add_sample(r, label));
    return read_pairs(r, at);
}

/* ------------------------------------------------------------------ a file */

/* More bytes behind those that are not read yet. */
static shoal_status fill(reader *r, bool *over_out)
{
    size_t got = 0;
    memmove(r->bytes, r->bytes + r->first, r->end - r->first);
    r->end -= r->first;
    r->first = 0;
    SHOALI_TRY(shoali_input_some(&r->in, r->bytes + r->end, LINE_BYTES - r->end, &got));
    r->end += got;
    *over_out = got == 0;
    return SHOAL_OK;
}

static shoal_status read_lines(reader *r)
{
    for (bool over = false; !over || r->first < r->end;) {
        char *line = r->bytes + r->first;
        char *end = memchr(line, '\n', r->end - r->first);
        if (end == NULL && !over) {
            if (r->end - r->first == LINE_BYTES) {
                r->line++;
                return wrong(r, "it is longer than %d bytes", LINE_BYTES);
            }
            SHOALI_TRY(fill(r, &over));
            continue;
        }
        end = end != NULL ? end : r->bytes + r->end;
        *end = '\0';
        r->line++;
        r->first = (size_t)(end - r->bytes) + 1;
        SHOALI_TRY(read_sample(r, line, (size_t)(end - line)));
    }
    return r->text->count > 0 ? SHOAL_OK
                              : shoali_fail(SHOAL_ECORRUPT, "%s holds no samples", r->in.path);
}

shoal_status shoali_svmlight_read(const char *path, bool zero_based, shoali_svmlight *text_out)
{
    *text_out = (shoali_svmlight){0};
    reader r = {.text = text_out, .zero_based = zero_based};
    SHOALI_TRY(shoali_input_open(path, &r.in));
    r.bytes = shoali_alloc(LINE_BYTES + 1);
    shoal_status status = r.bytes != NULL ? read_lines(&r) : SHOAL_ENOMEM;
    shoali_free(r.bytes);
    shoali_input_close(&r.in);
    return status;
}

void shoali_svmlight_free(shoali_svmlight *text)
{
    shoali_free(text->labels);
    shoali_free(text->starts);
    shoali_free(text->pairs);
    *text = (shoali_svmlight){0};
}
