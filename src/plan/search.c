/* SPDX-License-Identifier: Apache-2.0 */
/* The best configuration: every combination of sizes, then of the ways to exchange, with the global
 * batch held; then the protocols on what came out best. What does not fit into memory is kept
 * apart, fastest first, to say so. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plan/front.h"
#include "plan/predict.h"
#include "sync/sync.h"

enum { KEEP_MAX = 100, UNFIT_MAX = 3 };

struct shoal_search {
    shoal_arena *arena;
    shoali_question base; /* model and cluster of all */
    shoali_front front;
    uint64_t global_batch, tried, fit, bounded;
    uint64_t ways, ways_all; /* gone through, and in all */
    bool counting;           /* them, and no more */
    void (*tell)(void *ctx, double done, double total);
    void *tell_ctx;
    uint32_t keep, count, unfit_count;
    shoal_candidate best[KEEP_MAX + 1], unfit[UNFIT_MAX + 1];
};

/* What the best has most of. */
static double score(const shoal_candidate *c)
{
    const shoal_prediction *p = &c->prediction;
    switch (c->desc.objective) {
    case SHOAL_OBJECTIVE_COST:
        return p->samples_per_s / p->price;
    case SHOAL_OBJECTIVE_ENERGY:
        return p->samples_per_s / p->watts;
    default:
        return p->samples_per_s;
    }
}

/* As far apart as what is said to be as good: 0.05 %. */
static bool ties(const shoal_candidate *a, const shoal_candidate *b)
{
    double x = score(a), y = score(b);
    return fabs(x - y) <= 5e-4 * fmax(x, y) && a->prediction.workers == b->prediction.workers;
}

/* Insert by score; the list holds at most `most`. Of equals the first one found stays: names
 * are tried from the plain ones on. */
static void insert(shoal_candidate *list, uint32_t *count, uint32_t most,
                   const shoal_candidate *candidate)
{
    uint32_t i = *count;
    for (uint32_t k = 0; k < *count; k++)
        if (ties(&list[k], candidate)) {
            list[k].ties++;
            return;
        }
    while (i > 0 && score(&list[i - 1]) < score(candidate)) {
        list[i] = list[i - 1];
        i--;
    }
    list[i] = *candidate;
    if (*count < most)
        (*count)++;
}

/* SHOAL_OK with *sized_out false: it does not divide or cannot be costed, and is no candidate. */
static shoal_status answer(shoal_search *s, const shoal_predict_desc *desc, bool bound,
                           shoal_prediction *out, bool *sized_out)
{
    shoali_question q;
    shoal_status status = shoali_question_again(&s->base, desc, &q);
    if (status == SHOAL_OK) {
        q.bound = bound;
        status = shoali_question_answer(&q, out);
        shoali_question_close(&q);
    }
    *sized_out = status == SHOAL_OK;
    return status == SHOAL_EINVAL || status == SHOAL_ENOTSUP ? SHOAL_OK : status;
}

/* Exchanges and schedules only add to computation: without any, this configuration would have to be
 * among the best, or on the front, to be looked at further; what does not fit, among the fastest of
 * its kind. */
static shoal_status is_hopeless(shoal_search *s, const shoal_predict_desc *desc, bool *out)
{
    shoal_candidate c = {.desc = *desc};
    bool sized;
    *out = false;
    if (desc->sync != NULL)
        return SHOAL_OK;
    SHOALI_TRY(answer(s, desc, true, &c.prediction, &sized));
    if (!sized)
        return SHOAL_OK;
    if (c.prediction.memory_bytes > c.prediction.capacity_bytes)
        *out = s->unfit_count == UNFIT_MAX &&
               score(&c) < score(&s->unfit[UNFIT_MAX - 1]) * (1 - 1e-9);
    else
        *out = s->count == s->keep && score(&c) < score(&s->best[s->count - 1]) * (1 - 1e-9) &&
               shoali_front_beats(&s->front, &c.prediction);
    return SHOAL_OK;
}

