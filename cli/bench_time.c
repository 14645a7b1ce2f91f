/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_time.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "answer.h"

double bench_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

float *bench_floats(size_t count)
{
    uint64_t state = 1;
    float *x = aligned_alloc(64, (count / 16 + 1) * 64);
    for (size_t i = 0; x != NULL && i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(int32_t)(state >> 32) * 0x1p-31f;
    }
    return x;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *times, size_t count)
{
    qsort(times, count, sizeof *times, by_size);
    return times[count / 2];
}

void bench_set(json_t *row, const char *key, double value)
{
    answer_set_number(row, key, value > 0 ? value : (double)NAN);
}

double bench_time(void (*run)(void *ctx), void *ctx)
{
    enum { LONG_ENOUGH_US = 1000, WARMING = 2 };
    for (int i = 0; i < WARMING; i++)
        run(ctx);
    const double start = bench_now_s();
    double end;
    long repeats = 0;
    do {
        run(ctx);
        end = bench_now_s();
        repeats++;
    } while (end - start < LONG_ENOUGH_US * 1e-6);
    return (end - start) / (double)repeats;
}
