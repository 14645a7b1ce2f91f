/* SPDX-License-Identifier: Apache-2.0 */
#include "support/finale_world.h"

#include <string.h>

#include "member/quorum.h"
#include "support/check.h"

enum { STEPS = 40000 };

static uint32_t below(finale_world *w, uint32_t bound)
{
    return (uint32_t)(shoali_rng_next(&w->rng) % bound);
}

/* ---------------------------------------------------------------- what the machines ask for */

static void post(finale_world *w, uint32_t from, uint32_t to, const finale_letter *l)
{
    assert_true(w->letters[from][to] < FINALE_QUEUE);
    w->mail[from][to][w->letters[from][to]++] = *l;
}

static void send(finale_world *w, uint32_t from, const shoali_action *action)
{
    finale_letter l = {.len_bytes = action->send.len_bytes};
    assert_true(l.len_bytes <= FINALE_BYTES);
    memcpy(l.bytes, action->send.bytes, l.len_bytes);
    for (uint32_t to = 0; to < w->size; to++)
        if (to != from && !w->mute[from][to] && !w->nodes[from].peers[to].closed &&
            (action->send.peer == SHOALI_EVERYBODY || action->send.peer == to))
            post(w, from, to, &l);
}

static finale_sum *sum_of(finale_world *w, uint64_t op)
{
    uint32_t i = 0;
    while (i < FINALE_SUMS && w->sums[i].op != op && w->sums[i].op != 0)
        i++;
    assert_true(i < FINALE_SUMS); /* or it comes to no end */
    w->sums[i].op = op;
    return &w->sums[i];
}

static void start_op(finale_world *w, uint32_t me, const shoali_sync_op *op)
{
    finale_node *n = &w->nodes[me];
    assert_int_equal(n->op, 0);
    n->op = op->id;
    sum_of(w, op->id)->begun |= 1u << me;
    n->members = 0;
    for (uint32_t i = 0; i < op->member_count; i++)
        n->members |= 1u << op->members[i];
}

static void take_mean(finale_world *w, finale_node *n, const shoali_action *action)
{
    n->param = n->slot;
    if (action->mix.terms[0].weight != 1.0f / (float)__builtin_popcount(sum_of(w, n->slot)->begun))
        fail_msg("the weight of a sum of others, %g", (double)action->mix.terms[0].weight);
}

static void carry_out(finale_world *w, uint32_t me)
{
    finale_node *n = &w->nodes[me];
    const shoali_action *a;
    for (; (a = shoali_actions_front(&n->actions)) != NULL; shoali_actions_pop(&n->actions)) {
        if (a->kind == SHOALI_ACT_SEND)
            send(w, me, a);
        else if (a->kind == SHOALI_ACT_OP)
            start_op(w, me, &a->op);
        else if (a->kind == SHOALI_ACT_MIX && a->mix.dst == SHOALI_PARAM)
            take_mean(w, n, a);
        else if (a->kind == SHOALI_ACT_MIX)
            n->slot = 0;
        else if (a->kind == SHOALI_ACT_TIMER)
            n->timer_us = a->timer.at_us;
        else if (a->kind == SHOALI_ACT_GO)
            n->through = ++w->committed > 0;
        else if (a->kind == SHOALI_ACT_FAIL && a->fail.status == SHOAL_EEPOCH)
            n->behind = true;
        else if (a->kind != SHOALI_ACT_CANCEL)
            fail_msg("worker %u: action %d", me, (int)a->kind);
    }
}

static void feed(finale_world *w, uint32_t me, const shoali_event *event)
{
    uint32_t gone;
    assert_true(shoali_finale_event(&w->nodes[me].finale, event, &gone, &w->nodes[me].actions) !=
                SHOALI_NOT_MINE);
    carry_out(w, me);
}

/* ---------------------------------------------------------------- operations */

