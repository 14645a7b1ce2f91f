/* SPDX-License-Identifier: Apache-2.0 */
/* What those hear who watch a communicator. */
#include "alive/status.h"

#include <math.h>
#include <unistd.h>

#include "alive/alive.h"
#include "member/beats.h"
#include "support/check.h"
#include "support/fake_comm.h"

enum { MANY = 256, ME = 100, FIFTHS_US = FAKE_TIMEOUT_US / 5 * 2, LITTLE_US = 20 * 1000 };
static fake_wire wire;

static shoal_comm *make(uint32_t me, uint32_t size)
{
    shoal_comm *comm = fake_comm_make(me, size, &wire);
    pthread_mutex_init(&comm->stepped.lock, NULL);
    comm->stepped.progress.loss = comm->stepped.progress.accuracy = NAN;
    comm->loop.epoll_fd = -1;
    snprintf(comm->job, sizeof comm->job, "status-test-%d", (int)getpid());
    assert_ok(shoali_status_open(comm, 5));
    return comm;
}

static void unmake(shoal_comm *comm)
{
    shoali_watch_close(comm->watch);
    pthread_mutex_destroy(&comm->stepped.lock);
    fake_comm_free(comm);
}

static shoali_status_row row_of(shoal_comm *comm, uint32_t rank)
{
    shoali_status_row row = {.state = SHOALI_RANK_STATES};
    comm->watch->desc.host.row(comm, rank, &row);
    return row;
}

static uint32_t state_after(shoal_comm *comm, uint32_t rank, uint64_t silent_us)
{
    comm->peers[rank].heard_us = comm->loop.now_us - silent_us;
    return row_of(comm, rank).state;
}

static void what_has_become_of_each_is_said(void **state)
{
    (void)state;
    shoal_comm *comm = make(0, 5);
    comm->peers[1].up = false;
    atomic_store(&comm->peers[2].state, SHOALI_PEER_LOST);
    atomic_store(&comm->peers[3].state, SHOALI_PEER_LEFT);
    assert_int_equal(row_of(comm, 0).state, SHOALI_RANK_RUNNING);
    assert_int_equal(row_of(comm, 1).state, SHOALI_RANK_MISSING);
    assert_int_equal(row_of(comm, 2).state, SHOALI_RANK_DEAD);
    assert_int_equal(row_of(comm, 3).state, SHOALI_RANK_LEFT);
    assert_int_equal(row_of(comm, 4).state, SHOALI_RANK_RUNNING);
    assert_string_equal(row_of(comm, 4).host, "h4");
    assert_int_equal(state_after(comm, 4, FIFTHS_US - LITTLE_US), SHOALI_RANK_RUNNING);
    assert_int_equal(state_after(comm, 4, FIFTHS_US), SHOALI_RANK_UNRESPONSIVE);
    unmake(comm);
}

/* Among many some are told rarely: their silence says nothing, until they do not answer. */
static void among_many_a_rare_one_is_not_called_unresponsive(void **state)
{
    (void)state;
    uint32_t watched = 0, other = 0;
    shoal_comm *comm = make(ME, MANY);
    while (!shoali_beats_watches(ME, watched, MANY))
        watched++;
    while (other == ME || shoali_beats_watches(ME, other, MANY))
        other++;
    assert_int_equal(state_after(comm, watched, FIFTHS_US), SHOALI_RANK_UNRESPONSIVE);
    assert_int_equal(state_after(comm, other, 3 * FIFTHS_US), SHOALI_RANK_RUNNING);
    comm->peers[other].asked_us = comm->loop.now_us - FIFTHS_US + LITTLE_US;
    assert_int_equal(state_after(comm, other, 3 * FIFTHS_US), SHOALI_RANK_RUNNING);
    comm->peers[other].asked_us = comm->loop.now_us - FIFTHS_US;
    assert_int_equal(state_after(comm, other, 3 * FIFTHS_US), SHOALI_RANK_UNRESPONSIVE);
    comm->peers[other].asked_us = 0;
    const uint64_t turn_us = shoali_beats_turn_us(MANY, false, FAKE_TIMEOUT_US);
    assert_int_equal(state_after(comm, other, turn_us + FIFTHS_US), SHOALI_RANK_UNRESPONSIVE);
    unmake(comm);
}

