/* SPDX-License-Identifier: Apache-2.0 */
/* From a unix socket to two mapped rings. The name is known to everybody in the network namespace,
 * so the caller's user is checked first and the hello as everywhere. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/shm.h"
#include "transport/stream.h"
#include "wire/bytes.h"

enum {
    RETRY_US = 20000,
    MIN_STRANGERS = 16,
    ACCEPTS_PER_TURN = 64,
    STRANGERS_LOGGED = 8,
    FDS = 3,      /* ring, bell's memory, bell's eventfd */
    FDS_MOST = 4, /* what fits the space for three, because of alignment */
    MEETING_BYTES = 8,
    MEETING_MAGIC = 0x474e4952 /* "RING" in memory */
};

/* ---------------------------------------------------------------- sockets */

static shoal_status unix_name(const char *name, struct sockaddr_un *to, socklen_t *bytes_out)
{
    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t len = strlen(name);
    if (len == 0 || len >= sizeof to->sun_path)
        return shoali_fail(SHOAL_EINVAL, "'%.80s' is no name of a socket", name);
    memcpy(to->sun_path + 1, name,
           len); /* a NUL first: no file, and scoped by the network namespace */
    *bytes_out = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
    return SHOAL_OK;
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

shoal_status shoali_shm_listen(shoali_shm *shm)
{
    struct sockaddr_un at;
    socklen_t bytes;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &shm->listener};
    uint64_t unique;
    if (getrandom(&unique, sizeof unique, 0) != (ssize_t)sizeof unique)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "no random numbers for a name");
    snprintf(shm->address.unix_name, sizeof shm->address.unix_name, "shoal-%016llx",
             (unsigned long long)unique);
    SHOALI_TRY(unix_name(shm->address.unix_name, &at, &bytes));
    shm->listener = new_socket();
    if (shm->listener < 0 || bind(shm->listener, (const struct sockaddr *)&at, bytes) != 0 ||
        listen(shm->listener, SOMAXCONN) != 0 ||
        epoll_ctl(shm->epoll, EPOLL_CTL_ADD, shm->listener, &event) != 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot listen on unix socket '%s'",
                              shm->address.unix_name);
    return SHOAL_OK;
}

static bool is_same_user(int fd)
{
    struct ucred who;
    socklen_t bytes = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == geteuid();
}

/* ---------------------------------------------------------------- links */

shoali_shm_link *shoali_shm_link_create(shoali_shm *shm, int64_t peer, bool dialled)
{
    shoali_shm_link *link = shoali_alloc(sizeof *link);
    if (link == NULL)
        return NULL;
    *link = (shoali_shm_link){.shm = shm,
                              .peer = peer,
                              .dialled = dialled,
                              .socket = -1,
                              .wake_us = UINT64_MAX,
                              .out = {.fd = -1},
                              .in = {.fd = -1},
                              .bell = {-1, -1, NULL}};
    if (peer >= 0) {
        shm->peers[peer].link = link;
    } else {
        link->next = shm->strangers;
        shm->strangers = link;
        shm->stranger_count++;
    }
    return link;
}

static void set_timer(shoali_shm_link *link, uint64_t wake_us)
{
    link->wake_us = wake_us;
    if (wake_us < link->shm->wake_us)
        link->shm->wake_us = wake_us;
}

static void leave_strangers(shoali_shm_link *link)
{
    shoali_shm_link **at = &link->shm->strangers;
    while (*at != NULL && *at != link)
        at = &(*at)->next;
    if (*at == NULL)
        return;
    *at = link->next;
    link->shm->stranger_count--;
}

static void close_socket(shoali_shm_link *link)
{
    if (link->socket >= 0)
        close(link->socket);
    link->socket = -1;
}

void shoali_shm_link_kill(shoali_shm_link *link, shoal_status status)
{
    shoali_shm *shm = link->shm;
    if (link->state == SHOALI_SHM_LINK_DEAD)
        return;
    link->state = SHOALI_SHM_LINK_DEAD;
    close_socket(link);
    if (link->peer < 0)
        leave_strangers(link);
    else
        shm->peers[link->peer].link = NULL;
    link->next = shm->dead;
    shm->dead = link;
    shoali_shm_link_return_all(link, status);
}

