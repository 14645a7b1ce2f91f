/* SPDX-License-Identifier: Apache-2.0 */
/* Spec strings come from users, from other ranks and from files: every item is bounded, and numbers
 * are read and written in the C locale, whatever the program around us has set. */
#include "base/spec.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { MAX_KEYS = 64, MAX_NAME = 64 };

/* A value of any kind, before it is copied to its field. */
typedef union value {
    bool flag;
    int64_t integer;
    double real;
    int32_t choice;
    char text[SHOALI_KEY_TEXT_BYTES];
} value;

/* Text that is appended piece by piece and cut at its capacity. */
typedef struct builder {
    char *at;
    size_t left; /* with room for the NUL */
} builder;

static void append(builder *b, const char *format, ...) SHOAL_PRINTF(2, 3);

static void append(builder *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int wrote = vsnprintf(b->at, b->left, format, args);
    va_end(args);
    size_t used = wrote < 0 ? 0 : (size_t)wrote;
    if (used >= b->left)
        used = b->left > 0 ? b->left - 1 : 0;
    b->at += used;
    b->left -= used;
}

/* glibc hands out a constant for "C": nothing to free. */
static locale_t c_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static size_t field_size(shoali_key_kind kind)
{
    switch (kind) {
    case SHOALI_KEY_FLAG:
        return sizeof(bool);
    case SHOALI_KEY_INT:
        return sizeof(int64_t);
    case SHOALI_KEY_FLOAT:
        return sizeof(double);
    case SHOALI_KEY_CHOICE:
        return sizeof(int32_t);
    case SHOALI_KEY_TEXT:
        return SHOALI_KEY_TEXT_BYTES;
    }
    return 0;
}

/* ---------------------------------------------------------------- values from text */

static bool read_flag(const char *text, bool *out)
{
    *out = strcmp(text, "on") == 0;
    return *out || strcmp(text, "off") == 0;
}

/* "2^-10" and plain decimals; the whole text must be used up. */
static bool read_float(const char *text, double *out)
{
    char *end;
    if (isspace((unsigned char)text[0]))
        return false;
    *out = strtod_l(text, &end, c_locale());
    if (end != text && *end == '^') {
        const char *digits = end + 1;
        errno = 0;
        long power = strtol(digits, &end, 10);
        if (end == digits || isspace((unsigned char)digits[0]) || errno != 0)
            return false;
        *out = pow(*out, (double)power);
    }
    return end != text && *end == '\0' && !isnan(*out);
}

/* "4", "-1", "64k" (k, m, g: powers of 1024), "2^20". */
static bool read_integer(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || isspace((unsigned char)text[0]) || errno != 0)
        return false;
    if (*end == '^') {
        double power;
        if (!read_float(text, &power) || power != floor(power) || fabs(power) > 0x1p53)
            return false;
        *out = (int64_t)power;
        return true;
    }
    int shift = 0;
    if (*end != '\0') {
        const char *unit = strchr("kmg", tolower((unsigned char)*end));
        if (unit == NULL || end[1] != '\0')
            return false;
        shift = *unit == 'k' ? 10 : *unit == 'm' ? 20 : 30;
    }
    return !__builtin_mul_overflow((int64_t)number, INT64_C(1) << shift, out);
}

/* Index of text among "a|b|c", -1 if it is not there. */
static int32_t choice_index(const char *choices, const char *text)
{
    size_t len = strlen(text);
    int32_t index = 0;
    for (const char *at = choices;; index++) {
        size_t span = strcspn(at, "|");
        if (span == len && memcmp(at, text, len) == 0)
            return index;
        if (at[span] == '\0')
            return -1;
        at += span + 1;
    }
}

static bool read_text(const char *text, char *out)
{
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        if (iscntrl((unsigned char)text[i]))
            return false;
    if (len >= SHOALI_KEY_TEXT_BYTES)
        return false;
    memcpy(out, text, len + 1);
    return true;
}

/* False if text is no value of this key or out of its range. */
static bool read_value(const shoali_key *key, const char *text, value *out)
{
    memset(out, 0, sizeof *out);
    switch (key->kind) {
    case SHOALI_KEY_FLAG:
        return read_flag(text, &out->flag);
    case SHOALI_KEY_INT:
        return read_integer(text, &out->integer) && (double)out->integer >= key->min &&
               (double)out->integer <= key->max;
    case SHOALI_KEY_FLOAT:
        return read_float(text, &out->real) && out->real >= key->min && out->real <= key->max;
    case SHOALI_KEY_CHOICE:
        out->choice = choice_index(key->choices, text);
        return out->choice >= 0;
    case SHOALI_KEY_TEXT:
        return read_text(text, out->text);
    }
    return false;
}

/* ---------------------------------------------------------------- values to text */

