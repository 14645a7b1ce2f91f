/* SPDX-License-Identifier: Apache-2.0 */
/* The lowest live worker leads. States ("." changes nothing):
 *
 *                RUNNING            WAITING (asked)        AVERAGING (open)          OVER
 *   FINISH       tell all, WAITING  .                      .                         .
 *   FINISHED p   book; the leader, once all are in: ATTEMPT to all
 *   ATTEMPT      .                  copy, OP -> AVERAGING  next, after this one      .
 *   ADOPT        .                  keep the sum, REPORT   .                         .
 *   OP_DONE      .                  .                      REPORT to the leader      .
 *   REPORT p ok  .                  .                      leader, all in: COMMIT to all
 *   REPORT p bad .                  .                      leader, all in: next ATTEMPT
 *   COMMIT       .                  COMMIT to all, PARAM = mean, GO -> OVER          .
 *   p is gone    book; the leader goes on without it: ATTEMPT or ADOPT
 *   leader gone  .                  HELLO to the next one, which calls once all have said it
 *   GOODBYE p    as if p were lost
 *   WITHOUT      FAIL: the leader has lost this worker, and goes on without it
 *   MISSES p q   the leader, once all are in: where q misses p, too, the higher one is left out
 *   CUT          FAIL: losses have cut the graph, and whoever notices it tells all, because its own
 *                leaving would make the rest look whole
 *
 * Two that live never end with two means, whatever links break:
 *   - A leader calls with a quorum (member/quorum.h) of those whom it reaches, or waits for proof
 *     that the others are dead, or their goodbyes, and ends as one of a minority if none come.
 *   - It commits when every worker of the attempt has reported its sum as complete. Where one of
 *     them is lost before, there is another attempt.
 *   - Who has lost a leader says HELLO to the next, with the attempt whose sum it has, and reports
 *     nothing to the lost one any more. That next leader is in every attempt that those who say
 *     HELLO to it have joined, as they tell the others that these are left out (WITHOUT). So if
 *     one of those of its own last attempt whom it reaches has not got that sum, nobody has
 *     committed it, and a new one is made. Else somebody may have: the sum is kept, in an attempt
 *     of its own (ADOPT), so that whoever leads after that finds it again.
 *   - Any two quorums have a worker in common, but for the dead. Numbers of attempts carry their
 *     leader, and grow.
 * The dead may have taken another mean where they are all who knew of it.
 *
 * Two others than the leader that have lost each other would make every attempt fail, so one of
 * them is left out; while only one of them has noticed, the leader waits. Who hears COMMIT of a sum
 * that broke on its side has nothing to take, and fails. */
#include "sync/finale.h"

#include <string.h>

#include "member/quorum.h"

enum {
    FINISHED = SHOALI_FINALE_FIRST,
    ATTEMPT,
    REPORT_GOOD,
    REPORT_BAD,
    COMMIT,
    GOODBYE,
    HELLO,
    CUT,
    WITHOUT,
    MISSES,
    ADOPT
};
enum { HEAD_BYTES = 9, LEADER_SHIFT = 40, WORKERS_MAX = SHOALI_FINALE_WORKERS, CALLS_MAX = 1000 };
enum { WAIT_US = 10 * 1000 * 1000 }; /* without a quorum; comm mostly ends it before */
enum { FORWARDS = 64 }; /* who is told of a commit: all, and in large jobs those who lead next */

