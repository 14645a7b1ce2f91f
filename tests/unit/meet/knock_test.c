/* SPDX-License-Identifier: Apache-2.0 */
/* A visitor's side of doors, at the doors of a made-up epoch. */
#include "support/check.h"
#include "support/doors.h"
#include "support/far_end.h"
#include "support/ports.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "meet/net.h"
#include "wire/messages.h"

enum { LONG_US = 60 * 1000 * 1000 };

static doors leader, visitor;
static shoali_visit_words words;

static void open_both(uint32_t leader_rank)
{
    doors_open(&leader, leader_rank, "tcp://127.0.0.1:1");
    doors_start(&leader, 3);
    doors_open(&visitor, 3, "tcp://127.0.0.1:1");
    words = (shoali_visit_words){.call = NULL};
}

static void close_both(void)
{
    doors_close(&visitor);
    doors_close(&leader);
}

static bool until_held(void *ctx)
{
    (void)ctx;
    return !words.held.stay;
}

static shoal_status knock(const char *address)
{
    return shoali_knock(visitor.door, address, -1, shoali_now_us() + LONG_US, until_held, NULL,
                        &words);
}

/* A visitor does not wait long for an answer: on a busy machine it comes again. */
static void knock_until_answered(const char *address)
{
    for (int turn = 0; turn < 20 && words.held.stay + words.held.count == 0; turn++)
        assert_int_equal(knock(address), SHOAL_PENDING);
}

static void a_newcomer_is_held_or_sent_on(void **state)
{
    (void)state;
    open_both(0);
    knock_until_answered(leader.door->address);
    assert_int_equal(words.held.stay, 1);
    close_both();
    open_both(1);
    snprintf(leader.others[0], SHOALI_DOOR_BYTES, "10.0.0.7:1");
    knock_until_answered(leader.door->address);
    assert_int_equal(words.held.stay, 0);
    assert_int_equal(words.held.count, 1);
    assert_string_equal(words.held.doors[0], "10.0.0.7:1");
    close_both();
}

/* By way of others: the connection is there already. */
static void a_connection_that_is_there_is_used(void **state)
{
    (void)state;
    shoali_ip at;
    open_both(0);
    assert_true(shoali_ip_parse("127.0.0.1", &at));
    shoali_ip_set_port(&at, (uint16_t)strtoul(strrchr(leader.door->address, ':') + 1, NULL, 10));
    for (int turn = 0; turn < 20 && !words.held.stay; turn++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)shoali_ip_connect(fd, &at.any, shoali_ip_bytes(&at));
        assert_int_equal(shoali_knock(visitor.door, "nowhere", fd, shoali_now_us() + LONG_US,
                                      until_held, NULL, &words),
                         SHOAL_PENDING);
    }
    assert_int_equal(words.held.stay, 1);
    close_both();
}

static void where_no_door_is_nobody_waits(void **state)
{
    (void)state;
    char place[256];
    int holder;
    open_both(0);
    place_reserve("tcp", place, sizeof place, &holder);
    assert_int_equal(knock(place + 6), SHOAL_PENDING); /* nobody listens */
    assert_int_equal(knock("a-name:7"), SHOAL_PENDING);
    assert_int_equal(knock("10.0.0.7"), SHOAL_PENDING);
    visitor.door->token.len_bytes = 0; /* off loopback that takes a token */
    assert_int_equal(knock("192.0.2.1:7"), SHOAL_PENDING);
    place_release(place, holder);
    close_both();
}

static void another_job_is_never_entered(void **state)
{
    (void)state;
    open_both(0);
    visitor.door->token.bytes[0] ^= 1;
    assert_int_equal(knock(leader.door->address), SHOAL_PENDING); /* that is no door for us */
    assert_int_equal(words.held.stay + words.held.count, 0);
    close_both();
}

typedef struct far_door {
    pthread_t thread;
    shoali_meeting meeting;
    shoali_record mine;
    char place[256];
    int holder, listener;
    uint32_t doubts;
    shoali_come come;
    uint64_t proposed; /* the epoch in the proposal behind the admit */
    uint32_t abort;    /* instead of an admit; 0: none */
    atomic_bool over;
} far_door;

