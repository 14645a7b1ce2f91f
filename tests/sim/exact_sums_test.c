/* SPDX-License-Identifier: Apache-2.0 */
/* Codecs whose sums are exact in coded form, through the engine: the result is the sum of what each
 * member's values became when first coded, whatever the collective and the chunks; nobody ends with
 * other bits; what error feedback keeps is exactly what is missing. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "shoal/sim.h"
#include "support/enginecase.h"

enum { COUNT = 700 };

/* Every row of the table that claims exact sums, and keys that matter here; NULL: end. */
static const char *codec_at(size_t i, const char *key)
{
    static const char *const more[] = {"terngrad:clip=0,pack=base3",
                                       "terngrad:pack=planar,scaler=global",
                                       "terngrad:min=30,last=off", "terngrad:scaler=rms"};
    static char spec[64];
    if (i >= shoali_codec_count()) {
        i -= shoali_codec_count();
        if (i == sizeof more / sizeof *more)
            return NULL;
        snprintf(spec, sizeof spec, "%s%s%s", more[i], key[0] != '\0' ? "," : "", key);
        return spec;
    }
    snprintf(spec, sizeof spec, "%s%s%s", shoal_codec_row_name(i), key[0] != '\0' ? ":" : "", key);
    return spec;
}

static bool exact(const char *spec)
{
    shoal_codec *codec = NULL;
    if (shoal_codec_open(spec, &codec) != SHOAL_OK)
        return false; /* no such key */
    bool summable = (shoal_codec_traits(codec) & SHOAL_CODEC_SUMMABLE) != 0;
    shoal_codec_close(codec);
    return summable;
}

/* False: the collective cannot do this size. */
static bool run_case(const char *collective, const char *codec, uint32_t size, bool feedback,
                     engine_run *run)
{
    uint64_t salt = size * 31 + strlen(collective);
    engine_case c = {.collective = collective,
                     .push = codec,
                     .size = size + engine_spec_servers(collective),
                     .contributors = size,
                     .count = COUNT,
                     .chunk_elems = (uint32_t)(20 + shoali_rng_below(check_seed(), 1, salt, 300)),
                     .tensors = 4,
                     .sequence = 3,
                     .input_seed = check_seed(),
                     .order_seed = check_seed() + salt,
                     .unit = 1.0f / 4096,
                     .feedback = feedback};
    if (!engine_run_open(&c, run))
        return false;
    engine_run_go(run);
    engine_run_assert_ok(run);
    engine_run_assert_same(run);
    return true;
}

/* Members draw by endpoint, leg and element, so direct exchange and ring draw alike. gather codes
 * members' own vectors under other names, and float32 adds in another order: it differs. */
static void compare_collectives(const char *codec, uint32_t size)
{
    engine_run reference, run;
    assert_true(run_case("direct", codec, size, false, &reference));
    for (size_t i = 0; engine_spec_at(i) != NULL; i++) {
        const char *spec = engine_spec_at(i);
        if (engine_spec_rooted(spec) || strcmp(spec, "gather") == 0 ||
            !run_case(spec, codec, size, false, &run))
            continue;
        if (memcmp(run.bufs[0], reference.bufs[0], COUNT * sizeof(float)) != 0)
            fail_msg("%s differs from direct", engine_run_name(&run));
        engine_run_close(&run);
    }
    engine_run_close(&reference);
}

static void every_collective_gives_the_same_bits(void **state)
{
    (void)state;
    const char *codec;
    for (size_t i = 0; (codec = codec_at(i, "")) != NULL; i++)
        for (uint32_t size = 2; size <= 9 && exact(codec); size++)
            compare_collectives(codec, size);
}

/* Whole multiples of the scale, at most one of it per member. */
static void sums_are_multiples_of_the_scale(void **state)
{
    (void)state;
    for (size_t i = 0; engine_spec_at(i) != NULL; i++) {
        engine_run run;
        if (engine_spec_rooted(engine_spec_at(i)) ||
            !run_case(engine_spec_at(i), "terngrad", 8, false, &run))
            continue;
        for (uint32_t t = 0; t < run.c.tensors; t++)
            for (size_t e = 0; e < run.tensors[t].count; e++) {
                float steps = run.bufs[0][run.tensors[t].offset + e] / run.shared[t];
                assert_true(fabsf(steps - rintf(steps)) < 1e-5f && fabsf(steps) < 8.001f);
            }
        engine_run_close(&run);
    }
}

