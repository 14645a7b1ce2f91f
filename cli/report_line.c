/* SPDX-License-Identifier: Apache-2.0 */
#include "report_line.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_EXACT = 15, NUMBER_MOST = 40 };

typedef struct key_name {
    const char *text;
    size_t length;
} key_name;
#define NAME(text)             \
    {                          \
        text, sizeof(text) - 1 \
    }

static const key_name names[REPORT_KEYS] = {
    NAME("step"),        NAME("samples"),       NAME("at_us"),      NAME("loss"),
    NAME("step_us"),     NAME("compute_us"),    NAME("data_us"),    NAME("forward_us"),
    NAME("backward_us"), NAME("update_us"),     NAME("wait_us"),    NAME("comm_us"),
    NAME("encode_us"),   NAME("decode_us"),     NAME("sent_bytes"), NAME("received_bytes"),
    NAME("dense_bytes"), NAME("skipped"),       NAME("epoch"),      NAME("train_loss"),
    NAME("test_loss"),   NAME("test_accuracy"), NAME("epoch_s"),    NAME("reform"),
    NAME("took_us"),     NAME("rank")};

static bool is_named(report_key key, const char *name, size_t length)
{
    return names[key].length == length && memcmp(names[key].text, name, length) == 0;
}

report_key report_key_of(const char *name, size_t length, report_key guess)
{
    if (guess < REPORT_KEYS && is_named(guess, name, length))
        return guess;
    for (report_key key = 0; key < REPORT_KEYS; key++)
        if (is_named(key, name, length))
            return key;
    return REPORT_KEYS;
}

static const char *skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\t' || *at == '\r')
        at++;
    return at;
}

static const char *skip_digits(const char *at)
{
    while (*at >= '0' && *at <= '9')
        at++;
    return at;
}

/* Behind a number as JSON has them; NULL: it is none. whole_out: without fraction and exponent. */
static const char *number_end(const char *at, bool *whole_out)
{
    const char *first = at + (*at == '-'), *end = skip_digits(first);
    if (end == first || (*first == '0' && end > first + 1))
        return NULL;
    *whole_out = *end != '.' && *end != 'e' && *end != 'E';
    if (*end == '.') {
        const char *fraction = end + 1;
        end = skip_digits(fraction);
        if (end == fraction)
            return NULL;
    }
    if (*end == 'e' || *end == 'E') {
        const char *digits = end + 1 + (end[1] == '+' || end[1] == '-');
        end = skip_digits(digits);
        if (end == digits)
            return NULL;
    }
    return end;
}

/* NULL: none, or one that takes more care. */
static const char *scan_number(const char *at, double *value_out)
{
    bool whole;
    const char *end = number_end(at, &whole);
    if (end == NULL || end - at > NUMBER_MOST || (whole && end - at > DIGITS_EXACT))
        return NULL;
    if (!whole) {
        *value_out = strtod(at, NULL);
        return isfinite(*value_out) ? end : NULL;
    }
    double value = 0;
    for (const char *digit = at + (*at == '-'); digit < end; digit++)
        value = 10 * value + (*digit - '0');
    *value_out = *at == '-' ? -value : value;
    return end;
}

static const char *scan_value(const char *at, double *value_out)
{
    static const struct word {
        const char *text;
        size_t length;
        double value;
    } words[] = {{"true", 4, 1}, {"false", 5, 0}, {"null", 4, (double)NAN}};
    for (size_t i = 0; i < sizeof words / sizeof words[0] && *at > '9'; i++)
        if (strncmp(at, words[i].text, words[i].length) == 0) {
            *value_out = words[i].value;
            return at + words[i].length;
        }
    return scan_number(at, value_out);
}

/* Behind a name of letters, digits and '_', which is at[1] to the end less one; else NULL. */
static const char *scan_name(const char *at)
{
    if (*at++ != '"')
        return NULL;
    while ((*at >= 'a' && *at <= 'z') || *at == '_' || (*at >= '0' && *at <= '9'))
        at++;
    return *at == '"' ? at + 1 : NULL;
}

bool report_line_scan(const char *text, size_t length, report_line *line_out)
{
    const char *at = skip_blanks(text);
    report_key guess = 0;
    memset(line_out->there, 0, sizeof line_out->there);
    if (*at != '{')
        return false;
    do {
        double value = 0;
        at = skip_blanks(at + 1);
        const char *name = at + 1, *end = scan_name(at);
        at = end != NULL ? skip_blanks(end) : "";
        if (*at != ':' || (at = scan_value(skip_blanks(at + 1), &value)) == NULL)
            return false;
        const report_key key = report_key_of(name, (size_t)(end - 1 - name), guess);
        if (key < REPORT_KEYS) {
            line_out->value[key] = value;
            line_out->there[key] = true;
            guess = key + 1;
        }
        at = skip_blanks(at);
    } while (*at == ',');
    return *at == '}' && skip_blanks(at + 1) == text + length;
}
