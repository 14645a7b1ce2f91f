/* SPDX-License-Identifier: Apache-2.0 */
/* The key `site`: members of one site exchange float32, and a codec works between sites. Bytes by
 * formula, the same bits for all, what cannot be is refused. */
#include "support/check.h"
#include "support/enginecase.h"
#include "support/steps.h"

#include <math.h>

#include "collective/carry.h"
#include "plan/cost.h"

enum { P = 8, SITE = 4, COUNT = 960 };

/* fp16: two bytes an element, four inside a site. A grid of 4 x 2 sends 2 * 3/4 n inside a site and
 * 2 * 1/2 of its quarter between sites. A direct exchange sends 7/8 n, and its eighth to seven;
 * three of the seven others are of its site. */
static void bytes_are_the_formula(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        double inside, between; /* elements that a member sends, by COUNT */
    } rows[] = {{"hierarchical:site=4", 2 * 0.75, 2 * 0.5 / 4},
                {"hierarchical:dims=2/2/2,site=4", 2 * 0.75, 2 * 0.5 / 4},
                {"hierarchical:dims=2/2/2,site=2", 2 * 0.5, 2 * (0.5 / 2 + 0.5 / 4)},
                {"hierarchical:inner=direct,site=4", 2 * 0.75, 2 * 0.5 / 4},
                {"direct:site=4", 2 * 3.0 / 8, 2 * 4.0 / 8},
                {"direct:weights=1/1/1/1/1/1/1/1,site=4", 2 * 3.0 / 8, 2 * 4.0 / 8},
                {"direct:site=1", 0, 2 * 7.0 / 8},
                {"direct", 0, 2 * 7.0 / 8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        engine_case c = {.collective = rows[i].spec,
                         .push = "fp16",
                         .size = P,
                         .count = COUNT,
                         .chunk_elems = 32,
                         .unit = 1.0f / 3000,
                         .order_seed = check_seed() + i};
        engine_run run;
        assert_true(engine_run_open(&c, &run));
        engine_run_go(&run);
        engine_run_assert_ok(&run);
        engine_run_assert_same(&run);
        for (uint32_t m = 0; m < P; m++) {
            const shoali_flow_stats *stats = &memnet_result_of(run.net, m)->stats;
            const double want = COUNT * (4 * rows[i].inside + 2 * rows[i].between);
            if ((double)stats->sent_payload_bytes != want ||
                (double)stats->received_payload_bytes != want)
                fail_msg("%s: member %u sent %llu and received %llu bytes, not %g", rows[i].spec, m,
                         (unsigned long long)stats->sent_payload_bytes,
                         (unsigned long long)stats->received_payload_bytes, want);
        }
        engine_run_close(&run);
    }
}

/* A sum that crosses once each way loses twice, by at most half a unit in fp16's last place each:
 * fewer hops than a ring of 8, which codes every one. */
static void less_is_lost(void **state)
{
    (void)state;
    double worst[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        engine_case c = {.collective = i == 0 ? "hierarchical:site=4" : "hierarchical:dims=4/2",
                         .push = "fp16",
                         .size = P,
                         .count = COUNT,
                         .unit = 1.0f / 3000,
                         .input_seed = check_seed()};
        engine_run run;
        assert_true(engine_run_open(&c, &run));
        engine_run_go(&run);
        for (size_t e = 0; e < COUNT; e++)
            worst[i] = fmax(worst[i], fabs((double)run.bufs[0][e] - engine_run_sum(&run, e)));
        engine_run_close(&run);
    }
    assert_true(worst[0] <= 2 * 4 * 64.0 / 3000 * 0x1p-11 + 8 * 64.0 / 3000 * 0x1p-11);
    assert_true(worst[0] < worst[1]);
}

/* What a member adds before it crosses is what NaN comes from, too. */
static void a_nan_reaches_every_site(void **state)
{
    (void)state;
    static const char *const specs[] = {"hierarchical:site=2", "direct:site=2"};
    static const char *const codecs[] = {"fp16", "terngrad", "eden:bits=2,ef"};
    for (size_t i = 0; i < 6; i++)
        for (uint32_t who = 0; who < 4; who++) {
            engine_case c = {.collective = specs[i % 2],
                             .push = codecs[i / 2],
                             .size = 4,
                             .count = 100,
                             .tensors = 2,
                             .feedback = true,
                             .order_seed = check_seed() + who};
            engine_run run;
            assert_true(engine_run_open(&c, &run));
            engine_run_measure(&run);
            run.bufs[who][57] = NAN;
            engine_run_start(&run);
            engine_run_to_end(&run);
            engine_run_assert_not_finite(&run, who, 57);
            engine_run_close(&run);
        }
}

