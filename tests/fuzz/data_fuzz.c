/* SPDX-License-Identifier: Apache-2.0 */
/* Data frames of peers that do as they like, into one member's flow: the input chooses the
 * operation, then frames with any head and any body, in any order, grants, and control frames of
 * flows that have them. Nothing is written outside of what place gave, the flow ends once, and all
 * its memory is free again. */
#include <stdlib.h>
#include <string.h>

#include "support/enginecase.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

enum { SENDS = 512, BODY = 4096, HEAD = 8 };

static const engine_case cases[] = {
    {.collective = "ring", .size = 3, .count = 90, .chunk_elems = 16},
    {.collective = "ring:both", .push = "fp16", .size = 3, .count = 90, .chunk_elems = 16},
    {.collective = "ring", .push = "inceptionn", .size = 2, .count = 600, .chunk_elems = 256},
    {.collective = "halving_doubling", .push = "int4", .size = 3, .count = 90, .chunk_elems = 32},
    {.collective = "direct", .push = "terngrad", .size = 3, .count = 90, .tensors = 3},
    {.collective = "gather", .push = "topk", .size = 3, .count = 300, .chunk_elems = 128},
    {.collective = "gather", .push = "chunk_topk", .size = 2, .count = 300},
    {.collective = "direct", .push = "expo", .size = 2, .count = 300, .chunk_elems = 128},
    {.collective = "direct", .push = "zstd", .size = 2, .count = 300, .chunk_elems = 128},
    {.collective = "ring", .push = "eden", .size = 2, .count = 300, .chunk_elems = 128},
    {.collective = "worker_aggregator", .size = 3, .count = 60, .feedback = true, .push = "bf16"},
    {.collective = "broadcast", .kind = SHOAL_BROADCAST, .size = 3, .count = 60, .chunk_elems = 16},
    {.collective = "omnireduce", .size = 3, .count = 600},
};

typedef struct sent {
    uint32_t peer;
    uint64_t cookie;
} sent;

typedef struct member {
    const shoali_flow_row *row;
    void *state;
    sent sends[SENDS];
    size_t send_count;
    bool done;
} member;

static void on_send(void *ctx, uint32_t peer, const shoal_data *head, const void *body,
                    uint64_t cookie)
{
    static volatile uint8_t sum; /* whatever goes out has to be there */
    member *m = ctx;
    for (uint32_t i = 0; i < head->len_bytes; i++)
        sum = (uint8_t)(sum + ((const uint8_t *)body)[i]);
    if (m->send_count == SENDS)
        abort();
    m->sends[m->send_count++] = (sent){peer, cookie};
}

static void on_control(void *ctx, uint32_t peer, uint16_t kind, const void *bytes, size_t len_bytes)
{
    (void)ctx, (void)peer, (void)kind, (void)bytes, (void)len_bytes;
}

static void on_job(void *ctx, const shoal_op_id *id, size_t offset, size_t count, uint64_t cookie)
{
    (void)ctx, (void)id, (void)offset, (void)count, (void)cookie;
    abort(); /* no operation here has an owner */
}

static void on_done(void *ctx, const shoal_op_id *id, shoal_status status, const char *why)
{
    member *m = ctx;
    (void)id, (void)status, (void)why;
    if (m->done)
        abort();
    m->done = true;
}

/* What is due, until nothing is. */
static void settle(member *m)
{
    while (!m->done && (m->send_count > 0 || m->row->next_wake_us(m->state) == 0)) {
        if (m->send_count > 0) {
            sent s = m->sends[--m->send_count];
            m->row->on_sent(m->state, s.peer, s.cookie);
        } else {
            m->row->on_timer(m->state, 0);
        }
    }
}

static void receive(member *m, uint32_t peer, const shoal_data *head, const uint8_t *body,
                    bool returned)
{
    uint8_t *at = m->row->place(m->state, peer, head);
    if (at == NULL)
        return;
    memcpy(at, body, head->len_bytes);
    if (returned)
        m->row->unplace(m->state, peer, head, at);
    else
        m->row->on_frames(m->state, peer, head, &at, 1);
}

/* One record of HEAD bytes and a body: how much was read. */
static size_t happen(member *m, const shoali_flow_args *args, const uint8_t *at, size_t left)
{
    static uint8_t body[BODY];
    uint32_t peer = at[0] / 16 % args->size;
    size_t there = at[1] < left - HEAD ? at[1] : left - HEAD;
    shoal_data head = {.match = at[2],
                       .chunk = at[3],
                       .flags = at[4] & 3,
                       .len_bytes = (at[5] | (uint32_t)at[6] << 8) % BODY};
    for (size_t i = 0; i < head.len_bytes; i++) /* over and over: bodies are longer than inputs */
        body[i] = there > 0 ? at[HEAD + i % there] : at[7];
    peer = peer == args->me ? (peer + 1) % args->size : peer;
    if (at[0] % 16 == 0)
        m->row->on_granted(m->state, peer, at[2]);
    else if (at[0] % 16 == 1 && m->row->on_control != NULL)
        m->row->on_control(m->state, peer, at[2], at + HEAD, there);
    else
        receive(m, peer, &head, body, at[0] % 16 == 2);
    return HEAD + there;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    static member m;
    engine_run run;
    if (len_bytes < 2)
        return 0;
    const engine_case *c = &cases[bytes[0] % (sizeof cases / sizeof *cases)];
    if (!engine_run_open(c, &run))
        abort();
    engine_run_measure(&run);
    shoali_flow_args args = engine_run_args(&run, bytes[1] % c->size);
    shoal_sink sink = {
        .ctx = &m, .send = on_send, .control = on_control, .job = on_job, .done = on_done};
    m = (member){.row = engine_run_row(&run)};
    m.state = shoali_alloc(m.row->state_size(&args));
    if (m.state == NULL || m.row->start(m.state, &args, &sink, 0) != SHOAL_OK)
        abort();
    settle(&m);
    for (size_t at = 2; at + HEAD <= len_bytes && !m.done; settle(&m))
        at += happen(&m, &args, bytes + at, len_bytes - at);
    if (!m.done)
        m.row->fail(m.state, SHOAL_EPEER, "the input is over");
    settle(&m);
    if (!m.done)
        abort();
    m.row->fini(m.state);
    shoali_free(m.state);
    engine_run_close(&run);
    return 0;
}
