/* SPDX-License-Identifier: Apache-2.0 */
/* What comes before a flow, or instead of one. Long work runs on the work thread, what needs the
 * others is an operation of its own (a child), and neither waits for the other:
 *
 *   trait MEASURE     job: measure every tensor --> child: all-reduce MAX (MEASURE_RMS: the sum of
 *                     squares, in member order), round 0 (not with MEASURE_OWN) --> the operation's
 *                     own flow
 *   a RATED collective: the links of all ranks are measured first, once (gauge.c)
 *   a transform that counts steps: the members agree on the count first, round 0 (steps.c)
 *   trait TRANSFORM   job: next_round --> child: sum, round 2 + i --> job ... until the last;
 *                     no flow of its own
 *   a collective with the trait HOSTS: children alone (hosts.c)
 *
 * While a job or a child is open it refers to the operation's memory, so a failure waits for it. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "ops/inner.h"

static void child_done(void *ctx, shoal_status status, const shoal_error *error,
                       const shoal_op_stats *stats);

/* Measures, and what goes on inside a host, are not worth it; a round that is not the last one, or
 * may not be, takes half of what is left. */
static uint64_t pace_us(const shoal_op *op, uint32_t round)
{
    const uint64_t until_us = op->extras.pace_us, now_us = *op->ops->now_us;
    const bool between = op->rounds.hosts != NULL && shoali_hosts_between(op);
    const bool sums = between || (op->rounds.transforming && round != SHOALI_MEASURE_ROUND);
    if (!sums || until_us <= now_us)
        return 0;
    return op->rounds.round.last || between ? until_us - now_us : (until_us - now_us) / 2;
}

shoal_op *shoali_rounds_child(shoal_op *op, shoal_op_desc *desc, uint32_t round, bool check_finite)
{
    const shoali_op_extras extras = {.on_done = child_done,
                                     .done_ctx = op,
                                     .check_finite = check_finite,
                                     .pace_us = pace_us(op, round)};
    shoal_op *child;
    desc->timeout_us = (int64_t)(op->deadline_us - *op->ops->now_us);
    if (desc->timeout_us <= 0)
        desc->timeout_us = 1;
    if (shoali_op_make(op->ops, desc, &extras, round, &child) != SHOAL_OK) {
        shoali_run_fail(op, true);
        return NULL;
    }
    child->rounds.parent = op;
    op->rounds.child = child;
    op->rounds.child_open = true;
    return child;
}

typedef struct child_desc {
    uint32_t round;
    shoal_reduce reduce;
    const char *collective, *codec; /* codec NULL: identity */
    float *buf;
    size_t count;
} child_desc;

/* An operation among the same members, on behalf of op; its end comes to child_done. One over all
 * of op's buffer has its tensors, too: a NaN is then named by them. */
static void start_child(shoal_op *op, const child_desc *child_of)
{
    const uint32_t round = child_of->round;
    char label[SHOALI_OP_TEXT_BYTES];
    snprintf(label, sizeof label, round == SHOALI_MEASURE_ROUND ? "measure" : "round %u",
             round - 1);
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.reduce = child_of->reduce;
    desc.id = (shoal_op_id){op->id.group, op->id.sequence, 0, 0};
    desc.buf = child_of->buf;
    desc.count = child_of->count;
    if (child_of->buf == op->buf && child_of->count == op->plan->count) {
        desc.tensors = op->plan->tensors;
        desc.tensor_count = op->plan->tensor_count;
    }
    desc.members = op->plan->members;
    desc.member_count = op->plan->member_count;
    desc.collective = child_of->collective;
    desc.push_codec = child_of->codec;
    desc.tos = op->tos;
    desc.label = label;
    shoal_op *child = shoali_rounds_child(op, &desc, round,
                                          op->extras.check_finite && round != SHOALI_MEASURE_ROUND);
    if (child != NULL)
        shoali_run_start(child);
}

static void job_back(void *arg, shoal_status status);

static void start_job(shoal_op *op, shoal_status (*work)(void *arg))
{
    op->rounds.job = (shoali_job){.work = work, .done = job_back, .arg = op};
    op->rounds.job_open = true;
    op->ops->host.job(op->ops->host.ctx, &op->rounds.job);
}

/* ------------------------------------------------------------------ measure */

static const shoal_codec *measuring_codec(const shoal_op *op)
{
    return op->plan->push->traits & SHOAL_CODEC_MEASURE   ? op->plan->push
           : op->plan->pull->traits & SHOAL_CODEC_MEASURE ? op->plan->pull
                                                          : NULL;
}

/* Values that are no numbers would spoil the maximum of all; the gradients' own check finds their
 * cause. Members that contribute nothing must not win. */