/* Shortest of "%g", "2^n" and "%.17g" that reads back as the same number. Call in the C locale. */
static void append_float(builder *b, double real)
{
    char text[32];
    double back;
    int exponent;
    snprintf(text, sizeof text, "%g", real);
    if (read_float(text, &back) && back == real)
        append(b, "%s", text);
    else if (frexp(real, &exponent) == 0.5)
        append(b, "2^%d", exponent - 1);
    else
        append(b, "%.17g", real);
}

static void append_value(builder *b, const shoali_key *key, const value *v)
{
    const char *choice = key->choices;
    switch (key->kind) {
    case SHOALI_KEY_FLAG:
        append(b, v->flag ? "on" : "off");
        break;
    case SHOALI_KEY_INT:
        append(b, "%lld", (long long)v->integer);
        break;
    case SHOALI_KEY_FLOAT:
        append_float(b, v->real);
        break;
    case SHOALI_KEY_CHOICE:
        for (int32_t i = 0; i < v->choice && *choice != '\0'; i++)
            choice += strcspn(choice, "|") + 1;
        append(b, "%.*s", (int)strcspn(choice, "|"), choice);
        break;
    case SHOALI_KEY_TEXT:
        append(b, "%s", v->text);
        break;
    }
}

static void append_syntax(builder *b, const shoali_key *key)
{
    append(b, "%s", key->name);
    switch (key->kind) {
    case SHOALI_KEY_FLAG:
        break;
    case SHOALI_KEY_INT:
        append(b, "=%.0f..%.0f", key->min, key->max);
        break;
    case SHOALI_KEY_FLOAT:
        append(b, "=");
        append_float(b, key->min);
        append(b, "..");
        append_float(b, key->max);
        break;
    case SHOALI_KEY_CHOICE:
        append(b, "=%s", key->choices);
        break;
    case SHOALI_KEY_TEXT:
        append(b, "=TEXT");
        break;
    }
}

/* ---------------------------------------------------------------- closest name */

/* Levenshtein distance of two names; longer than MAX_NAME counts as far away. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t row[MAX_NAME + 1];
    if (a_len > MAX_NAME || b_len > MAX_NAME)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            size_t shorter = row[j] < row[j - 1] ? row[j] : row[j - 1];
            diagonal = row[j];
            row[j] = replaced < shorter + 1 ? replaced : shorter + 1;
        }
    }
    return row[b_len];
}

/* Keep the candidate if it is nearer to the typed name than the best so far. */
static void consider(const char *typed, size_t len, const char *candidate, const char **best,
                     size_t *best_distance)
{
    size_t d = distance(typed, len, candidate, strlen(candidate));
    if (d < *best_distance && d <= 1 + len / 3) {
        *best = candidate;
        *best_distance = d;
    }
}

/* ---------------------------------------------------------------- parsing */

size_t shoali_spec_name_len(const char *spec)
{
    return strcspn(spec, ":");
}

/* One error for one spec string: who, what is wrong, and the keys that exist. */
typedef struct parse {
    const char *what, *spec;
    const shoali_schema *schema;
    uint64_t seen; /* bit i: key i was given */
} parse;

static shoal_status refuse(const parse *p, const char *reason)
{
    char known[360];
    builder b = {known, sizeof known};
    locale_t before = uselocale(c_locale());
    known[0] = '\0';
    for (size_t i = 0; i < p->schema->count; i++) {
        append(&b, i == 0 ? "known keys: " : ", ");
        append_syntax(&b, &p->schema->keys[i]);
    }
    uselocale(before);
    if (p->schema->count == 0)
        append(&b, "it has no keys");
    return shoali_fail(SHOAL_EINVAL, "%s '%.64s': %s; %s", p->what, p->spec, reason, known);
}

static shoal_status unknown_key(const parse *p, const char *name)
{
    char reason[MAX_NAME + SHOALI_KEY_TEXT_BYTES + 32];
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;
    for (size_t i = 0; i < p->schema->count; i++)
        consider(name, strlen(name), p->schema->keys[i].name, &best, &best_distance);
    snprintf(reason, sizeof reason, "unknown key '%s'", name);
    shoal_status status = refuse(p, reason);
    if (best != NULL)
        shoali_error_advice("Did you mean '%s'?", best);
    return status;
}

static const shoali_key *find_key(const shoali_schema *schema, const char *name)
{
    for (size_t i = 0; i < schema->count; i++)
        if (strcmp(schema->keys[i].name, name) == 0)
            return &schema->keys[i];
    return NULL;
}

