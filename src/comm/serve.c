/* SPDX-License-Identifier: Apache-2.0 */
/* Operations at an aggregator. It does not know what the ranks will start, so every contributor
 * says so before its READY; the first to come makes the aggregator enter. Of what members must
 * agree on it takes the contributors' hash: they compare their calls through it. */
#include "comm/serve.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/inner.h"
#include "wire/bytes.h"
#include "wire/messages.h"

/* ------------------------------------------------------------------ at a contributor */

void shoali_serve_ask(const shoal_op *op)
{
    const shoal_comm *comm = op->comm;
    if ((op->plan->collective.traits & SHOALI_COLL_SERVED) == 0 || comm->service != NULL ||
        op->plan->me >= op->plan->contributors)
        return;
    bool all = op->plan->member_count == comm->size;
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
        if (op->plan->members[m] >= comm->ranks)
            shoali_control(op->comm, op->plan->members[m], SHOALI_MESSAGE_serve, body, bytes);
}

/* ------------------------------------------------------------------ at the aggregator */

static void count_end(void *ctx, shoal_status status, const shoal_error *error,
                      const shoal_op_stats *stats)
{
    shoali_service *service = ctx;
    (void)error;
    atomic_fetch_sub(&service->open, 1);
    atomic_fetch_add(status == SHOAL_OK ? &service->operations : &service->failures, 1);
    atomic_fetch_add(&service->received_bytes, stats->received_payload_bytes);
    atomic_fetch_add(&service->sent_bytes, stats->sent_payload_bytes);
}

static shoal_status make(shoal_comm *comm, const shoali_serve *serve, const uint32_t *members,
                         shoal_op **op_out)
{
    shoali_service *service = comm->service;
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
    const shoali_op_extras extras = {.on_done = count_end, .done_ctx = service};
    SHOALI_TRY(shoali_op_make(&comm->ops, &desc, &extras, serve->id.round, op_out));
    if (((*op_out)->plan->collective.traits & SHOALI_COLL_SERVED) != 0) {
        (*op_out)->hash = serve->hash;
        return SHOAL_OK;
    }
    shoal_status status = shoali_fail(SHOAL_EINVAL, "the collective '%s' has no aggregators",
                                      serve->collective);
    shoali_op_free(*op_out);
    return status;
}

static void refuse(shoal_comm *comm, uint32_t endpoint, const shoali_serve *serve)
{
    shoali_abort abort = {
        .id = serve->id, .status = (uint32_t)shoal_last_error()->status, .culprit = comm->me};
    uint8_t body[SHOALI_ABORT_BYTES];
    snprintf(abort.text, sizeof abort.text, "%.60s cannot sum: %.300s", comm->host,
             shoal_last_error()->text);
    shoali_log(WARN, "%s", abort.text);
    shoali_control(comm, endpoint, SHOALI_MESSAGE_abort, body, shoali_abort_encode(&abort, body));
}

static shoal_status enter(shoal_comm *comm, const shoali_serve *serve, const uint32_t *members)
{
    shoal_op *op;
    SHOALI_TRY(make(comm, serve, members, &op));
    pthread_mutex_lock(&comm->lock);
    const bool stopping = comm->stopping;
    comm->handles.open_ops += !stopping;
    pthread_mutex_unlock(&comm->lock);
    if (stopping) {
        shoali_op_free(op);
        return shoali_fail(SHOAL_ECANCELLED, "it is being ended");
    }
    atomic_fetch_add(&comm->service->open, 1);
    shoali_host_start(op);
    return SHOAL_OK;
}

/* A rank may have joined, and started, while this endpoint still waits for its other connections,
 * without which it cannot tell everyone that it has entered. */
typedef struct shoali_request {
    struct shoali_request *next;
    uint32_t endpoint;
    size_t len_bytes;
    uint8_t bytes[];
} request;

static void keep(shoal_comm *comm, uint32_t endpoint, const uint8_t *bytes, size_t len_bytes)
{
    request *kept = shoali_alloc(sizeof *kept + len_bytes);
    if (kept == NULL) {
        shoali_view_gone(comm, endpoint, SHOAL_EPEER, "no memory to remember what it sent");
        return;
    }
    kept->next = NULL;
    kept->endpoint = endpoint;
    kept->len_bytes = len_bytes;
    memcpy(kept->bytes, bytes, len_bytes);
    *comm->service->last = kept;
    comm->service->last = &kept->next;
}

void shoali_serve_begin(shoal_comm *comm)
{
    for (request *r = comm->service != NULL ? comm->service->first : NULL; r != NULL; r = r->next)
        shoali_serve_on_request(comm, r->endpoint, r->bytes, r->len_bytes);
    shoali_serve_free(comm);
}

void shoali_serve_free(shoal_comm *comm)
{
    while (comm->service != NULL && comm->service->first != NULL) {
        request *r = comm->service->first;
        comm->service->first = r->next;
        shoali_free(r);
    }
}