/* One visitor heard, and admitted. */
static void admit_one(far_door *f)
{
    static shoali_meet_stream end;
    uint16_t kind = 0;
    const uint8_t *bytes;
    size_t length;
    uint8_t body[SHOALI_ADMIT_BYTES + SHOALI_PROPOSAL_BYTES];
    uint32_t doubts = 0;
    far_end_answer(&end, f->listener, &f->meeting);
    while (kind != SHOALI_MESSAGE_come && kind != SHOALI_MESSAGE_record) {
        if (far_end_hear(&end, &kind, &bytes, &length) != SHOAL_OK)
            break;
        doubts += kind == SHOALI_MESSAGE_proposal;
        if (kind == SHOALI_MESSAGE_come && shoali_come_decode(bytes, length, &f->come))
            f->doubts = doubts;
    }
    const shoali_admit admit = {
        .epoch = 6, .rank = 2, .size = 3, .done_max = 9, .door = "10.9.9.9:1"};
    const shoali_proposal proposal = {.epoch = f->proposed, .size = 3, .stays = {3}};
    shoali_abort no = {.status = f->abort, .culprit = SHOALI_NOBODY, .text = "no"};
    if (f->abort != 0) {
        length = shoali_abort_encode(&no, body);
    } else {
        length = shoali_admit_encode(&admit, body);
        length += shoali_proposal_encode(&proposal, body + length);
    }
    (void)far_end_say(&end, f->abort != 0 ? SHOALI_MESSAGE_abort : SHOALI_MESSAGE_admit, body,
                      length);
    while (far_end_hear(&end, &kind, &bytes, &length) == SHOAL_OK)
        ;
    shoali_meet_stream_close(&end);
}

/* A leader, for as many visits as it takes: until one that comes when it is over. */
static void *play_leader(void *arg)
{
    far_door *f = arg;
    while (!atomic_load(&f->over))
        admit_one(f);
    return NULL;
}

static void open_far_door(far_door *f)
{
    *f = (far_door){.proposed = 6, .mine = visitor.mine};
    f->mine.rank = 0;
    place_reserve("tcp", f->place, sizeof f->place, &f->holder);
    f->meeting = (shoali_meeting){
        .place = f->place, .job = "doors", .token = &visitor.token, .mine = &f->mine};
    assert_ok(shoali_meet_listen(&f->meeting, &f->listener));
}

static void start_far_door(far_door *f)
{
    assert_int_equal(pthread_create(&f->thread, NULL, play_leader, f), 0);
}

static void end_far_door(far_door *f)
{
    static shoali_meet_stream last;
    atomic_store(&f->over, true);
    far_end_call(&last, (uint16_t)strtoul(strrchr(f->place, ':') + 1, NULL, 10), &f->meeting);
    shoali_meet_stream_close(&last);
    assert_int_equal(pthread_join(f->thread, NULL), 0);
    close(f->listener);
    place_release(f->place, f->holder);
}

/* Until it is answered, as above. */
static void visit_far_door(far_door *f, shoal_status expected)
{
    shoal_status status = SHOAL_PENDING;
    start_far_door(f);
    for (int turn = 0; turn < (expected == SHOAL_PENDING ? 2 : 20) && status == SHOAL_PENDING;
         turn++)
        status = shoali_knock(visitor.door, f->place + 6, -1, shoali_now_us() + LONG_US, NULL, NULL,
                              &words);
    assert_status(status, expected);
    end_far_door(f);
}

static void a_member_says_all_and_is_admitted(void **state)
{
    (void)state;
    static far_door f;
    const shoali_proposal doubts[2] = {{.epoch = 6, .size = 3, .stays = {7}},
                                       {.epoch = 7, .size = 3, .stays = {7}}};
    const shoali_guest call = {
        .come = {.epoch = 5, .tried = 7, .incarnation = 501, .rank = 1, .doubts = 2},
        .doubts = doubts};
    open_both(0);
    open_far_door(&f);
    words.call = &call;
    visit_far_door(&f, SHOAL_OK);
    assert_int_equal(f.doubts, 2);
    assert_int_equal(f.come.tried, 7);
    assert_int_equal(f.come.rank, 1);
    assert_int_equal(words.admit.epoch, 6);
    assert_int_equal(words.admit.rank, 2);
    assert_int_equal(words.proposal.epoch, 6);
    assert_string_equal(words.admit.door, f.place + 6); /* the way that is known to work */
    close_both();
}

