/* SPDX-License-Identifier: Apache-2.0 */
/* What is told to whom when members may change, and what is noted of it. */
#include "alive/tell.h"

#include "alive/alive.h"
#include "support/check.h"
#include "support/fake_comm.h"
#include "wire/messages.h"

static fake_wire wire;

static uint32_t what_of(const fake_frame *frame)
{
    shoali_reform message;
    assert_int_equal(frame->kind, SHOALI_MESSAGE_reform);
    assert_true(shoali_reform_decode(frame->bytes, frame->len_bytes, &message));
    return message.what;
}

static void only_those_who_are_there_are_told_and_once(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(1, 5, &wire);
    comm->peers[2].up = false;
    atomic_store(&comm->peers[3].state, SHOALI_PEER_LOST);
    shoali_reform_want(comm);
    assert_int_equal(wire.count, 2);
    assert_int_equal(wire.sent[0].to, 0);
    assert_int_equal(wire.sent[1].to, 4);
    assert_int_equal(what_of(&wire.sent[0]), SHOALI_REFORM_WANTED);
    shoali_reform_want(comm);
    assert_int_equal(wire.count, 2);
    assert_true(atomic_load(&comm->reform.wanted) && !atomic_load(&comm->reform.going));
    fake_comm_free(comm);
}

/* Without a door members are fixed: nobody is told anything. */
static void a_job_of_fixed_members_says_nothing(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(0, 3, &wire);
    shoali_comm_goes(comm);
    shoali_comm_ends(comm);
    shoali_comm_want_reform(comm);
    assert_int_equal(wire.count, 0);
    assert_false(atomic_load(&comm->reform.wanted) || atomic_load(&comm->reform.ending));
    fake_comm_free(comm);
}

static void who_leaves_says_so_and_starts_nothing_more(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(0, 3, &wire);
    shoali_reform_leave(comm);
    assert_true(comm->reform.leaving);
    assert_int_equal(wire.count, 2);
    assert_int_equal(what_of(&wire.sent[1]), SHOALI_REFORM_LEAVING);
    shoali_reform_say_moved(comm);
    assert_int_equal(what_of(&wire.sent[2]), SHOALI_REFORM_MOVED);
    fake_comm_free(comm);
}

static void hear(shoal_comm *comm, uint32_t from, uint32_t what)
{
    const shoali_reform message = {.what = what};
    shoali_reform_on_message(comm, from, &message);
}

static void what_is_heard_is_noted(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(0, 4, &wire);
    hear(comm, 1, SHOALI_REFORM_WANTED);
    assert_true(atomic_load(&comm->reform.wanted));
    assert_false(shoali_comm_others_go(comm));
    hear(comm, 2, SHOALI_REFORM_LEAVING);
    assert_true(comm->peers[2].leaving && shoali_comm_others_go(comm));
    assert_false(comm->peers[1].leaving || comm->peers[2].moved);
    hear(comm, 2, SHOALI_REFORM_MOVED);
    assert_true(comm->peers[2].moved);
    hear(comm, 3, SHOALI_REFORM_ENDING);
    assert_true(atomic_load(&comm->reform.ending));
    fake_comm_free(comm);
}

static void each_is_ready_once_and_the_leader_alone_begins(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(2, 4, &wire);
    hear(comm, 1, SHOALI_REFORM_READY);
    hear(comm, 1, SHOALI_REFORM_READY);
    hear(comm, 3, SHOALI_REFORM_READY);
    assert_int_equal(atomic_load(&comm->reform.ready), 2);
    hear(comm, 3, SHOALI_REFORM_GO);
    assert_false(atomic_load(&comm->reform.begun));
    hear(comm, 0, SHOALI_REFORM_GO);
    assert_true(atomic_load(&comm->reform.begun));
    assert_ok(shoali_reform_begin(comm));
    fake_comm_free(comm);
}

/* The leader that is lost before it has said GO is named. */
static void an_epoch_does_not_begin_without_its_leader(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(2, 3, &wire);
    comm->epoch = 7;
    comm->join_timeout_us = 60 * 1000 * 1000;
    atomic_store(&comm->peers[0].state, SHOALI_PEER_LOST);
    snprintf(comm->peers[0].lost_text, sizeof comm->peers[0].lost_text, "rank 0 is lost");
    assert_status(shoali_reform_begin(comm), SHOAL_EPEER);
    assert_error_has("before epoch 7 began: rank 0 is lost");
    assert_int_equal(shoal_last_error()->rank, 0);
    fake_comm_free(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(only_those_who_are_there_are_told_and_once),
        CHECK_TEST(a_job_of_fixed_members_says_nothing),
        CHECK_TEST(who_leaves_says_so_and_starts_nothing_more),
        CHECK_TEST(what_is_heard_is_noted),
        CHECK_TEST(each_is_ready_once_and_the_leader_alone_begins),
        CHECK_TEST(an_epoch_does_not_begin_without_its_leader),
    };
    return CHECK_RUN(tests);
}
