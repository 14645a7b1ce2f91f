/* SPDX-License-Identifier: Apache-2.0 */
/* Partial All-Reduce: every worker steps on its own gradient, then averages parameters with a group
 * of others; which group, says a schedule that all know (static) or a generator (random, smart).
 * A group is a list of members on the mesh that is there anyway: it costs nothing to make.
 *
 *               COMPUTE             ASKING                AVERAGING (op)           FINISHED
 *   BEFORE      GO(apply)           .                     .                        .
 *   AFTER       ask -> ASKING       .                     .                        .
 *   GROUP id    keep                run it -> AVERAGING   keep                     .
 *   OP_DONE     .                   .                     ok: PARAM = mean, GO     .
 *                                                         else: void, ask again
 *   p ends      groups with p that p will not execute are void: forgotten, or CANCEL
 *   no controller   forget groups, CANCEL, HELLO to the next one
 *   FINISH      tell all where my groups end -> FINISHED; finale.h does the rest
 *   STOP        the same, CANCEL; GO(stop) once nothing is open
 *
 * The controller is the lowest live worker. It numbers groups (term of the controller, then a
 * counter) and sends each to its members; a worker executes its groups by rising number, which is
 * why no cycle of waits can close. What has to survive a controller is at the workers: each knows
 * how often it asked, and its groups. The next controller starts a term of its own once every
 * worker has said HELLO; groups of older terms are void, so nobody waits for one that half of its
 * members never heard of. The price is one lost average per worker.
 *
 * static needs no controller: a group follows from the step and from who is there. If that changes
 * while a group is open, the group is void, and its worker goes without in this step, and says so:
 * SKIPPED makes others that would wait for it leave it out, or skip the step as well. A worker that
 * was through with the step before it heard, in another group or alone, says SKIPPED, too.
 *
 * Differs from the paper: the controller is a worker, not a process of its own; workers run what
 * they know to be next without a round trip; groups with a lost member are replaced. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "sync/pack.h"
#include "sync/ripples.h"
#include "sync/ripples_static.h"

enum { DIVIDE_AUTO, THRESHOLD_AUTO = -1, SMART_THRESHOLD = 4, SKIPS = 8 };

static const shoali_key keys[] = {
    {"static", SHOALI_KEY_FLAG, offsetof(shoali_ripples_params, fixed), 0, 0, NULL, "off",
     "the four-phase schedule, without a group generator: for workers of equal speed"},
    {"random", SHOALI_KEY_FLAG, offsetof(shoali_ripples_params, random), 0, 0, NULL, "off",
     "groups of random workers"},
    {"smart", SHOALI_KEY_FLAG, offsetof(shoali_ripples_params, smart), 0, 0, NULL, "off",
     "division=inter_intra with threshold=4; the default of the three"},
    {"division", SHOALI_KEY_CHOICE, offsetof(shoali_ripples_params, division), 0, 0,
     "auto|none|random|inter_intra", "auto",
     "all free workers get groups at once: random ones, or across hosts and then inside them"},
    {"group", SHOALI_KEY_INT, offsetof(shoali_ripples_params, group), 2, 1024, NULL, "4",
     "members of a random group"},
    {"threshold", SHOALI_KEY_INT, offsetof(shoali_ripples_params, threshold), THRESHOLD_AUTO,
     1 << 20, NULL, "-1",
     "workers that are so many iterations behind take no part in a division; 0: all do, -1: auto"},
    {"laggards", SHOALI_KEY_FLAG, offsetof(shoali_ripples_params, laggards), 0, 0, NULL, "off",
     "leave them out of the groups inside their host as well (not in the paper)"},
    {"section", SHOALI_KEY_INT, offsetof(shoali_ripples_params, section), 1, 1 << 20, NULL, "1",
     "synchronise after every so many iterations"},
};

/* ---------------------------------------------------------------- shape */

