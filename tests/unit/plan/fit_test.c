/* SPDX-License-Identifier: Apache-2.0 */
/* Rows are predicted from a cluster that is known; fits start from another one. */
#include "support/check.h"

#include <math.h>
#include <unistd.h>

#include "base/rng.h"
#include "model/cluster.h"
#include "plan/fit.h"
#include "shoal/predict.h"
#include "support/scratch_dir.h"

/* Rooflines, tables with steps, exchanges behind computation: a step is no sum of its causes. */
static const char hosts[] =
    "{\"name\": \"h\", \"accelerators\": [{\"name\": \"a\", \"flops\": 1e13, \"vector_flops\": "
    "1e12, "
    "\"memory_rate\":"
    " \"200GB/s\", \"efficiency\": {\"matrix\": [[1e9, 0.8], [0, 0.4]], \"vector\": [[0, 0.5]], "
    "\"memory\": [[1e6, 0.7], [0, 0.4]]}}], \"hosts\": [{\"count\": 4, \"workers\": 4, \"nic\": "
    "\"10gbit\", \"inside\": \"20GB/s\", \"latency_us\": 20}], \"overhead\": {\"operation_us\": "
    "20, "
    "\"round_us\": 5}}";
static const char dimensions[] =
    "{\"name\": \"d\", \"accelerators\": [{\"name\": \"a\", \"flops\": 1e13, \"memory_rate\": "
    "\"200GB/s\"}], "
    "\"dimensions\": [{\"topology\": \"fc:4\", \"rate\": \"20GB/s\", \"efficiency\": 0.6}, "
    "{\"topology\": \"switch:4\", \"rate\": \"1GB/s\", \"efficiency\": 0.7, \"latency_us\": 20}]}";

enum { ROWS = 24 };

/* Every test stands in a folder of its own. */
static int set_up(void **state)
{
    (void)state;
    return chdir(scratch_dir_make());
}

