/* SPDX-License-Identifier: Apache-2.0 */
/* Who is lost, when, and for what reason: silence against patience, among few and among many. */
#include "alive/view.h"

#include "alive/alive.h"
#include "member/beats.h"
#include "support/check.h"
#include "support/fake_comm.h"
#include "wire/messages.h"

enum { BEAT_US = FAKE_TIMEOUT_US / SHOALI_BEATS_PER_TIMEOUT, LITTLE_US = 20 * 1000 };
static fake_wire wire;

static bool is_lost(const shoal_comm *comm, uint32_t rank)
{
    return atomic_load(&comm->peers[rank].state) == SHOALI_PEER_LOST;
}

/* After a silence of one of them: a beat's look. */
static void look(shoal_comm *comm, uint32_t rank, uint64_t silent_us)
{
    comm->view.joined = true;
    comm->view.next_beat_us = 0;
    comm->peers[rank].heard_us = comm->loop.now_us - silent_us;
    shoali_view_timers(comm);
}

static void silence_beyond_the_timeout_is_a_loss(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(0, 4, &wire);
    look(comm, 2, FAKE_TIMEOUT_US - LITTLE_US);
    assert_false(is_lost(comm, 2));
    look(comm, 2, FAKE_TIMEOUT_US + LITTLE_US);
    assert_true(is_lost(comm, 2) && !is_lost(comm, 1) && !is_lost(comm, 3));
    assert_int_equal(comm->peers[2].lost_status, SHOAL_EPEER);
    assert_non_null(strstr(comm->peers[2].lost_text, "rank 2 (host h2) is lost: silent for 2.5 s"));
    assert_true(wire.drops == 1 && wire.dropped == 2);
    assert_int_equal(wire.count, 0); /* everybody watches it */
    assert_int_equal(shoali_view_next_us(comm), comm->view.next_beat_us);
    fake_comm_free(comm);
}

static void before_the_join_is_over_nobody_is_silent(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(0, 2, &wire);
    comm->peers[1].heard_us = comm->loop.now_us - 10 * (uint64_t)FAKE_TIMEOUT_US;
    shoali_view_timers(comm);
    assert_false(is_lost(comm, 1));
    shoali_view_begin(comm); /* from here on */
    comm->view.next_beat_us = 0;
    shoali_view_timers(comm);
    assert_false(is_lost(comm, 1));
    fake_comm_free(comm);
}

/* How many frames of the beginning ask that one. */
static uint32_t told_alone(uint32_t rank)
{
    uint32_t n = 0;
    while (n < wire.count && wire.sent[n].to == rank && wire.sent[n].kind == SHOALI_MESSAGE_there)
        n++;
    return n;
}

/* One that watches it tells those who do not; one that does not has more patience, until told. */
static void among_many_the_watchers_are_first(void **state)
{
    enum { MANY = 256, ME = 100 };
    (void)state;
    uint32_t watched = 0, other = 0;
    while (!shoali_beats_watches(ME, watched, MANY))
        watched++;
    while (other == ME || other == watched || shoali_beats_watches(ME, other, MANY))
        other++;
    shoal_comm *comm = fake_comm_make(ME, MANY, &wire);
    comm->ops.last_us = comm->loop.now_us;
    look(comm, other, FAKE_TIMEOUT_US + LITTLE_US);
    assert_false(is_lost(comm, other));
    look(comm, watched, FAKE_TIMEOUT_US + LITTLE_US);
    assert_true(is_lost(comm, watched));
    const uint32_t first = told_alone(other);
    assert_int_equal(first, 1);                         /* and asks it, since it works */
    assert_int_equal(wire.count - first, MANY - 2 - 2); /* nor its other two watchers */
    for (uint32_t i = first; i < wire.count; i++) {
        assert_int_equal(wire.sent[i].kind, SHOALI_MESSAGE_missed);
        assert_false(wire.sent[i].to == watched || wire.sent[i].to == ME ||
                     shoali_beats_watches(wire.sent[i].to, watched, MANY));
    }
    shoali_view_missed(comm, &(shoali_missed){other}); /* it may still answer */
    shoali_view_timers(comm);
    assert_false(is_lost(comm, other));
    comm->peers[other].asked_us = comm->loop.now_us - FAKE_TIMEOUT_US / 2;
    comm->view.look_for_missed = true;
    shoali_view_timers(comm);
    assert_true(is_lost(comm, other));
    fake_comm_free(comm);
}

