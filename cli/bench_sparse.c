/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_sparse.h"

#include <stdlib.h>

#include "shoal/sparse.h"

enum { USUAL_BLOCK = 256 };

/* Payload of a full segment among the bytes that a shaped link counts, MTU 1500 with timestamps. */
static const double tcp_share = 1448.0 / 1514.0;

void bench_sparse_open(const char *collective, uint32_t workers, uint32_t aggregators,
                       double density, bool overlap, bench_sparse *sparse_out)
{
    shoal_sparse_desc desc;
    *sparse_out = (bench_sparse){.density = density,
                                 .overlap = overlap,
                                 .block = USUAL_BLOCK,
                                 .collective = collective,
                                 .workers = workers,
                                 .members = workers};
    sparse_out->modelled = shoal_sparse_describe(collective, 1, workers, workers, &desc) ==
                           SHOAL_OK;
    if (!sparse_out->modelled &&
        shoal_sparse_describe(collective, 1, workers, workers + aggregators, &desc) == SHOAL_OK) {
        sparse_out->members = workers + aggregators;
        sparse_out->modelled = true;
    }
    if (sparse_out->modelled)
        sparse_out->block = desc.block;
}

/* splitmix64 of worker and block, as a share of 2^64. */
bool bench_sparse_kept(const bench_sparse *sparse, uint32_t worker, size_t element)
{
    if (sparse->density >= 1)
        return true;
    uint64_t x = element / sparse->block + 1;
    x = x * 0x9e3779b97f4a7c15u + (sparse->overlap ? 0 : worker + 1) * 0xd1b54a32d192ed03u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53 < sparse->density;
}

bool bench_sparse_ceiling(const bench_sparse *sparse, size_t count, double line_bits,
                          bench_ceiling *ceiling_out)
{
    shoal_sparse_desc desc;
    shoal_sparse_cost cost;
    const size_t blocks = (count + sparse->block - 1) / sparse->block;
    uint8_t *nonzero = malloc(sparse->workers * blocks + 1);
    if (nonzero == NULL)
        return false;
    for (uint32_t w = 0; w < sparse->workers; w++)
        for (size_t b = 0; b < blocks; b++)
            nonzero[w * blocks + b] = bench_sparse_kept(sparse, w, b * sparse->block);
    bool known = shoal_sparse_describe(sparse->collective, count, sparse->workers, sparse->members,
                                       &desc) == SHOAL_OK &&
                 shoal_sparse_count(&desc, nonzero, NULL, NULL, &cost) == SHOAL_OK;
    free(nonzero);
    if (!known)
        return false;
    const double per_byte = line_bits > 0 ? 8 / (line_bits * tcp_share) : 0;
    *ceiling_out = (bench_ceiling){.density = cost.density,
                                   .together = cost.together,
                                   .naive_bytes = cost.naive_bytes,
                                   .busiest_bytes = cost.busiest_bytes,
                                   .naive_s = cost.naive_bytes * per_byte,
                                   .busiest_s = cost.busiest_bytes * per_byte};
    return true;
}