static shoal_status measure(void *arg)
{
    shoal_op *op = arg;
    const shoal_codec *codec = measuring_codec(op);
    const uint32_t each = codec->row->shared_count;
    for (uint32_t t = 0; t < op->plan->tensor_count; t++) {
        const shoal_tensor *tensor = &op->plan->tensors[t];
        float *values = op->rounds.shared + (size_t)t * each;
        shoal_status status = SHOAL_OK;
        if (op->plan->me < op->plan->contributors)
            status = shoal_codec_measure(codec, tensor, op->buf + tensor->offset, values);
        if (status != SHOAL_OK && status != SHOAL_ENOTFINITE)
            return status;
        for (uint32_t i = 0; i < each; i++)
            if (status != SHOAL_OK || op->plan->me >= op->plan->contributors ||
                !isfinite(values[i]))
                values[i] = -FLT_MAX;
    }
    if ((codec->traits & SHOAL_CODEC_MEASURE_ALL) != 0)
        shoali_codec_measured_all(codec, op->plan->tensor_count, op->rounds.shared);
    if ((codec->traits & SHOAL_CODEC_MEASURE_RMS) != 0)
        shoali_codec_measured_squares(op->rounds.shared, (size_t)op->plan->tensor_count * each);
    return SHOAL_OK;
}

static void begin_measure(shoal_op *op)
{
    const shoal_codec *codec = measuring_codec(op);
    if (codec == op->plan->push && (op->plan->pull->traits & SHOAL_CODEC_MEASURE) &&
        op->plan->pull->hash != op->plan->push->hash) {
        (void)shoali_fail(SHOAL_EINVAL, "%s: %s and %s measure different things", op->name,
                          op->plan->push->spec, op->plan->pull->spec);
        shoali_run_fail(op, true);
        return;
    }
    op->rounds.shared = shoali_arena_array(
        op->arena, (size_t)op->plan->tensor_count * codec->row->shared_count, sizeof(float));
    if (op->rounds.shared == NULL)
        shoali_run_fail(op, true);
    else
        start_job(op, measure);
}

/* ------------------------------------------------------------------ transform */

static shoal_status next_round(void *arg)
{
    shoal_op *op = arg;
    op->rounds.round.members = op->plan->member_count;
    return op->plan->push->row->next_round(op->plan->push->params, op->rounds.transform,
                                           op->plan->tensors, op->plan->tensor_count,
                                           op->rounds.round_index, op->buf, &op->rounds.round);
}

/* Members have agreed on the steps that they count, and the first round follows. */
static shoal_status go_on(void *arg)
{
    shoali_steps_go_on(arg);
    return next_round(arg);
}

static void agree_on_steps(shoal_op *op)
{
    op->rounds.agreeing = true;
    shoali_steps_look(op);
    start_child(op, &(child_desc){.round = SHOALI_MEASURE_ROUND,
                                  .reduce = SHOAL_MAX,
                                  .collective = shoali_op_few_hops(op->plan->member_count),
                                  .buf = op->rounds.steps,
                                  .count = sizeof op->rounds.steps / sizeof(float)});
}

static void begin_transform(shoal_op *op)
{
    op->rounds.transforming = true;
    if (op->plan->push != op->plan->pull && op->plan->push->hash != op->plan->pull->hash)
        (void)shoali_fail(SHOAL_EINVAL, "%s: a transform (%s) does both legs", op->name,
                          op->plan->push->spec);
    else if (op->plan->kind != SHOAL_ALL_REDUCE || op->plan->contributors != op->plan->member_count)
        (void)shoali_fail(SHOAL_EINVAL,
                          "%s: a transform (%s) needs an all-reduce to which all contribute",
                          op->name, op->plan->push->spec);
    else if (shoali_keep_state(op) == SHOAL_OK) {
        if (shoali_steps_open(op))
            agree_on_steps(op);
        else
            start_job(op, next_round);
        return;
    }
    shoali_run_fail(op, true);
}

static void steps_agreed(shoal_op *op)
{
    op->rounds.agreeing = false;
    shoali_steps_agreed(op);
    start_job(op, go_on);
}

/* The job has chosen a buffer; sum it, or be done. */
static void exchange_round(shoal_op *op)
{
    const bool codes = op->rounds.round.slots ||
                       (op->plan->collective.traits & SHOALI_COLL_FLOW) == 0;
    if (op->rounds.round.count > 0)
        start_child(op,
                    &(child_desc){.round = SHOALI_MAIN_ROUND + 1 + op->rounds.round_index,
                                  .reduce = SHOAL_SUM,
                                  .collective = op->rounds.round.slots ? "gather"
                                                                       : op->plan->collective.spec,
                                  .codec = codes ? op->rounds.round.codec : NULL,
                                  .buf = op->rounds.round.buf,
                                  .count = op->rounds.round.count});
    else if (op->rounds.round.last)
        shoali_run_end(op, SHOAL_OK);
    else {
        op->rounds.round_index++;
        start_job(op, next_round);
    }
}