static size_t flag_words(const shoali_world *world)
{
    return (world->workers + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

size_t shoali_finale_bytes(const shoali_world *world)
{
    return (flag_words(world) + world->workers) * sizeof(uint64_t) +
           2 * world->workers * sizeof(uint32_t);
}

void shoali_finale_start(shoali_finale *finale, const shoali_world *world, uint32_t slot,
                         void *memory)
{
    uint64_t *has = (uint64_t *)memory + flag_words(world);
    uint32_t *members = (uint32_t *)(void *)(has + world->workers);
    *finale = (shoali_finale){.world = world,
                              .peers = memory,
                              .has = has,
                              .members = members,
                              .misses = members + world->workers,
                              .slot = slot,
                              .source = SHOALI_PARAM,
                              .follows = UINT32_MAX};
}

/* ---------------------------------------------------------------- who is there */

bool shoali_finale_is_gone(const shoali_finale *finale, uint32_t endpoint)
{
    return endpoint < finale->world->workers && (finale->peers[endpoint] & SHOALI_PEER_GONE) != 0;
}

/* All that are not gone have the flag. */
static bool all_have(const shoali_finale *f, uint8_t flag)
{
    for (uint32_t i = 0; i < f->world->workers; i++)
        if ((f->peers[i] & (SHOALI_PEER_GONE | flag)) == 0)
            return false;
    return true;
}

bool shoali_finale_all_finished(const shoali_finale *finale)
{
    return all_have(finale, SHOALI_PEER_FINISHED);
}

static uint32_t leader_of(const shoali_finale *f)
{
    uint32_t first = 0;
    while (shoali_finale_is_gone(f, first))
        first++;
    return first;
}

static bool leads(const shoali_finale *f)
{
    return leader_of(f) == f->world->me;
}

static shoali_vote vote_of(uint8_t peer)
{
    return (peer & SHOALI_PEER_GONE) == 0   ? SHOALI_VOTE_HERE
           : (peer & SHOALI_PEER_AWAY) != 0 ? SHOALI_VOTE_AWAY
           : (peer & SHOALI_PEER_DEAD) != 0 ? SHOALI_VOTE_DYING
                                            : SHOALI_VOTE_GONE;
}

/* Whether those that are not gone may decide for all. */
static bool decides(const shoali_finale *f)
{
    shoali_tally tally = {0};
    for (uint32_t i = 0; i < f->world->workers; i++)
        shoali_tally_add(&tally, vote_of(f->peers[i]));
    return shoali_tally_decides(&tally);
}

/* The last attempt whose sum is complete here and that nothing has followed; 0: none. */
static uint64_t has_sum_of(const shoali_finale *f)
{
    return f->whole && !f->open && f->attempt == f->next ? f->attempt : 0;
}

/* ---------------------------------------------------------------- messages */

static size_t bitmap_bytes(const shoali_finale *f)
{
    return (f->world->workers + 7) / 8;
}

static void say(uint32_t peer, uint8_t kind, uint64_t value, shoali_actions *actions)
{
    uint8_t bytes[HEAD_BYTES];
    bytes[0] = kind;
    memcpy(bytes + 1, &value, sizeof value);
    shoali_act_send(actions, peer, bytes, sizeof bytes);
}

static void say_attempt(const shoali_finale *f, uint8_t kind, shoali_actions *actions)
{
    uint8_t bytes[HEAD_BYTES + (WORKERS_MAX + 7) / 8] = {kind};
    memcpy(bytes + 1, &f->next, sizeof f->next);
    for (uint32_t i = 0; i < f->member_count; i++)
        bytes[HEAD_BYTES + f->members[i] / 8] |= (uint8_t)(1u << (f->members[i] % 8));
    shoali_act_send(actions, SHOALI_EVERYBODY, bytes, HEAD_BYTES + bitmap_bytes(f));
}

void shoali_finale_fail(shoali_finale *f, shoal_status status, const char *text,
                        shoali_actions *actions)
{
    if (!f->over)
        say(SHOALI_EVERYBODY, GOODBYE, 0, actions);
    f->over = true;
    shoali_act_fail(actions, status, -1, "%s", text);
}

void shoali_finale_cut(shoali_finale *f, shoal_status status, const char *text,
                       shoali_actions *actions)
{
    if (!f->over)
        say(SHOALI_EVERYBODY, CUT, 0, actions);
    f->over = true;
    shoali_act_fail(actions, status, -1, "%s", text);
}

static void on_cut(shoali_finale *f, uint32_t peer, shoali_actions *actions)
{
    if (f->over)
        return;
    f->over = true;
    shoali_act_fail(actions, SHOAL_EPEER, -1,
                    "worker %u has found that the workers that are lost have cut the graph", peer);
}

/* This worker alone is out: the others go on. */
static void stay_behind(shoali_finale *f, int32_t peer, const char *text, shoali_actions *actions)
{
    if (f->over)
        return;
    f->over = true;
    if (f->open)
        shoali_act_cancel(actions, SHOALI_FINALE_OP | f->attempt);
    shoali_act_fail(actions, SHOAL_EEPOCH, peer, "%s", text);
}

/* ---------------------------------------------------------------- attempts */

static void run_attempt(shoali_finale *f, shoali_actions *actions)
{
    const shoali_mix_term param = {f->source, 1};
    uint32_t slot = SHOALI_SLOT + f->slot;
    f->attempt = f->sum = f->next;
    f->summands = f->member_count;
    f->open = true;
    f->whole = false;
    shoali_act_mix(actions, slot, 0, f->world->count, &param, 1);
    shoali_act_op(actions, &(shoali_sync_op){.id = SHOALI_FINALE_OP | f->attempt,
                                             .kind = SHOALI_SYNC_ALL_REDUCE,
                                             .members = f->members,
                                             .member_count = f->member_count,
                                             .contributors = f->member_count,
                                             .tensor = slot,
                                             .count = f->world->count});
}

static void commit(shoali_finale *f, shoali_actions *actions)
{
    if (!f->whole) {
        stay_behind(f, -1, "the others have taken the final mean, whose sum broke at this worker",
                    actions);
        return;
    }
    const shoali_mix_term mean = {SHOALI_SLOT + f->slot, 1.0f / (float)f->summands};
    uint32_t told = 0, most = leads(f) ? UINT32_MAX : FORWARDS;
    for (uint32_t i = 0; i < f->world->workers && told < most; i++) {
        if (i == f->world->me || shoali_finale_is_gone(f, i))
            continue;
        say(i, COMMIT, f->attempt, actions);
        told++;
    }
    shoali_act_mix(actions, SHOALI_PARAM, 0, f->world->count, &mean, 1);
    f->over = true;
    f->asked = false;
    shoali_act_go(actions, &(shoal_verdict){.iteration = f->iteration});
}

static void next_call(shoali_finale *f)
{
    f->calls++;
    f->next = (uint64_t)f->world->me << LEADER_SHIFT | f->calls;
    for (uint32_t i = 0; i < f->world->workers; i++) {
        f->peers[i] &= (uint8_t) ~(SHOALI_PEER_REPORTED | SHOALI_PEER_FAILED);
        f->misses[i] = UINT32_MAX;
    }
}

static void call_attempt(shoali_finale *f, shoali_actions *actions)
{
    next_call(f);
    f->member_count = 0;
    for (uint32_t i = 0; i < f->world->workers; i++)
        if (!shoali_finale_is_gone(f, i))
            f->members[f->member_count++] = i;
    say_attempt(f, ATTEMPT, actions);
    run_attempt(f, actions);
}

/* Of those that are in the last attempt, all whom this worker reaches have its sum: somebody may
 * have committed it. */
static bool may_be_taken(const shoali_finale *f)
{
    const uint64_t mine = has_sum_of(f);
    for (uint32_t i = 0; i < f->member_count; i++)
        if (f->members[i] != f->world->me && !shoali_finale_is_gone(f, f->members[i]) &&
            f->has[f->members[i]] != mine)
            return false;
    return mine != 0;
}

/* Those who join an attempt tell whom it leaves out. */
static void tell_others(const shoali_finale *f, const uint8_t *bitmap, shoali_actions *actions)
{
    const uint32_t leader = (uint32_t)(f->next >> LEADER_SHIFT);
    for (uint32_t i = 0; i < f->world->workers; i++)
        if ((bitmap[i / 8] >> (i % 8) & 1) == 0 && !shoali_finale_is_gone(f, i))
            say(i, WITHOUT, leader, actions);
}

static void adopt(shoali_finale *f, shoali_actions *actions)
{
    uint8_t bitmap[(WORKERS_MAX + 7) / 8] = {0};
    uint32_t count = 0;
    next_call(f);
    for (uint32_t i = 0; i < f->member_count; i++)
        if (!shoali_finale_is_gone(f, f->members[i])) {
            f->members[count++] = f->members[i];
            bitmap[f->members[i] / 8] |= (uint8_t)(1u << (f->members[i] % 8));
        }
    f->member_count = count;
    f->attempt = f->next;
    f->peers[f->world->me] |= SHOALI_PEER_REPORTED;
    tell_others(f, bitmap, actions);
    say_attempt(f, ADOPT, actions);
    if (count == 1)
        commit(f, actions);
}

/* Two that have lost each other, and have both said so of this attempt. As each names the highest
 * that it misses, the highest of all that miss anybody is always one of such a pair. True: somebody
 * is left out. */
static bool leave_out(shoali_finale *f, shoali_actions *actions)
{
    bool some = false;
    for (uint32_t high = f->world->workers - 1; high > 0; high--) {
        const uint32_t low = f->misses[high];
        if (shoali_finale_is_gone(f, high) || low >= high || shoali_finale_is_gone(f, low) ||
            f->misses[low] != high)
            continue;
        say(high, WITHOUT, low, actions);
        f->peers[high] |= SHOALI_PEER_GONE | SHOALI_PEER_AWAY;
        some = true;
    }
    return some;
}

/* Somebody misses one that is there, as far as this worker knows: that one has not noticed yet, or
 * is dead, and there will be news of it. */
static bool anybody_misses(const shoali_finale *f)
{
    for (uint32_t i = 0; i < f->world->workers; i++)
        if (!shoali_finale_is_gone(f, i) && f->misses[i] < f->world->workers &&
            !shoali_finale_is_gone(f, f->misses[i]))
            return true;
    return false;
}

/* Proof of a death may come, or goodbyes of those that are left out. */
static void wait_for_quorum(shoali_finale *f, shoali_actions *actions)
{
    if (f->wait_us == 0)
        f->wait_us = f->now_us + WAIT_US;
    if (!f->timer)
        shoali_act_timer(actions, SHOALI_FINALE_OP, f->wait_us);
    f->timer = true;
}

static void again(shoali_finale *f, bool keep_sum, shoali_actions *actions)
{
    if (!decides(f)) {
        wait_for_quorum(f, actions);
        return;
    }
    f->wait_us = 0;
    if (f->calls >= CALLS_MAX)
        shoali_finale_fail(f, SHOAL_EPEER, "the final average does not come together", actions);
    else if (keep_sum)
        adopt(f, actions);
    else
        call_attempt(f, actions);
}

static void on_timer(shoali_finale *f, shoali_actions *actions)
{
    f->timer = false;
    if (f->asked && !f->open && leads(f) && !decides(f) && f->wait_us != 0 &&
        f->now_us >= f->wait_us)
        stay_behind(f, -1,
                    "this worker reaches only a minority of those that may be alive: the others "
                    "may have taken the final mean without it",
                    actions);
}

/* The leader, of its own attempt. */
static void judge(shoali_finale *f, shoali_actions *actions)
{
    bool changed = false, failed = false;
    for (uint32_t i = 0; i < f->member_count; i++) {
        const uint8_t peer = f->peers[f->members[i]];
        if ((peer & (SHOALI_PEER_GONE | SHOALI_PEER_REPORTED)) == 0)
            return;
        changed = changed || (peer & SHOALI_PEER_GONE) != 0;
        failed = failed || (peer & SHOALI_PEER_FAILED) != 0;
    }
    if (!changed && !failed) {
        commit(f, actions);
        return;
    }
    changed = leave_out(f, actions) || changed;
    if (changed || !anybody_misses(f))
        again(f, f->sum != f->attempt, actions);
}

/* What the leader does whenever it learns something. */
static void lead(shoali_finale *f, shoali_actions *actions)
{
    if (f->over || !f->asked || f->open || !leads(f) || !shoali_finale_all_finished(f))
        return;
    if (f->calls > 0) {
        judge(f, actions);
        return;
    }
    f->peers[f->world->me] |= SHOALI_PEER_HELLO;
    if (f->world->me == 0 || all_have(f, SHOALI_PEER_HELLO))
        again(f, may_be_taken(f), actions);
}

/* Tell a leader after the first that this worker is there, and bound to what it says. */
static void follow(shoali_finale *f, shoali_actions *actions)
{
    uint32_t leader = leader_of(f);
    if (f->over || !f->asked || leader == 0 || leader == f->follows)
        return;
    f->follows = leader;
    if (leader != f->world->me)
        say(leader, HELLO, has_sum_of(f), actions);
}

/* Of the attempt whose sum lies in the slot, from whoever knows. */
static void on_commit(shoali_finale *f, shoali_actions *actions)
{
    if (f->asked && !f->open)
        commit(f, actions);
}

/* To the leader of the attempt: the highest of it that this worker has lost. */
static void say_missed(const shoali_finale *f, shoali_actions *actions)
{
    for (uint32_t i = f->member_count; i > 0; i--)
        if (shoali_finale_is_gone(f, f->members[i - 1])) {
            say((uint32_t)(f->attempt >> LEADER_SHIFT), MISSES, f->members[i - 1], actions);
            return;
        }
}

static void on_op_done(shoali_finale *f, const shoali_event *event, shoali_actions *actions)
{
    bool ok = event->op.status == SHOAL_OK;
    uint32_t leader = (uint32_t)(f->attempt >> LEADER_SHIFT);
    f->open = false;
    f->whole = ok;
    if (f->over)
        return;
    if (event->op.status == SHOAL_ENOTFINITE) {
        shoali_finale_fail(f, SHOAL_ENOTFINITE, event->op.text, actions);
        return;
    }
    if (leader == f->world->me) {
        f->peers[leader] |= ok ? SHOALI_PEER_REPORTED : SHOALI_PEER_REPORTED | SHOALI_PEER_FAILED;
    } else if (!shoali_finale_is_gone(f, leader)) {
        say_missed(f, actions);
        say(leader, ok ? REPORT_GOOD : REPORT_BAD, f->attempt, actions);
    }
    if (f->next != f->attempt && !leads(f))
        run_attempt(f, actions);
}

static void on_attempt(shoali_finale *f, const shoali_event *event, shoali_actions *actions)
{
    const uint8_t *bitmap = event->message.bytes + HEAD_BYTES;
    const bool adopts = event->message.bytes[0] == ADOPT;
    uint64_t attempt;
    bool me = (bitmap[f->world->me / 8] >> (f->world->me % 8) & 1) != 0;
    memcpy(&attempt, event->message.bytes + 1, sizeof attempt);
    if (attempt >> LEADER_SHIFT != event->message.peer || attempt <= f->next || !f->asked || !me ||
        f->over || (adopts && has_sum_of(f) == 0))
        return;
    f->member_count = 0;
    for (uint32_t i = 0; i < f->world->workers; i++)
        if ((bitmap[i / 8] >> (i % 8) & 1) != 0)
            f->members[f->member_count++] = i;
    f->next = attempt;
    tell_others(f, bitmap, actions);
    if (adopts) {
        f->attempt = attempt;
        say(event->message.peer, REPORT_GOOD, attempt, actions);
    } else if (!f->open) {
        run_attempt(f, actions);
    }
}

/* False: that was known. */
static bool on_gone(shoali_finale *f, uint32_t peer, shoali_down how)
{
    const bool news = !shoali_finale_is_gone(f, peer);
    if (!news && (f->peers[peer] & SHOALI_PEER_AWAY) == 0)
        return false;
    f->peers[peer] &= (uint8_t)~SHOALI_PEER_AWAY;
    f->peers[peer] |= (uint8_t)(how == SHOALI_DOWN_AWAY   ? SHOALI_PEER_GONE | SHOALI_PEER_AWAY
                                : how == SHOALI_DOWN_DEAD ? SHOALI_PEER_GONE | SHOALI_PEER_DEAD
                                                          : SHOALI_PEER_GONE);
    return news;
}

static bool on_down(shoali_finale *f, const shoali_event *event, shoali_actions *actions)
{
    const bool news = on_gone(f, event->down.peer, event->down.how);
    const bool reported = f->attempt != 0 && f->attempt == f->next && !f->open;
    if (news && reported && !f->over && !leads(f))
        say_missed(f, actions);
    return news;
}

static void on_hello(shoali_finale *f, uint32_t peer, uint64_t has)
{
    f->peers[peer] |= SHOALI_PEER_HELLO;
    f->has[peer] = has;
}

/* True: the peer is gone now. */
static bool on_message(shoali_finale *f, const shoali_event *event, shoali_actions *actions)
{
    uint32_t peer = event->message.peer;
    size_t len = event->message.len_bytes;
    uint8_t kind = event->message.bytes[0];
    uint64_t value;
    if (peer >= f->world->workers ||
        len != HEAD_BYTES + (kind == ATTEMPT || kind == ADOPT ? bitmap_bytes(f) : 0))
        return false;
    memcpy(&value, event->message.bytes + 1, sizeof value);
    bool current = value == f->attempt && f->attempt == f->next;
    if (kind == FINISHED)
        f->peers[peer] |= SHOALI_PEER_FINISHED;
    else if (kind == ATTEMPT || kind == ADOPT)
        on_attempt(f, event, actions);
    else if (kind == REPORT_GOOD && current)
        f->peers[peer] |= SHOALI_PEER_REPORTED;
    else if (kind == REPORT_BAD && current)
        f->peers[peer] |= SHOALI_PEER_REPORTED | SHOALI_PEER_FAILED;
    else if (kind == COMMIT && (current || (value == f->sum && value != 0)))
        on_commit(f, actions);
    else if (kind == HELLO)
        on_hello(f, peer, value);
    else if (kind == MISSES && value < f->world->workers)
        f->misses[peer] = (uint32_t)value;
    else if (kind == WITHOUT)
        stay_behind(f, (int32_t)peer,
                    "the others take the final mean without this worker: a connection is lost",
                    actions);
    if (kind == CUT)
        on_cut(f, peer, actions);
    return kind == GOODBYE && on_gone(f, peer, SHOALI_DOWN_LEFT);
}

/* ---------------------------------------------------------------- the machine's side */

shoali_finale_news shoali_finale_event(shoali_finale *f, const shoali_event *event,
                                       uint32_t *peer_out, shoali_actions *actions)
{
    bool left = false;
    f->now_us = event->now_us > f->now_us ? event->now_us : f->now_us;
    if (event->kind == SHOALI_EV_FINISH) {
        f->asked = !f->over;
        f->peers[f->world->me] |= SHOALI_PEER_FINISHED;
        say(SHOALI_EVERYBODY, FINISHED, 0, actions);
    } else if (event->kind == SHOALI_EV_OP_DONE && (event->op.id & SHOALI_FINALE_OP) != 0) {
        on_op_done(f, event, actions);
    } else if (event->kind == SHOALI_EV_MESSAGE && event->message.len_bytes > 0 &&
               event->message.bytes[0] >= SHOALI_FINALE_FIRST) {
        left = on_message(f, event, actions);
        *peer_out = event->message.peer;
    } else if (event->kind == SHOALI_EV_PEER_DOWN && event->down.peer < f->world->workers) {
        *peer_out = event->down.peer;
        left = on_down(f, event, actions);
    } else if (event->kind == SHOALI_EV_TIMER && event->timer.id == SHOALI_FINALE_OP) {
        on_timer(f, actions);
    } else {
        return SHOALI_NOT_MINE;
    }
    follow(f, actions);
    lead(f, actions);
    return left ? SHOALI_SOMEBODY_LEFT : SHOALI_TAKEN;
}

bool shoali_finale_leave(shoali_finale *f, shoali_actions *actions)
{
    if (!f->over)
        say(SHOALI_EVERYBODY, GOODBYE, 0, actions);
    f->over = true;
    if (f->open)
        shoali_act_cancel(actions, SHOALI_FINALE_OP | f->attempt);
    return f->open;
}
