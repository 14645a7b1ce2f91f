/* SPDX-License-Identifier: Apache-2.0 */
#include "support/far_end.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/check.h"

enum { TURNS = 6000, TURN_MS = 10 };

void far_end_call(shoali_meet_stream *end, uint16_t port, const shoali_meeting *meeting)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons(port);
    for (int turn = 0; turn < TURNS; turn++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0) {
            assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
            assert_ok(shoali_meet_stream_start(end, fd, true, meeting));
            return;
        }
        close(fd);
        (void)poll(NULL, 0, TURN_MS);
    }
    fail_msg("nobody listens at port %u", port);
}

void far_end_answer(shoali_meet_stream *end, int listener, const shoali_meeting *meeting)
{
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&wait, 1, TURNS * TURN_MS), 1);
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(fd >= 0);
    assert_ok(shoali_meet_stream_start(end, fd, false, meeting));
}

shoal_status far_end_hear(shoali_meet_stream *end, uint16_t *kind_out, const uint8_t **body_out,
                          size_t *len_bytes_out)
{
    shoal_status status = SHOAL_PENDING;
    for (int turn = 0; turn < TURNS && status == SHOAL_PENDING; turn++) {
        struct pollfd wait = {.fd = end->fd, .events = POLLIN};
        shoali_meet_stream_try(end);
        status = shoali_meet_stream_read(end, kind_out, body_out, len_bytes_out);
        if (status == SHOAL_PENDING)
            (void)poll(&wait, 1, TURN_MS);
    }
    shoali_meet_stream_try(end);
    return status;
}

/* What the other side says meanwhile stays in the socket. */
bool far_end_say(shoali_meet_stream *end, uint16_t kind, const void *body, size_t len_bytes)
{
    bool put = false;
    for (int turn = 0; turn < TURNS; turn++) {
        uint16_t ignored;
        const uint8_t *no_body;
        size_t no_bytes;
        struct pollfd wait = {.fd = end->fd, .events = POLLIN};
        if (!end->open) {
            shoal_status status = shoali_meet_stream_read(end, &ignored, &no_body, &no_bytes);
            if (status != SHOAL_PENDING && !end->open)
                return false;
        }
        put = put || shoali_meet_stream_put(end, kind, body, len_bytes);
        if (shoali_meet_stream_write(end) != SHOAL_OK)
            return false;
        if (put && shoali_meet_stream_idle(end))
            return true;
        (void)poll(&wait, 1, put ? 0 : TURN_MS);
    }
    return false;
}
