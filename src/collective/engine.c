/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule executor as a flow. States of an operation:
 *
 *   start --> running --(all chunks closed, nothing in others' hands)--> done OK | ENOTFINITE
 *                |
 *                +--fail, or an error here--> failed --(every send, body and job is back)--> done
 *                                                                                with that status
 *
 * Events put chunks into the run queue and peers into the dirty queue; go() empties both, within a
 * budget of work per call. Calls from inside the sink only queue: go() is never entered twice. done
 * is the last thing go() does. After an end that was OK the tables rest, and can be run again. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/rng.h"
#include "collective/carry.h"
#include "collective/engine.h"
#include "collective/feedback.h"
#include "kernel/kernel.h"

enum {
    BUDGET_ELEMS = 1 << 20, /* coded elements per call: a few milliseconds of the slowest codec */
    CHUNK_ELEMS_MAX = 1 << 23, /* a coded chunk fits in a frame: SHOALI_FRAME_MAX_BODY_BYTES */
    ARENA_BYTES = 16 * 1024
};

void shoali_engine_wake(shoali_engine_state *e, uint32_t chunk)
{
    shoali_chunk *k = &e->chunks[chunk];
    if (e->failure.failed || (k->flags & (SHOALI_CHUNK_QUEUED | SHOALI_CHUNK_CLOSED)) != 0)
        return;
    k->flags |= SHOALI_CHUNK_QUEUED;
    e->run.items[(e->run.head + e->run.count++) % e->run.capacity] = chunk;
}

void shoali_engine_fail(shoali_engine_state *e, shoal_status status, const char *format, ...)
{
    if (e->failure.failed || e->done)
        return;
    e->failure.failed = true;
    e->failure.status = status;
    va_list list;
    va_start(list, format);
    vsnprintf(e->failure.why, sizeof e->failure.why, format, list);
    va_end(list);
}

const shoal_codec *shoali_engine_codec(const shoali_engine_state *e, const shoal_step *step)
{
    return step->leg == SHOAL_PUSH ? e->args.push : e->args.pull;
}

bool shoali_engine_raw(const shoali_engine_state *e, const shoal_step *step)
{
    const bool inside = e->site > 0 && step->kind != SHOAL_OWN &&
                        e->args.me / e->site == step->peer / e->site;
    return e->raw[step->leg] || inside;
}

/* Streams of random numbers: operation, leg, and what tells encoders of one element apart: on PUSH
 * the endpoint that encodes, with slots the slot. On PULL nothing: an element is encoded once, and
 * who receives it may not know by whom. The codec mixes in the tensor's key, and counts
 * elements. */
/* Members summed in what a step codes, for the codec: gathered shards, broadcast values and an
 * owner job's weights are nobody's sum. */
static uint32_t parts_of(const shoali_engine_state *e, const shoal_step *step)
{
    bool sums = e->args.kind == SHOAL_ALL_REDUCE || e->args.kind == SHOAL_REDUCE_SCATTER;
    bool weights = e->args.owner_job && step->leg == SHOAL_PULL;
    return sums && !weights ? step->parts : 1;
}

shoali_codec_span shoali_engine_span(const shoali_engine_state *e, uint32_t chunk,
                                     const shoal_step *step, uint32_t encoder)
{
    const shoali_chunk *k = &e->chunks[chunk];
    uint64_t stream = shoali_mix(e->stream, e->slots.used ? 2 : step->leg);
    if (e->slots.used)
        stream = shoali_mix(stream, k->block);
    else if (step->leg == SHOAL_PUSH)
        stream = shoali_mix(stream, e->args.endpoints[encoder]);
    return (shoali_codec_span){.tensors = e->args.tensors,
                               .tensor_count = e->args.tensor_count,
                               .shared = e->args.shared,
                               .first = k->offset,
                               .count = k->count,
                               .parts = parts_of(e, step),
                               .seed = e->args.seed,
                               .stream = stream};
}

uint64_t shoali_engine_now_ns(const shoali_engine_state *e)
{
    return e->args.now_ns != NULL ? e->args.now_ns() : 0;
}

static uint32_t fifo_pop(shoali_fifo *fifo)
{
    uint32_t item = fifo->items[fifo->head];
    fifo->head = (fifo->head + 1) % fifo->capacity;
    fifo->count--;
    return item;
}

static bool nothing_out(const shoali_engine_state *e)
{
    return e->sends == 0 && e->placed == 0 && e->jobs == 0;
}

static bool complete(const shoali_engine_state *e)
{
    return !e->done && nothing_out(e) && (e->failure.failed || e->open_chunks == 0);
}

/* Every member knows of the same chunks that they were not finite. */
static void keep_weights(shoali_engine_state *e)
{
    if (e->args.weights == NULL)
        return;
    for (uint32_t i = 0; i < e->chunk_count; i++) {
        const shoali_chunk *k = &e->chunks[i];
        if ((k->flags & SHOALI_CHUNK_FLAGGED) != 0)
            shoali_kernel()->copy(e->args.buf + k->offset, e->args.weights + k->offset, k->count);
    }
}

/* Calls done: afterwards e may be gone. */
static void finish(shoali_engine_state *e)
{
    e->done = true;
    if (e->failure.failed && e->args.residuals != NULL) {
        shoali_feedback residuals = {e->args.tensors, e->args.tensor_count, e->args.residuals};
        shoali_feedback_clear(&residuals);
    }
    if (!e->failure.failed && e->failure.origin_known) {
        e->failure.status = SHOAL_ENOTFINITE;
        keep_weights(e);
        snprintf(e->failure.why, sizeof e->failure.why,
                 "NaN or infinity from endpoint %u in tensor %llu, element %llu",
                 e->failure.origin.endpoint, (unsigned long long)e->failure.origin.key,
                 (unsigned long long)e->failure.origin.index);
    }
    e->sink.done(e->sink.ctx, &e->args.id, e->failure.status, e->failure.why);
}

/* Do what the queues ask for; at the end of every event. */
static void go(shoali_engine_state *e)
{
    if (e->running || e->done)
        return;
    e->running = true;
    e->budget = BUDGET_ELEMS;
    while (!e->failure.failed && e->budget > 0 && (e->run.count > 0 || e->dirty.count > 0)) {
        if (e->dirty.count > 0) {
            uint32_t peer_index = fifo_pop(&e->dirty);
            e->peers[peer_index].queued = false;
            shoali_engine_serve(e, peer_index);
        } else {
            uint32_t chunk = fifo_pop(&e->run);
            e->chunks[chunk].flags &= ~(uint32_t)SHOALI_CHUNK_QUEUED;
            shoali_engine_advance(e, chunk);
        }
    }
    e->running = false;
    if (complete(e))
        finish(e);
}

static shoal_status check_tensors(const shoali_flow_args *a)
{
    size_t at = 0;
    for (uint32_t t = 0; t < a->tensor_count; t++) {
        if (a->tensors[t].offset != at || a->tensors[t].count > a->count - at)
            return shoali_fail(
                SHOAL_EINVAL,
                "tensor %u of the operation does not start at element %zu, or is too long", t, at);
        at += a->tensors[t].count;
    }
    if (at != a->count)
        return shoali_fail(SHOAL_EINVAL, "the tensors cover %zu of %zu elements", at, a->count);
    return SHOAL_OK;
}

static shoal_status check_codec(const shoali_flow_args *a, const shoal_codec *codec, bool slots)
{
    const uint32_t traits = codec->traits;
    if (traits & SHOAL_CODEC_TRANSFORM)
        return shoali_fail(SHOAL_EINVAL,
                           "codec %s is a transform: its rounds are operations of their own",
                           codec->spec);
    if ((traits & SHOAL_CODEC_MEASURE) && a->shared == NULL)
        return shoali_fail(SHOAL_EINVAL, "codec %s lacks its shared values", codec->spec);
    if (a->reduce == SHOAL_MAX && ((traits & SHOAL_CODEC_RAW_BYTES) == 0 || slots))
        return shoali_fail(SHOAL_EINVAL, "the maximum travels by identity only, and not in slots");
    return SHOAL_OK;
}

static shoal_status check_args(const shoali_flow_args *a)
{
    if (a->size == 0 || a->me >= a->size || a->contributors == 0 || a->contributors > a->size ||
        a->root >= a->size)
        return shoali_fail(SHOAL_EINVAL, "member %u of %u with %u contributors and root %u", a->me,
                           a->size, a->contributors, a->root);
    if (a->chunk_elems == 0 || a->chunk_elems > CHUNK_ELEMS_MAX)
        return shoali_fail(SHOAL_EINVAL, "a chunk has 1 .. %d elements, not %u", CHUNK_ELEMS_MAX,
                           a->chunk_elems);
    SHOALI_TRY(check_tensors(a));
    if (a->size == 1)
        return SHOAL_OK;
    const bool slots = (a->collective->row->traits & SHOALI_COLL_SLOTS) != 0;
    if (a->owner_job && slots)
        return shoali_fail(SHOAL_EINVAL, "collective '%s' has no owners for an owner job",
                           a->collective->spec);
    SHOALI_TRY(shoali_carry_check(a->collective, a->push, a->pull, a->owner_job));
    SHOALI_TRY(check_codec(a, a->push, slots));
    return check_codec(a, a->pull, slots);
}

static void set_leg(shoali_engine_state *e, int leg, const shoal_codec *codec)
{
    const uint32_t traits = codec->traits;
    e->raw[leg] = (traits & SHOAL_CODEC_RAW_BYTES) != 0 && !e->slots.used;
    e->feedback[leg] = codec->error_feedback && e->args.residuals != NULL &&
                       (traits & SHOAL_CODEC_LOSSLESS) == 0 &&
                       e->args.kind != SHOAL_BROADCAST; /* values, not what adds up over time */
}

/* Tables stand, nothing has happened. */
static void begin(shoali_engine_state *e)
{
    const shoal_op_id *id = &e->args.id;
    e->failure.culprit = UINT32_MAX;
    e->stream = shoali_mix(shoali_mix(id->group, id->sequence), id->round);
    for (uint32_t c = 0; c < e->chunk_count; c++)
        shoali_engine_wake(e, c);
    shoali_engine_pace(e);
}

static shoal_status prepare(shoali_engine_state *e)
{
    const shoali_flow_args *a = &e->args;
    e->arena = shoali_arena_create(ARENA_BYTES);
    e->own_scratch = a->scratch == NULL ? shoali_scratch_create() : NULL;
    e->scratch = a->scratch != NULL ? a->scratch : e->own_scratch;
    if (e->arena == NULL || e->scratch == NULL)
        return SHOAL_ENOMEM;
    if (a->size > 1) {
        e->slots.used = (a->collective->row->traits & SHOALI_COLL_SLOTS) != 0;
        set_leg(e, SHOAL_PUSH, a->push);
        set_leg(e, SHOAL_PULL, a->pull);
    }
    SHOALI_TRY(shoali_engine_plan(e));
    if (e->feedback[SHOAL_PUSH] || e->feedback[SHOAL_PULL]) {
        e->decoded = shoali_arena_array(e->arena, a->chunk_elems, sizeof *e->decoded);
        if (e->decoded == NULL)
            return SHOAL_ENOMEM;
    }
    begin(e);
    return SHOAL_OK;
}

/* What belongs to the pool. */
static void give_back(shoali_engine_state *e)
{
    for (uint32_t i = 0; e->flights != NULL && i < e->peer_count * SHOALI_ENGINE_FLIGHTS; i++)
        if (e->flights[i].used)
            shoali_scratch_put(e->scratch, e->flights[i].scratch);
    for (uint32_t c = 0; e->chunks != NULL && c < e->chunk_count; c++)
        shoali_scratch_put(e->scratch, e->chunks[c].kept);
    for (uint32_t i = 0; e->arrivals != NULL && i < e->arrival_count; i++)
        if (!e->arrivals[i].direct)
            shoali_scratch_put(e->scratch, e->arrivals[i].body);
}

static void engine_fini(void *state)
{
    shoali_engine_state *e = state;
    give_back(e);
    shoali_scratch_destroy(e->own_scratch);
    shoali_arena_destroy(e->arena);
    memset(e, 0, sizeof *e);
    e->done = true;
}

static void engine_rest(void *state)
{
    shoali_engine_state *e = state;
    give_back(e);
    shoali_engine_rewind(e);
    e->done = true;
}

static size_t engine_state_size(const shoali_flow_args *args)
{
    (void)args;
    return sizeof(shoali_engine_state);
}

static shoal_status engine_start(void *state, const shoali_flow_args *args, const shoal_sink *sink,
                                 uint64_t now_us)
{
    shoali_engine_state *e = state;
    (void)now_us;
    SHOALI_TRY(check_args(args));
    e->args = *args;
    e->sink = *sink;
    shoal_status status = prepare(e);
    if (status != SHOAL_OK)
        engine_fini(e);
    return status;
}

static void engine_again(void *state, const shoali_flow_args *args, const shoal_sink *sink)
{
    shoali_engine_state *e = state;
    const uint32_t cut = e->args.chunk_elems;
    e->args = *args;
    e->args.chunk_elems = cut;
    e->sink = *sink;
    e->done = false;
    begin(e);
}

static bool engine_receives_from(const void *state, uint32_t peer)
{
    const shoali_engine_state *e = state;
    if (peer >= e->args.size)
        return false;
    for (uint32_t i = e->recv_first[peer]; i < e->recv_first[peer + 1]; i++)
        if (e->steps[e->recv_steps[i]].chunk_count > 0)
            return true;
    return false;
}

static bool engine_sends_to(const void *state, uint32_t peer)
{
    const shoali_engine_state *e = state;
    return peer < e->args.size && e->peer_of[peer] != UINT32_MAX;
}

static void engine_granted(void *state, uint32_t peer, uint32_t slot)
{
    shoali_engine_state *e = state;
    if (!e->done && engine_sends_to(e, peer) && !e->peers[e->peer_of[peer]].granted) {
        e->peers[e->peer_of[peer]].granted = true;
        e->peers[e->peer_of[peer]].slot = slot;
        shoali_engine_mark_dirty(e, e->peer_of[peer]);
    }
    go(e);
}

static uint8_t *engine_place(void *state, uint32_t peer, const shoal_data *head)
{
    shoali_engine_state *e = state;
    return e->failure.failed || e->done ? NULL : shoali_engine_place(e, peer, head);
}

static float *engine_place_add(void *state, uint32_t peer, const shoal_data *head)
{
    shoali_engine_state *e = state;
    return e->failure.failed || e->done ? NULL : shoali_engine_place_add(e, peer, head);
}

static void engine_frames(void *state, uint32_t peer, const shoal_data *heads,
                          uint8_t *const *bodies, size_t count)
{
    shoali_engine_state *e = state;
    for (size_t i = 0; i < count; i++)
        if (shoali_engine_arrived(e, peer, &heads[i], bodies[i]))
            shoali_engine_wake(e, heads[i].chunk);
    go(e);
}

static void engine_unplace(void *state, uint32_t peer, const shoal_data *head, uint8_t *body)
{
    shoali_engine_unplace(state, peer, head, body);
    go(state);
}

static void engine_sent(void *state, uint32_t peer, uint64_t cookie)
{
    (void)peer;
    shoali_engine_sent(state, cookie);
    go(state);
}

static void engine_job(void *state, uint64_t cookie, shoal_status status)
{
    shoali_engine_state *e = state;
    if (cookie >= e->chunk_count || (e->chunks[cookie].flags & SHOALI_CHUNK_JOB) == 0)
        return;
    shoali_chunk *k = &e->chunks[cookie];
    k->flags = (k->flags & ~(uint32_t)SHOALI_CHUNK_JOB) | SHOALI_CHUNK_JOB_DONE;
    e->jobs--;
    if (status != SHOAL_OK)
        shoali_engine_fail(e, status, "the owner job of elements %zu .. %zu failed", k->offset,
                           k->offset + k->count - 1);
    shoali_engine_wake(e, (uint32_t)cookie);
    go(e);
}

static void engine_control(void *state, uint32_t peer, uint16_t kind, const void *bytes,
                           size_t len_bytes)
{
    (void)state, (void)peer, (void)kind, (void)bytes,
        (void)len_bytes; /* schedules need no control frames */
}

static uint64_t slowed_until_us(const shoali_engine_state *e)
{
    return shoali_engine_paced(e) ? shoali_pace_next_us(&e->pace) : 0;
}

static void engine_timer(void *state, uint64_t now_us)
{
    shoali_engine_state *e = state;
    if (e->pace.held && slowed_until_us(e) <= now_us)
        shoali_engine_go_on(e);
    go(e);
}

static uint64_t engine_next_wake_us(const void *state)
{
    const shoali_engine_state *e = state;
    bool queued = !e->failure.failed && (e->run.count > 0 || e->dirty.count > 0);
    if (!e->done && (queued || complete(e)))
        return 0;
    return e->pace.held && !e->done && !e->failure.failed ? slowed_until_us(e) : UINT64_MAX;
}

static void engine_fail(void *state, shoal_status status, const char *why)
{
    shoali_engine_fail(state, status, "%s", why);
    go(state);
}

static void engine_stats(const void *state, shoali_flow_stats *stats_out)
{
    *stats_out = ((const shoali_engine_state *)state)->stats;
    stats_out->dense_elems = stats_out->sent_elems; /* a schedule leaves nothing out */
}

static uint32_t engine_culprit(const void *state)
{
    return ((const shoali_engine_state *)state)->failure.culprit;
}

static bool engine_not_finite(const void *state, shoali_not_finite *origin_out)
{
    const shoali_engine_state *e = state;
    *origin_out = e->failure.origin;
    return e->failure.origin_known;
}

static void engine_describe(const void *state, char *text, size_t text_bytes, uint32_t *peer_out)
{
    shoali_engine_describe(state, text, text_bytes, peer_out);
}

const shoali_flow_row shoali_engine = {
    .name = "engine",
    .transports = SHOALI_FLOW_STREAM,
    .state_size = engine_state_size,
    .start = engine_start,
    .receives_from = engine_receives_from,
    .sends_to = engine_sends_to,
    .on_granted = engine_granted,
    .place = engine_place,
    .place_add = engine_place_add,
    .on_frames = engine_frames,
    .unplace = engine_unplace,
    .on_sent = engine_sent,
    .on_job = engine_job,
    .on_control = engine_control,
    .on_timer = engine_timer,
    .next_wake_us = engine_next_wake_us,
    .fail = engine_fail,
    .stats = engine_stats,
    .not_finite = engine_not_finite,
    .culprit = engine_culprit,
    .describe = engine_describe,
    .fini = engine_fini,
    .rest = engine_rest,
    .again = engine_again,
};
