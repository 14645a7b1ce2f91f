/* SPDX-License-Identifier: Apache-2.0 */
#include "relay/relay.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "relay/inner.h"
#include "transport/tcp_socket.h"
#include "wire/find.h"

enum {
    GREET_US = 1000000, /* a stranger may take so long to prove itself */
    STRANGERS = 64,     /* that have not; then the oldest makes room */
    ACCEPTS_PER_TURN = 16,
    LINGER_US = 5000000,
    IDLE_MS = 250,
    QUESTIONS_PER_TURN = 16,
    FIRST_POLLS = 2 + SHOALI_ADDRESS_IPS /* wake, udp, listeners */
};

/* ------------------------------------------------------------------ ways */

/* Its first address, in the order in which they are worth a try from here. */
static shoali_ip best_address(const shoali_relay *r, uint32_t endpoint)
{
    shoali_address to = r->all[endpoint];
    (void)shoali_address_choose(&r->mine, &to);
    return to.ips[0];
}

bool shoali_relay_find_way(const shoali_relay *r, uint32_t to, shoali_way *way_out)
{
    if (to == SHOALI_RELAY_STORE) {
        *way_out = r->store;
        return r->store_known;
    }
    if (r->all == NULL || to >= r->size || to == r->desc.me || r->next[to] == SHOALI_NO_ROUTE)
        return false;
    uint32_t next = r->next[to];
    *way_out = (shoali_way){.ip = best_address(r, next), .relayed = next != to, .rank = next};
    if (way_out->relayed)
        shoali_ip_set_port(&way_out->ip, r->all[next].relay_port);
    return true;
}

bool shoali_relay_way(shoali_relay *relay, uint32_t to, shoali_way *way_out)
{
    if (relay == NULL)
        return false;
    pthread_mutex_lock(&relay->lock);
    bool found = shoali_relay_find_way(relay, to, way_out) && way_out->relayed;
    pthread_mutex_unlock(&relay->lock);
    return found;
}

static uint64_t links_to(const shoali_relay *r, uint32_t endpoint)
{
    uint32_t next = r->next[endpoint];
    return next == SHOALI_NO_ROUTE ? UINT64_MAX : shoali_address_wires(&r->mine, &r->all[next]);
}

const uint64_t *shoali_relay_links(const shoali_relay *relay)
{
    return relay != NULL && relay->running ? relay->links : NULL;
}

bool shoali_relay_between(shoali_relay *relay, uint32_t a, uint32_t b)
{
    if (relay == NULL || relay->all == NULL || a >= relay->size || b >= relay->size)
        return false;
    if (relay->seen != a)
        shoali_routes(relay->all, relay->size, a, NULL, relay->seen_next, relay->queue);
    relay->seen = a;
    return relay->seen_next[b] != b && relay->seen_next[b] != SHOALI_NO_ROUTE;
}

void shoali_relay_found(shoali_relay *relay, const shoali_way *store)
{
    if (relay == NULL)
        return;
    pthread_mutex_lock(&relay->lock);
    relay->store = *store;
    relay->store_known = true;
    pthread_mutex_unlock(&relay->lock);
}

shoal_status shoali_relay_learn(shoali_relay *relay, const shoali_address *all, uint32_t size)
{
    shoali_address *copy = shoali_alloc_array(size, sizeof *copy);
    uint32_t *next = shoali_alloc_array(3 * (size_t)size, sizeof *next);
    uint64_t *links = shoali_alloc_array(size, sizeof *links);
    uint16_t *doors = shoali_alloc_array(size, sizeof *doors);
    bool ok = copy != NULL && next != NULL && links != NULL && doors != NULL && relay->all == NULL;
    if (ok) {
        relay->seen_next = next + size;
        relay->queue = next + 2 * (size_t)size;
        relay->seen = SHOALI_NO_ROUTE;
        memcpy(copy, all, size * sizeof *copy);
        shoali_routes(copy, size, relay->desc.me, NULL, next, relay->queue);
        pthread_mutex_lock(&relay->lock);
        relay->all = copy;
        relay->next = next;
        relay->size = size;
        relay->links = links;
        relay->doors = doors;
        for (uint32_t i = 0; i < size; i++)
            links[i] = links_to(relay, i);
        pthread_mutex_unlock(&relay->lock);
    } else {
        shoali_free(copy);
        shoali_free(next);
        shoali_free(links);
        shoali_free(doors);
    }
    return ok ? SHOAL_OK : SHOAL_ENOMEM;
}

