/* SPDX-License-Identifier: Apache-2.0 */
/* What a step does to a chunk. A chunk runs its list in order, as far as it can:
 *
 *   SEND      waits in its peer's ready queue (engine_send.c); by PUSH, until the body is made;
 *             by PULL, the body is made, and the chunk goes on at once
 *   RECV_*    waits for its frame, and until nobody reads what it overwrites (engine_recv.c)
 *   OWN       the sum is complete: owner job, encode, keep the bytes, decode them over the own copy
 *
 * A SEND whose body is the buffer or kept bytes counts as a reader, not as a stop: further SENDs
 * may go, too, to members that are faster, and only a step that writes waits. A chunk that holds
 * NaN or infinity is flagged; its frames carry the origin instead of floats.
 *
 * With a SUMMABLE codec a contribution loses once: coded when it is sent alone, else put through
 * the codec before anything is added to it. What is added up are decoded values only, sums of them
 * are coded exactly, and the result is the same whatever the collective. */
#include <string.h>

#include "base/error.h"
#include "collective/engine.h"
#include "collective/feedback.h"
#include "kernel/kernel.h"

const shoali_engine_step *shoali_engine_current(const shoali_engine_state *e, uint32_t chunk)
{
    const shoali_chunk *k = &e->chunks[chunk];
    uint32_t at = e->block_first[k->block] + k->pc;
    return at < e->block_first[k->block + 1] ? &e->steps[e->block_steps[at]] : NULL;
}

void shoali_engine_flag(shoali_engine_state *e, uint32_t chunk, const shoali_not_finite *origin)
{
    shoali_chunk *k = &e->chunks[chunk];
    shoali_not_finite known = shoali_origin_unpack(k->origin);
    if ((k->flags & SHOALI_CHUNK_FLAGGED) == 0 || shoali_origin_before(origin, &known))
        shoali_origin_pack(origin, k->origin);
    k->flags |= SHOALI_CHUNK_FLAGGED;
    if (!e->failure.origin_known || shoali_origin_before(origin, &e->failure.origin))
        e->failure.origin = *origin;
    e->failure.origin_known = true;
}

/* Flag a chunk of which element index (of the chunk) is not finite here. */
static void flag_own(shoali_engine_state *e, uint32_t chunk, size_t index)
{
    size_t element = e->chunks[chunk].offset + index;
    const shoal_tensor *tensor =
        &e->args.tensors[shoali_tensor_at(e->args.tensors, e->args.tensor_count, element)];
    shoali_not_finite origin = {.endpoint = e->args.endpoints[e->args.me],
                                .key = tensor->key,
                                .index = element - tensor->offset};
    shoali_engine_flag(e, chunk, &origin);
}

bool shoali_engine_touch(shoali_engine_state *e, uint32_t chunk, size_t first, size_t count)
{
    if (!e->args.check_finite || e->args.me >= e->args.contributors)
        return true;
    const float *x = e->args.buf + e->chunks[chunk].offset + first;
    size_t index = shoali_kernel()->first_nonfinite(x, count);
    e->budget -= (int64_t)(count / 4);
    if (index < count)
        flag_own(e, chunk, first + index);
    return index == count;
}

static bool encode_failed(shoali_engine_state *e, uint32_t chunk, const shoal_step *step,
                          shoal_status status)
{
    const shoali_chunk *k = &e->chunks[chunk];
    if (status == SHOAL_ENOTFINITE) { /* the sum of finite values overflowed, or nobody checked */
        size_t index = shoali_kernel()->first_nonfinite(e->args.buf + k->offset, k->count);
        flag_own(e, chunk, index < k->count ? index : 0);
    } else {
        shoali_engine_fail(e, status, "chunk %u: codec %s cannot encode: %s", chunk,
                           shoali_engine_codec(e, step)->spec, shoal_last_error()->text);
    }
    return false;
}

