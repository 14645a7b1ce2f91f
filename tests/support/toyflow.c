/* SPDX-License-Identifier: Apache-2.0 */
#include "support/toyflow.h"

#include "base/arena.h"
#include "kernel/kernel.h"
#include "support/check.h"

enum { HELLO = 0x7001, START_US = 100 };

typedef struct other {
    float *values; /* its vector: where frames land */
    uint32_t slot;
    bool granted, greeted, silent, placed, here, sent;
} other;

typedef struct flow {
    shoali_flow_args args;
    shoal_sink sink;
    other *others;
    float *own;
    float absmax;
    uint64_t start_us;
    uint32_t out; /* sends and bodies in others' hands */
    bool begun, failed, done;
    bool sending; /* on_sent may come from inside send: done has to wait until send is back */
    shoal_status status;
    shoali_flow_stats stats;
} flow;

static size_t vector_bytes(const flow *f)
{
    return f->args.count * sizeof(float);
}

static size_t flow_state_size(const shoali_flow_args *args)
{
    (void)args;
    return sizeof(flow);
}

static void flow_fini(void *state)
{
    flow *f = state;
    for (uint32_t i = 0; f->others != NULL && i < f->args.size; i++)
        shoali_free(f->others[i].values);
    shoali_free(f->others);
    shoali_free(f->own);
    memset(f, 0, sizeof *f);
}

static shoal_status flow_start(void *state, const shoali_flow_args *args, const shoal_sink *sink,
                               uint64_t now_us)
{
    flow *f = state;
    f->args = *args;
    f->sink = *sink;
    f->start_us = now_us + START_US * (args->me + 1);
    f->others = shoali_alloc_array(args->size, sizeof *f->others);
    f->own = shoali_alloc(vector_bytes(f));
    bool short_of_memory = f->others == NULL || f->own == NULL;
    for (uint32_t i = 0; !short_of_memory && i < args->size; i++) {
        f->others[i].values = shoali_alloc(vector_bytes(f));
        short_of_memory = f->others[i].values == NULL;
    }
    if (short_of_memory) {
        flow_fini(f);
        return SHOAL_ENOMEM;
    }
    shoali_kernel()->copy(f->own, args->buf, args->count);
    f->absmax = shoali_kernel()->absmax(args->buf, args->count);
    return SHOAL_OK;
}

static bool everyone_else(const void *state, uint32_t peer)
{
    const flow *f = state;
    return peer < f->args.size && peer != f->args.me;
}

static void send_to(flow *f, uint32_t peer)
{
    other *o = &f->others[peer];
    if (!f->begun || f->failed || !o->granted || o->sent || f->absmax == 0)
        return;
    o->sent = true;
    f->out++;
    shoal_data head = {.slot = o->slot, .len_bytes = (uint32_t)vector_bytes(f)};
    f->stats.sent_payload_bytes += head.len_bytes;
    f->sending = true;
    f->sink.send(f->sink.ctx, peer, &head, f->own, peer);
    f->sending = false;
}

static bool all_here(const flow *f)
{
    for (uint32_t i = 0; i < f->args.size; i++) {
        const other *o = &f->others[i];
        if (i != f->args.me && !o->here && !(o->greeted && o->silent))
            return false;
        if (i != f->args.me && !o->sent && f->absmax != 0)
            return false;
    }
    return f->begun;
}

static void add_up(flow *f)
{
    memset(f->args.buf, 0, vector_bytes(f));
    for (uint32_t i = 0; i < f->args.size; i++) {
        const float *x = i == f->args.me ? f->own : f->others[i].values;
        if (i == f->args.me || f->others[i].here)
            shoali_kernel()->add(f->args.buf, x, f->args.count);
    }
}

static void finish(flow *f)
{
    if (f->done || f->sending || f->out > 0 || !(f->failed || all_here(f)))
        return;
    f->done = true;
    if (!f->failed)
        add_up(f);
    f->sink.done(f->sink.ctx, &f->args.id, f->status, f->failed ? "failed" : "");
}

static void flow_granted(void *state, uint32_t peer, uint32_t slot)
{
    flow *f = state;
    f->others[peer].granted = true;
    f->others[peer].slot = slot;
    send_to(f, peer);
    finish(f);
}

