/* SPDX-License-Identifier: Apache-2.0 */
/* Links of an OmniReduce. A worker's contributions to shard a and a shard's results to a worker are
 * counted once; links are sums of them, less what a member hands to itself. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "collective/omni.h"
#include "shoal/sparse.h"

typedef struct links {
    double *up;              /* [workers][aggregators] bytes of contributions */
    double *down;            /* [aggregators] bytes of results for one worker */
    double *sent, *received; /* [members] */
    uint32_t members;
} links;

static uint32_t members_of(const shoal_sparse_desc *d)
{
    return d->workers + (d->dedicated ? d->aggregators : 0);
}

static shoal_status check(const shoal_sparse_desc *d, shoali_omni_layout *l)
{
    if (d->size != sizeof *d || d->workers == 0 || d->aggregators == 0 || d->block == 0 ||
        d->fusion == 0 || d->fusion > SHOALI_OMNI_FUSION_MAX || d->slots == 0 ||
        (!d->dedicated && d->aggregators > d->workers))
        return shoali_fail(SHOAL_EINVAL,
                           "sparse model: %u workers, %u aggregators, blocks of %u, fusion %u, %u "
                           "slots",
                           d->workers, d->aggregators, d->block, d->fusion, d->slots);
    return shoali_omni_lay_out(d->count, d->block, d->fusion, d->slots, d->workers, d->aggregators,
                               l);
}

static shoal_status open_links(const shoal_sparse_desc *d, shoal_arena *arena, links *k)
{
    k->members = members_of(d);
    k->up = shoali_arena_array(arena, (size_t)d->workers * d->aggregators, sizeof *k->up);
    k->down = shoali_arena_array(arena, d->aggregators, sizeof *k->down);
    k->sent = shoali_arena_array(arena, k->members, sizeof *k->sent);
    k->received = shoali_arena_array(arena, k->members, sizeof *k->received);
    return k->up != NULL && k->down != NULL && k->sent != NULL && k->received != NULL
               ? SHOAL_OK
               : SHOAL_ENOMEM;
}

static double busiest(const shoal_sparse_desc *d, links *k)
{
    double most = 0;
    for (uint32_t a = 0; a < d->aggregators; a++) {
        const uint32_t shard = d->dedicated ? d->workers + a : a;
        for (uint32_t w = 0; w < d->workers; w++) {
            if (w == shard)
                continue;
            k->sent[w] += k->up[w * d->aggregators + a];
            k->received[shard] += k->up[w * d->aggregators + a];
            k->sent[shard] += k->down[a];
            k->received[w] += k->down[a];
        }
    }
    for (uint32_t m = 0; m < k->members; m++)
        most = fmax(most, fmax(k->sent[m], k->received[m]));
    return most;
}

/* Data alone, spread evenly: fills the links with shares of the buffer and takes the busiest. */
static shoal_status naive(const shoal_sparse_desc *d, shoal_sparse_cost *cost)
{
    links k = {0};
    const double bytes = 4.0 * (double)d->count / d->aggregators;
    shoal_arena *arena = shoali_arena_create(4096);
    shoal_status status = arena != NULL ? open_links(d, arena, &k) : SHOAL_ENOMEM;
    if (status == SHOAL_OK) {
        for (uint32_t a = 0; a < d->aggregators; a++) {
            k.down[a] = cost->together * bytes;
            for (uint32_t w = 0; w < d->workers; w++)
                k.up[w * d->aggregators + a] = cost->density * bytes;
        }
        cost->naive_bytes = busiest(d, &k);
        cost->ring_bytes = 8.0 * (double)d->count * (d->workers - 1) / d->workers;
    }
    shoali_arena_destroy(arena);
    return status;
}

shoal_status shoali_omni_cost(const shoal_sparse_desc *desc, double density, double together,
                              shoal_sparse_cost *cost_out)
{
    shoali_omni_layout l;
    SHOALI_TRY(check(desc, &l));
    if (!(density >= 0 && density <= together && together <= 1))
        return shoali_fail(SHOAL_EINVAL, "sparse model: density %g, together %g are no shares",
                           density, together);
    const double n = desc->workers;
    shoal_sparse_cost cost = {
        .size = sizeof cost, .blocks = l.blocks, .density = density, .together = together};
    SHOALI_TRY(naive(desc, &cost));
    const double first = l.blocks > 0 ? fmin(1, (double)l.columns / l.blocks) : 0;
    const double own = first + density * (1 - first), head = (double)desc->head_bytes / l.fusion;
    cost.moved = first + cost.together * (1 - first);
    const double up = own * l.blocks * (4.0 * l.block + 4 + head);
    const double down = cost.moved * l.blocks * (4.0 * l.block + 8 + head);
    /* a worker's link, and a shard's; co-located one link carries both */
    const double a = desc->aggregators, home = 1 / a;
    if (desc->dedicated)
        cost.busiest_bytes = fmax(fmax(up, down), fmax(n * up / a, n * down / a));
    else
        cost.busiest_bytes = fmax(up * (1 - home) + (n - 1) * down / a,
                                  down * (1 - home) + (n - 1) * up / a);
    *cost_out = cost;
    return SHOAL_OK;
}