static shoal_status consider(shoal_search *s, const shoal_predict_desc *desc)
{
    shoal_candidate candidate = {.desc = *desc};
    bool sized;
    SHOALI_TRY(answer(s, desc, false, &candidate.prediction, &sized));
    if (!sized)
        return SHOAL_OK;
    s->tried++;
    if (candidate.prediction.memory_bytes > candidate.prediction.capacity_bytes) {
        insert(s->unfit, &s->unfit_count, UNFIT_MAX, &candidate);
        return SHOAL_OK;
    }
    s->fit++;
    insert(s->best, &s->count, s->keep, &candidate);
    return shoali_front_add(&s->front, &candidate);
}

/* ---------------------------------------------------------------- the ways to exchange */

typedef struct names {
    const char *item[64];
    uint32_t count;
} names;

static void list_collectives(const shoal_predict_desc *desc, names *out)
{
    *out = (names){{desc->collective}, 1};
    if (desc->collective != NULL)
        return;
    out->count = 0;
    for (size_t i = 0; i < shoali_collective_count() && out->count < 64; i++) {
        const shoali_collective_row *row = shoali_collective_row_at(i);
        if ((row->traits & (SHOALI_COLL_ROOTED | SHOALI_COLL_FLOW | SHOALI_COLL_SLOTS)) == 0)
            out->item[out->count++] = row->name;
    }
}

static void list_codecs(const shoal_predict_desc *desc, names *out)
{
    *out = (names){{desc->codec}, 1};
    if (desc->codec != NULL)
        return;
    out->count = 0;
    for (size_t i = 0; shoal_codec_row_name(i) != NULL && out->count < 64; i++) {
        shoal_codec *codec = NULL;
        if (shoal_codec_open(shoal_codec_row_name(i), &codec) != SHOAL_OK)
            continue;
        uint32_t barred = SHOAL_CODEC_SLOTS | SHOAL_CODEC_TRANSFORM;
        bool exact = (shoal_codec_traits(codec) & SHOAL_CODEC_LOSSLESS) != 0;
        if ((shoal_codec_traits(codec) & barred) == 0 && (exact || desc->allow_lossy))
            out->item[out->count++] = shoal_codec_row_name(i);
        shoal_codec_close(codec);
    }
}

static shoal_status try_exchanges(shoal_search *s, const shoal_predict_desc *base, uint32_t data)
{
    static const size_t buckets[] = {(size_t)1 << 20, (size_t)4 << 20, (size_t)16 << 20};
    names collectives, codecs;
    shoal_predict_desc d = *base;
    if (data < 2)
        return consider(s, &d);
    bool slow;
    list_collectives(base, &collectives);
    list_codecs(base, &codecs);
    SHOALI_TRY(is_hopeless(s, base, &slow));
    if (slow) {
        s->bounded += (uint64_t)collectives.count * codecs.count *
                      (base->bucket_bytes != 0 ? 1 : 3);
        return SHOAL_OK;
    }
    for (uint32_t c = 0; c < collectives.count; c++)
        for (uint32_t k = 0; k < codecs.count; k++)
            for (size_t b = 0; b < (base->bucket_bytes != 0 ? 1 : 3); b++) {
                d.collective = collectives.item[c];
                d.codec = codecs.item[k];
                d.bucket_bytes = base->bucket_bytes != 0 ? base->bucket_bytes : buckets[b];
                SHOALI_TRY(consider(s, &d));
            }
    return SHOAL_OK;
}

