/* SPDX-License-Identifier: Apache-2.0 */
/* From a schedule over blocks to tables over chunks, which serve more than one run. All chunks of a
 * block share one list of steps, so the tables grow with steps and with chunks, not with their
 * product; only arrivals have one entry per frame to come. */
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "collective/engine.h"

/* A group of one: nothing to move, but its owner job and its finite check run, as an OWN of one
 * block. */
static shoal_status alone(shoali_engine_state *e, shoal_schedule *schedule)
{
    *schedule = (shoal_schedule){
        .steps = shoali_arena_array(e->arena, 1, sizeof(shoal_step)), .count = 1, .blocks = 1};
    if (schedule->steps == NULL)
        return SHOAL_ENOMEM;
    schedule->steps[0] = (shoal_step){
        .kind = SHOAL_OWN, .leg = SHOAL_PULL, .block_count = 1, .parts = 1};
    e->raw[SHOAL_PUSH] = e->raw[SHOAL_PULL] = true;
    e->feedback[SHOAL_PUSH] = e->feedback[SHOAL_PULL] = false;
    e->slots.used = false;
    return SHOAL_OK;
}

static shoal_status build(shoali_engine_state *e, shoal_schedule *schedule)
{
    const shoali_flow_args *a = &e->args;
    if (a->size == 1)
        return alone(e, schedule);
    shoal_schedule_args build_args = {a->size, a->contributors, a->me, a->root, NULL, a->rates};
    shoal_status status = shoali_collective_build(a->collective, a->kind, &build_args, e->arena,
                                                  schedule);
    if (status == SHOAL_OK)
        e->stats.rounds = schedule->rounds;
    return status;
}

static void cut_finer(shoali_engine_state *e, uint32_t cuts)
{
    enum { LEAST = 8192 }; /* elements: below, frames cost more than waiting */
    size_t piece = cuts > 0 ? e->args.count / cuts : SIZE_MAX;
    piece = piece > LEAST ? piece : LEAST;
    if (piece < e->args.chunk_elems)
        e->args.chunk_elems = (uint32_t)piece;
}

/* Chunks of all blocks; first[b] is the first chunk of block b, first[blocks] their number. */
static shoal_status cut_blocks(shoali_engine_state *e, const shoal_schedule *schedule,
                               uint32_t **first_out)
{
    uint32_t *first = shoali_arena_array(e->arena, (size_t)e->blocks + 1, sizeof *first);
    if (first == NULL)
        return SHOAL_ENOMEM;
    uint64_t total = 0;
    for (uint32_t b = 0; b < e->blocks; b++) {
        size_t offset, count;
        shoali_schedule_range(schedule, e->args.count, b, &offset, &count);
        first[b] = (uint32_t)total;
        total += (count + e->args.chunk_elems - 1) / e->args.chunk_elems;
        if (total >= UINT32_MAX / 2)
            return shoali_fail(SHOAL_EINVAL, "%zu elements make too many chunks of %u",
                               e->args.count, e->args.chunk_elems);
    }
    first[e->blocks] = (uint32_t)total;
    e->chunk_count = e->open_chunks = (uint32_t)total;
    *first_out = first;
    return SHOAL_OK;
}

static shoal_status fill_chunks(shoali_engine_state *e, const shoal_schedule *schedule,
                                const uint32_t *first)
{
    e->chunks = shoali_arena_array(e->arena, e->chunk_count, sizeof *e->chunks);
    if (e->chunks == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t b = 0; b < e->blocks; b++) {
        size_t offset, count;
        shoali_schedule_range(schedule, e->args.count, b, &offset, &count);
        for (uint32_t c = first[b]; c < first[b + 1]; c++) {
            size_t at = (size_t)(c - first[b]) * e->args.chunk_elems, left = count - at;
            e->chunks[c].block = b;
            e->chunks[c].offset = offset + at;
            e->chunks[c].count = (uint32_t)(left < e->args.chunk_elems ? left
                                                                       : e->args.chunk_elems);
        }
    }
    return SHOAL_OK;
}

static shoal_status fill_steps(shoali_engine_state *e, const shoal_schedule *schedule,
                               const uint32_t *first)
{
    e->step_count = schedule->count;
    e->steps = shoali_arena_array(e->arena, schedule->count, sizeof *e->steps);
    if (e->steps == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < schedule->count; i++) {
        const shoal_step *s = &schedule->steps[i];
        bool moves = s->kind != SHOAL_OWN;
        if (s->kind > SHOAL_OWN || s->leg > SHOAL_PULL || s->block > e->blocks ||
            s->block_count > e->blocks - s->block ||
            (moves && (s->peer >= e->args.size || s->peer == e->args.me)))
            return shoali_fail(SHOAL_EINTERNAL, "step %u of collective '%s' is out of range", i,
                               e->args.collective->spec);
        e->steps[i].s = *s;
        e->steps[i].first_chunk = first[s->block];
        e->steps[i].chunk_count = first[s->block + s->block_count] - first[s->block];
    }
    return SHOAL_OK;
}

