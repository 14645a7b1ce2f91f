/* SPDX-License-Identifier: Apache-2.0 */
/* Frames are bytes in the ring: a body longer than the ring flows through it. Bytes move in pieces,
 * so that both sides copy at the same time. */
#include <stdio.h>

#include "base/error.h"
#include "transport/shm.h"
#include "wire/crc32c.h"

enum {
    PIECE_BYTES = 64 << 10,
    TURN_BYTES = 2 << 20 /* per link and turn: then others get theirs */
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void broken(shoali_shm_link *link, const char *what);

static void counters_broken(shoali_shm_link *link)
{
    broken(link, "a ring in shared memory with impossible counters");
}

/* ---------------------------------------------------------------- out */

/* A writer that found the ring full goes on when half of it is free: not a wake-up for every
 * piece. */
static size_t space(shoali_shm_link *link)
{
    size_t queued = (size_t)link->box.queued_bytes + SHOALI_FRAME_BYTES;
    size_t enough = link->blocked ? least(link->out.capacity / 2, queued) : 1;
    size_t room = shoali_ring_free(&link->out);
    return room >= enough ? room : 0;
}

/* Space, or a wish for it that the reader sees. */
static size_t ask_for_space(shoali_shm_link *link)
{
    size_t room = space(link);
    if (room > 0) {
        link->blocked = false;
        return room;
    }
    link->blocked = true;
    atomic_store_explicit(&link->out.shared->wants_space, 1, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    return space(link);
}

static size_t write_piece(shoali_shm_link *link, size_t room)
{
    const shoali_out *out = shoali_outbox_at(&link->box, 0);
    size_t done = link->box.front_done, take;
    if (done < SHOALI_FRAME_BYTES) {
        take = least(SHOALI_FRAME_BYTES - done, room);
        shoali_ring_write(&link->out, out->header + done, take);
    } else {
        done -= SHOALI_FRAME_BYTES;
        take = least(least(out->body_bytes - done, room), PIECE_BYTES);
        shoali_ring_write(&link->out, out->body + done, take);
    }
    return take;
}

static void tell_sent(shoali_shm_link *link, const shoali_out *out)
{
    shoali_shm *shm = link->shm;
    shoal_peer_stats *stats = &shm->peers[link->peer].stats;
    stats->sent_frames++;
    stats->sent_payload_bytes += out->body_bytes;
    stats->sent_wire_bytes += out->body_bytes + SHOALI_FRAME_BYTES;
    shm->events.sent(shm->events.ctx, (uint32_t)link->peer, out->cookie, SHOAL_OK);
}

void shoali_shm_link_pump_out(shoali_shm_link *link)
{
    size_t total = 0, room;
    if (!shoali_ring_tail_kept(&link->out)) {
        counters_broken(link);
        return;
    }
    while (link->state == SHOALI_SHM_LINK_OPEN && !link->ended && link->box.count > 0 &&
           total < TURN_BYTES && (room = ask_for_space(link)) > 0) {
        shoali_out done;
        if (room == SIZE_MAX) {
            counters_broken(link);
            return;
        }
        size_t took = write_piece(link, room);
        total += took;
        if (took >= PIECE_BYTES)
            shoali_bell_ring(&link->bell);
        if (shoali_outbox_advance(&link->box, took, &done))
            tell_sent(link, &done);
    }
    if (link->state == SHOALI_SHM_LINK_OPEN && total > 0)
        shoali_bell_ring(&link->bell);
}

/* ---------------------------------------------------------------- in */

static void deliver(shoali_shm_link *link)
{
    shoali_shm *shm = link->shm;
    size_t count = link->complete;
    link->complete = 0;
    if (count > 0)
        shm->events.frames(shm->events.ctx, (uint32_t)link->peer, link->heads, link->bodies, count);
}

static void broken(shoali_shm_link *link, const char *what)
{
    char copy[SHOALI_SHM_TEXT_BYTES]; /* callbacks overwrite the last error */
    snprintf(copy, sizeof copy, "%s", what);
    deliver(link);
    if (link->state == SHOALI_SHM_LINK_OPEN)
        shoali_shm_peer_fail(link->shm, (uint32_t)link->peer, SHOAL_ECORRUPT, copy);
}

static void end_body(shoali_shm_link *link)
{
    shoal_peer_stats *stats = &link->shm->peers[link->peer].stats;
    link->in_body = false;
    if (link->body == NULL) {
        stats->dropped_frames++;
        return;
    }
    stats->received_frames++;
    stats->received_payload_bytes += link->got;
    stats->received_wire_bytes += link->got + SHOALI_FRAME_BYTES;
    link->heads[link->complete] = link->frame.head;
    link->bodies[link->complete] = link->body;
    if (++link->complete == SHOALI_SHM_BATCH)
        deliver(link);
}

static void begin_body(shoali_shm_link *link)
{
    shoali_shm *shm = link->shm;
    uint8_t header[SHOALI_FRAME_BYTES];
    shoali_ring_read(&link->in, header, sizeof header);
    if (shoali_frame_decode(header, &link->frame) != SHOAL_OK) {
        broken(link, shoal_last_error()->text);
        return;
    }
    if (link->frame.kind != SHOALI_MESSAGE_data || link->frame.summed) {
        broken(link, "a frame in shared memory that is no plain data");
        return;
    }
    link->sum = NULL;
    if (shm->events.place_add != NULL && link->frame.head.len_bytes % sizeof(float) == 0)
        link->sum = shm->events.place_add(shm->events.ctx, (uint32_t)link->peer, &link->frame.head);
    link->body = (uint8_t *)link->sum;
    if (link->sum == NULL)
        link->body = shm->events.place(shm->events.ctx, (uint32_t)link->peer, &link->frame.head);
    if (link->state != SHOALI_SHM_LINK_OPEN) { /* dropped from inside the callback */
        if (link->body != NULL)
            shm->events.unplace(shm->events.ctx, (uint32_t)link->peer, &link->frame.head,
                                link->body);
        return;
    }
    link->in_body = true;
    link->got = 0;
    if (link->frame.head.len_bytes == 0)
        end_body(link);
}

static size_t read_body(shoali_shm_link *link, size_t there)
{
    size_t take = least(least(link->frame.head.len_bytes - link->got, there), PIECE_BYTES);
    if (link->sum != NULL) {
        take -= take % sizeof(float);
        shoali_ring_add(&link->in, link->sum + link->got / sizeof(float), take / sizeof(float));
    } else if (link->body != NULL)
        shoali_ring_read(&link->in, link->body + link->got, take);
    else
        shoali_ring_skip(&link->in, take);
    link->got += (uint32_t)take;
    if (link->got == link->frame.head.len_bytes)
        end_body(link);
    return take;
}

/* The writer sleeps until half of the ring is free. Its wish is withdrawn before it is woken; if it
 * has filled the ring again meanwhile, on its own, what was withdrawn may be a new wish: it is put
 * back. (The exchange that takes a new wish also sees what was written before it.) */
static void tell_space(shoali_shm_link *link)
{
    atomic_uint_fast32_t *wish = &link->in.shared->wants_space;
    size_t half = link->in.capacity / 2;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(wish, memory_order_relaxed) == 0 || shoali_ring_used(&link->in) > half)
        return;
    (void)atomic_exchange_explicit(wish, 0, memory_order_acq_rel);
    if (shoali_ring_used(&link->in) > half)
        atomic_store_explicit(wish, 1, memory_order_relaxed);
    else
        shoali_bell_ring(&link->bell);
}

/* Bytes with which something can be done: a whole header, or any of a body (a float to add). */
static size_t readable(const shoali_shm_link *link)
{
    size_t there = shoali_ring_used(&link->in);
    size_t least_bytes = !link->in_body ? SHOALI_FRAME_BYTES : link->sum != NULL ? 4 : 1;
    return there >= least_bytes ? there : 0;
}

void shoali_shm_link_pump_in(shoali_shm_link *link)
{
    size_t total = 0, there;
    if (!shoali_ring_head_kept(&link->in)) {
        counters_broken(link);
        return;
    }
    while (link->state == SHOALI_SHM_LINK_OPEN && total < TURN_BYTES &&
           (there = readable(link)) > 0) {
        if (there == SIZE_MAX) {
            counters_broken(link);
            return;
        }
        if (link->in_body) {
            total += read_body(link, there);
        } else {
            total += SHOALI_FRAME_BYTES;
            begin_body(link);
        }
        if (link->state == SHOALI_SHM_LINK_OPEN)
            tell_space(link);
    }
    if (link->state != SHOALI_SHM_LINK_OPEN)
        return;
    if (total > 0)
        link->shm->peers[link->peer].last_seen_us = link->shm->now_us;
    deliver(link);
}

bool shoali_shm_link_has_work(const shoali_shm_link *link)
{
    if (readable(link) > 0)
        return true;
    if (link->box.count == 0 || link->ended)
        return false;
    size_t enough = least(link->out.capacity / 2,
                          (size_t)link->box.queued_bytes + SHOALI_FRAME_BYTES);
    return shoali_ring_free(&link->out) >= (link->blocked ? enough : 1);
}

void shoali_shm_link_return_all(shoali_shm_link *link, shoal_status status)
{
    shoali_shm *shm = link->shm;
    size_t count = link->complete;
    bool pending = link->in_body && link->body != NULL;
    link->complete = 0;
    link->in_body = false;
    for (size_t i = 0; i < count; i++)
        shm->events.unplace(shm->events.ctx, (uint32_t)link->peer, &link->heads[i],
                            link->bodies[i]);
    if (pending)
        shm->events.unplace(shm->events.ctx, (uint32_t)link->peer, &link->frame.head, link->body);
    shoali_outbox_return_all(&link->box, &shm->events, (uint32_t)link->peer, status);
}