static bool misses_a_member(const finale_world *w, const finale_node *n)
{
    for (uint32_t i = 0; i < w->size; i++)
        if ((n->members >> i & 1) != 0 && n->peers[i].closed)
            return true;
    return false;
}

static bool end_op(finale_world *w, uint32_t me)
{
    finale_node *n = &w->nodes[me];
    shoali_event event = {.kind = SHOALI_EV_OP_DONE, .op = {n->op, SHOAL_OK, ""}};
    if (n->op == 0)
        return false;
    finale_sum *all = sum_of(w, n->op);
    const bool broken = misses_a_member(w, n) || (all->broke & n->members) != 0;
    const bool all_in = (all->begun & n->members) == n->members;
    if (!broken && !all_in)
        return false;
    if (broken && (!all_in || below(w, 2) == 0)) {
        event.op.status = SHOAL_EPEER;
        all->broke |= 1u << me; /* and all hear so */
    } else {
        n->slot = n->op;
    }
    n->op = 0;
    feed(w, me, &event);
    return true;
}

/* ---------------------------------------------------------------- letters, losses */

/* `me` loses the other, or learns more of how it went. */
static void hear_down(finale_world *w, uint32_t me, uint32_t other, shoali_down how)
{
    finale_peer *peer = &w->nodes[me].peers[other];
    peer->how = how;
    if (!peer->closed) {
        peer->closed = true;
        if (!w->mute[me][other])
            post(w, me, other, &(finale_letter){.down = true, .how = SHOALI_DOWN_AWAY});
        w->mute[me][other] = true;
    }
    feed(w, me, &(shoali_event){.kind = SHOALI_EV_PEER_DOWN, .down = {other, "gone", how}});
}

static bool deliver(finale_world *w, uint32_t from, uint32_t to)
{
    finale_letter l = w->mail[from][to][0];
    if (w->letters[from][to] == 0 || (w->slow[from][to] && below(w, 50) > 0))
        return false;
    w->letters[from][to]--;
    memmove(w->mail[from][to], w->mail[from][to] + 1, w->letters[from][to] * sizeof l);
    if (w->nodes[to].peers[from].closed)
        return true;
    if (l.down)
        hear_down(w, to, from, l.how);
    else
        feed(w, to,
             &(shoali_event){.kind = SHOALI_EV_MESSAGE, .message = {from, l.bytes, l.len_bytes}});
    return true;
}

/* Silence for a peer timeout, where nothing comes that would say so before. */
static bool notice(finale_world *w, uint32_t me, uint32_t other)
{
    if (other == me || w->nodes[me].peers[other].closed || !w->mute[other][me] ||
        (w->letters[other][me] > 0 && !w->slow[other][me]))
        return false;
    hear_down(w, me, other, SHOALI_DOWN_AWAY);
    return true;
}

/* The kernel or the launcher has seen the end of one that failed or was killed. */
static bool is_provable(const finale_world *w, uint32_t me, uint32_t other)
{
    const finale_node *n = &w->nodes[other];
    const finale_peer *peer = &w->nodes[me].peers[other];
    return n->away && (n->dead || !n->through) && peer->closed && peer->fresh &&
           peer->how == SHOALI_DOWN_AWAY;
}

static bool prove(finale_world *w, uint32_t me, uint32_t other)
{
    if (!is_provable(w, me, other))
        return false;
    hear_down(w, me, other, SHOALI_DOWN_DEAD);
    return true;
}

/* What is on its way may be lost, from some letter on. */
static void lose_link(finale_world *w, uint32_t from, uint32_t to, bool told)
{
    if (w->mute[from][to])
        return;
    if (w->letters[from][to] > 0)
        w->letters[from][to] = below(w, w->letters[from][to] + 1);
    if (told)
        post(w, from, to, &(finale_letter){.down = true, .how = SHOALI_DOWN_AWAY});
    w->mute[from][to] = true;
}

