/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of a rendezvous, both ends of it in one thread. */
#include "support/check.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "meet/stream.h"
#include "wire/messages.h"

static shoali_token tokens[2];
static shoali_record mine[2];
static shoali_meeting meetings[2];
static shoali_meet_stream ends[2]; /* [0] dials */

static int open_both(void **state)
{
    int fds[2];
    (void)state;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
        return -1;
    for (uint32_t i = 0; i < 2; i++) {
        memcpy(tokens[i].bytes, "0123456789abcdef", 16);
        tokens[i].len_bytes = 16;
        mine[i] = (shoali_record){
            .rank = 1 - i, .world_size = 2, .workers = 2, .incarnation = 70 + i};
        meetings[i] = (shoali_meeting){.job = "stream", .token = &tokens[i], .mine = &mine[i]};
        memset(&ends[i], 1, sizeof ends[i]); /* start says all */
        if (shoali_meet_stream_start(&ends[i], fds[i], i == 0, &meetings[i]) != SHOAL_OK)
            return -1;
    }
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        shoali_meet_stream_close(&ends[i]);
        shoali_meet_stream_close(&ends[i]);
    }
    return 0;
}

static shoal_status read_one(int end, uint16_t *kind_out, const uint8_t **body_out, size_t *len_out)
{
    return shoali_meet_stream_read(&ends[end], kind_out, body_out, len_out);
}

static shoal_status shake_hands(void)
{
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    shoal_status status = SHOAL_PENDING;
    for (int turn = 0; turn < 8 && status == SHOAL_PENDING; turn++)
        for (int i = 0; i < 2 && status == SHOAL_PENDING; i++) {
            shoali_meet_stream_try(&ends[i]);
            status = read_one(i, &kind, &body, &length);
        }
    return status;
}

static void first_they_prove_themselves(void **state)
{
    (void)state;
    assert_false(ends[1].heard);
    assert_false(shoali_meet_stream_put(&ends[0], SHOALI_MESSAGE_waiting, "x", 1));
    assert_true(shoali_meet_stream_wants_out(&ends[0]));  /* its hello */
    assert_false(shoali_meet_stream_wants_out(&ends[1])); /* the dialler begins */
    assert_int_equal(shake_hands(), SHOAL_PENDING);
    for (int i = 0; i < 2; i++) {
        assert_true(ends[i].open && ends[i].heard);
        assert_true(shoali_meet_stream_idle(&ends[i]));
        assert_int_equal(ends[i].shake.peer.endpoint, (uint32_t)i);
        assert_int_equal(ends[i].shake.peer.incarnation, mine[1 - i].incarnation);
        assert_int_equal(ends[i].shake.peer.purpose, SHOALI_PURPOSE_JOIN);
    }
    assert_memory_not_equal(ends[0].shake.self.nonce, ends[1].shake.self.nonce, SHOALI_NONCE_BYTES);
}

static void another_token_opens_nothing(void **state)
{
    (void)state;
    tokens[1].bytes[0] ^= 1;
    assert_status(shake_hands(), SHOAL_EAUTH);
    assert_false(ends[0].open || ends[1].open);
}

static void frames_come_whole_and_in_order(void **state)
{
    (void)state;
    static uint8_t longest[SHOALI_MEET_BODY_BYTES + 1];
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    for (size_t i = 0; i < sizeof longest; i++)
        longest[i] = (uint8_t)(i * 7);
    assert_int_equal(shake_hands(), SHOAL_PENDING);
    for (int from = 0; from < 2; from++) {
        shoali_meet_stream *end = &ends[from];
        assert_false(shoali_meet_stream_put(end, SHOALI_MESSAGE_record, longest, sizeof longest));
        assert_true(
            shoali_meet_stream_put(end, SHOALI_MESSAGE_record, longest, SHOALI_MEET_BODY_BYTES));
        assert_false(shoali_meet_stream_idle(end));
        assert_false(shoali_meet_stream_put(end, SHOALI_MESSAGE_waiting, "x", 1)); /* one by one */
        assert_ok(shoali_meet_stream_write(end));
        assert_true(shoali_meet_stream_put(end, SHOALI_MESSAGE_waiting, "", 0));
        assert_ok(shoali_meet_stream_write(end));
        assert_ok(read_one(1 - from, &kind, &body, &length));
        assert_int_equal(kind, SHOALI_MESSAGE_record);
        assert_int_equal(length, SHOALI_MEET_BODY_BYTES);
        assert_memory_equal(body, longest, length);
        assert_ok(read_one(1 - from, &kind, &body, &length));
        assert_int_equal(kind, SHOALI_MESSAGE_waiting);
        assert_int_equal(length, 0);
        assert_int_equal(read_one(1 - from, &kind, &body, &length), SHOAL_PENDING);
    }
}

