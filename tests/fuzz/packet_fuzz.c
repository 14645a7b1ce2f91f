/* SPDX-License-Identifier: Apache-2.0 */
/* Packets into both sides of lossy aggregation. The input is a first byte of options, then records:
 * who sends or receives, a length, bytes that overwrite the first ones of a packet that is right.
 * Nothing is read or written out of bounds, sides stay consistent, and headers that decode equal
 * their own encoding. */
#include <stdlib.h>
#include <string.h>

#include "collective/slot.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

enum { WORKERS = 2, BLOCK = 4, COUNT = 30, SLOTS = 3, BYTES = 80 };

typedef struct sides {
    shoali_slot_pool pool;
    shoali_slot_worker workers[WORKERS];
    float x[WORKERS][COUNT];
} sides;

static void check(const sides *s)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < s->pool.share.slots; i++) {
        const shoali_slot_cell *cell = &s->pool.cells[i];
        open += !cell->finished;
        if (cell->count >= WORKERS || cell->result_bytes > shoali_slot_packet_bytes(&s->pool.share))
            abort();
    }
    if (open != s->pool.open || s->pool.unassigned > s->pool.share.blocks)
        abort();
}

static void receive(sides *s, uint32_t to, const uint8_t *bytes, size_t len_bytes)
{
    shoali_packet head;
    uint32_t values;
    uint8_t out[BYTES];
    if (!shoali_packet_decode(bytes, len_bytes, &head, &values))
        return;
    shoali_packet_encode(&head, out);
    if (memcmp(out, bytes, SHOALI_PACKET_BYTES) != 0)
        abort();
    const uint8_t *at = bytes + SHOALI_PACKET_BYTES;
    if (to < WORKERS) {
        if (shoali_slot_worker_take(&s->workers[to], &head, at, values, 1) == SHOALI_SLOT_SEND)
            (void)shoali_slot_worker_contribution(&s->workers[to], head.slot, out);
    } else if (shoali_slot_pool_take(&s->pool, &head, at, values) == SHOALI_SLOT_RESEND) {
        (void)shoali_slot_pool_answer(&s->pool, &head, out);
    }
    check(s);
}

/* The next packet that this side could get, with the input's bytes over its first ones. */
static void record(sides *s, uint8_t choice, const uint8_t *over, size_t over_bytes)
{
    uint8_t packet[BYTES] = {0};
    const uint32_t worker = choice % WORKERS, slot = choice / 4 % SLOTS;
    const uint32_t to = (choice & 2) != 0 ? WORKERS : worker;
    size_t len_bytes = SHOALI_PACKET_BYTES;
    const uint8_t *result = shoali_slot_pool_result(&s->pool, slot, &len_bytes);
    if (to == WORKERS)
        len_bytes = shoali_slot_worker_contribution(&s->workers[worker], slot, packet);
    else
        memcpy(packet, result, len_bytes);
    if (over_bytes > 0)
        memcpy(packet, over, over_bytes);
    receive(s, to, packet, (choice & 128) != 0 ? over_bytes : len_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    static sides s;
    shoali_slot_share share;
    shoal_arena *arena = shoali_arena_create(4096);
    if (arena == NULL || len_bytes == 0 ||
        shoali_slot_lay_out(COUNT, BLOCK, SLOTS, WORKERS, bytes[0] & 1, &share) != SHOAL_OK ||
        shoali_slot_pool_init(&s.pool, &share, arena) != SHOAL_OK) {
        shoali_arena_destroy(arena);
        return 0;
    }
    for (uint32_t w = 0; w < WORKERS; w++) {
        for (size_t i = 0; i < COUNT; i++)
            s.x[w][i] = (float)(i % 5) - 1;
        if (shoali_slot_worker_init(&s.workers[w], &share, s.x[w], w, arena) != SHOAL_OK)
            abort();
        shoali_slot_worker_begin(&s.workers[w], 0);
    }
    for (size_t at = 1; at + 2 <= len_bytes;) {
        size_t over = bytes[at + 1] % BYTES;
        over = over < len_bytes - at - 2 ? over : len_bytes - at - 2;
        record(&s, bytes[at], bytes + at + 2, over);
        at += 2 + over;
    }
    shoali_arena_destroy(arena);
    return 0;
}
