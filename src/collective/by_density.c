/* SPDX-License-Identifier: Apache-2.0 */
#include "collective/by_density.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/spec.h"
#include "collective/omni.h"
#include "kernel/kernel.h"

static const double WORTH = 0.9; /* of the time of the way in use: below it a change pays */
enum { STREAK = 2 };

typedef struct params {
    int64_t block;
} params;

static const shoali_key keys[] = {
    {"block", SHOALI_KEY_INT, offsetof(params, block), 1, 1 << 20, NULL, "256",
     "elements of omnireduce's blocks"},
};
static const shoali_schema schema = {keys, sizeof keys / sizeof *keys, sizeof(params)};

bool shoali_by_density_named(const char *spec)
{
    return spec != NULL && shoali_spec_name_len(spec) == 4 && strncmp(spec, "auto", 4) == 0;
}

shoal_status shoali_by_density_open(const char *spec, uint32_t workers, uint32_t aggregators,
                                    shoali_ways *ways_out)
{
    params p;
    SHOALI_TRY(shoali_spec_parse("collective", spec, &schema, &p));
    *ways_out = (shoali_ways){.name = {"dense", "blocks", "pieces"},
                              .collective = {"ring", "", "gather"},
                              .codec = {"identity", "identity", ""},
                              .block = (uint32_t)p.block,
                              .workers = workers,
                              .aggregators = aggregators};
    snprintf(ways_out->collective[SHOALI_BLOCKS], sizeof ways_out->collective[SHOALI_BLOCKS],
             "omnireduce:block=%u%s", ways_out->block, aggregators > 0 ? ",dedicated" : "");
    snprintf(ways_out->codec[SHOALI_PIECES], sizeof ways_out->codec[SHOALI_PIECES],
             "threshold:block=%d,ef=off", SHOALI_BY_DENSITY_PIECE);
    return SHOAL_OK;
}

float shoali_by_density_look(const float *x, size_t count, uint32_t block)
{
    size_t blocks = 0, full = 0;
    for (size_t at = 0; at < count; at += block, blocks++) {
        const size_t n = count - at < block ? count - at : block;
        full += shoali_kernel()->or_bits(x + at, n) << 1 != 0;
    }
    return blocks > 0 ? (float)full / (float)blocks : 0;
}

/* ------------------------------------------------------------------ bytes of the busiest link */

static double mean_blocks(const shoali_ways *ways, const shoali_density *all)
{
    double sum = 0;
    for (uint32_t r = 0; r < ways->workers; r++)
        sum += all[r].blocks;
    return sum / ways->workers;
}

static shoal_status bytes_of_blocks(const shoali_ways *ways, size_t count, double own,
                                    double together, double *bytes_out)
{
    shoal_sparse_desc desc;
    shoal_sparse_cost cost;
    SHOALI_TRY(shoal_sparse_describe(ways->collective[SHOALI_BLOCKS], count, ways->workers,
                                     ways->workers + ways->aggregators, &desc));
    SHOALI_TRY(shoali_omni_cost(&desc, fmin(own, 1), fmin(fmax(own, together), 1), &cost));
    *bytes_out = cost.busiest_bytes;
    return SHOAL_OK;
}

/* A rank sends its own pieces to all others, and receives theirs. */
static double bytes_of_pieces(const shoali_ways *ways, size_t count, const shoali_density *all)
{
    const double map = (double)count / (8.0 * SHOALI_BY_DENSITY_PIECE), others = ways->workers - 1;
    double total = 0, most = 0;
    for (uint32_t r = 0; r < ways->workers; r++)
        total += 4.0 * (double)count * all[r].pieces + map;
    for (uint32_t r = 0; r < ways->workers; r++) {
        const double own = 4.0 * (double)count * all[r].pieces + map;
        most = fmax(most, fmax(others * own, total - own));
    }
    return most;
}

/* ------------------------------------------------------------------ choice */

static void learn_pace(shoali_by_density *bucket, const shoali_ways *ways,
                       const shoali_density *all)
{
    double sum = 0;
    for (uint32_t r = 0; r < ways->workers; r++)
        sum += all[r].took_s;
    if (sum > 0 && bucket->bytes[bucket->way] > 0)
        bucket->pace[bucket->way] = sum / ways->workers / bucket->bytes[bucket->way];
}

static double seconds_of(const shoali_by_density *bucket, uint32_t way)
{
    const double known = bucket->pace[way], current = bucket->pace[bucket->way];
    return bucket->bytes[way] * (known > 0 ? known : current > 0 ? current : 1);
}

static void compare(shoali_by_density *bucket)
{
    uint32_t best = 0;
    for (uint32_t way = 1; way < SHOALI_WAYS; way++)
        if (seconds_of(bucket, way) < seconds_of(bucket, best))
            best = way;
    if (best == bucket->way ||
        seconds_of(bucket, best) >= WORTH * seconds_of(bucket, bucket->way)) {
        bucket->streak = 0;
        return;
    }
    bucket->streak = bucket->streak > 0 && best == bucket->rival ? bucket->streak + 1 : 1;
    bucket->rival = best;
    if (bucket->streak >= STREAK) {
        bucket->way = best;
        bucket->streak = 0;
    }
}

shoal_status shoali_by_density_choose(shoali_by_density *bucket, const shoali_ways *ways,
                                      size_t count, const shoali_density *all, float together)
{
    learn_pace(bucket, ways, all); /* of the operations behind the last measurement */
    bucket->own = mean_blocks(ways, all);
    bucket->together = together;
    bucket->bytes[SHOALI_DENSE] = 8.0 * (double)count * (ways->workers - 1) / ways->workers;
    bucket->bytes[SHOALI_PIECES] = bytes_of_pieces(ways, count, all);
    SHOALI_TRY(bytes_of_blocks(ways, count, bucket->own, together, &bucket->bytes[SHOALI_BLOCKS]));
    if (ways->workers > 1)
        compare(bucket);
    return SHOAL_OK;
}
