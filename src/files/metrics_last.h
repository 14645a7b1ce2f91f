/* SPDX-License-Identifier: Apache-2.0 */
/* How far a run is, by the end of its OUT/metrics.jsonl. */
#ifndef SHOALI_FILES_METRICS_LAST_H
#define SHOALI_FILES_METRICS_LAST_H

#include <stdint.h>

/** Of the last lines that are whole; 0 and NAN: none says it. */
typedef struct shoali_metrics_last {
    uint64_t step, epoch; /* done */
    double loss;          /* of the last step; where an epoch ended with it, of that */
    double accuracy;      /* when it was last tested, percent */
} shoali_metrics_last;

/** No file, no figures. */
void shoali_metrics_read_last(const char *path, shoali_metrics_last *last_out);

#endif