static int tear_down(void **state)
{
    (void)state;
    scratch_dir_remove();
    return chdir("/");
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Sizes of which some compute, some wait for memory and some for one of the networks. */
static void make_rows(shoal_predict_desc *rows)
{
    static const char *const models[] = {"vgg-mini", "lenet", "mlp", "vgg-a"};
    static const uint32_t workers[] = {1, 4, 16}, tensors[] = {1, 1, 4};
    for (uint32_t i = 0; i < ROWS; i++) {
        rows[i] = (shoal_predict_desc)SHOAL_PREDICT_DESC_INIT;
        rows[i].model = models[i % 4];
        rows[i].workers = workers[i / 4 % 3];
        rows[i].tensor = i >= ROWS / 2 ? tensors[i / 4 % 3] : 1;
        rows[i].batch = 16u << i % 3;
        rows[i].no_overlap = i % 5 == 0;
    }
}

static double step_of(const char *cluster, shoal_predict_desc row)
{
    shoal_prediction p = SHOAL_PREDICTION_INIT;
    row.cluster = cluster;
    assert_ok(shoal_predict(&row, &p));
    return p.iteration_s;
}

/* What was fitted is what the written file gives, for each kind of row. */
static void check_written(const char *path, const shoal_predict_desc *rows, const double *seconds,
                          const shoal_fit *fit, const bool *held)
{
    double sum[2] = {0}, worst[2] = {0};
    for (int i = 0; i < ROWS; i++) {
        double error = fabs(step_of(path, rows[i]) / seconds[i] - 1);
        sum[held[i]] += error;
        worst[held[i]] = fmax(worst[held[i]], error);
    }
    assert_true(fabs(sum[0] / fit->fitted - fit->mean_error) < 1e-9);
    assert_true(fabs(sum[1] / fmax(1, fit->held) - fit->held_mean_error) < 1e-9);
    assert_true(fabs(worst[0] - fit->worst_error) < 1e-9);
    assert_true(fabs(worst[1] - fit->held_worst_error) < 1e-9);
}

/* Fit the base to steps of the truth, each off by up to `noise`. */
static void fit_to(const char *base, const char *truth, double noise, uint64_t seed, double hold,
                   shoal_fit *fit)
{
    shoal_predict_desc rows[ROWS];
    double seconds[ROWS];
    bool held[ROWS];
    shoal_fit_desc desc = SHOAL_FIT_DESC_INIT;
    uint32_t counted = 0;
    make_rows(rows);
    for (uint64_t i = 0; i < ROWS; i++)
        seconds[i] = step_of(truth, rows[i]) *
                     (1 + noise * (2 * shoali_rng_double(seed, i, 1) - 1));
    desc.cluster = base;
    desc.rows = rows;
    desc.seconds = seconds;
    desc.count = ROWS;
    desc.hold = hold;
    desc.seed = seed;
    assert_ok(shoal_calibrate_fit(&desc, fit, held));
    assert_int_equal(fit->held, (uint32_t)(hold * ROWS + 0.5));
    assert_int_equal(fit->fitted, ROWS - fit->held);
    for (int i = 0; i < ROWS; i++)
        counted += held[i];
    assert_int_equal(counted, fit->held);
    assert_ok(shoal_calibrate_apply(base, &fit->factors, 0.01, "fitted.json"));
    check_written("fitted.json", rows, seconds, fit, held);
}

static void a_known_cluster_is_found_again(void **state)
{
    (void)state;
    static const char *const bases[] = {hosts, dimensions};
    uint64_t seed = check_seed();
    for (uint64_t k = 0; k < 4; k++) {
        double range[4];
        shoal_fit fit = SHOAL_FIT_INIT;
        for (uint64_t c = 0; c < 4; c++)
            range[c] = exp(1.2 * shoali_rng_double(seed, k, c));
        shoal_fit_factors made = {range[0], range[1], range[2], range[3]};
        write_text("base.json", bases[k % 2]);
        assert_ok(shoal_calibrate_apply("base.json", &made, 0, "truth.json"));
        fit_to("base.json", "truth.json", 0, seed + k, 0.25, &fit);
        assert_true(fit.worst_error < 0.01);
        assert_true(fit.held == 6 && fit.held_worst_error < 0.01);
        fit_to("base.json", "truth.json", 0.1, seed + k, 0.25, &fit);
        assert_true(fit.mean_error < 0.1 && fit.mean_error > 1e-4);
    }
}

/* Steps of a machine twice as fast as any of the file's rates allow. */
static void rates_are_never_left(void **state)
{
    (void)state;
    shoal_fit fit = SHOAL_FIT_INIT;
    shoali_cluster *cluster;
    char text[sizeof hosts];
    snprintf(text, sizeof text, "%s", hosts);
    char *flops = strstr(text, "1e13"), *memory = strstr(text, "200GB/s");
    flops[0] = '4';
    memory[0] = '8';
    write_text("base.json", hosts);
    write_text("truth.json", text);
    fit_to("base.json", "truth.json", 0, 1, 0, &fit);
    assert_true(fit.at_bound[0] && fit.at_bound[1] && fit.mean_error > 0.05);
    assert_ok(shoali_cluster_load("fitted.json", &cluster));
    for (uint32_t t = 0; t < cluster->accelerators[0].table_count; t++)
        for (uint32_t k = 0; k < cluster->accelerators[0].tables[t].count; k++)
            assert_true(cluster->accelerators[0].tables[t].step[k].share <= 1);
    assert_true(cluster->accelerators[0].flops == 1e13);
    assert_true(cluster->hosts[0].up_bytes_per_s <= 1.25e9 * (1 + 1e-12));
    shoali_cluster_close(cluster);
    const shoal_fit_factors beyond = {0.5, 1, 1, 1};
    assert_status(shoal_calibrate_apply("base.json", &beyond, 0, "x.json"), SHOAL_EINVAL);
    assert_error_has("can be 0.8");
}

static void shares_grow_to_one_and_rates_stay(void **state)
{
    (void)state;
    const shoal_fit_factors faster = {1, 1, 0.6, 0.7}, slower = {1, 1, 1, 2};
    shoali_cluster *c;
    write_text("base.json", dimensions);
    assert_ok(shoal_calibrate_apply("base.json", &faster, 0, "x.json"));
    assert_ok(shoali_cluster_load("x.json", &c));
    assert_true(c->dimensions[0].efficiency == 1 && c->dimensions[1].efficiency == 1);
    assert_true(c->dimensions[1].bytes_per_s == 1e9 && c->hosts[0].up_bytes_per_s == 1e9);
    shoali_cluster_close(c);
    assert_ok(shoal_calibrate_apply("base.json", &slower, 0, "x.json"));
    assert_ok(shoali_cluster_load("x.json", &c)); /* NICs and the last dimension still agree */
    assert_true(c->dimensions[1].efficiency == 0.7 && c->dimensions[1].bytes_per_s == 5e8);
    shoali_cluster_close(c);
}

static void nothing_comes_from_nothing(void **state)
{
    (void)state;
    shoal_predict_desc rows[3] = {SHOAL_PREDICT_DESC_INIT, SHOAL_PREDICT_DESC_INIT,
                                  SHOAL_PREDICT_DESC_INIT};
    double seconds[3] = {0.01, 0.02, 0.04};
    shoal_fit fit = SHOAL_FIT_INIT;
    shoal_fit_desc desc = SHOAL_FIT_DESC_INIT;
    write_text("base.json", hosts);
    desc.cluster = "base.json";
    desc.rows = rows;
    desc.seconds = seconds;
    desc.count = 1;
    rows[0].model = rows[1].model = rows[2].model = "lenet";
    rows[0].workers = rows[1].workers = rows[2].workers = 16;
    assert_status(shoal_calibrate_fit(&desc, &fit, NULL), SHOAL_EINVAL);
    assert_error_has("do not tell the causes apart");
    seconds[0] = 0;
    assert_status(shoal_calibrate_fit(&desc, &fit, NULL), SHOAL_EINVAL);
    assert_error_has("row 0");
    desc.hold = 0.95;
    assert_status(shoal_calibrate_fit(&desc, &fit, NULL), SHOAL_EINVAL);
    desc.hold = 0;
    desc.count = 0;
    assert_status(shoal_calibrate_fit(&desc, &fit, NULL), SHOAL_EINVAL);
    desc.count = 3; /* one worker each: nothing is said of networks */
    for (int i = 0; i < 3; i++) {
        rows[i].workers = 1;
        rows[i].model = i == 0 ? "mlp" : i == 1 ? "vgg-a" : "vgg-mini";
        seconds[i] = 2 * step_of("base.json", rows[i]);
    }
    assert_ok(shoal_calibrate_fit(&desc, &fit, NULL));
    assert_true(fit.not_seen[2] && fit.not_seen[3] && !fit.not_seen[0]);
    assert_true(fit.factors.network == 1 && fit.factors.inside == 1);
    assert_true(fit.held == 0 && fit.worst_error < 0.01);
}

/* Nine rows of one worker, and one over hosts that took ten times as long as it should, for
 * whatever reason: the links are not made to say so, unless a second one says it, too. */
static void one_row_alone_tells_of_no_factor(void **state)
{
    (void)state;
    enum { ALONE = 9 };
    static const char *const models[] = {"mlp", "vgg-a", "vgg-mini"};
    shoal_predict_desc rows[ALONE + 2];
    double seconds[ALONE + 2];
    shoal_fit fit = SHOAL_FIT_INIT;
    shoal_fit_desc desc = SHOAL_FIT_DESC_INIT;
    write_text("base.json", hosts);
    for (int i = 0; i < ALONE + 2; i++) {
        rows[i] = (shoal_predict_desc)SHOAL_PREDICT_DESC_INIT;
        rows[i].model = i < ALONE ? models[i % 3] : "mlp";
        rows[i].workers = i < ALONE ? 1 : 16;
        rows[i].batch = 16u << i % 4;
        rows[i].no_overlap = true;
        seconds[i] = (i < ALONE ? 2 : 10) * step_of("base.json", rows[i]);
    }
    desc.cluster = "base.json";
    desc.rows = rows;
    desc.seconds = seconds;
    desc.count = ALONE + 1;
    assert_ok(shoal_calibrate_fit(&desc, &fit, NULL));
    assert_true(fit.not_seen[3] && fit.factors.network == 1);
    assert_true(fit.factors.matrix > 1.5 || fit.factors.memory > 1.5);
    desc.count = ALONE + 2;
    assert_ok(shoal_calibrate_fit(&desc, &fit, NULL));
    assert_true(!fit.not_seen[3] && fit.factors.network > 5);
}

static void a_spread_is_of_the_rank_that_nine_of_ten_want(void **state)
{
    (void)state;
    double many[60], nine[9], four[4] = {4, 2, 1, 3};
    for (int i = 0; i < 60; i++)
        many[i] = (double)((7 * i) % 60);
    for (int i = 0; i < 9; i++)
        nine[i] = (double)((4 * i) % 9);
    assert_true(shoali_fit_spread(many, 60) ==
                55); /* P(56 or more of 60 at 0.9) = 0.27, 55: 0.44 */
    assert_true(shoali_fit_spread(many, 30) == 28); /* 29 or more of 30: 0.18, 28: 0.41 */
    assert_true(shoali_fit_spread(nine, 9) == 8);   /* the largest: no more is known */
    assert_true(fabs(shoali_fit_spread(four, 4) - 2.132 * sqrt(30.0 / 4)) < 1e-12);
    assert_true(shoali_fit_spread(four, 0) == 0);
}

/* Steps of which a fifth take 1.5 times as long as any cluster says: an interval of the fitted
 * rows' own errors, or of so many parts of the measured time, misses them. */
static double odd_noise(uint64_t seed, uint64_t i)
{
    const double odd = shoali_rng_double(seed, i, 2) < 0.2 ? 1.5 : 1;
    return odd * (1 + 0.06 * (shoali_rng_double(seed, i, 1) - 0.5));
}

static void intervals_hold_what_was_not_fitted(void **state)
{
    (void)state;
    enum { DRAWS = 1 };
    uint32_t inside = 0;
    uint64_t seed = check_seed();
    const shoal_fit_factors made = {1.7, 1.4, 2, 1.5};
    write_text("base.json", hosts);
    assert_ok(shoal_calibrate_apply("base.json", &made, 0, "truth.json"));
    for (uint64_t k = 0; k < DRAWS; k++) {
        shoal_predict_desc rows[ROWS];
        double seconds[ROWS], spread = -1;
        shoal_fit fit = SHOAL_FIT_INIT;
        make_rows(rows);
        for (uint64_t i = 0; i < ROWS; i++)
            seconds[i] = step_of("truth.json", rows[i]) * odd_noise(seed + k, i);
        shoal_fit_desc desc = SHOAL_FIT_DESC_INIT;
        desc.cluster = "base.json";
        desc.rows = rows;
        desc.seconds = seconds;
        desc.count = ROWS;
        desc.seed = seed + k;
        assert_ok(shoal_calibrate_spread(&desc, &spread));
        assert_ok(shoal_calibrate_fit(&desc, &fit, NULL));
        assert_ok(shoal_calibrate_apply("base.json", &fit.factors, fmin(1, spread), "it.json"));
        for (uint64_t i = 0; i < ROWS; i++) {
            shoal_prediction p = SHOAL_PREDICTION_INIT;
            const double real = step_of("truth.json", rows[i]) * odd_noise(~(seed + k), i);
            rows[i].cluster = "it.json";
            assert_ok(shoal_predict(&rows[i], &p));
            inside += real >= p.low_s && real <= p.high_s;
        }
    }
    if (inside < 0.75 * DRAWS * ROWS)
        fail_msg("%u of %d steps inside an interval of 90 %%", inside, DRAWS * ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_known_cluster_is_found_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rates_are_never_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shares_grow_to_one_and_rates_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_comes_from_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_row_alone_tells_of_no_factor, set_up, tear_down),
        cmocka_unit_test(a_spread_is_of_the_rank_that_nine_of_ten_want),
        cmocka_unit_test_setup_teardown(intervals_hold_what_was_not_fitted, set_up, tear_down),
    };
    return CHECK_RUN(tests);
}
