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
enum { STREAK = 2, MESSAGE_ELEMS = 1024 };

typedef struct params {
    int64_t block;
} params;

static const shoali_key keys[] = {
    {"block", SHOALI_KEY_INT, offsetof(params, block), 0, 1 << 16, NULL, "0",
     "elements of omnireduce's blocks; 0: of 32 to 1024 what the density says"},
};
static const shoali_schema schema = {keys, sizeof keys / sizeof *keys, sizeof(params)};

bool shoali_by_density_named(const char *spec)
{
    return spec != NULL && shoali_spec_name_len(spec) == 4 && strncmp(spec, "auto", 4) == 0;
}

/* The size that was named with omnireduce's own messages, or one of all. */
static void name_blocks(shoali_ways *ways, uint32_t i, uint32_t named)
{
    const uint32_t way = SHOALI_BLOCKS + i, block = SHOALI_BY_DENSITY_PIECE << i;
    char fusion[24] = "";
    ways->name[way] = "blocks";
    ways->block[i] = named > 0 ? named : block;
    if (named == 0)
        snprintf(fusion, sizeof fusion, ",fusion=%u", MESSAGE_ELEMS / block);
    snprintf(ways->codec[way], sizeof ways->codec[way], "identity");
    snprintf(ways->collective[way], sizeof ways->collective[way], "omnireduce:block=%u%s%s",
             ways->block[i], fusion, ways->aggregators > 0 ? ",dedicated" : "");
}

static float share(size_t full, size_t count, uint32_t block)
{
    return count > 0 ? (float)full / (float)((count + block - 1) / block) : 0;
}

shoal_status shoali_by_density_open(const char *spec, uint32_t workers, uint32_t aggregators,
                                    shoali_ways *ways_out)
{
    params p;
    SHOALI_TRY(shoali_spec_parse("collective", spec, &schema, &p));
    *ways_out = (shoali_ways){.name = {"dense", "pieces"},
                              .collective = {"ring", "gather"},
                              .codec = {"identity"},
                              .sizes = p.block > 0 ? 1 : SHOALI_BY_DENSITY_SIZES,
                              .workers = workers,
                              .aggregators = aggregators};
    snprintf(ways_out->codec[SHOALI_PIECES], sizeof ways_out->codec[SHOALI_PIECES],
             "threshold:block=%d,ef=off", SHOALI_BY_DENSITY_PIECE);
    for (uint32_t i = 0; i < ways_out->sizes; i++)
        name_blocks(ways_out, i, (uint32_t)p.block);
    return SHOAL_OK;
}

static size_t full_blocks(const float *x, size_t count, uint32_t block)
{
    size_t full = 0;
    for (size_t at = 0; at < count; at += block) {
        const size_t n = count - at < block ? count - at : block;
        full += shoali_kernel()->or_bits(x + at, n) << 1 != 0;
    }
    return full;
}

/* In one pass: each size is twice the one before, pieces are of the first. */
static void full_of_all(const float *x, size_t count, size_t full[SHOALI_BY_DENSITY_SIZES])
{
    size_t last[SHOALI_BY_DENSITY_SIZES] = {0}; /* full block of each size, counted from 1 */
    for (size_t at = 0; at < count; at += SHOALI_BY_DENSITY_PIECE) {
        const size_t left = count - at, piece = at / SHOALI_BY_DENSITY_PIECE;
        const size_t n = left < SHOALI_BY_DENSITY_PIECE ? left : SHOALI_BY_DENSITY_PIECE;
        if (shoali_kernel()->or_bits(x + at, n) << 1 == 0)
            continue;
        for (uint32_t i = 0; i < SHOALI_BY_DENSITY_SIZES && last[i] != (piece >> i) + 1; i++) {
            last[i] = (piece >> i) + 1;
            full[i]++;
        }
    }
}

void shoali_by_density_look(const shoali_ways *ways, const float *x, size_t count,
                            shoali_density *density_out)
{
    size_t full[SHOALI_BY_DENSITY_SIZES] = {0}, pieces;
    *density_out = (shoali_density){0};
    if (ways->sizes == SHOALI_BY_DENSITY_SIZES) {
        full_of_all(x, count, full);
        pieces = full[0];
    } else {
        full[0] = full_blocks(x, count, ways->block[0]);
        pieces = full_blocks(x, count, SHOALI_BY_DENSITY_PIECE);
    }
    density_out->pieces = share(pieces, count, SHOALI_BY_DENSITY_PIECE);
    for (uint32_t i = 0; i < ways->sizes; i++)
        density_out->blocks[i] = share(full[i], count, ways->block[i]);
}

/* ------------------------------------------------------------------ bytes of the busiest link */

static double mean_blocks(const shoali_ways *ways, const shoali_density *all, uint32_t size)
{
    double sum = 0;
    for (uint32_t r = 0; r < ways->workers; r++)
        sum += all[r].blocks[size];
    return sum / ways->workers;
}

static shoal_status bytes_of_blocks(const shoali_ways *ways, size_t count, uint32_t way, double own,
                                    double together, double *bytes_out)
{
    shoal_sparse_desc desc;
    shoal_sparse_cost cost;
    SHOALI_TRY(shoal_sparse_describe(ways->collective[way], count, ways->workers,
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

static void compare(shoali_by_density *bucket, uint32_t sizes)
{
    uint32_t best = 0;
    for (uint32_t way = 1; way < SHOALI_BLOCKS + sizes; way++)
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
                                      size_t count, const shoali_density *all,
                                      const shoali_density *together)
{
    learn_pace(bucket, ways, all); /* of the operations behind the last measurement */
    bucket->bytes[SHOALI_DENSE] = 8.0 * (double)count * (ways->workers - 1) / ways->workers;
    bucket->bytes[SHOALI_PIECES] = bytes_of_pieces(ways, count, all);
    for (uint32_t i = 0; i < ways->sizes; i++) {
        const uint32_t way = SHOALI_BLOCKS + i;
        const double own = mean_blocks(ways, all, i);
        SHOALI_TRY(
            bytes_of_blocks(ways, count, way, own, together->blocks[i], &bucket->bytes[way]));
        if (i > 0 && bucket->bytes[way] >= bucket->bytes[bucket->best])
            continue;
        bucket->best = way;
        bucket->own = own;
        bucket->together = together->blocks[i];
    }
    if (ways->workers > 1)
        compare(bucket, ways->sizes);
    return SHOAL_OK;
}
