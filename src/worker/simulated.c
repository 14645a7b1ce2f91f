/* SPDX-License-Identifier: Apache-2.0 */
/* Many workers in one process (desc.simulate): each worker's gradient is computed in turn, on the
 * samples that it would have; the exchange is the simulator's, with the engine, codecs, chunks and
 * random numbers of a real job. Replicas are equal bit for bit, so one model serves for all; that
 * they would be is checked after every exchange. No time is simulated: this is for accuracy. */
#include "worker/simulated.h"

#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "driver/sim_flow.h"

enum { CHUNK_ELEMS = 65536, SIMULATED_MOST = 256 };

struct shoali_simulated {
    shoal_arena *arena;
    shoal_codec *codec;
    shoali_collective collective;
    shoali_scratch *scratch;
    uint32_t workers, *endpoints;
    size_t count;
    float **bufs;
    float ***residuals;  /* [workers][tensors] */
    void **transforms;   /* [workers], made when first asked for */
    uint64_t sent_bytes; /* of the last exchange, by all */
};

static shoal_status make_residuals(shoali_simulated *s, const shoal_train *train)
{
    float *memory = shoali_arena_array(s->arena, s->workers * s->count, sizeof *memory);
    s->residuals = shoali_arena_array(s->arena, s->workers, sizeof *s->residuals);
    if (memory == NULL || s->residuals == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t w = 0; w < s->workers; w++) {
        s->residuals[w] = shoali_arena_array(s->arena, train->tensor_count, sizeof(float *));
        if (s->residuals[w] == NULL)
            return SHOAL_ENOMEM;
        for (uint32_t t = 0; t < train->tensor_count; t++)
            s->residuals[w][t] = memory + w * s->count + train->tensors[t].offset;
    }
    return SHOAL_OK;
}

static shoal_status fill(shoali_simulated *s, const shoal_train *train)
{
    s->workers = train->workers;
    s->count = train->param_count;
    SHOALI_TRY(shoal_codec_open(train->desc.codec, &s->codec));
    SHOALI_TRY(shoali_collective_open(train->desc.collective, &s->collective));
    s->scratch = shoali_scratch_create();
    s->bufs = shoali_arena_array(s->arena, s->workers, sizeof *s->bufs);
    s->endpoints = shoali_arena_array(s->arena, s->workers, sizeof *s->endpoints);
    float *memory = shoali_arena_array(s->arena, s->workers * s->count, sizeof *memory);
    if (s->scratch == NULL || s->bufs == NULL || s->endpoints == NULL || memory == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t w = 0; w < s->workers; w++) {
        s->endpoints[w] = w;
        s->bufs[w] = memory + w * s->count;
    }
    s->transforms = shoali_arena_array(s->arena, s->workers, sizeof *s->transforms);
    if (s->transforms == NULL)
        return SHOAL_ENOMEM;
    return s->codec->error_feedback ? make_residuals(s, train) : SHOAL_OK;
}

shoal_status shoali_simulated_create(shoal_train *train)
{
    if (train->workers > SIMULATED_MOST)
        return shoali_fail(SHOAL_EINVAL, "%u simulated workers: at most %d", train->workers,
                           SIMULATED_MOST);
    shoali_simulated *s = shoali_alloc(sizeof *s);
    if (s == NULL)
        return SHOAL_ENOMEM;
    train->simulated = s;
    s->arena = shoali_arena_create(1 << 16);
    return s->arena != NULL ? fill(s, train) : SHOAL_ENOMEM;
}

void shoali_simulated_destroy(shoal_train *train)
{
    shoali_simulated *s = train->simulated;
    if (s == NULL)
        return;
    shoal_codec_close(s->codec);
    shoali_collective_close(&s->collective);
    shoali_scratch_destroy(s->scratch);
    shoali_arena_destroy(s->arena);
    shoali_free(s);
    train->simulated = NULL;
}

void shoali_simulated_keep(shoal_train *train, uint32_t worker)
{
    memcpy(train->simulated->bufs[worker], train->grads,
           train->simulated->count * sizeof *train->grads);
}

static void carried(void *ctx, uint32_t from, uint32_t to, uint64_t bytes)
{
    (void)from, (void)to;
    ((shoali_simulated *)ctx)->sent_bytes += bytes;
}

/* The whole model is one operation. */
static void *transform(void *ctx, uint32_t member, size_t bytes)
{
    shoali_simulated *s = ctx;
    if (s->transforms[member] == NULL)
        s->transforms[member] = shoali_arena_alloc(s->arena, bytes);
    return s->transforms[member];
}

static shoal_status check_replicas(const shoali_simulated *s)
{
    for (uint32_t w = 1; w < s->workers; w++)
        if (memcmp(s->bufs[w], s->bufs[0], s->count * sizeof(float)) != 0)
            return shoali_fail(SHOAL_EMISMATCH,
                               "simulated worker %u holds other sums than worker 0", w);
    return SHOAL_OK;
}

shoal_status shoali_simulated_sum(shoal_train *train, bool *finite_out, shoal_sync_stats *stats_out)
{
    shoali_simulated *s = train->simulated;
    shoal_status result = SHOAL_OK;
    shoali_not_finite origin;
    shoali_sim_flow flow = {.bufs = s->bufs,
                            .residuals = (float *const *const *)s->residuals,
                            .ctx = s,
                            .transform = transform,
                            .carried = carried,
                            .dense_elems_out = &stats_out->dense_elems};
    flow.args = (shoali_flow_args){.id = {.group = 0, .sequence = train->step + 1, .round = 1},
                                   .kind = SHOAL_ALL_REDUCE,
                                   .size = s->workers,
                                   .contributors = s->workers,
                                   .endpoints = s->endpoints,
                                   .count = s->count,
                                   .tensors = train->tensors,
                                   .tensor_count = train->tensor_count,
                                   .push = s->codec,
                                   .pull = s->codec,
                                   .collective = &s->collective,
                                   .check_finite = true,
                                   .chunk_elems = CHUNK_ELEMS,
                                   .seed = train->desc.seed,
                                   .scratch = s->scratch};
    s->sent_bytes = 0;
    SHOALI_TRY(shoali_sim_flow_run(&flow, &result, &origin));
    *finite_out = result == SHOAL_OK;
    stats_out->sent_payload_bytes = s->sent_bytes;
    if (result == SHOAL_ENOTFINITE && train->desc.nonfinite == SHOAL_NONFINITE_STOP)
        return shoali_fail(
            SHOAL_ENOTFINITE, "the gradient of worker %u is not finite: tensor %llu, element %llu",
            origin.endpoint, (unsigned long long)origin.key, (unsigned long long)origin.index);
    if (result != SHOAL_OK)
        return result == SHOAL_ENOTFINITE ? SHOAL_OK : result;
    SHOALI_TRY(check_replicas(s));
    memcpy(train->grads, s->bufs[0], s->count * sizeof *train->grads);
    return SHOAL_OK;
}