/* A frame comes byte by byte; what has come stays until the rest is there. */
static void pieces_make_a_frame(void **state)
{
    (void)state;
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    assert_int_equal(shake_hands(), SHOAL_PENDING);
    assert_true(shoali_meet_stream_put(&ends[0], SHOALI_MESSAGE_waiting, "rank 3", 6));
    for (size_t i = 0; i < ends[0].out_len; i++) {
        assert_int_equal(read_one(1, &kind, &body, &length), SHOAL_PENDING);
        assert_int_equal(send(ends[0].fd, ends[0].out + i, 1, MSG_NOSIGNAL), 1);
    }
    assert_ok(read_one(1, &kind, &body, &length));
    assert_int_equal(length, 6);
    assert_memory_equal(body, "rank 3", 6);
}

static void longer_frames_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[SHOALI_FRAME_BYTES];
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    const shoali_frame frame = {.kind = SHOALI_MESSAGE_record,
                                .head.len_bytes = SHOALI_MEET_BODY_BYTES + 1};
    assert_int_equal(shake_hands(), SHOAL_PENDING);
    shoali_frame_encode(&frame, bytes);
    assert_int_equal(send(ends[0].fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
    assert_status(read_one(1, &kind, &body, &length), SHOAL_ECORRUPT);
}

static void who_hangs_up_is_noticed(void **state)
{
    (void)state;
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    assert_int_equal(shake_hands(), SHOAL_PENDING);
    assert_true(shoali_meet_stream_put(&ends[1], SHOALI_MESSAGE_waiting, "rank 3", 6));
    shoali_meet_stream_close(&ends[0]);
    assert_false(ends[0].open);
    assert_status(shoali_meet_stream_write(&ends[1]), SHOAL_EPEER);
    assert_status(read_one(1, &kind, &body, &length), SHOAL_EPEER);
}

/* A connection whose socket takes a part of a frame, too. */
static void make_narrow(int fds[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    const int bytes = 1; /* the least that there is */
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &length), 0);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
    assert_int_equal(connect(fds[0], (const struct sockaddr *)&at, sizeof at), 0);
    fds[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(fds[1] >= 0);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    close(listener);
}

/* More than the socket takes waits, and goes on where it stood. */
static void a_full_socket_is_waited_for(void **state)
{
    (void)state;
    static uint8_t block[SHOALI_MEET_BODY_BYTES];
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    uint32_t put = 0;
    int fds[2];
    make_narrow(fds);
    for (int i = 0; i < 2; i++) {
        shoali_meet_stream_close(&ends[i]);
        assert_ok(shoali_meet_stream_start(&ends[i], fds[i], i == 0, &meetings[i]));
    }
    while (!ends[0].open || !ends[1].open)
        assert_int_equal(shake_hands(), SHOAL_PENDING);
    for (; shoali_meet_stream_idle(&ends[0]); put++) {
        memset(block, (int)put, sizeof block);
        assert_true(shoali_meet_stream_put(&ends[0], SHOALI_MESSAGE_record, block, sizeof block));
        assert_ok(shoali_meet_stream_write(&ends[0]));
    }
    assert_true(shoali_meet_stream_wants_out(&ends[0]));
    for (uint32_t got = 0; got < put; got++) {
        shoal_status status;
        while ((status = read_one(1, &kind, &body, &length)) == SHOAL_PENDING)
            assert_ok(shoali_meet_stream_write(&ends[0]));
        assert_ok(status);
        assert_int_equal(length, sizeof block);
        assert_int_equal(body[0], (uint8_t)got);
        assert_int_equal(body[length - 1], (uint8_t)got);
    }
    assert_true(shoali_meet_stream_idle(&ends[0]));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_both, close_both)

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        TEST(first_they_prove_themselves),    TEST(another_token_opens_nothing),
        TEST(frames_come_whole_and_in_order), TEST(pieces_make_a_frame),
        TEST(longer_frames_are_refused),      TEST(who_hangs_up_is_noticed),
        TEST(a_full_socket_is_waited_for)};
    return CHECK_RUN(tests);
}
