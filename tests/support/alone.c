/* SPDX-License-Identifier: Apache-2.0 */
#include "support/alone.h"

#include <pthread.h>

#include "support/check.h"
#include "support/ports.h"

shoal_comm_desc alone_desc(void)
{
    shoal_comm_desc desc = SHOAL_COMM_DESC_INIT;
    desc.rank = 0;
    desc.world_size = 1;
    desc.rendezvous = "tcp://127.0.0.1:0";
    return desc;
}

shoal_comm *alone_make(void)
{
    const shoal_comm_desc desc = alone_desc();
    shoal_comm *comm = NULL;
    assert_ok(shoal_comm_create(&desc, &comm));
    return comm;
}

void pair_init(pair *p)
{
    *p = (pair){.desc = {SHOAL_COMM_DESC_INIT, SHOAL_COMM_DESC_INIT}};
    place_reserve("tcp", p->place, sizeof p->place, &p->place_fd);
    for (int32_t i = 0; i < 2; i++) {
        p->desc[i].rank = i;
        p->desc[i].world_size = 2;
        p->desc[i].rendezvous = p->place;
        p->desc[i].join_timeout_us = 60 * 1000 * 1000;
    }
}

typedef struct half {
    pair *p;
    void (*fn)(pair *p, uint32_t rank);
    uint32_t rank;
} half;

static void *run_half(void *arg)
{
    const half *h = arg;
    h->fn(h->p, h->rank);
    return NULL;
}

void pair_both(pair *p, void (*fn)(pair *p, uint32_t rank))
{
    half halves[2] = {{p, fn, 0}, {p, fn, 1}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_half, &halves[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void join(pair *p, uint32_t rank)
{
    p->status[rank] = shoal_comm_create(&p->desc[rank], &p->comm[rank]);
    p->error[rank] = *shoal_last_error();
}

void pair_join(pair *p)
{
    pair_both(p, join);
}

static void destroy(pair *p, uint32_t rank)
{
    shoal_comm_destroy(p->comm[rank]);
    p->comm[rank] = NULL;
}

void pair_free(pair *p)
{
    pair_both(p, destroy);
    place_release(p->place, p->place_fd);
}
