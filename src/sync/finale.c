/* SPDX-License-Identifier: Apache-2.0 */
/* The lowest live worker leads. States ("." changes nothing):
 *
 *                RUNNING            WAITING (asked)        AVERAGING (open)          OVER
 *   FINISH       tell all, WAITING  .                      .                         .
 *   FINISHED p   book; the leader, once all are in: ATTEMPT to all
 *   ATTEMPT      .                  copy, OP -> AVERAGING  next, after this one      .
 *   OP_DONE      .                  .                      REPORT to the leader      .
 *   REPORT p ok  .                  .                      leader, all in: COMMIT to all
 *   REPORT p bad .                  .                      leader, all in: next ATTEMPT
 *   COMMIT       .                  COMMIT to all, PARAM = mean, GO -> OVER          .
 *   p is gone    book; the leader goes on without it: ATTEMPT, or COMMIT
 *   leader gone  .                  HELLO to the next one, which calls once all have said it
 *   GOODBYE p    as if p were lost
 *   WITHOUT      FAIL: the leader has lost this worker, and goes on without it
 *   MISSES p q   the leader, once all are in: where q misses p, too, the higher one is left out
 *   CUT          FAIL: losses have cut the graph, and whoever notices it tells all, because its own
 *                leaving would make the rest look whole
 *
 * Nobody commits before the leader knows that the sum is complete everywhere, so a death in the
 * middle costs one more attempt, without the dead. If the leader dies while it commits,
 * everybody still has the sum: who has heard COMMIT says it on (to 64 at most), and the next
 * leader, which has to hear HELLO or COMMIT from all before it calls, commits as well. After its
 * HELLO a worker takes COMMIT from that leader only, as long as that one is there. So survivors
 * have one mean, unless the dead are all who knew of the COMMIT. Numbers of attempts carry their
 * leader, so those of two leaders differ.
 *
 * A link may break between two that live. Whom the leader has lost is in no attempt, and hears so
 * (WITHOUT) from those who join it: it would see them leave, and take a mean of its own. Two others
 * that have lost each other would make every attempt fail, so one of them is left out. Who hears
 * COMMIT of a sum that broke on its side has nothing to take, and fails. */
#include "sync/finale.h"

#include <string.h>

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
    MISSES
};
enum { HEAD_BYTES = 9, LEADER_SHIFT = 40, WORKERS_MAX = SHOALI_FINALE_WORKERS, CALLS_MAX = 1000 };
enum { FORWARDS = 64 }; /* who is told of a commit: all, and in large jobs those who lead next */

