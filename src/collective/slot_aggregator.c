/* SPDX-License-Identifier: Apache-2.0 */
/* The aggregator's half. Nothing is ever cleared: the first values of a round overwrite, and what a
 * cell says about a round starts anew when the one before is complete. */
#include <string.h>

#include "base/error.h"
#include "collective/slot.h"

uint64_t shoali_slot_pool_bytes(const shoali_slot_share *share)
{
    return (uint64_t)share->slots * (sizeof(shoali_slot_cell) + 4 * (uint64_t)share->block +
                                     shoali_slot_packet_bytes(share));
}

static uint32_t assign(shoali_slot_pool *pool)
{
    return pool->unassigned < pool->share.blocks ? pool->unassigned++ : SHOALI_PACKET_NONE;
}

static bool has(const uint64_t set[4], uint32_t worker)
{
    return (set[worker / 64] >> worker % 64 & 1) != 0;
}

static void add(uint64_t set[4], uint32_t worker)
{
    set[worker / 64] |= (uint64_t)1 << worker % 64;
}

/* The cell's round is the newest of all. */
static void make_newest(shoali_slot_pool *pool, uint32_t slot)
{
    shoali_slot_cell *cell = &pool->cells[slot];
    cell->last_opened = cell->opened;
    cell->opened = pool->completed;
    if (pool->newest == slot)
        return;
    if (pool->oldest == slot)
        pool->oldest = cell->newer;
    else
        pool->cells[cell->older].newer = cell->newer;
    pool->cells[cell->newer].older = cell->older;
    pool->cells[pool->newest].newer = slot;
    cell->older = pool->newest;
    pool->newest = slot;
}

/* The round after: dense, everybody's next is known. */
static void open_round(shoali_slot_pool *pool, shoali_slot_cell *cell, uint32_t block,
                       uint32_t next)
{
    cell->block = block;
    cell->next = pool->share.sparse ? SHOALI_PACKET_NONE : next;
    cell->exponent = SHOALI_EXPONENT_ZERO;
    cell->count = 0;
    cell->any = false;
    cell->teller = SHOALI_PACKET_NONE;
    memset(cell->seen, 0, sizeof cell->seen);
    memset(cell->told, 0, sizeof cell->told);
}

