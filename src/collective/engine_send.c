/* SPDX-License-Identifier: Apache-2.0 */
/* Frames out. Every peer has a heap of ready (step, chunk), the smallest first, and a few flights:
 * frames in the transport's hands. A frame waits while one of an earlier round is out to somebody
 * else, and for its time where the operation has some (pace.h). Partial sums are encoded only when
 * they leave, so coded copies are bounded by the flights. */
#include "base/error.h"
#include "collective/engine.h"

static void heap_push(uint64_t *heap, uint32_t count, uint64_t key)
{
    uint32_t at = count;
    while (at > 0 && heap[(at - 1) / 2] > key) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = key;
}

/* Remove and return the smallest of count > 0 keys. */
static uint64_t heap_pop(uint64_t *heap, uint32_t count)
{
    const uint64_t top = heap[0], last = heap[count - 1];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < count && heap[child + 1] < heap[child])
            child++;
        if (child >= count || heap[child] >= last)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

void shoali_engine_mark_dirty(shoali_engine_state *e, uint32_t peer_index)
{
    shoali_engine_peer *peer = &e->peers[peer_index];
    if (peer->queued || peer->ready_count[SHOAL_PUSH] + peer->ready_count[SHOAL_PULL] == 0)
        return;
    peer->queued = true;
    e->dirty.items[(e->dirty.head + e->dirty.count++) % e->dirty.capacity] = peer_index;
}

bool shoali_engine_ready(shoali_engine_state *e, uint32_t step, uint32_t chunk)
{
    shoali_chunk *k = &e->chunks[chunk];
    const shoal_step *s = &e->steps[step].s;
    const uint32_t peer_index = e->peer_of[s->peer];
    shoali_engine_peer *peer = &e->peers[peer_index];
    if (k->flags & SHOALI_CHUNK_READY)
        return false;
    if (s->leg == SHOAL_PULL)
        k->reads++;
    else
        k->flags |= SHOALI_CHUNK_READY;
    heap_push(peer->ready[s->leg], peer->ready_count[s->leg]++, (uint64_t)step << 32 | chunk);
    shoali_engine_mark_dirty(e, peer_index);
    return s->leg == SHOAL_PULL;
}

static uint32_t free_flight(const shoali_engine_state *e, uint32_t peer_index)
{
    uint32_t at = peer_index * SHOALI_ENGINE_FLIGHTS;
    while (e->flights[at].used)
        at++;
    return at;
}

/* Choose the body of a frame; in scratch if it was coded for this frame alone. False: the operation
 * failed. */
static bool make_body(shoali_engine_state *e, uint32_t chunk, const shoal_step *step,
                      shoal_data *head, const uint8_t **body_out, uint8_t **scratch_out)
{
    shoali_chunk *k = &e->chunks[chunk];
    const bool raw = shoali_engine_raw(e, step);
    *scratch_out = NULL;
    if (k->pc == 0 && shoali_engine_touch(e, chunk, 0, k->count) && raw && step->leg == SHOAL_PUSH)
        (void)shoali_engine_contribute(e, chunk);
    if ((k->flags & SHOALI_CHUNK_FLAGGED) == 0 && step->leg == SHOAL_PUSH && !raw)
        (void)shoali_engine_encode(e, chunk, step, scratch_out, &head->len_bytes);
    if (e->failure.failed)
        return false;
    if (k->flags & SHOALI_CHUNK_FLAGGED) {
        head->flags = SHOAL_DATA_NOT_FINITE;
        head->len_bytes = SHOALI_ORIGIN_BYTES;
        *body_out = k->origin;
    } else if (*scratch_out != NULL) {
        *body_out = *scratch_out;
    } else if (raw) {
        head->len_bytes = k->count * (uint32_t)sizeof(float);
        *body_out = (const uint8_t *)(e->args.buf + k->offset);
    } else {
        head->len_bytes = k->kept_bytes;
        *body_out = k->kept;
    }
    if (*body_out == NULL)
        shoali_engine_fail(e, SHOAL_EINTERNAL,
                           "collective '%s' sends chunk %u by PULL before it is complete",
                           e->args.collective->spec, chunk);
    return !e->failure.failed;
}

static void send_chunk(shoali_engine_state *e, uint32_t peer_index, uint32_t step_index,
                       uint32_t chunk)
{
    shoali_engine_peer *peer = &e->peers[peer_index];
    const shoali_engine_step *step = &e->steps[step_index];
    shoali_chunk *k = &e->chunks[chunk];
    shoal_data head = {.slot = peer->slot,
                       .match = step->match,
                       .chunk = chunk,
                       .pull = step->s.leg == SHOAL_PULL};
    const uint8_t *body = NULL;
    uint8_t *scratch;
    if (!make_body(e, chunk, &step->s, &head, &body, &scratch))
        return;
    const uint32_t flight = free_flight(e, peer_index);
    e->flights[flight] = (shoali_flight){scratch, chunk, true};
    peer->in_flight++;
    peer->round = step->s.round;
    e->sends++;
    e->stats.sent_payload_bytes += head.len_bytes;
    e->stats.sent_elems += k->count;
    e->budget -= k->count / 4;
    shoali_pace_sent(&e->pace, k->count);
    if (step->s.leg == SHOAL_PUSH) {
        k->flags &= ~(uint32_t)SHOALI_CHUNK_READY;
        k->reads += scratch == NULL;
        k->pc++;
        peer->ahead++;
        shoali_engine_wake(e, chunk);
    }
    e->sink.send(e->sink.ctx, peer->member, &head, body, flight);
}

