/* SPDX-License-Identifier: Apache-2.0 */
/* Connections between all ranks, and what they carry. A connection opens with 16 bytes: a number
 * that rank 0 drew for this run, then who dials; strangers do not know the number. In a round, two
 * ranks do the same things in the same order (the lower one begins):
 *
 *     round trips of 64 bytes; the answer carries the other's clock
 *     8 KB each way in full segments, answered by one byte: large packets may vanish on the way
 *     if they do: datagrams of all sizes, marked not to be cut; the largest that arrives counts
 *     as much as goes in 0.15 s, one way and then the other */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "doctor/doctor.h"
#include "wire/bytes.h"

enum {
    HELLO_BYTES = 16,
    PING_BYTES = 64,
    PINGS = 12,
    LARGE_BYTES = 8192,
    BLOCK_BYTES = 65536,
    CONNECT_US = 2000000,
    ANSWER_US = 2000000,
    LARGE_US = 1000000,
    FLOW_US = 150000,
    FLOW_SKIP_US = 40000,
    FLOW_LIMIT_US = 4000000,
    UNSENT_BYTES = 131072,
    PROBE_US = 150000
};

struct shoali_pairs {
    int listener, datagrams;
    int fd[SHOALI_DOCTOR_MAX_RANKS];     /* dialled here, then (see settle) the pair's one */
    int called[SHOALI_DOCTOR_MAX_RANKS]; /* dialled by the other */
    uint8_t block[BLOCK_BYTES];
};

/* ---------------------------------------------------------------- bytes with a deadline */

/* Looks once more when the deadline is over. */
static bool wait_for(int fd, short events, uint64_t deadline_us)
{
    uint64_t now_us = shoali_now_us();
    struct pollfd one = {.fd = fd, .events = events};
    int ms = now_us < deadline_us ? (int)((deadline_us - now_us + 999) / 1000) : 0;
    return poll(&one, 1, ms) > 0;
}

static bool send_all(int fd, const uint8_t *bytes, size_t count, uint64_t deadline_us)
{
    while (count > 0) {
        ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            bytes += sent;
            count -= (size_t)sent;
        } else if ((errno != EAGAIN && errno != EINTR) || !wait_for(fd, POLLOUT, deadline_us)) {
            return false;
        }
    }
    return true;
}

static bool receive_all(int fd, uint8_t *bytes, size_t count, uint64_t deadline_us)
{
    while (count > 0) {
        ssize_t got = recv(fd, bytes, count, MSG_DONTWAIT);
        if (got > 0) {
            bytes += got;
            count -= (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR) ||
                   !wait_for(fd, POLLIN, deadline_us)) {
            return false;
        }
    }
    return true;
}

/* ---------------------------------------------------------------- connections */

static void tune(int fd)
{
    int on = 1, unsent = UNSENT_BYTES;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

shoal_status shoali_pairs_open(shoali_facts *facts, shoali_pairs **pairs_out)
{
    shoali_ip ip;
    shoali_pairs *pairs = shoali_alloc(sizeof *pairs);
    if (pairs == NULL)
        return SHOAL_ENOMEM;
    for (int i = 0; i < SHOALI_DOCTOR_MAX_RANKS; i++)
        pairs->fd[i] = pairs->called[i] = -1;
    bool ok = shoali_ip_parse(facts->ip, &ip);
    shoali_ip_set_port(&ip, 0);
    socklen_t bytes = shoali_ip_bytes(&ip);
    int type = SOCK_NONBLOCK | SOCK_CLOEXEC, probe = IP_PMTUDISC_PROBE;
    pairs->listener = socket(ip.any.sa_family, SOCK_STREAM | type, 0);
    pairs->datagrams = socket(ip.any.sa_family, SOCK_DGRAM | type, 0);
    ok = ok && pairs->listener >= 0 && pairs->datagrams >= 0 &&
         bind(pairs->listener, &ip.any, bytes) == 0 && listen(pairs->listener, SOMAXCONN) == 0 &&
         getsockname(pairs->listener, &ip.any, &bytes) == 0 &&
         bind(pairs->datagrams, &ip.any, bytes) == 0;
    if (ok && ip.any.sa_family == AF_INET)
        (void)setsockopt(pairs->datagrams, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe);
    else if (ok)
        (void)setsockopt(pairs->datagrams, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe, sizeof probe);
    if (!ok) {
        shoal_status status = shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot listen at %s",
                                             facts->ip);
        shoali_pairs_close(pairs);
        return status;
    }
    facts->port = shoali_ip_port(&ip);
    *pairs_out = pairs;
    return SHOAL_OK;
}