static size_t round_up(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

static shoali_generator_options options_of(const shoali_ripples_params *p)
{
    bool smart = !p->random;
    shoali_division usual = smart ? SHOALI_DIVIDE_INTER_INTRA : SHOALI_DIVIDE_NONE;
    int64_t threshold = p->threshold != THRESHOLD_AUTO ? p->threshold : smart ? SMART_THRESHOLD : 0;
    return (shoali_generator_options){
        .division = p->division == DIVIDE_AUTO ? usual : (shoali_division)(p->division - 1),
        .group = (uint32_t)p->group,
        .threshold = (uint32_t)threshold,
        .laggards = p->laggards};
}

static uint32_t fifo_capacity(const shoali_world *world)
{
    return shoali_generator_room(world, options_of(world->params).division);
}

static size_t state_size(const shoali_world *world)
{
    size_t capacity = fifo_capacity(world), workers = world->workers;
    return round_up(sizeof(shoali_ripples)) + round_up(shoali_finale_bytes(world)) +
           round_up(shoali_generator_bytes(world)) +
           (capacity + (1 + SKIPS) * workers + SKIPS) * sizeof(uint64_t) +
           workers * sizeof(uint32_t) + capacity * shoali_ripples_bitmap_bytes(world) + 2 * workers;
}

static uint32_t slots(const shoali_world *world)
{
    (void)world;
    return 2; /* what travels: of a group, of the finale */
}

static uint32_t max_staleness(const void *any)
{
    const shoali_ripples_params *p = any;
    return p->fixed ? 0 : SHOALI_STALENESS_UNBOUNDED;
}

/* A generated group waits until its members ask again; a static one is of one iteration. */
static uint32_t traits_with(const void *any)
{
    const shoali_ripples_params *p = any;
    return SHOALI_SYNC_MEAN | SHOALI_SYNC_SURVIVES | SHOALI_SYNC_APART | SHOALI_SYNC_MODELS |
           (p->fixed ? 0 : SHOALI_SYNC_LATER);
}

static shoal_status check(const void *any)
{
    const shoali_ripples_params *p = any;
    if (p->fixed + p->random + p->smart > 1)
        return shoali_fail(SHOAL_EINVAL, "ripples: one of static, random and smart, not several");
    if (p->laggards && (p->fixed || p->random))
        return shoali_fail(SHOAL_EINVAL, "ripples: laggards goes with smart");
    return SHOAL_OK;
}

static const shoali_ripples_params *params_of(const shoali_ripples *m)
{
    return m->world->params;
}

void shoali_ripples_say(uint32_t peer, uint8_t kind, uint64_t a, uint64_t b,
                        shoali_actions *actions)
{
    uint8_t bytes[HEAD_BYTES] = {kind};
    shoali_pack_u64(bytes + 1, a);
    shoali_pack_u64(bytes + 9, b);
    shoali_act_send(actions, peer, bytes, sizeof bytes);
}

static bool fits(const shoali_ripples *m, uint64_t id, uint32_t worker)
{
    return id <= m->ends[worker];
}

/* ---------------------------------------------------------------- groups of mine */

static void request(shoali_ripples *m, uint64_t busy_us, shoali_actions *actions);
static void advance(shoali_ripples *m, shoali_actions *actions);

static void go(shoali_ripples *m, shoali_actions *actions)
{
    m->phase = COMPUTE;
    if (m->iteration % (uint64_t)params_of(m)->section == 0)
        m->went_us = m->now_us;
    shoali_act_go(actions, &(shoal_verdict){.iteration = m->iteration});
}

static uint64_t hash_of(const shoali_ripples *m, uint32_t count)
{
    return shoali_hash(m->members, count * sizeof *m->members, 0);
}

/* Views of who is there may differ for a moment: an operation is named after its members as well,
 * so that only those meet who mean the same. */
static uint64_t static_op(uint64_t asked, uint64_t members_hash)
{
    return (asked << 32 | (members_hash & UINT32_MAX)) & (SHOALI_FINALE_OP - 1);
}

static void start_op(shoali_ripples *m, uint64_t id, uint32_t count, shoali_actions *actions)
{
    const shoali_mix_term param = {SHOALI_PARAM, 1};
    m->phase = AVERAGING;
    m->open = id;
    m->open_count = count;
    m->open_hash = hash_of(m, count);
    m->open_op = params_of(m)->fixed ? static_op(id, m->open_hash) : id;
    shoali_act_mix(actions, SHOALI_SLOT, 0, m->world->count, &param, 1);
    shoali_act_op(actions, &(shoali_sync_op){.id = m->open_op,
                                             .kind = SHOALI_SYNC_ALL_REDUCE,
                                             .members = m->members,
                                             .member_count = count,
                                             .contributors = count,
                                             .tensor = SHOALI_SLOT,
                                             .count = m->world->count,
                                             .collective = "ring",
                                             .push_coded = m->world->coding == SHOALI_LOSSLESS,
                                             .pull_coded = m->world->coding == SHOALI_LOSSLESS,
                                             .iteration = m->iteration});
}

/* Through with a group, executed or void. */
static void done(shoali_ripples *m, uint64_t id, shoali_actions *actions)
{
    m->done = id;
    if (m->count == 0 || m->ids[m->first] != id)
        return; /* of an older term, or of the static schedule */
    m->first = (m->first + 1) % m->capacity;
    m->count--;
    if (m->controller == m->world->me)
        shoali_generator_done(&m->generator, m->world->me);
    else
        shoali_ripples_say(m->controller, DONE, id, 0, actions);
}

/* Members of a group to m->members; 0: one of them will not come. */
static uint32_t unpack(shoali_ripples *m, uint64_t id, const uint8_t *bitmap)
{
    uint32_t count = 0;
    for (uint32_t u = 0; u < m->world->workers; u++) {
        if (shoali_ripples_in(bitmap, u) && !fits(m, id, u))
            return 0;
        if (shoali_ripples_in(bitmap, u))
            m->members[count++] = u;
    }
    return count;
}

/* A worker that waits runs its next group. */
static void advance(shoali_ripples *m, shoali_actions *actions)
{
    while (m->phase == ASKING && m->count > 0) {
        uint64_t id = m->ids[m->first];
        uint32_t count = unpack(m, id,
                                m->bitmaps + m->first * shoali_ripples_bitmap_bytes(m->world));
        if (count > 1) {
            start_op(m, id, count, actions);
            return;
        }
        done(m, id, actions);
        if (count == 1)
            go(m, actions);
        else if (m->count == 0)
            request(m, UINT64_MAX, actions);
    }
}

/* A group of the controller's. Groups come by rising number: anything else is not of this term. */
void shoali_ripples_keep(shoali_ripples *m, uint64_t id, const uint8_t *bitmap,
                         shoali_actions *actions)
{
    if (m->phase >= FINISHED || id <= m->seen || !shoali_ripples_in(bitmap, m->world->me))
        return;
    if (m->count == m->capacity) {
        m->phase = OVER;
        shoali_finale_fail(&m->finale, SHOAL_ECORRUPT, "the controller sent too many groups",
                           actions);
        return;
    }
    uint32_t at = (m->first + m->count++) % m->capacity;
    m->ids[at] = m->seen = id;
    memcpy(m->bitmaps + at * shoali_ripples_bitmap_bytes(m->world), bitmap,
           shoali_ripples_bitmap_bytes(m->world));
    advance(m, actions);
}

/* ---------------------------------------------------------------- asking */

static void request(shoali_ripples *m, uint64_t busy_us, shoali_actions *actions)
{
    m->phase = ASKING;
    if (m->controller == m->world->me)
        shoali_ripples_request(m, m->world->me, m->asked, busy_us, actions);
    else
        shoali_ripples_say(m->controller, REQUEST, m->asked, busy_us, actions);
}

/* Where it is kept that a worker skips a step. One may skip several before a slow peer gets there.
 */
static uint64_t *skip_of(const shoali_ripples *m, uint32_t worker, uint64_t step)
{
    return &m->skipped[worker * SKIPS + step % SKIPS];
}

/* My group of the static schedule in the asked-th step, to m->members. */
static uint32_t static_group(shoali_ripples *m, uint64_t asked)
{
    for (uint32_t u = 0; u < m->world->workers; u++)
        m->absent[u] = !fits(m, asked, u) || *skip_of(m, u, asked) == asked;
    m->absent[m->world->me] = 0;
    return shoali_static_group(m->world, m->generator.order, m->absent, asked - 1, m->members);
}

static void skip_mine(shoali_ripples *m, uint64_t asked, shoali_actions *actions)
{
    *skip_of(m, m->world->me, asked) = asked;
    shoali_ripples_say(SHOALI_EVERYBODY, SKIPPED, asked, 0, actions);
}

/* Somebody ended or skips. In steps that I am through with others may now expect me in a group that
 * I was not in: they hear that I will not come. */
static void tell_passed(shoali_ripples *m, shoali_actions *actions)
{
    uint64_t first = m->done > m->begun + SKIPS ? m->done - SKIPS + 1 : m->begun + 1;
    for (uint64_t asked = first; params_of(m)->fixed && asked <= m->done; asked++) {
        if (*skip_of(m, m->world->me, asked) == asked)
            continue;
        uint32_t count = static_group(m, asked);
        if (count == 1 || hash_of(m, count) == m->passed[asked % SKIPS])
            continue;
        skip_mine(m, asked, actions);
    }
}

static void after(shoali_ripples *m, shoali_actions *actions)
{
    m->iteration++;
    if (m->iteration % (uint64_t)params_of(m)->section != 0) {
        go(m, actions);
        return;
    }
    m->asked++;
    if (!params_of(m)->fixed) {
        request(m, m->now_us - m->went_us, actions);
        advance(m, actions);
        return;
    }
    uint32_t count = static_group(m, m->asked);
    m->passed[m->asked % SKIPS] = hash_of(m, count);
    if (count > 1) {
        start_op(m, m->asked, count, actions);
        return;
    }
    m->done = m->asked;
    go(m, actions);
}

static bool is_void(shoal_status status)
{
    return status == SHOAL_EPEER || status == SHOAL_ECANCELLED || status == SHOAL_ETIMEDOUT ||
           status == SHOAL_EMISMATCH;
}

static void op_done(shoali_ripples *m, const shoali_event *event, shoali_actions *actions)
{
    const shoali_mix_term mean = {SHOALI_SLOT, 1.0f / (float)m->open_count};
    uint64_t id = m->open;
    if (id == 0 || event->op.id != m->open_op)
        return;
    m->open = 0;
    if (m->phase == LEAVING) {
        m->phase = OVER;
        shoali_act_go(actions, &(shoal_verdict){.iteration = m->iteration, .stop = true});
        return;
    }
    if (event->op.status != SHOAL_OK && !is_void(event->op.status)) {
        m->phase = OVER;
        shoali_finale_fail(&m->finale, event->op.status, event->op.text, actions);
        return;
    }
    bool again = event->op.status != SHOAL_OK && !params_of(m)->fixed;
    if (event->op.status == SHOAL_OK)
        shoali_act_mix(actions, SHOALI_PARAM, 0, m->world->count, &mean, 1);
    else if (!again)
        skip_mine(m, id, actions);
    done(m, id, actions);
    if (!again) {
        go(m, actions);
        return;
    }
    request(m, UINT64_MAX, actions);
    advance(m, actions);
}

/* ---------------------------------------------------------------- who is there */

/* My open group lacks a member, or is no longer what the others think. */
static bool open_is_void(shoali_ripples *m)
{
    uint32_t count = 0;
    if (!fits(m, m->open, m->world->me))
        return true;
    if (params_of(m)->fixed)
        return hash_of(m, static_group(m, m->open)) != m->open_hash;
    while (count < m->open_count && fits(m, m->open, m->members[count]))
        count++;
    return count < m->open_count;
}

static void cancel_if_void(shoali_ripples *m, shoali_actions *actions)
{
    if (m->open != 0 && open_is_void(m))
        shoali_act_cancel(actions, m->open_op);
}

/* A worker executes no group beyond end. */
static void ends_at(shoali_ripples *m, uint32_t worker, uint64_t end, shoali_actions *actions)
{
    if (m->ends[worker] != UINT64_MAX)
        return;
    m->ends[worker] = end;
    shoali_generator_leave(&m->generator, worker);
    cancel_if_void(m, actions);
    tell_passed(m, actions);
    shoali_ripples_fewer(m, actions);
}

static void skips(shoali_ripples *m, uint32_t worker, uint64_t step, shoali_actions *actions)
{
    *skip_of(m, worker, step) = step;
    cancel_if_void(m, actions);
    tell_passed(m, actions);
}

static void somebody_left(shoali_ripples *m, uint32_t worker, shoali_actions *actions)
{
    ends_at(m, worker, 0, actions);
    if (worker == m->controller && m->phase < LEAVING)
        shoali_ripples_change(m, actions);
}

/* No group beyond those that I am through with. */
static void end_mine(shoali_ripples *m, shoali_actions *actions)
{
    if (m->ends[m->world->me] != UINT64_MAX)
        return;
    shoali_ripples_say(SHOALI_EVERYBODY, ENDED, m->done, 0, actions);
    m->count = 0;
    ends_at(m, m->world->me, m->done, actions);
}

static void stop(shoali_ripples *m, shoali_actions *actions)
{
    end_mine(m, actions);
    bool open = shoali_finale_leave(&m->finale, actions) || m->open != 0;
    m->phase = LEAVING;
    if (m->open != 0)
        shoali_act_cancel(actions, m->open_op);
    if (open)
        return;
    m->phase = OVER;
    shoali_act_go(actions, &(shoal_verdict){.iteration = m->iteration, .stop = true});
}

/* ---------------------------------------------------------------- events */

static void message(shoali_ripples *m, const shoali_event *event, shoali_actions *actions)
{
    const uint8_t *bytes = event->message.bytes;
    uint32_t peer = event->message.peer;
    uint8_t kind = event->message.len_bytes >= HEAD_BYTES ? bytes[0] : 0;
    size_t wanted = HEAD_BYTES + (kind == GROUP ? shoali_ripples_bitmap_bytes(m->world) : 0);
    if (kind < REQUEST || kind > SKIPPED || event->message.len_bytes != wanted ||
        peer >= m->world->workers) {
        char text[96];
        snprintf(text, sizeof text, "endpoint %u sent %zu bytes that are no message of ripples",
                 peer, event->message.len_bytes);
        m->phase = OVER;
        shoali_finale_fail(&m->finale, SHOAL_ECORRUPT, text, actions);
        return;
    }
    uint64_t a = shoali_unpack_u64(bytes + 1), b = shoali_unpack_u64(bytes + 9);
    if (kind == ENDED)
        ends_at(m, peer, a, actions);
    else if (kind == SKIPPED)
        skips(m, peer, a, actions);
    else if (kind == HELLO)
        shoali_ripples_hello(m, peer, a >> 1, b, (a & 1) != 0, actions);
    else if (kind == GROUP && peer == m->controller)
        shoali_ripples_keep(m, a, bytes + HEAD_BYTES, actions);
    else if (kind == REQUEST)
        shoali_ripples_request(m, peer, a, b, actions);
    else if (kind == DONE && m->ready)
        shoali_generator_done(&m->generator, peer);
}

static void start(shoali_ripples *m, const shoali_world *world, shoali_actions *actions)
{
    const shoali_generator_options options = options_of(world->params);
    size_t workers = world->workers;
    uint8_t *at = (uint8_t *)m + round_up(sizeof *m);
    m->world = world;
    m->iteration = world->iteration;
    m->capacity = fifo_capacity(world);
    m->ready = world->me == 0;
    m->went_us = m->now_us;
    if (params_of(m)->fixed) /* the phase follows from the step, in whichever run it is made */
        m->begun = m->asked = m->done = world->iteration / (uint64_t)params_of(m)->section;
    shoali_finale_start(&m->finale, world, 1, at);
    at += round_up(shoali_finale_bytes(world));
    shoali_generator_init(&m->generator, world, &options, at);
    at += round_up(shoali_generator_bytes(world));
    m->ids = (uint64_t *)(void *)at;
    m->ends = m->ids + m->capacity;
    m->skipped = m->ends + workers;
    m->passed = m->skipped + SKIPS * workers;
    m->members = (uint32_t *)(m->passed + SKIPS);
    m->bitmaps = (uint8_t *)(m->members + workers);
    m->flags = m->bitmaps + m->capacity * shoali_ripples_bitmap_bytes(world);
    m->absent = m->flags + workers;
    memset(m->ends, 0xff, workers * sizeof *m->ends);
    if (world->servers == 0 && workers <= SHOALI_FINALE_WORKERS)
        return;
    m->phase = OVER;
    shoali_act_fail(actions, SHOAL_EINVAL, -1,
                    "ripples has no use for %u dedicated servers, and room for %d workers",
                    world->servers, SHOALI_FINALE_WORKERS);
}

static void own_event(shoali_ripples *m, const shoali_event *event, shoali_actions *actions)
{
    switch (event->kind) {
    case SHOALI_EV_BEFORE:
        shoali_act_go(actions,
                      &(shoal_verdict){.apply = true, .grad_scale = 1, .iteration = m->iteration});
        break;
    case SHOALI_EV_AFTER:
        after(m, actions);
        break;
    case SHOALI_EV_MESSAGE:
        message(m, event, actions);
        break;
    case SHOALI_EV_OP_DONE:
        op_done(m, event, actions);
        break;
    case SHOALI_EV_STOP:
        stop(m, actions);
        break;
    default: /* READY: gradients do not travel */
        break;
    }
}

static shoal_status on_event(void *state, const shoali_event *event, shoali_actions *actions)
{
    shoali_ripples *m = state;
    uint32_t gone;
    if (m->phase == OVER)
        return SHOAL_OK;
    m->now_us = event->now_us;
    if (event->kind == SHOALI_EV_FINISH) {
        end_mine(m, actions);
        m->phase = FINISHED;
        m->finale.iteration = m->iteration;
    }
    if (event->kind == SHOALI_EV_START) {
        start(m, event->world, actions);
        return SHOAL_OK;
    }
    shoali_finale_news news = shoali_finale_event(&m->finale, event, &gone, actions);
    if (m->phase == LEAVING && !m->finale.open && m->open == 0) {
        m->phase = OVER;
        shoali_act_go(actions, &(shoal_verdict){.iteration = m->iteration, .stop = true});
    } else if (news == SHOALI_SOMEBODY_LEFT) {
        somebody_left(m, gone, actions);
    } else if (news == SHOALI_NOT_MINE) {
        own_event(m, event, actions);
    }
    return SHOAL_OK;
}

const shoali_sync_row shoali_sync_ripples = {
    .name = "ripples",
    .paper = "Luo et al., \"Heterogeneity-Aware Asynchronous Decentralized Training\" (Ripples, "
             "arXiv 1909.08029; Prague, ASPLOS 2020)",
    .traits = SHOALI_SYNC_MEAN | SHOALI_SYNC_SURVIVES | SHOALI_SYNC_APART | SHOALI_SYNC_LATER |
              SHOALI_SYNC_MODELS,
    .traits_with = traits_with,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(shoali_ripples_params)},
    .check = check,
    .state_size = state_size,
    .slots = slots,
    .max_staleness = max_staleness,
    .on_event = on_event,
};
