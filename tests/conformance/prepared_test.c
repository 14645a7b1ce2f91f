/* SPDX-License-Identifier: Apache-2.0 */
/* What is prepared sums like what is not: every codec by every collective, on ranks in one process.
 * The same operations run in two worlds; one forgets its plans before each. The first in which they
 * differ by a bit, or by how they end, is named. */
#include "support/check.h"
#include "support/codec_specs.h"
#include "support/opsworld.h"

#include "base/rng.h"

enum { RANKS = 4, COUNT = 700, OPERATIONS = 4 };

static float bufs[RANKS][COUNT];

static const shoal_tensor tensors[] = {
    {.key = 1, .count = 600, .rows = 20, .cols = 30, .lr_scale = 1},
    {.key = 2, .offset = 600, .count = 100, .flags = SHOAL_TENSOR_BIAS, .lr_scale = 1}};

typedef struct outcome {
    float sums[OPERATIONS][RANKS][COUNT];
    shoal_status status[OPERATIONS][RANKS];
    bool made;
} outcome;

static bool can_be_made(opsworld *world, const shoal_op_desc *desc, const shoali_op_extras *extras)
{
    shoal_op *op = NULL;
    if (shoali_op_make(&world->rank[0].ops, desc, extras, SHOALI_MAIN_ROUND, &op) != SHOAL_OK)
        return false;
    shoali_op_free(op);
    return true;
}

static void run(const shoal_op_desc *what, uint64_t seed, bool forgets, outcome *out)
{
    static const shoali_op_extras extras = {.check_finite = true, .error_feedback = true};
    opsworld *world = opsworld_create(RANKS, seed);
    shoal_op_desc desc = *what;
    desc.buf = bufs[0];
    desc.id = (shoal_op_id){7, 1000, 1, 0};
    out->made = can_be_made(world, &desc, &extras);
    for (uint32_t k = 0; k < OPERATIONS && out->made; k++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            if (forgets)
                shoali_plans_free(&world->rank[r].ops, SHOAL_ECANCELLED);
            for (size_t i = 0; i < COUNT; i++)
                bufs[r][i] = (float)shoali_rng_normal(k, r, i);
            desc.buf = bufs[r];
            desc.id = (shoal_op_id){7, k + 1, 1, 0}; /* random bits go by it */
            (void)opsworld_start_with(world, r, &desc, &extras);
        }
        opsworld_run(world, UINT64_MAX);
        for (uint32_t r = 0; r < RANKS; r++)
            out->status[k][r] = opsworld_last(world, r)->status;
        memcpy(out->sums[k], bufs, sizeof bufs);
    }
    opsworld_destroy(world);
}

/* In the two worlds events come in different orders, too. */
static uint32_t compare(const shoal_op_desc *desc)
{
    static outcome prepared, anew;
    run(desc, 1, false, &prepared);
    run(desc, 2, true, &anew);
    assert_int_equal(prepared.made, anew.made);
    for (uint32_t k = 0; k < OPERATIONS && anew.made; k++)
        for (uint32_t r = 0; r < RANKS; r++) {
            if (prepared.status[k][r] != anew.status[k][r] ||
                (anew.status[k][r] == SHOAL_OK &&
                 memcmp(prepared.sums[k][r], anew.sums[k][r], sizeof anew.sums[k][r]) != 0))
                fail_msg("%s by %s, kind %d: operation %u differs at rank %u (%s, %s)",
                         desc->push_codec, desc->collective, (int)desc->kind, k, r,
                         shoal_status_name(prepared.status[k][r]),
                         shoal_status_name(anew.status[k][r]));
        }
    return anew.made && anew.status[OPERATIONS - 1][0] == SHOAL_OK;
}

/* A flow of datagrams needs sockets of its own: proc/comm_prepared_test.c. */
static bool runs_here(const shoali_collective_row *row)
{
    return row->flow == NULL || (row->flow->transports & SHOALI_FLOW_STREAM) != 0;
}

static void every_codec_by_every_collective(void **state)
{
    (void)state;
    uint32_t summed = 0;
    for (size_t c = 0; c < shoali_collective_count(); c++) {
        const shoali_collective_row *row = shoali_collective_row_at(c);
        char spec[CODEC_SPEC_BYTES];
        for (size_t k = 0; k < shoali_codec_count() && runs_here(row); k++)
            for (size_t i = 0; i < 2 && codec_spec(shoali_codec_row_at(k), i, spec); i++) {
                shoal_op_desc desc = SHOAL_OP_DESC_INIT;
                desc.count = COUNT;
                desc.tensors = tensors;
                desc.tensor_count = 2;
                desc.collective = row->name;
                desc.push_codec = spec;
                if ((row->traits & SHOALI_COLL_ROOTED) != 0)
                    desc.kind = SHOAL_BROADCAST;
                summed += compare(&desc);
            }
    }
    assert_true(summed > 50); /* or most were refused */
}

static void every_kind(void **state)
{
    (void)state;
    static const shoal_op_kind kinds[] = {SHOAL_REDUCE_SCATTER, SHOAL_ALL_GATHER};
    for (size_t i = 0; i < 2; i++) {
        shoal_op_desc desc = SHOAL_OP_DESC_INIT;
        desc.kind = kinds[i];
        desc.count = COUNT;
        desc.collective = "ring";
        desc.push_codec = "bf16";
        assert_int_equal(compare(&desc), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(every_codec_by_every_collective),
                                       CHECK_TEST(every_kind)};
    return CHECK_RUN(tests);
}