/* After half of the timeout it is asked, by those who watch it and by whom they tell, once. */
static void who_is_quiet_is_asked(void **state)
{
    enum { MANY = 256, ME = 100, WATCHED = ME - 1 };
    (void)state;
    shoal_comm *comm = fake_comm_make(ME, MANY, &wire);
    assert_true(shoali_beats_watches(ME, WATCHED, MANY));
    look(comm, WATCHED, FAKE_TIMEOUT_US / 2 + LITTLE_US);
    assert_int_equal(told_alone(WATCHED), 1);
    assert_int_equal(wire.count, 1 + MANY - 2 - 2);
    for (uint32_t i = 1; i < wire.count; i++)
        assert_int_equal(wire.sent[i].kind, SHOALI_MESSAGE_there);
    wire.count = 0;
    look(comm, WATCHED, FAKE_TIMEOUT_US / 2 + BEAT_US);
    assert_int_equal(wire.count, 0);
    comm->view.next_beat_us = UINT64_MAX;
    comm->peers[7].heard_us -= FAKE_TIMEOUT_US / 2;
    shoali_view_asked(comm, WATCHED, &(shoali_missed){7});
    shoali_view_asked(comm, WATCHED, &(shoali_missed){7});
    shoali_view_asked(comm, WATCHED, &(shoali_missed){8}); /* just heard */
    shoali_view_asked(comm, WATCHED, &(shoali_missed){9999});
    shoali_view_timers(comm);
    assert_true(wire.count == 1 && wire.sent[0].to == 7);
    fake_comm_free(comm);
}

static void who_is_asked_says_something_at_once(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(0, 256, &wire);
    comm->view.joined = true;
    comm->view.next_beat_us = UINT64_MAX;
    shoali_view_asked(comm, 40, &(shoali_missed){0});
    shoali_view_asked(comm, 200, &(shoali_missed){0});
    atomic_store(&comm->peers[200].state, SHOALI_PEER_LEFT);
    shoali_view_timers(comm);
    shoali_view_timers(comm);
    assert_true(wire.count == 1 && wire.sent[0].to == 40);
    assert_int_equal(wire.sent[0].kind, SHOALI_MESSAGE_heartbeat);
    assert_false(comm->view.answers);
    shoali_view_asked(comm, 41, &(shoali_missed){0});
    shoali_view_timers(comm);
    assert_true(wire.count == 2 &&
                wire.sent[1].to == 41); /* each gets an answer to each question */
    fake_comm_free(comm);
}

static void what_others_miss_is_looked_at_and_not_believed(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(0, 256, &wire);
    comm->view.joined = true;
    comm->view.next_beat_us = UINT64_MAX;
    shoali_view_missed(comm, &(shoali_missed){17});
    shoali_view_missed(comm, &(shoali_missed){0});    /* this one */
    shoali_view_missed(comm, &(shoali_missed){9999}); /* nobody */
    shoali_view_timers(comm);
    assert_false(is_lost(comm, 17));
    fake_comm_free(comm);
}

/* It was this one that stood still: others did not fall silent, and may have given it up. */
static void own_lateness_is_no_silence_of_others(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(0, 3, &wire);
    const uint64_t heard_us = comm->peers[1].heard_us;
    shoali_view_late(comm, 10 * (uint64_t)FAKE_TIMEOUT_US);
    assert_int_equal(comm->peers[1].heard_us, heard_us + 10 * (uint64_t)FAKE_TIMEOUT_US);
    assert_true(comm->view.deaf_us > comm->loop.now_us);
    assert_true(comm->view.outdated_us > comm->loop.now_us);
    comm->view.joined = true;
    shoali_peer_gone(comm, 1, SHOAL_EPEER, "reset by peer");
    comm->view.next_beat_us = UINT64_MAX;
    shoali_view_timers(comm);
    assert_true(is_lost(comm, 1) && comm->view.expelled);
    assert_int_equal(comm->peers[1].lost_status, SHOAL_EEPOCH);
    assert_non_null(strstr(comm->peers[1].lost_text, "this process stood still for 25.0 s"));
    fake_comm_free(comm);
}

