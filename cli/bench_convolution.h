/* SPDX-License-Identifier: Apache-2.0 */
/* shoal bench circulant --conv: block-circulant convolutions against dense ones by OpenBLAS. */
#ifndef SHOAL_CLI_BENCH_CONVOLUTION_H
#define SHOAL_CLI_BENCH_CONVOLUTION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench_rivals.h"

/** A convolution at stride 1 of in x height x width to out channels. */
typedef struct bench_convolution {
    int64_t in, height, width, out, kernel, pad;
} bench_convolution;

/** "IN,HEIGHT,WIDTH,OUT,KERNEL,PAD". False: something else. */
bool bench_convolution_parse(const char *text, bench_convolution *out);

/** Layers of LeNet, CifarNet and VGG. */
size_t bench_convolution_usual(const bench_convolution **list_out);

/** How it is to be measured and shown. */
typedef struct bench_convolution_job {
    const bench_blas *blas;
    double peak_gf;
    int64_t rounds;
    json_t *rows; /* NULL: a table */
} bench_convolution_job;

void bench_convolution_header(const bench_convolution_job *job);
/** One row. @return an exit code. */
int bench_convolution_run(bench_convolution_job *job, const bench_convolution *shape, size_t batch,
                          size_t k);

#endif