void shoali_shm_link_free_dead(shoali_shm *shm)
{
    while (shm->dead != NULL) {
        shoali_shm_link *link = shm->dead;
        shm->dead = link->next;
        shoali_ring_close(&link->out);
        shoali_ring_close(&link->in);
        shoali_bell_close(&link->bell);
        shoali_outbox_free(&link->box);
        shoali_free(link->opening);
        shoali_free(link);
    }
}

void shoali_shm_link_failed(shoali_shm_link *link, shoal_status status, const char *what)
{
    shoali_shm *shm = link->shm;
    bool final = status == SHOAL_EAUTH || status == SHOAL_EVERSION || status == SHOAL_EPEER ||
                 status == SHOAL_ECORRUPT;
    if (link->peer < 0) {
        if (shm->refused++ < STRANGERS_LOGGED)
            shoali_log(WARN, "refused a connection for shared memory: %s", what);
        shoali_shm_link_kill(link, status);
    } else if (!link->dialled || final || shm->now_us >= link->give_up_us) {
        shoali_shm_peer_fail(shm, (uint32_t)link->peer, final ? status : SHOAL_ETIMEDOUT, what);
    } else {
        close_socket(link);
        link->state = SHOALI_SHM_LINK_WAITING;
        set_timer(link, shm->now_us + RETRY_US);
    }
}

/* ---------------------------------------------------------------- handshake */

static shoal_status start_opening(shoali_shm_link *link)
{
    const shoali_transport_args *args = &link->shm->args;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
    shoali_hello self = {.purpose = SHOALI_PURPOSE_MEMORY,
                         .endpoint = args->me,
                         .target = link->dialled ? (uint32_t)link->peer : 0,
                         .incarnation = args->incarnation};
    snprintf(self.job, sizeof self.job, "%s", args->job);
    if (getrandom(self.nonce, sizeof self.nonce, 0) != (ssize_t)sizeof self.nonce)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "no random numbers for a hello");
    if (link->opening == NULL && (link->opening = shoali_alloc(sizeof *link->opening)) == NULL)
        return SHOAL_ENOMEM;
    if (epoll_ctl(link->shm->epoll, EPOLL_CTL_ADD, link->socket, &event) != 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot watch a unix socket");
    shoali_handshake_start(link->opening, link->dialled, &self, args->token, args->token_bytes);
    link->state = SHOALI_SHM_LINK_OPENING;
    return SHOAL_OK;
}

static shoal_status send_opening(shoali_shm_link *link)
{
    shoali_handshake *h = link->opening;
    struct iovec part = {h->out, h->out_len};
    if (h->out_len == 0)
        return SHOAL_OK;
    if (shoali_stream_write(link->socket, &part, 1) != (ssize_t)h->out_len)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot send a hello");
    h->out_len = 0;
    return SHOAL_OK;
}

static const char *unwelcome(const shoali_shm_link *link)
{
    const shoali_shm *shm = link->shm;
    const shoali_hello *hello = &link->opening->peer;
    if (hello->endpoint >= shm->args.size || hello->endpoint <= shm->args.me)
        return "this job has no such endpoint, or it should not call";
    if (hello->purpose != SHOALI_PURPOSE_MEMORY)
        return "only shared memory is opened here";
    if (shm->peers[hello->endpoint].state == SHOALI_SHM_DOWN)
        return "the endpoint has already been lost";
    if (shm->peers[hello->endpoint].link != NULL)
        return "the endpoint is already connected";
    return NULL;
}

