/* SPDX-License-Identifier: Apache-2.0 */
#include "support/doors.h"

#include "support/check.h"

static bool here(void *ctx, uint32_t rank)
{
    doors *d = ctx;
    return !atomic_load(&d->away[rank]);
}

uint64_t doors_incarnation(uint32_t rank)
{
    return 500 + rank;
}

static uint64_t incarnation(void *ctx, uint32_t rank)
{
    (void)ctx;
    return doors_incarnation(rank);
}

static bool door_of(void *ctx, uint32_t rank, char out[SHOALI_DOOR_BYTES])
{
    const doors *d = ctx;
    memcpy(out, d->others[rank], SHOALI_DOOR_BYTES);
    return out[0] != '\0';
}

/* It has to be asked twice. */
static bool want(void *ctx)
{
    doors *d = ctx;
    return atomic_fetch_add(&d->wanted, 1) > 0;
}

void doors_open(doors *d, uint32_t me, const char *rendezvous)
{
    const shoal_comm_desc desc = SHOAL_COMM_DESC_INIT;
    shoali_address at;
    *d = (doors){.me = me, .token = {.len_bytes = 16}};
    memcpy(d->token.bytes, "0123456789abcdef", 16);
    snprintf(d->rendezvous, sizeof d->rendezvous, "%s", rendezvous);
    d->mine = (shoali_record){.wire_version = 1,
                              .rank = me,
                              .world_size = DOORS_MOST,
                              .workers = DOORS_MOST,
                              .chunk_elems = 100,
                              .seed = 7,
                              .incarnation = doors_incarnation(me),
                              .job = "doors"};
    assert_ok(shoali_address_parse("host=h port=9 ip=127.0.0.1/8 boot=b netns=1", &at));
    const shoali_door_first first = {.desc = &desc,
                                     .token = &d->token,
                                     .job = "doors",
                                     .rendezvous = d->rendezvous,
                                     .mine = &d->mine,
                                     .at = &at};
    assert_ok(shoali_door_open(&first, &d->door));
}

void doors_start(doors *d, uint32_t size)
{
    const shoali_door_owner owner = {.ctx = d,
                                     .me = d->me,
                                     .size = size,
                                     .epoch = 5,
                                     .here = here,
                                     .incarnation = incarnation,
                                     .door_of = door_of,
                                     .want = want};
    assert_ok(shoali_door_start(d->door, &owner));
}

void doors_close(doors *d)
{
    shoali_door_close(d->door);
    d->door = NULL;
}
