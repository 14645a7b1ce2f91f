/* SPDX-License-Identifier: Apache-2.0 */
/* What members of a switchml operation say to each other (JOIN, SETUP, FINISHED, ORIGIN) and their
 * packets, from peers that may say anything, to one that works and one that aggregates, too. The
 * input is a first byte of options, then records: what comes, from whom, a length, bytes. Nothing
 * is read or written out of bounds, and the operation can still be ended. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "collective/flow.h"
#include "shoal/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

enum { MEMBERS = 3, COUNT = 40, DATAGRAM_BYTES = 120 };

typedef struct side {
    uint64_t sent;
    uint32_t done;
} side;

static void on_send(void *ctx, uint32_t peer, const shoal_data *head, const void *body,
                    uint64_t cookie)
{
    (void)ctx, (void)peer, (void)head, (void)body, (void)cookie;
    abort(); /* it has no frames */
}

/* All that leaves is read. */
static void look(side *s, uint32_t peer, const uint8_t *bytes, size_t len_bytes)
{
    if (peer >= MEMBERS)
        abort();
    for (size_t i = 0; i < len_bytes; i++)
        s->sent += bytes[i];
}

static void on_control(void *ctx, uint32_t peer, uint16_t kind, const void *bytes, size_t len_bytes)
{
    (void)kind;
    look(ctx, peer, bytes, len_bytes);
}

static void on_datagram(void *ctx, uint32_t peer, const void *bytes, size_t len_bytes)
{
    if (len_bytes > DATAGRAM_BYTES)
        abort();
    look(ctx, peer, bytes, len_bytes);
}

static void on_done(void *ctx, const shoal_op_id *id, shoal_status status, const char *why)
{
    (void)id, (void)status, (void)why;
    if (((side *)ctx)->done++ > 0)
        abort();
}

static const char *spec_of(uint8_t options)
{
    static const char *const specs[] = {"switchml:slots=2", "switchml:slots=2,sparse",
                                        "switchml:shards=1,slots=2", "switchml:block=4,slots=1"};
    return specs[options >> 1 & 3];
}

static void feed(const shoali_flow_row *row, void *flow, const side *s, const uint8_t *bytes,
                 size_t len_bytes)
{
    uint64_t now_us = 0;
    for (size_t at = 0; at + 3 <= len_bytes && s->done == 0;) {
        const uint8_t what = bytes[at], from = bytes[at + 1] % MEMBERS;
        size_t body = bytes[at + 2];
        body = body < len_bytes - at - 3 ? body : len_bytes - at - 3;
        now_us += what;
        if (what % 8 == 7)
            row->on_timer(flow, now_us);
        else if (what % 8 == 6)
            row->on_granted(flow, from, 0);
        else if (what % 8 == 5)
            (void)row->on_datagram(flow, from, bytes + at + 3, body, now_us);
        else
            row->on_control(flow, from, what % 8, bytes + at + 3, body);
        at += 3 + body;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    static float x[COUNT];
    static const uint32_t endpoints[MEMBERS] = {0, 1, 2};
    static const shoal_tensor tensor = {.key = 1, .count = COUNT, .lr_scale = 1};
    side s = {0};
    const shoal_sink sink = {.ctx = &s,
                             .send = on_send,
                             .control = on_control,
                             .done = on_done,
                             .datagram = on_datagram};
    shoali_collective collective;
    shoal_codec *codec;
    if (len_bytes == 0)
        return 0;
    if (shoali_collective_open(spec_of(bytes[0]), &collective) != SHOAL_OK ||
        shoal_codec_open((bytes[0] & 8) != 0 ? "blockint" : "identity", &codec) != SHOAL_OK)
        abort();
    for (uint32_t i = 0; i < COUNT; i++)
        x[i] = (float)(i % 5) - 1;
    const shoali_flow_args args = {.id = {1, 2, 1, 0},
                                   .kind = SHOAL_ALL_REDUCE,
                                   .me = bytes[0] & 1,
                                   .size = MEMBERS,
                                   .contributors = MEMBERS,
                                   .endpoints = endpoints,
                                   .buf = x,
                                   .count = COUNT,
                                   .tensors = &tensor,
                                   .tensor_count = 1,
                                   .push = codec,
                                   .pull = codec,
                                   .collective = &collective,
                                   .check_finite = true,
                                   .datagram_bytes = DATAGRAM_BYTES,
                                   .datagram_key = 0x0807060504030201};
    const shoali_flow_row *row = collective.row->flow;
    void *flow = calloc(1, row->state_size(&args));
    if (flow != NULL && row->start(flow, &args, &sink, 0) == SHOAL_OK) {
        feed(row, flow, &s, bytes + 1, len_bytes - 1);
        if (s.done == 0)
            row->fail(flow, SHOAL_ECANCELLED, "over");
        if (s.done == 0)
            abort();
        row->fini(flow);
    }
    free(flow);
    shoal_codec_close(codec);
    shoali_collective_close(&collective);
    return 0;
}