void shoali_relay_know_door(shoali_relay *relay, uint32_t rank, uint16_t port)
{
    if (relay == NULL || relay->all == NULL || rank >= relay->size)
        return;
    pthread_mutex_lock(&relay->lock);
    relay->doors[rank] = port;
    pthread_mutex_unlock(&relay->lock);
}

void shoali_relay_avoid(shoali_relay *relay, const bool *out)
{
    if (relay == NULL || relay->all == NULL)
        return;
    pthread_mutex_lock(&relay->lock);
    shoali_routes(relay->all, relay->size, relay->desc.me, out, relay->next, relay->queue);
    pthread_mutex_unlock(&relay->lock);
}

/* ------------------------------------------------------------------ all of them */

/* The oldest of those who have not proved themselves, once there are too many. */
static void make_room(shoali_relay *r)
{
    uint32_t count = 0, oldest = 0;
    for (uint32_t i = 0; i < r->tunnel_count; i++) {
        if (r->tunnels[i]->state != SHOALI_TUNNEL_GREETED)
            continue;
        if (count++ == 0 || r->tunnels[i]->until_us < r->tunnels[oldest]->until_us)
            oldest = i;
    }
    if (count > STRANGERS)
        shoali_tunnel_end(r, oldest);
}

static bool has_room(const shoali_relay *r)
{
    return !atomic_load(&r->quit) && r->tunnel_count < SHOALI_TUNNELS;
}

static void accept_some(shoali_relay *r, int listener)
{
    for (int i = 0; i < ACCEPTS_PER_TURN && has_room(r); i++) {
        bool none;
        int fd = shoali_tcp_accept(listener, r->desc.deadline_us, &none);
        shoali_tunnel *t = fd >= 0 ? shoali_alloc(sizeof *t) : NULL;
        if (t == NULL) {
            if (fd >= 0)
                close(fd);
            return;
        }
        *t = (shoali_tunnel){.fd = {fd, -1}, .until_us = shoali_now_us() + GREET_US};
        r->tunnels[r->tunnel_count++] = t;
        if (shoali_relay_greet(r, false, 0, 0, 0, &t->handshake) != SHOAL_OK)
            shoali_tunnel_end(r, r->tunnel_count - 1);
        make_room(r);
    }
}

static void answer(const shoali_relay *r)
{
    for (int i = 0; i < QUESTIONS_PER_TURN; i++) {
        uint8_t bytes[SHOALI_FIND_BYTES + 1];
        shoali_find find;
        shoali_ip from = {.any = {0}};
        socklen_t length = sizeof from;
        ssize_t got = recvfrom(r->udp, bytes, sizeof bytes, MSG_DONTWAIT, &from.any, &length);
        if (got < 0)
            return;
        if (!r->store_known ||
            !shoali_find_decode(bytes, (size_t)got, r->job, r->token, r->desc.token_bytes, &find) ||
            find.kind != SHOALI_FIND_ASK || find.endpoint == r->desc.me)
            continue;
        find.kind = SHOALI_FIND_TELL;
        find.endpoint = r->desc.me;
        find.port = r->port;
        if (shoali_find_encode(&find, r->job, r->token, r->desc.token_bytes, bytes) &&
            sendto(r->udp, bytes, SHOALI_FIND_BYTES, MSG_DONTWAIT, &from.any, length) < 0)
            continue; /* it will ask again */
    }
}

