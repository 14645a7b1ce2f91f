/* SPDX-License-Identifier: Apache-2.0 */
/* What transports report: each message goes to whom it concerns, and who sends nonsense is lost. */
#include "comm/inner.h"

#include "alive/listen.h"
#include "support/check.h"
#include "support/fake_comm.h"
#include "wire/control.h"
#include "wire/messages.h"

static fake_wire wire;

static void hear(shoal_comm *comm, uint16_t kind, const void *bytes, size_t len_bytes)
{
    shoali_link_events.control(&comm->links.control, 1, kind, bytes, len_bytes);
}

static void whatever_comes_is_a_sign_of_life(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(0, 3, &wire);
    comm->peers[1].heard_us = comm->peers[2].heard_us = 1;
    comm->peers[1].missed = true;
    comm->peers[1].asked_us = 1;
    hear(comm, SHOALI_MESSAGE_protocol, "x", 1);
    assert_int_equal(comm->peers[1].heard_us, comm->loop.now_us);
    assert_int_equal(comm->peers[2].heard_us, 1);
    assert_true(!comm->peers[1].missed && comm->peers[1].asked_us == 0 && comm->loop.busy);
    assert_int_equal(comm->ears.early_bytes, 1);
    shoali_listen_free(&comm->ears);
    fake_comm_free(comm);
}

static void a_message_goes_to_whom_it_concerns(void **state)
{
    (void)state;
    uint8_t body[SHOALI_HEARTBEAT_BYTES];
    shoal_comm *comm = fake_comm_make(0, 3, &wire);
    const shoali_heartbeat beat = {.text = "all-reduce 3"};
    const shoali_missed missed = {2};
    const shoali_reform reform = {.what = SHOALI_REFORM_ENDING};
    uint8_t change[SHOALI_REFORM_MESSAGE_BYTES], absent[SHOALI_MISSED_BYTES];
    hear(comm, SHOALI_MESSAGE_heartbeat, body, shoali_heartbeat_encode(&beat, body));
    assert_string_equal(comm->peers[1].doing.text, "all-reduce 3");
    hear(comm, SHOALI_MESSAGE_missed, absent, shoali_missed_encode(&missed, absent));
    assert_true(comm->peers[2].missed && comm->view.look_for_missed);
    hear(comm, SHOALI_MESSAGE_there, absent, shoali_missed_encode(&(shoali_missed){0}, absent));
    assert_true(comm->peers[1].asks && comm->view.answers);
    hear(comm, SHOALI_MESSAGE_reform, change, shoali_reform_encode(&reform, change));
    assert_true(atomic_load(&comm->reform.ending));
    assert_false(comm->peers[1].gone);
    fake_comm_free(comm);
}

static void who_sends_nonsense_is_lost(void **state)
{
    static const uint16_t kinds[] = {SHOALI_MESSAGE_heartbeat, SHOALI_MESSAGE_reform,
                                     SHOALI_MESSAGE_missed, SHOALI_MESSAGE_there, 60000};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        shoal_comm *comm = fake_comm_make(0, 3, &wire);
        hear(comm, kinds[i], "\xff", 1);
        assert_true(comm->peers[1].gone && !comm->peers[2].gone);
        assert_int_equal(comm->peers[1].gone_status, SHOAL_EPEER);
        assert_non_null(strstr(comm->peers[1].gone_text, "a malformed message of kind"));
        fake_comm_free(comm);
    }
}

/* During the join another way is left; later what was on its way is lost with it. */
static void a_near_transport_that_never_came_up_is_no_loss(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(0, 3, &wire);
    shoali_link *near = &comm->links.near;
    *near = (shoali_link){.comm = comm, .kind = comm->links.control.row};
    comm->peers[1].near = comm->peers[2].near = true;
    shoali_link_events.peer_down(near, 1, SHOAL_EPEER, "no memory");
    assert_true(!comm->peers[1].near && !comm->peers[1].gone);
    shoali_link_events.peer_up(near, 2);
    assert_true(comm->peers[2].near_up);
    shoali_link_events.peer_down(near, 2, SHOAL_EPEER, "it is gone");
    assert_true(comm->peers[2].near && comm->peers[2].gone);
    fake_comm_free(comm);
}

static void a_broken_link_of_several_is_noted(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(0, 3, &wire);
    shoali_link_events.link_down(&comm->links.control, 1, false, "a - b is silent");
    assert_false(comm->peers[1].link_broke);
    shoali_link_events.link_down(&comm->links.control, 1, true, "a - b is cut");
    assert_true(comm->peers[1].link_broke && comm->view.peers_changed);
    assert_non_null(strstr(comm->peers[1].link_text, "rank 0 to rank 1 (host h1): a - b is cut"));
    assert_false(comm->peers[1].gone);
    fake_comm_free(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(whatever_comes_is_a_sign_of_life),
        CHECK_TEST(a_message_goes_to_whom_it_concerns),
        CHECK_TEST(who_sends_nonsense_is_lost),
        CHECK_TEST(a_near_transport_that_never_came_up_is_no_loss),
        CHECK_TEST(a_broken_link_of_several_is_noted),
    };
    return CHECK_RUN(tests);
}
