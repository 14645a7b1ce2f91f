/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shoal/train.h"

/* More different numbers than any branch predictor remembers; then again. */
enum { DIFFERENT = 1 << 20, ROW = 256 };

static const char *const kinds[] = {"gauss", "laplace", "student3", "sparse", "rows"};
enum { GAUSS, LAPLACE, STUDENT3, SPARSE, ROWS, KINDS };

static int kind_of(const char *name)
{
    int kind = 0;
    while (kind < KINDS && strcmp(kinds[kind], name) != 0)
        kind++;
    return kind;
}

bool bench_data_known(const char *kind)
{
    return kind_of(kind) < KINDS;
}

/* splitmix64, as doubles in (0, 1). */
static double uniform(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return ((double)((x ^ x >> 31) >> 11) + 0.5) * 0x1p-53;
}

static double normal(uint64_t *state)
{
    double radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(6.283185307179586 * uniform(state));
}

/* One number of standard deviation 1 (student3: the distribution itself, of deviation sqrt 3; rows:
 * rows of 256 with deviations 1 .. 1/128; sparse: one in a hundred). */
static double draw(int kind, uint64_t *state, size_t i)
{
    double x = normal(state), squares = 0;
    switch (kind) {
    case LAPLACE:
        return copysign(log(uniform(state)) / sqrt(2), x);
    case STUDENT3:
        for (int k = 0; k < 3; k++) {
            double y = normal(state);
            squares += y * y;
        }
        return x / sqrt(squares / 3);
    case SPARSE:
        return uniform(state) < 0.01 ? x : 0;
    case ROWS:
        return ldexp(x, -(int)(i / ROW * 2654435761u % 4294967296u >> 29));
    default:
        return x;
    }
}

bool bench_data_make(const char *kind, double sigma, size_t count, bench_data *data_out)
{
    const int k = kind_of(kind);
    uint64_t state = 1;
    *data_out = (bench_data){.name = kinds[k], .sigma = sigma, .tensor_count = 1, .count = count};
    data_out->tensors = calloc(1, sizeof *data_out->tensors);
    data_out->values = aligned_alloc(64, (count / 16 + 1) * 64);
    if (data_out->tensors == NULL || data_out->values == NULL) {
        bench_data_free(data_out);
        return false;
    }
    data_out->tensors[0] = (shoal_tensor){
        .key = 1, .count = count, .rows = (uint32_t)(count / ROW), .cols = ROW, .lr_scale = 1};
    float *x = data_out->values;
    for (size_t i = 0; i < count; i++)
        x[i] = i < DIFFERENT ? (float)(sigma * draw(k, &state, i)) : x[i - DIFFERENT];
    return true;
}

static size_t total(const shoal_gradients *g, uint32_t *tensors_out)
{
    size_t sum = 0, count;
    const char *name;
    uint32_t i = 0;
    for (; shoal_gradients_at(g, i, &name, &count) != NULL; i++)
        sum += count;
    *tensors_out = i;
    return sum;
}

bool bench_data_read(const char *path, bench_data *data_out)
{
    shoal_gradients *g = NULL;
    if (shoal_gradients_open(path, &g) != SHOAL_OK)
        return false;
    *data_out = (bench_data){.name = "gradients"};
    data_out->count = total(g, &data_out->tensor_count);
    data_out->tensors = calloc(data_out->tensor_count + 1u, sizeof *data_out->tensors);
    data_out->values = malloc((data_out->count + 1) * sizeof *data_out->values);
    bool room = data_out->tensors != NULL && data_out->values != NULL;
    size_t at = 0;
    for (uint32_t i = 0; room && i < data_out->tensor_count; i++) {
        const char *name;
        size_t count;
        const float *values = shoal_gradients_at(g, i, &name, &count);
        memcpy(data_out->values + at, values, count * sizeof *values);
        data_out->tensors[i] = (shoal_tensor){
            .key = i + 1, .offset = at, .count = count, .lr_scale = 1};
        at += count;
    }
    shoal_gradients_close(g);
    if (!room)
        bench_data_free(data_out);
    return room;
}

void bench_data_free(bench_data *data)
{
    free(data->tensors);
    free(data->values);
    *data = (bench_data){0};
}
