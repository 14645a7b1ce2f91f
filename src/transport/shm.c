/* SPDX-License-Identifier: Apache-2.0 */
/* The shm row. Structure in shm.h. */
#include "transport/shm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"

enum { EVENTS_PER_TURN = 64, DEFAULT_JOIN_US = 30000000 };

static const shoali_key keys[] = {
    {"ring_bytes", SHOALI_KEY_INT, offsetof(shoali_shm_params, ring_bytes), SHOALI_RING_MIN_BYTES,
     SHOALI_RING_MAX_BYTES, NULL, "512k", "shared memory per direction and peer, a power of two"},
};

/* ---------------------------------------------------------------- peers */

void shoali_shm_peer_fail(shoali_shm *shm, uint32_t peer, shoal_status why, const char *what)
{
    char text[SHOALI_SHM_TEXT_BYTES + SHOALI_HOST_BYTES + 64];
    shoali_shm_peer *p = &shm->peers[peer];
    shoali_shm_peer_state before = p->state;
    snprintf(text, sizeof text, "rank %u (%s), shared memory: %.255s", peer, p->address.host, what);
    p->wake_us = UINT64_MAX;
    if (before != SHOALI_SHM_NONE)
        p->state = SHOALI_SHM_DOWN;
    if (p->link != NULL)
        shoali_shm_link_kill(p->link, why == SHOAL_OK ? SHOAL_EPEER : why);
    if (before == SHOALI_SHM_JOINING || before == SHOALI_SHM_UP)
        shm->events.peer_down(shm->events.ctx, peer, why, text);
}

/* The socket of an open link says nothing but its end. */
static void read_socket(shoali_shm_link *link)
{
    char waste[64];
    ssize_t got = read(link->socket, waste, sizeof waste);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    link->ended = true;
    (void)epoll_ctl(link->shm->epoll, EPOLL_CTL_DEL, link->socket, NULL);
}

/* What the peer wrote before its end has been read, as far as it is whole. */
static void finish_ended(shoali_shm_link *link)
{
    shoali_shm *shm = link->shm;
    bool left = atomic_load(&link->in.shared->goodbye) != 0 && !link->in_body &&
                shoali_ring_used(&link->in) == 0;
    shoali_shm_peer_fail(shm, (uint32_t)link->peer, left ? SHOAL_OK : SHOAL_EPEER,
                         left ? "said goodbye" : "it ended without a goodbye");
}

static void drop(shoali_shm *shm, uint32_t peer, bool polite)
{
    shoali_shm_peer *p = &shm->peers[peer];
    p->state = SHOALI_SHM_NONE; /* from here on no callback but sent and unplace */
    p->wake_us = UINT64_MAX;
    if (p->link == NULL)
        return;
    if (polite && p->link->state == SHOALI_SHM_LINK_OPEN) {
        shoali_shm_link_pump_out(p->link);
        if (p->link != NULL && p->link->box.front_done == 0) /* not in the middle of a frame */
            atomic_store(&p->link->out.shared->goodbye, 1);
    }
    if (p->link != NULL)
        shoali_shm_link_kill(p->link, SHOAL_ECANCELLED);
}

/* ---------------------------------------------------------------- open and close */

static shoal_status copy_args(shoali_shm *shm, const shoali_transport_args *args)
{
    shm->args = *args;
    if (args->me >= args->size || strlen(args->job) >= SHOALI_JOB_BYTES)
        return shoali_fail(SHOAL_EINVAL, "transport: endpoint %u of %u, job of %zu bytes", args->me,
                           args->size, strlen(args->job));
    if (args->join_us <= 0)
        shm->args.join_us = DEFAULT_JOIN_US;
    shm->params = *(const shoali_shm_params *)args->params;
    if ((shm->params.ring_bytes & (shm->params.ring_bytes - 1)) != 0)
        return shoali_fail(SHOAL_EINVAL, "shm: ring_bytes=%lld is no power of two",
                           (long long)shm->params.ring_bytes);
    shm->job = shoali_strdup(args->job);
    shm->token = shoali_alloc(args->token_bytes);
    shm->peers = shoali_alloc_array(args->size, sizeof *shm->peers);
    if (shm->job == NULL || shm->token == NULL || shm->peers == NULL)
        return SHOAL_ENOMEM;
    if (args->token_bytes > 0)
        memcpy(shm->token, args->token, args->token_bytes);
    shm->args.job = shm->job;
    shm->args.token = shm->token;
    shm->args.interface = shm->args.toward = NULL;
    for (uint32_t i = 0; i < args->size; i++)
        shm->peers[i].wake_us = UINT64_MAX;
    return SHOAL_OK;
}