/* Nothing to wait for: no descriptor, or its hanging up would wake us for ever. */
void shoali_relay_want(struct pollfd *poll, int fd, short events)
{
    *poll = (struct pollfd){.fd = events != 0 ? fd : -1, .events = events};
}

static void wait_for_events(shoali_relay *r)
{
    bool room = has_room(r);
    shoali_relay_want(&r->polls[0], r->wake_fd, POLLIN);
    shoali_relay_want(&r->polls[1], r->udp, POLLIN);
    for (int i = 0; i < SHOALI_ADDRESS_IPS; i++)
        shoali_relay_want(&r->polls[2 + i], i < r->listener_count ? r->listeners[i] : -1,
                          room ? POLLIN : 0);
    for (uint32_t i = 0; i < r->tunnel_count; i++)
        shoali_tunnel_want(r->tunnels[i], &r->polls[FIRST_POLLS + 2 * i]);
    (void)poll(r->polls, FIRST_POLLS + 2 * r->tunnel_count, IDLE_MS);
}

static void serve_tunnels(shoali_relay *r)
{
    uint64_t now_us = shoali_now_us();
    for (uint32_t i = r->tunnel_count; i-- > 0;) { /* backwards: the end moves the last one here */
        const shoali_tunnel *t = r->tunnels[i];
        bool known = t->state != SHOALI_TUNNEL_GREETED || t->handshake.done;
        shoal_status status = shoali_tunnel_advance(r, r->tunnels[i],
                                                    &r->polls[FIRST_POLLS + 2 * i], now_us);
        if (status == SHOAL_PENDING)
            continue;
        if (status != SHOAL_OK && known)
            shoali_log(INFO, "relay from rank %u to rank %u: %s", t->from, t->to,
                       shoal_last_error()->text);
        else if (status != SHOAL_OK)
            shoali_log(WARN, "relay: refused a caller: %s", shoal_last_error()->text);
        shoali_tunnel_end(r, i);
    }
}

static bool is_over(const shoali_relay *r)
{
    return atomic_load(&r->quit) && (r->tunnel_count == 0 || shoali_now_us() >= r->linger_us);
}

static void *thread_main(void *arg)
{
    shoali_relay *r = arg;
    shoali_log_set_rank((int32_t)r->desc.me, (int32_t)r->desc.size);
    while (!is_over(r)) {
        uint64_t count;
        wait_for_events(r);
        pthread_mutex_lock(&r->lock);
        if (r->polls[0].revents != 0 && read(r->wake_fd, &count, sizeof count) < 0)
            shoali_log(TRACE, "a relay was woken for nothing");
        if (r->polls[1].revents != 0)
            answer(r);
        serve_tunnels(r);
        for (int i = 0; i < r->listener_count; i++)
            if (r->polls[2 + i].revents != 0)
                accept_some(r, r->listeners[i]);
        pthread_mutex_unlock(&r->lock);
    }
    return NULL;
}

/* ------------------------------------------------------------------ open and close */

/* Only with two of them is there anything to pass on. */
static bool has_several_links(const shoali_address *mine)
{
    for (uint32_t i = 1; i < mine->ip_count; i++)
        if (mine->subnet_bits[i] != 0 && mine->ips[i].any.sa_family == mine->ips[0].any.sa_family &&
            !shoali_address_share(mine, 0, mine, i))
            return true;
    return false;
}

static void listen_on_all(shoali_relay *r)
{
    for (uint32_t i = 0; i < r->mine.ip_count; i++) {
        shoali_ip bound;
        int fd = shoali_tcp_listen(&r->mine.ips[i], r->port, &bound);
        if (fd < 0)
            continue;
        r->port = shoali_ip_port(&bound);
        r->listeners[r->listener_count++] = fd;
    }
}

