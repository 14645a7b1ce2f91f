/* SPDX-License-Identifier: Apache-2.0 */
/* Operations at an aggregator. It does not know what the ranks will start, so every contributor
 * says so before its READY; the first to come makes the aggregator enter. Of what members must
 * agree on it takes the contributors' hash: they compare their calls through it. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "ops/inner.h"
#include "wire/bytes.h"
#include "wire/messages.h"

/* ------------------------------------------------------------------ at a contributor */

void shoali_serve_ask(const shoal_op *op)
{
    const shoali_ops *ops = op->ops;
    if ((op->plan->collective.traits & SHOALI_COLL_SERVED) == 0 || ops->serving != NULL ||
        op->plan->me >= op->plan->contributors)
        return;
    bool all = op->plan->member_count == ops->size;
    for (uint32_t m = 0; m < op->plan->member_count && all; m++)
        all = op->plan->members[m] == m;
    const size_t bytes = SHOALI_SERVE_BYTES + (all ? 0 : 4 * (size_t)op->plan->member_count);
    uint8_t *body = shoali_arena_alloc(op->arena, bytes);
    if (body == NULL)
        return; /* then it ends at its deadline: an arena this small has always room */
    shoali_serve serve = {.id = op->id,
                          .count = op->plan->count,
                          .hash = op->hash,
                          .timeout_us = (uint64_t)op->timeout_us,
                          .contributors = op->plan->contributors,
                          .member_count = op->plan->member_count};
    memcpy(serve.collective, op->plan->collective.spec, sizeof serve.collective);
    shoali_serve_encode(&serve, body);
    for (uint32_t m = 0; m < op->plan->member_count && !all; m++)
        shoali_put_u32(body + SHOALI_SERVE_BYTES + 4 * (size_t)m, op->plan->members[m]);
    for (uint32_t m = op->plan->contributors; m < op->plan->member_count; m++)
        if (op->plan->members[m] >= ops->ranks)
            ops->host.control(ops->host.ctx, op->plan->members[m], SHOALI_MESSAGE_serve, body,
                              bytes);
}

/* ------------------------------------------------------------------ at the aggregator */

static void count_end(void *ctx, shoal_status status, const shoal_error *error,
                      const shoal_op_stats *stats)
{
    shoali_serving *serving = ctx;
    (void)error;
    atomic_fetch_sub(&serving->open, 1);
    atomic_fetch_add(status == SHOAL_OK ? &serving->operations : &serving->failures, 1);
    atomic_fetch_add(&serving->received_bytes, stats->received_payload_bytes);
    atomic_fetch_add(&serving->sent_bytes, stats->sent_payload_bytes);
}

static shoal_status make(shoali_ops *ops, const shoali_serve *serve, const uint32_t *members,
                         shoal_op **op_out)
{
    const shoal_op_desc desc = {
        .size = sizeof desc,
        .kind = SHOAL_ALL_REDUCE,
        .id = {serve->id.group, serve->id.sequence, serve->id.round, 0},
        .count = serve->count,
        .members = members,
        .member_count = serve->member_count,
        .contributors = serve->contributors,
        .collective = serve->collective,
        .timeout_us = serve->timeout_us < INT64_MAX / 2 ? (int64_t)serve->timeout_us : 0};
    const shoali_op_extras extras = {.on_done = count_end, .done_ctx = ops->serving};
    SHOALI_TRY(shoali_op_make(ops, &desc, &extras, serve->id.round, op_out));
    if (((*op_out)->plan->collective.traits & SHOALI_COLL_SERVED) != 0) {
        (*op_out)->hash = serve->hash;
        return SHOAL_OK;
    }
    shoal_status status = shoali_fail(SHOAL_EINVAL, "the collective '%s' has no aggregators",
                                      serve->collective);
    shoali_op_free(*op_out);
    return status;
}

static void refuse(const shoali_ops *ops, uint32_t endpoint, const shoali_serve *serve)
{
    shoali_abort abort = {
        .id = serve->id, .status = (uint32_t)shoal_last_error()->status, .culprit = ops->me};
    uint8_t body[SHOALI_ABORT_BYTES];
    snprintf(abort.text, sizeof abort.text, "%.60s cannot sum: %.300s", ops->peers[ops->me].host,
             shoal_last_error()->text);
    shoali_log(WARN, "%s", abort.text);
    ops->host.control(ops->host.ctx, endpoint, SHOALI_MESSAGE_abort, body,
                      shoali_abort_encode(&abort, body));
}