static void a_newcomer_meets_where_it_is_told(void **state)
{
    (void)state;
    static far_door f;
    open_both(0);
    open_far_door(&f);
    visit_far_door(&f, SHOAL_OK);
    assert_string_equal(words.admit.door, "10.9.9.9:1");
    close_both();
}

static void two_epochs_in_one_answer_are_none(void **state)
{
    (void)state;
    static far_door f;
    open_both(0);
    open_far_door(&f);
    f.proposed = 7;
    visit_far_door(&f, SHOAL_PENDING);
    close_both();
}

static void what_can_never_be_is_said(void **state)
{
    (void)state;
    static far_door f;
    static const shoal_status final[] = {SHOAL_EVERSION, SHOAL_EMISMATCH, SHOAL_ECANCELLED};
    open_both(0);
    for (size_t i = 0; i < 3; i++) {
        open_far_door(&f);
        f.abort = final[i];
        visit_far_door(&f, final[i]);
    }
    open_far_door(&f);
    f.abort = SHOAL_EAUTH; /* this door; another one may be */
    visit_far_door(&f, SHOAL_PENDING);
    close_both();
}

/* Nobody is there: whoever does not wait goes on at once. */
static void whoever_seeks_goes_round_once_or_waits(void **state)
{
    (void)state;
    char place[256];
    int holder;
    shoali_admit admit;
    place_reserve("tcp", place, sizeof place, &holder);
    doors_open(&visitor, 3, place);
    assert_int_equal(shoali_seek(visitor.door, false, shoali_now_us() + LONG_US, &admit),
                     SHOAL_PENDING);
    const uint64_t until_us = shoali_now_us() + 120 * 1000;
    assert_int_equal(shoali_seek(visitor.door, true, until_us, &admit), SHOAL_PENDING);
    assert_true(shoali_now_us() >= until_us);
    doors_close(&visitor);
    place_release(place, holder);
}

/* Its door hears of a leader's, which admits. */
static void whoever_seeks_is_led_to_the_leader(void **state)
{
    (void)state;
    static far_door f;
    shoali_admit admit;
    char list[SHOALI_DOOR_BYTES];
    doors_open(&leader, 1, "tcp://127.0.0.1:1");
    doors_start(&leader, 3);
    snprintf(list, sizeof list, "%s", leader.door->address);
    assert_int_equal(setenv("SHOAL_DOORS", list, 1), 0);
    doors_open(&visitor, 3, "file:///tmp/nothing-is-there");
    assert_int_equal(unsetenv("SHOAL_DOORS"), 0);
    open_far_door(&f);
    snprintf(leader.others[0], SHOALI_DOOR_BYTES, "%.60s", f.place + 6);
    start_far_door(&f);
    assert_ok(shoali_seek(visitor.door, true, shoali_now_us() + LONG_US, &admit));
    end_far_door(&f);
    assert_int_equal(admit.epoch, 6);
    assert_int_equal(admit.rank, 2);
    close_both();
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {CHECK_TEST(a_newcomer_is_held_or_sent_on),
                                       CHECK_TEST(a_connection_that_is_there_is_used),
                                       CHECK_TEST(where_no_door_is_nobody_waits),
                                       CHECK_TEST(another_job_is_never_entered),
                                       CHECK_TEST(a_member_says_all_and_is_admitted),
                                       CHECK_TEST(a_newcomer_meets_where_it_is_told),
                                       CHECK_TEST(two_epochs_in_one_answer_are_none),
                                       CHECK_TEST(what_can_never_be_is_said),
                                       CHECK_TEST(whoever_seeks_goes_round_once_or_waits),
                                       CHECK_TEST(whoever_seeks_is_led_to_the_leader)};
    return CHECK_RUN(tests);
}
