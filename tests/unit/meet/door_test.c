/* SPDX-License-Identifier: Apache-2.0 */
/* A member's door; visitors are played by the test. */
#include "support/check.h"
#include "support/doors.h"
#include "support/far_end.h"
#include "support/ports.h"

#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "wire/messages.h"

enum { LONG_US = 60 * 1000 * 1000 };

static doors d;
static shoali_record other; /* a visitor's */
static shoali_meeting meeting;
static shoali_meet_stream end;

static void open_for(uint32_t me, uint32_t size, bool thread)
{
    doors_open(&d, me, "tcp://127.0.0.1:1");
    if (thread)
        doors_start(&d, size);
    other = d.mine;
    other.rank = 3;
    other.incarnation = 900;
    meeting = (shoali_meeting){
        .place = d.rendezvous, .job = "doors", .token = &d.token, .mine = &other};
}

static uint16_t port_of(const shoali_door *door)
{
    return (uint16_t)strtoul(strrchr(door->address, ':') + 1, NULL, 10);
}

static void come_as_newcomer(void)
{
    uint8_t body[SHOALI_RECORD_BYTES];
    far_end_call(&end, port_of(d.door), &meeting);
    assert_true(far_end_say(&end, SHOALI_MESSAGE_record, body, shoali_record_encode(&other, body)));
}

static shoali_held hear_held(void)
{
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    shoali_held held;
    assert_ok(far_end_hear(&end, &kind, &body, &length));
    assert_int_equal(kind, SHOALI_MESSAGE_held);
    assert_true(shoali_held_decode(body, length, &held));
    return held;
}

static void assert_wanted(void)
{
    const uint64_t until_us = shoali_now_us() + LONG_US;
    while (atomic_load(&d.wanted) < 2 && shoali_now_us() < until_us)
        (void)poll(NULL, 0, 5);
    assert_int_equal(atomic_load(&d.wanted), 2); /* asked again, and then no more */
}

static void a_newcomer_waits_at_the_leaders_door(void **state)
{
    (void)state;
    open_for(0, 3, true);
    snprintf(d.others[2], SHOALI_DOOR_BYTES, "10.0.0.2:1");
    come_as_newcomer();
    const shoali_held held = hear_held();
    assert_int_equal(held.stay, 1);
    assert_int_equal(held.count, 1); /* and the others', if this one goes */
    assert_string_equal(held.doors[0], "10.0.0.2:1");
    assert_wanted();
    shoali_meet_stream_close(&end);
    come_as_newcomer(); /* another round, and it has been said */
    assert_int_equal(hear_held().stay, 1);
    shoali_door_stop(d.door);
    assert_int_equal(atomic_load(&d.wanted), 2);
    shoali_meet_stream_close(&end);
    doors_close(&d);
}

/* Rank 1 leads, as rank 0 is away. */
static void others_send_it_to_the_leader(void **state)
{
    (void)state;
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    open_for(2, 3, true);
    atomic_store(&d.away[0], true);
    snprintf(d.others[0], SHOALI_DOOR_BYTES, "10.0.0.0:1");
    snprintf(d.others[1], SHOALI_DOOR_BYTES, "10.0.0.1:1");
    come_as_newcomer();
    const shoali_held held = hear_held();
    assert_int_equal(held.stay, 0);
    assert_int_equal(held.count, 1);
    assert_string_equal(held.doors[0], "10.0.0.1:1");
    assert_status(far_end_hear(&end, &kind, &body, &length), SHOAL_EPEER);
    assert_int_equal(atomic_load(&d.wanted), 0); /* that is the leader's to say */
    shoali_meet_stream_close(&end);
    doors_close(&d);
}

static shoali_come come_of(uint32_t rank)
{
    return (shoali_come){.epoch = 5,
                         .tried = 5,
                         .done = 17,
                         .incarnation = doors_incarnation(rank),
                         .rank = rank,
                         .doubts = 1};
}

static void come_as_member(const shoali_come *come)
{
    uint8_t body[SHOALI_PROPOSAL_BYTES];
    const shoali_proposal doubt = {.epoch = 6, .leader = 77, .size = 3, .stays = {7}};
    far_end_call(&end, port_of(d.door), &meeting);
    assert_true(
        far_end_say(&end, SHOALI_MESSAGE_proposal, body, shoali_proposal_encode(&doubt, body)));
    assert_true(far_end_say(&end, SHOALI_MESSAGE_come, body, shoali_come_encode(come, body)));
}

/* Without a thread the test goes round itself, as a reform does. */
static const shoali_caller *rounds_until_known(void)
{
    const uint64_t until_us = shoali_now_us() + LONG_US;
    while (shoali_visitors_known(&d.door->visitors) == 0 && shoali_now_us() < until_us)
        shoali_door_poll(d.door, 10);
    assert_int_equal(shoali_visitors_known(&d.door->visitors), 1);
    return shoali_door_caller(d.door, 0);
}