static void a_goodbye_is_no_loss_until_it_was_too_early(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(0, 3, &wire);
    comm->view.joined = true;
    comm->view.next_beat_us = UINT64_MAX;
    shoali_peer_gone(comm, 1, SHOAL_OK, NULL);
    shoali_view_timers(comm);
    assert_int_equal(atomic_load(&comm->peers[1].state), SHOALI_PEER_LEFT);
    assert_int_equal(wire.drops, 0); /* what it has sent may still come */
    comm->view.next_beat_us = 0;
    comm->peers[1].left_us = comm->loop.now_us - FAKE_TIMEOUT_US;
    shoali_view_timers(comm);
    assert_true(comm->peers[1].settled && wire.drops == 1 && wire.dropped == 1);
    assert_false(is_lost(comm, 1));
    fake_comm_free(comm);
}

/* heard: words count but for a while after this thread was deaf. */
static void a_word_is_noted_with_what_it_says(void **state)
{
    (void)state;
    char text[160];
    shoal_comm *comm = fake_comm_make(0, 3, &wire);
    shoali_heartbeat beat = {.busy = true, .for_us = 300000, .text = "all-reduce 7"};
    shoali_view_doing(comm, 1, text, sizeof text);
    assert_string_equal(text, "");
    comm->view.deaf_us = comm->loop.now_us + 1;
    shoali_view_heartbeat(comm, 1, &beat);
    assert_int_equal(comm->peers[1].word_us, 0);
    comm->view.deaf_us = 0;
    shoali_view_heartbeat(comm, 1, &beat);
    assert_int_equal(comm->peers[1].word_us, comm->loop.now_us);
    comm->loop.now_us += 200000;
    shoali_view_doing(comm, 1, text, sizeof text);
    assert_string_equal(text, "; it was last in all-reduce 7, for 0.5 s");
    beat.busy = false;
    shoali_view_heartbeat(comm, 1, &beat);
    shoali_view_doing(comm, 1, text, sizeof text);
    assert_string_equal(text, "; it was last idle, since all-reduce 7 ended 0.3 s ago");
    fake_comm_free(comm);
}

static void the_lowest_that_is_there_speaks_for_a_majority(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(1, 5, &wire);
    assert_false(shoali_comm_is_lowest(comm));
    atomic_store(&comm->peers[0].state, SHOALI_PEER_LOST);
    assert_true(shoali_comm_is_lowest(comm));
    atomic_store(&comm->peers[2].state, SHOALI_PEER_LOST);
    assert_true(shoali_comm_is_lowest(comm));
    atomic_store(&comm->peers[3].state, SHOALI_PEER_LOST);
    assert_false(shoali_comm_is_lowest(comm)); /* two of five */
    atomic_store(&comm->peers[0].death, SHOALI_DEATH_CERTAIN);
    atomic_store(&comm->peers[2].death, SHOALI_DEATH_CERTAIN);
    assert_true(shoali_comm_is_lowest(comm)); /* two of three */
    fake_comm_free(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(silence_beyond_the_timeout_is_a_loss),
        CHECK_TEST(before_the_join_is_over_nobody_is_silent),
        CHECK_TEST(among_many_the_watchers_are_first),
        CHECK_TEST(who_is_quiet_is_asked),
        CHECK_TEST(who_is_asked_says_something_at_once),
        CHECK_TEST(what_others_miss_is_looked_at_and_not_believed),
        CHECK_TEST(own_lateness_is_no_silence_of_others),
        CHECK_TEST(a_goodbye_is_no_loss_until_it_was_too_early),
        CHECK_TEST(a_word_is_noted_with_what_it_says),
        CHECK_TEST(the_lowest_that_is_there_speaks_for_a_majority),
    };
    return CHECK_RUN(tests);
}
