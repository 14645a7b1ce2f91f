/* SPDX-License-Identifier: Apache-2.0 */
/* A protocol machine hears all that came before it listened, in order, and who went. */
#include "alive/listen.h"

#include "alive/alive.h"
#include "support/check.h"
#include "support/fake_comm.h"
#include "wire/messages.h"

static fake_wire wire;

typedef struct ear {
    char heard[64]; /* "1a2b": rank and first byte of each */
    uint32_t downs, down;
    shoal_status why;
} ear;

static void on_message(void *ctx, uint32_t endpoint, const void *bytes, size_t len_bytes)
{
    ear *e = ctx;
    const size_t used = strlen(e->heard);
    assert_int_equal(len_bytes, 1);
    snprintf(e->heard + used, sizeof e->heard - used, "%u%c", endpoint, *(const char *)bytes);
}

static void on_peer_down(void *ctx, uint32_t endpoint, shoal_status why, const char *text)
{
    ear *e = ctx;
    (void)text;
    e->downs++;
    e->down = endpoint;
    e->why = why;
}

static void say(shoal_comm *comm, uint32_t from, const char *text)
{
    shoali_listen_message(comm, from, (const uint8_t *)text, 1);
}

static void who_comes_late_hears_all_in_order(void **state)
{
    (void)state;
    ear e = {.heard = ""};
    const shoali_comm_listener listener = {
        .ctx = &e, .on_message = on_message, .on_peer_down = on_peer_down};
    shoal_comm *comm = fake_comm_make(0, 4, &wire);
    say(comm, 1, "a");
    say(comm, 2, "b");
    say(comm, 1, "c");
    atomic_store(&comm->peers[3].state, SHOALI_PEER_LOST);
    comm->peers[3].lost_status = SHOAL_EPEER;
    assert_ok(shoali_comm_attach(comm, &listener));
    assert_string_equal(e.heard, "1a2b1c");
    assert_true(e.downs == 1 && e.down == 3 && e.why == SHOAL_EPEER);
    assert_int_equal(comm->ears.early_bytes, 0);
    say(comm, 2, "d");
    assert_string_equal(e.heard, "1a2b1c2d");
    fake_comm_free(comm);
}

static void one_at_a_time(void **state)
{
    (void)state;
    ear first = {.heard = ""}, next = {.heard = ""};
    shoali_comm_listener listener = {.ctx = &first, .on_message = on_message, .goes_on = true};
    shoal_comm *comm = fake_comm_make(0, 2, &wire);
    assert_ok(shoali_comm_attach(comm, &listener));
    assert_status(shoali_comm_attach(comm, &listener), SHOAL_EINVAL);
    assert_error_has("has a protocol machine already");
    shoali_comm_detach(comm);
    say(comm, 1, "x"); /* for the next one */
    listener.ctx = &next;
    listener.goes_on = false;
    assert_ok(shoali_comm_attach(comm, &listener));
    assert_string_equal(first.heard, "");
    assert_string_equal(next.heard, "1x");
    assert_true(comm->ears.tells_all); /* as one of them needs it */
    fake_comm_free(comm);
}

static void what_is_kept_is_bounded(void **state)
{
    enum { PIECE = 1 << 20 };
    (void)state;
    shoal_comm *comm = fake_comm_make(0, 2, &wire);
    uint8_t *bytes = calloc(1, PIECE);
    assert_non_null(bytes);
    for (int i = 0; i < SHOALI_EARLY_BYTES / PIECE; i++)
        shoali_listen_message(comm, 1, bytes, PIECE);
    assert_false(comm->peers[1].gone);
    shoali_listen_message(comm, 1, bytes, 1);
    assert_true(comm->peers[1].gone);
    assert_int_equal(comm->peers[1].gone_status, SHOAL_EPEER);
    assert_int_equal(comm->ears.early_bytes, SHOALI_EARLY_BYTES);
    shoali_listen_free(&comm->ears);
    assert_int_equal(comm->ears.early_bytes, 0);
    free(bytes);
    fake_comm_free(comm);
}

static void a_message_goes_to_another_rank(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(0, 2, &wire);
    assert_ok(shoali_comm_send(comm, 1, "hello", 5));
    assert_int_equal(wire.count, 1);
    assert_int_equal(wire.sent[0].kind, SHOALI_MESSAGE_protocol);
    assert_memory_equal(wire.sent[0].bytes, "hello", 5);
    assert_status(shoali_comm_send(comm, 0, "hello", 5), SHOAL_EINVAL);
    assert_status(shoali_comm_send(comm, 2, "hello", 5), SHOAL_EINVAL);
    assert_status(shoali_comm_send(comm, 1, "hello", SHOALI_CONTROL_MAX_BYTES + 1), SHOAL_EINVAL);
    assert_int_equal(wire.count, 1);
    fake_comm_free(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(who_comes_late_hears_all_in_order),
        CHECK_TEST(one_at_a_time),
        CHECK_TEST(what_is_kept_is_bounded),
        CHECK_TEST(a_message_goes_to_another_rank),
    };
    return CHECK_RUN(tests);
}
