/* SPDX-License-Identifier: Apache-2.0 */
/* Two sockets on loopback: bytes, senders, sizes, a full queue. */
#include "transport/udp.h"

#include <poll.h>

#include "support/check.h"
#include "wire/packet.h"

enum { WAIT_MS = 5000 };

typedef struct heard {
    uint32_t count;
    size_t len_bytes;
    uint8_t first, last;
    shoali_ip from;
} heard;

static void hear(void *ctx, const shoali_ip *from, const uint8_t *bytes, size_t len_bytes)
{
    heard *h = ctx;
    h->count++;
    h->from = *from;
    h->len_bytes = len_bytes;
    h->first = bytes[0];
    h->last = bytes[len_bytes - 1];
}

static void hear_all(shoali_udp *udp, uint32_t count, heard *h)
{
    while (h->count < count) {
        struct pollfd wait = {.fd = shoali_udp_fd(udp), .events = POLLIN};
        assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
        while (shoali_udp_receive(udp, hear, h))
            ;
    }
}

static shoali_udp *opened(void)
{
    shoali_ip loopback;
    shoali_udp *udp;
    assert_true(shoali_ip_parse("127.0.0.1", &loopback));
    assert_ok(shoali_udp_open(&loopback, &udp));
    return udp;
}

static void packets_come_as_they_went(void **state)
{
    (void)state;
    shoali_udp *a = opened(), *b = opened();
    uint8_t bytes[SHOALI_PACKET_BYTES + 4 * SHOALI_PACKET_VALUES_MAX] = {7};
    heard h = {0};
    assert_int_equal(shoali_udp_bytes(a), sizeof bytes); /* loopback has room for more */
    bytes[sizeof bytes - 1] = 9;
    for (uint32_t i = 0; i < 40; i++)
        shoali_udp_send(a, shoali_udp_address(b), bytes, sizeof bytes);
    assert_true(shoali_udp_flush(a));
    hear_all(b, 40, &h);
    assert_true(h.len_bytes == sizeof bytes && h.first == 7 && h.last == 9);
    assert_true(shoali_ip_equal(&h.from, shoali_udp_address(a)));
    assert_int_equal(shoali_ip_port(&h.from), shoali_ip_port(shoali_udp_address(a)));
    assert_int_equal(shoali_udp_counted(a).sent, 40);
    assert_int_equal(shoali_udp_counted(b).received, 40);
    shoali_udp_close(a);
    shoali_udp_close(b);
}

/* Too large: dropped and counted; nobody there: no error that stops the next one. */
static void what_cannot_go_is_dropped(void **state)
{
    (void)state;
    shoali_udp *a = opened(), *b = opened();
    static const uint8_t large[9000] = {0};
    const shoali_ip gone = *shoali_udp_address(b);
    heard h = {0};
    shoali_udp_send(a, &gone, large, sizeof large);
    assert_int_equal(shoali_udp_counted(a).dropped, 1);
    shoali_udp_close(b);
    for (int i = 0; i < 3; i++) {
        shoali_udp_send(a, &gone, large, 40);
        assert_true(shoali_udp_flush(a)); /* the refusal of the one before ends here */
    }
    b = opened();
    shoali_udp_send(a, shoali_udp_address(b), large, 40);
    assert_true(shoali_udp_flush(a));
    hear_all(b, 1, &h);
    assert_int_equal(h.len_bytes, 40);
    shoali_udp_close(a);
    shoali_udp_close(b);
    shoali_udp_close(NULL);
}

static void an_address_that_is_not_ours(void **state)
{
    (void)state;
    shoali_ip elsewhere;
    shoali_udp *udp;
    assert_true(shoali_ip_parse("192.0.2.1", &elsewhere));
    assert_status(shoali_udp_open(&elsewhere, &udp), SHOAL_ESYSTEM);
    assert_error_has("192.0.2.1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(packets_come_as_they_went),
                                       CHECK_TEST(what_cannot_go_is_dropped),
                                       CHECK_TEST(an_address_that_is_not_ours)};
    return CHECK_RUN(tests);
}
