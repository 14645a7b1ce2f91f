/* SPDX-License-Identifier: Apache-2.0 */
#include "support/party.h"

#include "support/check.h"
#include "support/ports.h"

#include "base/clock.h"
#include "base/error.h"

void *party_go(void *arg)
{
    guest *g = arg;
    g->status = shoali_meet(&g->meeting, g->records);
    shoali_error_get(&g->error);
    return NULL;
}

void party_prepare(party *p, const char *scheme, uint32_t size, int64_t timeout_us)
{
    memset(p, 0, sizeof *p);
    place_reserve(scheme, p->place, sizeof p->place, &p->fd);
    p->size = size;
    uint64_t now_us = shoali_now_us();
    for (uint32_t i = 0; i < size; i++) {
        guest *g = &p->guests[i];
        g->mine = (shoali_record){.wire_version = 1,
                                  .rank = i,
                                  .world_size = size,
                                  .workers = size,
                                  .chunk_elems = 100,
                                  .seed = 7,
                                  .incarnation = 1000 + i,
                                  .software = "0.1",
                                  .job = "party"};
        snprintf(g->mine.host, sizeof g->mine.host, "h%u", i);
        snprintf(g->mine.address, sizeof g->mine.address, "address of %u", i);
        memcpy(g->token.bytes, "0123456789abcdef", 16);
        g->token.len_bytes = 16;
        g->meeting = (shoali_meeting){.place = p->place,
                                      .job = "party",
                                      .token = &g->token,
                                      .mine = &g->mine,
                                      .started_us = now_us,
                                      .deadline_us = now_us + (uint64_t)timeout_us};
    }
}

void party_start(guest *g)
{
    assert_int_equal(pthread_create(&g->thread, NULL, party_go, g), 0);
}

void party_end(guest *g)
{
    assert_int_equal(pthread_join(g->thread, NULL), 0);
}

void party_run(party *p, uint32_t absent)
{
    for (uint32_t i = 0; i < p->size; i++)
        if (i != absent)
            party_start(&p->guests[i]);
    for (uint32_t i = 0; i < p->size; i++)
        if (i != absent)
            party_end(&p->guests[i]);
    place_release(p->place, p->fd);
}

void party_assert_all(const party *p, shoal_status status, const char *part)
{
    for (uint32_t i = 0; i < p->size; i++) {
        if (p->guests[i].status != status ||
            (part != NULL && strstr(p->guests[i].error.text, part) == NULL))
            fail_msg("rank %u: %s: %s", i, shoal_status_name(p->guests[i].status),
                     p->guests[i].error.text);
    }
}

uint16_t party_port(const party *p)
{
    return (uint16_t)strtoul(strrchr(p->place, ':') + 1, NULL, 10);
}
