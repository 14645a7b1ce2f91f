/* SPDX-License-Identifier: Apache-2.0 */
#include "support/looped.h"

#include <string.h>

#include "support/check.h"

static void begins(void *ctx)
{
    ((looped *)ctx)->begun++;
}

static void round_of(void *ctx)
{
    ((looped *)ctx)->rounds++;
}

static uint64_t next_us(const void *ctx)
{
    return ((const looped *)ctx)->due_us;
}

static void heard(void *ctx, int fd)
{
    looped *l = ctx;
    l->fd = fd;
    l->heard++;
}

static bool can_wait(const void *ctx, int fd)
{
    return ((const looped *)ctx)->waits_for == fd;
}

static void late(void *ctx, uint64_t late_us)
{
    looped *l = ctx;
    l->late_us = late_us > l->late_us ? late_us : l->late_us;
}

static void hold(void *ctx, bool hold)
{
    ((looped *)ctx)->held += hold ? 1 : UINT32_MAX;
}

static void forked(void *ctx)
{
    ((looped *)ctx)->forked++;
}

void looped_init(looped *l)
{
    const shoali_loop_host host = {l,        begins, round_of, next_us, heard,
                                   can_wait, late,   hold,     forked};
    memset(l, 0, sizeof *l);
    l->waits_for = -1;
    l->due_us = UINT64_MAX;
    assert_ok(shoali_loop_init(&l->loop, &host));
}

void looped_free(looped *l)
{
    shoali_loop_stop(&l->loop);
    shoali_loop_free(&l->loop);
}