/* ------------------------------------------------------------------ on the way */

bool shoali_rounds_begin(shoal_op *op)
{
    if (op->plan->member_count == 1 && (op->plan->push->traits & SHOAL_CODEC_STEPS) == 0)
        return false;
    if (shoali_gauge_wanted(op))
        return true;
    if (op->plan->push->traits & SHOAL_CODEC_TRANSFORM)
        begin_transform(op);
    else if (measuring_codec(op) != NULL)
        begin_measure(op);
    else if ((op->plan->collective.traits & SHOALI_COLL_HOSTS) != 0)
        shoali_hosts_begin(op);
    else
        return false;
    return true;
}

static void job_back(void *arg, shoal_status status)
{
    shoal_op *op = arg;
    op->rounds.job_open = false;
    if (op->failing) {
        shoali_run_end(op, op->error.status);
    } else if (status != SHOAL_OK) {
        (void)shoali_error_set(&op->rounds.job.error);
        shoali_run_fail(op, true);
    } else if (op->rounds.transforming) {
        exchange_round(op);
    } else if ((measuring_codec(op)->traits & SHOAL_CODEC_MEASURE_OWN) != 0) {
        shoali_run_flow(op);
    } else {
        const shoal_codec *codec = measuring_codec(op);
        const bool rms = (codec->traits & SHOAL_CODEC_MEASURE_RMS) != 0;
        start_child(
            op,
            &(child_desc){.round = SHOALI_MEASURE_ROUND,
                          .reduce = rms ? SHOAL_SUM : SHOAL_MAX,
                          .collective = rms ? "gather" : shoali_op_few_hops(op->plan->member_count),
                          .buf = op->rounds.shared,
                          .count = (size_t)op->plan->tensor_count * codec->row->shared_count});
    }
}

/* What the first round took, had it carried every element of the operation. */
static uint64_t as_if_whole(const shoal_op *op, const shoal_op_stats *first)
{
    if (op->rounds.agreeing || op->rounds.round_index > 0 || op->rounds.round.count == 0)
        return 0;
    return (uint64_t)llround((double)first->dense_elems * (double)op->plan->count /
                             (double)op->rounds.round.count);
}

static void add_stats(shoal_op *op, const shoal_op_stats *stats)
{
    op->stats.encode_ns += stats->encode_ns;
    op->stats.decode_ns += stats->decode_ns;
    op->stats.sent_payload_bytes += stats->sent_payload_bytes;
    op->stats.received_payload_bytes += stats->received_payload_bytes;
    op->stats.rounds += stats->rounds;
    op->stats.sent_elems += stats->sent_elems;
    op->stats.received_elems += stats->received_elems;
    if (op->rounds.transforming)
        op->stats.dense_elems += as_if_whole(op, stats);
    else if (op->rounds.hosts != NULL)
        op->stats.dense_elems += stats->dense_elems; /* a measure is the codec's own */
}

/* Of a measure's sums of squares. */
static void shared_values(shoal_op *op)
{
    const shoal_codec *codec = measuring_codec(op);
    if (codec != NULL && (codec->traits & SHOAL_CODEC_MEASURE_RMS) != 0)
        shoali_codec_measured_roots(op->rounds.shared,
                                    (size_t)op->plan->tensor_count * codec->row->shared_count,
                                    op->plan->contributors);
}

static void child_done(void *ctx, shoal_status status, const shoal_error *error,
                       const shoal_op_stats *stats)
{
    shoal_op *op = ctx;
    op->rounds.child_open = false;
    op->rounds.child = NULL;
    add_stats(op, stats);
    if (op->failing) {
        shoali_run_end(op, op->error.status);
    } else if (status != SHOAL_OK) {
        (void)shoali_error_set(error);
        /* whoever failed the child has told its members, and those are all, but of a host's */
        shoali_run_fail(op, op->rounds.hosts != NULL);
    } else if (op->rounds.hosts != NULL) {
        shoali_hosts_stage_done(op);
    } else if (op->rounds.agreeing) {
        steps_agreed(op);
    } else if (!op->rounds.transforming) {
        shared_values(op);
        shoali_run_flow(op);
    } else if (op->rounds.round.last) {
        shoali_run_end(op, SHOAL_OK);
    } else {
        op->rounds.round_index++;
        start_job(op, next_round);
    }
}

void shoali_rounds_fail(shoal_op *op)
{
    if (!op->rounds.child_open)
        return; /* the job will see */
    (void)shoali_error_set(&op->error);
    shoali_run_fail(op->rounds.child, true);
}