static bool break_link(finale_world *w, uint32_t a, uint32_t b, bool told, bool one_way)
{
    if (a == b || w->nodes[a].away || w->nodes[b].away || w->mute[a][b])
        return false;
    w->breaks++;
    lose_link(w, a, b, told);
    if (!one_way)
        lose_link(w, b, a, told);
    return true;
}

static void part(finale_world *w, uint32_t left, const finale_plan *plan)
{
    const uint32_t bridge = below(w, 4) == 0 ? 1u << below(w, w->size) : 0;
    const bool told = plan->resets_only || below(w, 2) == 0, one_way = !told && below(w, 3) == 0;
    for (uint32_t a = 0; a < w->size; a++)
        for (uint32_t b = 0; b < w->size; b++)
            if ((left & ~bridge) >> a & ~(left | bridge) >> b & 1)
                (void)break_link(w, a, b, told, one_way);
}

typedef enum end { LEAVES, IS_EXPELLED, DIES } end;

/* Some of what the dead have said has not left; who is expelled says no goodbye. */
static void go_away(finale_world *w, uint32_t me, end how, bool no_proof)
{
    for (uint32_t to = 0; to < w->size; to++) {
        if (to == me)
            continue;
        w->nodes[to].peers[me].fresh = !no_proof && (!w->mute[me][to] || below(w, 4) == 0);
        if (w->mute[me][to])
            continue;
        if (how == DIES && w->letters[me][to] > 0)
            w->letters[me][to] = below(w, w->letters[me][to] + 1);
        post(w, me, to,
             &(finale_letter){.down = true,
                              .how = how == LEAVES ? SHOALI_DOWN_LEFT : SHOALI_DOWN_AWAY});
        w->mute[me][to] = true;
    }
    w->nodes[me].away = true;
    w->nodes[me].dead = how == DIES;
}

static bool has_news_to_come(const finale_world *w, uint32_t me)
{
    for (uint32_t i = 0; i < w->size; i++)
        if (is_provable(w, me, i))
            return true;
    return false;
}

/* As alive/view.c counts. */
static bool is_minority(const finale_world *w, uint32_t me)
{
    shoali_tally tally = {0};
    for (uint32_t i = 0; i < w->size; i++) {
        const finale_peer *peer = &w->nodes[me].peers[i];
        shoali_tally_add(&tally, !peer->closed                   ? SHOALI_VOTE_HERE
                                 : peer->how == SHOALI_DOWN_AWAY ? SHOALI_VOTE_AWAY
                                                                 : SHOALI_VOTE_GONE);
    }
    return !shoali_tally_decides(&tally);
}

/* It ends with code 6 after a while in which nothing else has happened. */
static bool expel(finale_world *w, uint32_t me, bool no_proof)
{
    finale_node *n = &w->nodes[me];
    if (n->through || n->behind || has_news_to_come(w, me))
        return false;
    if (is_minority(w, me)) {
        n->behind = true;
        go_away(w, me, IS_EXPELLED, no_proof);
    } else if (n->timer_us > 0) {
        const uint64_t now_us = n->timer_us;
        n->timer_us = 0;
        feed(w, me,
             &(shoali_event){
                 .kind = SHOALI_EV_TIMER, .now_us = now_us, .timer = {SHOALI_FINALE_OP}});
    }
    return true;
}

/* ---------------------------------------------------------------- a life */

typedef struct trouble {
    uint32_t deaths, breaks, partitions;
} trouble;

static bool hurt(finale_world *w, uint32_t me, trouble *left, const finale_plan *plan)
{
    const uint32_t other = below(w, w->size), what = below(w, 4);
    const bool told = plan->resets_only || below(w, 2) == 0;
    if (what == 0 && left->deaths > 0) {
        left->deaths--;
        w->deaths++;
        go_away(w, me, DIES, plan->no_proof);
    } else if (what == 1 && left->breaks > 0 &&
               break_link(w, me, other, told, !told && below(w, 2) == 0)) {
        left->breaks--;
    } else if (what == 2 && left->partitions > 0) {
        left->partitions--;
        part(w, 1 + below(w, (1u << w->size) - 2), plan);
    } else if (what == 3 && left->breaks + left->partitions > 0) {
        w->slow[me][other] = !w->slow[me][other] && !plan->resets_only;
    } else {
        return false;
    }
    return true;
}