/* Over three operations: what came out, and what members still hold back, is what went in. */
static void check_residuals(engine_run *run)
{
    double went_in[COUNT] = {0}, came_out[COUNT] = {0};
    for (uint64_t step = 0; step < 3; step++) {
        if (step > 0)
            engine_run_again(run, 3 + step, check_seed() + step);
        for (size_t e = 0; e < COUNT; e++) {
            went_in[e] += engine_run_sum(run, e);
            came_out[e] += (double)run->bufs[0][e];
        }
    }
    for (uint32_t t = 0; t < run->c.tensors; t++)
        for (size_t e = 0; e < run->tensors[t].count; e++)
            for (uint32_t m = 0; m < run->c.contributors; m++)
                came_out[run->tensors[t].offset + e] += (double)run->residuals[m][t][e];
    for (size_t e = 0; e < COUNT; e++)
        if (fabs(came_out[e] - went_in[e]) > 1e-5)
            fail_msg("%s: element %zu, %g went in, %g came out", engine_run_name(run), e,
                     went_in[e], came_out[e]);
}

static void residuals_are_what_is_missing(void **state)
{
    (void)state;
    const char *codec;
    for (size_t k = 0; (codec = codec_at(k, "ef")) != NULL; k++)
        for (size_t i = 0; engine_spec_at(i) != NULL && exact(codec); i++) {
            engine_run run;
            if (engine_spec_rooted(engine_spec_at(i)) ||
                !run_case(engine_spec_at(i), codec, 6, true, &run))
                continue;
            check_residuals(&run);
            engine_run_close(&run);
        }
}

/* Without a shared scale sums are drawn again: unbiased, and still the same for all. */
static void own_scales_agree_on_every_rank(void **state)
{
    (void)state;
    for (size_t i = 0; engine_spec_at(i) != NULL; i++) {
        engine_run run;
        if (!engine_spec_rooted(engine_spec_at(i)) &&
            run_case(engine_spec_at(i), "terngrad:scaler=own", 6, false, &run))
            engine_run_close(&run);
    }
}

/* The whole job in virtual time: the same parameters by every collective, and they converge. */
static double simulate(const char *collective, const char *codec, float *params)
{
    const shoal_tensor tensors[] = {{.key = 1, .offset = 0, .count = 300, .lr_scale = 1},
                                    {.key = 2, .offset = 300, .count = 20, .lr_scale = 1}};
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    shoal_sim_results results = {.size = sizeof results};
    shoal_sim *sim = NULL;
    size_t count;
    desc.workers = 4;
    desc.iterations = 60;
    desc.collective = collective;
    desc.codec = codec;
    desc.problem = "quadratic:lr=0.1,noise=0";
    desc.tensors = tensors;
    desc.tensor_count = 2;
    assert_ok(shoal_sim_create(&desc, &sim));
    assert_ok(shoal_sim_run(sim));
    assert_ok(shoal_sim_results_get(sim, &results));
    for (uint32_t w = 1; w < 4; w++)
        assert_memory_equal(shoal_sim_params(sim, w, &count), shoal_sim_params(sim, 0, &count),
                            320 * sizeof(float));
    memcpy(params, shoal_sim_params(sim, 0, &count), 320 * sizeof(float));
    shoal_sim_destroy(sim);
    return results.excess;
}

static void simulated_jobs_agree(void **state)
{
    (void)state;
    float ring[320], direct[320], start[320], own[320];
    double exact = simulate("ring", "identity", start), coded = simulate("ring", "terngrad", ring);
    assert_true(simulate("direct", "terngrad", direct) == coded);
    assert_memory_equal(ring, direct, sizeof ring);
    assert_true(coded < 1.3 * exact && coded != exact);
    assert_true(simulate("direct", "terngrad:scaler=own", own) < 2 * exact);
    assert_memory_not_equal(ring, own, sizeof ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(every_collective_gives_the_same_bits),
        CHECK_TEST(sums_are_multiples_of_the_scale),
        CHECK_TEST(residuals_are_what_is_missing),
        CHECK_TEST(own_scales_agree_on_every_rank),
        CHECK_TEST(simulated_jobs_agree),
    };
    return CHECK_RUN(tests);
}
