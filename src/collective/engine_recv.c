/* SPDX-License-Identifier: Apache-2.0 */
/* Frames in. A body goes straight into the buffer if its step is the chunk's turn and overwrites
 * floats with floats; else into scratch, where it waits for its turn: additions follow the list,
 * never arrival. Heads come from the network: every field is checked before it indexes anything. */
#include <string.h>

#include "base/error.h"
#include "collective/engine.h"
#include "kernel/kernel.h"

/* The arrival that a head names, with its step; NULL: there is none. */
static shoali_arrival *find(const shoali_engine_state *e, uint32_t peer, const shoal_data *head,
                            const shoali_engine_step **step_out)
{
    if (peer >= e->args.size || head->match >= e->recv_first[peer + 1] - e->recv_first[peer])
        return NULL;
    const shoali_engine_step *step = &e->steps[e->recv_steps[e->recv_first[peer] + head->match]];
    if (head->chunk < step->first_chunk || head->chunk - step->first_chunk >= step->chunk_count)
        return NULL;
    *step_out = step;
    return &e->arrivals[step->arrivals + (head->chunk - step->first_chunk)];
}

static bool length_fits(const shoali_engine_state *e, const shoali_engine_step *step, uint32_t peer,
                        const shoal_data *head)
{
    const shoali_chunk *k = &e->chunks[head->chunk];
    if (head->flags & SHOAL_DATA_NOT_FINITE)
        return head->len_bytes == SHOALI_ORIGIN_BYTES;
    if (shoali_engine_raw(e, &step->s))
        return head->len_bytes == k->count * sizeof(float);
    const shoal_codec *codec = shoali_engine_codec(e, &step->s);
    shoali_codec_span span = shoali_engine_span(e, head->chunk, &step->s, peer);
    size_t bound = shoali_codec_span_bound(codec, &span);
    return (codec->traits & SHOAL_CODEC_FIXED_RATE) ? head->len_bytes == bound
                                                    : head->len_bytes <= bound;
}

uint8_t *shoali_engine_place(shoali_engine_state *e, uint32_t peer, const shoal_data *head)
{
    const shoali_engine_step *step;
    shoali_arrival *a = find(e, peer, head, &step);
    if (a == NULL || a->state != SHOALI_ARRIVAL_NONE ||
        (head->flags & ~SHOAL_DATA_NOT_FINITE) != 0 || !length_fits(e, step, peer, head))
        return NULL;
    shoali_chunk *k = &e->chunks[head->chunk];
    a->flagged = (head->flags & SHOAL_DATA_NOT_FINITE) != 0;
    a->direct = step->s.kind == SHOAL_RECV_SET && shoali_engine_raw(e, &step->s) && !a->flagged &&
                k->reads == 0 && shoali_engine_current(e, head->chunk) == step;
    if (a->direct)
        a->body = (uint8_t *)(e->args.buf + k->offset);
    else
        a->body = shoali_scratch_get(e->scratch, head->len_bytes);
    if (a->body == NULL) {
        shoali_engine_fail(e, SHOAL_ENOMEM, "no memory to receive chunk %u: %s", head->chunk,
                           shoal_last_error()->text);
        return NULL;
    }
    a->len_bytes = head->len_bytes;
    a->state = SHOALI_ARRIVAL_PLACED;
    e->placed++;
    return a->body;
}

/* A sum whose turn it is may be made while its floats come in. A member that is lost on the way
 * leaves half of it, which nobody can complete: the operation fails with the member. */
float *shoali_engine_place_add(shoali_engine_state *e, uint32_t peer, const shoal_data *head)
{
    const shoali_engine_step *step;
    shoali_arrival *a = find(e, peer, head, &step);
    if (a == NULL || a->state != SHOALI_ARRIVAL_NONE || head->flags != 0 ||
        step->s.kind != SHOAL_RECV_ADD || !shoali_engine_raw(e, &step->s) ||
        e->args.reduce == SHOAL_MAX || !length_fits(e, step, peer, head))
        return NULL;
    shoali_chunk *k = &e->chunks[head->chunk];
    if (k->reads > 0 || shoali_engine_current(e, head->chunk) != step)
        return NULL;
    if (k->pc == 0 && !e->raw[SHOAL_PUSH]) /* coded once, first: when its turn comes */
        return NULL;
    if (k->pc == 0)
        (void)shoali_engine_touch(e, head->chunk, 0, k->count);
    if (k->flags & SHOALI_CHUNK_FLAGGED)
        return NULL;
    a->flagged = false;
    a->direct = a->added = true;
    a->body = (uint8_t *)(e->args.buf + k->offset);
    a->len_bytes = head->len_bytes;
    a->state = SHOALI_ARRIVAL_PLACED;
    e->placed++;
    return e->args.buf + k->offset;
}

static void drop_body(shoali_engine_state *e, shoali_arrival *a)
{
    if (!a->direct)
        shoali_scratch_put(e->scratch, a->body);
    a->body = NULL;
}

static void came_back(shoali_engine_state *e, uint32_t peer_index)
{
    if (peer_index == UINT32_MAX || e->peers[peer_index].ahead == 0)
        return;
    e->peers[peer_index].ahead--;
    shoali_engine_mark_dirty(e, peer_index);
}