/* Decode what was just encoded from the chunk: for the residual, and over the own copy at OWN. */
static shoal_status decode_own(shoali_engine_state *e, uint32_t chunk, const shoal_step *step,
                               bool feedback, const uint8_t *body, size_t len_bytes)
{
    const shoali_chunk *k = &e->chunks[chunk];
    float *x = e->args.buf + k->offset;
    const bool over = step->kind == SHOAL_OWN && !e->slots.used;
    if (!feedback && !over)
        return SHOAL_OK;
    shoali_codec_span span = shoali_engine_span(e, chunk, step, e->args.me);
    const uint64_t begin_ns = shoali_engine_now_ns(e);
    SHOALI_TRY(shoali_codec_span_decode(shoali_engine_codec(e, step), &span, body, len_bytes,
                                        feedback ? e->decoded : x, false));
    e->stats.decode_ns += shoali_engine_now_ns(e) - begin_ns;
    e->budget -= k->count;
    if (feedback) {
        shoali_feedback residuals = {e->args.tensors, e->args.tensor_count, e->args.residuals};
        shoali_feedback_keep(&residuals, k->offset, k->count, x, e->decoded);
        if (over)
            shoali_kernel()->copy(x, e->decoded, k->count);
    }
    return SHOAL_OK;
}

bool shoali_engine_encode(shoali_engine_state *e, uint32_t chunk, const shoal_step *step,
                          uint8_t **body_out, uint32_t *len_out)
{
    const shoali_chunk *k = &e->chunks[chunk];
    const shoal_codec *codec = shoali_engine_codec(e, step);
    shoali_codec_span span = shoali_engine_span(e, chunk, step, e->args.me);
    size_t capacity = shoali_codec_span_bound(codec, &span), written = 0;
    float *x = e->args.buf + k->offset;
    const bool weights = step->leg == SHOAL_PULL && e->args.owner_job;
    const bool exact = (codec->traits & SHOAL_CODEC_SUMMABLE) != 0 && span.parts > 1;
    const bool feedback = e->feedback[step->leg] && !weights && !exact;
    uint8_t *body = shoali_scratch_get(e->scratch, capacity);
    if (body == NULL)
        return encode_failed(e, chunk, step, SHOAL_ENOMEM);
    if (feedback) {
        shoali_feedback residuals = {e->args.tensors, e->args.tensor_count, e->args.residuals};
        shoali_feedback_add(&residuals, codec->decay, k->offset, k->count, x);
    }
    const uint64_t begin_ns = shoali_engine_now_ns(e);
    shoal_status status = shoali_codec_span_encode(codec, &span, x, body, capacity, &written);
    e->stats.encode_ns += shoali_engine_now_ns(e) - begin_ns;
    e->budget -= k->count;
    if (status == SHOAL_OK)
        status = decode_own(e, chunk, step, feedback, body, written);
    if (status != SHOAL_OK) {
        shoali_scratch_put(e->scratch, body);
        return encode_failed(e, chunk, step, status);
    }
    *body_out = body;
    *len_out = (uint32_t)written;
    return true;
}

bool shoali_engine_contribute(shoali_engine_state *e, uint32_t chunk)
{
    const shoal_step alone = {.kind = SHOAL_OWN, .leg = SHOAL_PUSH, .parts = 1};
    uint8_t *body = NULL;
    uint32_t len_bytes;
    if ((e->args.push->traits & SHOAL_CODEC_SUMMABLE) == 0 || e->raw[SHOAL_PUSH] ||
        e->args.me >= e->args.contributors)
        return true;
    bool done = shoali_engine_encode(e, chunk, &alone, &body, &len_bytes);
    shoali_scratch_put(e->scratch, body);
    return done;
}

/* False: its owner job runs. */
static bool job_is_over(shoali_engine_state *e, uint32_t chunk)
{
    shoali_chunk *k = &e->chunks[chunk];
    if (!e->args.owner_job || (k->flags & (SHOALI_CHUNK_FLAGGED | SHOALI_CHUNK_JOB_DONE)) != 0)
        return true;
    if ((k->flags & SHOALI_CHUNK_JOB) == 0) {
        k->flags |= SHOALI_CHUNK_JOB;
        e->jobs++;
        e->sink.job(e->sink.ctx, &e->args.id, k->offset, k->count, chunk);
    }
    return false;
}

static bool own(shoali_engine_state *e, uint32_t chunk, const shoali_engine_step *step)
{
    shoali_chunk *k = &e->chunks[chunk];
    if (k->reads > 0)
        return false;
    if (k->pc == 0 && (k->flags & SHOALI_CHUNK_JOB_DONE) == 0)
        (void)shoali_engine_touch(e, chunk, 0, k->count);
    if (!job_is_over(e, chunk))
        return false;
    if ((k->flags & SHOALI_CHUNK_FLAGGED) == 0 && !e->raw[step->s.leg])
        (void)shoali_engine_encode(e, chunk, &step->s, &k->kept, &k->kept_bytes);
    return !e->failure.failed;
}

