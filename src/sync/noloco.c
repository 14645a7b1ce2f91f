/* SPDX-License-Identifier: Apache-2.0 */
/* NoLoCo: outer steps without an all-reduce. Every H iterations the workers form pairs, drawn anew
 * each time by the job's seed, and only the two of a pair wait for each other:
 *
 *                 STEPPING                             MEETING (a sum of two is open)
 *   BEFORE        BASE = PARAM at first; GO(apply)     .
 *   AFTER         not due: GO                          .
 *                 due: WORK, OP with the partner -> MEETING; alone where there is none
 *   OP_DONE       .                                    outer step of two, GO -> STEPPING
 *       failed    .                                    outer step alone, GO -> STEPPING
 *   partner gone  .                                    CANCEL
 *   THROUGH n     book                                 CANCEL where it makes no such round
 *   FINISH        THROUGH to all, finale.h             .
 *   STOP          GO(stop)                             CANCEL; GO(stop) once it is done
 *
 * The outer step, with the slow weights BASE (phi), beta = lr, alpha = momentum, gamma = pull, and
 * means over the two:
 *
 *     MOMENTUM = alpha MOMENTUM + beta mean(PARAM - BASE) + gamma (mean(BASE) - BASE)
 *     BASE     = BASE + MOMENTUM
 *     PARAM    = BASE
 *
 * The authors send PARAM - BASE and BASE; both means follow from that of one vector, which is all
 * that travels: WORK = beta PARAM + (gamma - beta) BASE, so the sum of two halves less gamma BASE.
 *
 * gasloc: GASLoC's accelerated step (Cagnasso et al., arXiv 2606.11081) on the same pairs, with u
 * of this round and of the one before (BASE at first); MOMENTUM keeps the last u less BASE:
 *
 *     u = BASE + beta (PARAM - BASE);  BASE = u + gamma (mean(u) - u) + alpha (u - u before)
 *
 * Whose partner is lost, or makes no more rounds, or who is left over by an odd number, steps by
 * what it has moved itself. Slow weights differ between workers, so what travels are models: a
 * codec with losses has nothing to be a difference from. */
#include "base/rng.h"
#include "sync/finale.h"
#include "sync/pack.h"

enum { BASE = SHOALI_SLOT, MOMENTUM, WORK, FINALE_SLOT = 3, SLOTS = 4 };
enum { THROUGH = 1, THROUGH_BYTES = 9, STREAM_PAIRS = 0x6e6f, ROUND_SHIFT = 14 };
_Static_assert(SHOALI_FINALE_WORKERS <= 1 << ROUND_SHIFT, "ids of operations name a worker");

typedef struct params {
    int64_t every;
    double lr, momentum, pull;
    bool gasloc;
} params;

static const shoali_key keys[] = {
    {"every", SHOALI_KEY_INT, offsetof(params, every), 1, 1 << 20, NULL, "50",
     "iterations from one outer step to the next"},
    {"lr", SHOALI_KEY_FLOAT, offsetof(params, lr), 0, 10, NULL, "0.7",
     "of the outer step: of what the pair has moved on the mean"},
    {"momentum", SHOALI_KEY_FLOAT, offsetof(params, momentum), 0, 0.999, NULL, "0.5",
     "of the outer step"},
    {"pull", SHOALI_KEY_FLOAT, offsetof(params, pull), 0, 2, NULL, "0.7",
     "of the slow weights towards their mean over the pair; the authors' code has lr here"},
    {"gasloc", SHOALI_KEY_FLAG, offsetof(params, gasloc), 0, 0, NULL, "off",
     "the accelerated step of GASLoC: momentum on what the rounds propose, behind the pull"},
};

typedef struct machine {
    shoali_finale finale;
    const shoali_world *world;
    uint64_t *through; /* [workers] iterations that it has made in all, once it says so */
    uint32_t *order;   /* [workers] the round's permutation */
    uint64_t iteration, op;
    uint32_t partner;
    bool begun; /* BASE is there */
    bool open;  /* op */
    bool leaving, over;
} machine;