static bool address_of(const shoal_doctor *doctor, uint32_t rank, shoali_ip *ip_out)
{
    if (!shoali_ip_parse(doctor->facts[rank].ip, ip_out))
        return false;
    shoali_ip_set_port(ip_out, (uint16_t)doctor->facts[rank].port);
    return true;
}

static uint8_t way_of(int error)
{
    return error == ECONNREFUSED                       ? SHOALI_WAY_REFUSED
           : error == ETIMEDOUT                        ? SHOALI_WAY_SILENT
           : error == 0                                ? SHOALI_WAY_OPEN
           : error == EINPROGRESS || error == EALREADY ? SHOALI_WAY_UNTRIED
                                                       : SHOALI_WAY_NONE;
}

static void dial(shoali_pairs *pairs, const shoal_doctor *doctor, uint32_t rank, uint8_t *way_out)
{
    shoali_ip ip;
    *way_out = SHOALI_WAY_NONE;
    if (!address_of(doctor, rank, &ip))
        return;
    int fd = socket(ip.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    tune(fd);
    *way_out = way_of(connect(fd, &ip.any, shoali_ip_bytes(&ip)) == 0 ? 0 : errno);
    if (*way_out > SHOALI_WAY_OPEN)
        close(fd);
    else
        pairs->fd[rank] = fd;
}

static void dialled(shoali_pairs *pairs, const shoal_doctor *doctor, uint32_t rank,
                    uint64_t deadline_us, uint8_t *way_out)
{
    uint8_t hello[HELLO_BYTES];
    int error = ETIMEDOUT, fd = pairs->fd[rank];
    socklen_t bytes = sizeof error;
    shoali_put_u64(hello, doctor->facts[0].nonce);
    shoali_put_u64(hello + 8, doctor->rank);
    if (wait_for(fd, POLLOUT, deadline_us))
        (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    *way_out = way_of(error);
    if (error == 0 && send_all(fd, hello, sizeof hello, shoali_now_us() + ANSWER_US))
        return;
    close(fd);
    pairs->fd[rank] = -1;
}

/* Whoever knows the number is asked for what it sent, but not waited for long. */
static void take_calls(shoali_pairs *pairs, const shoal_doctor *doctor)
{
    uint8_t hello[HELLO_BYTES];
    int fd;
    for (uint32_t tries = 0; tries < 4 * doctor->ranks; tries++) {
        fd = accept4(pairs->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        bool known = receive_all(fd, hello, sizeof hello, shoali_now_us() + ANSWER_US / 8) &&
                     shoali_get_u64(hello) == doctor->facts[0].nonce;
        uint64_t from = known ? shoali_get_u64(hello + 8) : UINT64_MAX;
        if (from >= doctor->ranks || pairs->called[from] >= 0) {
            close(fd);
            continue;
        }
        tune(fd);
        pairs->called[from] = fd;
    }
}

shoal_status shoali_pairs_connect(shoali_pairs *pairs, const shoal_doctor *doctor, uint8_t *way_out)
{
    for (uint32_t i = 0; i < doctor->ranks; i++) {
        way_out[i] = SHOALI_WAY_UNTRIED;
        if (i != doctor->rank && doctor->host[i].here)
            dial(pairs, doctor, i, &way_out[i]);
    }
    uint64_t deadline_us = shoali_now_us() + CONNECT_US;
    for (uint32_t i = 0; i < doctor->ranks; i++)
        if (pairs->fd[i] >= 0)
            dialled(pairs, doctor, i, deadline_us, &way_out[i]);
    return SHOAL_OK;
}

/* Of the two connections of a pair both sides use the one that the lower rank dialled, else the
 * other. */
static int connection(shoali_pairs *pairs, const shoal_doctor *doctor, uint32_t peer)
{
    uint32_t low = peer < doctor->rank ? peer : doctor->rank;
    uint32_t high = peer < doctor->rank ? doctor->rank : peer;
    bool by_low = doctor->way[low * doctor->ranks + high] == SHOALI_WAY_OPEN;
    take_calls(pairs, doctor);
    return by_low == (low == doctor->rank) ? pairs->fd[peer] : pairs->called[peer];
}

/* ---------------------------------------------------------------- a round */

typedef struct round {
    shoali_pairs *pairs;
    int fd;
    bool first; /* this rank begins */
} round;

static int64_t wall_us(void)
{
    struct timeval t;
    gettimeofday(&t, NULL);
    return (int64_t)t.tv_sec * 1000000 + t.tv_usec;
}

/* The quickest trip tells most of the clocks. */
static bool ping(const round *r, shoali_pair_word *word)
{
    uint8_t bytes[PING_BYTES] = {0};
    uint64_t best_ns = UINT64_MAX;
    for (int i = 0; i < PINGS; i++) {
        int64_t before_us = wall_us();
        uint64_t start_ns = shoali_now_ns(), deadline_us = shoali_now_us() + ANSWER_US;
        if (!send_all(r->fd, bytes, sizeof bytes, deadline_us) ||
            !receive_all(r->fd, bytes, sizeof bytes, deadline_us))
            return false;
        uint64_t took_ns = shoali_now_ns() - start_ns;
        if (took_ns >= best_ns)
            continue;
        best_ns = took_ns;
        word->rtt_ns = took_ns < UINT32_MAX ? (uint32_t)took_ns + 1 : UINT32_MAX;
        word->clock_us = (int64_t)shoali_get_u64(bytes) - before_us - (int64_t)(took_ns / 2000);
    }
    return true;
}

static bool pong(const round *r)
{
    uint8_t bytes[PING_BYTES];
    for (int i = 0; i < PINGS; i++) {
        uint64_t deadline_us = shoali_now_us() + ANSWER_US;
        if (!receive_all(r->fd, bytes, sizeof bytes, deadline_us))
            return false;
        shoali_put_u64(bytes, (uint64_t)wall_us());
        if (!send_all(r->fd, bytes, sizeof bytes, deadline_us))
            return false;
    }
    return true;
}

/* Both send full segments, and read as much. */
static bool large_arrives(const round *r)
{
    uint64_t deadline_us = shoali_now_us() + LARGE_US;
    bool sent = send_all(r->fd, r->pairs->block, LARGE_BYTES, deadline_us);
    return receive_all(r->fd, r->pairs->block, LARGE_BYTES, deadline_us) && sent;
}

static const uint16_t probe_sizes[] = {9000, 8000, 4000, 2000, 1500, 1492, 1480, 1450, 1420,
                                       1400, 1380, 1350, 1300, 1280, 1200, 1000, 576};

/* The largest packet from peer, by datagrams in both directions at once. */
static uint32_t probe(const round *r, const shoal_doctor *doctor, uint32_t peer)
{
    shoali_ip to;
    uint32_t largest = 0;
    if (!address_of(doctor, peer, &to))
        return 0;
    size_t head = to.any.sa_family == AF_INET ? 28 : 48;
    shoali_put_u64(r->pairs->block, doctor->facts[0].nonce);
    shoali_put_u64(r->pairs->block + 8, doctor->rank);
    for (size_t i = 0; i < 2 * sizeof probe_sizes / sizeof *probe_sizes; i++) {
        uint16_t size = probe_sizes[i / 2];
        if (size <= doctor->facts[doctor->rank].mtu) /* too large to leave is not what is asked */
            (void)!sendto(r->pairs->datagrams, r->pairs->block, size - head, MSG_DONTWAIT, &to.any,
                          shoali_ip_bytes(&to));
    }
    uint64_t deadline_us = shoali_now_us() + PROBE_US;
    while (wait_for(r->pairs->datagrams, POLLIN, deadline_us)) {
        ssize_t got = recv(r->pairs->datagrams, r->pairs->block, BLOCK_BYTES, MSG_DONTWAIT);
        if (got >= HELLO_BYTES && shoali_get_u64(r->pairs->block) == doctor->facts[0].nonce &&
            shoali_get_u64(r->pairs->block + 8) == peer && (uint32_t)got + head > largest)
            largest = (uint32_t)((size_t)got + head);
    }
    return largest;
}

/* Blocks whose first byte says whether it is the last one. */
static void flow_out(const round *r)
{
    uint64_t start_us = shoali_now_us();
    memset(r->pairs->block, 0, BLOCK_BYTES);
    while (r->pairs->block[0] == 0) {
        r->pairs->block[0] = shoali_now_us() >= start_us + FLOW_US;
        if (!send_all(r->fd, r->pairs->block, BLOCK_BYTES, start_us + FLOW_LIMIT_US))
            return;
    }
}

/* Bytes per second, without the beginning, in which buffers fill and windows open. */
static double flow_in(const round *r)
{
    uint64_t start_us = 0, skip_us = 0, last_us = 0, got_bytes = 0, skip_bytes = 0;
    uint64_t deadline_us = shoali_now_us() + FLOW_LIMIT_US;
    bool last = false;
    while (!last || got_bytes % BLOCK_BYTES != 0) {
        size_t at = got_bytes % BLOCK_BYTES;
        ssize_t got = recv(r->fd, r->pairs->block + at, BLOCK_BYTES - at, MSG_DONTWAIT);
        if (got <= 0) {
            if (got == 0 || (errno != EAGAIN && errno != EINTR) ||
                !wait_for(r->fd, POLLIN, deadline_us))
                break;
            continue;
        }
        last_us = shoali_now_us();
        if (last_us >= deadline_us)
            break;
        last = r->pairs->block[0] != 0;
        got_bytes += (uint64_t)got;
        start_us = start_us == 0 ? last_us : start_us;
        if (skip_us == 0 && last_us >= start_us + FLOW_SKIP_US) {
            skip_us = last_us;
            skip_bytes = got_bytes;
        }
    }
    if (skip_us == 0 || last_us <= skip_us)
        return 0;
    return (double)(got_bytes - skip_bytes) * 1e6 / (double)(last_us - skip_us);
}

void shoali_pairs_measure(shoali_pairs *pairs, const shoal_doctor *doctor, uint32_t peer,
                          shoali_pair_word *word_out)
{
    round r = {pairs, connection(pairs, doctor, peer), doctor->rank < peer};
    *word_out = (shoali_pair_word){.peer = peer, .clock_us = INT64_MIN};
    if (r.fd < 0 || !(r.first ? ping(&r, word_out) : pong(&r)))
        return;
    bool arrived = large_arrives(&r);
    uint8_t mine = arrived, theirs = 0;
    /* A byte that says so goes behind what is stuck in the other way, if it is; so only who got
     * everything waits for one, and datagrams do the rest. */
    bool told = send_all(r.fd, &mine, 1, shoali_now_us() + ANSWER_US);
    if (told && arrived && receive_all(r.fd, &theirs, 1, shoali_now_us() + ANSWER_US) &&
        theirs == 1) {
        double in = 0;
        if (r.first)
            flow_out(&r);
        in = flow_in(&r);
        if (!r.first)
            flow_out(&r);
        word_out->in_bytes_s = (uint64_t)in;
        return;
    }
    word_out->hole_bytes = probe(&r, doctor, peer);
    word_out->hole = !arrived && word_out->hole_bytes < doctor->facts[peer].mtu &&
                     word_out->hole_bytes < 9000;
}

void shoali_pairs_close(shoali_pairs *pairs)
{
    if (pairs == NULL)
        return;
    for (int i = 0; i < SHOALI_DOCTOR_MAX_RANKS; i++) {
        if (pairs->fd[i] >= 0)
            close(pairs->fd[i]);
        if (pairs->called[i] >= 0)
            close(pairs->called[i]);
    }
    if (pairs->listener >= 0)
        close(pairs->listener);
    if (pairs->datagrams >= 0)
        close(pairs->datagrams);
    shoali_free(pairs);
}

size_t shoali_pair_word_encode(const shoali_pair_word *word, uint8_t out[SHOALI_PAIR_WORD_BYTES])
{
    shoali_put_u32(out, word->peer);
    shoali_put_u32(out + 4, word->rtt_ns);
    shoali_put_u64(out + 8, word->in_bytes_s);
    shoali_put_u64(out + 16, (uint64_t)word->clock_us);
    shoali_put_u32(out + 24, word->hole);
    shoali_put_u32(out + 28, word->hole_bytes);
    return SHOALI_PAIR_WORD_BYTES;
}

bool shoali_pair_word_decode(const uint8_t *bytes, size_t len_bytes, shoali_pair_word *word_out)
{
    if (len_bytes != SHOALI_PAIR_WORD_BYTES)
        return false;
    *word_out = (shoali_pair_word){.peer = shoali_get_u32(bytes),
                                   .rtt_ns = shoali_get_u32(bytes + 4),
                                   .in_bytes_s = shoali_get_u64(bytes + 8),
                                   .clock_us = (int64_t)shoali_get_u64(bytes + 16),
                                   .hole = shoali_get_u32(bytes + 24) != 0,
                                   .hole_bytes = shoali_get_u32(bytes + 28)};
    return true;
}