static shoal_status enter(shoali_ops *ops, const shoali_serve *serve, const uint32_t *members)
{
    shoal_op *op;
    SHOALI_TRY(make(ops, serve, members, &op));
    atomic_fetch_add(&ops->serving->open, 1);
    const shoal_status status = shoali_run_start_own(op);
    if (status != SHOAL_OK)
        atomic_fetch_sub(&ops->serving->open, 1);
    return status;
}

/* A rank may have joined, and started, while this endpoint still waits for its other connections,
 * without which it cannot tell everyone that it has entered. */
typedef struct shoali_request {
    struct shoali_request *next;
    uint32_t endpoint;
    size_t len_bytes;
    uint8_t bytes[];
} request;

static void keep(shoali_ops *ops, uint32_t endpoint, const uint8_t *bytes, size_t len_bytes)
{
    shoali_serving *serving = ops->serving;
    request *kept = shoali_alloc(sizeof *kept + len_bytes);
    if (kept == NULL) {
        ops->host.gone(ops->host.ctx, endpoint, "no memory to remember what it sent");
        return;
    }
    kept->next = NULL;
    kept->endpoint = endpoint;
    kept->len_bytes = len_bytes;
    memcpy(kept->bytes, bytes, len_bytes);
    *(serving->first == NULL ? &serving->first : &serving->last->next) = kept;
    serving->last = kept;
}

void shoali_serve_begin(shoali_ops *ops)
{
    if (ops->serving == NULL)
        return;
    ops->serving->joined = true;
    for (const request *r = ops->serving->first; r != NULL; r = r->next)
        shoali_serve_on_request(ops, r->endpoint, r->bytes, r->len_bytes);
    shoali_serve_free(ops);
}

void shoali_serve_free(shoali_ops *ops)
{
    while (ops->serving != NULL && ops->serving->first != NULL) {
        request *r = ops->serving->first;
        ops->serving->first = r->next;
        shoali_free(r);
    }
}

bool shoali_serve_on_request(shoali_ops *ops, uint32_t endpoint, const uint8_t *bytes,
                             size_t len_bytes)
{
    shoali_serve serve;
    if (ops->serving == NULL || !shoali_serve_decode(bytes, len_bytes, &serve) ||
        serve.member_count > ops->size)
        return false;
    if (!ops->serving->joined) {
        keep(ops, endpoint, bytes, len_bytes);
        return true;
    }
    if (shoali_run_find(ops, &serve.id) != NULL || shoali_agree_is_over(ops, &serve.id))
        return true; /* another contributor was faster */
    uint32_t *members = shoali_alloc_array(serve.member_count, sizeof *members);
    if (members == NULL) {
        refuse(ops, endpoint, &serve);
        return true;
    }
    for (uint32_t m = 0; m < serve.member_count; m++)
        members[m] = len_bytes == SHOALI_SERVE_BYTES
                         ? m
                         : shoali_get_u32(bytes + SHOALI_SERVE_BYTES + 4 * (size_t)m);
    if (enter(ops, &serve, members) != SHOAL_OK)
        refuse(ops, endpoint, &serve);
    shoali_free(members);
    return true;
}

shoal_status shoali_serve_admit(shoal_op *op)
{
    shoali_serving *serving = op->ops->serving;
    if (serving == NULL || op->row->memory == NULL)
        return SHOAL_OK;
    const uint64_t bytes = op->row->memory(op->flow), held = atomic_load(&serving->memory_bytes);
    if (bytes > serving->memory_limit_bytes || held > serving->memory_limit_bytes - bytes) {
        shoal_status status = shoali_fail(
            SHOAL_ENOMEM,
            "%s (%s): %s would take %llu bytes beside %llu of other operations, the job's limit is "
            "%llu",
            op->ops->peers[op->ops->me].host, serving->job, op->name, (unsigned long long)bytes,
            (unsigned long long)held, (unsigned long long)serving->memory_limit_bytes);
        shoali_error_advice("Fewer slots or a smaller fusion take less; or give `shoal aggregator` "
                            "a larger --memory.");
        return status;
    }
    op->served.bytes = bytes;
    atomic_store(&serving->memory_bytes, held + bytes);
    if (held + bytes > atomic_load(&serving->memory_peak_bytes))
        atomic_store(&serving->memory_peak_bytes, held + bytes);
    return SHOAL_OK;
}

void shoali_serve_release(shoal_op *op)
{
    if (op->served.bytes > 0)
        atomic_fetch_sub(&op->ops->serving->memory_bytes, op->served.bytes);
    op->served.bytes = 0;
}
