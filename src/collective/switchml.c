/* SPDX-License-Identifier: Apache-2.0 */
/* SwitchML over datagrams: every worker sends each of its blocks once, as integers of a scale that
 * all share, and receives each sum once, whoever else there is. Two workers, one slot:
 *
 *   W0 -> round 0, next 0, exponent   W1 -> the same     aggregator -> next 0, the larger one
 *   W0 -> round 1, values of 0        W1 -> the same     aggregator -> sum of 0, what is next
 *
 * Packets, slots, losses: slot.h. Aggregators are shards: each has a contiguous part of the buffer
 * (shoali_block_range), slots and a key of its own. All workers aggregate, or the first `shards`
 * of them, or with `dedicated` the members behind the workers. With `sparse` it is OmniReduce's
 * lossy form: only blocks that are not zero at some worker travel.
 *
 * Sums are within n / 2 / scale of the exact ones (slot_scale.c), and the same bits everywhere and
 * every time, as integers do not mind their order.
 *
 * Source: Sapio et al., NSDI 2021; Fei et al., SIGCOMM 2021, algorithm 2.
 * Cost:   a worker sends and receives n, a dedicated aggregator C/A n; co-located 2 (P-1)/P n. */
#include "collective/switchml.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "collective/feedback.h"
#include "collective/shards.h"

typedef struct params {
    int64_t block, slots;
    shoali_shards_keys shards;
    bool sparse;
} params;

/* ------------------------------------------------------------------ start and end */

shoali_switchml_session *shoali_switchml_session_of(const shoali_switchml *f, uint32_t member)
{
    const uint32_t a = member - f->first_aggregator;
    return f->works && member >= f->first_aggregator && a < f->aggregators ? &f->sessions[a] : NULL;
}

static shoal_status check(const shoali_flow_args *a)
{
    if (a->contributors > SHOALI_PACKET_WORKERS_MAX)
        return shoali_fail(SHOAL_EINVAL,
                           "switchml: %u workers: sums of int32 are exact for at most %d",
                           a->contributors, SHOALI_PACKET_WORKERS_MAX);
    return SHOAL_OK;
}

/* One worker alone, or nothing to sum: there is nothing to do. */
static bool trivial(const shoali_switchml *f, size_t count)
{
    return count == 0 || f->args.contributors == 1;
}

static void share_of(const shoali_switchml *f, uint32_t a, size_t *offset_out, size_t *count_out)
{
    shoali_block_range(f->args.count, f->aggregators, a, offset_out, count_out);
}

static shoal_status make_tables(shoali_switchml *f)
{
    const params *p = f->args.collective->params;
    const uint32_t me = f->args.me, c = f->args.contributors;
    shoali_shards shards;
    SHOALI_TRY(shoali_shards_open("switchml", &p->shards, &f->args, &shards));
    f->aggregators = shards.count;
    f->first_aggregator = shards.first;
    f->works = shards.works;
    f->aggregates = shards.aggregates;
    f->block = (uint32_t)p->block;
    f->slots = (uint32_t)p->slots;
    f->sparse = p->sparse;
    f->codes = f->works && (f->args.push->traits & SHOAL_CODEC_SUMMABLE) != 0;
    f->least_bytes = f->args.datagram_bytes;
    f->sessions = shoali_arena_array(f->arena, f->aggregators, sizeof *f->sessions);
    f->guests = shoali_arena_array(f->arena, c, sizeof *f->guests);
    f->packet = shoali_arena_alloc(f->arena, SHOALI_SWITCHML_DATAGRAM_MAX);
    if (f->sessions == NULL || f->guests == NULL || f->packet == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t a = 0; a < f->aggregators; a++) {
        shoali_switchml_session *s = &f->sessions[a];
        s->member = f->first_aggregator + a;
        share_of(f, a, &s->offset, &s->count);
        s->over = !f->works || trivial(f, s->count);
        f->sessions_over += s->over;
        if (f->aggregates && s->member == me)
            f->own_count = s->count;
    }
    if (trivial(f, f->own_count))
        f->aggregates = false;
    return SHOAL_OK;
}

static void switchml_fini(void *state)
{
    shoali_switchml *f = state;
    if (f->elsewhere)
        f->args.offload->end(f->args.offload->ctx);
    shoali_arena_destroy(f->arena);
    memset(f, 0, sizeof *f);
}