shoal_status shoal_sparse_expect(const shoal_sparse_desc *desc, double density, bool overlapping,
                                 shoal_sparse_cost *cost_out)
{
    if (!(density >= 0 && density <= 1))
        return shoali_fail(SHOAL_EINVAL, "sparse model: density %g is no share", density);
    const double together = overlapping ? density : 1 - pow(1 - density, desc->workers);
    return shoali_omni_cost(desc, density, fmax(density, together), cost_out);
}

/* ------------------------------------------------------------------ counting */

static bool any(const shoal_sparse_desc *d, const shoali_omni_layout *l, const uint8_t *nonzero,
                uint32_t b)
{
    for (uint32_t w = 0; w < d->workers; w++)
        if (nonzero[(size_t)w * l->blocks + b] != 0)
            return true;
    return false;
}

/* The next block of a column, from b on, that travels. */
static uint64_t travels(const shoal_sparse_desc *d, const shoali_omni_layout *l,
                        const uint8_t *nonzero, uint64_t b)
{
    while (b < l->blocks && b >= l->columns && !any(d, l, nonzero, (uint32_t)b))
        b += l->columns;
    return b;
}

/* One round of a slot: `at` are its blocks, those beyond the end are over. Returns how many. */
static uint32_t count_round(const shoal_sparse_desc *d, const shoali_omni_layout *l,
                            const uint8_t *nonzero, uint32_t slot, const uint64_t *at, links *k)
{
    uint32_t blocks = 0, shard = slot % l->aggregators;
    for (uint32_t i = 0; i < l->fusion; i++)
        blocks += at[i] < l->blocks;
    if (blocks == 0)
        return 0;
    k->down[shard] += (double)shoali_omni_result_bytes(l, blocks) + d->head_bytes;
    for (uint32_t w = 0; w < d->workers; w++) {
        uint32_t own = 0;
        for (uint32_t i = 0; i < l->fusion; i++)
            own += at[i] < l->blocks &&
                   (at[i] < l->columns || nonzero[(size_t)w * l->blocks + at[i]] != 0);
        if (own > 0)
            k->up[w * l->aggregators + shard] += (double)shoali_omni_contribution_bytes(l, own) +
                                                 d->head_bytes;
    }
    return blocks;
}

static uint64_t count_slot(const shoal_sparse_desc *d, const shoali_omni_layout *l,
                           const uint8_t *nonzero, uint32_t slot, links *k)
{
    uint64_t at[SHOALI_OMNI_FUSION_MAX], total = 0;
    for (uint32_t i = 0; i < l->fusion; i++)
        at[i] = (uint64_t)slot * l->fusion + i;
    for (uint32_t blocks; (blocks = count_round(d, l, nonzero, slot, at, k)) > 0;) {
        total += blocks;
        for (uint32_t i = 0; i < l->fusion; i++)
            if (at[i] < l->blocks)
                at[i] = travels(d, l, nonzero, at[i] + l->columns);
    }
    return total;
}

static void count_shares(const shoal_sparse_desc *d, const shoali_omni_layout *l,
                         const uint8_t *nonzero, shoal_sparse_cost *cost)
{
    uint64_t own = 0, together = 0;
    for (size_t i = 0; i < (size_t)d->workers * l->blocks; i++)
        own += nonzero[i] != 0;
    for (uint32_t b = 0; b < l->blocks; b++)
        together += any(d, l, nonzero, b);
    cost->blocks = l->blocks;
    if (l->blocks == 0)
        return;
    cost->density = (double)own / ((double)d->workers * l->blocks);
    cost->together = (double)together / l->blocks;
}

static shoal_status count(const shoal_sparse_desc *d, const shoali_omni_layout *l,
                          const uint8_t *nonzero, shoal_arena *arena, links *k,
                          shoal_sparse_cost *cost)
{
    uint64_t moved = 0;
    SHOALI_TRY(open_links(d, arena, k));
    count_shares(d, l, nonzero, cost);
    SHOALI_TRY(naive(d, cost));
    for (uint32_t slot = 0; slot < l->slots; slot++)
        moved += count_slot(d, l, nonzero, slot, k);
    cost->moved = l->blocks > 0 ? (double)moved / l->blocks : 0;
    cost->busiest_bytes = busiest(d, k);
    return SHOAL_OK;
}

shoal_status shoal_sparse_count(const shoal_sparse_desc *desc, const uint8_t *nonzero,
                                uint64_t *sent_out, uint64_t *received_out,
                                shoal_sparse_cost *cost_out)
{
    shoali_omni_layout l;
    links k = {0};
    shoal_sparse_cost cost = {.size = sizeof cost};
    SHOALI_TRY(check(desc, &l));
    shoal_arena *arena = shoali_arena_create(1 << 14);
    shoal_status status = arena != NULL ? count(desc, &l, nonzero, arena, &k, &cost) : SHOAL_ENOMEM;
    for (uint32_t m = 0; status == SHOAL_OK && m < k.members; m++) {
        if (sent_out != NULL)
            sent_out[m] = (uint64_t)k.sent[m];
        if (received_out != NULL)
            received_out[m] = (uint64_t)k.received[m];
    }
    shoali_arena_destroy(arena);
    if (status == SHOAL_OK)
        *cost_out = cost;
    return status;
}
