/* SPDX-License-Identifier: Apache-2.0 */
/* jansson bounds the depth (JSON_PARSER_MAX_DEPTH), we bound the size; its heap is its own, because
 * its allocator is process-wide and belongs to the program that loaded us. */
#include "base/json.h"

#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/read_file.h"

enum {
    MAX_FILE_BYTES = 32 << 20, /* a model of 10^5 layers takes about 20 MB */
    MAX_MARKS = 2 << 20        /* an empty list takes 3 bytes of text and 180 of memory */
};

/* Brackets, commas and colons outside of strings: no fewer than there are values. */
static size_t count_marks(const char *text, size_t len_bytes)
{
    size_t count = 0;
    bool quoted = false;
    for (size_t i = 0; i < len_bytes; i++) {
        char c = text[i];
        if (c == '"')
            quoted = !quoted;
        else if (quoted)
            i += c == '\\';
        else
            count += c == '[' || c == '{' || c == ',' || c == ':';
    }
    return count;
}

shoal_status shoali_json_parse(const char *name, const char *text, size_t len_bytes,
                               json_t **json_out)
{
    if (len_bytes > MAX_FILE_BYTES)
        return shoali_fail(SHOAL_ECORRUPT, "%s: %zu bytes of JSON, at most %d are read", name,
                           len_bytes, MAX_FILE_BYTES);
    if (count_marks(text, len_bytes) > MAX_MARKS)
        return shoali_fail(SHOAL_ECORRUPT, "%s: JSON of more than %d values", name, MAX_MARKS);
    json_error_t error;
    json_t *json = json_loadb(text, len_bytes, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL) {
        shoal_status status = json_error_code(&error) == json_error_out_of_memory ? SHOAL_ENOMEM
                                                                                  : SHOAL_ECORRUPT;
        (void)shoali_fail(status, "%s:%d:%d: %s", name, error.line, error.column, error.text);
        shoali_error_advice("Mend the JSON at this line and column.");
        return status;
    }
    *json_out = json;
    return SHOAL_OK;
}

shoal_status shoali_json_load(const char *path, json_t **json_out)
{
    char *text;
    size_t len_bytes;
    SHOALI_TRY(shoali_read_file(path, MAX_FILE_BYTES, &text, &len_bytes));
    shoal_status status = shoali_json_parse(path, text, len_bytes, json_out);
    shoali_free(text);
    return status;
}

static const char *type_name(const json_t *value)
{
    static const char *const names[] = {"an object", "an array", "a string", "an integer",
                                        "a number",  "true",     "false",    "null"};
    return value != NULL ? names[json_typeof(value)] : "nothing";
}

static shoal_status wrong_type(const json_t *object, const char *key, const char *wanted)
{
    if (!json_is_object(object))
        return shoali_fail(SHOAL_ECORRUPT, "expected an object with key \"%s\", found %s", key,
                           type_name(object));
    const json_t *value = json_object_get(object, key);
    if (value == NULL)
        return shoali_fail(SHOAL_ECORRUPT, "key \"%s\" is missing; it is %s", key, wanted);
    return shoali_fail(SHOAL_ECORRUPT, "key \"%s\" is %s; it must be %s", key, type_name(value),
                       wanted);
}

shoal_status shoali_json_u64(const json_t *object, const char *key, uint64_t min, uint64_t max,
                             const uint64_t *fallback, uint64_t *value_out)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL && fallback != NULL && json_is_object(object)) {
        *value_out = *fallback;
        return SHOAL_OK;
    }
    if (!json_is_integer(value))
        return wrong_type(object, key, "an integer");
    json_int_t number = json_integer_value(value);
    if (number < 0 || (uint64_t)number < min || (uint64_t)number > max)
        return shoali_fail(SHOAL_ECORRUPT, "key \"%s\" is %lld; it must be %llu .. %llu", key,
                           (long long)number, (unsigned long long)min, (unsigned long long)max);
    *value_out = (uint64_t)number;
    return SHOAL_OK;
}

shoal_status shoali_json_double(const json_t *object, const char *key, double min, double max,
                                const double *fallback, double *value_out)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL && fallback != NULL && json_is_object(object)) {
        *value_out = *fallback;
        return SHOAL_OK;
    }
    if (!json_is_number(value))
        return wrong_type(object, key, "a number");
    double number = json_number_value(value);
    if (!(number >= min && number <= max)) /* written so that NaN fails */
        return shoali_fail(SHOAL_ECORRUPT, "key \"%s\" is %g; it must be %g .. %g", key, number,
                           min, max);
    *value_out = number;
    return SHOAL_OK;
}

shoal_status shoali_json_string(const json_t *object, const char *key, const char *fallback,
                                const char **value_out)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL && fallback != NULL && json_is_object(object)) {
        *value_out = fallback;
        return SHOAL_OK;
    }
    if (!json_is_string(value))
        return wrong_type(object, key, "a string");
    *value_out = json_string_value(value);
    return SHOAL_OK;
}

char *shoali_json_text(const json_t *json, size_t flags)
{
    const size_t length = json != NULL ? json_dumpb(json, NULL, 0, flags) : 0;
    char *text = length > 0 ? shoali_alloc(length + 1) : NULL;
    if (text != NULL)
        text[json_dumpb(json, text, length, flags)] = '\0';
    return text;
}
