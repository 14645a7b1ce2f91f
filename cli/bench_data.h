/* SPDX-License-Identifier: Apache-2.0 */
/* Data for the codec benchmark: drawn from a distribution, or real gradients from a file. */
#ifndef SHOAL_CLI_BENCH_DATA_H
#define SHOAL_CLI_BENCH_DATA_H

#include "shoal/shoal.h"

typedef struct bench_data {
    const char *name;
    double sigma; /* 0: from a file */
    shoal_tensor *tensors;
    uint32_t tensor_count;
    float *values;
    size_t count;
} bench_data;

bool bench_data_known(const char *kind);
/** One tensor of count elements; false: no memory. */
bool bench_data_make(const char *kind, double sigma, size_t count, bench_data *data_out);
/** All float32 tensors of a safetensors file; false: the last error is set. */
bool bench_data_read(const char *path, bench_data *data_out);
void bench_data_free(bench_data *data);

#endif
