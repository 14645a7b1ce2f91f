/* SPDX-License-Identifier: Apache-2.0 */
/* Odd shapes: fewer elements than blocks, none at all, chunks of one element or larger than all. */
#include "base/arena.h"
#include "support/check.h"
#include "support/enginecase.h"
#include "support/toycodec.h"

static void run_shape(const char *spec, uint32_t size, size_t count, uint32_t chunk_elems,
                      const shoal_codec *codec)
{
    engine_run run;
    engine_case c = {.collective = spec,
                     .push_codec = codec,
                     .pull_codec = codec,
                     .kind = engine_spec_rooted(spec) ? SHOAL_BROADCAST : SHOAL_ALL_REDUCE,
                     .size = size + engine_spec_servers(spec),
                     .contributors = size,
                     .count = count,
                     .chunk_elems = chunk_elems,
                     .tensors = count > 3 ? 3 : 1,
                     .input_seed = count,
                     .order_seed = check_seed() + size + count};
    if (!engine_run_open(&c, &run))
        return;
    engine_run_go(&run);
    engine_run_assert_ok(&run);
    engine_run_assert_same(&run);
    if (codec == NULL)
        engine_run_assert_exact(&run);
    engine_run_close(&run);
}

static void odd_shapes(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 5, 17, 64};
    static const uint32_t chunks[] = {1, 3, 16, 1000};
    const char *spec;
    shoal_codec *toy = toy_codec_open("toy:random");
    for (size_t i = 0; (spec = engine_spec_at(i)) != NULL; i++)
        for (uint32_t size = 1; size <= 8; size += size < 4 ? 1 : 3)
            for (size_t k = 0; k < 6; k++)
                for (size_t n = 0; n < 4; n++) {
                    run_shape(spec, size, counts[k], chunks[n], NULL);
                    run_shape(spec, size, counts[k], chunks[n], toy);
                }
    shoal_codec_close(toy);
}

/* An operation takes a handful of allocations, however many chunks it has. */
static void allocations_do_not_grow_with_chunks(void **state)
{
    (void)state;
    size_t few = 0;
    for (size_t count = 1000; count <= 100000; count *= 10) {
        engine_run run;
        engine_case c = {.collective = "ring", .size = 4, .count = count, .chunk_elems = 64};
        assert_true(engine_run_open(&c, &run));
        engine_run_go(&run); /* warms the pool */
        memnet_destroy(run.net);
        run.net = memnet_create(4, 1);
        (void)shoali_alloc_fail_at(0);
        engine_run_go(&run);
        size_t used = shoali_alloc_fail_at(0);
        few = few == 0 ? used : few;
        assert_in_range(used, few, few + 4 * 16); /* the arena doubles */
        engine_run_close(&run);
    }
}

/* Whichever of its parts cannot be had, at any number of members: it does not start, and leaves
 * nothing. */
static void memory_runs_out(void **state)
{
    (void)state;
    for (uint32_t size = 2; size < 60; size++) {
        engine_run run;
        uint64_t memory[512] = {0};
        const shoal_sink none = {0};
        engine_case c = {.collective = "direct", .size = size, .count = 1000, .chunk_elems = 1000};
        assert_true(engine_run_open(&c, &run));
        const shoali_flow_row *row = engine_run_row(&run);
        const shoali_flow_args args = engine_run_args(&run, 0);
        assert_true(row->state_size(&args) <= sizeof memory);
        shoal_status status = SHOAL_ENOMEM;
        for (size_t k = 1; status != SHOAL_OK; k++) {
            (void)shoali_alloc_fail_at(k);
            status = row->start(memory, &args, &none, 0);
            const bool failed = shoali_alloc_fail_at(0) >= k;
            assert_int_equal(status, failed ? SHOAL_ENOMEM : SHOAL_OK);
        }
        row->fini(memory);
        engine_run_close(&run);
    }
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(odd_shapes),
    CHECK_TEST(allocations_do_not_grow_with_chunks),
    CHECK_TEST(memory_runs_out),
};

int main(void)
{
    return CHECK_RUN(tests);
}