bool shoali_serve_on_request(shoal_comm *comm, uint32_t endpoint, const uint8_t *bytes,
                             size_t len_bytes)
{
    shoali_serve serve;
    if (comm->service == NULL || !shoali_serve_decode(bytes, len_bytes, &serve) ||
        serve.member_count > comm->size)
        return false;
    if (!comm->view.joined) {
        keep(comm, endpoint, bytes, len_bytes);
        return true;
    }
    if (shoali_run_find(&comm->ops, &serve.id) != NULL ||
        shoali_agree_is_over(&comm->ops, &serve.id))
        return true; /* another contributor was faster */
    uint32_t *members = shoali_alloc_array(serve.member_count, sizeof *members);
    if (members == NULL) {
        refuse(comm, endpoint, &serve);
        return true;
    }
    for (uint32_t m = 0; m < serve.member_count; m++)
        members[m] = len_bytes == SHOALI_SERVE_BYTES
                         ? m
                         : shoali_get_u32(bytes + SHOALI_SERVE_BYTES + 4 * (size_t)m);
    if (enter(comm, &serve, members) != SHOAL_OK)
        refuse(comm, endpoint, &serve);
    shoali_free(members);
    return true;
}

/* What an aggregator keeps of an operation that it serves. */
struct shoali_served {
    uint64_t bytes;         /* of the service's memory, while its flow lives */
    shoali_offload offload; /* to the service's kernel */
    shoali_kernel_sum in_kernel;
};

static struct shoali_served *served(shoal_op *op)
{
    if (op->served == NULL)
        op->served = shoali_arena_alloc(op->arena, sizeof *op->served);
    return op->served;
}

shoal_status shoali_serve_admit(shoal_op *op)
{
    shoali_service *service = op->comm->service;
    if (service == NULL || op->row->memory == NULL)
        return SHOAL_OK;
    const uint64_t bytes = op->row->memory(op->flow), held = atomic_load(&service->memory_bytes);
    if (bytes > service->memory_limit_bytes || held > service->memory_limit_bytes - bytes) {
        shoal_status status = shoali_fail(
            SHOAL_ENOMEM,
            "%s (%s): %s would take %llu bytes beside %llu of other operations, the job's limit is "
            "%llu",
            op->comm->host, op->comm->job, op->name, (unsigned long long)bytes,
            (unsigned long long)held, (unsigned long long)service->memory_limit_bytes);
        shoali_error_advice("Fewer slots or a smaller fusion take less; or give `shoal aggregator` "
                            "a larger --memory.");
        return status;
    }
    if (served(op) == NULL)
        return SHOAL_ENOMEM;
    op->served->bytes = bytes;
    atomic_store(&service->memory_bytes, held + bytes);
    if (held + bytes > atomic_load(&service->memory_peak_bytes))
        atomic_store(&service->memory_peak_bytes, held + bytes);
    return SHOAL_OK;
}

void shoali_serve_release(shoal_op *op)
{
    if (op->served == NULL || op->served->bytes == 0)
        return;
    atomic_fetch_sub(&op->comm->service->memory_bytes, op->served->bytes);
    op->served->bytes = 0;
}

/* ------------------------------------------------------------------ in the kernel */

static bool summer_begin(void *ctx, const shoali_slot_share *share)
{
    shoal_op *op = ctx;
    shoali_service *service = op->comm->service;
    shoali_ip workers[SHOALI_PACKET_WORKERS_MAX];
    for (uint32_t w = 0; w < share->workers; w++)
        workers[w] = *shoali_datagrams_at(op->comm, op->plan->members[w]);
    if (service->summer->begin(service->summer->ctx, share, workers, &op->served->in_kernel) !=
        SHOAL_OK) {
        shoali_log(WARN, "%s is summed in user space: %s", op->name, shoal_last_error()->text);
        return false;
    }
    atomic_fetch_add(&service->kernel_operations, 1);
    return true;
}

static void summer_end(void *ctx)
{
    const shoal_op *op = ctx;
    const shoali_summer *summer = op->comm->service->summer;
    summer->end(summer->ctx, &op->served->in_kernel);
}

static void summer_counted(void *ctx, uint64_t *received_bytes_out, uint64_t *sent_bytes_out)
{
    const shoal_op *op = ctx;
    const shoali_summer *summer = op->comm->service->summer;
    summer->counted(summer->ctx, &op->served->in_kernel, received_bytes_out, sent_bytes_out);
}

static bool summer_missing(void *ctx, uint32_t *slot_out, uint32_t *round_out, uint32_t *worker_out)
{
    const shoal_op *op = ctx;
    const shoali_summer *summer = op->comm->service->summer;
    return summer->missing(summer->ctx, &op->served->in_kernel, slot_out, round_out, worker_out);
}

const shoali_offload *shoali_serve_offload(shoal_op *op)
{
    if (op->comm->service == NULL || op->comm->service->summer == NULL || served(op) == NULL)
        return NULL;
    op->served->offload = (shoali_offload){.ctx = op,
                                           .block_most = op->comm->service->summer->block_most,
                                           .begin = summer_begin,
                                           .end = summer_end,
                                           .counted = summer_counted,
                                           .missing = summer_missing};
    return &op->served->offload;
}
