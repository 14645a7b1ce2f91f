/* SPDX-License-Identifier: Apache-2.0 */
/* How a link begins and ends, and the bell: a datagram to an abstract unix socket, for a provider
 * of one host that has no descriptor to sleep on. Whoever rings it only wakes a process. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/random.h"
#include "transport/libfabric.h"
#include "wire/bytes.h"

/* The control frame `fabric`: step 1, then tag 8, fragment 4, window 4 (HELLO), nothing (HEARD), or
 * the number 4 below which all fragments have been taken (TAKEN). */
enum { STEP_HELLO = 1, STEP_HEARD = 2, STEP_TAKEN = 3, HELLO_BYTES = 17, TAKEN_BYTES = 5 };

/* The lowest bit tells data from greetings; some providers have tags of 48 bits. */
#define TAG_BITS (((UINT64_C(1) << 48) - 1) & ~UINT64_C(1))

/* ---------------------------------------------------------------- begin */

static shoal_status make_slots(shoali_lf_link *link)
{
    const shoali_lf_params *params = &link->lf->params;
    uint32_t window = (uint32_t)params->window, count = 2 * (window + SHOALI_LF_GREETINGS);
    size_t large = SHOALI_LF_HEAD_BYTES + (size_t)params->fragment_bytes;
    size_t total = 2 * (window * large + (size_t)SHOALI_LF_GREETINGS * SHOALI_LF_HEAD_BYTES);
    link->slots = shoali_alloc_array(count, sizeof *link->slots);
    link->memory = shoali_alloc(total);
    if (link->slots == NULL || link->memory == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(link->lf->ofi->lend(link->lf->endpoint, link->memory, total, &link->lent));
    uint8_t *at = link->memory;
    for (uint32_t i = 0; i < count; i++) {
        bool small = i >= 2 * window;
        shoali_lf_slot *slot = &link->slots[i];
        slot->link = link;
        slot->bytes = at;
        slot->use = small ? (i < 2 * window + SHOALI_LF_GREETINGS ? SHOALI_LF_SEND_GREETING
                                                                  : SHOALI_LF_RECEIVE_GREETING)
                          : (i < window ? SHOALI_LF_SEND : SHOALI_LF_RECEIVE);
        at += small ? SHOALI_LF_HEAD_BYTES : large;
    }
    return SHOAL_OK;
}

static shoal_status say(shoali_lf_link *link, const uint8_t *bytes, size_t len_bytes)
{
    shoali_lf *lf = link->lf;
    return lf->inner->control(lf->inner_state, link->peer, SHOALI_MESSAGE_fabric, bytes, len_bytes);
}

static shoal_status begin(shoali_lf_link *link)
{
    shoali_lf *lf = link->lf;
    uint8_t hello[HELLO_BYTES] = {STEP_HELLO};
    SHOALI_TRY(make_slots(link));
    SHOALI_TRY(shoali_random(&link->my_tag, sizeof link->my_tag));
    link->my_tag &= TAG_BITS;
    SHOALI_TRY(lf->ofi->insert(lf->endpoint, lf->peers[link->peer].name, &link->address));
    for (uint32_t i = 0; i < 2 * (link->window + SHOALI_LF_GREETINGS); i++)
        if (link->slots[i].use >= SHOALI_LF_RECEIVE)
            (void)shoali_lf_slot_post(&link->slots[i]);
    shoali_put_u64(hello + 1, link->my_tag);
    shoali_put_u32(hello + 9, link->fragment_bytes);
    shoali_put_u32(hello + 13, link->window);
    return say(link, hello, sizeof hello);
}

shoal_status shoali_lf_link_create(shoali_lf *lf, uint32_t peer)
{
    shoali_lf_link *link = shoali_alloc(sizeof *link);
    if (link == NULL)
        return SHOAL_ENOMEM;
    link->lf = lf;
    link->peer = peer;
    link->window = (uint32_t)lf->params.window;
    link->fragment_bytes = (uint32_t)lf->params.fragment_bytes;
    link->give_up_us = lf->args.now_us(lf->args.now_ctx) + (uint64_t)lf->args.join_us;
    lf->peers[peer].link = link;
    return begin(link);
}

/* ---------------------------------------------------------------- the meeting */

static void hello_came(shoali_lf_link *link, const uint8_t *bytes)
{
    uint32_t fragment_bytes = shoali_get_u32(bytes + 9), window = shoali_get_u32(bytes + 13);
    if (link->their_tag != 0 || fragment_bytes != link->fragment_bytes || window != link->window) {
        char text[160];
        snprintf(text, sizeof text,
                 "it has fragment_bytes=%u,window=%u, and this rank fragment_bytes=%u,window=%u",
                 fragment_bytes, window, link->fragment_bytes, link->window);
        shoali_lf_peer_fail(link->lf, link->peer, SHOAL_EINVAL, text);
        return;
    }
    link->their_tag = shoali_get_u64(bytes + 1) & TAG_BITS;
    shoali_lf_link_greet(link);
}

void shoali_lf_link_message(shoali_lf_link *link, const uint8_t *bytes, size_t len_bytes)
{
    if (len_bytes == HELLO_BYTES && bytes[0] == STEP_HELLO) {
        hello_came(link, bytes);
    } else if (len_bytes == 1 && bytes[0] == STEP_HEARD) {
        link->greeted = true;
        shoali_lf_link_meet(link);
    } else if (len_bytes == TAKEN_BYTES && bytes[0] == STEP_TAKEN && link->up) {
        shoali_lf_link_acknowledged(link, shoali_get_u32(bytes + 1));
    } else {
        shoali_lf_peer_fail(link->lf, link->peer, SHOAL_ECORRUPT, "a greeting that is none");
    }
}

void shoali_lf_link_say_taken(shoali_lf_link *link)
{
    uint8_t taken[TAKEN_BYTES] = {STEP_TAKEN};
    shoali_put_u32(taken + 1, link->in.expected);
    link->in.told = link->in.expected;
    if (say(link, taken, sizeof taken) == SHOAL_ENOMEM)
        shoali_lf_peer_fail(link->lf, link->peer, SHOAL_ENOMEM, "no memory to answer it");
}

void shoali_lf_link_meet(shoali_lf_link *link)
{
    static const uint8_t heard[1] = {STEP_HEARD};
    shoali_lf *lf = link->lf;
    if (link->dead || link->up)
        return;
    if (link->fabric_heard && !link->fabric_said) {
        link->fabric_said = true;
        if (say(link, heard, sizeof heard) != SHOAL_OK) {
            shoali_lf_peer_fail(lf, link->peer, SHOAL_ENOMEM, "cannot answer it");
            return;
        }
    }
    if (!link->fabric_said || !link->greeted)
        return;
    link->up = true;
    lf->peers[link->peer].state = SHOALI_LF_UP;
    lf->peers[link->peer].last_seen_us = lf->now_us;
    lf->more = true;
    lf->events.peer_up(lf->events.ctx, link->peer);
}

/* ---------------------------------------------------------------- end */

void shoali_lf_link_kill(shoali_lf_link *link, shoal_status status)
{
    shoali_lf *lf = link->lf;
    if (link->dead)
        return;
    link->dead = true;
    lf->peers[link->peer].link = NULL;
    link->next = lf->dead;
    lf->dead = link;
    for (uint32_t i = 0; link->slots != NULL && i < 2 * (link->window + SHOALI_LF_GREETINGS); i++) {
        link->slots[i].waits = false;
        if (link->slots[i].under_way && link->slots[i].use >= SHOALI_LF_RECEIVE)
            lf->ofi->cancel(lf->endpoint, &link->slots[i].op);
    }
    shoali_lf_link_return_all(link, status);
}

void shoali_lf_link_free_dead(shoali_lf *lf, bool all)
{
    for (shoali_lf_link **at = &lf->dead; *at != NULL;) {
        shoali_lf_link *link = *at;
        if (link->under_way > 0 && !all) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        lf->ofi->take_back(&link->lent);
        shoali_outbox_free(&link->box);
        shoali_free(link->flying);
        shoali_free(link->memory);
        shoali_free(link->slots);
        shoali_free(link);
    }
}

/* ---------------------------------------------------------------- the bell */

static socklen_t bell_address(const char *name, struct sockaddr_un *out)
{
    size_t len = strlen(name);
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (len > sizeof out->sun_path - 1)
        len = sizeof out->sun_path - 1;
    memcpy(out->sun_path + 1, name, len);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

shoal_status shoali_lf_bell_open(shoali_lf *lf)
{
    uint64_t random;
    struct sockaddr_un at;
    SHOALI_TRY(shoali_random(&random, sizeof random));
    snprintf(lf->bell_name, sizeof lf->bell_name, "shoal%014llx",
             (unsigned long long)(random >> 8));
    socklen_t bytes = bell_address(lf->bell_name, &at);
    lf->bell = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (lf->bell < 0 || bind(lf->bell, (const struct sockaddr *)&at, bytes) != 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot make a unix socket");
    return SHOAL_OK;
}

void shoali_lf_bell_clear(const shoali_lf *lf)
{
    char waste[8];
    while (lf->bell >= 0 && recv(lf->bell, waste, sizeof waste, 0) >= 0)
        continue;
}

/* One that is full wakes its owner all the same. */
void shoali_lf_bell_ring(const shoali_lf *lf, const shoali_lf_peer *peer)
{
    struct sockaddr_un to;
    if (lf->bell < 0 || peer->bell[0] == '\0')
        return;
    socklen_t bytes = bell_address(peer->bell, &to);
    (void)sendto(lf->bell, "", 1, MSG_NOSIGNAL, (const struct sockaddr *)&to, bytes);
}
