/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { DIGITS = 15 };
static const double WHOLE_MOST = 0x1p53;

json_t *answer_text(const char *text)
{
    if (text == NULL)
        return json_null();
    json_t *string = json_string(text);
    char *copy = string == NULL ? strdup(text) : NULL;
    if (copy == NULL)
        return string;
    for (char *c = copy; *c != '\0'; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    string = json_string(copy);
    free(copy);
    return string;
}

json_t *answer_number(double value)
{
    if (!isfinite(value))
        return json_null();
    return fabs(value) < WHOLE_MOST && trunc(value) == value ? json_integer((json_int_t)value)
                                                             : json_real(value);
}

json_t *answer_count(uint64_t value)
{
    return value <= INT64_MAX ? json_integer((json_int_t)value) : json_real((double)value);
}

json_t *answer_numbers(const double *values, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, answer_number(values[i]));
    return list;
}

void answer_set(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new(object, key, value);
}

void answer_set_text(json_t *object, const char *key, const char *text)
{
    answer_set(object, key, answer_text(text));
}

void answer_set_number(json_t *object, const char *key, double value)
{
    answer_set(object, key, answer_number(value));
}

void answer_set_count(json_t *object, const char *key, uint64_t value)
{
    answer_set(object, key, answer_count(value));
}

void answer_set_bool(json_t *object, const char *key, bool value)
{
    answer_set(object, key, json_boolean(value));
}

bool answer_write(FILE *file, json_t *answer)
{
    char *text = answer != NULL ? json_dumps(answer, JSON_REAL_PRECISION(DIGITS)) : NULL;
    json_decref(answer);
    if (text == NULL)
        return false;
    fprintf(file, "%s\n", text);
    free(text);
    return true;
}

int answer_print(const char *verb, json_t *answer)
{
    if (!answer_write(stdout, answer)) {
        return cli_fail(verb, "no memory for the answer");
    }
    fflush(stdout);
    return CLI_OK;
}
