/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/udp.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/iface.h"
#include "wire/packet.h"

enum {
    BATCH = 32,            /* packets of a system call */
    BATCHES = 4,           /* of one call of receive */
    QUEUE_BYTES = 4 << 20, /* what waits to be sent */
    QUEUE_MOST = 2048,
    BUFFER_BYTES = 8 << 20, /* the kernel's, each way: a window of every worker */
    HEADERS_V4 = 28,
    HEADERS_V6 = 48,
    USUAL_MTU = 1500,
    LEAST_MTU = 576,
    MOST_BYTES = SHOALI_PACKET_BYTES + 4 * SHOALI_PACKET_VALUES_MAX
};

typedef struct waiting {
    shoali_ip to;
    uint32_t len_bytes;
} waiting;

struct shoali_udp {
    int fd;
    shoali_ip at;
    uint32_t bytes;    /* of the largest datagram */
    uint32_t capacity; /* of the queue */
    uint32_t head, count;
    waiting *queue;
    uint8_t *bodies; /* [capacity][bytes] */
    uint8_t *in;     /* [BATCH][MOST_BYTES] */
    shoali_udp_stats stats;
};

/* ------------------------------------------------------------------ open */

static int mtu_of(int fd, const shoali_ip *at)
{
    static const int usual = USUAL_MTU;
    shoali_iface list[SHOALI_IFACE_LIST];
    size_t count;
    if (shoali_iface_list(list, &count) != SHOAL_OK)
        return usual;
    for (size_t i = 0; i < count; i++) {
        struct ifreq request = {0};
        if (!shoali_ip_equal(&list[i].ip, at))
            continue;
        snprintf(request.ifr_name, sizeof request.ifr_name, "%s", list[i].name);
        if (ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu >= LEAST_MTU)
            return request.ifr_mtu;
    }
    return usual;
}

/* Beyond the system's limit only with the right to it; else as large as it allows. */
static void size_buffer(int fd, int forced, int usual)
{
    const int bytes = BUFFER_BYTES;
    if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes) != 0)
        (void)setsockopt(fd, SOL_SOCKET, usual, &bytes, sizeof bytes);
}