static const params *params_of(const machine *m)
{
    return m->world->params;
}

static void fail(machine *m, shoal_status status, const char *text, shoali_actions *actions)
{
    m->over = true;
    shoali_finale_fail(&m->finale, status, text, actions);
}

static void go(machine *m, shoali_actions *actions)
{
    shoali_act_go(actions, &(shoal_verdict){.iteration = m->iteration});
}

/* ---------------------------------------------------------------- pairs */

/* Who meets whom in the round behind this iteration; every worker draws the same. */
static uint32_t partner_at(const machine *m, uint64_t iteration)
{
    const uint64_t stream = shoali_mix(shoali_mix(STREAM_PAIRS, m->world->epoch), iteration);
    uint32_t count = m->world->workers, place = 0;
    for (uint32_t i = 0; i < count; i++)
        m->order[i] = i;
    for (uint32_t i = count - 1; i > 0; i--) {
        uint32_t j = (uint32_t)shoali_rng_below(m->world->seed, stream, i, i + 1);
        uint32_t kept = m->order[i];
        m->order[i] = m->order[j];
        m->order[j] = kept;
    }
    while (m->order[place] != m->world->me)
        place++;
    place ^= 1u;
    return place < count ? m->order[place] : m->world->me;
}

/* A partner that will not come to the round behind this iteration. */
static bool absent(const machine *m, uint32_t partner)
{
    return partner == m->world->me || shoali_finale_is_gone(&m->finale, partner) ||
           m->through[partner] < m->iteration;
}

/* ---------------------------------------------------------------- a round */

/* together: the sum over the pair is in WORK. */
static void outer_step(machine *m, bool together, shoali_actions *actions)
{
    const params *p = params_of(m);
    const float lr = (float)p->lr, mu = (float)p->momentum, pull = (float)p->pull;
    const shoali_mix_term pair[] = {{MOMENTUM, mu}, {WORK, 0.5f}, {BASE, -pull}};
    const shoali_mix_term alone[] = {{MOMENTUM, mu}, {SHOALI_PARAM, lr}, {BASE, -lr}};
    const shoali_mix_term step[] = {{BASE, 1}, {MOMENTUM, 1}};
    const size_t count = m->world->count;
    shoali_act_mix(actions, MOMENTUM, 0, count, together ? pair : alone, 3);
    shoali_act_mix(actions, BASE, 0, count, step, 2);
}

static void gasloc_step(machine *m, bool together, shoali_actions *actions)
{
    const params *p = params_of(m);
    const float lr = (float)p->lr, mu = (float)p->momentum;
    const float pull = together ? (float)p->pull : 0, own = 1 - pull + mu;
    const shoali_mix_term next[] = {
        {SHOALI_PARAM, own * lr}, {BASE, own * (1 - lr) - mu}, {MOMENTUM, -mu}, {WORK, pull / 2}};
    const shoali_mix_term moved[] = {{SHOALI_PARAM, lr}, {BASE, 1 - lr}, {WORK, -1}};
    const shoali_mix_term work = {WORK, 1};
    const size_t count = m->world->count;
    shoali_act_mix(actions, WORK, 0, count, next, together ? 4 : 3);
    shoali_act_mix(actions, MOMENTUM, 0, count, moved, 3);
    shoali_act_mix(actions, BASE, 0, count, &work, 1);
}

static void take_base(const machine *m, shoali_actions *actions)
{
    const shoali_mix_term base = {BASE, 1};
    shoali_act_mix(actions, SHOALI_PARAM, 0, m->world->count, &base, 1);
}

static void conclude(machine *m, bool together, shoali_actions *actions)
{
    if (params_of(m)->gasloc)
        gasloc_step(m, together, actions);
    else
        outer_step(m, together, actions);
    take_base(m, actions);
    go(m, actions);
}

