/* SPDX-License-Identifier: Apache-2.0 */
#include "sync/meeting.h"

#include "base/arena.h"
#include "support/check.h"
#include "sync/pack.h"

enum { WORKERS = 4 };

typedef struct bench {
    shoali_world world;
    shoali_finale finale;
    uint8_t peers[WORKERS];
    shoali_meeting meeting;
    shoali_actions actions;
    void *memory;
} bench;

static void open_bench(bench *b, uint32_t me, uint32_t quorum, uint64_t grace_us)
{
    const shoali_meeting_options options = {.quorum = quorum, .grace_us = grace_us};
    *b = (bench){.world = {.workers = WORKERS, .me = me}};
    b->finale.world = &b->world;
    b->finale.peers = b->peers;
    b->memory = shoali_alloc(shoali_meeting_bytes(&b->world));
    assert_non_null(b->memory);
    shoali_meeting_start(&b->meeting, &b->world, &b->finale, &options, b->memory);
}

static void close_bench(bench *b)
{
    shoali_actions_fini(&b->actions);
    shoali_free(b->memory);
}

static void here(bench *b, uint32_t peer, uint64_t version, uint64_t weight, uint64_t now_us)
{
    uint8_t bytes[17] = {0xe0};
    shoali_pack_u64(bytes + 1, version);
    shoali_pack_u64(bytes + 9, weight);
    const shoali_event event = {
        .kind = SHOALI_EV_MESSAGE, .now_us = now_us, .message = {peer, bytes, sizeof bytes}};
    assert_true(shoali_meeting_event(&b->meeting, &event, &b->actions));
}

static void here_until(bench *b, uint32_t peer, uint64_t spare_us, uint64_t now_us)
{
    uint8_t bytes[25] = {0xe0};
    shoali_pack_u64(bytes + 9, 1);
    shoali_pack_u64(bytes + 17, spare_us);
    const shoali_event event = {
        .kind = SHOALI_EV_MESSAGE, .now_us = now_us, .message = {peer, bytes, sizeof bytes}};
    assert_true(shoali_meeting_event(&b->meeting, &event, &b->actions));
}

static uint32_t sends(bench *b)
{
    uint32_t count = 0;
    for (; shoali_actions_front(&b->actions) != NULL; shoali_actions_pop(&b->actions))
        count += shoali_actions_front(&b->actions)->kind == SHOALI_ACT_SEND;
    return count;
}

/* It has to be over when the first of them would wait; who says nothing waits at once. */
static void a_call_says_how_long_the_round_may_take(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, 0, 0, 0);
    for (uint32_t late = 0; late < 2; late++) {
        here_until(&b, 1, 500, 1000);
        here_until(&b, 2, 900, 1200);
        here_until(&b, 3, 301, 1300 - late * 300);
        b.meeting.spare_us = 700;
        shoali_meeting_arrive(&b.meeting, 0, 1, 1400, &b.actions);
        assert_true(shoali_meeting_poll(&b.meeting, 1400, &b.actions));
        assert_int_equal(b.meeting.call.spare_us, late == 0 ? 100 : 0);
        const shoali_action *send = shoali_actions_front(&b.actions);
        while (send != NULL && send->kind != SHOALI_ACT_SEND) {
            shoali_actions_pop(&b.actions);
            send = shoali_actions_front(&b.actions);
        }
        assert_non_null(send);
        assert_int_equal(send->send.len_bytes, late == 0 ? 43 : 35);
        assert_int_equal(sends(&b), 3);
        shoali_meeting_take(&b.meeting);
    }
    close_bench(&b);
}

