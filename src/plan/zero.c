/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas that share what each would have (Rajbhandari et al., "ZeRO", SC 2020, section 7): the
 * all-reduce becomes a reduce-scatter of gradients, and weights are gathered. With n replicas and W
 * bytes of weights each sends, by (n - 1) / n:
 *
 *     stage 1     W scattered once per step, W gathered once per step
 *           2     W scattered per microbatch, W gathered per step
 *           3     W scattered and 2 W gathered per microbatch, before each pass (FSDP)
 *
 * In stage 3 the next unit's weights are gathered while one computes (Zhao et al., "PyTorch FSDP",
 * VLDB 2023, section 3.3), and its gradients are scattered while the next one does:
 *
 *     computes        f0    f1    f2   b2    b1    b0
 *     link       g0   g1    g2    -    g1    s2 g0 s1   s0
 *
 * The last unit's weights stay for the way back. One exchange at a time; a pass of a unit waits for
 * its weights. */
#include <math.h>

#include "base/error.h"
#include "plan/predict.h"

static double seconds_of(const shoali_bucket_time *b)
{
    return fmax(b->link_s, b->cpu_s) + b->wait_s;
}

/* The link and the processor of one worker. */
typedef struct lanes {
    double link_free_s, now_s, sent_bytes, exchange_s;
} lanes;

/* Ask for an exchange at `from`; when it is through. */
static double exchange(lanes *l, double from, const shoali_bucket_time *b)
{
    l->link_free_s = fmax(l->link_free_s, from) + seconds_of(b);
    l->exchange_s += seconds_of(b);
    l->sent_bytes += b->sent_bytes;
    return l->link_free_s;
}

/* One microbatch through a stage; what it takes. */
static double run_microbatch(const shoali_unit *units, const shoali_bucket_time *exchanges,
                             uint32_t count, lanes *l)
{
    double there = exchange(l, 0, &exchanges[0]);
    for (uint32_t i = 0; i < count; i++) {
        l->now_s = fmax(l->now_s, there);
        if (i + 1 < count)
            there = exchange(l, l->now_s, &exchanges[i + 1]);
        l->now_s += shoali_unit_forward_s(&units[i].cost);
    }
    for (uint32_t i = count; i-- > 0;) {
        l->now_s = fmax(l->now_s, there);
        if (i > 0)
            there = exchange(l, l->now_s, &exchanges[i - 1]);
        l->now_s += shoali_unit_backward_s(&units[i].cost);
        (void)exchange(l, l->now_s, &exchanges[i]);
    }
    return fmax(l->now_s, l->link_free_s);
}

static shoal_status share_all(const shoali_work *w, const shoali_stage *s,
                              const shoali_replicas *replicas, double runs, shoal_prediction *out)
{
    const shoali_question *q = w->q;
    const shoali_unit *units = w->units + s->first;
    shoali_bucket_time *exchanges = shoali_arena_array(w->arena, s->count, sizeof *exchanges);
    lanes l = {0};
    double compute = 0;
    if (exchanges == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < s->count; i++) {
        const shoali_block_cost *c = &units[i].cost;
        compute += shoali_unit_forward_s(c) + shoali_unit_backward_s(c);
        if (c->params > 0)
            exchanges[i] = shoali_replicas_exchange(q, replicas, c->params, c->expert_params);
    }
    double end = run_microbatch(units, exchanges, s->count, &l);
    if (q->desc.no_overlap)
        end = compute + l.exchange_s;
    else if (q->perfect_overlap)
        end = fmax(compute, l.exchange_s);
    out->exposed_s = runs * (end - compute);
    out->hidden_s = runs * fmax(0, compute + l.exchange_s - end);
    out->sent_bytes = runs * l.sent_bytes;
    return SHOAL_OK;
}

shoal_status shoali_zero_exchange(const shoali_work *w, const shoali_stage *s,
                                  shoal_prediction *out)
{
    const shoali_question *q = w->q;
    double runs = (double)q->desc.batch / q->desc.microbatch;
    shoali_replicas replicas;
    SHOALI_TRY(shoali_replicas_cost(q, &replicas));
    if (q->desc.zero == 3)
        return share_all(w, s, &replicas, runs, out);
    shoali_bucket_time gather = shoali_replicas_exchange(q, &replicas, s->params, s->expert_params);
    if (q->desc.zero == 2) {
        out->exposed_s *= runs;
        out->hidden_s *= runs;
        out->codec_s *= runs;
        out->sent_bytes *= runs;
    }
    out->exposed_s += seconds_of(&gather);
    out->sent_bytes += gather.sent_bytes;
    return SHOAL_OK;
}
