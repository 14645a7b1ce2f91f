/* SPDX-License-Identifier: Apache-2.0 */
/* `--collective auto` on real processes: collective/by_density.h decides, here is what it needs.
 * Beside every SHOALI_BY_DENSITY_PERIOD-th operation of a bucket a small one gathers what the ranks
 * saw of their gradients; the operation has ended when both have, so that all ranks know the same
 * before they start the next. */
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "collective/schedule.h"
#include "driver/real.h"

#define FIGURES_OP \
    (UINT64_C(1) << 61) /* their id is that of the operation that they stand beside */

enum { FIRST = 2 }; /* operations that are measured one by one, before the period begins */

struct shoali_real_bucket {
    shoali_real_bucket *next;
    size_t offset, count;
    uint64_t operations;
    uint64_t dense_elems; /* that this rank sends of it by the dense way */
    float took_s;         /* the last operation */
    bool chosen;          /* at least once */
    shoali_by_density state;
    shoali_density all[]; /* [workers] */
};

shoal_status shoali_real_auto_open(shoal_sync *sync, const char *spec, uint32_t aggregators)
{
    if (strcmp(sync->codec, "identity") != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "collective %s chooses among ways that carry float32 (ring, omnireduce, "
                           "gather): with codec %s name a collective",
                           spec, sync->codec);
    return shoali_by_density_open(spec, sync->world.workers, aggregators, &sync->density.ways);
}

void shoali_real_auto_fini(shoal_sync *sync)
{
    while (sync->density.buckets != NULL) {
        shoali_real_bucket *next = sync->density.buckets->next;
        shoali_free(sync->density.buckets);
        sync->density.buckets = next;
    }
}

/* Dense buckets go by the dense way, so that is what any other way is compared with. */
static shoal_status dense_elems(const shoal_sync *sync, size_t count, uint64_t *elems_out)
{
    const shoal_schedule_args args = {
        .size = sync->world.workers, .contributors = sync->world.workers, .me = sync->world.me};
    shoali_collective collective;
    shoal_schedule schedule;
    shoali_cost cost;
    SHOALI_TRY(shoali_collective_open(sync->density.ways.collective[SHOALI_DENSE], &collective));
    shoal_arena *arena = shoali_arena_create(4096);
    shoal_status status = arena == NULL ? SHOAL_ENOMEM
                                        : shoali_collective_build(&collective, SHOAL_ALL_REDUCE,
                                                                  &args, arena, &schedule);
    if (status == SHOAL_OK) {
        shoali_schedule_cost(&schedule, count, &cost);
        *elems_out = cost.sent_elems;
    }
    shoali_arena_destroy(arena);
    shoali_collective_close(&collective);
    return status;
}

uint64_t shoali_real_auto_dense(const shoali_real_bucket *bucket)
{
    return bucket->dense_elems;
}

static shoal_status bucket_of(shoal_sync *sync, size_t offset, size_t count,
                              shoali_real_bucket **bucket_out)
{
    uint64_t dense;
    for (shoali_real_bucket *b = sync->density.buckets; b != NULL; b = b->next)
        if (b->offset == offset && b->count == count) {
            *bucket_out = b;
            return SHOAL_OK;
        }
    SHOALI_TRY(dense_elems(sync, count, &dense));
    shoali_real_bucket *made = shoali_alloc(sizeof *made + sync->world.workers * sizeof *made->all);
    if (made == NULL)
        return SHOAL_ENOMEM;
    made->offset = offset;
    made->count = count;
    made->dense_elems = dense;
    made->next = sync->density.buckets;
    *bucket_out = sync->density.buckets = made;
    return SHOAL_OK;
}

static bool is_due(const shoali_real_bucket *b)
{
    return b->operations < FIRST || b->operations % SHOALI_BY_DENSITY_PERIOD == 0;
}

