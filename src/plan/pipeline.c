/* SPDX-License-Identifier: Apache-2.0 */
/* One forward, one backward (PipeDream-Flush), with several chunks per stage interleaved as in
 * Megatron (Narayanan et al., "Efficient large-scale language model training on GPU clusters using
 * Megatron-LM", SC 2021, section 2.2). Four stages, four microbatches:
 *
 *     stage 0  F0 F1 F2 F3          B0    B1    B2    B3
 *           1     F0 F1 F2       B0 F3 B1    B2    B3
 *           2        F0 F1    B0 F2 B1 F3 B2    B3
 *           3           F0 B0 F1 B1 F2 B2 F3 B3
 *
 * Each stage has its passes in a fixed order; a pass begins when the one before it on its stage is
 * through, and that of the same microbatch on the chunk before it (behind it, for backward passes).
 *
 * Equal stages: microbatches x t + (stages - 1) x t / chunks, exactly. Others run as events. Once
 * more than PERIODS microbatches per stage have passed, all wait for the slowest stage, and each
 * further one costs its time. */
#include "plan/pipeline.h"

#include <math.h>

#include "base/error.h"

enum { PERIODS = 64 };

typedef struct pass {
    bool backward;
    uint32_t chunk; /* of the model */
    uint64_t micro;
} pass;

typedef struct run {
    const shoali_pipeline *p;
    uint64_t microbatches;
    double *ended[2]; /* forward, backward: [chunk of the model][microbatch]; < 0: not yet */
} run;

/* Of one stage. */
typedef struct stage_state {
    uint64_t next;
    double free_s;
} stage_state;

/* Passes forward before the first one backward. */
static uint64_t warm_up(const run *r, uint32_t stage)
{
    const shoali_pipeline *p = r->p;
    uint64_t all = r->microbatches * p->chunks, behind = p->stages - 1 - stage;
    if (p->chunks > 1)
        behind = r->microbatches == p->stages ? all : 2 * behind + (p->chunks - 1) * p->stages;
    return behind < all ? behind : all;
}

/* The n-th pass in one direction: microbatches in groups of one per stage, each group through all
 * chunks of a stage before the next group. */
static pass in_direction(const run *r, uint32_t stage, bool backward, uint64_t n)
{
    const shoali_pipeline *p = r->p;
    uint64_t round = (uint64_t)p->stages * p->chunks, within = n % round;
    uint32_t chunk = (uint32_t)(within / p->stages);
    if (backward)
        chunk = p->chunks - 1 - chunk;
    return (pass){backward, chunk * p->stages + stage, n / round * p->stages + within % p->stages};
}

static pass pass_at(const run *r, uint32_t stage, uint64_t n)
{
    uint64_t warm = warm_up(r, stage), all = r->microbatches * r->p->chunks;
    if (n < warm)
        return in_direction(r, stage, false, n);
    n -= warm;
    if (n >= 2 * (all - warm))
        return in_direction(r, stage, true, n - (all - warm));
    return n % 2 == 0 ? in_direction(r, stage, false, warm + n / 2)
                      : in_direction(r, stage, true, n / 2);
}

/* When what a pass needs from elsewhere is there; < 0: not yet known. */
static double ready_s(const run *r, pass at)
{
    uint32_t last = r->p->stages * r->p->chunks - 1;
    if (!at.backward && at.chunk == 0)
        return 0;
    if (at.backward && at.chunk == last)
        return r->ended[0][last * r->microbatches + at.micro];
    uint64_t chunk = at.backward ? at.chunk + 1 : at.chunk - 1;
    return r->ended[at.backward][chunk * r->microbatches + at.micro];
}

/* Let one stage go as far as it can; whether it has moved. */
static bool advance(run *r, uint32_t stage, stage_state *place)
{
    uint64_t begun = place->next, all = 2 * r->microbatches * r->p->chunks;
    for (; place->next < all; place->next++) {
        pass at = pass_at(r, stage, place->next);
        double ready = ready_s(r, at);
        if (ready < 0)
            break;
        const double *seconds = at.backward ? r->p->backward : r->p->forward;
        place->free_s = fmax(place->free_s, ready) + seconds[at.chunk];
        r->ended[at.backward][at.chunk * r->microbatches + at.micro] = place->free_s;
    }
    return place->next > begun;
}

static shoal_status run_events(run *r, shoal_arena *arena, double *seconds_out)
{
    uint64_t cells = (uint64_t)r->p->stages * r->p->chunks * r->microbatches;
    stage_state *places = shoali_arena_array(arena, r->p->stages, sizeof *places);
    r->ended[0] = shoali_arena_array(arena, 2 * cells, sizeof *r->ended[0]);
    if (places == NULL || r->ended[0] == NULL)
        return SHOAL_ENOMEM;
    r->ended[1] = r->ended[0] + cells;
    for (uint64_t i = 0; i < 2 * cells; i++)
        r->ended[0][i] = -1;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < r->p->stages; i++)
            moved = advance(r, i, &places[i]) || moved;
    }
    *seconds_out = 0;
    for (uint32_t i = 0; i < r->p->stages; i++)
        *seconds_out = fmax(*seconds_out, places[i].free_s);
    return SHOAL_OK;
}

static bool are_equal(const shoali_pipeline *p)
{
    for (uint32_t i = 1; i < p->stages * p->chunks; i++)
        if (fabs(p->forward[i] - p->forward[0]) > 1e-12 * p->forward[0] ||
            fabs(p->backward[i] - p->backward[0]) > 1e-12 * p->backward[0])
            return false;
    return true;
}

static double busiest_s(const shoali_pipeline *p)
{
    double most = 0;
    for (uint32_t i = 0; i < p->stages; i++) {
        double own = 0;
        for (uint32_t c = 0; c < p->chunks; c++)
            own += p->forward[c * p->stages + i] + p->backward[c * p->stages + i];
        most = fmax(most, own);
    }
    return most;
}

shoal_status shoali_pipeline_run(const shoali_pipeline *p, shoal_arena *arena, double *seconds_out)
{
    double busiest = busiest_s(p), m = (double)p->microbatches;
    if (p->stages == 1 || are_equal(p)) {
        *seconds_out = m * busiest + (p->stages - 1) * busiest / p->chunks;
        return SHOAL_OK;
    }
    run r = {.p = p, .microbatches = p->microbatches};
    if (r.microbatches > (uint64_t)PERIODS * p->stages)
        r.microbatches = (uint64_t)PERIODS * p->stages;
    SHOALI_TRY(run_events(&r, arena, seconds_out));
    *seconds_out += (m - (double)r.microbatches) * busiest;
    return SHOAL_OK;
}

double shoali_pipeline_least(const shoali_pipeline *p)
{
    double most = 0, way = 0;
    for (uint32_t i = 0; i < p->stages; i++) {
        double own = 0;
        for (uint32_t c = 0; c < p->chunks; c++)
            own += p->forward[c * p->stages + i] + p->backward[c * p->stages + i];
        most = fmax(most, (double)p->microbatches * own + way);
        way += p->forward[i] + p->backward[i];
    }
    return most;
}