size_t shoali_finale_bytes(const shoali_world *world)
{
    size_t flags = (world->workers + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
    return flags + 2 * world->workers * sizeof(uint32_t);
}

void shoali_finale_start(shoali_finale *finale, const shoali_world *world, uint32_t slot,
                         void *memory)
{
    uint8_t *bytes = memory;
    size_t flags = shoali_finale_bytes(world) - 2 * world->workers * sizeof(uint32_t);
    uint32_t *members = (uint32_t *)(void *)(bytes + flags);
    *finale = (shoali_finale){.world = world,
                              .peers = bytes,
                              .members = members,
                              .misses = members + world->workers,
                              .slot = slot,
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

static void say_attempt(const shoali_finale *f, shoali_actions *actions)
{
    uint8_t bytes[HEAD_BYTES + (WORKERS_MAX + 7) / 8] = {ATTEMPT};
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
    const shoali_mix_term param = {SHOALI_PARAM, 1};
    uint32_t slot = SHOALI_SLOT + f->slot;
    f->attempt = f->next;
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
    const shoali_mix_term mean = {SHOALI_SLOT + f->slot, 1.0f / (float)f->member_count};
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

static bool anybody_failed(const shoali_finale *f)
{
    for (uint32_t i = 0; i < f->world->workers; i++)
        if ((f->peers[i] & (SHOALI_PEER_GONE | SHOALI_PEER_FAILED)) == SHOALI_PEER_FAILED)
            return true;
    return false;
}

static void call_attempt(shoali_finale *f, shoali_actions *actions)
{
    f->calls++;
    f->next = (uint64_t)f->world->me << LEADER_SHIFT | f->calls;
    f->member_count = 0;
    for (uint32_t i = 0; i < f->world->workers; i++) {
        f->peers[i] &= (uint8_t) ~(SHOALI_PEER_REPORTED | SHOALI_PEER_FAILED);
        f->misses[i] = UINT32_MAX;
        if (!shoali_finale_is_gone(f, i))
            f->members[f->member_count++] = i;
    }
    say_attempt(f, actions);
    run_attempt(f, actions);
}

/* Two that have lost each other, and have both said so of this attempt. As each names the highest
 * that it misses, the highest of all that miss anybody is always one of such a pair. */
static void leave_out(shoali_finale *f, shoali_actions *actions)
{
    for (uint32_t high = f->world->workers - 1; high > 0; high--) {
        const uint32_t low = f->misses[high];
        if (shoali_finale_is_gone(f, high) || low >= high || shoali_finale_is_gone(f, low) ||
            f->misses[low] != high)
            continue;
        say(high, WITHOUT, low, actions);
        f->peers[high] |= SHOALI_PEER_GONE;
    }
}

/* What the leader does whenever it learns something. */
static void lead(shoali_finale *f, shoali_actions *actions)
{
    if (f->over || !f->asked || f->open || !leads(f) || !shoali_finale_all_finished(f))
        return;
    bool mine = f->calls > 0 && f->attempt >> LEADER_SHIFT == f->world->me;
    if (!mine) {
        f->peers[f->world->me] |= SHOALI_PEER_HELLO;
        if (f->world->me == 0 || all_have(f, SHOALI_PEER_HELLO))
            call_attempt(f, actions);
    } else if (all_have(f, SHOALI_PEER_REPORTED)) {
        if (!anybody_failed(f)) {
            commit(f, actions);
        } else if (f->calls < CALLS_MAX) {
            leave_out(f, actions);
            call_attempt(f, actions);
        } else {
            shoali_finale_fail(f, SHOAL_EPEER, "the final average does not come together", actions);
        }
    }
}

/* Tell a leader after the first that this worker is there, and bound to what it says. */
static void follow(shoali_finale *f, shoali_actions *actions)
{
    uint32_t leader = leader_of(f);
    if (f->over || !f->asked || leader == 0 || leader == f->follows)
        return;
    if (f->heard != 0 && f->heard == f->attempt && f->attempt == f->next) {
        if (!f->open)
            commit(f, actions); /* whom I followed is gone and has called nothing else */
        return;
    }
    if (leader == f->world->me)
        return;
    f->follows = leader;
    say(leader, HELLO, f->attempt, actions);
}

/* Of the attempt whose sum lies in the slot, from somebody whose word counts; or not yet. */
static void on_commit(shoali_finale *f, uint32_t peer, shoali_actions *actions)
{
    if (f->asked && !f->open && (f->follows == UINT32_MAX || f->follows == peer))
        commit(f, actions);
    else if (f->asked)
        f->heard = f->attempt;
}

static void report(const shoali_finale *f, uint32_t leader, bool ok, shoali_actions *actions)
{
    for (uint32_t i = f->member_count; !ok && i > 0; i--)
        if (shoali_finale_is_gone(f, f->members[i - 1])) {
            say(leader, MISSES, f->members[i - 1], actions);
            break;
        }
    say(leader, ok ? REPORT_GOOD : REPORT_BAD, f->attempt, actions);
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
    if (leader == f->world->me)
        f->peers[leader] |= ok ? SHOALI_PEER_REPORTED : SHOALI_PEER_REPORTED | SHOALI_PEER_FAILED;
    else
        report(f, leader, ok, actions);
    if (f->next != f->attempt && !leads(f))
        run_attempt(f, actions);
}

static void on_attempt(shoali_finale *f, uint32_t peer, uint64_t attempt, const uint8_t *bitmap,
                       shoali_actions *actions)
{
    bool me = (bitmap[f->world->me / 8] >> (f->world->me % 8) & 1) != 0;
    if (attempt >> LEADER_SHIFT != peer || !f->asked || !me)
        return;
    f->member_count = 0;
    for (uint32_t i = 0; i < f->world->workers; i++)
        if ((bitmap[i / 8] >> (i % 8) & 1) != 0)
            f->members[f->member_count++] = i;
        else if (!shoali_finale_is_gone(f, i))
            say(i, WITHOUT, peer, actions);
    f->next = attempt;
    if (!f->open)
        run_attempt(f, actions);
}

/* False: that was known. */
static bool on_gone(shoali_finale *f, uint32_t peer)
{
    bool news = !shoali_finale_is_gone(f, peer);
    f->peers[peer] |= SHOALI_PEER_GONE;
    return news;
}

/* True: the peer is gone now. */
static bool on_message(shoali_finale *f, const shoali_event *event, shoali_actions *actions)
{
    uint32_t peer = event->message.peer;
    size_t len = event->message.len_bytes;
    uint8_t kind = event->message.bytes[0];
    uint64_t value;
    if (peer >= f->world->workers || len != HEAD_BYTES + (kind == ATTEMPT ? bitmap_bytes(f) : 0))
        return false;
    memcpy(&value, event->message.bytes + 1, sizeof value);
    bool current = value == f->attempt && f->attempt == f->next;
    if (kind == FINISHED)
        f->peers[peer] |= SHOALI_PEER_FINISHED;
    else if (kind == ATTEMPT)
        on_attempt(f, peer, value, event->message.bytes + HEAD_BYTES, actions);
    else if (kind == REPORT_GOOD && current)
        f->peers[peer] |= SHOALI_PEER_REPORTED;
    else if (kind == REPORT_BAD && current)
        f->peers[peer] |= SHOALI_PEER_REPORTED | SHOALI_PEER_FAILED;
    else if (kind == COMMIT && current)
        on_commit(f, peer, actions);
    else if (kind == HELLO)
        f->peers[peer] |= SHOALI_PEER_HELLO;
    else if (kind == MISSES && value < f->world->workers)
        f->misses[peer] = (uint32_t)value;
    else if (kind == WITHOUT)
        stay_behind(f, (int32_t)peer,
                    "the others take the final mean without this worker: a connection is lost",
                    actions);
    if (kind == CUT)
        on_cut(f, peer, actions);
    return kind == GOODBYE && on_gone(f, peer);
}

/* ---------------------------------------------------------------- the machine's side */

shoali_finale_news shoali_finale_event(shoali_finale *f, const shoali_event *event,
                                       uint32_t *peer_out, shoali_actions *actions)
{
    bool left = false;
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
        left = on_gone(f, event->down.peer);
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
