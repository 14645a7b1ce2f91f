/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a relay, and calling it. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "relay/inner.h"
#include "transport/tcp_socket.h"
#include "wire/find.h"

/* ------------------------------------------------------------------ the opening */

shoal_status shoali_relay_greet(const shoali_relay *relay, bool dialler, uint32_t target,
                                uint32_t to, uint8_t hops, shoali_handshake *handshake_out)
{
    shoali_hello self = {.purpose = SHOALI_PURPOSE_RELAY,
                         .endpoint = relay->desc.me,
                         .target = target,
                         .lane = (uint16_t)to,
                         .tos = hops,
                         .incarnation = relay->desc.incarnation};
    memcpy(self.job, relay->job, sizeof self.job);
    SHOALI_TRY(shoali_random(self.nonce, sizeof self.nonce));
    shoali_handshake_start(handshake_out, dialler, &self, relay->token, relay->desc.token_bytes);
    return SHOAL_OK;
}

/* The messages are shorter than any socket buffer: a short write is a failure. */
static shoal_status send_out(int fd, shoali_handshake *handshake)
{
    size_t length = handshake->out_len;
    handshake->out_len = 0;
    if (length == 0 || send(fd, handshake->out, length, MSG_NOSIGNAL) == (ssize_t)length)
        return SHOAL_OK;
    return shoali_fail_os(SHOAL_EPEER, errno, "cannot send a hello");
}

static shoal_status refused(int fd, shoali_handshake *handshake, shoal_status status)
{
    shoal_error why;
    shoali_error_get(&why);
    if (send_out(fd, handshake) != SHOAL_OK) /* the refusal; its failure is of no interest */
        return shoali_error_set(&why);
    return status;
}

shoal_status shoali_relay_advance(int fd, shoali_handshake *handshake)
{
    SHOALI_TRY(send_out(fd, handshake));
    while (!handshake->done) {
        uint8_t bytes[SHOALI_HELLO_BYTES];
        size_t got;
        SHOALI_TRY(shoali_tcp_receive(fd, bytes, shoali_handshake_want(handshake), &got));
        shoal_status status = shoali_handshake_feed(handshake, bytes, got);
        if (status != SHOAL_OK && status != SHOAL_PENDING)
            return refused(fd, handshake, status);
        SHOALI_TRY(send_out(fd, handshake));
    }
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ asking */

/* Everybody on a cable, or the other end where there are but two. False: no such address. */
static bool all_behind(const shoali_address *mine, uint32_t i, uint16_t port, shoali_ip *to_out)
{
    uint32_t bits = mine->subnet_bits[i];
    shoali_ip to = mine->ips[i];
    if (to.any.sa_family != AF_INET || bits == 0 || bits > 31)
        return false;
    to.v4.sin_addr.s_addr = bits == 31 ? to.v4.sin_addr.s_addr ^ htonl(1)
                                       : to.v4.sin_addr.s_addr | htonl(UINT32_MAX >> bits);
    shoali_ip_set_port(&to, port);
    *to_out = to;
    return true;
}

static void ask(const shoali_relay *relay, int fd, const uint8_t question[SHOALI_FIND_BYTES])
{
    for (uint32_t i = 0; i < relay->mine.ip_count; i++) {
        shoali_ip to;
        if (all_behind(&relay->mine, i, relay->desc.find_port, &to) &&
            sendto(fd, question, SHOALI_FIND_BYTES, 0, &to.any, shoali_ip_bytes(&to)) < 0)
            continue; /* this cable is not plugged in */
    }
}

static bool hear(const shoali_relay *relay, int fd, const shoali_find *question,
                 shoali_way *way_out)
{
    uint8_t bytes[SHOALI_FIND_BYTES + 1];
    shoali_ip from = {.any = {0}};
    shoali_find answer;
    socklen_t length = sizeof from;
    ssize_t got = recvfrom(fd, bytes, sizeof bytes, MSG_DONTWAIT, &from.any, &length);
    if (got < 0 ||
        !shoali_find_decode(bytes, (size_t)got, relay->job, relay->token, relay->desc.token_bytes,
                            &answer) ||
        answer.kind != SHOALI_FIND_TELL ||
        memcmp(answer.nonce, question->nonce, sizeof answer.nonce) != 0)
        return false;
    *way_out = (shoali_way){.ip = from, .relayed = true, .rank = answer.endpoint};
    shoali_ip_set_port(&way_out->ip, answer.port);
    return true;
}

bool shoali_relay_find(const shoali_relay *relay, uint64_t until_us, shoali_way *way_out)
{
    shoali_find question = {.kind = SHOALI_FIND_ASK, .endpoint = relay->desc.me};
    uint8_t bytes[SHOALI_FIND_BYTES];
    const int on = 1;
    bool found = false;
    int fd = relay->desc.find_port != 0 ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (fd < 0)
        return false;
    if (setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof on) == 0 &&
        shoali_random(question.nonce, sizeof question.nonce) == SHOAL_OK &&
        shoali_find_encode(&question, relay->job, relay->token, relay->desc.token_bytes, bytes)) {
        ask(relay, fd, bytes);
        for (uint64_t now_us = shoali_now_us(); !found && now_us < until_us;
             now_us = shoali_now_us()) {
            struct pollfd wait = {.fd = fd, .events = POLLIN};
            found = poll(&wait, 1, (int)((until_us - now_us) / 1000) + 1) > 0 &&
                    hear(relay, fd, &question, way_out);
        }
    }
    close(fd);
    return found;
}

/* ------------------------------------------------------------------ calling */

static shoal_status wait_for(int fd, short events, uint64_t until_us)
{
    uint64_t now_us = shoali_now_us();
    struct pollfd wait = {.fd = fd, .events = events};
    if (now_us < until_us && poll(&wait, 1, (int)((until_us - now_us) / 1000) + 1) > 0)
        return SHOAL_OK;
    return shoali_fail(SHOAL_ETIMEDOUT, "no answer");
}

static shoal_status call(const shoali_relay *relay, int fd, const shoali_way *way, uint32_t to,
                         uint8_t door, uint64_t until_us)
{
    shoali_handshake handshake;
    shoal_status status;
    SHOALI_TRY(shoali_relay_greet(relay, true, way->rank, to, door, &handshake));
    SHOALI_TRY(wait_for(fd, POLLOUT, until_us));
    while ((status = shoali_relay_advance(fd, &handshake)) == SHOAL_PENDING)
        SHOALI_TRY(wait_for(fd, POLLIN, until_us));
    return status;
}

static int call_by(const shoali_relay *relay, const shoali_way *way, uint32_t to, uint8_t door,
                   uint64_t until_us)
{
    int fd = shoali_tcp_dial(&way->ip, 0, relay->desc.deadline_us);
    if (fd < 0 || call(relay, fd, way, to, door, until_us) == SHOAL_OK)
        return fd;
    close(fd);
    return -1;
}

int shoali_relay_call(const shoali_relay *relay, const shoali_way *way, uint64_t until_us)
{
    return call_by(relay, way, SHOALI_RELAY_STORE, 0, until_us);
}

int shoali_relay_call_door(shoali_relay *relay, uint32_t rank, uint64_t until_us)
{
    shoali_way way;
    if (shoali_relay_way(relay, rank, &way))
        return call_by(relay, &way, rank, SHOALI_RELAY_DOOR, until_us);
    (void)shoali_fail(SHOAL_EPEER, "no relay leads to rank %u", rank);
    return -1;
}
