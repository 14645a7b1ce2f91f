/* SPDX-License-Identifier: Apache-2.0 */
/* Spec strings: "name:key=value,flag", the same in C, on the command line and in Python. A row of a
 * table brings a schema; parsing, defaults, range checks, --help and error texts follow from it. */
#ifndef SHOALI_BASE_SPEC_H
#define SHOALI_BASE_SPEC_H

#include <stdbool.h>
#include <stddef.h>

#include "shoal/status.h"

typedef enum {
    SHOALI_KEY_FLAG,   /* bool:    "strict", "strict=on|off" */
    SHOALI_KEY_INT,    /* int64_t: "4", "64k" (k, m, g: powers of 1024), range checked */
    SHOALI_KEY_FLOAT,  /* double:  "0.5", "2^-10", range checked */
    SHOALI_KEY_CHOICE, /* int32_t: index into choices */
    SHOALI_KEY_TEXT /* char[SHOALI_KEY_TEXT_BYTES]: anything without a comma; "a/b/c" for lists */
} shoali_key_kind;
enum { SHOALI_KEY_TEXT_BYTES = 96 };

typedef struct shoali_key {
    const char *name;
    shoali_key_kind kind;
    size_t offset;        /* of the field in the params struct */
    double min, max;      /* INT, FLOAT: inclusive */
    const char *choices;  /* CHOICE: "2^-6|2^-8|2^-10" */
    const char *fallback; /* default, in the syntax of a value */
    const char *help;     /* one line, with the unit */
} shoali_key;

typedef struct shoali_schema {
    const shoali_key *keys;
    size_t count;
    size_t params_size; /* bytes of the params struct; 0 = no keys */
} shoali_schema;

/** Length of the name part of a spec string (up to ':' or the end). */
size_t shoali_spec_name_len(const char *spec);

/**
 * Parse the part after the name into params (params_size bytes, filled with defaults first).
 * @param what "codec", "collective" ...: for the error text, which names the unknown key or the
 * value out of range and lists the known keys with their ranges.
 */
SHOAL_MUST_USE shoal_status shoali_spec_parse(const char *what, const char *spec,
                                              const shoali_schema *schema, void *params);

/** Which of the names a spec string begins with; EINVAL, as below, if with none. */
SHOAL_MUST_USE shoal_status shoali_spec_find(const char *what, const char *spec,
                                             const char *const *names, size_t count,
                                             size_t *index_out);

/** EINVAL: "unknown codec 'foo'; known: identity, fp16, ..." (with the closest name suggested). */
shoal_status shoali_spec_unknown(const char *what, const char *spec, const char *const *names,
                                 size_t count);
/* As with shoali_fail: the compiler sees that the failing path returns no result. */
#define shoali_spec_unknown(...) ((void)shoali_spec_unknown(__VA_ARGS__), SHOAL_EINVAL)

/** Write the canonical spec (name and all keys that differ from their default) to out. */
void shoali_spec_format(const char *name, const shoali_schema *schema, const void *params,
                        char *out, size_t out_bytes);

/** How a key is written, for help: "bound=2^-6|2^-8", "strict", "prescale=0..16", "group=TEXT". */
void shoali_spec_syntax(const shoali_key *key, char *out, size_t out_bytes);

/** A row as listings show it. */
typedef struct shoali_listed {
    const char *name, *about;
    const shoali_schema *schema; /* NULL: its specs have no keys */
} shoali_listed;

#endif