static shoal_status read_opening(shoali_shm_link *link)
{
    uint8_t bytes[SHOALI_HELLO_BYTES];
    bool greeted = link->opening->greeted;
    struct iovec part = {bytes, shoali_handshake_want(link->opening)};
    ssize_t got = shoali_stream_read(link->socket, &part, 1);
    if (got == SHOALI_STREAM_LATER)
        return SHOAL_OK;
    if (got < 0)
        return shoali_fail(SHOAL_EIO,
                           "the other side closed the connection while it was being opened");
    shoal_status status = shoali_handshake_feed(link->opening, bytes, (size_t)got);
    if (status != SHOAL_OK && status != SHOAL_PENDING) {
        (void)send_opening(link); /* the refusal; its own failure is of no interest */
        return status;
    }
    const char *why = !link->dialled && !greeted && link->opening->greeted ? unwelcome(link) : NULL;
    if (why != NULL) {
        shoali_handshake_refuse(link->opening, SHOAL_EAUTH, why);
        (void)send_opening(link);
        return shoali_fail(SHOAL_EAUTH, "endpoint %u: %s", link->opening->peer.endpoint, why);
    }
    SHOALI_TRY(send_opening(link));
    return SHOAL_PENDING;
}

/* ---------------------------------------------------------------- rings and bells change hands */

typedef union fd_message {
    char bytes[CMSG_SPACE(FDS * sizeof(int))];
    struct cmsghdr align;
} fd_message;

_Static_assert(sizeof(fd_message) - CMSG_LEN(0) <= FDS_MOST * sizeof(int),
               "no message brings more");

static shoal_status send_meeting(shoali_shm_link *link)
{
    uint8_t body[MEETING_BYTES] = {0};
    struct iovec part = {body, sizeof body};
    fd_message fds = {{0}};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = fds.bytes,
                             .msg_controllen = sizeof fds.bytes};
    const shoali_bell *bell = &link->shm->bell;
    SHOALI_TRY(shoali_ring_create((size_t)link->shm->params.ring_bytes, &link->out));
    const int list[FDS] = {link->out.fd, bell->memory_fd, bell->event_fd};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof list), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), list, sizeof list);
    shoali_put_u32(body, MEETING_MAGIC);
    if (sendmsg(link->socket, &message, MSG_NOSIGNAL) != MEETING_BYTES)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot pass shared memory on");
    shoali_ring_close_fd(&link->out);
    return SHOAL_OK;
}

/* The descriptors of a message, exactly three; else all that came are closed. */
static bool take_fds(struct msghdr *message, int list[FDS])
{
    size_t count = 0;
    int all[FDS_MOST] = {-1, -1, -1, -1};
    struct cmsghdr *head = CMSG_FIRSTHDR(message);
    if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
        count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(all, CMSG_DATA(head), count * sizeof(int));
    }
    memcpy(list, all, FDS * sizeof(int));
    if (count == FDS && (message->msg_flags & MSG_CTRUNC) == 0)
        return true;
    for (size_t i = 0; i < count; i++)
        close(all[i]);
    return false;
}

static shoal_status attach(shoali_shm_link *link, const int list[FDS])
{
    shoal_status status = shoali_ring_attach(list[0], &link->in);
    if (status != SHOAL_OK) {
        close(list[1]);
        close(list[2]);
        return status;
    }
    return shoali_bell_attach(list[1], list[2], &link->bell);
}

