/* SPDX-License-Identifier: Apache-2.0 */
/* What members say to each other. By control messages, which arrive:
 *
 *   JOIN      worker -> aggregator   I am here; the bytes that my datagrams can have
 *   SETUP     aggregator -> workers  all are here; key and block of the packets
 *   FINISHED  worker -> aggregator   all sums have come; what of mine was not finite
 *   ORIGIN    aggregator -> workers  who brought what is not finite, if somebody waits to hear it
 *
 * and between SETUP and FINISHED by packets, which may not (slot.h). A worker that aggregates,
 * too, talks to itself through a ring, so that an answer never calls back into who asked. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "collective/engine.h"
#include "collective/feedback.h"
#include "collective/switchml.h"
#include "wire/bytes.h"

enum { JOIN = 1, SETUP, FINISHED, ORIGIN };
enum {
    JOIN_BYTES = 4,
    SETUP_BYTES = 12,
    FINISHED_BYTES = 4 + SHOALI_ORIGIN_BYTES,
    FLAG_ORIGIN = 1,
    FLAG_WAITS = 2,
    WINDOW = 64,      /* packets under way between a worker and all its aggregators */
    WINDOW_LEAST = 8, /* and one of them */
    ROUND_VALUES_TO = 2
};

uint32_t shoali_switchml_slots(const shoali_switchml *f)
{
    const uint32_t fair = WINDOW / f->aggregators;
    return f->slots != 0 ? f->slots : fair > WINDOW_LEAST ? fair : WINDOW_LEAST;
}

static uint8_t index_of(const shoali_switchml *f)
{
    return (uint8_t)f->args.me; /* start has seen that there are at most 255 workers */
}

/* ------------------------------------------------------------------ packets */

static void count_out(shoali_switchml *f, size_t bytes)
{
    f->stats.sent_payload_bytes += bytes;
    f->stats.sent_elems += (bytes - SHOALI_PACKET_BYTES) / 4;
}

static void queue_own(shoali_switchml *f, uint32_t slot, bool to_pool)
{
    f->own[(f->own_head + f->own_count_queued++) % f->own_size] = (shoali_switchml_own){slot,
                                                                                        to_pool};
}

static void contribute(shoali_switchml *f, shoali_switchml_session *s, uint32_t slot)
{
    if (s->member == f->args.me) {
        queue_own(f, slot, true);
        return;
    }
    const size_t bytes = shoali_slot_worker_contribution(&s->worker, slot, f->packet);
    count_out(f, bytes);
    f->sink.datagram(f->sink.ctx, s->member, f->packet, bytes);
}

static void probe(shoali_switchml *f, shoali_switchml_session *s, uint32_t slot)
{
    const size_t bytes = shoali_slot_worker_probe(&s->worker, slot, f->packet);
    count_out(f, bytes);
    f->sink.datagram(f->sink.ctx, s->member, f->packet, bytes);
}

static void send_result(shoali_switchml *f, uint32_t slot)
{
    size_t bytes;
    const uint8_t *result = shoali_slot_pool_result(&f->pool, slot, &bytes);
    for (uint32_t w = 0; w < f->args.contributors; w++) {
        if (w == f->args.me)
            continue;
        count_out(f, bytes);
        f->sink.datagram(f->sink.ctx, w, result, bytes);
    }
    f->told_us[slot] = f->now_us;
    if (f->works)
        queue_own(f, slot, false);
}

/* ------------------------------------------------------------------ a session's end */

static void set_origin(shoali_switchml *f, const shoali_not_finite *origin)
{
    if (!f->origin_known || shoali_origin_before(origin, &f->origin))
        f->origin = *origin;
    f->origin_known = true;
}

static void session_over(shoali_switchml *f, shoali_switchml_session *s)
{
    f->sessions_over += !s->over;
    s->over = true;
}

/* The aggregator's part ends with the last FINISHED. */
static void send_origin(shoali_switchml *f)
{
    uint8_t body[SHOALI_ORIGIN_BYTES];
    shoali_origin_pack(&f->origin, body);
    for (uint32_t w = 0; w < f->args.contributors; w++) {
        if (!f->guests[w].waits)
            continue;
        if (w == f->args.me)
            session_over(f, shoali_switchml_session_of(f, w));
        else
            f->sink.control(f->sink.ctx, w, ORIGIN, body, sizeof body);
    }
}