/* Another one's word grows older with the time since it came. */
static void what_another_does_is_its_last_word(void **state)
{
    (void)state;
    shoal_comm *comm = make(0, 2);
    comm->peers[1].doing = (shoali_heartbeat){.busy = true, .for_us = 300, .text = "all-reduce 7"};
    comm->peers[1].doing_us = comm->loop.now_us;
    comm->loop.now_us += 200;
    const shoali_status_row row = row_of(comm, 1);
    assert_true(row.busy && row.for_us == 500);
    assert_string_equal(row.text, "all-reduce 7");
    snprintf(comm->ops.last_name, sizeof comm->ops.last_name, "barrier 2");
    comm->ops.last_us = comm->loop.now_us - 40;
    const shoali_status_row mine = row_of(comm, 0);
    assert_true(!mine.busy && mine.for_us == 40);
    assert_string_equal(mine.text, "barrier 2");
    unmake(comm);
}

static void links_that_broke_and_decisions_are_lines(void **state)
{
    (void)state;
    char text[SHOALI_WATCH_NOTES_BYTES + 1];
    shoal_comm *comm = make(0, 3);
    size_t length = comm->watch->desc.host.notes(comm, text);
    assert_int_equal(length, 0);
    snprintf(comm->reform.past_links, sizeof comm->reform.past_links, "in epoch 1, old\n");
    shoali_comm_note(comm, "the batch is halved");
    snprintf(comm->peers[2].link_text, sizeof comm->peers[2].link_text, "a - b is silent");
    comm->peers[2].link_us = comm->loop.now_us - 3000000;
    length = comm->watch->desc.host.notes(comm, text);
    text[length] = '\0';
    assert_string_equal(text, "in epoch 1, old\nthe batch is halved\na - b is silent, for 3 s\n");
    unmake(comm);
}

/* However much there is to say, whole lines within the room. */
static void too_many_lines_are_cut_at_a_line(void **state)
{
    (void)state;
    char text[SHOALI_WATCH_NOTES_BYTES];
    shoal_comm *comm = make(0, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        memset(comm->peers[i].link_text, 'x', 300);
        comm->peers[i].link_us = comm->loop.now_us;
    }
    const size_t length = comm->watch->desc.host.notes(comm, text);
    assert_true(length > 3000 && length < sizeof text);
    assert_int_equal(text[length - 1], '\n');
    unmake(comm);
}

/* Times add up over steps; a rank that has no loss leaves the last one. */
static void steps_are_summed_until_they_are_told(void **state)
{
    (void)state;
    shoali_heartbeat beat = {.busy = 0};
    shoal_comm *comm = make(0, 2);
    shoali_comm_stepped(comm, &(shoali_stepped){.data_us = 10,
                                                .disk_us = 1,
                                                .samples = 32,
                                                .progress = {.step = 1, .loss = 2.5F}});
    shoali_comm_stepped(
        comm, &(shoali_stepped){.data_us = 30, .samples = 8, .progress = {.step = 2, .loss = NAN}});
    atomic_store(&comm->view.paused_us, 77);
    comm->view.pauses = 3;
    shoali_status_fares(comm, &beat);
    assert_int_equal(beat.fares[SHOALI_FARE_DATA_US], 40);
    assert_int_equal(beat.fares[SHOALI_FARE_DISK_US], 1);
    assert_int_equal(beat.fares[SHOALI_FARE_SAMPLES], 40);
    assert_int_equal(beat.fares[SHOALI_FARE_PAUSED_US], 77);
    assert_int_equal(beat.fares[SHOALI_FARE_PAUSES], 3);
    assert_true(beat.progress.step == 2 && beat.progress.loss == 2.5F);
    assert_int_equal(shoali_comm_paused_us(comm), 77);
    unmake(comm);
}

static void only_who_is_there_and_connected_is_measured(void **state)
{
    (void)state;
    shoal_comm *comm = make(0, 3);
    const shoali_watch_host *host = &comm->watch->desc.host;
    assert_true(host->here(comm, 1));
    comm->peers[1].up = false;
    assert_false(host->here(comm, 1));
    atomic_store(&comm->peers[2].state, SHOALI_PEER_LEFT);
    assert_false(host->here(comm, 2));
    unmake(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(what_has_become_of_each_is_said),
        CHECK_TEST(among_many_a_rare_one_is_not_called_unresponsive),
        CHECK_TEST(what_another_does_is_its_last_word),
        CHECK_TEST(links_that_broke_and_decisions_are_lines),
        CHECK_TEST(too_many_lines_are_cut_at_a_line),
        CHECK_TEST(steps_are_summed_until_they_are_told),
        CHECK_TEST(only_who_is_there_and_connected_is_measured),
    };
    return CHECK_RUN(tests);
}