static void steps_inside_are_not_coded(void **state)
{
    (void)state;
    shoali_cost all = steps_cost(&(steps_of){"hierarchical:dims=4/2", .size = P, .me = 5}, COUNT);
    shoali_cost some = steps_cost(&(steps_of){"hierarchical:site=4", .size = P, .me = 5}, COUNT);
    assert_int_equal(all.encoded_elems, COUNT * 7 / 8 + COUNT / 8);
    assert_int_equal(some.encoded_elems, COUNT / 8 + COUNT / 8);
    assert_int_equal(some.decoded_elems, COUNT / 8 + COUNT / 8 + COUNT / 8);
    assert_int_equal(some.sent_elems, all.sent_elems);
    assert_int_equal(some.added_elems, all.added_elems);
}

/* Two hosts of four workers, 1 B/s between: 4 members each send n/8 of the sum's halves twice, in
 * two bytes an element instead of four; inside it is four whatever the codec. */
static void the_planner_counts_what_crosses(void **state)
{
    (void)state;
    static const char text[] =
        "{\"name\": \"t\", \"accelerators\": [{\"name\": \"a\", \"flops\": 1e12, "
        "\"memory_rate\": \"100GB/s\"}], \"hosts\": [{\"count\": 2, \"workers\": 4, "
        "\"nic\": \"1B/s\"}]}";
    shoali_cluster *cluster = NULL;
    shoali_collective collective;
    shoal_codec *codec = NULL;
    shoali_collective_cost cost;
    const shoali_groups groups = {{1, P}, 1};
    assert_ok(shoali_cluster_parse("t.json", text, strlen(text), &cluster));
    assert_ok(shoal_codec_open("fp16", &codec));
    assert_ok(shoali_collective_open("hierarchical:site=4", &collective));
    assert_ok(shoali_cost_collective(cluster, &collective, groups, codec, &cost));
    assert_true(fabs(cost.link_s_per_elem - 4 * 2.0 / 8) < 1e-9);
    assert_true(fabs(cost.sent_share - (2 * 0.75 * 4 / 2 + 2.0 / 8)) < 1e-9);
    assert_true(fabs(cost.encoded_share - 2.0 / 8) < 1e-9);
    shoali_collective_close(&collective);
    shoal_codec_close(codec);
    shoali_cluster_close(cluster);
}

static void refused(const char *spec, uint32_t size, const char *why)
{
    assert_status(steps_status(&(steps_of){spec, .size = size}), SHOAL_EINVAL);
    assert_error_has(why);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    refused("direct:site=3", 8, "direct:site=3: 8 members are not two or more whole sites");
    refused("hierarchical:site=8", 8, "8 members are not two or more whole sites");
    refused("hierarchical:dims=2/4,site=4", 8, "the product of the first dimensions");
    refused("hierarchical:dims=8,site=4", 8, "the product of the first dimensions");
    assert_ok(steps_status(&(steps_of){"hierarchical:dims=1/4/2,site=4", .size = 8}));
    for (size_t i = 0; i < shoali_codec_count(); i++) {
        const shoali_codec_row *row = shoali_codec_row_at(i);
        const bool transform = (row->traits & SHOAL_CODEC_TRANSFORM) != 0;
        if ((row->traits & SHOAL_CODEC_SLOTS) != 0)
            continue;
        assert_ok(shoal_codec_carried(row->name, "hierarchical"));
        assert_status(shoal_codec_carried(row->name, "hierarchical:site=4"),
                      transform ? SHOAL_EINVAL : SHOAL_OK);
        if (transform)
            assert_error_has("alike inside a site and between sites");
    }
}

/* Fewer members have other sites, which a spec cannot name: all is coded again. */
static void among_fewer_all_is_coded(void **state)
{
    (void)state;
    char spec[SHOALI_COLLECTIVE_SPEC];
    assert_ok(shoali_collective_among("hierarchical:dims=2/2,site=2", 4, true, spec));
    assert_string_equal(spec, "hierarchical:dims=2/2,site=2");
    assert_ok(shoali_collective_among("hierarchical:dims=2/2,site=2", 4, false, spec));
    assert_string_equal(spec, "hierarchical");
    assert_ok(shoali_collective_among("direct:site=2", 3, true, spec));
    assert_string_equal(spec, "direct");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(bytes_are_the_formula),           CHECK_TEST(less_is_lost),
        CHECK_TEST(a_nan_reaches_every_site),        CHECK_TEST(steps_inside_are_not_coded),
        CHECK_TEST(the_planner_counts_what_crosses), CHECK_TEST(what_cannot_be_is_refused),
        CHECK_TEST(among_fewer_all_is_coded),
    };
    return CHECK_RUN(tests);
}