static void guest_finished(shoali_switchml *f, uint32_t worker, const uint8_t *body)
{
    shoali_switchml_guest *guest = &f->guests[worker];
    const uint32_t flags = shoali_get_u32(body);
    if (guest->finished || !guest->joined)
        return;
    guest->finished = true;
    guest->waits = (flags & FLAG_WAITS) != 0;
    if ((flags & FLAG_ORIGIN) != 0) {
        const shoali_not_finite origin = shoali_origin_unpack(body + 4);
        set_origin(f, &origin);
    }
    if (++f->finished == f->args.contributors)
        send_origin(f);
}

static void finish(shoali_switchml *f, shoali_switchml_session *s)
{
    uint8_t body[FINISHED_BYTES] = {0};
    const bool waits = s->worker.sum_not_finite && f->args.check_finite;
    uint32_t flags = waits ? FLAG_WAITS : 0;
    if (s->worker.not_finite != SIZE_MAX) {
        const size_t element = s->offset + s->worker.not_finite;
        const shoal_tensor *tensor =
            &f->args.tensors[shoali_tensor_at(f->args.tensors, f->args.tensor_count, element)];
        shoali_origin_pack(&(shoali_not_finite){.endpoint = f->args.endpoints[f->args.me],
                                                .key = tensor->key,
                                                .index = element - tensor->offset},
                           body + 4);
        flags |= FLAG_ORIGIN;
    }
    shoali_put_u32(body, flags);
    s->told = true;
    if (!waits)
        session_over(f, s);
    if (s->member == f->args.me)
        guest_finished(f, f->args.me, body);
    else
        f->sink.control(f->sink.ctx, s->member, FINISHED, body, sizeof body);
}

static void worker_took(shoali_switchml *f, shoali_switchml_session *s, uint32_t slot,
                        shoali_slot_verdict verdict)
{
    if (verdict == SHOALI_SLOT_SEND)
        contribute(f, s, slot);
    if (verdict == SHOALI_SLOT_PROBE)
        probe(f, s, slot);
    if (s->worker.open == 0 && !s->told)
        finish(f, s);
}

/* ------------------------------------------------------------------ setting up */

/* A block's codes are what is summed: the values become those, and error feedback keeps what they
 * lose, as at the first step of every other collective (engine_step.c). */
static void put_through(void *ctx, float *x, size_t n)
{
    shoali_switchml *f = ctx;
    const shoal_codec *codec = f->args.push;
    const bool feedback = codec->error_feedback && f->args.residuals != NULL;
    const shoali_feedback residuals = {f->args.tensors, f->args.tensor_count, f->args.residuals};
    const shoali_codec_span span = {.tensors = f->args.tensors,
                                    .tensor_count = f->args.tensor_count,
                                    .first = (size_t)(x - f->args.buf),
                                    .count = n,
                                    .parts = 1,
                                    .seed = f->args.seed};
    size_t written;
    if (feedback)
        shoali_feedback_add(&residuals, codec->decay, span.first, n, x);
    shoal_status status = shoali_codec_span_encode(codec, &span, x, f->coded, f->coded_bytes,
                                                   &written);
    if (status == SHOAL_OK)
        status = shoali_codec_span_decode(codec, &span, f->coded, written, f->decoded, false);
    if (status != SHOAL_OK) {
        shoali_switchml_fail(f, status, shoal_last_error()->text);
        return;
    }
    if (feedback)
        shoali_feedback_keep(&residuals, span.first, n, x, f->decoded);
    memcpy(x, f->decoded, n * sizeof *x);
}

