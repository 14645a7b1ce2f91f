/* SPDX-License-Identifier: Apache-2.0 */
/* What is noted of another endpoint: a loss replaces a goodbye and nothing replaces a loss; a text
 * that names the rank does so once. */
#include "endpoint/peer.h"

#include "base/arena.h"
#include "endpoint/endpoint.h"
#include "support/check.h"

static shoal_comm *make(uint32_t size)
{
    shoal_comm *comm = shoali_alloc(sizeof *comm);
    assert_non_null(comm);
    comm->size = comm->ranks = size;
    comm->peers = shoali_alloc_array(size, sizeof *comm->peers);
    assert_non_null(comm->peers);
    return comm;
}

static void unmake(shoal_comm *comm)
{
    shoali_free(comm->peers);
    shoali_free(comm);
}

static void a_sign_of_life_ends_what_was_missed(void **state)
{
    (void)state;
    shoal_comm *comm = make(3);
    comm->loop.now_us = 70;
    comm->peers[1].missed = comm->peers[2].missed = true;
    shoali_peer_heard(comm, 1);
    assert_int_equal(comm->peers[1].heard_us, 70);
    assert_false(comm->peers[1].missed);
    assert_int_equal(comm->peers[2].heard_us, 0);
    assert_true(comm->peers[2].missed);
    unmake(comm);
}

static void a_loss_replaces_a_goodbye_and_stays(void **state)
{
    (void)state;
    shoal_comm *comm = make(2);
    shoali_peer *peer = &comm->peers[1];
    shoali_peer_gone(comm, 1, SHOAL_OK, NULL);
    assert_true(peer->gone && comm->view.peers_changed && comm->loop.busy);
    assert_int_equal(peer->gone_status, SHOAL_OK);
    assert_string_equal(peer->gone_text, "");
    shoali_peer_gone(comm, 1, SHOAL_EPEER, "reset by peer");
    assert_int_equal(peer->gone_status, SHOAL_EPEER);
    shoali_peer_gone(comm, 1, SHOAL_EAUTH, "another token");
    shoali_peer_gone(comm, 1, SHOAL_OK, NULL);
    assert_int_equal(peer->gone_status, SHOAL_EPEER);
    assert_string_equal(peer->gone_text, "reset by peer");
    assert_int_equal(peer->state, SHOALI_PEER_HERE); /* acted upon by others, at the round's end */
    unmake(comm);
}

static void a_rank_is_named_once(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"rank 1 (host here): reset by peer", "reset by peer"},
        {"rank 1 (host here) is lost", "rank 1 (host here) is lost"},
        {"reset: by peer", "reset: by peer"},
        {"rank 1: reset", "rank 1: reset"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        shoal_comm *comm = make(2);
        shoali_peer_gone(comm, 1, SHOAL_EPEER, texts[i][0]);
        assert_string_equal(comm->peers[1].gone_text, texts[i][1]);
        unmake(comm);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(a_sign_of_life_ends_what_was_missed),
                                       CHECK_TEST(a_loss_replaces_a_goodbye_and_stays),
                                       CHECK_TEST(a_rank_is_named_once)};
    return CHECK_RUN(tests);
}
