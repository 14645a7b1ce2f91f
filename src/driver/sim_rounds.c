/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of a transform codec: its rounds one after the other, each an operation of sim_flow.c,
 * as ops/rounds.c runs them on a network. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "driver/sim_flow.h"

typedef struct transform {
    const shoali_sim_flow *flow;
    void **states; /* [size] */
    size_t state_bytes;
    shoal_round *rounds; /* [size] */
    float **bufs;        /* [size], of a round */
    shoali_collective slots;
    uint64_t dense_elems;
} transform;

static shoal_status open_transform(transform *t, const shoali_sim_flow *flow)
{
    const shoali_flow_args *a = &flow->args;
    const shoali_codec_row *row = a->push->row;
    *t = (transform){.flow = flow,
                     .states = shoali_alloc_array(a->size, sizeof *t->states),
                     .state_bytes = row->state_size(a->push->params, a->tensors, a->tensor_count),
                     .rounds = shoali_alloc_array(a->size, sizeof *t->rounds),
                     .bufs = shoali_alloc_array(a->size, sizeof *t->bufs)};
    SHOALI_TRY(shoali_collective_open("gather", &t->slots));
    if (t->states == NULL || t->rounds == NULL || t->bufs == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t m = 0; m < a->size; m++) {
        t->states[m] = flow->transform(flow->ctx, m, t->state_bytes);
        if (t->states[m] == NULL)
            return SHOAL_ENOMEM;
    }
    return SHOAL_OK;
}

static void close_transform(transform *t)
{
    shoali_collective_close(&t->slots);
    shoali_free(t->states);
    shoali_free(t->rounds);
    shoali_free(t->bufs);
}

static shoal_status ask_round(transform *t, uint32_t index)
{
    const shoali_flow_args *a = &t->flow->args;
    for (uint32_t m = 0; m < a->size; m++) {
        t->rounds[m].members = a->size;
        SHOALI_TRY(a->push->row->next_round(a->push->params, t->states[m], a->tensors,
                                            a->tensor_count, index, t->flow->bufs[m],
                                            &t->rounds[m]));
        t->bufs[m] = t->rounds[m].buf;
    }
    return SHOAL_OK;
}

/* As ops/steps.c, at once and each time: members of a simulation come and go between any two. */
static void agree_on_steps(const transform *t)
{
    const shoali_flow_args *a = &t->flow->args;
    const shoali_codec_steps *steps = a->push->row->steps;
    float most[SHOALI_STEPS_VIEW] = {0}, view[SHOALI_STEPS_VIEW];
    bool anew = false;
    for (uint32_t m = 0; m < a->size; m++) {
        steps->look(a->push->params, t->states[m], a->tensors, a->tensor_count, view);
        for (int i = 0; i < SHOALI_STEPS_VIEW; i++) {
            anew = anew || (m > 0 && view[i] != most[i]);
            most[i] = view[i] > most[i] ? view[i] : most[i];
        }
    }
    for (uint32_t m = 0; m < a->size; m++)
        steps->go_on(a->push->params, t->states[m], a->tensors, a->tensor_count, (uint64_t)most[0],
                     anew);
}

/* What the first round would move if it carried every element, as ops/rounds.c counts. */
static void note_dense(transform *t, uint32_t index, uint64_t elems)
{
    const double whole = (double)t->flow->args.count, part = (double)t->rounds[0].count;
    if (index == 0)
        t->dense_elems = (uint64_t)llround((double)elems * whole / part);
}

static shoal_status exchange_round(transform *t, uint32_t index, shoal_status *result_out,
                                   shoali_not_finite *origin_out)
{
    const shoal_round *round = &t->rounds[0];
    const bool whole = round->buf == t->flow->bufs[0] && round->count == t->flow->args.count;
    const bool codes = round->slots || (t->flow->args.collective->traits & SHOALI_COLL_FLOW) == 0;
    const shoal_tensor one = {.count = round->count, .lr_scale = 1};
    uint64_t elems = 0;
    shoali_sim_flow flow = *t->flow;
    shoal_codec *codec = NULL;
    SHOALI_TRY(shoal_codec_open(codes && round->codec != NULL ? round->codec : "identity", &codec));
    flow.bufs = t->bufs;
    flow.residuals = NULL;
    flow.dense_elems_out = &elems;
    flow.args.id.round += 1 + index;
    flow.args.count = round->count;
    flow.args.tensors = whole ? flow.args.tensors : &one;
    flow.args.tensor_count = whole ? flow.args.tensor_count : 1;
    flow.args.push = flow.args.pull = codec;
    if (round->slots)
        flow.args.collective = &t->slots;
    shoal_status status = shoali_sim_flow_once(&flow, result_out, origin_out);
    note_dense(t, index, elems);
    shoal_codec_close(codec);
    return status;
}

static shoal_status run_rounds(transform *t, shoal_status *result_out,
                               shoali_not_finite *origin_out)
{
    if (t->flow->args.push->row->steps != NULL)
        agree_on_steps(t);
    for (uint32_t index = 0;; index++) {
        SHOALI_TRY(ask_round(t, index));
        if (t->rounds[0].count > 0)
            SHOALI_TRY(exchange_round(t, index, result_out, origin_out));
        for (uint32_t m = 0; *result_out != SHOAL_OK && m < t->flow->args.size; m++)
            memset(t->states[m], 0, t->state_bytes);
        if (*result_out != SHOAL_OK || t->rounds[0].last)
            return SHOAL_OK;
    }
}

static shoal_status run_transform(const shoali_sim_flow *flow, shoal_status *result_out,
                                  shoali_not_finite *origin_out)
{
    transform t;
    if (flow->transform == NULL)
        return shoali_fail(SHOAL_ENOTSUP,
                           "codec '%s' is a transform: simulate it with problem=cost",
                           shoal_codec_spec(flow->args.push));
    *result_out = SHOAL_OK;
    *origin_out = (shoali_not_finite){0};
    shoal_status status = open_transform(&t, flow);
    if (status == SHOAL_OK)
        status = run_rounds(&t, result_out, origin_out);
    if (flow->dense_elems_out != NULL)
        *flow->dense_elems_out = t.dense_elems;
    close_transform(&t);
    return status;
}

shoal_status shoali_sim_flow_run(const shoali_sim_flow *flow, shoal_status *result_out,
                                 shoali_not_finite *origin_out)
{
    const uint32_t traits = shoal_codec_traits(flow->args.push);
    const bool transforms = (traits & SHOAL_CODEC_TRANSFORM) != 0;
    if (transforms && (flow->args.size > 1 || (traits & SHOAL_CODEC_STEPS) != 0))
        return run_transform(flow, result_out, origin_out);
    return shoali_sim_flow_once(flow, result_out, origin_out);
}
