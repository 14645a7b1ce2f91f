/* SPDX-License-Identifier: Apache-2.0 */
/* Reading JSON files with errors that say file, line and path; a thin layer over jansson. */
#ifndef SHOALI_BASE_JSON_H
#define SHOALI_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "shoal/status.h"

/** Parse a file / a text (name is for errors). Caller owns *json_out (json_decref). Depth and size
 * are bounded. */
SHOAL_MUST_USE shoal_status shoali_json_load(const char *path, json_t **json_out);
SHOAL_MUST_USE shoal_status shoali_json_parse(const char *name, const char *text, size_t len_bytes,
                                              json_t **json_out);
/** Typed members with range check; a missing key is an error unless fallback is not NULL. */
SHOAL_MUST_USE shoal_status shoali_json_u64(const json_t *object, const char *key, uint64_t min,
                                            uint64_t max, const uint64_t *fallback,
                                            uint64_t *value_out);
SHOAL_MUST_USE shoal_status shoali_json_double(const json_t *object, const char *key, double min,
                                               double max, const double *fallback,
                                               double *value_out);
/** As text, with jansson's flags; the caller's, shoali_free. NULL: no memory, or json is NULL. */
char *shoali_json_text(const json_t *json, size_t flags);
/** Borrowed string, valid as long as object. */
SHOAL_MUST_USE shoal_status shoali_json_string(const json_t *object, const char *key,
                                               const char *fallback, const char **value_out);

#endif