static uint8_t *flow_place(void *state, uint32_t peer, const shoal_data *head)
{
    flow *f = state;
    if (f->failed || f->done || !everyone_else(f, peer) || head->len_bytes != vector_bytes(f) ||
        f->others[peer].placed)
        return NULL;
    f->others[peer].placed = true;
    f->out++;
    return (uint8_t *)f->others[peer].values;
}

static void flow_frames(void *state, uint32_t peer, const shoal_data *heads, uint8_t *const *bodies,
                        size_t count)
{
    flow *f = state;
    (void)heads, (void)bodies;
    assert_int_equal(count, 1);
    f->others[peer].here = true;
    f->stats.received_payload_bytes += vector_bytes(f);
    f->out--;
    finish(f);
}

static void flow_unplace(void *state, uint32_t peer, const shoal_data *head, uint8_t *body)
{
    flow *f = state;
    (void)head, (void)body;
    f->others[peer].placed = false;
    f->out--;
    finish(f);
}

static void flow_sent(void *state, uint32_t peer, uint64_t cookie)
{
    flow *f = state;
    assert_int_equal(peer, cookie);
    f->out--;
    finish(f);
}

static void flow_job(void *state, uint64_t cookie, shoal_status status)
{
    (void)state, (void)cookie, (void)status;
}

static void flow_control(void *state, uint32_t peer, uint16_t kind, const void *bytes,
                         size_t len_bytes)
{
    flow *f = state;
    float absmax;
    if (kind != HELLO || len_bytes != sizeof absmax || f->others[peer].greeted)
        return;
    memcpy(&absmax, bytes, sizeof absmax);
    f->others[peer].greeted = true;
    f->others[peer].silent = absmax == 0;
    finish(f);
}

static void flow_timer(void *state, uint64_t now_us)
{
    flow *f = state;
    if (!f->begun && now_us >= f->start_us && !f->failed) {
        f->begun = true;
        for (uint32_t i = 0; i < f->args.size; i++)
            if (i != f->args.me)
                f->sink.control(f->sink.ctx, i, HELLO, &f->absmax, sizeof f->absmax);
        for (uint32_t i = 0; i < f->args.size; i++)
            if (i != f->args.me)
                send_to(f, i);
    }
    finish(f);
}

static uint64_t flow_next_wake_us(const void *state)
{
    const flow *f = state;
    return f->begun || f->done ? UINT64_MAX : f->start_us;
}

static void flow_fail(void *state, shoal_status status, const char *why)
{
    flow *f = state;
    (void)why;
    if (f->failed)
        return;
    f->failed = true;
    f->status = status;
    finish(f);
}

static void flow_stats(const void *state, shoali_flow_stats *stats_out)
{
    *stats_out = ((const flow *)state)->stats;
}

static bool flow_not_finite(const void *state, shoali_not_finite *origin_out)
{
    (void)state, (void)origin_out;
    return false;
}

static void flow_describe(const void *state, char *text, size_t text_bytes, uint32_t *peer_out)
{
    const flow *f = state;
    *peer_out = UINT32_MAX;
    for (uint32_t i = 0; i < f->args.size; i++)
        if (i != f->args.me && !f->others[i].here)
            *peer_out = i;
    snprintf(text, text_bytes, "waits for member %u", *peer_out);
}

const shoali_flow_row toy_flow = {
    .name = "toy",
    .transports = SHOALI_FLOW_STREAM | SHOALI_FLOW_DATAGRAM,
    .state_size = flow_state_size,
    .start = flow_start,
    .receives_from = everyone_else,
    .sends_to = everyone_else,
    .on_granted = flow_granted,
    .place = flow_place,
    .on_frames = flow_frames,
    .unplace = flow_unplace,
    .on_sent = flow_sent,
    .on_job = flow_job,
    .on_control = flow_control,
    .on_timer = flow_timer,
    .next_wake_us = flow_next_wake_us,
    .fail = flow_fail,
    .stats = flow_stats,
    .not_finite = flow_not_finite,
    .describe = flow_describe,
    .fini = flow_fini,
};
