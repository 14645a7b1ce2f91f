/* SPDX-License-Identifier: Apache-2.0 */
/* What the timed benchmarks on one core share. */
#ifndef SHOAL_CLI_BENCH_TIME_H
#define SHOAL_CLI_BENCH_TIME_H

#include <jansson.h>
#include <stddef.h>

/** Seconds of the monotonic clock. */
double bench_now_s(void);

/** float32[count], aligned to 64, the same values every time; free() it. NULL: no memory. */
float *bench_floats(size_t count);

/** Sorts times; the one in the middle. */
double bench_median(double *times, size_t count);

/** A member of an object; null unless value is finite and above 0. */
void bench_set(json_t *row, const char *key, double value);

/**
 * Seconds per call of run(ctx): repeated for long enough that a clock can see it. Run twice before,
 * or a short one would meet the caches as its rival left them, and a long one those that take lines
 * only once another cache has cast them out.
 */
double bench_time(void (*run)(void *ctx), void *ctx);

#endif