/* One random thing that can happen; false: it could not. */
static bool something(finale_world *w, trouble *left, const finale_plan *plan)
{
    const uint32_t me = below(w, w->size), other = below(w, w->size), what = below(w, 100);
    finale_node *n = &w->nodes[me];
    if (n->away)
        return false;
    if (!n->asked) {
        n->asked = true;
        feed(w, me, &(shoali_event){.kind = SHOALI_EV_FINISH});
        return true;
    }
    if (what < 3)
        return hurt(w, me, left, plan);
    if (what < 9) {
        if (n->through || n->behind)
            go_away(w, me, LEAVES, plan->no_proof);
        return n->away;
    }
    if (what < 10)
        return expel(w, me, plan->no_proof);
    if (what < 15)
        return notice(w, me, other) || prove(w, me, other);
    return what < 45 ? end_op(w, me) : deliver(w, other, me);
}

static bool all_have_ended(const finale_world *w)
{
    for (uint32_t i = 0; i < w->size; i++)
        if (!w->nodes[i].dead && !w->nodes[i].through && !w->nodes[i].behind)
            return false;
    return true;
}

/* What it has just said may be lost, but to some. */
static void strike(finale_world *w, const finale_plan *plan)
{
    uint32_t left = below(w, 1u << w->size) & below(w, 1u << w->size);
    for (uint32_t i = 0; i < w->size; i++)
        left |= (uint32_t)w->nodes[i].through << i;
    part(w, left, plan);
}

bool finale_live(finale_world *w, uint64_t seed, const finale_plan *plan)
{
    memset(w, 0, sizeof *w);
    w->rng = (shoali_rng){check_seed(), seed, 0};
    w->size = 2 + (uint32_t)(seed % (FINALE_MOST - 1));
    for (uint32_t i = 0; i < w->size; i++) {
        finale_node *n = &w->nodes[i];
        n->world = (shoali_world){.workers = w->size, .me = i, .count = 1};
        assert_true(shoali_finale_bytes(&n->world) <= sizeof n->memory);
        shoali_finale_start(&n->finale, &n->world, 0, n->memory);
    }
    const uint32_t mortal = w->size > plan->alive ? w->size - plan->alive : 0;
    trouble left = {below(w, mortal + 1), plan->breaks, plan->partitions};
    for (uint32_t step = 0; step < STEPS; step++) {
        const bool first = w->committed == 0;
        (void)something(w, &left, plan);
        if (plan->strikes && first && w->committed > 0)
            strike(w, plan);
        if (step % 16 == 0 && all_have_ended(w))
            return true;
        if (step == STEPS / 4) {
            left = (trouble){0};
            memset(w->slow, 0, sizeof w->slow);
        }
    }
    return all_have_ended(w);
}

bool finale_some_could(const finale_world *w)
{
    for (uint32_t set = 1; set < 1u << w->size; set++) {
        shoali_tally tally = {0};
        bool whole = true;
        for (uint32_t a = 0; a < w->size && whole; a++) {
            const bool in = (set >> a & 1) != 0;
            shoali_tally_add(&tally, in ? SHOALI_VOTE_HERE : SHOALI_VOTE_AWAY);
            for (uint32_t b = 0; b < w->size && in; b++)
                whole = whole && ((set >> b & 1) == 0 || a == b || !w->nodes[a].peers[b].closed);
        }
        if (whole && shoali_tally_decides(&tally))
            return true;
    }
    return false;
}

void finale_free(finale_world *w)
{
    for (uint32_t i = 0; i < w->size; i++)
        shoali_actions_fini(&w->nodes[i].actions);
}