static shoal_status try_open(shoali_shm *shm, const shoali_transport_args *args)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &shm->bell};
    SHOALI_TRY(copy_args(shm, args));
    SHOALI_TRY(shoali_address_local(&shm->address));
    SHOALI_TRY(shoali_bell_create(&shm->bell));
    shm->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (shm->epoll < 0 || epoll_ctl(shm->epoll, EPOLL_CTL_ADD, shm->bell.event_fd, &event) != 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot create an epoll descriptor");
    return shoali_shm_listen(shm);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void shm_forked(void *state)
{
    shoali_shm *shm = state;
    close_fd(&shm->listener);
    close_fd(&shm->epoll);
    close_fd(&shm->bell.event_fd);
    close_fd(&shm->bell.memory_fd);
    for (uint32_t peer = 0; shm->peers != NULL && peer < shm->args.size; peer++)
        if (shm->peers[peer].link != NULL) {
            close_fd(&shm->peers[peer].link->socket);
            close_fd(&shm->peers[peer].link->bell.event_fd);
        }
    for (shoali_shm_link *link = shm->strangers; link != NULL; link = link->next)
        close_fd(&link->socket);
}

static void shm_close(void *state)
{
    shoali_shm *shm = state;
    for (uint32_t peer = 0; shm->peers != NULL && peer < shm->args.size; peer++)
        drop(shm, peer, true);
    while (shm->strangers != NULL)
        shoali_shm_link_kill(shm->strangers, SHOAL_ECANCELLED);
    shoali_shm_link_free_dead(shm);
    shm_forked(shm);
    shoali_bell_close(&shm->bell);
    if (shm->token != NULL)
        explicit_bzero(shm->token, shm->args.token_bytes);
    shoali_free(shm->token);
    shoali_free(shm->job);
    shoali_free(shm->peers);
    *shm = (shoali_shm){.epoll = -1, .listener = -1, .bell = {-1, -1, NULL}};
}

static shoal_status shm_open_row(void *state, const shoali_transport_args *args,
                                 const shoali_transport_events *events)
{
    shoali_shm *shm = state;
    *shm = (shoali_shm){.events = *events,
                        .epoll = -1,
                        .listener = -1,
                        .bell = {-1, -1, NULL},
                        .wake_us = UINT64_MAX};
    shoal_status status = try_open(shm, args);
    if (status != SHOAL_OK) {
        shoal_error error;
        shoali_error_get(&error);
        shm_close(shm);
        (void)shoali_error_set(&error);
    }
    return status;
}

static void shm_address(const void *state, char out[SHOALI_ADDRESS_BYTES])
{
    const shoali_shm *shm = state;
    shoali_address_format(&shm->address, out);
}

/* ---------------------------------------------------------------- peers come and go */

static shoal_status shm_add_peer(void *state, uint32_t peer, const char *address)
{
    shoali_shm *shm = state;
    shoali_address to;
    if (peer >= shm->args.size || peer == shm->args.me || shm->peers[peer].state != SHOALI_SHM_NONE)
        return shoali_fail(SHOAL_EINVAL, "endpoint %u cannot be added: %s", peer,
                           peer < shm->args.size && peer != shm->args.me ? "it is there already"
                                                                         : "no such peer");
    SHOALI_TRY(shoali_address_parse(address, &to));
    if (!shoali_address_same_host(&to, &shm->address) || to.unix_name[0] == '\0')
        return shoali_fail(SHOAL_ENOTSUP, "rank %u (%s) shares no memory with this one", peer,
                           to.host);
    shoali_shm_peer *p = &shm->peers[peer];
    uint64_t give_up_us = shm->args.now_us(shm->args.now_ctx) + (uint64_t)shm->args.join_us;
    if (shm->args.me > peer) {
        shoali_shm_link *link = shoali_shm_link_create(shm, peer, true);
        if (link == NULL)
            return SHOAL_ENOMEM;
        link->give_up_us = give_up_us;
        link->wake_us = 0;
    } else {
        p->wake_us = give_up_us;
    }
    p->address = to;
    p->state = SHOALI_SHM_JOINING;
    memset(&p->stats, 0, sizeof p->stats);
    shm->wake_us = 0; /* dial, or it may have called already */
    return SHOAL_OK;
}

static void shm_drop_peer(void *state, uint32_t peer, bool polite)
{
    shoali_shm *shm = state;
    if (peer < shm->args.size)
        drop(shm, peer, polite);
}

static void shm_peer_stats(const void *state, uint32_t peer, shoal_peer_stats *add)
{
    const shoali_shm *shm = state;
    const shoali_shm_peer *p = &shm->peers[peer];
    snprintf(add->host, sizeof add->host, "%s", p->address.host);
    snprintf(add->transport, sizeof add->transport, "shm");
    add->sent_frames += p->stats.sent_frames;
    add->sent_payload_bytes += p->stats.sent_payload_bytes;
    add->sent_wire_bytes += p->stats.sent_wire_bytes;
    add->received_frames += p->stats.received_frames;
    add->received_payload_bytes += p->stats.received_payload_bytes;
    add->received_wire_bytes += p->stats.received_wire_bytes;
    add->dropped_frames += p->stats.dropped_frames;
    uint64_t now_us = shm->args.now_us(shm->args.now_ctx);
    add->last_seen_us = now_us > p->last_seen_us ? now_us - p->last_seen_us : 0;
}

static shoal_status shm_send(void *state, uint32_t peer, uint8_t tos, const shoal_data *head,
                             const void *body, uint64_t cookie)
{
    shoali_shm *shm = state;
    (void)tos;
    if (peer >= shm->args.size || shm->peers[peer].state != SHOALI_SHM_UP)
        return shoali_fail(SHOAL_EPEER, "no shared memory with rank %u", peer);
    if (head->len_bytes > SHOALI_FRAME_MAX_BODY_BYTES)
        return shoali_fail(SHOAL_EINVAL, "frame of %u bytes, at most %d", head->len_bytes,
                           SHOALI_FRAME_MAX_BODY_BYTES);
    SHOALI_TRY(
        shoali_outbox_put(&shm->peers[peer].link->box, &shm->args, false, head, body, cookie));
    shm->more = true;
    return SHOAL_OK;
}

static shoal_status shm_control(void *state, uint32_t peer, uint16_t kind, const void *bytes,
                                size_t len_bytes)
{
    (void)state, (void)bytes;
    return shoali_fail(SHOAL_ENOTSUP,
                       "shared memory carries no control frames (kind %u, %zu bytes, rank %u)",
                       kind, len_bytes, peer);
}

/* ---------------------------------------------------------------- progress */

static bool is_joining(const shoali_shm *shm)
{
    for (uint32_t peer = 0; peer < shm->args.size; peer++)
        if (shm->peers[peer].state == SHOALI_SHM_JOINING)
            return true;
    return false;
}

static void link_timer(shoali_shm_link *link)
{
    if (link->state == SHOALI_SHM_LINK_WAITING) {
        shoali_shm_link_dial(link);
        return;
    }
    if (!link->dialled && is_joining(link->shm)) /* as for tcp */
        link->wake_us = link->shm->now_us + SHOALI_SHM_OPENING_US;
    else
        shoali_shm_link_failed(link, SHOAL_ETIMEDOUT, "it does not answer");
}

static void peer_timers(shoali_shm *shm, uint32_t peer, uint64_t *next_us)
{
    shoali_shm_peer *p = &shm->peers[peer];
    if (p->link != NULL)
        shoali_shm_link_settle(p->link);
    if (p->link != NULL && p->link->wake_us <= shm->now_us)
        link_timer(p->link);
    if (p->state == SHOALI_SHM_JOINING && p->wake_us <= shm->now_us)
        shoali_shm_peer_fail(shm, peer, SHOAL_ETIMEDOUT, "did not connect in time");
    if (p->wake_us < *next_us)
        *next_us = p->wake_us;
    if (p->link != NULL && p->link->wake_us < *next_us)
        *next_us = p->link->wake_us;
}

static void timers(shoali_shm *shm)
{
    uint64_t next_us = UINT64_MAX;
    shm->wake_us = UINT64_MAX;
    for (uint32_t peer = 0; peer < shm->args.size; peer++)
        peer_timers(shm, peer, &next_us);
    for (shoali_shm_link *link = shm->strangers, *next; link != NULL; link = next) {
        next = link->next;
        if (link->wake_us <= shm->now_us)
            link_timer(link);
        else if (link->wake_us < next_us)
            next_us = link->wake_us;
    }
    if (next_us < shm->wake_us)
        shm->wake_us = next_us;
}

static void handle(shoali_shm *shm, void *source)
{
    if (source == &shm->listener) {
        shoali_shm_accept_all(shm);
    } else if (source == &shm->bell) {
        shoali_bell_clear(&shm->bell);
    } else {
        shoali_shm_link *link = source;
        if (link->state == SHOALI_SHM_LINK_OPENING ||
            (link->state == SHOALI_SHM_LINK_MEETING && !link->met))
            shoali_shm_link_advance(link);
        else if (link->state == SHOALI_SHM_LINK_OPEN)
            read_socket(link);
        else if (link->state ==
                 SHOALI_SHM_LINK_MEETING) /* waits for add_peer: can only have ended */
            shoali_shm_link_kill(link, SHOAL_EPEER);
    }
}

static void pump(shoali_shm *shm, uint32_t peer)
{
    shoali_shm_link *link = shm->peers[peer].link;
    if (link == NULL || link->state != SHOALI_SHM_LINK_OPEN)
        return;
    shoali_shm_link_pump_in(link);
    if (link->state == SHOALI_SHM_LINK_OPEN)
        shoali_shm_link_pump_out(link);
    if (link->state == SHOALI_SHM_LINK_OPEN && link->ended && !shoali_shm_link_has_work(link))
        finish_ended(link);
    if (link->state == SHOALI_SHM_LINK_OPEN && shoali_shm_link_has_work(link))
        shm->more = true;
}

static void shm_progress(void *state, uint64_t now_us)
{
    shoali_shm *shm = state;
    struct epoll_event events[EVENTS_PER_TURN];
    shm->now_us = now_us;
    shoali_bell_wake(&shm->bell);
    int count = epoll_wait(shm->epoll, events, EVENTS_PER_TURN, 0);
    for (int i = 0; i < count; i++)
        handle(shm, events[i].data.ptr);
    if (shm->wake_us <= now_us && count < EVENTS_PER_TURN) /* as for tcp: first what has come */
        timers(shm);
    shm->more = false;
    for (uint32_t peer = 0; peer < shm->args.size; peer++)
        pump(shm, peer);
    shoali_bell_sleep(&shm->bell);
    for (uint32_t peer = 0; peer < shm->args.size && !shm->more; peer++) {
        const shoali_shm_link *link = shm->peers[peer].link;
        shm->more = link != NULL && link->state == SHOALI_SHM_LINK_OPEN &&
                    (shoali_shm_link_has_work(link) || link->ended);
    }
    shoali_shm_link_free_dead(shm);
}

static uint64_t shm_next_wake_us(const void *state)
{
    const shoali_shm *shm = state;
    return shm->more ? 0 : shm->wake_us;
}

static int shm_fd(const void *state)
{
    const shoali_shm *shm = state;
    return shm->epoll;
}

const shoali_transport_row shoali_transport_shm = {
    .name = "shm",
    .about = "rings in shared memory between ranks of one host",
    .traits = SHOALI_TRANSPORT_STREAM,
    .schema = {keys, sizeof keys / sizeof keys[0], sizeof(shoali_shm_params)},
    .state_size = sizeof(shoali_shm),
    .open = shm_open_row,
    .address = shm_address,
    .add_peer = shm_add_peer,
    .send = shm_send,
    .control = shm_control,
    .fd = shm_fd,
    .progress = shm_progress,
    .next_wake_us = shm_next_wake_us,
    .drop_peer = shm_drop_peer,
    .peer_stats = shm_peer_stats,
    .close = shm_close,
    .forked = shm_forked,
};