static void a_member_brings_its_doubts(void **state)
{
    (void)state;
    open_for(0, 3, true);
    const shoali_come come = come_of(1);
    come_as_member(&come);
    assert_wanted(); /* it reforms, so we do */
    shoali_door_stop(d.door);
    const shoali_caller *caller = rounds_until_known();
    assert_true(caller->member && !caller->newcomer);
    assert_int_equal(caller->call.come.rank, 1);
    assert_int_equal(caller->call.come.done, 17);
    assert_int_equal(caller->doubt_count, 1);
    assert_int_equal(caller->call.doubts[0].leader, 77);
    assert_false(caller->held);
    shoali_meet_stream_close(&end);
    doors_close(&d);
}

/* Whoever was one before is a newcomer like others. */
static void members_are_those_of_this_epoch(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 3; wrong++) {
        open_for(0, 3, true);
        shoali_come come = come_of(1);
        if (wrong == 0)
            come.epoch = 4;
        else if (wrong == 1)
            come.incarnation++;
        else
            come.rank = 3;
        come_as_member(&come);
        assert_int_equal(hear_held().stay, 1);
        shoali_door_stop(d.door);
        const shoali_caller *caller = rounds_until_known();
        assert_true(caller->newcomer && !caller->member);
        shoali_meet_stream_close(&end);
        doors_close(&d);
    }
}

static void who_breaks_the_rules_is_hung_up_on(void **state)
{
    (void)state;
    uint16_t kind;
    const uint8_t *bytes;
    size_t length;
    uint8_t body[SHOALI_PROPOSAL_BYTES];
    const shoali_proposal doubt = {.epoch = 6, .size = 3, .stays = {7}};
    open_for(0, 3, true);
    shoali_come come = come_of(1);
    come.doubts = 2; /* it has brought one */
    come_as_member(&come);
    assert_status(far_end_hear(&end, &kind, &bytes, &length), SHOAL_EPEER);
    shoali_meet_stream_close(&end);

    far_end_call(&end, port_of(d.door), &meeting);
    bool said = true;
    for (int i = 0; i <= SHOALI_DOUBTS && said; i++) /* more than there may be */
        said = far_end_say(&end, SHOALI_MESSAGE_proposal, body,
                           shoali_proposal_encode(&doubt, body));
    assert_status(far_end_hear(&end, &kind, &bytes, &length), SHOAL_EPEER);
    shoali_meet_stream_close(&end);

    other.seed = 8; /* of another job */
    come_as_newcomer();
    assert_status(far_end_hear(&end, &kind, &bytes, &length), SHOAL_EPEER);
    shoali_meet_stream_close(&end);
    assert_int_equal(atomic_load(&d.wanted), 0);
    doors_close(&d);
}

static void who_waits_hears_of_the_end(void **state)
{
    (void)state;
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    shoali_abort why;
    open_for(0, 3, true);
    come_as_newcomer();
    assert_int_equal(hear_held().stay, 1);
    doors_close(&d);
    assert_ok(far_end_hear(&end, &kind, &body, &length));
    assert_int_equal(kind, SHOALI_MESSAGE_abort);
    assert_true(shoali_abort_decode(body, length, &why));
    assert_int_equal(why.status, SHOAL_ECANCELLED);
    shoali_meet_stream_close(&end);
    shoali_door_close(NULL);
}

/* A full job has no room: newcomers wait, and nobody reforms for them. */
static void where_there_is_no_room_nobody_reforms(void **state)
{
    (void)state;
    doors_open(&d, 0, "tcp://127.0.0.1:1");
    d.door->mine.world_size = d.door->mine.workers = 3;
    doors_start(&d, 3);
    other = d.mine;
    other.rank = 2;
    other.world_size = other.workers = 3;
    meeting = (shoali_meeting){
        .place = d.rendezvous, .job = "doors", .token = &d.token, .mine = &other};
    come_as_newcomer();
    assert_int_equal(hear_held().stay, 1);
    shoali_door_stop(d.door); /* it has gone round since */
    assert_int_equal(atomic_load(&d.wanted), 0);
    shoali_meet_stream_close(&end);
    doors_close(&d);
}

/* A newcomer knows where the job met: whoever leads listens there, too. */
static void it_is_where_the_job_met(void **state)
{
    (void)state;
    char place[256];
    int holder;
    place_reserve("tcp", place, sizeof place, &holder);
    open_for(0, 3, false);
    doors_close(&d);
    doors_open(&d, 0, place);
    assert_int_equal(d.door->named, -1);
    doors_start(&d, 3);
    far_end_call(&end, (uint16_t)strtoul(strrchr(place, ':') + 1, NULL, 10), &meeting);
    uint8_t body[SHOALI_RECORD_BYTES];
    assert_true(far_end_say(&end, SHOALI_MESSAGE_record, body, shoali_record_encode(&other, body)));
    assert_int_equal(hear_held().stay, 1);
    shoali_meet_stream_close(&end);
    doors_close(&d);
    place_release(place, holder);
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {CHECK_TEST(a_newcomer_waits_at_the_leaders_door),
                                       CHECK_TEST(others_send_it_to_the_leader),
                                       CHECK_TEST(a_member_brings_its_doubts),
                                       CHECK_TEST(members_are_those_of_this_epoch),
                                       CHECK_TEST(who_breaks_the_rules_is_hung_up_on),
                                       CHECK_TEST(who_waits_hears_of_the_end),
                                       CHECK_TEST(where_there_is_no_room_nobody_reforms),
                                       CHECK_TEST(it_is_where_the_job_met)};
    return CHECK_RUN(tests);
}