static void meet(machine *m, shoali_actions *actions)
{
    const params *p = params_of(m);
    const bool coded = m->world->coding == SHOALI_LOSSLESS;
    const uint32_t me = m->world->me, low = me < m->partner ? me : m->partner;
    const uint32_t members[2] = {low, low == me ? m->partner : me};
    const double whole = p->gasloc ? 1 : p->pull; /* the terms' sum */
    const shoali_mix_term work[] = {{SHOALI_PARAM, (float)p->lr}, {BASE, (float)(whole - p->lr)}};
    m->op = m->iteration << ROUND_SHIFT | low;
    m->open = true;
    shoali_act_mix(actions, WORK, 0, m->world->count, work, whole == p->lr ? 1 : 2);
    shoali_act_op(actions, &(shoali_sync_op){.id = m->op,
                                             .kind = SHOALI_SYNC_ALL_REDUCE,
                                             .members = members,
                                             .member_count = 2,
                                             .contributors = 2,
                                             .tensor = WORK,
                                             .count = m->world->count,
                                             .collective = "ring",
                                             .push_coded = coded,
                                             .pull_coded = coded,
                                             .patient = true,
                                             .iteration = m->iteration});
}

/* ---------------------------------------------------------------- events */

/* The base is what PARAM holds before the first step of all. */
static void before(machine *m, shoali_actions *actions)
{
    const shoali_mix_term param = {SHOALI_PARAM, 1};
    if (!m->begun)
        shoali_act_mix(actions, BASE, 0, m->world->count, &param, 1);
    m->begun = true;
    shoali_act_go(actions,
                  &(shoal_verdict){.apply = true, .grad_scale = 1, .iteration = m->iteration});
}

static void after(machine *m, shoali_actions *actions)
{
    m->iteration++;
    if (m->iteration % (uint64_t)params_of(m)->every != 0) {
        go(m, actions);
        return;
    }
    m->partner = partner_at(m, m->iteration);
    if (absent(m, m->partner) || m->world->count == 0)
        conclude(m, false, actions);
    else
        meet(m, actions);
}

static void go_stop(machine *m, shoali_actions *actions)
{
    if (m->open || m->finale.open)
        return;
    m->over = true;
    shoali_act_go(actions, &(shoal_verdict){.iteration = m->iteration, .stop = true});
}

static void op_done(machine *m, const shoali_event *event, shoali_actions *actions)
{
    const shoal_status status = event->op.status;
    const bool skip = m->world->nonfinite == SHOAL_NONFINITE_SKIP;
    if (!m->open || event->op.id != m->op)
        return;
    m->open = false;
    if (m->leaving) {
        go_stop(m, actions);
    } else if (status == SHOAL_ENOTFINITE && skip) { /* what both have moved is lost */
        take_base(m, actions);
        go(m, actions);
    } else if (status == SHOAL_OK || status == SHOAL_EPEER || status == SHOAL_ECANCELLED) {
        conclude(m, status == SHOAL_OK, actions);
    } else {
        fail(m, status, event->op.text, actions);
    }
}

/* The partner of an open round is gone, or makes fewer. */
static void look_at_partner(const machine *m, shoali_actions *actions)
{
    if (m->open && absent(m, m->partner))
        shoali_act_cancel(actions, m->op);
}

static void on_message(machine *m, const shoali_event *event, shoali_actions *actions)
{
    const uint8_t *bytes = event->message.bytes;
    if (event->message.peer >= m->world->workers || event->message.len_bytes != THROUGH_BYTES ||
        bytes[0] != THROUGH) {
        fail(m, SHOAL_ECORRUPT, "a peer sent bytes that are no message of this protocol", actions);
        return;
    }
    m->through[event->message.peer] = shoali_unpack_u64(bytes + 1);
    look_at_partner(m, actions);
}

/* Nobody shall wait for this worker in a round that it does not make. */
static void finish(machine *m, shoali_actions *actions)
{
    const shoali_event event = {.kind = SHOALI_EV_FINISH};
    uint8_t bytes[THROUGH_BYTES] = {THROUGH};
    uint32_t gone;
    shoali_pack_u64(bytes + 1, m->iteration);
    shoali_act_send(actions, SHOALI_EVERYBODY, bytes, sizeof bytes);
    m->finale.iteration = m->iteration;
    (void)shoali_finale_event(&m->finale, &event, &gone, actions);
}