/* Decode-add one slot of a position; the first clears the chunk. */
static void add_slot(shoali_engine_state *e, uint32_t position, uint32_t slot)
{
    const shoali_chunk *k = &e->chunks[slot * e->slots.positions + position];
    const shoal_step step = {.kind = SHOAL_RECV_SET, .leg = SHOAL_PULL, .parts = 1};
    float *x = e->args.buf + k->offset;
    if (slot == 0)
        memset(x, 0, k->count * sizeof(float));
    shoali_codec_span span = shoali_engine_span(e, slot * e->slots.positions + position, &step, 0);
    const uint64_t begin_ns = shoali_engine_now_ns(e);
    shoal_status status = shoali_codec_span_decode(e->args.pull, &span, k->kept, k->kept_bytes, x,
                                                   true);
    e->stats.decode_ns += shoali_engine_now_ns(e) - begin_ns;
    e->budget -= k->count;
    if (status != SHOAL_OK) { /* slots are members' own */
        e->failure.culprit = e->args.endpoints[slot];
        shoali_engine_fail(e, status, "chunk %u from endpoint %u: %s", position, e->failure.culprit,
                           shoal_last_error()->text);
    }
}

static bool any_slot_flagged(const shoali_engine_state *e, uint32_t position)
{
    for (uint32_t slot = 0; slot < e->blocks; slot++)
        if (e->chunks[slot * e->slots.positions + position].flags & SHOALI_CHUNK_FLAGGED)
            return true;
    return false;
}

/* Once all slots of a position are kept: add them in order, as far as the budget goes; chunk asks
 * for the rest. */
static void add_slots(shoali_engine_state *e, uint32_t chunk)
{
    const uint32_t position = chunk % e->slots.positions;
    uint32_t *added = &e->slots.added[position];
    if (e->slots.kept[position] < e->blocks || *added == e->blocks)
        return;
    if (*added == 0 && any_slot_flagged(e, position))
        *added = e->blocks;
    while (*added < e->blocks && !e->failure.failed) {
        if (e->budget <= 0) {
            shoali_engine_wake(e, chunk);
            return;
        }
        add_slot(e, position, *added);
        ++*added;
    }
    for (uint32_t slot = 0; slot < e->blocks; slot++)
        shoali_engine_settle(e, slot * e->slots.positions + position);
}

void shoali_engine_settle(shoali_engine_state *e, uint32_t chunk)
{
    shoali_chunk *k = &e->chunks[chunk];
    if (e->failure.failed || (k->flags & SHOALI_CHUNK_CLOSED) != 0 || k->reads > 0 ||
        shoali_engine_current(e, chunk) != NULL)
        return;
    if (e->slots.used && e->slots.added[chunk % e->slots.positions] < e->blocks)
        return;
    shoali_scratch_put(e->scratch, k->kept);
    k->kept = NULL;
    k->flags |= SHOALI_CHUNK_CLOSED;
    e->open_chunks--;
}

void shoali_engine_advance(shoali_engine_state *e, uint32_t chunk)
{
    shoali_chunk *k = &e->chunks[chunk];
    const shoali_engine_step *step;
    if (e->slots.used)
        add_slots(e, chunk);
    while (!e->failure.failed && (step = shoali_engine_current(e, chunk)) != NULL) {
        if (step->s.kind == SHOAL_SEND) {
            if (!shoali_engine_ready(e, (uint32_t)(step - e->steps), chunk))
                return;
            k->pc++;
            continue;
        }
        if (step->s.kind == SHOAL_OWN ? !own(e, chunk, step)
                                      : !shoali_engine_receive(e, chunk, step))
            return;
        k->pc++;
        if (e->slots.used) {
            e->slots.kept[chunk % e->slots.positions]++;
            add_slots(e, chunk);
        }
        if (e->budget <= 0 && shoali_engine_current(e, chunk) != NULL) {
            shoali_engine_wake(e, chunk);
            return;
        }
    }
    shoali_engine_settle(e, chunk);
}