bool shoali_engine_arrived(shoali_engine_state *e, uint32_t peer, const shoal_data *head,
                           const uint8_t *body)
{
    const shoali_engine_step *step;
    shoali_arrival *a = find(e, peer, head, &step);
    if (a == NULL || a->state != SHOALI_ARRIVAL_PLACED || a->body != body)
        return false;
    e->placed--;
    a->state = SHOALI_ARRIVAL_HERE;
    if (e->ahead > 0 && step->s.leg == SHOAL_PULL)
        came_back(e, e->peer_of[peer]);
    e->stats.received_payload_bytes += a->len_bytes;
    e->stats.received_elems += e->chunks[head->chunk].count;
    return true;
}

void shoali_engine_unplace(shoali_engine_state *e, uint32_t peer, const shoal_data *head,
                           const uint8_t *body)
{
    const shoali_engine_step *step;
    shoali_arrival *a = find(e, peer, head, &step);
    if (a == NULL || a->state != SHOALI_ARRIVAL_PLACED || a->body != body)
        return;
    e->placed--;
    a->state = a->added ? SHOALI_ARRIVAL_USED : SHOALI_ARRIVAL_NONE;
    drop_body(e, a);
}

/* Decode a frame into the chunk or add it; false: the operation failed. */
static bool decode(shoali_engine_state *e, uint32_t chunk, const shoal_step *step,
                   const shoali_arrival *a)
{
    const shoali_chunk *k = &e->chunks[chunk];
    shoali_codec_span span = shoali_engine_span(e, chunk, step, step->peer);
    const uint64_t begin_ns = shoali_engine_now_ns(e);
    shoal_status status = shoali_codec_span_decode(shoali_engine_codec(e, step), &span, a->body,
                                                   a->len_bytes, e->args.buf + k->offset,
                                                   step->kind == SHOAL_RECV_ADD);
    e->stats.decode_ns += shoali_engine_now_ns(e) - begin_ns;
    e->budget -= k->count;
    if (status != SHOAL_OK) {
        e->failure.culprit = e->args.endpoints[step->peer];
        shoali_engine_fail(e, status, "chunk %u from endpoint %u: %s", chunk, e->failure.culprit,
                           shoal_last_error()->text);
    }
    return status == SHOAL_OK;
}

/* Floats from scratch. A first touch checks the own values piece by piece, just before they are
 * used: a pass of its own would read the chunk from memory twice. */
static void combine_raw(shoali_engine_state *e, uint32_t chunk, const shoal_step *step,
                        const shoali_arrival *a, bool first_touch)
{
    enum { PIECE_ELEMS = 4096 };
    const size_t count = e->chunks[chunk].count;
    float *x = e->args.buf + e->chunks[chunk].offset;
    const float *y = (const float *)(const void *)a->body;
    e->budget -= (int64_t)(count / 4);
    if (step->kind == SHOAL_RECV_SET) {
        shoali_kernel()->copy(x, y, count);
        return;
    }
    for (size_t at = 0; at < count; at += PIECE_ELEMS) {
        size_t n = count - at < PIECE_ELEMS ? count - at : PIECE_ELEMS;
        if (first_touch && !shoali_engine_touch(e, chunk, at, n))
            return;
        if (e->args.reduce == SHOAL_MAX)
            shoali_kernel()->max(x + at, y + at, n);
        else
            shoali_kernel()->add(x + at, y + at, n);
    }
}

bool shoali_engine_receive(shoali_engine_state *e, uint32_t chunk, const shoali_engine_step *step)
{
    shoali_chunk *k = &e->chunks[chunk];
    shoali_arrival *a = &e->arrivals[step->arrivals + (chunk - step->first_chunk)];
    if (a->state != SHOALI_ARRIVAL_HERE || k->reads > 0)
        return false;
    const bool raw = shoali_engine_raw(e, &step->s), coded = !e->raw[step->s.leg];
    const bool first_touch = k->pc == 0 && step->s.kind == SHOAL_RECV_ADD && !a->added;
    if (first_touch && (coded || a->flagged))
        (void)shoali_engine_touch(e, chunk, 0, k->count);
    if (first_touch && coded && (k->flags & SHOALI_CHUNK_FLAGGED) == 0)
        (void)shoali_engine_contribute(e, chunk);
    if (e->failure.failed)
        return false;
    a->state = SHOALI_ARRIVAL_USED;
    if (a->flagged) {
        shoali_not_finite origin = shoali_origin_unpack(a->body);
        shoali_engine_flag(e, chunk, &origin);
    } else if ((k->flags & SHOALI_CHUNK_FLAGGED) == 0 && !a->direct) {
        if (raw)
            combine_raw(e, chunk, &step->s, a, first_touch && !coded);
        else if (!e->slots.used && !decode(e, chunk, &step->s, a))
            return false;
        if (step->s.kind == SHOAL_RECV_SET && step->s.leg == SHOAL_PULL && !raw) {
            k->kept = a->body;
            k->kept_bytes = a->len_bytes;
            a->body = NULL;
            return true;
        }
    }
    drop_body(e, a);
    return true;
}