static shoal_status try_protocols(shoal_search *s, const shoal_predict_desc *base)
{
    if (s->count == 0 || s->best[0].prediction.data < 2)
        return SHOAL_OK;
    const shoal_predict_desc best = s->best[0].desc;
    for (size_t i = 0; i < shoali_sync_count(); i++) {
        const shoali_sync_row *row = shoali_sync_row_at(i);
        shoal_predict_desc d = best;
        d.sync = row->name;
        if ((row->traits & SHOALI_SYNC_GRADIENTS) != 0)
            continue;
        if ((row->traits & SHOALI_SYNC_CODED) == 0)
            d.codec = base->codec; /* what was asked for is kept, and refused where it cannot be */
        if ((row->traits & SHOALI_SYNC_COLLECTIVE) == 0)
            d.collective = base->collective;
        SHOALI_TRY(consider(s, &d));
    }
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- sizes */

typedef struct ranges {
    bool language, recompute; /* recompute: said */
    uint32_t workers;
} ranges;

static uint32_t context_of(const shoal_predict_desc *d)
{
    return d->context > 0 ? d->context : 1;
}

/* Replicas with samples of their own. */
static uint32_t data_of(const shoal_predict_desc *d)
{
    return d->workers / (d->tensor * d->pipeline * context_of(d));
}

/* One way to run sizes that are given. */
static shoal_status try_way(shoal_search *s, const shoal_predict_desc *d, const ranges *r)
{
    bool slow;
    s->ways++;
    if (s->counting)
        return SHOAL_OK;
    if (s->tell != NULL)
        s->tell(s->tell_ctx, (double)(s->ways - 1), (double)s->ways_all);
    if (!r->language)
        return try_exchanges(s, d, data_of(d));
    SHOALI_TRY(is_hopeless(s, d, &slow));
    s->bounded += slow;
    return slow ? SHOAL_OK : consider(s, d);
}

/* Recomputation and what replicas share, the plain ones first. */
static shoal_status try_memory(shoal_search *s, const shoal_predict_desc *base, const ranges *r)
{
    shoal_predict_desc d = *base;
    uint32_t data = data_of(&d);
    uint32_t zeros = base->zero != 0 || data * context_of(&d) < 2 ? 0 : d.pipeline > 1 ? 1 : 3;
    for (uint32_t zero = 0; zero <= zeros; zero++)
        for (int again = 0; again < (r->language ? 3 : 1); again++) {
            if (base->flash && again == SHOAL_RECOMPUTE_SELECTIVE)
                continue;
            d.zero = base->zero != 0 ? base->zero : zero;
            d.recompute = r->language && !r->recompute ? (shoal_recompute)again : base->recompute;
            if (again == 0 || !r->recompute)
                SHOALI_TRY(try_way(s, &d, r));
        }
    return SHOAL_OK;
}

/* Chunks per stage: as many as divide its blocks, up to eight. */
static shoal_status try_chunks(shoal_search *s, const shoal_predict_desc *base, const ranges *r)
{
    shoal_predict_desc d = *base;
    uint32_t each = (s->base.blocks + d.pipeline - 1) / d.pipeline;
    if (base->interleave != 0 || !r->language || d.pipeline == 1)
        return try_memory(s, &d, r);
    for (uint32_t chunks = 1; chunks <= 8 && chunks <= each; chunks++) {
        if (each % chunks != 0 || (chunks > 1 && d.batch / d.microbatch % d.pipeline != 0))
            continue;
        d.interleave = chunks;
        SHOALI_TRY(try_memory(s, &d, r));
    }
    return SHOAL_OK;
}

static shoal_status try_pipelines(shoal_search *s, const shoal_predict_desc *base, const ranges *r)
{
    static const uint32_t micro[] = {1, 2, 4};
    shoal_predict_desc d = *base;
    uint32_t data = data_of(&d);
    if (d.workers % (d.tensor * d.pipeline * context_of(&d)) != 0 || s->global_batch % data != 0)
        return SHOAL_OK;
    d.batch = (uint32_t)(s->global_batch / data);
    for (int m = 0; m < (base->microbatch != 0 || d.pipeline == 1 ? 1 : 3); m++) {
        d.microbatch = base->microbatch != 0 ? base->microbatch : micro[m];
        if (base->microbatch == 0 && d.pipeline == 1)
            d.microbatch = r->language && d.batch > 1 ? 1 : d.batch;
        d.sequence = r->language && d.tensor > 1;
        if (d.batch % d.microbatch == 0)
            SHOALI_TRY(try_chunks(s, &d, r));
    }
    return SHOAL_OK;
}

static shoal_status try_sizes(shoal_search *s, const shoal_predict_desc *base, const ranges *r)
{
    uint32_t least = base->workers != 0 ? r->workers : 1;
    for (uint32_t workers = least; workers <= r->workers; workers++) {
        if (r->workers % workers != 0)
            continue;
        for (uint32_t tensor = 1; tensor <= workers && tensor <= 16; tensor *= 2)
            for (uint32_t pipeline = 1; pipeline <= workers / tensor; pipeline++) {
                shoal_predict_desc d = *base;
                if (workers % (tensor * pipeline * context_of(base)) != 0 ||
                    (base->tensor != 0 && base->tensor != tensor) ||
                    (base->pipeline != 0 && base->pipeline != pipeline) ||
                    (!r->language && base->tensor == 0 && tensor > 4))
                    continue;
                d.workers = workers;
                d.tensor = tensor;
                d.pipeline = pipeline;
                SHOALI_TRY(try_pipelines(s, &d, r));
            }
    }
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- why */

static void explain(const shoal_prediction *best, shoal_candidate *c)
{
    const shoal_prediction *p = &c->prediction;
    const struct {
        const char *name;
        double more;
    } parts[] = {
        {"computation", p->forward_s + p->backward_s - best->forward_s - best->backward_s},
        {"recomputation", p->recompute_s - best->recompute_s},
        {"exposed exchange of gradients", p->exposed_s - best->exposed_s},
        {"tensor parallelism's exchange",
         p->tensor_s + p->tensor_again_s - best->tensor_s - best->tensor_again_s},
        {"way to the host's memory", p->offload_s - best->offload_s},
        {"sending of keys and values", p->context_s - best->context_s},
        {"sending between stages", p->pipeline_s - best->pipeline_s},
        {"pipeline bubble", p->bubble_s - best->bubble_s},
        {"waiting for the slowest worker", p->straggler_s - best->straggler_s},
        {"optimiser", p->update_s - best->update_s},
    };
    size_t most = 0;
    if (p->memory_bytes > p->capacity_bytes) {
        snprintf(c->why, sizeof c->why, "does not fit: needs %.1f GB of %.1f",
                 p->memory_bytes / 1e9, p->capacity_bytes / 1e9);
        return;
    }
    for (size_t i = 1; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].more > parts[most].more)
            most = i;
    double slower = 100 * (best->samples_per_s / p->samples_per_s - 1);
    if (c->desc.objective == SHOAL_OBJECTIVE_ENERGY)
        snprintf(c->why, sizeof c->why, "%.1f %% more energy",
                 100 * (best->samples_per_s / best->watts * p->watts / p->samples_per_s - 1));
    else if (c->desc.objective == SHOAL_OBJECTIVE_COST)
        snprintf(c->why, sizeof c->why, "%.1f %% dearer",
                 100 * (best->samples_per_s / best->price * p->price / p->samples_per_s - 1));
    else if (slower < 0.05)
        snprintf(c->why, sizeof c->why, "as fast");
    else
        snprintf(c->why, sizeof c->why, "%.1f %% slower: %.3g ms more %s", slower,
                 1e3 * parts[most].more, parts[most].name);
}

/* With intervals; what exchanges cost is remembered. */
static shoal_status finish(shoal_search *s, shoal_candidate *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        shoali_question q;
        SHOALI_TRY(shoali_question_again(&s->base, &list[i].desc, &q));
        const shoal_status status = shoali_question_predict(&q, &list[i].prediction);
        shoali_question_close(&q);
        SHOALI_TRY(status);
    }
    for (uint32_t i = 0; s->count > 0 && i < count; i++)
        explain(&s->best[0].prediction, &list[i]);
    return SHOAL_OK;
}

