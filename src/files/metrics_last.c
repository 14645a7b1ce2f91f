/* SPDX-License-Identifier: Apache-2.0 */
#include "files/metrics_last.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/read_file.h"

static double number_of(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static uint64_t count_of(const json_t *line, const char *key)
{
    const json_int_t value = json_integer_value(json_object_get(line, key));
    return value > 0 ? (uint64_t)value : 0;
}

static void take(const json_t *line, shoali_metrics_last *last)
{
    const uint64_t step = count_of(line, "step"), epoch = count_of(line, "epoch");
    if (json_object_get(line, "reform") != NULL || step < last->step || step == 0)
        return;
    last->step = step;
    if (epoch == 0) {
        last->loss = number_of(line, "loss");
        return;
    }
    const double loss = number_of(line, "train_loss"), accuracy = number_of(line, "test_accuracy");
    last->epoch = epoch;
    last->loss = isfinite(loss) ? loss : last->loss;
    last->accuracy = isfinite(accuracy) ? accuracy : last->accuracy;
}

/* Whole lines of text, which is cut off anywhere at its beginning and its end. */
static void take_lines(char *text, bool from_the_middle, shoali_metrics_last *last)
{
    char *line = from_the_middle ? strchr(text, '\n') : text;
    line = line != NULL && from_the_middle ? line + 1 : line;
    for (char *end; line != NULL && (end = strchr(line, '\n')) != NULL; line = end + 1) {
        json_t *object = json_loadb(line, (size_t)(end - line), 0, NULL);
        if (json_is_object(object))
            take(object, last);
        json_decref(object);
    }
}

/* The last `bytes` of a file of `size`. False: cannot be read. */
static bool take_tail(FILE *file, off_t size, size_t bytes, shoali_metrics_last *last)
{
    char *text = shoali_alloc(bytes + 1);
    const off_t from = size - (off_t)bytes;
    bool ok = text != NULL && fseeko(file, from, SEEK_SET) == 0 &&
              fread(text, 1, bytes, file) == bytes;
    if (ok)
        take_lines(text, from > 0, last);
    shoali_free(text);
    return ok;
}

void shoali_metrics_read_last(const char *path, shoali_metrics_last *last_out)
{
    enum { FIRST = 1 << 16, MOST = 1 << 24 }; /* epochs may be long */
    const shoali_metrics_last none = {.loss = (double)NAN, .accuracy = (double)NAN};
    FILE *file;
    *last_out = none;
    if (shoali_open_file(path, &file) != SHOAL_OK)
        return;
    const off_t size = fseeko(file, 0, SEEK_END) == 0 ? ftello(file) : -1;
    for (off_t bytes = FIRST; size > 0 && bytes <= MOST; bytes *= 4) {
        *last_out = none;
        if (!take_tail(file, size, (size_t)(bytes < size ? bytes : size), last_out) ||
            bytes >= size || isfinite(last_out->accuracy))
            break;
    }
    fclose(file);
}