static shoal_status bind_socket(shoali_udp *udp, const shoali_ip *at)
{
    char text[SHOALI_IP_TEXT_BYTES];
    socklen_t length = sizeof udp->at;
    udp->at = *at;
    shoali_ip_set_port(&udp->at, 0);
    udp->fd = socket(at->any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (udp->fd >= 0 && bind(udp->fd, &udp->at.any, shoali_ip_bytes(&udp->at)) == 0 &&
        getsockname(udp->fd, &udp->at.any, &length) == 0)
        return SHOAL_OK;
    const int error = errno;
    shoali_ip_format(at, text);
    return shoali_fail_os(SHOAL_ESYSTEM, error, "no UDP socket at %s", text);
}

static shoal_status make(shoali_udp *udp, const shoali_ip *at)
{
    SHOALI_TRY(bind_socket(udp, at));
    const int mtu = mtu_of(udp->fd, at);
    const int room = mtu - (at->any.sa_family == AF_INET6 ? HEADERS_V6 : HEADERS_V4);
    udp->bytes = room < MOST_BYTES ? (uint32_t)room : MOST_BYTES;
    udp->capacity = QUEUE_BYTES / udp->bytes < QUEUE_MOST ? QUEUE_BYTES / udp->bytes : QUEUE_MOST;
    size_buffer(udp->fd, SO_RCVBUFFORCE, SO_RCVBUF);
    size_buffer(udp->fd, SO_SNDBUFFORCE, SO_SNDBUF);
    udp->queue = shoali_alloc_array(udp->capacity, sizeof *udp->queue);
    udp->bodies = shoali_alloc_array(udp->capacity, udp->bytes);
    udp->in = shoali_alloc_array(BATCH, MOST_BYTES);
    if (udp->queue == NULL || udp->bodies == NULL || udp->in == NULL)
        return SHOAL_ENOMEM;
    shoali_log(DEBUG, "UDP port %u, MTU %d: packets of %u bytes", shoali_ip_port(&udp->at), mtu,
               udp->bytes);
    return SHOAL_OK;
}

shoal_status shoali_udp_open(const shoali_ip *at, shoali_udp **udp_out)
{
    shoali_udp *udp = shoali_alloc(sizeof *udp);
    if (udp == NULL)
        return SHOAL_ENOMEM;
    udp->fd = -1;
    const shoal_status status = make(udp, at);
    if (status != SHOAL_OK) {
        shoali_udp_close(udp);
        return status;
    }
    *udp_out = udp;
    return SHOAL_OK;
}

void shoali_udp_close(shoali_udp *udp)
{
    if (udp == NULL)
        return;
    if (udp->fd >= 0)
        close(udp->fd);
    shoali_free(udp->queue);
    shoali_free(udp->bodies);
    shoali_free(udp->in);
    shoali_free(udp);
}

void shoali_udp_forked(shoali_udp *udp)
{
    close(udp->fd);
}

int shoali_udp_fd(const shoali_udp *udp)
{
    return udp->fd;
}

const shoali_ip *shoali_udp_address(const shoali_udp *udp)
{
    return &udp->at;
}

uint32_t shoali_udp_bytes(const shoali_udp *udp)
{
    return udp->bytes;
}

shoali_udp_stats shoali_udp_counted(const shoali_udp *udp)
{
    return udp->stats;
}

/* ------------------------------------------------------------------ out */

void shoali_udp_send(shoali_udp *udp, const shoali_ip *to, const void *bytes, size_t len_bytes)
{
    if (udp->count == udp->capacity)
        (void)shoali_udp_flush(udp);
    if (udp->count == udp->capacity || len_bytes > udp->bytes) {
        udp->stats.dropped++;
        return;
    }
    const uint32_t at = (udp->head + udp->count++) % udp->capacity;
    udp->queue[at] = (waiting){*to, (uint32_t)len_bytes};
    memcpy(udp->bodies + (size_t)at * udp->bytes, bytes, len_bytes);
}

/* How many of the queue's first packets the kernel took; 0: none now. A packet that it refuses for
 * itself (no route, no buffer of the device) is lost, as on any network. */
static uint32_t send_batch(shoali_udp *udp, uint32_t count)
{
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = (udp->head + i) % udp->capacity;
        waiting *w = &udp->queue[at];
        parts[i] = (struct iovec){udp->bodies + (size_t)at * udp->bytes, w->len_bytes};
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_name = &w->to.any,
                                                   .msg_namelen = shoali_ip_bytes(&w->to),
                                                   .msg_iov = &parts[i],
                                                   .msg_iovlen = 1}};
    }
    const int sent = sendmmsg(udp->fd, messages, count, 0);
    if (sent > 0) {
        udp->stats.sent += (uint32_t)sent;
        return (uint32_t)sent;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return 0;
    udp->stats.dropped++;
    return 1;
}

bool shoali_udp_flush(shoali_udp *udp)
{
    while (udp->count > 0) {
        const uint32_t gone = send_batch(udp, udp->count < BATCH ? udp->count : BATCH);
        if (gone == 0)
            return false;
        udp->head = (udp->head + gone) % udp->capacity;
        udp->count -= gone;
    }
    return true;
}

/* ------------------------------------------------------------------ in */

static int receive_batch(shoali_udp *udp, shoali_udp_take take, void *ctx)
{
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    shoali_ip from[BATCH];
    for (uint32_t i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){udp->in + (size_t)i * MOST_BYTES, MOST_BYTES};
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_name = &from[i].any,
                                                   .msg_namelen = sizeof from[i],
                                                   .msg_iov = &parts[i],
                                                   .msg_iovlen = 1}};
    }
    const int got = recvmmsg(udp->fd, messages, BATCH, MSG_DONTWAIT, NULL);
    for (int i = 0; i < got; i++) {
        udp->stats.received++;
        if ((messages[i].msg_hdr.msg_flags & MSG_TRUNC) == 0)
            take(ctx, &from[i], parts[i].iov_base, messages[i].msg_len);
    }
    return got;
}

bool shoali_udp_receive(shoali_udp *udp, shoali_udp_take take, void *ctx)
{
    for (int i = 0; i < BATCHES; i++)
        if (receive_batch(udp, take, ctx) < BATCH)
            return false;
    return true;
}