static size_t switchml_state_size(const shoali_flow_args *args)
{
    (void)args;
    return sizeof(shoali_switchml);
}

static shoal_status switchml_start(void *state, const shoali_flow_args *args,
                                   const shoal_sink *sink, uint64_t now_us)
{
    shoali_switchml *f = state;
    SHOALI_TRY(check(args));
    *f = (shoali_switchml){.args = *args, .sink = *sink, .now_us = now_us};
    f->arena = shoali_arena_create(1 << 16);
    if (f->arena == NULL)
        return SHOAL_ENOMEM;
    const shoal_status status = make_tables(f);
    if (status != SHOAL_OK)
        switchml_fini(f);
    return status;
}

/* ------------------------------------------------------------------ the end */

static bool complete(const shoali_switchml *f)
{
    return f->sessions_over == f->aggregators &&
           (!f->aggregates || f->finished == f->args.contributors);
}

/* What they stood for is lost with the operation. */
static void forget_residuals(const shoali_switchml *f)
{
    const shoali_feedback residuals = {f->args.tensors, f->args.tensor_count, f->args.residuals};
    if (f->args.residuals != NULL)
        shoali_feedback_clear(&residuals);
}

static void end_if_over(shoali_switchml *f)
{
    if (f->busy || f->done || (!f->failed && !complete(f)))
        return;
    f->done = true;
    if (f->failed)
        forget_residuals(f);
    if (!f->failed && f->origin_known && f->args.check_finite)
        f->sink.done(f->sink.ctx, &f->args.id, SHOAL_ENOTFINITE, "NaN or infinity in the input");
    else
        f->sink.done(f->sink.ctx, &f->args.id, f->failed ? f->status : SHOAL_OK, f->why);
}

void shoali_switchml_fail(shoali_switchml *f, shoal_status status, const char *why)
{
    if (f->failed || f->done)
        return;
    f->failed = true;
    f->status = status;
    snprintf(f->why, sizeof f->why, "%s", why);
}

static void switchml_fail(void *state, shoal_status status, const char *why)
{
    shoali_switchml_fail(state, status, why);
    end_if_over(state);
}

/* ------------------------------------------------------------------ events */

/* Sinks may fail the flow from within a call: it ends when the outermost one returns. */
static bool enter(shoali_switchml *f)
{
    const bool outer = !f->busy;
    f->busy = true;
    return outer;
}

static void leave(shoali_switchml *f, bool outer)
{
    if (!outer)
        return;
    if (!f->done)
        shoali_switchml_go(f);
    f->busy = false;
    end_if_over(f);
}

static bool switchml_with(const void *state, uint32_t peer)
{
    const shoali_switchml *f = state;
    const shoali_switchml_session *s = shoali_switchml_session_of(f, peer);
    return peer != f->args.me && ((s != NULL && s->count > 0 && f->args.contributors > 1) ||
                                  (f->aggregates && peer < f->args.contributors));
}

static void switchml_granted(void *state, uint32_t peer, uint32_t slot)
{
    shoali_switchml *f = state;
    const bool outer = enter(f);
    shoali_switchml_session *s = shoali_switchml_session_of(f, peer);
    (void)slot;
    if (s != NULL && !s->over && !f->failed && !f->done)
        shoali_switchml_join(f, s);
    leave(f, outer);
}

static uint8_t *switchml_place(void *state, uint32_t peer, const shoal_data *head)
{
    (void)state, (void)peer, (void)head;
    return NULL; /* frames are none of ours */
}

static void switchml_control(void *state, uint32_t peer, uint16_t kind, const void *bytes,
                             size_t len_bytes)
{
    shoali_switchml *f = state;
    const bool outer = enter(f);
    if (!f->failed && !f->done && peer != f->args.me) /* what it tells itself takes no wire */
        shoali_switchml_on_control(f, peer, kind, bytes, len_bytes);
    leave(f, outer);
}

static bool switchml_datagram(void *state, uint32_t peer, const uint8_t *bytes, size_t len_bytes,
                              uint64_t now_us)
{
    shoali_switchml *f = state;
    const bool outer = enter(f);
    f->now_us = now_us;
    const bool ours = !f->failed && !f->done && peer != f->args.me &&
                      shoali_switchml_on_datagram(f, peer, bytes, len_bytes);
    leave(f, outer);
    return ours;
}

