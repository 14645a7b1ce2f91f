/* SPDX-License-Identifier: Apache-2.0 */
/* A page for Prometheus: OpenMetrics 1.0, or the older text format 0.0.4 for who does not ask for
 * it. Names are shoal_PART_WHAT_UNIT in base units; a counter's samples end in _total. */
#ifndef SHOAL_CLI_METRICS_PAGE_H
#define SHOAL_CLI_METRICS_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct metrics_page {
    FILE *out;
    bool open_metrics;
    const char *prefix; /* "shoal_train_" */
    char sample[128];   /* name of the family's samples */
} metrics_page;

typedef struct metrics_family {
    const char *name; /* without prefix and _total */
    const char *type; /* "counter", "gauge", "info" */
    const char *unit; /* the name's last word, "": none */
    const char *help;
} metrics_family;

typedef struct metrics_label {
    const char *name, *value;
} metrics_label;

/** Begin a family; its samples follow. */
void metrics_begin(metrics_page *page, const metrics_family *family);
/** A sample of it. Values of labels are cut after 128 bytes and escaped. */
void metrics_sample(const metrics_page *page, const metrics_label *labels, size_t count,
                    double value);
/** A family of one sample without labels. */
void metrics_one(metrics_page *page, const metrics_family *family, double value);
/** The page is over. */
void metrics_end(const metrics_page *page);

#endif