/* Several ranks of one host hear the same questions. */
static int listen_for_questions(uint16_t port)
{
    const int on = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, (const struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    shoali_log(INFO, "cannot hear on UDP port %u who asks for a relay: %s", port, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

static shoal_status start(shoali_relay *r)
{
    listen_on_all(r);
    if (r->listener_count == 0)
        return shoali_fail(SHOAL_ESYSTEM, "a relay can listen nowhere");
    if (r->desc.find_port != 0)
        r->udp = listen_for_questions(r->desc.find_port);
    r->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->polls = shoali_alloc_array(FIRST_POLLS + 2 * SHOALI_TUNNELS, sizeof *r->polls);
    if (r->wake_fd < 0 || r->polls == NULL)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "no descriptor or memory for a relay");
    SHOALI_TRY(shoali_thread_start(&r->thread, thread_main, r));
    r->running = true;
    return SHOAL_OK;
}

shoal_status shoali_relay_open(const shoali_relay_desc *desc, const shoali_address *mine,
                               shoali_relay **relay_out)
{
    shoali_relay *r = shoali_alloc(sizeof *r);
    if (r == NULL)
        return SHOAL_ENOMEM;
    *r = (shoali_relay){.desc = *desc, .mine = *mine, .udp = -1, .wake_fd = -1};
    pthread_mutex_init(&r->lock, NULL);
    snprintf(r->job, sizeof r->job, "%s", desc->job);
    if (desc->token_bytes > sizeof r->token)
        r->desc.token_bytes = sizeof r->token;
    memcpy(r->token, desc->token, r->desc.token_bytes);
    r->desc.job = r->job;
    r->desc.token = r->token;
    shoal_status status = has_several_links(mine) ? start(r) : SHOAL_OK;
    if (status != SHOAL_OK)
        shoali_relay_close(r);
    else
        *relay_out = r;
    return status;
}

uint16_t shoali_relay_port(const shoali_relay *relay)
{
    return relay->running ? relay->port : 0;
}

void shoali_relay_forked(shoali_relay *relay)
{
    if (relay == NULL)
        return;
    for (int i = 0; i < relay->listener_count; i++)
        close(relay->listeners[i]);
    if (relay->udp >= 0)
        close(relay->udp);
    if (relay->wake_fd >= 0)
        close(relay->wake_fd);
    for (uint32_t i = 0; i < relay->tunnel_count; i++)
        for (int end = 0; end < 2; end++)
            if (relay->tunnels[i]->fd[end] >= 0)
                close(relay->tunnels[i]->fd[end]);
}

void shoali_relay_lock(shoali_relay *relay)
{
    if (relay != NULL)
        pthread_mutex_lock(&relay->lock);
}

void shoali_relay_unlock(shoali_relay *relay)
{
    if (relay != NULL)
        pthread_mutex_unlock(&relay->lock);
}

static void stop(shoali_relay *r)
{
    const uint64_t one = 1;
    if (!r->running)
        return;
    pthread_mutex_lock(&r->lock);
    r->linger_us = shoali_now_us() + LINGER_US;
    pthread_mutex_unlock(&r->lock);
    atomic_store(&r->quit, true);
    if (write(r->wake_fd, &one, sizeof one) < 0)
        shoali_log(TRACE, "a relay is awake already");
    pthread_join(r->thread, NULL);
}

void shoali_relay_close(shoali_relay *relay)
{
    if (relay == NULL)
        return;
    stop(relay);
    while (relay->tunnel_count > 0)
        shoali_tunnel_end(relay, 0);
    shoali_relay_forked(relay);
    pthread_mutex_destroy(&relay->lock);
    explicit_bzero(relay->token, sizeof relay->token);
    shoali_free(relay->all);
    shoali_free(relay->next);
    shoali_free(relay->links);
    shoali_free(relay->doors);
    shoali_free(relay->polls);
    shoali_free(relay);
}
