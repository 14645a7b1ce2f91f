/* SPDX-License-Identifier: Apache-2.0 */
/* One line of metrics.jsonl, a million of which are to be read in seconds: an object of plain
 * numbers is taken without building it. Whatever else is in a line is jansson's to read. */
#ifndef SHOAL_CLI_REPORT_LINE_H
#define SHOAL_CLI_REPORT_LINE_H

#include <stdbool.h>
#include <stddef.h>

/** Members that are looked at, in the order in which a step's line has them. */
typedef enum report_key {
    REPORT_STEP,
    REPORT_SAMPLES,
    REPORT_AT,
    REPORT_LOSS,
    REPORT_STEP_US,
    REPORT_COMPUTE,
    REPORT_DATA,
    REPORT_FORWARD,
    REPORT_BACKWARD,
    REPORT_UPDATE,
    REPORT_WAIT,
    REPORT_COMM,
    REPORT_ENCODE,
    REPORT_DECODE,
    REPORT_SENT,
    REPORT_RECEIVED,
    REPORT_DENSE,
    REPORT_SKIPPED,
    REPORT_EPOCH,
    REPORT_TRAIN_LOSS,
    REPORT_TEST_LOSS,
    REPORT_ACCURACY,
    REPORT_EPOCH_S,
    REPORT_REFORM,
    REPORT_TOOK,
    REPORT_RANK,
    REPORT_KEYS
} report_key;

typedef struct report_line {
    double value[REPORT_KEYS]; /* NAN where it is null; true is 1 */
    bool there[REPORT_KEYS];
} report_line;

/**
 * @param text at least length + 1 bytes, of which the last is '\0'
 * @return true: it is JSON, an object of numbers, true, false and null; line_out has what is known
 *         of them. False: something else, or no JSON; line_out is undefined.
 */
bool report_line_scan(const char *text, size_t length, report_line *line_out);
/** "step"; REPORT_KEYS: there is no such key. */
report_key report_key_of(const char *name, size_t length, report_key guess);

#endif