static void the_leader_calls_when_all_are_there(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, 0, 0, 0);
    here(&b, 1, 5, 8, 1);
    here(&b, 3, 4, 8, 2);
    shoali_meeting_arrive(&b.meeting, 5, 7, 3, &b.actions);
    assert_false(shoali_meeting_poll(&b.meeting, 3, &b.actions));
    b.peers[2] = SHOALI_PEER_FINISHED; /* nobody waits for it */
    assert_true(shoali_meeting_poll(&b.meeting, 4, &b.actions));
    const shoali_call *call = &b.meeting.call;
    assert_int_equal(call->member_count, 3);
    assert_int_equal(call->members[2], 3);
    assert_int_equal(call->version, 5);
    assert_int_equal(call->weight, 23);
    assert_int_equal(call->outdated_count, 2); /* root 0, and 3 */
    assert_int_equal(call->outdated[0], 0);
    assert_int_equal(call->outdated[1], 3);
    assert_int_equal(sends(&b), 2);
    uint64_t first = call->id;
    shoali_meeting_take(&b.meeting);
    assert_false(shoali_meeting_poll(&b.meeting, 5, &b.actions));
    shoali_meeting_arrive(&b.meeting, 6, 8, 6, &b.actions);
    b.peers[1] = b.peers[3] = SHOALI_PEER_GONE;
    assert_true(shoali_meeting_poll(&b.meeting, 6, &b.actions));
    assert_true(call->id >= first + SHOALI_MEETING_IDS);
    assert_int_equal(call->member_count, 1);
    close_bench(&b);
}

static void the_next_leader_is_told_again(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, 3, 0, 0);
    shoali_meeting_arrive(&b.meeting, 1, 1, 1, &b.actions);
    assert_int_equal(shoali_actions_front(&b.actions)->send.peer, 0);
    assert_int_equal(sends(&b), 1);
    b.peers[0] = b.peers[1] = SHOALI_PEER_GONE;
    assert_false(shoali_meeting_poll(&b.meeting, 2, &b.actions));
    assert_int_equal(shoali_actions_front(&b.actions)->send.peer, 2);
    close_bench(&b);
}

/* Rounds at 0, 1000, 2000 ..: those of the quorum take 100 us, worker 3 takes longer and longer. */
static void a_quorum_waits_as_long_as_it_takes_itself(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, 0, 3, UINT64_MAX);
    for (uint64_t round = 0; round < 6; round++) {
        uint64_t at = 1000 * round;
        shoali_meeting_arrive(&b.meeting, round, 1, at + 100, &b.actions);
        here(&b, 1, round, 1, at + 100);
        here(&b, 2, round, 1, at + 100);
        (void)shoali_meeting_poll(&b.meeting, at + 100, &b.actions);
        here(&b, 3, round, 1, at + 1000);
        assert_true(shoali_meeting_poll(&b.meeting, at + 1000, &b.actions));
        assert_int_equal(b.meeting.call.member_count, 4); /* too little is known to go on */
        shoali_meeting_take(&b.meeting);
        (void)sends(&b);
        if (round == 2)
            break;
    }
    for (uint64_t round = 3; round < 9; round++) {
        shoali_meeting_arrive(&b.meeting, round, 1, 1000 * round + 100, &b.actions);
        here(&b, 1, round, 1, 1000 * round + 100);
        here(&b, 2, round, 1, 1000 * round + 100);
        bool called = shoali_meeting_poll(&b.meeting, 1000 * round + 100, &b.actions);
        assert_int_equal(called, round == 99);
        uint64_t until_us = 0;
        for (; shoali_actions_front(&b.actions) != NULL; shoali_actions_pop(&b.actions))
            if (shoali_actions_front(&b.actions)->kind == SHOALI_ACT_TIMER)
                until_us = shoali_actions_front(&b.actions)->timer.at_us;
        if (until_us == 0) {
            here(&b, 3, round, 1, 1000 * (round + 1));
            assert_true(shoali_meeting_poll(&b.meeting, 1000 * (round + 1), &b.actions));
            shoali_meeting_take(&b.meeting);
            (void)sends(&b);
            continue;
        }
        /* the others took 100 us each time: median 100, MAD at least 3 */
        assert_int_equal(until_us, 1000 * round + 100 + 4 * 3);
        const shoali_event timer = {
            .kind = SHOALI_EV_TIMER, .now_us = until_us, .timer = {SHOALI_MEETING_TIMER}};
        assert_true(shoali_meeting_event(&b.meeting, &timer, &b.actions));
        assert_true(shoali_meeting_poll(&b.meeting, until_us, &b.actions));
        assert_int_equal(b.meeting.call.member_count, 3);
        close_bench(&b);
        return;
    }
    fail();
}