/* The leg whose turn it is, -1 for none: the smallest (step, chunk), but a push waits for what has
 * not come back. A lag that members may build up at first and must make good later costs as much:
 * while the slowest catches up, the way in idles. */
static int next_leg(const shoali_engine_state *e, const shoali_engine_peer *peer)
{
    const bool far = e->ahead > 0 && peer->ahead >= e->ahead;
    const bool push = peer->ready_count[SHOAL_PUSH] > 0 && !far;
    const bool pull = peer->ready_count[SHOAL_PULL] > 0;
    if (push && pull)
        return peer->ready[SHOAL_PUSH][0] < peer->ready[SHOAL_PULL][0] ? SHOAL_PUSH : SHOAL_PULL;
    return push ? SHOAL_PUSH : pull ? SHOAL_PULL : -1;
}

static bool share_a_link(const shoali_engine_state *e, uint32_t a, uint32_t b)
{
    const uint32_t *endpoints = e->args.endpoints;
    const uint64_t *links = e->args.links;
    return links == NULL ||
           (links[endpoints[e->peers[a].member]] & links[endpoints[e->peers[b].member]]) != 0;
}

/* A frame of an earlier round is on its way to somebody else: both would share this rank's link and
 * come late, and the earlier one is waited for. */
static bool overtakes(const shoali_engine_state *e, uint32_t peer_index, uint64_t key)
{
    uint32_t round = e->steps[key >> 32].s.round;
    for (uint32_t i = 0; i < e->peer_count; i++)
        if (i != peer_index && e->peers[i].in_flight > 0 && e->peers[i].round < round &&
            share_a_link(e, i, peer_index))
            return true;
    return false;
}

bool shoali_engine_paced(const shoali_engine_state *e)
{
    return e->args.pace_us != NULL && *e->args.pace_us > 0 && e->args.now_ns != NULL;
}

void shoali_engine_pace(shoali_engine_state *e)
{
    uint64_t elems = 0;
    uint32_t most = 0;
    if (!shoali_engine_paced(e))
        return;
    for (uint32_t s = 0; s < e->step_count; s++) {
        const shoali_engine_step *step = &e->steps[s];
        for (uint32_t c = 0; step->s.kind == SHOAL_SEND && c < step->chunk_count; c++) {
            const uint32_t count = e->chunks[step->first_chunk + c].count;
            elems += count;
            most = count > most ? count : most;
        }
    }
    shoali_pace_begin(&e->pace, e->args.now_ns() / 1000, *e->args.pace_us, elems, most);
}

void shoali_engine_go_on(shoali_engine_state *e)
{
    e->pace.held = false;
    for (uint32_t i = 0; i < e->peer_count; i++)
        shoali_engine_mark_dirty(e, i);
}

void shoali_engine_serve(shoali_engine_state *e, uint32_t peer_index)
{
    shoali_engine_peer *peer = &e->peers[peer_index];
    int leg;
    while (peer->granted && peer->in_flight < SHOALI_ENGINE_FLIGHTS && !e->failure.failed &&
           (leg = next_leg(e, peer)) >= 0) {
        if (e->budget <= 0) {
            shoali_engine_mark_dirty(e, peer_index);
            return;
        }
        if (overtakes(e, peer_index, peer->ready[leg][0])) {
            e->held_back = true;
            return;
        }
        if (shoali_engine_paced(e) && !shoali_pace_may(&e->pace, e->args.now_ns() / 1000))
            return;
        uint64_t key = heap_pop(peer->ready[leg], peer->ready_count[leg]--);
        send_chunk(e, peer_index, (uint32_t)(key >> 32), (uint32_t)key);
    }
}

void shoali_engine_sent(shoali_engine_state *e, uint64_t cookie)
{
    if (cookie >= (uint64_t)e->peer_count * SHOALI_ENGINE_FLIGHTS || !e->flights[cookie].used)
        return;
    shoali_flight *flight = &e->flights[cookie];
    const uint32_t peer_index = (uint32_t)cookie / SHOALI_ENGINE_FLIGHTS;
    flight->used = false;
    e->peers[peer_index].in_flight--;
    e->sends--;
    if (flight->scratch != NULL)
        shoali_scratch_put(e->scratch, flight->scratch);
    else if (--e->chunks[flight->chunk].reads == 0)
        shoali_engine_wake(e, flight->chunk);
    shoali_engine_mark_dirty(e, peer_index);
    for (uint32_t i = 0; e->held_back && i < e->peer_count; i++)
        shoali_engine_mark_dirty(e, i);
    e->held_back = false;
}
