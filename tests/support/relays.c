/* SPDX-License-Identifier: Apache-2.0 */
#include "support/relays.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "support/check.h"

shoali_relay_desc relay_desc(uint32_t me, uint32_t size)
{
    return (shoali_relay_desc){.me = me,
                               .size = size,
                               .incarnation = 7 + me,
                               .job = "relay test",
                               .token = (const uint8_t *)"0123456789abcdef",
                               .token_bytes = 16,
                               .deadline_us = 60 * 1000 * 1000};
}

shoali_address relay_address(uint32_t host, const char *ips, uint16_t relay_port)
{
    shoali_address address;
    char text[SHOALI_ADDRESS_BYTES], relay[24] = "";
    if (relay_port != 0)
        snprintf(relay, sizeof relay, " relay=%u", relay_port);
    snprintf(text, sizeof text, "host=h%u port=9 ip=%s boot=b netns=%u%s", host, ips, host + 1,
             relay);
    assert_ok(shoali_address_parse(text, &address));
    return address;
}

/* Connected to where nothing comes from, it takes no datagram; and it may share its port only once
 * it has one of its own. */
uint16_t relay_find_port(int *fd_out)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    const int on = 1, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    nobody.sin_port = htons(9);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &length), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&nobody, sizeof nobody), 0);
    *fd_out = fd;
    return ntohs(at.sin_port);
}
