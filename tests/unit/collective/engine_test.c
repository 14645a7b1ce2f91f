/* SPDX-License-Identifier: Apache-2.0 */
/* The engine end to end on every row of the table: right sums, by lossless codecs, in any order of
 * events. */
#include "support/check.h"
#include "support/enginecase.h"

enum { SIZES = 9 };

static void run_exact(const engine_case *c)
{
    engine_run run;
    if (!engine_run_open(c, &run))
        return;
    engine_run_go(&run);
    engine_run_assert_ok(&run);
    engine_run_assert_exact(&run);
    engine_run_close(&run);
}

static void every_row_with(const char *codec, size_t count, uint32_t tensors)
{
    const char *spec;
    for (size_t i = 0; (spec = engine_spec_at(i)) != NULL; i++)
        for (uint32_t size = 1; size <= SIZES; size++) {
            uint32_t servers = engine_spec_servers(spec);
            engine_case c = {.collective = spec,
                             .push = codec,
                             .kind = engine_spec_rooted(spec) ? SHOAL_BROADCAST : SHOAL_ALL_REDUCE,
                             .size = size + servers,
                             .contributors = size,
                             .root = engine_spec_rooted(spec) ? size / 2 : 0,
                             .count = count,
                             .chunk_elems = 32,
                             .tensors = tensors,
                             .input_seed = 1000 * i + size,
                             .order_seed = check_seed() + 100 * i + size};
            if (size + servers > 1)
                run_exact(&c);
        }
}

static void all_reduce_identity(void **state)
{
    (void)state;
    every_row_with("identity", 1003, 1);
}

/* Sums of up to nine multiples of 1/64 up to 1 have at most 11 bits: fp16 holds them exactly. */
static void all_reduce_fp16(void **state)
{
    (void)state;
    every_row_with("fp16", 777, 5);
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(all_reduce_identity),
    CHECK_TEST(all_reduce_fp16),
};

int main(void)
{
    return CHECK_RUN(tests);
}
