/* SPDX-License-Identifier: Apache-2.0 */
/* The same operation under many orders of events, and cut into chunks of many sizes: the same bits.
 * Inputs are not dyadic, so that another order of additions would round differently. */
#include "base/rng.h"
#include "support/check.h"
#include "support/enginecase.h"
#include "support/toycodec.h"

enum { ORDERS = 6, COUNT = 700 };

static void copy_out(const engine_run *run, float *values)
{
    memcpy(values, run->bufs[0], COUNT * sizeof *values);
    for (uint32_t t = 0; t < run->c.tensors; t++)
        memcpy(values + COUNT + run->tensors[t].offset, run->residuals[0][t],
               run->tensors[t].count * sizeof *values);
}

/* Member 0's result and residuals, always as the first time. */
static void same_every_time(engine_case c)
{
    static const uint32_t chunks[] = {64, 8, 24, 1000, 40, 128};
    static float first[2 * COUNT], again[2 * COUNT];
    for (uint64_t order = 0; order < ORDERS; order++) {
        engine_run run;
        c.order_seed = check_seed() + order;
        c.chunk_elems = chunks[order % 6];
        if (!engine_run_open(&c, &run))
            return;
        engine_run_go(&run);
        engine_run_assert_ok(&run);
        engine_run_assert_same(&run);
        copy_out(&run, order == 0 ? first : again);
        if (order > 0 && memcmp(first, again, sizeof first) != 0) {
            print_error("%s: other bits than with order 0\n", engine_run_name(&run));
            fail();
        }
        engine_run_close(&run);
    }
}

static void every_row(engine_case c)
{
    const char *spec;
    for (size_t i = 0; (spec = engine_spec_at(i)) != NULL; i++)
        for (uint32_t size = 4; size <= 7; size += 3) {
            c.collective = spec;
            c.kind = engine_spec_rooted(spec) ? SHOAL_BROADCAST : SHOAL_ALL_REDUCE;
            c.contributors = size;
            c.size = size + engine_spec_servers(spec);
            c.count = COUNT;
            c.tensors = 4;
            c.unit = 1.0f / 3000;
            c.feedback = true;
            c.input_seed = i;
            same_every_time(c);
        }
}

static void identity(void **state)
{
    (void)state;
    every_row((engine_case){.push = "identity"});
}

static void lossy_by_chance(void **state)
{
    (void)state;
    shoal_codec *toy = toy_codec_open("toy:q=0.01,random,ef");
    every_row((engine_case){.push_codec = toy, .pull_codec = toy});
    shoal_codec_close(toy);
}

static void inceptionn(void **state)
{
    (void)state;
    every_row((engine_case){.push = "inceptionn"});
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(identity),
    CHECK_TEST(lossy_by_chance),
    CHECK_TEST(inceptionn),
};

int main(void)
{
    return CHECK_RUN(tests);
}
