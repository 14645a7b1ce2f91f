/* SPDX-License-Identifier: Apache-2.0 */
#include "meet/door.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "meet/net.h"
#include "transport/address.h"
#include "wire/messages.h"

enum {
    SAY_US = 5 * 1000 * 1000, /* one that has proved itself may take so long to say who it is */
    OTHERS = 64,              /* newcomers that may wait, beyond places for all members twice */
    IDLE_MS = 250,
    FAREWELL_MS = 200
};

/* ------------------------------------------------------------------ listening */

/* A port that the kernel chooses (0) must be nobody else's: with SO_REUSEADDR it might be one that
 * is bound already for a listener to come. */
static int listen_at(const shoali_ip *ip, uint16_t port)
{
    int on = 1, off = 0, family = ip->any.sa_family;
    shoali_ip at = *ip;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    shoali_ip_set_port(&at, port);
    if (fd < 0)
        return -1;
    if (family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if ((port == 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0) &&
        bind(fd, &at.any, shoali_ip_bytes(&at)) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Several addresses have to have one port: then it listens everywhere, and takes in who came by one
 * of them. */
static shoal_status listen_on(shoali_door *door)
{
    char ip_text[SHOALI_IP_TEXT_BYTES];
    shoali_ip ip = door->at.ips[0], bound = {.any = {0}};
    socklen_t length = sizeof bound;
    shoali_ip_format(&ip, ip_text);
    if (door->at.ip_count > 1 && ip.any.sa_family == AF_INET)
        ip.v4.sin_addr.s_addr = htonl(INADDR_ANY);
    else if (door->at.ip_count > 1)
        ip.v6.sin6_addr = in6addr_any;
    door->listener = listen_at(&ip, 0);
    if (door->listener < 0 || getsockname(door->listener, &bound.any, &length) != 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot listen at %s for newcomers", ip_text);
    snprintf(door->address, sizeof door->address,
             ip.any.sa_family == AF_INET6 ? "[%.46s]:%u" : "%.46s:%u", ip_text,
             shoali_ip_port(&bound));
    return SHOAL_OK;
}

/* "10.0.0.3:29401" or "[fd00::3]:29401". */
static int listen_named(const char *address)
{
    char place[SHOALI_DOOR_BYTES + 8], host[256], port[8];
    shoali_ip ip;
    snprintf(place, sizeof place, "tcp://%s", address);
    if (!shoali_meet_parse(place, host, sizeof host, port, sizeof port) ||
        !shoali_ip_parse(host, &ip))
        return -1;
    return listen_at(&ip, (uint16_t)strtoul(port, NULL, 10));
}

/* A name of this host may stand for loopback (Debian's 127.0.1.1), where others cannot come: then
 * it listens everywhere, as the rendezvous did (meet_net.c), if there is a token. */
static int listen_at_place(const shoali_door *door, const shoali_ip *place)
{
    shoali_ip ip = *place;
    if (door->token.len_bytes > 0 && shoali_ip_is_loopback(&ip) &&
        strncmp(door->rendezvous, "tcp://localhost:", 16) != 0) {
        if (ip.any.sa_family == AF_INET)
            ip.v4.sin_addr.s_addr = htonl(INADDR_ANY);
        else
            ip.v6.sin6_addr = in6addr_any;
    }
    return listen_at(&ip, shoali_ip_port(place));
}

/* ------------------------------------------------------------------ being found */

static void listen_where_known(shoali_door *door)
{
    char address[SHOALI_DOOR_BYTES];
    for (uint32_t i = 0; door->named < 0 && shoali_door_known(door, i, address); i++)
        door->named = listen_named(address);
    for (uint32_t i = 0; door->named < 0 && i < door->place_count; i++)
        door->named = listen_at_place(door, &door->places[i]);
}

/* Be where newcomers look. */
static void publish(shoali_door *door)
{
    char path[SHOALI_RENDEZVOUS_BYTES + 16];
    listen_where_known(door);
    if (door->owner.ctx != NULL && door->owner.me == 0 &&
        shoali_doors_file(door, path, sizeof path) != NULL)
        shoali_doors_write(door, path);
}

/* ------------------------------------------------------------------ visitors */

static bool came_by_one_of(void *ctx, int fd)
{
    const shoali_address *at = ctx;
    shoali_ip here = {.any = {0}};
    socklen_t length = sizeof here;
    bool found = false;
    if (getsockname(fd, &here.any, &length) != 0)
        return false;
    for (uint32_t i = 0; i < at->ip_count; i++)
        found = found || shoali_ip_equal(&at->ips[i], &here);
    return found;
}

static shoal_status take_doubt(shoali_caller *caller, const uint8_t *body, size_t length)
{
    if (caller->doubts == NULL)
        caller->doubts = shoali_alloc_array(SHOALI_DOUBTS, sizeof *caller->doubts);
    if (caller->doubts == NULL)
        return SHOAL_ENOMEM;
    if (caller->doubt_count == SHOALI_DOUBTS ||
        !shoali_proposal_decode(body, length, &caller->doubts[caller->doubt_count]))
        return shoali_fail(SHOAL_ECORRUPT, "a doubt that cannot be read at a door");
    caller->doubt_count++;
    return SHOAL_OK;
}

static void forget(shoali_visitor *visitor)
{
    shoali_free(((shoali_caller *)visitor)->doubts);
}

/* PENDING: all is well so far; else it is to be dropped. */
static shoal_status hear(const shoali_door *door, shoali_caller *caller)
{
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    shoali_record record;
    for (;;) {
        SHOALI_TRY(shoali_meet_stream_read(&caller->base.stream, &kind, &body, &length));
        bool said = caller->member || caller->newcomer;
        if (kind == SHOALI_MESSAGE_proposal && !said) {
            SHOALI_TRY(take_doubt(caller, body, length));
            continue;
        }
        if (kind == SHOALI_MESSAGE_come && !said &&
            shoali_come_decode(body, length, &caller->call.come) &&
            caller->call.come.doubts == caller->doubt_count) {
            caller->member = true;
            caller->call.doubts = caller->doubts;
        } else if (kind == SHOALI_MESSAGE_record && !said && caller->doubt_count == 0 &&
                   shoali_record_decode(body, length, &record)) {
            SHOALI_TRY(shoali_meet_agree(&door->mine, &record));
            caller->newcomer = true;
        } else {
            return shoali_fail(SHOAL_ECORRUPT, "an unexpected frame of kind %u at a door", kind);
        }
        if (shoali_visitors_known(&door->visitors) >= door->visitors.limit)
            return shoali_fail(SHOAL_EAUTH, "%u are waiting here already", door->visitors.limit);
        caller->base.known = true;
    }
}

/* A newcomer that finds no place, or the wrong door. */
static void hold(shoali_caller *caller, const shoali_door_owner *owner, uint32_t leader)
{
    shoali_held held = {.stay = leader == owner->me};
    uint8_t body[SHOALI_HELD_BYTES];
    for (uint32_t i = leader; i < owner->size && held.count < SHOALI_HELD_DOORS; i++)
        if (i != owner->me && owner->door_of(owner->ctx, i, held.doors[held.count]))
            held.count++;
    caller->held = shoali_meet_stream_put(&caller->base.stream, SHOALI_MESSAGE_held, body,
                                          shoali_held_encode(&held, body));
    caller->leaves = !held.stay;
}

/* The lowest member that is there: it leads the next epoch. */
static uint32_t leader_of(const shoali_door_owner *owner)
{
    uint32_t leader = 0;
    while (leader != owner->me && !owner->here(owner->ctx, leader))
        leader++;
    return leader;
}

/* Somebody of this epoch; all others are newcomers, whatever they were before. */
static bool is_member(const shoali_caller *caller, const shoali_door_owner *owner)
{
    const shoali_come *come = &caller->call.come;
    return caller->member && come->epoch == owner->epoch && come->rank < owner->size &&
           come->incarnation == owner->incarnation(owner->ctx, come->rank);
}

static void answer(const shoali_door *door, shoali_caller *caller)
{
    const shoali_door_owner *owner = &door->owner;
    if (owner->ctx == NULL || (!caller->member && !caller->newcomer))
        return;
    if (caller->member && !is_member(caller, owner)) {
        caller->member = false;
        caller->newcomer = true;
    }
    if (caller->newcomer && !caller->held && shoali_meet_stream_idle(&caller->base.stream))
        hold(caller, owner, leader_of(owner));
}

/* False: it is over with this one. */
static bool serve(shoali_door *door, shoali_caller *caller)
{
    const uint64_t now_us = shoali_now_us();
    shoal_status status = hear(door, caller);
    if (status == SHOAL_PENDING && shoali_visitor_in_time(&caller->base, now_us) != SHOAL_OK)
        status = SHOAL_ETIMEDOUT;
    if (status != SHOAL_PENDING) {
        if (status != SHOAL_EPEER)
            shoali_log(WARN, "a visitor is refused: %s", shoal_last_error()->text);
        return false;
    }
    answer(door, caller);
    if (shoali_meet_stream_write(&caller->base.stream) != SHOAL_OK)
        return false;
    if (caller->leaves && shoali_meet_stream_idle(&caller->base.stream))
        return false;
    return caller->base.known || now_us - caller->base.since_us < SAY_US;
}

void shoali_door_poll(shoali_door *door, int timeout_ms)
{
    struct pollfd *polls = door->polls;
    uint64_t count;
    polls[0] = (struct pollfd){.fd = door->wake_fd, .events = POLLIN};
    polls[1] = shoali_visitors_listen(&door->visitors, door->listener);
    polls[2] = (struct pollfd){.fd = polls[1].fd < 0 ? -1 : door->named, .events = POLLIN};
    shoali_visitors_want(&door->visitors, polls + 3);
    (void)poll(polls, 3 + door->visitors.count, timeout_ms);
    pthread_mutex_lock(&door->lock);
    if (polls[0].revents != 0 && read(door->wake_fd, &count, sizeof count) < 0)
        shoali_log(TRACE, "a door was woken for nothing");
    for (uint32_t i = door->visitors.count; i-- > 0;) /* backwards: drop moves the last one here */
        if (!serve(door, shoali_door_caller(door, i)))
            shoali_visitors_drop(&door->visitors, i);
    for (int i = 1; i < 3; i++)
        if (polls[i].revents != 0)
            shoali_visitors_accept(&door->visitors, polls[i].fd, i == 1 ? came_by_one_of : NULL,
                                   &door->at);
    pthread_mutex_unlock(&door->lock);
}

/* ------------------------------------------------------------------ between reforms */

/* Is there a reason to reform: a member that does already, or a newcomer for whom there is room? */
static bool is_wanted(const shoali_door *door)
{
    const shoali_door_owner *owner = &door->owner;
    bool room = owner->size < door->mine.world_size, leads = leader_of(owner) == owner->me;
    for (uint32_t i = 0; i < door->visitors.count; i++) {
        const shoali_caller *caller = shoali_door_caller(door, i);
        if (caller->member || (caller->newcomer && room && leads))
            return true;
    }
    return false;
}

static void *thread_main(void *arg)
{
    shoali_door *door = arg;
    bool told = false;
    shoali_log_set_rank((int32_t)door->owner.me, (int32_t)door->owner.size);
    while (!atomic_load(&door->quit)) {
        shoali_door_poll(door, IDLE_MS);
        listen_where_known(door); /* whoever did may be gone */
        if (!told && is_wanted(door))
            told = door->owner.want(door->owner.ctx);
    }
    return NULL;
}

shoal_status shoali_door_start(shoali_door *door, const shoali_door_owner *owner)
{
    door->owner = *owner;
    publish(door);
    atomic_store(&door->quit, false);
    SHOALI_TRY(shoali_thread_start(&door->thread, thread_main, door));
    door->running = true;
    return SHOAL_OK;
}

void shoali_door_stop(shoali_door *door)
{
    const uint64_t one = 1;
    if (!door->running)
        return;
    atomic_store(&door->quit, true);
    if (write(door->wake_fd, &one, sizeof one) < 0)
        shoali_log(TRACE, "a door is awake already");
    pthread_join(door->thread, NULL);
    door->running = false;
}

/* ------------------------------------------------------------------ open and close */

static shoal_status keep_text(shoali_door *door, const char **text)
{
    if (*text == NULL)
        return SHOAL_OK;
    *text = shoali_arena_strdup(door->arena, *text);
    return *text != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static shoal_status keep_desc(shoali_door *door, const shoal_comm_desc *desc)
{
    door->desc = *desc;
    if (door->desc.doors == NULL)
        door->desc.doors = shoali_getenv(NULL, "SHOAL_DOORS");
    SHOALI_TRY(keep_text(door, &door->desc.doors));
    SHOALI_TRY(keep_text(door, &door->desc.interface));
    SHOALI_TRY(keep_text(door, &door->desc.transport));
    SHOALI_TRY(keep_text(door, &door->desc.fault));
    door->desc.job = door->job;
    door->desc.rendezvous = door->rendezvous;
    door->desc.token = NULL; /* the bytes are kept apart */
    return SHOAL_OK;
}

static shoal_status fill(shoali_door *door, const shoali_door_first *first)
{
    door->arena = shoali_arena_create(1024);
    if (door->arena == NULL)
        return SHOAL_ENOMEM;
    door->token = *first->token;
    door->mine = *first->mine;
    snprintf(door->job, sizeof door->job, "%s", first->job);
    snprintf(door->rendezvous, sizeof door->rendezvous, "%s", first->rendezvous);
    SHOALI_TRY(keep_desc(door, first->desc));
    door->meeting = (shoali_meeting){
        .place = door->rendezvous, .job = door->job, .token = &door->token, .mine = &door->mine};
    door->host = *first->mine;
    door->host.rank = 0;
    door->hosting = door->meeting;
    door->hosting.mine = &door->host;
    door->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (door->wake_fd < 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "no descriptor for a door");
    door->at = *first->at;
    door->place_count = shoali_door_resolve(door, door->places);
    SHOALI_TRY(shoali_visitors_open(&door->hosting, sizeof(shoali_caller),
                                    2 * first->mine->world_size + OTHERS, &door->visitors));
    door->visitors.forget = forget;
    door->polls = shoali_alloc_array(3 + shoali_visitors_room(&door->visitors),
                                     sizeof *door->polls);
    return door->polls != NULL ? listen_on(door) : SHOAL_ENOMEM;
}

shoal_status shoali_door_open(const shoali_door_first *first, shoali_door **door_out)
{
    shoali_door *door = shoali_alloc(sizeof *door);
    if (door == NULL)
        return SHOAL_ENOMEM;
    door->listener = door->named = door->wake_fd = -1;
    pthread_mutex_init(&door->lock, NULL);
    shoal_status status = fill(door, first);
    if (status != SHOAL_OK) {
        shoali_door_close(door);
        return status;
    }
    *door_out = door;
    return SHOAL_OK;
}

/* Newcomers still wait: they need not look for us any longer. */
static void say_farewell(shoali_door *door)
{
    const shoali_abort end = {.status = SHOAL_ECANCELLED,
                              .culprit = SHOALI_NOBODY,
                              .text = "the job ended before this process was needed"};
    uint8_t body[SHOALI_ABORT_BYTES];
    size_t length = shoali_abort_encode(&end, body);
    for (uint32_t i = 0; i < door->visitors.count; i++) {
        shoali_caller *caller = shoali_door_caller(door, i);
        caller->leaves = shoali_meet_stream_put(&caller->base.stream, SHOALI_MESSAGE_abort, body,
                                                length);
    }
    uint64_t until_us = shoali_now_us() + FAREWELL_MS * 1000;
    door->owner = (shoali_door_owner){.ctx = NULL};
    while (door->visitors.count > 0 && shoali_now_us() < until_us)
        shoali_door_poll(door, FAREWELL_MS / 10);
}

void shoali_door_forked(shoali_door *door)
{
    close(door->listener);
    close(door->wake_fd);
    if (door->named >= 0)
        close(door->named);
    for (uint32_t i = 0; i < door->visitors.count; i++)
        close(door->visitors.all[i]->stream.fd);
}

void shoali_door_close(shoali_door *door)
{
    char path[SHOALI_RENDEZVOUS_BYTES + 16];
    if (door == NULL)
        return;
    shoali_door_stop(door);
    if (door->owner.ctx != NULL && door->owner.me == 0 &&
        shoali_doors_file(door, path, sizeof path) != NULL)
        unlink(path);
    if (door->visitors.count > 0)
        say_farewell(door);
    shoali_visitors_close(&door->visitors);
    shoali_free(door->polls);
    int fds[] = {door->listener, door->named, door->wake_fd};
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    pthread_mutex_destroy(&door->lock);
    explicit_bzero(&door->token, sizeof door->token);
    shoali_arena_destroy(door->arena);
    shoali_free(door);
}