static void look(const shoal_sync *sync, shoali_real_bucket *b, const float *x)
{
    memset(b->all, 0, sync->world.workers * sizeof *b->all);
    shoali_density *own = &b->all[sync->world.me];
    shoali_by_density_look(&sync->density.ways, x, b->count, own);
    own->took_s = b->took_s;
}

shoal_status shoali_real_auto_before(shoali_real_op *op, const shoali_sync_op *from,
                                     shoal_op_desc *desc)
{
    shoal_sync *sync = op->sync;
    if (from->kind != SHOALI_SYNC_ALL_REDUCE || from->collective != NULL)
        return SHOAL_OK;
    desc->collective = sync->density.ways.collective[SHOALI_DENSE];
    if (from->members != NULL || from->owner_job || sync->world.workers == 1)
        return SHOAL_OK; /* no buckets that come again, or nothing to choose */
    SHOALI_TRY(bucket_of(sync, from->offset, from->count, &op->bucket));
    shoali_real_bucket *b = op->bucket;
    op->measures = is_due(b);
    if (op->measures)
        look(sync, b, desc->buf);
    desc->collective = sync->density.ways.collective[b->state.way];
    desc->push_codec = sync->density.ways.codec[b->state.way];
    return SHOAL_OK;
}

static void on_figures(void *ctx, shoal_status status, const shoal_error *error,
                       const shoal_op_stats *stats)
{
    shoali_real_op *op = ctx;
    (void)stats;
    op->figures = NULL;
    shoali_real_op_part(op, status, error);
}

void shoali_real_auto_share(shoali_real_op *op, const shoal_op_desc *beside)
{
    shoal_sync *sync = op->sync;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    const shoali_op_extras extras = {.on_done = on_figures, .done_ctx = op};
    desc.id = beside->id;
    desc.id.sequence |= FIGURES_OP;
    desc.buf = (float *)(void *)op->bucket->all;
    desc.count = sync->world.workers * (sizeof(shoali_density) / sizeof(float));
    desc.members = beside->members;
    desc.member_count = beside->member_count;
    desc.contributors = beside->contributors;
    desc.collective = "halving_doubling";
    desc.timeout_us = beside->timeout_us;
    desc.label = "density of a bucket";
    op->parts++;
    if (shoali_op_start(sync->comm, &desc, &extras, &op->figures) != SHOAL_OK)
        shoali_real_op_part(op, shoal_last_error()->status, shoal_last_error());
}

static void tell(const shoal_sync *sync, const shoali_real_bucket *b, bool news)
{
    const shoali_by_density *s = &b->state;
    if (sync->world.me != 0)
        return;
#define LINE                                                                                    \
    "collective auto: %zu elements from %zu: blocks that are not zero %.3g %% at a rank, %.3g " \
    "%% at any: %s (%s); MB on the busiest link: dense %.3g, blocks %.3g, pieces %.3g",         \
        b->count, b->offset, 100 * s->own, 100 * s->together, sync->density.ways.name[s->way],  \
        sync->density.ways.collective[s->way], 1e-6 * s->bytes[SHOALI_DENSE],                   \
        1e-6 * s->bytes[s->best], 1e-6 * s->bytes[SHOALI_PIECES]
    if (news)
        shoali_log(INFO, LINE);
    else
        shoali_log(DEBUG, LINE);
#undef LINE
}

shoal_status shoali_real_auto_behind(shoali_real_op *op, const float *sum)
{
    const shoal_sync *sync = op->sync;
    shoali_real_bucket *b = op->bucket;
    const uint32_t before = b->state.way;
    shoali_density together;
    b->operations++;
    b->took_s = 1e-6f * (float)(op->ended_us - op->started_us);
    if (!op->measures)
        return SHOAL_OK;
    shoali_by_density_look(&sync->density.ways, sum, b->count, &together);
    SHOALI_TRY(
        shoali_by_density_choose(&b->state, &sync->density.ways, b->count, b->all, &together));
    tell(sync, b, !b->chosen || before != b->state.way);
    b->chosen = true;
    return SHOAL_OK;
}