static void switchml_timer(void *state, uint64_t now_us)
{
    shoali_switchml *f = state;
    const bool outer = enter(f);
    shoali_switchml_session *s = f->aggregates ? shoali_switchml_session_of(f, f->args.me) : NULL;
    f->now_us = now_us;
    if (s != NULL && !s->over && !f->guests[f->args.me].joined && !f->failed)
        shoali_switchml_join(f, s); /* to oneself, once everything is set up */
    if (!f->done)
        shoali_switchml_due(f);
    leave(f, outer);
}

static uint64_t switchml_next_wake_us(const void *state)
{
    const shoali_switchml *f = state;
    uint64_t at_us = UINT64_MAX;
    if (f->done)
        return at_us;
    if (f->failed || complete(f))
        return 0;
    for (uint32_t a = 0; f->works && a < f->aggregators; a++) {
        const shoali_switchml_session *s = &f->sessions[a];
        if (s->member == f->args.me && !s->over && !f->guests[f->args.me].joined)
            return 0;
        if (!s->set_up || s->told || s->member == f->args.me)
            continue;
        const uint64_t wake_us = shoali_slot_worker_wake_us(&s->worker);
        at_us = wake_us < at_us ? wake_us : at_us;
    }
    return at_us;
}

/* The own pool at its largest: the block is not chosen yet. */
static uint64_t switchml_memory(const void *state)
{
    const shoali_switchml *f = state;
    const shoali_slot_share share = {.slots = shoali_switchml_slots(f),
                                     .block = f->block != 0 ? f->block
                                                            : f->args.datagram_bytes / 4};
    return f->aggregates ? shoali_slot_pool_bytes(&share) + share.slots * sizeof *f->told_us : 0;
}

/* Each element once, without what was sent again. */
static uint64_t dense_elems(const shoali_switchml *f)
{
    if (f->args.contributors == 1)
        return 0;
    const uint64_t others = f->args.contributors - (f->works ? 1 : 0);
    return (f->works ? f->args.count - f->own_count : 0) + f->own_count * others;
}

static void switchml_stats(const void *state, shoali_flow_stats *stats_out)
{
    const shoali_switchml *f = state;
    uint64_t received, sent;
    *stats_out = f->stats;
    stats_out->dense_elems = dense_elems(f);
    if (!f->elsewhere)
        return;
    f->args.offload->counted(f->args.offload->ctx, &received, &sent);
    stats_out->received_payload_bytes += received;
    stats_out->sent_payload_bytes += sent;
}

static bool switchml_not_finite(const void *state, shoali_not_finite *origin_out)
{
    const shoali_switchml *f = state;
    *origin_out = f->origin;
    return f->origin_known;
}

/* ------------------------------------------------------------------ what it waits for */

enum { PROBES_UNANSWERED = 16 }; /* as many are lost in a row on no net that works at all */

/* The aggregator is alive, and has said whose contribution it misses. */
static bool blames(const shoali_switchml *f, const shoali_slot_sender *s)
{
    return s->unanswered < PROBES_UNANSWERED && s->missing < f->args.contributors &&
           s->missing != f->args.me;
}

/* A slot that waits, best one of which it is known for whom; NONE: none waits. */
static uint32_t telling_slot(const shoali_switchml *f, const shoali_slot_worker *w)
{
    uint32_t any = SHOALI_PACKET_NONE;
    for (uint32_t i = 0; i < w->share.slots; i++) {
        if (w->slots[i].finished)
            continue;
        if (blames(f, &w->slots[i]))
            return i;
        any = i;
    }
    return any;
}

/* A session that is not over, and whom it waits for. */
static void describe_session(const shoali_switchml *f, const shoali_switchml_session *s, char *text,
                             size_t text_bytes, uint32_t *peer_out)
{
    const uint32_t to = f->args.endpoints[s->member];
    *peer_out = s->member;
    if (!s->set_up) {
        snprintf(text, text_bytes, "waits for endpoint %u to enter or set up", to);
        return;
    }
    const uint32_t slot = telling_slot(f, &s->worker);
    if (slot == SHOALI_PACKET_NONE) {
        snprintf(text, text_bytes, "waits to hear from endpoint %u who brought NaN or infinity",
                 to);
        return;
    }
    const shoali_slot_sender *sender = &s->worker.slots[slot];
    if (!blames(f, sender)) {
        snprintf(text, text_bytes, "slot %u, round %u: waits for the sum of endpoint %u", slot,
                 sender->round, to);
        return;
    }
    *peer_out = sender->missing;
    snprintf(text, text_bytes,
             "slot %u, round %u: endpoint %u misses the contribution of endpoint %u", slot,
             sender->round, to, f->args.endpoints[sender->missing]);
}