/* Turn counts in first[1 ..] into starts: first[i] is where list i begins. */
static size_t counts_to_starts(uint32_t *first, uint32_t lists)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i <= lists; i++) {
        total += first[i];
        first[i] = (uint32_t)total;
    }
    return total;
}

/* The list of steps of every block. */
static shoal_status list_steps(shoali_engine_state *e)
{
    uint32_t *first = shoali_arena_array(e->arena, (size_t)e->blocks + 1, sizeof *first);
    uint32_t *fill = shoali_arena_array(e->arena, (size_t)e->blocks + 1, sizeof *fill);
    if (first == NULL || fill == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < e->step_count; i++)
        for (uint32_t b = 0; b < e->steps[i].s.block_count; b++)
            first[e->steps[i].s.block + b + 1]++;
    e->block_first = first;
    e->block_steps = shoali_arena_array(e->arena, counts_to_starts(first, e->blocks),
                                        sizeof *e->block_steps);
    if (e->block_steps == NULL)
        return SHOAL_ENOMEM;
    memcpy(fill, first, ((size_t)e->blocks + 1) * sizeof *fill);
    for (uint32_t i = 0; i < e->step_count; i++)
        for (uint32_t b = 0; b < e->steps[i].s.block_count; b++)
            e->block_steps[fill[e->steps[i].s.block + b]++] = i;
    return SHOAL_OK;
}

/* Receives by peer, and the arrivals that they wait for. */
static shoal_status list_receives(shoali_engine_state *e)
{
    const uint32_t size = e->args.size;
    uint32_t *first = shoali_arena_array(e->arena, (size_t)size + 1, sizeof *first);
    uint32_t *fill = shoali_arena_array(e->arena, (size_t)size + 1, sizeof *fill);
    if (first == NULL || fill == NULL)
        return SHOAL_ENOMEM;
    size_t arrivals = 0;
    for (uint32_t i = 0; i < e->step_count; i++) {
        shoali_engine_step *step = &e->steps[i];
        if (step->s.kind != SHOAL_RECV_ADD && step->s.kind != SHOAL_RECV_SET)
            continue;
        first[step->s.peer + 1]++;
        step->arrivals = (uint32_t)arrivals;
        arrivals += step->chunk_count;
    }
    if (arrivals > UINT32_MAX)
        return shoali_fail(SHOAL_EINVAL, "%zu elements make too many chunks of %u", e->args.count,
                           e->args.chunk_elems);
    e->recv_first = first;
    e->arrival_count = (uint32_t)arrivals;
    e->recv_steps = shoali_arena_array(e->arena, counts_to_starts(first, size),
                                       sizeof *e->recv_steps);
    e->arrivals = shoali_arena_array(e->arena, arrivals, sizeof *e->arrivals);
    if (e->recv_steps == NULL || e->arrivals == NULL)
        return SHOAL_ENOMEM;
    memcpy(fill, first, ((size_t)size + 1) * sizeof *fill);
    for (uint32_t i = 0; i < e->step_count; i++) {
        shoali_engine_step *step = &e->steps[i];
        if (step->s.kind != SHOAL_RECV_ADD && step->s.kind != SHOAL_RECV_SET)
            continue;
        step->match = fill[step->s.peer] - first[step->s.peer];
        e->recv_steps[fill[step->s.peer]++] = i;
    }
    return SHOAL_OK;
}

/* Number the sends to each member, and the members sent to; in chunks_to: what goes to each of
 * these by each leg. */
static shoal_status number_sends(shoali_engine_state *e, uint64_t (*chunks_to)[2])
{
    uint32_t *sends = shoali_arena_array(e->arena, e->args.size, sizeof *sends);
    e->peer_of = shoali_arena_array(e->arena, e->args.size, sizeof *e->peer_of);
    if (sends == NULL || e->peer_of == NULL)
        return SHOAL_ENOMEM;
    memset(e->peer_of, 0xff, e->args.size * sizeof *e->peer_of);
    for (uint32_t i = 0; i < e->step_count; i++) {
        shoali_engine_step *step = &e->steps[i];
        if (step->s.kind != SHOAL_SEND)
            continue;
        step->match = sends[step->s.peer]++;
        if (step->chunk_count > 0 && e->peer_of[step->s.peer] == UINT32_MAX)
            e->peer_of[step->s.peer] = e->peer_count++;
        chunks_to[step->s.peer][step->s.leg] += step->chunk_count;
    }
    return SHOAL_OK;
}

