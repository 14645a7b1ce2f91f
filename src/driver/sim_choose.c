/* SPDX-License-Identifier: Apache-2.0 */
/* `--sync auto` in virtual time: what sync/choose.h wants to know, from the specs of the run. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "driver/sim_parts.h"

static const double SLOW = 1.5, BUCKET_BYTES = 4 << 20; /* sim.c's */

/* The slowest worker and how many are half as slow again. */
static void find_slow(const shoal_sim *sim, uint32_t workers, shoali_sync_facts *facts)
{
    facts->slowest = 1;
    for (uint32_t w = 0; w < workers; w++) {
        const double factor = shoali_sim_lookup(&sim->asked.compute.slow, w, 1);
        facts->slowest = fmax(facts->slowest, factor);
        facts->slow_workers += factor >= SLOW;
    }
    facts->chance = sim->asked.compute.random_probability < 0
                        ? 1.0 / workers
                        : sim->asked.compute.random_probability;
    facts->by = sim->asked.compute.random_factor;
    if (!(facts->by > 1))
        facts->chance = 0;
}

/* The host with the slowest link holds all up. */
static void find_links(const shoal_sim *sim, uint32_t hosts, shoali_sync_facts *facts)
{
    double slow = 1;
    for (uint32_t host = 0; host < hosts; host++)
        slow = fmax(slow, shoali_sim_lookup(&sim->asked.network.slow, host, 1));
    facts->up_bytes_s = sim->asked.network.up_bits / 8 / slow * (1 - sim->asked.network.loss);
    facts->down_bytes_s = sim->asked.network.down_bits / 8 / slow * (1 - sim->asked.network.loss);
    facts->latency_s = sim->asked.network.latency_us * 1e-6;
}

static shoal_status own_codec(const shoal_sim_desc *desc, double *bytes_out)
{
    shoal_codec *codec;
    if (desc->codec == NULL || desc->codec[0] == '\0')
        return SHOAL_OK;
    SHOALI_TRY(shoal_codec_open(desc->codec, &codec));
    *bytes_out = shoal_codec_bytes_per_elem(codec, 1);
    shoal_codec_close(codec);
    return SHOAL_OK;
}

/* As many as gradients of about that size make, each of whole tensors. */
static uint32_t count_buckets(const shoal_sim *sim, const shoal_sim_desc *desc)
{
    const double bytes = desc->bucket_bytes > 0 ? (double)desc->bucket_bytes : BUCKET_BYTES;
    const double wanted = ceil((double)sim->count * sizeof(float) / bytes);
    return wanted < sim->tensor_count ? (uint32_t)wanted : sim->tensor_count;
}

shoal_status shoali_sim_choose(shoal_sim *sim, const shoal_sim_desc *desc)
{
    const uint32_t workers = desc->workers > 0 ? desc->workers : 4;
    shoali_sync_facts facts = {
        .workers = workers,
        .params = (size_t)((double)sim->count * (desc->inflate > 0 ? desc->inflate : 1)),
        .buckets = count_buckets(sim, desc),
        .compute_s = sim->asked.compute.ms * 1e-3,
        .backward = sim->asked.compute.backward,
        .sums = desc->collective != NULL && desc->collective[0] != '\0',
        .iterations = desc->until_s > 0 ? 0 : desc->iterations};
    if (desc->cluster != NULL || sim->asked.compute.from_model ||
        sim->asked.compute.trace[0] != '\0' || sim->asked.network.trace[0] != '\0' ||
        !(sim->asked.compute.ms > 0))
        return shoali_fail(SHOAL_EINVAL,
                           "--sync auto chooses by rates and compute times that are given and "
                           "stay: --network links:rate=... and --compute fixed:ms=..., without a "
                           "trace, a cluster or compute=model; name a protocol there");
    SHOALI_TRY(own_codec(desc, &facts.bytes_per_elem));
    find_slow(sim, workers, &facts);
    find_links(sim, sim->asked.network.hosts > 0 ? sim->asked.network.hosts : workers, &facts);
    shoali_sync_choose(&facts, &sim->choice);
    return SHOAL_OK;
}