static bool pool_misses(const shoali_switchml *f, uint32_t *slot_out, uint32_t *round_out,
                        uint32_t *worker_out)
{
    if (f->elsewhere)
        return f->args.offload->missing(f->args.offload->ctx, slot_out, round_out, worker_out);
    if (!f->pool_open || !shoali_slot_pool_missing(&f->pool, slot_out, worker_out))
        return false;
    *round_out = f->pool.cells[*slot_out].round;
    return true;
}

static void describe_guests(const shoali_switchml *f, char *text, size_t text_bytes,
                            uint32_t *peer_out)
{
    uint32_t slot, round, worker;
    if (pool_misses(f, &slot, &round, &worker)) {
        *peer_out = worker;
        snprintf(text, text_bytes, "slot %u, round %u: waits for the contribution of endpoint %u",
                 slot, round, f->args.endpoints[worker]);
        return;
    }
    for (uint32_t w = 0; w < f->args.contributors; w++)
        if (!f->pool_open ? !f->guests[w].joined : !f->guests[w].finished) {
            *peer_out = w;
            snprintf(text, text_bytes, "waits for endpoint %u to %s", f->args.endpoints[w],
                     f->pool_open ? "have all sums" : "enter");
            return;
        }
}

static void switchml_describe(const void *state, char *text, size_t text_bytes, uint32_t *peer_out)
{
    const shoali_switchml *f = state;
    *peer_out = SHOALI_PACKET_NONE;
    snprintf(text, text_bytes, "waits for nobody");
    if (f->aggregates)
        describe_guests(f, text, text_bytes, peer_out);
    for (uint32_t a = 0; a < f->aggregators && *peer_out == SHOALI_PACKET_NONE; a++)
        if (!f->sessions[a].over)
            describe_session(f, &f->sessions[a], text, text_bytes, peer_out);
}

static const shoali_flow_row switchml_flow = {
    .name = "switchml",
    .transports = SHOALI_FLOW_DATAGRAM,
    .state_size = switchml_state_size,
    .start = switchml_start,
    .receives_from = switchml_with,
    .sends_to = switchml_with,
    .on_granted = switchml_granted,
    .place = switchml_place,
    .on_control = switchml_control,
    .on_timer = switchml_timer,
    .on_datagram = switchml_datagram,
    .next_wake_us = switchml_next_wake_us,
    .fail = switchml_fail,
    .memory = switchml_memory,
    .stats = switchml_stats,
    .not_finite = switchml_not_finite,
    .describe = switchml_describe,
    .fini = switchml_fini,
};

static const shoali_key keys[] = {
    {"block", SHOALI_KEY_INT, offsetof(params, block), 0, SHOALI_PACKET_VALUES_MAX, NULL, "0",
     "elements of a block, one in a packet; 0: as many as the members' MTU has room for"},
    {"slots", SHOALI_KEY_INT, offsetof(params, slots), 0, SHOALI_PACKET_SLOTS_MAX, NULL, "0",
     "packets under way between a worker and each aggregator; 0: 64 in all, 8 or more each"},
    SHOALI_SHARDS_KEYS(params, shards),
    {"sparse", SHOALI_KEY_FLAG, offsetof(params, sparse), 0, 0, NULL, "off",
     "only blocks that are not zero somewhere travel: OmniReduce's lossy form"},
};

static uint32_t traits_with(const void *params_in)
{
    const params *p = params_in;
    return shoali_shards_traits(&p->shards) | SHOALI_COLL_ROUNDED;
}

const shoali_collective_row shoali_collective_switchml = {
    .name = "switchml",
    .paper = "Sapio et al., NSDI 2021",
    .traits = SHOALI_COLL_DEDICATED | SHOALI_COLL_FLOW | SHOALI_COLL_ROUNDED | SHOALI_COLL_SERVED,
    .traits_with = traits_with,
    .schema = {keys, sizeof keys / sizeof keys[0], sizeof(params)},
    .flow = &switchml_flow,
};