static void stop(machine *m, shoali_actions *actions)
{
    m->leaving = true;
    (void)shoali_finale_leave(&m->finale, actions);
    if (m->open)
        shoali_act_cancel(actions, m->op);
    go_stop(m, actions);
}

static void own_event(machine *m, const shoali_event *event, shoali_actions *actions)
{
    switch (event->kind) {
    case SHOALI_EV_BEFORE:
        before(m, actions);
        break;
    case SHOALI_EV_AFTER:
        after(m, actions);
        break;
    case SHOALI_EV_OP_DONE:
        op_done(m, event, actions);
        break;
    case SHOALI_EV_MESSAGE:
        on_message(m, event, actions);
        break;
    case SHOALI_EV_FINISH:
        finish(m, actions);
        break;
    case SHOALI_EV_STOP:
        stop(m, actions);
        break;
    default: /* READY: gradients do not travel */
        break;
    }
}

/* ---------------------------------------------------------------- the row */

static size_t rounded(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

static size_t state_size(const shoali_world *world)
{
    return rounded(sizeof(machine)) + rounded(shoali_finale_bytes(world)) +
           world->workers * (sizeof(uint64_t) + sizeof(uint32_t));
}

static uint32_t slots(const shoali_world *world)
{
    (void)world;
    return SLOTS;
}

static void start(machine *m, const shoali_world *world, shoali_actions *actions)
{
    uint8_t *at = (uint8_t *)m + rounded(sizeof *m);
    m->world = world;
    m->iteration = world->iteration;
    shoali_finale_start(&m->finale, world, FINALE_SLOT, at);
    m->through = (uint64_t *)(void *)(at + rounded(shoali_finale_bytes(world)));
    m->order = (uint32_t *)(void *)(m->through + world->workers);
    for (uint32_t i = 0; i < world->workers; i++)
        m->through[i] = UINT64_MAX;
    if (world->servers == 0 && world->workers <= SHOALI_FINALE_WORKERS)
        return;
    m->over = true;
    shoali_act_fail(actions, SHOAL_EINVAL, -1,
                    "noloco has no use for %u dedicated servers, and room for %d workers",
                    world->servers, SHOALI_FINALE_WORKERS);
}

static shoal_status on_event(void *state, const shoali_event *event, shoali_actions *actions)
{
    machine *m = state;
    uint32_t gone;
    if (event->kind == SHOALI_EV_START) {
        start(m, event->world, actions);
        return SHOAL_OK;
    }
    if (m->over)
        return SHOAL_OK;
    shoali_finale_news news = SHOALI_NOT_MINE;
    if (event->kind != SHOALI_EV_FINISH)
        news = shoali_finale_event(&m->finale, event, &gone, actions);
    if (news == SHOALI_NOT_MINE)
        own_event(m, event, actions);
    else if (m->leaving)
        go_stop(m, actions);
    else if (news == SHOALI_SOMEBODY_LEFT)
        look_at_partner(m, actions);
    return SHOAL_OK;
}

static bool carries(const shoali_world *world, uint32_t *slot_out)
{
    *slot_out = MOMENTUM - SHOALI_SLOT;
    return ((const params *)world->params)->momentum > 0;
}

static uint32_t max_staleness(const void *any)
{
    return (uint32_t)((const params *)any)->every;
}

const shoali_sync_row shoali_sync_noloco = {
    .name = "noloco",
    .paper = "Kolehmainen et al., arXiv 2506.10911; the outer step as in their code; no pipeline "
             "stages, so no random routing; gasloc: Cagnasso et al., arXiv 2606.11081",
    .traits = SHOALI_SYNC_SURVIVES | SHOALI_SYNC_MODELS,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(params)},
    .state_size = state_size,
    .slots = slots,
    .carries = carries,
    .max_staleness = max_staleness,
    .on_event = on_event,
};
