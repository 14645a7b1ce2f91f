/* SPDX-License-Identifier: Apache-2.0 */
/* The two streams of a link: frames into fragments, fragments into frames. Fragments may arrive in
 * any order; they are numbered. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "transport/libfabric.h"
#include "wire/bytes.h"

enum { KIND_DATA = 1, KIND_GREETING = 2, GRACE_US = 300000, FIRST_FLYING = 16 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static shoal_peer_stats *stats_of(const shoali_lf_link *link)
{
    return &link->lf->peers[link->peer].stats;
}

/* ---------------------------------------------------------------- slots */

/* A provider that cannot deliver often knows of a death before the control connection says that it
 * is one, or that it is none but a goodbye. */
static void suspect(shoali_lf_link *link, const char *what)
{
    if (link->failed || link->dead)
        return;
    link->failed = true;
    link->failed_us = link->lf->now_us + GRACE_US;
    snprintf(link->failed_text, sizeof link->failed_text, "%.150s", what);
}

shoal_status shoali_lf_slot_post(shoali_lf_slot *slot)
{
    shoali_lf_link *link = slot->link;
    shoali_lf *lf = link->lf;
    bool sends = slot->use == SHOALI_LF_SEND || slot->use == SHOALI_LF_SEND_GREETING;
    bool small = slot->use == SHOALI_LF_SEND_GREETING || slot->use == SHOALI_LF_RECEIVE_GREETING;
    uint64_t tag = (sends ? link->their_tag : link->my_tag) | (small ? 1 : 0);
    size_t room = SHOALI_LF_HEAD_BYTES + (small ? 0 : (size_t)link->fragment_bytes);
    shoal_status status = sends ? lf->ofi->send(lf->endpoint, link->address, tag, slot->bytes,
                                                slot->len_bytes, &link->lent, &slot->op)
                                : lf->ofi->receive(lf->endpoint, tag, slot->bytes, room,
                                                   &link->lent, &slot->op);
    slot->waits = status == SHOAL_PENDING;
    slot->under_way = status == SHOAL_OK;
    link->under_way += slot->under_way;
    link->rang |= sends && slot->under_way;
    if (status != SHOAL_OK && status != SHOAL_PENDING)
        suspect(link, shoal_last_error()->text);
    return status;
}

static void post_waiting(shoali_lf_link *link)
{
    for (uint32_t i = 0; i < 2 * (link->window + SHOALI_LF_GREETINGS); i++)
        if (link->slots[i].waits && shoali_lf_slot_post(&link->slots[i]) == SHOAL_PENDING &&
            link->slots[i].use <= SHOALI_LF_SEND_GREETING)
            return;
}

static void arrived(shoali_lf_slot *slot)
{
    shoali_lf_link *link = slot->link;
    const uint8_t *b = slot->bytes;
    uint32_t kind = slot->len_bytes >= SHOALI_LF_HEAD_BYTES ? shoali_get_u32(b) : 0;
    uint32_t number = shoali_get_u32(b + 4), len = shoali_get_u32(b + 8);
    bool small = slot->use == SHOALI_LF_RECEIVE_GREETING;
    if (kind != (small ? KIND_GREETING : KIND_DATA) ||
        slot->len_bytes != SHOALI_LF_HEAD_BYTES + len ||
        (!small && (len == 0 || number - link->in.expected >= link->window ||
                    link->arrived[number % link->window] != NULL))) {
        shoali_lf_peer_fail(link->lf, link->peer, SHOAL_ECORRUPT,
                            "a fragment that is not its next");
        return;
    }
    link->fabric_heard = true;
    shoali_lf_link_acknowledged(link, shoali_get_u32(b + 12));
    if (link->dead)
        return;
    if (!small)
        link->arrived[number % link->window] = slot;
    shoali_lf_link_meet(link);
}

void shoali_lf_slot_done(shoali_lf_slot *slot, const shoali_ofi_done *done)
{
    shoali_lf_link *link = slot->link;
    slot->under_way = false;
    link->under_way--;
    if (link->dead)
        return;
    if (done->failed) {
        suspect(link, "the provider could not deliver");
        return;
    }
    slot->len_bytes = done->len_bytes;
    if (slot->use == SHOALI_LF_RECEIVE || slot->use == SHOALI_LF_RECEIVE_GREETING)
        arrived(slot);
}

/* ---------------------------------------------------------------- out */

static void put_head(shoali_lf_link *link, shoali_lf_slot *slot, uint32_t kind, uint32_t number,
                     size_t len)
{
    shoali_put_u32(slot->bytes, kind);
    shoali_put_u32(slot->bytes + 4, number);
    shoali_put_u32(slot->bytes + 8, (uint32_t)len);
    shoali_put_u32(slot->bytes + 12, link->in.expected);
    slot->len_bytes = SHOALI_LF_HEAD_BYTES + len;
}

