/* SPDX-License-Identifier: Apache-2.0 */
/* What verbs answer with --json: objects of jansson's, so that whatever is in a path or a name, the
 * answer parses. */
#ifndef SHOAL_CLI_ANSWER_H
#define SHOAL_CLI_ANSWER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** A text; bytes that are no UTF-8, which JSON cannot hold, become '?'. NULL: null. */
json_t *answer_text(const char *text);
/** null where it is not finite; a whole number as such. */
json_t *answer_number(double value);
json_t *answer_count(uint64_t value);
json_t *answer_numbers(const double *values, size_t count);

/** Members of an object; want of memory is answer_print's to tell. */
void answer_set(json_t *object, const char *key, json_t *value);
void answer_set_text(json_t *object, const char *key, const char *text);
void answer_set_number(json_t *object, const char *key, double value);
void answer_set_count(json_t *object, const char *key, uint64_t value);
void answer_set_bool(json_t *object, const char *key, bool value);

/** One line, and the object is gone. NULL, for want of memory, says so. @return exit code */
int answer_print(const char *verb, json_t *answer);
/** The same to a file. False: there was no memory. */
bool answer_write(FILE *file, json_t *answer);

#endif
