/* SPDX-License-Identifier: Apache-2.0 */
/* Block-sparse buffers for `shoal bench allreduce`, and what the model says of them. */
#ifndef SHOAL_CLI_BENCH_SPARSE_H
#define SHOAL_CLI_BENCH_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bench_sparse {
    double density; /* share of blocks that are not zero; 1: all */
    bool overlap;   /* the same blocks at all workers; else independent ones */
    uint32_t block; /* elements */
    bool modelled;  /* the collective is a sparse one */
    const char *collective;
    uint32_t workers, members;
} bench_sparse;

/** What the model says of one size. */
typedef struct bench_ceiling {
    double density, together;          /* as this pattern has them */
    double naive_bytes, busiest_bytes; /* of the busiest link */
    double naive_s, busiest_s;         /* at the line rate, in TCP at MTU 1500; 0: rate unknown */
} bench_ceiling;

/** Blocks as the collective's, or of 256 elements. */
void bench_sparse_open(const char *collective, uint32_t workers, uint32_t aggregators,
                       double density, bool overlap, bench_sparse *sparse_out);
bool bench_sparse_kept(const bench_sparse *sparse, uint32_t worker, size_t element);
/** False: no memory. */
bool bench_sparse_ceiling(const bench_sparse *sparse, size_t count, double line_bits,
                          bench_ceiling *ceiling_out);

#endif