static shoal_status push_flying(shoali_lf_link *link, const shoali_out *out, uint32_t last)
{
    if (link->flying_count == link->flying_capacity) {
        uint32_t bigger = link->flying_capacity > 0 ? 2 * link->flying_capacity : FIRST_FLYING;
        shoali_lf_flying *grown = shoali_alloc_array(bigger, sizeof *grown);
        if (grown == NULL)
            return SHOAL_ENOMEM;
        for (uint32_t i = 0; i < link->flying_count; i++)
            grown[i] = link->flying[(link->flying_head + i) & (link->flying_capacity - 1)];
        shoali_free(link->flying);
        link->flying = grown;
        link->flying_capacity = bigger;
        link->flying_head = 0;
    }
    uint32_t at = (link->flying_head + link->flying_count++) & (link->flying_capacity - 1);
    link->flying[at] = (shoali_lf_flying){out->cookie, last, out->body_bytes};
    return SHOAL_OK;
}

/* Everything below this number has been consumed over there. */
void shoali_lf_link_acknowledged(shoali_lf_link *link, uint32_t below)
{
    shoali_lf *lf = link->lf;
    if (below - link->acked > link->next_number - link->acked) /* older than what is known: fine */
        return;
    link->acked = below;
    if (link->acked == link->next_number && link->busy_since_us != 0) {
        link->busy_us += lf->now_us - link->busy_since_us;
        link->busy_since_us = 0;
    }
    while (!link->dead && link->flying_count > 0) {
        shoali_lf_flying front = link->flying[link->flying_head];
        if ((int32_t)(front.last - below) >= 0)
            return;
        link->flying_head = (link->flying_head + 1) & (link->flying_capacity - 1);
        link->flying_count--;
        shoal_peer_stats *stats = stats_of(link);
        stats->sent_frames++;
        stats->sent_payload_bytes += front.body_bytes;
        stats->sent_wire_bytes += front.body_bytes + SHOALI_FRAME_BYTES;
        link->acked_bytes += front.body_bytes + SHOALI_FRAME_BYTES;
        lf->events.sent(lf->events.ctx, link->peer, front.cookie, SHOAL_OK);
    }
}

/* Bytes of the queue into one fragment. @return how many, or SIZE_MAX: no memory */
static size_t fill(shoali_lf_link *link, uint8_t *to)
{
    size_t used = 0, room = link->fragment_bytes;
    while (used < room && link->box.count > 0) {
        const shoali_out *out = shoali_outbox_at(&link->box, 0);
        size_t done = link->box.front_done, take;
        size_t left = SHOALI_FRAME_BYTES + (size_t)out->body_bytes - done;
        shoali_out whole;
        if (done < SHOALI_FRAME_BYTES) {
            take = least(SHOALI_FRAME_BYTES - done, room - used);
            memcpy(to + used, out->header + done, take);
        } else {
            done -= SHOALI_FRAME_BYTES;
            take = least(out->body_bytes - done, room - used);
            if (take > 0)
                memcpy(to + used, out->body + done, take);
        }
        used += take;
        if (take == left && push_flying(link, out, link->next_number) != SHOAL_OK)
            return SIZE_MAX;
        (void)shoali_outbox_advance(&link->box, take, &whole);
    }
    return used;
}

void shoali_lf_link_greet(shoali_lf_link *link)
{
    shoali_lf_slot *slot = &link->slots[2 * link->window];
    put_head(link, slot, KIND_GREETING, 0, 0);
    (void)shoali_lf_slot_post(slot);
}

void shoali_lf_link_pump_out(shoali_lf_link *link)
{
    post_waiting(link);
    while (link->up && !link->failed && link->box.count > 0 &&
           link->next_number - link->acked < link->window) {
        shoali_lf_slot *slot = &link->slots[link->next_number % link->window];
        if (slot->under_way || slot->waits)
            break;
        size_t len = fill(link, slot->bytes + SHOALI_LF_HEAD_BYTES);
        if (len == SIZE_MAX) {
            shoali_lf_peer_fail(link->lf, link->peer, SHOAL_ENOMEM, "no memory");
            return;
        }
        if (link->busy_since_us == 0)
            link->busy_since_us = link->lf->now_us;
        put_head(link, slot, KIND_DATA, link->next_number++, len);
        if (shoali_lf_slot_post(slot) != SHOAL_OK)
            break;
    }
    if (link->in.told != link->in.expected)
        shoali_lf_link_say_taken(link);
    if (link->rang)
        shoali_lf_bell_ring(link->lf, &link->lf->peers[link->peer]);
    link->rang = false;
}

uint64_t shoali_lf_link_wake_us(const shoali_lf_link *link)
{
    uint64_t now_us = link->lf->now_us, at = UINT64_MAX;
    if (!link->up || link->next_number != link->acked)
        at = now_us + SHOALI_LF_TICK_US;
    for (uint32_t i = 0; i < 2 * (link->window + SHOALI_LF_GREETINGS); i++)
        if (link->slots[i].waits ||
            (link->slots[i].under_way && link->slots[i].use <= SHOALI_LF_SEND_GREETING))
            at = now_us + SHOALI_LF_TICK_US;
    return link->failed && link->failed_us < at ? link->failed_us : at;
}

