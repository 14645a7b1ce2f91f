/* SPDX-License-Identifier: Apache-2.0 */
/* What steps do to chunks, with codecs that lose something: every value as the lists say, bit for
 * bit, residuals included, and nothing lost between what is delivered and what is kept back. */
#include "support/check.h"
#include "support/reference.h"
#include "support/toycodec.h"

enum { SIZES = 9 };

static void run_against_reference(const engine_case *c)
{
    engine_run run;
    reference ref;
    if (!engine_run_open(c, &run))
        return;
    reference_open(&run, NULL, NULL, &ref);
    engine_run_go(&run);
    engine_run_assert_ok(&run);
    engine_run_assert_same(&run);
    reference_assert_equal(&run, &ref);
    reference_close(&run, &ref);
    engine_run_close(&run);
}

/* Every row, every size; slots and no slots as the codec wants. */
static void every_row(engine_case c)
{
    const char *spec;
    for (size_t i = 0; (spec = engine_spec_at(i)) != NULL; i++)
        for (uint32_t size = 2; size <= SIZES; size++) {
            c.collective = spec;
            c.kind = engine_spec_rooted(spec) ? SHOAL_BROADCAST : SHOAL_ALL_REDUCE;
            c.contributors = size;
            c.size = size + engine_spec_servers(spec);
            c.root = engine_spec_rooted(spec) ? size / 2 : 0;
            c.input_seed = 1000 * i + size;
            c.order_seed = check_seed() + 100 * i + size;
            run_against_reference(&c);
        }
}

static void every_row_toy(const char *codec_spec, engine_case c)
{
    shoal_codec *codec = toy_codec_open(codec_spec);
    c.push_codec = c.pull_codec = codec;
    every_row(c);
    shoal_codec_close(codec);
}

static void lossy_codec(void **state)
{
    (void)state;
    every_row_toy("toy", (engine_case){.count = 500, .chunk_elems = 32, .tensors = 6});
}

static void random_codec_with_feedback(void **state)
{
    (void)state;
    every_row_toy(
        "toy:random,per_tensor,ef",
        (engine_case){
            .count = 500, .chunk_elems = 32, .tensors = 6, .raw_tensor = 3, .feedback = true});
}

static void real_codecs(void **state)
{
    (void)state;
    static const char *const specs[] = {"identity", "fp16", "bf16", "inceptionn",
                                        "inceptionn:bound=2^-6"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++)
        every_row((engine_case){.push = specs[i],
                                .count = 601,
                                .chunk_elems = 64,
                                .tensors = 3,
                                .feedback = true,
                                .unit = 1.0f / 3000});
}

static void two_codecs(void **state)
{
    (void)state;
    every_row((engine_case){
        .push = "fp16", .pull = "identity", .count = 300, .chunk_elems = 40, .unit = 1.0f / 3000});
    every_row((engine_case){.push = "identity",
                            .pull = "inceptionn",
                            .count = 300,
                            .chunk_elems = 40,
                            .unit = 1.0f / 3000,
                            .feedback = true});
}

static void slots_codec(void **state)
{
    (void)state;
    shoal_codec *codec = toy_codec_open("toy:slots,random,ef");
    for (uint32_t size = 2; size <= SIZES; size++)
        run_against_reference(&(engine_case){.collective = "gather",
                                             .push_codec = codec,
                                             .pull_codec = codec,
                                             .size = size,
                                             .count = 500,
                                             .chunk_elems = 32,
                                             .tensors = 4,
                                             .feedback = true,
                                             .order_seed = check_seed() + size});
    shoal_codec_close(codec);
}

/* Inputs and steps are multiples of powers of two, so that delivered + residuals = inputs +
 * residuals before, without any rounding; over three operations. */
static void nothing_is_lost(void **state)
{
    (void)state;
    const char *spec;
    shoal_codec *codec = toy_codec_open("toy:q=0.25,ef");
    for (size_t i = 0; (spec = engine_spec_at(i)) != NULL; i++) {
        uint32_t servers = engine_spec_servers(spec);
        engine_case c = {.collective = spec,
                         .push_codec = codec,
                         .pull_codec = codec,
                         .size = 6 + servers,
                         .contributors = 6,
                         .count = 400,
                         .chunk_elems = 30,
                         .tensors = 4,
                         .feedback = true,
                         .input_seed = i,
                         .order_seed = check_seed() + i};
        engine_run run;
        if (engine_spec_rooted(spec) || !engine_run_open(&c, &run))
            continue;
        double *owed = calloc(c.count, sizeof *owed);
        assert_non_null(owed);
        for (uint64_t step = 0; step < 3; step++) {
            engine_run_again(&run, step, 50 + step);
            engine_run_assert_ok(&run);
            for (size_t k = 0; k < c.count; k++)
                owed[k] += engine_run_sum(&run, k) - (double)run.bufs[0][k];
        }
        size_t nonzero = 0;
        for (uint32_t t = 0; t < c.tensors; t++)
            for (size_t k = 0; k < run.tensors[t].count; k++) {
                double kept = 0;
                for (uint32_t m = 0; m < c.size; m++)
                    kept += (double)run.residuals[m][t][k];
                nonzero += kept != 0;
                assert_true(kept == owed[run.tensors[t].offset + k]);
            }
        assert_true(nonzero > 0);
        free(owed);
        engine_run_close(&run);
    }
    shoal_codec_close(codec);
}

static uint64_t ticks;

static uint64_t tick(void)
{
    return ++ticks;
}

/* With a clock that ticks when read, times count calls: every rank encodes its 3 x 3 chunks once
 * and decodes 6 to add, 3 of its own, 6 that come back. */
static void times_are_taken(void **state)
{
    (void)state;
    engine_run run;
    shoal_codec *toy = toy_codec_open("toy");
    engine_case c = {.collective = "ring",
                     .push_codec = toy,
                     .pull_codec = toy,
                     .size = 3,
                     .count = 90,
                     .chunk_elems = 10,
                     .order_seed = check_seed()};
    assert_true(engine_run_open(&c, &run));
    for (uint32_t m = 0; m < 3; m++) {
        shoali_flow_args args = engine_run_args(&run, m);
        args.now_ns = tick;
        assert_ok(memnet_start(run.net, &shoali_engine, &args));
    }
    assert_true(memnet_run(run.net, SIZE_MAX, run.text, sizeof run.text));
    for (uint32_t m = 0; m < 3; m++) {
        assert_int_equal(memnet_result_of(run.net, m)->stats.encode_ns, 9);
        assert_int_equal(memnet_result_of(run.net, m)->stats.decode_ns, 15);
    }
    engine_run_close(&run);
    shoal_codec_close(toy);
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(lossy_codec),     CHECK_TEST(random_codec_with_feedback),
    CHECK_TEST(real_codecs),     CHECK_TEST(two_codecs),
    CHECK_TEST(slots_codec),     CHECK_TEST(nothing_is_lost),
    CHECK_TEST(times_are_taken),
};

int main(void)
{
    return CHECK_RUN(tests);
}