/* One item, "key=value" or "flag", NUL-terminated and writable. */
static shoal_status parse_item(parse *p, char *item, void *params)
{
    char reason[2 * MAX_NAME + SHOALI_KEY_TEXT_BYTES + 64];
    char *text = strchr(item, '=');
    if (text != NULL)
        *text++ = '\0';
    if (item[0] == '\0')
        return refuse(p, "empty key");
    const shoali_key *key = find_key(p->schema, item);
    if (key == NULL)
        return unknown_key(p, item);

    uint64_t bit = UINT64_C(1) << (key - p->schema->keys);
    if ((p->seen & bit) != 0) {
        snprintf(reason, sizeof reason, "key '%s' is given twice", key->name);
        return refuse(p, reason);
    }
    p->seen |= bit;
    value v;
    if (text == NULL && key->kind != SHOALI_KEY_FLAG) {
        snprintf(reason, sizeof reason, "key '%s' needs a value", key->name);
        return refuse(p, reason);
    }
    if (!read_value(key, text == NULL ? "on" : text, &v)) {
        snprintf(reason, sizeof reason, "'%s' is no valid value of key '%s'", text, key->name);
        return refuse(p, reason);
    }
    memcpy((char *)params + key->offset, &v, field_size(key->kind));
    return SHOAL_OK;
}

static shoal_status fill_defaults(const char *what, const shoali_schema *schema, void *params)
{
    if (schema->count > MAX_KEYS)
        return shoali_fail(SHOAL_EINTERNAL, "a %s has %zu keys, more than %d", what, schema->count,
                           MAX_KEYS);
    if (schema->params_size > 0)
        memset(params, 0, schema->params_size);
    for (size_t i = 0; i < schema->count; i++) {
        const shoali_key *key = &schema->keys[i];
        value v;
        if (!read_value(key, key->fallback, &v) ||
            key->offset + field_size(key->kind) > schema->params_size)
            return shoali_fail(SHOAL_EINTERNAL, "the schema of a %s is wrong at key '%s'", what,
                               key->name);
        memcpy((char *)params + key->offset, &v, field_size(key->kind));
    }
    return SHOAL_OK;
}

shoal_status shoali_spec_parse(const char *what, const char *spec, const shoali_schema *schema,
                               void *params)
{
    parse p = {.what = what, .spec = spec, .schema = schema};
    SHOALI_TRY(fill_defaults(what, schema, params));
    const char *at = spec + shoali_spec_name_len(spec);
    while (*at != '\0') {
        char item[MAX_NAME + SHOALI_KEY_TEXT_BYTES];
        at++; /* the ':' or ',' before the item */
        size_t len = strcspn(at, ",");
        if (len >= sizeof item)
            return refuse(&p, "an item is too long");
        memcpy(item, at, len);
        item[len] = '\0';
        SHOALI_TRY(parse_item(&p, item, params));
        at += len;
    }
    return SHOAL_OK;
}

#undef shoali_spec_unknown /* here stands the function behind the macro */
shoal_status shoali_spec_unknown(const char *what, const char *spec, const char *const *names,
                                 size_t count)
{
    char known[384] = "";
    builder b = {known, sizeof known};
    size_t len = shoali_spec_name_len(spec);
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        append(&b, i == 0 ? "%s" : ", %s", names[i]);
        consider(spec, len, names[i], &best, &best_distance);
    }
    shoal_status status = shoali_fail(SHOAL_EINVAL, "unknown %s '%.*s'; known: %s", what,
                                      len < MAX_NAME ? (int)len : MAX_NAME, spec, known);
    if (best != NULL)
        shoali_error_advice("Did you mean '%s'?", best);
    return status;
}

shoal_status shoali_spec_find(const char *what, const char *spec, const char *const *names,
                              size_t count, size_t *index_out)
{
    size_t len = shoali_spec_name_len(spec);
    for (size_t i = 0; i < count; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], spec, len) == 0) {
            *index_out = i;
            return SHOAL_OK;
        }
    }
    return shoali_spec_unknown(what, spec, names, count);
}

/* ---------------------------------------------------------------- formatting */

static bool same_value(const shoali_key *key, const value *a, const value *b)
{
    return key->kind == SHOALI_KEY_TEXT ? strcmp(a->text, b->text) == 0
                                        : memcmp(a, b, field_size(key->kind)) == 0;
}

void shoali_spec_format(const char *name, const shoali_schema *schema, const void *params,
                        char *out, size_t out_bytes)
{
    builder b = {out, out_bytes};
    locale_t before = uselocale(c_locale());
    char separator = ':';
    append(&b, "%s", name);
    for (size_t i = 0; i < schema->count; i++) {
        const shoali_key *key = &schema->keys[i];
        value now, usual;
        memset(&now, 0, sizeof now);
        memcpy(&now, (const char *)params + key->offset, field_size(key->kind));
        if (read_value(key, key->fallback, &usual) && same_value(key, &now, &usual))
            continue;
        append(&b, "%c%s", separator, key->name);
        if (key->kind != SHOALI_KEY_FLAG || !now.flag) {
            append(&b, "=");
            append_value(&b, key, &now);
        }
        separator = ',';
    }
    uselocale(before);
}

void shoali_spec_syntax(const shoali_key *key, char *out, size_t out_bytes)
{
    locale_t before = uselocale(c_locale());
    builder b = {out, out_bytes};
    append_syntax(&b, key);
    uselocale(before);
}