/* ---------------------------------------------------------------- in */

static void deliver(shoali_lf_link *link)
{
    shoali_lf *lf = link->lf;
    size_t count = link->in.complete;
    link->in.complete = 0;
    if (count > 0)
        lf->events.frames(lf->events.ctx, link->peer, link->in.heads, link->in.bodies, count);
}

static void end_body(shoali_lf_link *link)
{
    shoal_peer_stats *stats = stats_of(link);
    link->in.in_body = false;
    if (link->in.body == NULL) {
        stats->dropped_frames++;
        return;
    }
    stats->received_frames++;
    stats->received_payload_bytes += link->in.got;
    stats->received_wire_bytes += link->in.got + SHOALI_FRAME_BYTES;
    link->in.heads[link->in.complete] = link->in.frame.head;
    link->in.bodies[link->in.complete] = link->in.body;
    if (++link->in.complete == SHOALI_LF_BATCH)
        deliver(link);
}

static void broken(shoali_lf_link *link, shoal_status status, const char *what)
{
    char copy[160]; /* callbacks overwrite the last error */
    snprintf(copy, sizeof copy, "%.150s", what);
    deliver(link);
    if (!link->dead)
        shoali_lf_peer_fail(link->lf, link->peer, status, copy);
}

static void begin_body(shoali_lf_link *link)
{
    shoali_lf *lf = link->lf;
    link->in.header_got = 0;
    shoal_status status = shoali_frame_decode(link->in.header, &link->in.frame);
    if (status != SHOAL_OK) {
        broken(link, status, shoal_last_error()->text);
        return;
    }
    if (link->in.frame.kind != SHOALI_MESSAGE_data || link->in.frame.summed) {
        broken(link, SHOAL_ECORRUPT, "a frame that is no plain data");
        return;
    }
    uint8_t *body = lf->events.place(lf->events.ctx, link->peer, &link->in.frame.head);
    if (link->dead) { /* dropped from inside the callback */
        if (body != NULL)
            lf->events.unplace(lf->events.ctx, link->peer, &link->in.frame.head, body);
        return;
    }
    link->in.body = body;
    link->in.in_body = true;
    link->in.got = 0;
    if (link->in.frame.head.len_bytes == 0)
        end_body(link);
}

static size_t take_bytes(shoali_lf_link *link, const uint8_t *from, size_t there)
{
    size_t take;
    if (!link->in.in_body) {
        take = least(SHOALI_FRAME_BYTES - link->in.header_got, there);
        memcpy(link->in.header + link->in.header_got, from, take);
        link->in.header_got += take;
        if (link->in.header_got == SHOALI_FRAME_BYTES)
            begin_body(link);
        return take;
    }
    take = least(link->in.frame.head.len_bytes - link->in.got, there);
    if (link->in.body != NULL)
        memcpy(link->in.body + link->in.got, from, take);
    link->in.got += (uint32_t)take;
    if (link->in.got == link->in.frame.head.len_bytes)
        end_body(link);
    return take;
}

void shoali_lf_link_pump_in(shoali_lf_link *link)
{
    shoali_lf_slot *slot;
    bool some = false;
    while (link->up && !link->dead &&
           (slot = link->arrived[link->in.expected % link->window]) != NULL) {
        size_t len = slot->len_bytes - SHOALI_LF_HEAD_BYTES;
        const uint8_t *from = slot->bytes + SHOALI_LF_HEAD_BYTES;
        for (size_t done = 0; done < len && !link->dead;)
            done += take_bytes(link, from + done, len - done);
        if (link->dead)
            return;
        some = true;
        link->arrived[link->in.expected++ % link->window] = NULL;
        (void)shoali_lf_slot_post(slot);
    }
    if (some)
        link->lf->peers[link->peer].last_seen_us = link->lf->now_us;
    if (!link->dead)
        deliver(link);
}

void shoali_lf_link_return_all(shoali_lf_link *link, shoal_status status)
{
    shoali_lf *lf = link->lf;
    size_t count = link->in.complete;
    bool pending = link->in.in_body && link->in.body != NULL;
    link->in.complete = 0;
    link->in.in_body = false;
    for (size_t i = 0; i < count; i++)
        lf->events.unplace(lf->events.ctx, link->peer, &link->in.heads[i], link->in.bodies[i]);
    if (pending)
        lf->events.unplace(lf->events.ctx, link->peer, &link->in.frame.head, link->in.body);
    while (link->flying_count > 0) {
        uint64_t cookie = link->flying[link->flying_head].cookie;
        link->flying_head = (link->flying_head + 1) & (link->flying_capacity - 1);
        link->flying_count--;
        lf->events.sent(lf->events.ctx, link->peer, cookie, status);
    }
    shoali_outbox_return_all(&link->box, &lf->events, link->peer, status);
}
