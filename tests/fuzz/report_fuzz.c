/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of metrics: whatever the scanner takes is JSON, and means what jansson says it means. */
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_line.h"

static void same(const report_line *line, report_key key, const json_t *value)
{
    const double told = json_is_number(value) ? json_number_value(value)
                                              : (double)json_is_true(value);
    if (!line->there[key])
        abort();
    if (json_is_null(value) ? !isnan(line->value[key]) : line->value[key] != told)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    report_line line;
    const char *name;
    json_t *value;
    if (size >= 1 << 16 || memchr(data, 0, size) != NULL) /* what a reader of lines gives */
        return 0;
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (report_line_scan(text, size, &line)) {
        json_t *object = json_loadb(text, size, 0, NULL);
        if (!json_is_object(object))
            abort();
        json_object_foreach(object, name, value)
        {
            const report_key key = report_key_of(name, strlen(name), 0);
            if (key < REPORT_KEYS)
                same(&line, key, value);
        }
        json_decref(object);
    }
    free(text);
    return 0;
}
