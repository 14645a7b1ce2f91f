/* SPDX-License-Identifier: Apache-2.0 */
/* YAML as far as configuration needs it, as JSON values: mappings, lists, plain and quoted scalars.
 * Anchors, tags and several documents are refused; depth, size and entries are bounded. */
#ifndef SHOALI_MODEL_YAML_H
#define SHOALI_MODEL_YAML_H

#include <jansson.h>

#include "shoal/status.h"

/**
 * Parse a text; plain scalars that read as numbers become numbers.
 * @param name     for errors, which say the line
 * @param json_out owned by the caller (json_decref)
 * @return SHOAL_OK | ECORRUPT | ENOMEM
 */
SHOAL_MUST_USE shoal_status shoali_yaml_parse(const char *name, const char *text, size_t len_bytes,
                                              json_t **json_out);

#endif