/* Room for any block of a session's share, and from then on its blocks are coded. */
static shoal_status code_contributions(shoali_switchml *f, shoali_switchml_session *s)
{
    const shoali_slot_share *share = &s->worker.share;
    shoali_codec_span span = {
        .tensors = f->args.tensors, .tensor_count = f->args.tensor_count, .parts = 1};
    size_t most = 0;
    for (size_t at = 0; at < s->count; at += share->block) {
        span.first = s->offset + at;
        span.count = s->count - at < share->block ? s->count - at : share->block;
        const size_t bytes = shoali_codec_span_bound(f->args.push, &span);
        most = bytes > most ? bytes : most;
    }
    if (most > f->coded_bytes) {
        f->coded = shoali_arena_alloc(f->arena, most);
        f->coded_bytes = most;
    }
    if (f->decoded == NULL)
        f->decoded = shoali_arena_array(f->arena, SHOALI_PACKET_VALUES_MAX, sizeof *f->decoded);
    s->worker.prepare = put_through;
    s->worker.prepare_ctx = f;
    return f->coded != NULL && f->decoded != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static void set_up(shoali_switchml *f, shoali_switchml_session *s, const uint8_t *body)
{
    shoali_slot_share share;
    const uint32_t block = shoali_get_u32(body + 8);
    shoal_status status = shoali_slot_lay_out(s->count, block, shoali_switchml_slots(f),
                                              f->args.contributors, f->sparse, &share);
    share.key = shoali_get_u64(body);
    share.whole = f->codes;
    if (status == SHOAL_OK && s->member != f->args.me &&
        shoali_slot_packet_bytes(&share) > f->args.datagram_bytes)
        status = shoali_fail(SHOAL_ECORRUPT, "an aggregator chose packets of %u values, too many",
                             block);
    if (status == SHOAL_OK)
        status = shoali_slot_worker_init(&s->worker, &share, f->args.buf + s->offset, index_of(f),
                                         f->arena);
    if (status == SHOAL_OK && f->codes)
        status = code_contributions(f, s);
    if (status != SHOAL_OK) {
        shoali_switchml_fail(f, status, shoal_last_error()->text);
        return;
    }
    s->set_up = true;
    shoali_slot_worker_begin(&s->worker, f->now_us);
    for (uint32_t slot = 0; slot < share.slots && !f->failed; slot++)
        contribute(f, s, slot);
}

/* Sums for others may be somebody else's work; what passes through this process is not. */
static const shoali_offload *offload_of(const shoali_switchml *f)
{
    return f->works ? NULL : f->args.offload;
}

/* Values of a packet, as all members can send and receive it. */
static shoal_status choose_block(const shoali_switchml *f, uint32_t *block_out)
{
    uint32_t most = f->least_bytes < SHOALI_SWITCHML_DATAGRAM_MAX ? f->least_bytes
                                                                  : SHOALI_SWITCHML_DATAGRAM_MAX;
    most = most > SHOALI_PACKET_BYTES ? (most - SHOALI_PACKET_BYTES) / 4 : 0;
    const shoali_offload *offload = offload_of(f);
    const uint32_t fair = offload != NULL && offload->block_most < most ? offload->block_most
                                                                        : most;
    *block_out = f->block != 0 ? f->block : fair - fair % ROUND_VALUES_TO;
    if (*block_out > 0 && *block_out <= most)
        return SHOAL_OK;
    return shoali_fail(SHOAL_EINVAL,
                       "blocks of %u elements, but the smallest MTU among the "
                       "members has room for %u",
                       *block_out, most);
}

static shoal_status open_pool(shoali_switchml *f)
{
    shoali_slot_share share;
    uint32_t block;
    SHOALI_TRY(choose_block(f, &block));
    SHOALI_TRY(shoali_slot_lay_out(f->own_count, block, shoali_switchml_slots(f),
                                   f->args.contributors, f->sparse, &share));
    share.key = f->args.datagram_key;
    const shoali_offload *offload = offload_of(f);
    f->elsewhere = offload != NULL && offload->begin(offload->ctx, &share);
    if (f->elsewhere) {
        f->pool.share = share;
        f->pool_open = true;
        return SHOAL_OK;
    }
    SHOALI_TRY(shoali_slot_pool_init(&f->pool, &share, f->arena));
    f->own_size = 2 * share.slots;
    f->own = shoali_arena_array(f->arena, f->own_size, sizeof *f->own);
    f->told_us = shoali_arena_array(f->arena, share.slots, sizeof *f->told_us);
    f->pool_open = true;
    return f->own != NULL && f->told_us != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static void guest_joined(shoali_switchml *f, uint32_t worker, uint32_t bytes)
{
    uint8_t body[SETUP_BYTES];
    f->joined += !f->guests[worker].joined;
    f->guests[worker].joined = true;
    f->least_bytes = bytes < f->least_bytes ? bytes : f->least_bytes;
    if (f->joined < f->args.contributors || f->pool_open)
        return;
    const shoal_status status = open_pool(f);
    if (status != SHOAL_OK) {
        shoali_switchml_fail(f, status, shoal_last_error()->text);
        return;
    }
    shoali_put_u64(body, f->pool.share.key);
    shoali_put_u32(body + 8, f->pool.share.block);
    for (uint32_t w = 0; w < f->args.contributors && !f->failed; w++)
        if (w != f->args.me)
            f->sink.control(f->sink.ctx, w, SETUP, body, sizeof body);
    if (f->works && !f->failed)
        set_up(f, shoali_switchml_session_of(f, f->args.me), body);
}

void shoali_switchml_join(shoali_switchml *f, shoali_switchml_session *s)
{
    uint8_t body[JOIN_BYTES];
    shoali_put_u32(body, f->args.datagram_bytes);
    if (s->member == f->args.me)
        guest_joined(f, f->args.me, f->args.datagram_bytes);
    else
        f->sink.control(f->sink.ctx, s->member, JOIN, body, sizeof body);
}

/* ------------------------------------------------------------------ in */

static void on_worker(shoali_switchml *f, uint32_t worker, uint16_t kind, const uint8_t *bytes,
                      size_t len_bytes)
{
    if (kind == JOIN && len_bytes == JOIN_BYTES)
        guest_joined(f, worker, shoali_get_u32(bytes));
    else if (kind == FINISHED && len_bytes == FINISHED_BYTES)
        guest_finished(f, worker, bytes);
}

static void on_aggregator(shoali_switchml *f, shoali_switchml_session *s, uint16_t kind,
                          const uint8_t *bytes, size_t len_bytes)
{
    if (kind == SETUP && len_bytes == SETUP_BYTES && !s->set_up)
        set_up(f, s, bytes);
    if (kind == ORIGIN && len_bytes == SHOALI_ORIGIN_BYTES && s->told && !s->over) {
        const shoali_not_finite origin = shoali_origin_unpack(bytes);
        set_origin(f, &origin);
        session_over(f, s);
    }
}

void shoali_switchml_on_control(shoali_switchml *f, uint32_t peer, uint16_t kind,
                                const uint8_t *bytes, size_t len_bytes)
{
    shoali_switchml_session *s = shoali_switchml_session_of(f, peer);
    if ((kind == JOIN || kind == FINISHED) && f->aggregates && peer < f->args.contributors)
        on_worker(f, peer, kind, bytes, len_bytes);
    else if (s != NULL)
        on_aggregator(f, s, kind, bytes, len_bytes);
}

static void answer(shoali_switchml *f, uint32_t worker, size_t bytes)
{
    count_out(f, bytes);
    f->sink.datagram(f->sink.ctx, worker, f->packet, bytes);
}

/* Who waits for others makes these be told, too: of eight timers the first to fire counts. */
static void answer_probe(shoali_switchml *f, uint32_t peer, const shoali_packet *head)
{
    uint32_t missing = 0;
    size_t bytes;
    answer(f, peer, shoali_slot_pool_answer(&f->pool, head, f->packet));
    for (; (bytes = shoali_slot_pool_tell_missing(&f->pool, head, &missing, f->packet)) > 0;
         missing++)
        if (missing != f->args.me)
            answer(f, missing, bytes);
}

/* It lay behind what completed the round, in the socket of a process that did not run for a while:
 * the result is on its way, and if it is lost, the next probe says so. */
static bool was_told_just_now(const shoali_switchml *f, const shoali_packet *head)
{
    return head->round + 1 == f->pool.cells[head->slot].round &&
           f->told_us[head->slot] == f->now_us;
}

static void to_pool(shoali_switchml *f, uint32_t peer, const shoali_packet *head,
                    const uint8_t *values, uint32_t count)
{
    if (head->worker != peer)
        return;
    const shoali_slot_verdict verdict = shoali_slot_pool_take(&f->pool, head, values, count);
    if (verdict == SHOALI_SLOT_SEND)
        send_result(f, head->slot);
    if (verdict == SHOALI_SLOT_RESEND && !was_told_just_now(f, head))
        answer_probe(f, peer, head);
    if (peer == f->args.me || (verdict != SHOALI_SLOT_SEND && verdict != SHOALI_SLOT_TAKEN))
        return;
    size_t bytes;
    while ((bytes = shoali_slot_pool_tell(&f->pool, head, f->packet)) > 0)
        answer(f, peer, bytes);
}

static void to_worker(shoali_switchml *f, shoali_switchml_session *s, const shoali_packet *head,
                      const uint8_t *values, uint32_t count)
{
    worker_took(f, s, head->slot,
                shoali_slot_worker_take(&s->worker, head, values, count, f->now_us));
}

/* Nothing of a share that is summed elsewhere should come this far. */
static void astray(shoali_switchml *f, uint32_t peer)
{
    char why[200];
    snprintf(why, sizeof why,
             "packets of endpoint %u come to the daemon, past the ports where the kernel sums: "
             "give all interfaces behind which there are workers to --ports",
             f->args.endpoints[peer]);
    shoali_switchml_fail(f, SHOAL_ENOTSUP, why);
}

bool shoali_switchml_on_datagram(shoali_switchml *f, uint32_t peer, const uint8_t *bytes,
                                 size_t len_bytes)
{
    shoali_packet head;
    uint32_t count;
    shoali_switchml_session *s = shoali_switchml_session_of(f, peer);
    if (!shoali_packet_decode(bytes, len_bytes, &head, &count))
        return false;
    const uint8_t *values = bytes + SHOALI_PACKET_BYTES;
    if (f->elsewhere && head.key == f->pool.share.key) {
        astray(f, peer);
        return true;
    }
    if (f->pool_open && head.key == f->pool.share.key && peer < f->args.contributors) {
        f->stats.received_payload_bytes += len_bytes;
        f->stats.received_elems += count;
        to_pool(f, peer, &head, values, count);
        return true;
    }
    if (s == NULL || !s->set_up || head.key != s->worker.share.key)
        return false;
    f->stats.received_payload_bytes += len_bytes;
    f->stats.received_elems += count;
    to_worker(f, s, &head, values, count);
    return true;
}

/* ------------------------------------------------------------------ what is due */

static void deliver_own(shoali_switchml *f)
{
    const shoali_switchml_own own = f->own[f->own_head];
    shoali_switchml_session *s = shoali_switchml_session_of(f, f->args.me);
    shoali_packet head;
    uint32_t count;
    size_t bytes;
    f->own_head = (f->own_head + 1) % f->own_size;
    f->own_count_queued--;
    const uint8_t *packet = f->packet;
    if (own.to_pool)
        bytes = shoali_slot_worker_contribution(&s->worker, own.slot, f->packet);
    else
        packet = shoali_slot_pool_result(&f->pool, own.slot, &bytes);
    if (!shoali_packet_decode(packet, bytes, &head, &count))
        return; /* it is our own */
    if (own.to_pool)
        to_pool(f, f->args.me, &head, packet + SHOALI_PACKET_BYTES, count);
    else
        to_worker(f, s, &head, packet + SHOALI_PACKET_BYTES, count);
}

void shoali_switchml_go(shoali_switchml *f)
{
    while (!f->failed && f->own_count_queued > 0)
        deliver_own(f);
}

void shoali_switchml_due(shoali_switchml *f)
{
    for (uint32_t a = 0; f->works && a < f->aggregators && !f->failed; a++) {
        shoali_switchml_session *s = &f->sessions[a];
        uint32_t slot;
        if (!s->set_up || s->told || s->member == f->args.me)
            continue;
        while ((slot = shoali_slot_worker_due(&s->worker, f->now_us)) != SHOALI_PACKET_NONE)
            probe(f, s, slot);
    }
}