static shoal_status list_peers(shoali_engine_state *e)
{
    uint64_t(*chunks_to)[2] = shoali_arena_array(e->arena, e->args.size, sizeof *chunks_to);
    if (chunks_to == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(number_sends(e, chunks_to));
    e->peers = shoali_arena_array(e->arena, e->peer_count, sizeof *e->peers);
    e->flights = shoali_arena_array(e->arena, (size_t)e->peer_count * SHOALI_ENGINE_FLIGHTS,
                                    sizeof *e->flights);
    if (e->peers == NULL || e->flights == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t member = 0; member < e->args.size; member++) {
        if (e->peer_of[member] == UINT32_MAX)
            continue;
        shoali_engine_peer *peer = &e->peers[e->peer_of[member]];
        peer->member = member;
        for (int leg = 0; leg < 2; leg++) {
            peer->ready[leg] = shoali_arena_array(e->arena, (size_t)chunks_to[member][leg],
                                                  sizeof *peer->ready[leg]);
            if (peer->ready[leg] == NULL)
                return SHOAL_ENOMEM;
        }
    }
    return SHOAL_OK;
}

static shoal_status make_fifo(shoali_engine_state *e, uint32_t capacity, shoali_fifo *fifo_out)
{
    fifo_out->items = shoali_arena_array(e->arena, capacity, sizeof *fifo_out->items);
    fifo_out->capacity = capacity;
    return fifo_out->items != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static shoal_status make_slots(shoali_engine_state *e)
{
    if (!e->slots.used)
        return SHOAL_OK;
    e->slots.positions = e->chunk_count / e->blocks;
    e->slots.kept = shoali_arena_array(e->arena, e->slots.positions, sizeof *e->slots.kept);
    e->slots.added = shoali_arena_array(e->arena, e->slots.positions, sizeof *e->slots.added);
    return e->slots.kept != NULL && e->slots.added != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

shoal_status shoali_engine_plan(shoali_engine_state *e)
{
    shoal_schedule schedule = {0};
    uint32_t *first_chunk = NULL;
    SHOALI_TRY(build(e, &schedule));
    e->blocks = schedule.blocks;
    e->ahead = schedule.ahead;
    e->site = schedule.site;
    cut_finer(e, schedule.cuts);
    if (e->blocks == 0)
        return shoali_fail(SHOAL_EINTERNAL, "collective '%s' has no blocks",
                           e->args.collective->spec);
    SHOALI_TRY(cut_blocks(e, &schedule, &first_chunk));
    SHOALI_TRY(fill_chunks(e, &schedule, first_chunk));
    SHOALI_TRY(fill_steps(e, &schedule, first_chunk));
    SHOALI_TRY(list_steps(e));
    SHOALI_TRY(list_receives(e));
    SHOALI_TRY(list_peers(e));
    SHOALI_TRY(make_slots(e));
    SHOALI_TRY(make_fifo(e, e->chunk_count, &e->run));
    return make_fifo(e, e->peer_count, &e->dirty);
}

/* ------------------------------------------------------------------ once more */

static void rewind_tables(shoali_engine_state *e)
{
    memset(e->arrivals, 0, e->arrival_count * sizeof *e->arrivals);
    memset(e->flights, 0, (size_t)e->peer_count * SHOALI_ENGINE_FLIGHTS * sizeof *e->flights);
    for (uint32_t c = 0; c < e->chunk_count; c++) {
        const shoali_chunk *k = &e->chunks[c];
        e->chunks[c] = (shoali_chunk){.offset = k->offset, .count = k->count, .block = k->block};
    }
    for (uint32_t p = 0; p < e->peer_count; p++) {
        const shoali_engine_peer *peer = &e->peers[p];
        e->peers[p] = (shoali_engine_peer){.ready = {peer->ready[0], peer->ready[1]},
                                           .member = peer->member};
    }
    for (uint32_t i = 0; e->slots.used && i < e->slots.positions; i++)
        e->slots.kept[i] = e->slots.added[i] = 0;
}

/* A field that is not named here starts at zero. */
void shoali_engine_rewind(shoali_engine_state *e)
{
    rewind_tables(e);
    *e = (shoali_engine_state){
        .args = e->args,
        .arena = e->arena,
        .scratch = e->scratch,
        .own_scratch = e->own_scratch,
        .decoded = e->decoded,
        .steps = e->steps,
        .step_count = e->step_count,
        .blocks = e->blocks,
        .ahead = e->ahead,
        .site = e->site,
        .block_first = e->block_first,
        .block_steps = e->block_steps,
        .recv_first = e->recv_first,
        .recv_steps = e->recv_steps,
        .arrivals = e->arrivals,
        .arrival_count = e->arrival_count,
        .chunks = e->chunks,
        .chunk_count = e->chunk_count,
        .open_chunks = e->chunk_count,
        .peer_of = e->peer_of,
        .peers = e->peers,
        .peer_count = e->peer_count,
        .flights = e->flights,
        .run = {.items = e->run.items, .capacity = e->run.capacity},
        .dirty = {.items = e->dirty.items, .capacity = e->dirty.capacity},
        .slots = e->slots,
        .raw = {e->raw[0], e->raw[1]},
        .feedback = {e->feedback[0], e->feedback[1]},
        .stats = {.rounds = e->stats.rounds},
    };
}
