/* SPDX-License-Identifier: Apache-2.0 */
/* A value over steps, however many, in a few hundred buckets: the mean and both extremes of each
 * are kept. Buckets become twice as wide whenever a step lies behind the last one. */
#ifndef SHOAL_CLI_REPORT_SERIES_H
#define SHOAL_CLI_REPORT_SERIES_H

#include <stdint.h>

enum { REPORT_POINTS = 512 };

typedef struct report_bucket {
    uint64_t first, last; /* steps that were seen */
    double weight, sum;   /* their quotient is the mean; weight 0: nothing is in it */
    double low, high;
    double time_s; /* when the last of its steps ended; NAN: not known */
} report_bucket;

typedef struct report_series {
    uint64_t stride; /* steps per bucket; 0: empty */
    report_bucket bucket[REPORT_POINTS];
} report_series;

/** A value that is not finite, or of no weight, is left out. time_s: NAN where it is not known. */
void report_series_add(report_series *series, uint64_t step, double value, double weight,
                       double time_s);
/** When a step had ended: by the bucket that it is in, or the one before; NAN: not known. */
double report_series_time(const report_series *series, uint64_t step);

#endif
