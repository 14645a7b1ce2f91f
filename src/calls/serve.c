/* SPDX-License-Identifier: Apache-2.0 */
/* What sums in an aggregator's place: the daemon's kernel. */
#include "calls/serve.h"

#include "base/error.h"
#include "base/log.h"
#include "carry/datagrams.h"
#include "endpoint/endpoint.h"

/* Of an operation that it serves. */
struct shoali_served {
    shoali_offload offload;
    shoali_kernel_sum in_kernel;
};

static struct shoali_served *served(shoal_op *op)
{
    if (op->served.owners == NULL)
        op->served.owners = shoali_arena_alloc(op->arena, sizeof *op->served.owners);
    return op->served.owners;
}

static bool summer_begin(void *ctx, const shoali_slot_share *share)
{
    shoal_op *op = ctx;
    shoali_service *service = op->comm->service;
    shoali_ip workers[SHOALI_PACKET_WORKERS_MAX];
    for (uint32_t w = 0; w < share->workers; w++)
        workers[w] = *shoali_datagrams_at(op->comm, op->plan->members[w]);
    if (service->summer->begin(service->summer->ctx, share, workers,
                               &op->served.owners->in_kernel) != SHOAL_OK) {
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
    summer->end(summer->ctx, &op->served.owners->in_kernel);
}

static void summer_counted(void *ctx, uint64_t *received_bytes_out, uint64_t *sent_bytes_out)
{
    const shoal_op *op = ctx;
    const shoali_summer *summer = op->comm->service->summer;
    summer->counted(summer->ctx, &op->served.owners->in_kernel, received_bytes_out, sent_bytes_out);
}

static bool summer_missing(void *ctx, uint32_t *slot_out, uint32_t *round_out, uint32_t *worker_out)
{
    const shoal_op *op = ctx;
    const shoali_summer *summer = op->comm->service->summer;
    return summer->missing(summer->ctx, &op->served.owners->in_kernel, slot_out, round_out,
                           worker_out);
}

const shoali_offload *shoali_serve_offload(shoal_op *op)
{
    if (op->comm->service == NULL || op->comm->service->summer == NULL || served(op) == NULL)
        return NULL;
    op->served.owners->offload = (shoali_offload){
        .ctx = op,
        .block_most = op->comm->service->summer->block_most,
        .begin = summer_begin,
        .end = summer_end,
        .counted = summer_counted,
        .missing = summer_missing};
    return &op->served.owners->offload;
}