static shoal_status read_meeting(shoali_shm_link *link)
{
    uint8_t body[MEETING_BYTES];
    struct iovec part = {body, sizeof body};
    fd_message fds;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = fds.bytes,
                             .msg_controllen = sizeof fds.bytes};
    int list[FDS];
    ssize_t got = recvmsg(link->socket, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return SHOAL_PENDING;
    if (got <= 0)
        return shoali_fail(SHOAL_EIO,
                           "the other side closed the connection while shared memory was passed");
    bool fits = take_fds(&message, list);
    if (!fits || got != MEETING_BYTES || shoali_get_u32(body) != MEETING_MAGIC) {
        for (size_t i = 0; fits && i < FDS; i++)
            close(list[i]);
        return shoali_fail(SHOAL_ECORRUPT, "the other side passed no ring");
    }
    SHOALI_TRY(attach(link, list));
    link->met = true;
    link->wake_us = UINT64_MAX; /* add_peer may come much later */
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- steps */

void shoali_shm_link_settle(shoali_shm_link *link)
{
    shoali_shm *shm = link->shm;
    shoali_shm_peer *peer = &shm->peers[link->peer];
    if (link->state != SHOALI_SHM_LINK_MEETING || !link->met || peer->state != SHOALI_SHM_JOINING)
        return;
    link->state = SHOALI_SHM_LINK_OPEN;
    link->wake_us = UINT64_MAX;
    peer->state = SHOALI_SHM_UP;
    peer->wake_us = UINT64_MAX;
    peer->last_seen_us = shm->now_us;
    shm->events.peer_up(shm->events.ctx, (uint32_t)link->peer);
}

static void authenticated(shoali_shm_link *link)
{
    shoali_shm *shm = link->shm;
    uint32_t peer = link->opening->peer.endpoint;
    link->incarnation = link->opening->peer.incarnation;
    shoali_free(link->opening);
    link->opening = NULL;
    link->state = SHOALI_SHM_LINK_MEETING;
    if (link->peer < 0) {
        leave_strangers(link);
        link->peer = peer;
        link->next = NULL;
        shm->peers[peer].link = link;
    }
    if (send_meeting(link) != SHOAL_OK)
        shoali_shm_link_failed(link, shoal_last_error()->status, shoal_last_error()->text);
}

void shoali_shm_link_advance(shoali_shm_link *link)
{
    shoal_status status = SHOAL_PENDING;
    while (link->state == SHOALI_SHM_LINK_OPENING && status == SHOAL_PENDING &&
           !link->opening->done)
        status = read_opening(link);
    if (status != SHOAL_OK && status != SHOAL_PENDING) {
        shoali_shm_link_failed(link, status, shoal_last_error()->text);
        return;
    }
    if (link->state == SHOALI_SHM_LINK_OPENING && link->opening->done)
        authenticated(link);
    if (link->state != SHOALI_SHM_LINK_MEETING || link->met)
        return;
    status = read_meeting(link);
    if (status == SHOAL_OK)
        shoali_shm_link_settle(link);
    else if (status != SHOAL_PENDING)
        shoali_shm_link_failed(link, status, shoal_last_error()->text);
}

void shoali_shm_link_dial(shoali_shm_link *link)
{
    shoali_shm *shm = link->shm;
    struct sockaddr_un to;
    socklen_t bytes;
    set_timer(link, link->give_up_us);
    shoal_status status = unix_name(shm->peers[link->peer].address.unix_name, &to, &bytes);
    link->socket = status == SHOAL_OK ? new_socket() : -1;
    if (link->socket < 0 || connect(link->socket, (const struct sockaddr *)&to, bytes) != 0) {
        (void)shoali_fail_os(SHOAL_EIO, errno, "cannot reach its unix socket");
        shoali_shm_link_failed(link, SHOAL_EIO, shoal_last_error()->text);
        return;
    }
    if (!is_same_user(link->socket)) {
        shoali_shm_link_failed(link, SHOAL_EAUTH, "its unix socket belongs to another user");
        return;
    }
    if (start_opening(link) != SHOAL_OK || send_opening(link) != SHOAL_OK)
        shoali_shm_link_failed(link, SHOAL_EIO, shoal_last_error()->text);
}

static void evict_oldest(shoali_shm *shm)
{
    shoali_shm_link *oldest = shm->strangers;
    while (oldest != NULL && oldest->next != NULL)
        oldest = oldest->next;
    if (oldest != NULL)
        shoali_shm_link_failed(oldest, SHOAL_EAUTH,
                               "too many connections that have not proved themselves");
}

void shoali_shm_accept_all(shoali_shm *shm)
{
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd = accept4(shm->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE))
            evict_oldest(shm);
        if (fd < 0)
            return;
        shoali_shm_link *link = shoali_shm_link_create(shm, -1, false);
        if (link == NULL) {
            close(fd);
            return;
        }
        link->socket = fd;
        set_timer(link, shm->now_us + SHOALI_SHM_OPENING_US);
        if (!is_same_user(fd))
            shoali_shm_link_failed(link, SHOAL_EAUTH, "the caller is another user");
        else if (start_opening(link) != SHOAL_OK)
            shoali_shm_link_failed(link, SHOAL_ESYSTEM, shoal_last_error()->text);
        else if (shm->stranger_count > MIN_STRANGERS + 2 * shm->args.size)
            evict_oldest(shm);
    }
}
