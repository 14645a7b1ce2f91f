/* SPDX-License-Identifier: Apache-2.0 */
/* What every rival shares: one way to time an all-reduce, the way of `shoal bench allreduce`.
 *
 * For each size: `warmup` operations, then `iters` timed ones. Each starts behind a barrier; its
 * time is the largest over the ranks; a row holds the median. CPU is user and system time of the
 * process between the same two points, so threads of the library count and filling the buffer does
 * not: cpu_s_per_gb = sum over ranks / (ranks * bytes) * 1e9. */
#ifndef PEERS_MEASURE_H
#define PEERS_MEASURE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct measure_options {
    size_t min_bytes, max_bytes, factor;
    int iters, warmup;
    const char *algorithm; /* meaning is the program's */
    const char *store;     /* shared folder for rendezvous */
} measure_options;

/* A library under test. Every function is called by all ranks in the same order; `ctx` is theirs.
 * A failure ends the process with a message: a rival that fails has no row. */
typedef struct measure_peer {
    const char *name; /* column "collective" of the rows */
    int rank, ranks;
    void *ctx;
    void (*prepare)(void *ctx, float *buf, size_t count); /* untimed, once per size; or NULL */
    void (*all_reduce)(void *ctx, float *buf, size_t count);
    void (*barrier)(void *ctx);
    double (*max)(void *ctx, double value);
    double (*sum)(void *ctx, double value);
} measure_peer;

/* -b MIN -e MAX -f FACTOR -n ITERS -w WARMUP as `shoal bench allreduce`, -a ALGORITHM, -s STORE. */
measure_options measure_parse(int argc, char **argv);

/* Run all sizes; rank 0 prints one JSON row each. Returns the exit status: 1 if a sum was wrong. */
int measure_run(const measure_peer *peer, const measure_options *options);

/* An environment variable that must be there, as a number. */
int measure_env(const char *name);

#ifdef __cplusplus
}
#endif
#endif