static shoal_status check_objective(const shoal_search *s, const shoal_predict_desc *desc)
{
    for (uint32_t i = 0; i < s->base.cluster->accelerator_count; i++) {
        const shoali_accelerator *a = &s->base.cluster->accelerators[i];
        if (desc->objective == SHOAL_OBJECTIVE_COST && a->price == 0)
            return shoali_fail(SHOAL_EINVAL,
                               "objective cost needs a price of accelerator %s in cluster %s, per "
                               "hour",
                               a->name, desc->cluster);
        if (desc->objective == SHOAL_OBJECTIVE_ENERGY && a->watts == 0)
            return shoali_fail(SHOAL_EINVAL,
                               "objective energy needs the watts of accelerator %s in cluster %s",
                               a->name, desc->cluster);
    }
    return SHOAL_OK;
}

static shoal_status run(shoal_search *s, const shoal_predict_desc *desc)
{
    const shoali_scale none = SHOALI_SCALE_NONE;
    shoal_predict_desc plain = *desc;
    plain.collective = plain.codec = plain.sync = NULL;
    plain.tensor = plain.pipeline = plain.microbatch = plain.interleave = 0;
    plain.zero = plain.experts = plain.context = plain.offload = 0;
    plain.recompute = SHOAL_RECOMPUTE_NONE;
    plain.sequence = false;
    SHOALI_TRY(shoali_question_open(&plain, &none, &s->base));
    SHOALI_TRY(shoali_question_remember(&s->base, s->arena));
    ranges r = {s->base.language, desc->recompute != SHOAL_RECOMPUTE_NONE, s->base.desc.workers};
    SHOALI_TRY(check_objective(s, desc));
    uint64_t group = (uint64_t)(desc->tensor > 0 ? desc->tensor : 1) *
                     (desc->pipeline > 0 ? desc->pipeline : 1) * context_of(desc);
    s->global_batch = (uint64_t)s->base.desc.batch * s->base.desc.workers / group;
    s->counting = true;
    SHOALI_TRY(try_sizes(s, desc, &r));
    s->ways_all = s->ways;
    s->ways = 0;
    s->counting = false;
    SHOALI_TRY(try_sizes(s, desc, &r));
    if (s->tell != NULL)
        s->tell(s->tell_ctx, (double)s->ways_all, (double)s->ways_all);
    if (desc->sync == NULL && desc->allow_async)
        SHOALI_TRY(try_protocols(s, desc));
    shoali_front_sort(&s->front);
    SHOALI_TRY(finish(s, s->best, s->count));
    SHOALI_TRY(finish(s, s->unfit, s->unfit_count));
    return finish(s, s->front.item, s->front.count);
}

