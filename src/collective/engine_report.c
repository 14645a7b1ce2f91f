/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine tells people: what it waits for, and where a value that is not finite came
 * from. */
#include <stdio.h>
#include <string.h>

#include "collective/engine.h"
#include "wire/guard.h"

static void put_le(uint8_t *out, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_le(const uint8_t *in, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)in[i] << (8 * i);
    return value;
}

void shoali_origin_pack(const shoali_not_finite *origin, uint8_t out[SHOALI_ORIGIN_BYTES])
{
    put_le(out, origin->endpoint, 4);
    put_le(out + 4, 0, 4);
    put_le(out + 8, origin->key, 8);
    put_le(out + 16, origin->index, 8);
    shoali_guard(out, SHOALI_ORIGIN_BYTES / 4);
}

/* Bytes that are no origin give one that is nowhere: only a text shows it. */
shoali_not_finite shoali_origin_unpack(const uint8_t guarded[SHOALI_ORIGIN_BYTES])
{
    uint8_t bytes[SHOALI_ORIGIN_BYTES];
    memcpy(bytes, guarded, sizeof bytes);
    (void)shoali_unguard(bytes, sizeof bytes / 4);
    return (shoali_not_finite){.endpoint = (uint32_t)get_le(bytes, 4),
                               .key = get_le(bytes + 8, 8),
                               .index = get_le(bytes + 16, 8)};
}

bool shoali_origin_before(const shoali_not_finite *a, const shoali_not_finite *b)
{
    if (a->endpoint != b->endpoint)
        return a->endpoint < b->endpoint;
    if (a->key != b->key)
        return a->key < b->key;
    return a->index < b->index;
}

/* The peer that most chunks wait for to enter; UINT32_MAX: all have. */
static uint32_t missing_peer(const shoali_engine_state *e)
{
    uint32_t missing = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < e->peer_count; i++) {
        const shoali_engine_peer *peer = &e->peers[i];
        uint32_t ready = peer->ready_count[SHOAL_PUSH] + peer->ready_count[SHOAL_PULL];
        if (peer->granted || ready <= most)
            continue;
        most = ready;
        missing = peer->member;
    }
    return missing;
}

/* The chunk that is furthest behind, in order of steps; UINT32_MAX: all have run their lists. */
static uint32_t slowest_chunk(const shoali_engine_state *e)
{
    uint32_t slowest = UINT32_MAX;
    const shoali_engine_step *behind = NULL;
    for (uint32_t c = 0; c < e->chunk_count; c++) {
        const shoali_engine_step *step = shoali_engine_current(e, c);
        if (step == NULL || (behind != NULL && step >= behind))
            continue;
        behind = step;
        slowest = c;
    }
    return slowest;
}

void shoali_engine_describe(const shoali_engine_state *e, char *text, size_t text_bytes,
                            uint32_t *peer_out)
{
    const uint32_t missing = missing_peer(e), chunk = slowest_chunk(e);
    *peer_out = missing;
    if (missing != UINT32_MAX) {
        snprintf(text, text_bytes, "waits for endpoint %u to enter (%u of %u chunks open)",
                 e->args.endpoints[missing], e->open_chunks, e->chunk_count);
        return;
    }
    if (chunk == UINT32_MAX) {
        snprintf(text, text_bytes, "waits for the transport (%u sends, %u receives under way)",
                 e->sends, e->placed);
        return;
    }
    const shoali_engine_step *step = shoali_engine_current(e, chunk);
    const uint32_t number = (uint32_t)(step - e->steps);
    if (step->s.kind == SHOAL_OWN) {
        *peer_out = e->args.me;
        snprintf(text, text_bytes, "chunk %u of %u: waits for its owner job (step %u of %u)", chunk,
                 e->chunk_count, number, e->step_count);
        return;
    }
    *peer_out = step->s.peer;
    snprintf(text, text_bytes, "chunk %u of %u: waits %s endpoint %u (step %u of %u, round %u)",
             chunk, e->chunk_count, step->s.kind == SHOAL_SEND ? "to send to" : "for data from",
             e->args.endpoints[step->s.peer], number, e->step_count, step->s.round);
}