/* A quorum of three gives the fourth 500 us from when it is complete, not from its first. */
static void a_quorum_gives_the_late_their_grace(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, 0, 3, 500);
    shoali_meeting_arrive(&b.meeting, 1, 1, 100, &b.actions);
    here(&b, 1, 1, 1, 200);
    assert_false(shoali_meeting_poll(&b.meeting, 900, &b.actions));
    assert_null(shoali_actions_front(&b.actions)); /* too few are there to count the time */
    here(&b, 2, 1, 1, 1000);
    assert_false(shoali_meeting_poll(&b.meeting, 1000, &b.actions));
    const shoali_action *timer = shoali_actions_front(&b.actions);
    assert_true(timer != NULL && timer->kind == SHOALI_ACT_TIMER && timer->timer.at_us == 1500);
    assert_int_equal(sends(&b), 0);
    assert_false(shoali_meeting_poll(&b.meeting, 1499, &b.actions));
    assert_int_equal(sends(&b), 0);
    assert_true(shoali_meeting_poll(&b.meeting, 1500, &b.actions));
    assert_int_equal(b.meeting.call.member_count, 3);
    shoali_meeting_take(&b.meeting);
    (void)sends(&b);
    here(&b, 3, 0, 1, 1600); /* late: it is one of the next round */
    for (uint32_t u = 1; u < 3; u++)
        here(&b, u, 2, 1, 1700);
    shoali_meeting_arrive(&b.meeting, 2, 1, 1700, &b.actions);
    assert_true(shoali_meeting_poll(&b.meeting, 1700, &b.actions));
    assert_int_equal(b.meeting.call.member_count, 4);
    close_bench(&b);
}

/* A call carries its leader in its number, and is nobody else's to make. */
static void a_call_of_somebody_else_is_not_taken(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, 3, 0, 0);
    shoali_meeting_arrive(&b.meeting, 1, 1, 1, &b.actions);
    uint8_t bytes[35] = {0xe1};
    shoali_pack_u64(bytes + 1, (UINT64_C(1) << 40) + SHOALI_MEETING_IDS);
    shoali_pack_u64(bytes + 9, 1);
    shoali_pack_u64(bytes + 17, 4);
    bytes[33] = 0x0f; /* all four; root is 0, nobody is outdated */
    shoali_event event = {.kind = SHOALI_EV_MESSAGE, .message = {2, bytes, sizeof bytes}};
    assert_true(shoali_meeting_event(&b.meeting, &event, &b.actions));
    assert_false(shoali_meeting_poll(&b.meeting, 2, &b.actions));
    event.message.peer = 1;
    bytes[25] = WORKERS; /* a root that there is not */
    assert_true(shoali_meeting_event(&b.meeting, &event, &b.actions));
    assert_false(shoali_meeting_poll(&b.meeting, 2, &b.actions));
    bytes[25] = 2, bytes[33] = 0x0b; /* a root that is no member */
    assert_true(shoali_meeting_event(&b.meeting, &event, &b.actions));
    assert_false(shoali_meeting_poll(&b.meeting, 2, &b.actions));
    bytes[33] = 0x07; /* I am none */
    assert_true(shoali_meeting_event(&b.meeting, &event, &b.actions));
    assert_false(shoali_meeting_poll(&b.meeting, 2, &b.actions));
    bytes[33] = 0x0f;
    assert_true(shoali_meeting_event(&b.meeting, &event, &b.actions));
    assert_true(shoali_meeting_poll(&b.meeting, 2, &b.actions));
    assert_int_equal(b.meeting.call.member_count, 4);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_leader_calls_when_all_are_there),
        CHECK_TEST(a_call_says_how_long_the_round_may_take),
        CHECK_TEST(the_next_leader_is_told_again),
        CHECK_TEST(a_quorum_waits_as_long_as_it_takes_itself),
        CHECK_TEST(a_quorum_gives_the_late_their_grace),
        CHECK_TEST(a_call_of_somebody_else_is_not_taken),
    };
    return CHECK_RUN(tests);
}