shoal_status shoal_predict_search(const shoal_predict_desc *desc, uint32_t keep,
                                  shoal_search **search_out)
{
    return shoal_predict_search_watched(desc, keep, NULL, NULL, search_out);
}

shoal_status shoal_predict_search_watched(const shoal_predict_desc *desc, uint32_t keep,
                                          void (*tell)(void *ctx, double done, double total),
                                          void *ctx, shoal_search **search_out)
{
    if (desc == NULL || desc->size != sizeof *desc || search_out == NULL)
        return shoali_fail(SHOAL_EINVAL,
                           "a search needs a description (SHOAL_PREDICT_DESC_INIT) and a place");
    if (keep == 0 || keep > KEEP_MAX)
        return shoali_fail(SHOAL_EINVAL, "a search keeps 1 .. %d candidates, not %u", KEEP_MAX,
                           keep);
    if (desc->plan != NULL)
        return shoali_fail(SHOAL_EINVAL, "a plan leaves nothing to search for: shoal partition "
                                         "found it");
    shoal_arena *arena = shoali_arena_create(sizeof(shoal_search) + 4096);
    shoal_search *s = arena != NULL ? shoali_arena_alloc(arena, sizeof *s) : NULL;
    if (s == NULL) {
        shoali_arena_destroy(arena);
        return SHOAL_ENOMEM;
    }
    s->arena = s->front.arena = arena;
    s->keep = keep;
    s->tell = tell;
    s->tell_ctx = ctx;
    shoal_status status = run(s, desc);
    if (status != SHOAL_OK)
        shoal_search_destroy(s);
    else
        *search_out = s;
    return status;
}

void shoal_search_destroy(shoal_search *search)
{
    if (search == NULL)
        return;
    shoali_question_close(&search->base);
    shoali_arena_destroy(search->arena);
}

const shoal_candidate *shoal_search_front(const shoal_search *search, uint32_t i)
{
    return i < search->front.count ? &search->front.item[i] : NULL;
}

const shoal_candidate *shoal_search_at(const shoal_search *search, uint32_t i)
{
    if (i < search->count)
        return &search->best[i];
    i -= search->count;
    return i < search->unfit_count ? &search->unfit[i] : NULL;
}

uint64_t shoal_search_tried(const shoal_search *search, uint64_t *fit_out)
{
    *fit_out = search->fit;
    return search->tried;
}

uint64_t shoal_search_bounded(const shoal_search *search)
{
    return search->bounded;
}