shoal_status shoali_slot_pool_init(shoali_slot_pool *pool, const shoali_slot_share *share,
                                   shoal_arena *arena)
{
    *pool = (shoali_slot_pool){.share = *share, .open = share->slots};
    pool->cells = shoali_arena_array(arena, share->slots, sizeof *pool->cells);
    if (pool->cells == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < share->slots; i++) {
        shoali_slot_cell *cell = &pool->cells[i];
        cell->acc = shoali_arena_array(arena, share->block, sizeof *cell->acc);
        cell->result = shoali_arena_alloc(arena, shoali_slot_packet_bytes(share));
        if (cell->acc == NULL || cell->result == NULL)
            return SHOAL_ENOMEM;
        open_round(pool, cell, SHOALI_PACKET_NONE, assign(pool));
        cell->older = i - 1; /* ends of the list are not followed */
        cell->newer = i + 1;
    }
    pool->newest = share->slots - 1;
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ in */

/* What a worker at this round can say. */
static bool possible(const shoali_slot_pool *pool, const shoali_slot_cell *cell,
                     const shoali_packet *head, uint32_t count)
{
    const shoali_slot_share *share = &pool->share;
    if (count != 0 && (count != share->block || cell->block == SHOALI_PACKET_NONE))
        return false;
    if (!share->sparse)
        return head->next == cell->next;
    return head->next == SHOALI_PACKET_NONE ||
           (head->next < share->blocks && head->next % share->slots == head->slot &&
            (cell->block == SHOALI_PACKET_NONE || head->next > cell->block));
}

static void note_next(shoali_slot_cell *cell, const shoali_packet *head)
{
    if (head->next < cell->next) {
        cell->next = head->next;
        cell->exponent = head->exponent;
    } else if (head->next == cell->next && head->exponent > cell->exponent) {
        cell->exponent = head->exponent;
    }
}

/* Everybody has sent: write the result, and open the next round. */
static void complete(shoali_slot_pool *pool, shoali_slot_cell *cell, uint16_t slot)
{
    const shoali_slot_share *share = &pool->share;
    const bool last = cell->next == SHOALI_PACKET_NONE;
    cell->after = share->sparse || last ? SHOALI_PACKET_NONE : assign(pool);
    const shoali_packet head = {.kind = SHOALI_PACKET_RESULT,
                                .slot = slot,
                                .exponent = cell->exponent,
                                .key = share->key,
                                .round = cell->round,
                                .next = share->sparse ? cell->next : cell->after};
    shoali_packet_encode(&head, cell->result);
    cell->result_bytes = SHOALI_PACKET_BYTES;
    if (cell->any) {
        shoali_slot_put(cell->acc, share->block, cell->result + SHOALI_PACKET_BYTES);
        cell->result_bytes += 4 * share->block;
    }
    cell->round++;
    cell->finished = last;
    pool->open -= last;
    open_round(pool, cell, cell->next, cell->after);
    pool->completed++;
    make_newest(pool, slot);
}

static shoali_slot_verdict contribute(shoali_slot_pool *pool, shoali_slot_cell *cell,
                                      const shoali_packet *head, const uint8_t *values,
                                      uint32_t count)
{
    if (has(cell->seen, head->worker) || !possible(pool, cell, head, count)) {
        pool->repeated += has(cell->seen, head->worker);
        return SHOALI_SLOT_IGNORED;
    }
    add(cell->seen, head->worker);
    note_next(cell, head);
    if (count > 0) {
        if (cell->any)
            shoali_slot_add(cell->acc, values, count);
        else
            shoali_slot_set(cell->acc, values, count);
        cell->any = true;
    }
    if (++cell->count < pool->share.workers)
        return SHOALI_SLOT_TAKEN;
    complete(pool, cell, head->slot);
    return SHOALI_SLOT_SEND;
}

shoali_slot_verdict shoali_slot_pool_take(shoali_slot_pool *pool, const shoali_packet *head,
                                          const uint8_t *values, uint32_t count)
{
    if (head->key != pool->share.key || head->slot >= pool->share.slots ||
        head->worker >= pool->share.workers)
        return SHOALI_SLOT_IGNORED;
    shoali_slot_cell *cell = &pool->cells[head->slot];
    const bool probe = head->kind == SHOALI_PACKET_PROBE;
    if (!probe && head->kind != SHOALI_PACKET_CONTRIBUTION)
        return SHOALI_SLOT_IGNORED;
    if (probe && head->round + 1 == cell->round)
        return SHOALI_SLOT_RESEND; /* its result was lost on the way to this worker */
    if (head->round != cell->round || cell->finished) {
        pool->stale++;
        return SHOALI_SLOT_IGNORED;
    }
    return probe ? SHOALI_SLOT_RESEND : contribute(pool, cell, head, values, count);
}

/* ------------------------------------------------------------------ out */

const uint8_t *shoali_slot_pool_result(const shoali_slot_pool *pool, uint32_t slot,
                                       size_t *bytes_out)
{
    *bytes_out = pool->cells[slot].result_bytes;
    return pool->cells[slot].result;
}

/* Who is missing in the slot's round. */
static size_t write_state(const shoali_slot_pool *pool, const shoali_slot_cell *cell,
                          const shoali_packet *head, uint8_t *out)
{
    shoali_packet state = *head;
    uint8_t *missing = out + SHOALI_PACKET_BYTES;
    state.kind = SHOALI_PACKET_STATE;
    shoali_packet_encode(&state, out);
    memset(missing, 0, SHOALI_PACKET_MISSING_BYTES);
    for (uint32_t w = 0; w < pool->share.workers; w++)
        if (!has(cell->seen, w))
            missing[w / 8] |= (uint8_t)(1u << w % 8);
    return SHOALI_PACKET_BYTES + SHOALI_PACKET_MISSING_BYTES;
}

size_t shoali_slot_pool_answer(const shoali_slot_pool *pool, const shoali_packet *head,
                               uint8_t *out)
{
    const shoali_slot_cell *cell = &pool->cells[head->slot];
    if (head->round + 1 == cell->round) {
        memcpy(out, cell->result, cell->result_bytes);
        return cell->result_bytes;
    }
    return write_state(pool, cell, head, out);
}

/* Rounds that may be answered in another order than they began in: packets overtake each other. */
enum { OVERTAKES = 3 };

size_t shoali_slot_pool_tell(shoali_slot_pool *pool, const shoali_packet *head, uint8_t *out)
{
    const shoali_slot_cell *answered = &pool->cells[head->slot];
    const uint64_t began = head->round == answered->round ? answered->opened
                                                          : answered->last_opened;
    uint32_t slot = pool->oldest;
    for (uint32_t i = 0; i < pool->share.slots; i++, slot = pool->cells[slot].newer) {
        shoali_slot_cell *cell = &pool->cells[slot];
        if (cell->opened + OVERTAKES >= began)
            return 0;
        if (cell->finished || has(cell->seen, head->worker) || has(cell->told, head->worker))
            continue;
        add(cell->told, head->worker);
        const shoali_packet state = {.worker = head->worker,
                                     .slot = (uint16_t)slot,
                                     .key = head->key,
                                     .round = cell->round,
                                     .next = SHOALI_PACKET_NONE};
        return write_state(pool, cell, &state, out);
    }
    return 0;
}

size_t shoali_slot_pool_tell_missing(shoali_slot_pool *pool, const shoali_packet *head,
                                     uint32_t *from, uint8_t *out)
{
    shoali_slot_cell *cell = &pool->cells[head->slot];
    if (head->kind != SHOALI_PACKET_PROBE || head->round != cell->round || cell->finished ||
        !has(cell->seen, head->worker))
        return 0;
    if (cell->teller == SHOALI_PACKET_NONE)
        cell->teller = head->worker;
    for (; cell->teller == head->worker && *from < pool->share.workers; ++*from) {
        if (has(cell->seen, *from))
            continue;
        const shoali_packet state = {.worker = (uint8_t)*from,
                                     .slot = head->slot,
                                     .key = head->key,
                                     .round = cell->round,
                                     .next = SHOALI_PACKET_NONE};
        return write_state(pool, cell, &state, out);
    }
    return 0;
}

bool shoali_slot_pool_missing(const shoali_slot_pool *pool, uint32_t *slot_out,
                              uint32_t *worker_out)
{
    for (uint32_t slot = 0; slot < pool->share.slots; slot++)
        for (uint32_t w = 0; !pool->cells[slot].finished && w < pool->share.workers; w++)
            if (!has(pool->cells[slot].seen, w)) {
                *slot_out = slot;
                *worker_out = w;
                return true;
            }
    return false;
}
