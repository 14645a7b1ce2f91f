/* SPDX-License-Identifier: Apache-2.0 */
/* What operations (src/ops) ask of this communicator. */
#include "calls/host.h"

#include "alive/view.h"
#include "base/clock.h"
#include "calls/serve.h"
#include "calls/wait.h"
#include "carry/datagrams.h"
#include "carry/flight.h"
#include "carry/link.h"

static void control(void *ctx, uint32_t endpoint, uint16_t kind, const void *bytes,
                    size_t len_bytes)
{
    shoali_control(ctx, endpoint, kind, bytes, len_bytes);
}

static void post(void *ctx, shoal_op *op, uint32_t member, const shoal_data *head, const void *body,
                 uint64_t cookie)
{
    (void)ctx;
    shoali_flight_send(op, member, head, body, cookie);
}

static void recall(void *ctx, shoal_op *op)
{
    shoali_flight_recall(ctx, op, SHOALI_NONE);
}

static void datagram(void *ctx, shoal_op *op, uint32_t member, const void *bytes, size_t len_bytes)
{
    (void)ctx;
    shoali_datagrams_send(op, member, bytes, len_bytes);
}

static void job(void *ctx, shoali_job *what)
{
    shoali_work_post(&((shoal_comm *)ctx)->work, what);
}

static shoal_status number(void *ctx, uint64_t group, uint64_t *number_out)
{
    shoal_comm *comm = ctx;
    pthread_mutex_lock(&comm->loop.lock);
    const shoal_status status = shoali_numbers_next(&comm->ops.numbers, group, number_out);
    pthread_mutex_unlock(&comm->loop.lock);
    return status;
}

static void plans(void *ctx, bool enter)
{
    shoal_comm *comm = ctx;
    if (enter)
        pthread_mutex_lock(&comm->loop.lock);
    else
        pthread_mutex_unlock(&comm->loop.lock);
}

static shoali_there there(void *ctx, uint32_t endpoint, const char **why_out)
{
    const shoal_comm *comm = ctx;
    const shoali_peer *peer = &comm->peers[endpoint];
    const uint32_t state = atomic_load_explicit(&peer->state, memory_order_acquire);
    if (state == SHOALI_PEER_HERE)
        return peer->leaving || comm->reform.leaving ? SHOALI_THERE_CHANGES : SHOALI_THERE;
    *why_out = peer->lost_text;
    return state == SHOALI_PEER_LEFT ? SHOALI_THERE_LEFT : SHOALI_THERE_NOT;
}

static bool begins(void *ctx)
{
    shoal_comm *comm = ctx;
    pthread_mutex_lock(&comm->loop.lock);
    const bool begins = !comm->loop.stopping;
    comm->handles.open_ops += begins;
    pthread_mutex_unlock(&comm->loop.lock);
    if (begins)
        shoali_watch_busy(comm->watch);
    return begins;
}

static bool relayed(void *ctx, uint32_t from, uint32_t to)
{
    const shoal_comm *comm = ctx;
    return shoali_relay_between(comm->relay, from, to);
}

static shoal_status links(void *ctx, shoal_op *op, shoali_flow_args *args)
{
    const shoal_comm *comm = ctx;
    args->links = shoali_relay_links(comm->relay);
    if ((op->row->transports & SHOALI_FLOW_STREAM) != 0)
        return SHOAL_OK;
    SHOALI_TRY(shoali_datagrams_give(op, args));
    args->offload = shoali_serve_offload(op);
    return SHOAL_OK;
}

static void gone(void *ctx, uint32_t endpoint, const char *why)
{
    shoali_peer_gone(ctx, endpoint, SHOAL_EPEER, why);
}

static void doing(void *ctx, uint32_t endpoint, char *text, size_t text_bytes)
{
    shoali_view_doing(ctx, endpoint, text, text_bytes);
}

static void over(void *ctx, shoal_op *op)
{
    shoal_comm *comm = ctx;
    if (op->rounds.parent == NULL)
        shoali_watch_ended(comm->watch);
    if (comm->ops.open == NULL)
        shoali_watch_idle(comm->watch);
    shoali_op_complete(op);
}

void shoali_host_start(void *arg)
{
    shoal_op *op = arg;
    shoali_watch_busy(op->comm->watch);
    shoali_run_start(op);
}

shoal_status shoali_host_init(shoal_comm *comm)
{
    comm->ops = (shoali_ops){.host = {.ctx = comm,
                                      .control = control,
                                      .post = post,
                                      .recall = recall,
                                      .datagram = datagram,
                                      .job = job,
                                      .number = number,
                                      .plans = plans,
                                      .there = there,
                                      .begins = begins,
                                      .relayed = relayed,
                                      .links = links,
                                      .gone = gone,
                                      .doing = doing,
                                      .over = over,
                                      .now_ns = shoali_now_ns},
                             .me = comm->me,
                             .size = comm->size,
                             .ranks = comm->ranks,
                             .aggregators = comm->aggregators,
                             .chunk_elems = comm->chunk_elems,
                             .timeout_us = comm->op_timeout_us,
                             .seed = comm->seed,
                             .now_us = &comm->loop.now_us,
                             .busy = &comm->loop.busy,
                             .serving = comm->service != NULL ? &comm->service->serving : NULL};
    SHOALI_TRY(shoali_ops_init(&comm->ops));
    for (uint32_t i = 0; i < comm->size; i++)
        comm->ops.peers[i].host = comm->peers[i].host;
    return SHOAL_OK;
}
