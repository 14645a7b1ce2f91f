/* SPDX-License-Identifier: Apache-2.0 */
/* libyaml's events, one level of C recursion per level of the document. */
#include "model/yaml.h"

#include <errno.h>
#include <locale.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/error.h"

enum { MAX_BYTES = 1 << 20, MAX_DEPTH = 8, MAX_VALUES = 100000 };

typedef struct reader {
    yaml_parser_t parser;
    const char *name;
    uint32_t values, depth;
} reader;

static shoal_status refuse(reader *r, const yaml_event_t *event, const char *why)
{
    return shoali_fail(SHOAL_ECORRUPT, "%s:%zu: %s", r->name, event->start_mark.line + 1, why);
}

static shoal_status next(reader *r, yaml_event_t *event)
{
    if (yaml_parser_parse(&r->parser, event) == 1)
        return SHOAL_OK;
    if (r->parser.error == YAML_MEMORY_ERROR)
        return shoali_fail(SHOAL_ENOMEM, "%s: out of memory", r->name);
    const char *problem = r->parser.problem != NULL ? r->parser.problem : "not YAML";
    return shoali_fail(SHOAL_ECORRUPT, "%s:%zu: %s", r->name, r->parser.problem_mark.line + 1,
                       problem);
}

/* A plain scalar: a number, if all of it reads as one, else a string. */
static json_t *scalar(const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    bool number = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && length > 0 &&
                  strlen(text) == length && strspn(text, "+-.0123456789eE") == length;
    if (number) {
        char *end = NULL;
        errno = 0;
        long long whole = strtoll(text, &end, 10);
        if (*end == '\0' && errno == 0)
            return json_integer(whole);
        double real = strtod_l(text, &end, newlocale(LC_ALL_MASK, "C", (locale_t)0));
        if (*end == '\0' && end != text && real > -1e300 && real < 1e300)
            return json_real(real);
    }
    return json_stringn(text, length);
}

static shoal_status read_value(reader *r, yaml_event_t *event, json_t **out);

static shoal_status read_list(reader *r, json_t *list)
{
    for (;;) {
        yaml_event_t event;
        json_t *value = NULL;
        SHOALI_TRY(next(r, &event));
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        shoal_status status = end ? SHOAL_OK : read_value(r, &event, &value);
        yaml_event_delete(&event);
        if (end || status != SHOAL_OK)
            return status;
        if (json_array_append_new(list, value) != 0)
            return shoali_fail(SHOAL_ENOMEM, "%s: out of memory", r->name);
    }
}

/* The value that belongs to a key which was read. */
static shoal_status read_member(reader *r, const yaml_event_t *key, json_t *object)
{
    yaml_event_t event;
    json_t *value = NULL;
    if (key->type != YAML_SCALAR_EVENT || key->data.scalar.anchor != NULL)
        return refuse(r, key, "a key must be a word");
    const char *word = (const char *)key->data.scalar.value;
    if (strlen(word) != key->data.scalar.length || json_object_get(object, word) != NULL)
        return refuse(r, key, "this key occurs twice, or holds a NUL");
    SHOALI_TRY(next(r, &event));
    shoal_status status = read_value(r, &event, &value);
    if (status == SHOAL_OK && json_object_set_new(object, word, value) != 0)
        status = refuse(r, &event, "this key is not UTF-8, or memory is out");
    yaml_event_delete(&event);
    return status;
}

static shoal_status read_mapping(reader *r, json_t *object)
{
    for (;;) {
        yaml_event_t event;
        SHOALI_TRY(next(r, &event));
        bool end = event.type == YAML_MAPPING_END_EVENT;
        shoal_status status = end ? SHOAL_OK : read_member(r, &event, object);
        yaml_event_delete(&event);
        if (end || status != SHOAL_OK)
            return status;
    }
}

static shoal_status read_inner(reader *r, const yaml_event_t *event, json_t **out)
{
    bool list = event->type == YAML_SEQUENCE_START_EVENT;
    if (r->depth == MAX_DEPTH)
        return refuse(r, event, "nested too deeply");
    *out = list ? json_array() : json_object();
    if (*out == NULL)
        return shoali_fail(SHOAL_ENOMEM, "%s: out of memory", r->name);
    r->depth++;
    shoal_status status = list ? read_list(r, *out) : read_mapping(r, *out);
    r->depth--;
    if (status != SHOAL_OK)
        json_decref(*out);
    return status;
}

static shoal_status read_value(reader *r, yaml_event_t *event, json_t **out)
{
    if (++r->values > MAX_VALUES)
        return refuse(r, event, "too many values");
    switch (event->type) {
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return read_inner(r, event, out);
    case YAML_SCALAR_EVENT:
        *out = scalar(event);
        return *out != NULL ? SHOAL_OK : refuse(r, event, "not UTF-8, or memory is out");
    case YAML_ALIAS_EVENT:
        return refuse(r, event, "aliases are not read; write the value out");
    default:
        return refuse(r, event, "a value was expected");
    }
}

/* Stream start, document start, value, document end, stream end. */
static shoal_status read_document(reader *r, json_t **out)
{
    static const yaml_event_type_t before[] = {YAML_STREAM_START_EVENT, YAML_DOCUMENT_START_EVENT};
    static const yaml_event_type_t after[] = {YAML_DOCUMENT_END_EVENT, YAML_STREAM_END_EVENT};
    yaml_event_t event;
    for (size_t i = 0; i < 2; i++) {
        SHOALI_TRY(next(r, &event));
        bool right = event.type == before[i];
        yaml_event_delete(&event);
        if (!right)
            return shoali_fail(SHOAL_ECORRUPT, "%s: empty", r->name);
    }
    SHOALI_TRY(next(r, &event));
    shoal_status status = read_value(r, &event, out);
    yaml_event_delete(&event);
    for (size_t i = 0; status == SHOAL_OK && i < 2; i++) {
        status = next(r, &event);
        if (status == SHOAL_OK && event.type != after[i])
            status = refuse(r, &event, "more than one document");
        if (status == SHOAL_OK)
            yaml_event_delete(&event);
        else
            json_decref(*out);
    }
    return status;
}

shoal_status shoali_yaml_parse(const char *name, const char *text, size_t len_bytes,
                               json_t **json_out)
{
    reader r = {.name = name};
    json_t *json = NULL;
    if (len_bytes > MAX_BYTES)
        return shoali_fail(SHOAL_ECORRUPT, "%s: %zu bytes of YAML, at most %d are read", name,
                           len_bytes, MAX_BYTES);
    if (yaml_parser_initialize(&r.parser) != 1)
        return shoali_fail(SHOAL_ENOMEM, "%s: out of memory", name);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len_bytes);
    shoal_status status = read_document(&r, &json);
    yaml_parser_delete(&r.parser);
    if (status == SHOAL_OK)
        *json_out = json;
    return status;
}
