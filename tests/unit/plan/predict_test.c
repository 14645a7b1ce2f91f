/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "shoal/codec.h"
#include "shoal/model.h"
#include "shoal/partition.h"
#include "shoal/predict.h"
#include "shoal/rows.h"
#include "shoal/sim.h"

#define A100 SHOAL_SOURCE_DIR "/examples/clusters/a100-80g.json"
#define LAB SHOAL_SOURCE_DIR "/examples/clusters/lab-4.json"

/* Eight published Megatron runs on A100 (Korthikanti et al.) and what Calculon says of them with
 * its table for that machine: forward, backward, recomputation, bubble, tensor and pipeline
 * exchange, recomputed exchange, all. */
static const struct {
    const char *model;
    uint32_t workers, pipeline, batch, microbatch, interleave;
    bool selective;
    double all, forward, backward, again, bubble, tensor, pipe, tensor_again;
} rows[] = {
    {"megatron-22b", 8, 1, 4, 4, 1, false, 1.3956, .2861, .5155, .2861, 0, .1974, 0, .0877},
    {"megatron-22b", 8, 1, 4, 4, 1, true, 1.1367, .2468, .4457, .0485, 0, .3070, 0, .0660},
    {"megatron-175b", 64, 8, 64, 1, 3, false, 18.0288, 3.6486, 6.9061, 3.6486, .6334, 1.5948, .8667,
     .7092},
    {"megatron-175b", 64, 8, 64, 1, 3, true, 13.6381, 3.3335, 6.3477, .3185, .4790, 2.4871, .1151,
     .5357},
    {"megatron-530b", 280, 35, 280, 1, 3, false, 49.8926, 9.4887, 18.4979, 9.4887, 1.9404, 2.8847,
     6.2971, 1.2815},
    {"megatron-530b", 280, 35, 280, 1, 3, true, 34.4728, 8.9144, 17.4800, .4536, 1.3405, 4.4889,
     .8165, .9654},
    {"megatron-1t", 512, 64, 512, 1, 1, false, 90.0809, 17.4480, 34.1768, 17.4480, 9.8682, 4.3855,
     4.7927, 1.9477},
    {"megatron-1t", 512, 64, 512, 1, 1, true, 66.0407, 16.5728, 32.6258, .6912, 7.2342, 6.8198,
     .6170, 1.4659},
};

static void near(double got, double want, double relative)
{
    if (!(fabs(got - want) <= relative * fabs(want) + 1e-4))
        fail_msg("%.6f, expected %.6f within %g", got, want, relative);
}

static void calculons_columns(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        shoal_prediction p = SHOAL_PREDICTION_INIT;
        shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
        d.model = rows[i].model;
        d.cluster = A100;
        d.workers = rows[i].workers;
        d.tensor = 8;
        d.pipeline = rows[i].pipeline;
        d.batch = rows[i].batch;
        d.microbatch = rows[i].microbatch;
        d.interleave = rows[i].interleave;
        d.recompute = rows[i].selective ? SHOAL_RECOMPUTE_SELECTIVE : SHOAL_RECOMPUTE_FULL;
        d.sequence = rows[i].selective;
        d.no_head = d.no_scatter = true;
        assert_ok(shoal_predict(&d, &p));
        near(p.forward_s, rows[i].forward, 0.002);
        near(p.backward_s, rows[i].backward, 0.002);
        near(p.recompute_s, rows[i].again, 0.002);
        near(p.bubble_s, rows[i].bubble, 0.002);
        near(p.tensor_s, rows[i].tensor, 0.002);
        near(p.pipeline_s, rows[i].pipe, 0.002);
        near(p.tensor_again_s, rows[i].tensor_again, 0.002);
        near(p.iteration_s, rows[i].all, 0.002);
        const shoal_causes *c = &p.causes;
        near(c->matrix + c->vector + c->memory + c->network + c->fixed, p.iteration_s, 1e-9);
        assert_true(p.low_s <= p.iteration_s && p.iteration_s <= p.high_s);
    }
}

static shoal_prediction ask(shoal_predict_desc *d)
{
    shoal_prediction p = SHOAL_PREDICTION_INIT;
    d->cluster = d->cluster != NULL ? d->cluster : LAB;
    assert_ok(shoal_predict(d, &p));
    return p;
}

/* No overlap, ring of 4 at 250 Mbit/s: 2 (3/4) S / rate and the latencies, by hand. */
static void a_ring_by_hand(void **state)
{
    (void)state;
    shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
    d.model = "mlp-small";
    d.no_overlap = true;
    d.bucket_bytes = 64 << 20;
    shoal_prediction p = ask(&d);
    double bytes = 4 * p.params, rate = 250e6 / 8 * 0.956;
    near(p.params, 784 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10, 0);
    near(p.exposed_s, 1.5 * bytes / rate + 6 * 110e-6 + 150e-6, 1e-6);
    near(p.sent_bytes, 1.5 * bytes, 1e-6);
    d.codec = "fp16";
    shoal_prediction half = ask(&d);
    near(half.sent_bytes, p.sent_bytes / 2, 1e-6);
    assert_true(half.iteration_s < p.iteration_s && half.codec_s > 0);
    d.workers = 1;
    shoal_prediction alone = ask(&d);
    assert_true(alone.exposed_s == 0);
    near(alone.forward_s, p.forward_s, 1e-9);
}

/* The simulator runs the protocol that the closed form describes: the two agree. */
static void protocols_by_simulation(void **state)
{
    (void)state;
    shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
    d.model = "lenet";
    d.no_overlap = true;
    d.collective = "worker_aggregator";
    shoal_prediction closed = ask(&d);
    d.sync = "param_server";
    shoal_prediction none = SHOAL_PREDICTION_INIT;
    assert_status(shoal_predict(&d, &none), SHOAL_EINVAL); /* it has a way of its own */
    d.collective = NULL;
    shoal_prediction simulated = ask(&d);
    assert_true(simulated.iteration_s > 0.3 * closed.iteration_s);
    assert_true(simulated.iteration_s < 1.5 * closed.iteration_s);
}

/* A cluster file that the caller unlinks. */
static void write_cluster(char *path, const char *hosts)
{
    int fd = mkstemps(path, 5);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    assert_non_null(file);
    fprintf(file,
            "{\"name\": \"t\", \"accelerators\": [{\"name\": \"a\", \"flops\": 5e10}], "
            "\"hosts\": [%s]}",
            hosts);
    fclose(file);
}

/* What lenet's model takes to its neighbours by hand: edges that leave the host, bytes, the NIC's
 * rate. And all_reduce's own prediction is what a protocol is compared with. */
static void protocols_say_when_they_lose(void **state)
{
    (void)state;
    static const double LENET_BYTES = 4.0 * 431080; /* 520 + 25050 + 400500 + 5010 */
    static const struct {
        const char *hosts, *sync, *codec;
        uint32_t workers;
        double edges, bytes_per_s, share; /* of float32's bytes */
    } cases[] = {
        {"{\"count\": 8, \"nic\": \"24mbit\"}", "hop:backup=1,skip=10", NULL, 8, 2, 3e6, 1},
        {"{\"count\": 8, \"nic\": \"24mbit\"}", "d_psgd:graph=chords", NULL, 8, 3, 3e6, 1},
        {"{\"count\": 8, \"nic\": \"24mbit\"}", "hop:graph=exponential", NULL, 8, 3, 3e6, 1},
        {"{\"count\": 8, \"nic\": \"24mbit\"}", "d_psgd:graph=one_way", NULL, 8, 1, 3e6, 1},
        {"{\"count\": 8, \"nic\": \"24mbit\"}", "d_psgd", "fp16", 8, 2, 3e6, .5},
        /* a ring of 8 over 2 hosts leaves each at two places, over the slower NIC */
        {"{\"workers\": 4, \"nic\": \"80mbit\"}, {\"workers\": 4, \"nic\": \"40mbit\"}", "d_psgd",
         NULL, 8, 2, 5e6, 1},
        {"{\"count\": 4, \"nic\": \"24mbit\"}", "local_sgd", NULL, 4, 0, 3e6, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[] = "/tmp/shoal-models-XXXXXX.json";
        write_cluster(path, cases[i].hosts);
        shoal_prediction p = SHOAL_PREDICTION_INIT, summed = SHOAL_PREDICTION_INIT;
        shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
        d.model = "lenet";
        d.cluster = path;
        d.codec = cases[i].codec;
        assert_ok(shoal_predict(&d, &summed));
        assert_true(summed.all_reduce_s == 0 && summed.models_s == 0);
        d.sync = cases[i].sync;
        assert_ok(shoal_predict(&d, &p));
        unlink(path);
        double wanted = cases[i].edges * LENET_BYTES * cases[i].share / cases[i].bytes_per_s;
        if (!(fabs(p.models_s - wanted) <= 1e-3 * wanted))
            fail_msg("%s: %.6f s, wanted %.6f", cases[i].sync, p.models_s, wanted);
        assert_true(fabs(p.all_reduce_s - summed.iteration_s) <= 1e-9 * summed.iteration_s);
        if (i == 0) /* it does not hide, and costs what it takes */
            assert_true(p.iteration_s > .9 * wanted && p.iteration_s > p.all_reduce_s);
    }
}

/* Seven workers and one that is four times slower: who waits for it pays for it, as all_reduce
 * does; who skips its iterations, or asks somebody else, is hardly slower than among equals. */
static void a_straggler_costs_who_waits_for_it(void **state)
{
    (void)state;
    static const struct {
        const char *sync;
        double least, most; /* seconds beyond equal workers, by those that the slow one has more */
    } forms[] = {{"local_sgd:every=4", .99, 1.01},
                 {"hop", .8, 1.01},
                 {"hop:backup=1,skip=10", 0, .01},
                 {"ad_psgd", 0, .15}};
    char path[] = "/tmp/shoal-straggler-XXXXXX.json";
    write_cluster(path,
                  "{\"count\": 7, \"nic\": \"1gbit\"}, {\"nic\": \"1gbit\", \"slowdown\": 4}");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        shoal_prediction p = SHOAL_PREDICTION_INIT;
        shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
        d.model = "lenet";
        d.cluster = path;
        d.sync = forms[i].sync;
        assert_ok(shoal_predict(&d, &p));
        double more = 3 * (p.forward_s + p.backward_s), share = p.straggler_s / more;
        if (!(share >= forms[i].least && share <= forms[i].most))
            fail_msg("%s waits %.3f of what the slow worker has more", forms[i].sync, share);
    }
    unlink(path);
}

/* Bytes as the simulator counts them, which are those of the wire: for every codec of fixed rate,
 * also where sums of codes are larger than codes, and where all goes to all (gather) whatever the
 * collective. */
static void bytes_are_those_of_the_schedules(void **state)
{
    (void)state;
    static const char *const collectives[] = {"ring", "halving_doubling", "direct"};
    static const uint32_t workers[] = {2, 8, 32};
    char path[] = "/tmp/shoal-bytes-XXXXXX.json";
    uint32_t compared = 0;
    write_cluster(path, "{\"count\": 32, \"nic\": \"1gbit\"}");
    shoal_row row = {.size = sizeof row};
    for (size_t i = 0; shoal_row_at(SHOAL_TABLE_CODECS, i / 9, &row); i++) {
        shoal_codec *codec = NULL;
        shoal_prediction p = SHOAL_PREDICTION_INIT;
        shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
        d.model = "lenet";
        d.cluster = path;
        d.codec = row.name;
        d.collective = collectives[i % 3];
        d.workers = workers[i / 3 % 3];
        d.bucket_bytes = 64 << 20;
        assert_ok(shoal_codec_open(d.codec, &codec));
        const uint32_t traits = shoal_codec_traits(codec);
        const bool counts = (traits & (SHOAL_CODEC_FIXED_RATE | SHOAL_CODEC_GATHERS)) != 0;
        shoal_codec_close(codec);
        if (!counts || shoal_predict(&d, &p) != SHOAL_OK)
            continue;
        shoal_sim *sim = NULL;
        shoal_sim_results results = {.size = sizeof results};
        shoal_sim_desc s = SHOAL_SIM_DESC_INIT;
        s.cluster = path;
        s.workers = d.workers;
        s.model = d.model;
        s.codec = d.codec;
        s.collective = d.collective;
        s.bucket_bytes = d.bucket_bytes;
        s.iterations = 1;
        assert_ok(shoal_sim_create(&s, &sim));
        assert_ok(shoal_sim_run(sim));
        assert_ok(shoal_sim_results_get(sim, &results));
        shoal_sim_destroy(sim);
        double each = (double)results.sent_bytes / d.workers;
        if (fabs(p.sent_bytes - each) > 0.001 * each)
            fail_msg("%s over %s among %u: %.0f bytes, the simulator counts %.0f", d.codec,
                     d.collective, d.workers, p.sent_bytes, each);
        compared++;
    }
    assert_true(compared > 50);
    unlink(path);
}

/* All experts are kept and exchanged, though a token meets two of eight: as many parameters as the
 * model has, eight times the dense one's gradients, and the same matrices' work for any number. */
static void experts_are_kept_though_few_are_met(void **state)
{
    (void)state;
    static const char text[] = "{\"name\": \"moe\", \"input\": [1, 64, 1], \"layers\": ["
                               "\"embedding:vocab=1000,width=512\", "
                               "\"transformer:heads=8,ff=2048,gated%s\", "
                               "\"transformer:heads=8,ff=2048,gated%s\"]}";
    static const char *const kinds[] = {"", ",experts=8,active=1", ",experts=8,active=2"};
    shoal_prediction p[3] = {SHOAL_PREDICTION_INIT, SHOAL_PREDICTION_INIT, SHOAL_PREDICTION_INIT};
    char path[] = "/tmp/shoal-experts-XXXXXX.json";
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    close(fd);
    for (int i = 0; i < 3; i++) {
        shoal_model *model = NULL;
        shoal_model_info info = SHOAL_MODEL_INFO_INIT;
        shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, text, kinds[i], kinds[i]);
        fclose(file);
        assert_ok(shoal_model_open(path, &model));
        assert_ok(shoal_model_describe(model, &info));
        d.model = path;
        d.no_head = true;
        d.no_overlap = true;
        p[i] = ask(&d);
        near(p[i].params, (double)info.param_count - 1000 * 512, 1e-9); /* without the table */
        shoal_model_close(model);
    }
    double expert = 3.0 * 512 * 2048;
    near(p[1].params - p[0].params, 2 * (7 * expert + 512 * 8), 0.01);
    near(p[2].params, p[1].params, 1e-9);
    assert_true(p[1].memory_bytes > p[0].memory_bytes + 2 * 7 * expert * 4);
    assert_true(p[1].exposed_s > 3 * p[0].exposed_s);
    assert_true(p[1].forward_s < 1.2 * p[0].forward_s && p[2].forward_s > 1.2 * p[0].forward_s);
    unlink(path);
}

/* Products at 1 TFLOP/s; everything else takes no time. */
static void write_sheet(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"name\": \"s\", \"accelerators\": [{\"name\": \"a\", \"flops\": 1e12, "
          "\"vector_flops\": 1e20}], \"hosts\": [{\"count\": 1}]}",
          file);
    fclose(file);
}

/* DeepSeek's first blocks are dense: they are costed as they are, and latent attention by its own
 * products. A block's arithmetic is that which the model counts. */
static void blocks_that_differ(void **state)
{
    (void)state;
    static const char *const files[] = {"hf_deepseek_v2_lite", "hf_gemma2_2b"};
    char sheet[] = "/tmp/shoal-sheet-XXXXXX.json";
    int fd = mkstemps(sheet, 5);
    assert_true(fd >= 0);
    close(fd);
    write_sheet(sheet);
    for (int i = 0; i < 2; i++) {
        char path[300];
        shoal_model *model = NULL;
        shoal_model_info info = SHOAL_MODEL_INFO_INIT;
        shoal_prediction p = SHOAL_PREDICTION_INIT;
        shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
        snprintf(path, sizeof path, "%s/tests/fuzz/corpus/model/%s:length=2048", SHOAL_SOURCE_DIR,
                 files[i]);
        assert_ok(shoal_model_open(path, &model));
        assert_ok(shoal_model_describe(model, &info));
        shoal_model_close(model);
        d.model = path;
        d.workers = 1;
        d.batch = 1;
        d.cluster = sheet;
        assert_ok(shoal_predict(&d, &p));
        near(p.params, (double)info.param_count, 1e-9);
        near(p.forward_s, info.forward_flops / 1e12, 0.002);
        near(p.backward_s, info.backward_flops / 1e12, 0.002);
    }
    unlink(sheet);
}

/* A plan by data is what `shoal train` does: the same as without a plan where one bucket holds all,
 * and rings cost the same. A plan by model moves sums instead of weights. */
static void plans(void **state)
{
    (void)state;
    static const char *const given[] = {"000/000", "111/111"};
    shoal_prediction found[2] = {SHOAL_PREDICTION_INIT, SHOAL_PREDICTION_INIT};
    char path[] = "/tmp/shoal-predict-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (int i = 0; i < 2; i++) {
        shoal_partition_desc part = SHOAL_PARTITION_DESC_INIT;
        shoal_partition *plan = NULL;
        shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
        part.model = "mlp-small";
        part.batch = 64;
        part.levels = 2;
        part.method = SHOAL_PARTITION_GIVEN;
        part.given = given[i];
        assert_ok(shoal_partition_create(&part, &plan));
        assert_ok(shoal_partition_save(plan, path));
        shoal_partition_destroy(plan);
        d.plan = path;
        d.cluster = LAB;
        assert_ok(shoal_predict(&d, &found[i]));
        d.batch = 64;
        assert_status(shoal_predict(&d, &found[1]), SHOAL_EINVAL);
        assert_error_has("leave these options out");
    }
    unlink(path);
    double bytes = 4 * found[0].params, rate = 250e6 / 8 * 0.956;
    near(found[0].forward_s + found[0].backward_s, found[1].forward_s + found[1].backward_s, 0.5);
    near(found[0].by_data_s, found[1].by_data_s, 1e-12);
    near(found[0].iteration_s, found[0].by_data_s, 0.1);
    near(found[0].sent_bytes, 1.5 * bytes, 1e-9);
    assert_true(found[0].tensor_s == 0 &&
                found[0].exposed_s + found[0].hidden_s > 0.99 * 1.5 * bytes / rate);
    /* sums of 64 x (256 + 128 + 10) floats to three others, and back */
    near(found[1].tensor_s, 2 * (4.0 * 16 * (256 + 128 + 10) * 3 / rate + 3 * 110e-6), 1e-6);
    assert_true(found[1].weight_bytes < 0.3 * found[0].weight_bytes);
    near(found[1].causes.matrix + found[1].causes.vector + found[1].causes.memory +
             found[1].causes.network + found[1].causes.fixed,
         found[1].iteration_s, 1e-9);
}

static void sensitivities(void **state)
{
    (void)state;
    shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
    shoal_sensitivity s = SHOAL_SENSITIVITY_INIT;
    d.model = "alexnet-mini";
    d.cluster = LAB;
    assert_ok(shoal_predict_sensitivity(&d, &s));
    assert_true(s.faster_link > 1.5 && s.faster_link <= 2); /* bound by its links */
    assert_true(s.elasticity_link < -0.7 && s.elasticity_link >= -1);
    assert_true(s.one_more > 1 && s.one_more < 1.25);
    for (int i = 0; i < 3; i++)
        assert_true(s.link_for[i] <= s.link_for[i + 1]);
}

static void wrong_questions(void **state)
{
    (void)state;
    static const struct {
        shoal_predict_desc desc;
        const char *error;
    } bad[] = {
        {{.size = sizeof(shoal_predict_desc), .model = "lenet", .cluster = LAB, .workers = 5},
         "has 4"},
        {{.size = sizeof(shoal_predict_desc), .model = "lenet", .cluster = LAB, .tensor = 3},
         "no multiple"},
        {{.size = sizeof(shoal_predict_desc), .model = "lenet", .cluster = LAB, .microbatch = 7},
         "microbatch"},
        {{.size = sizeof(shoal_predict_desc), .model = "lenet", .cluster = LAB, .codec = "zip"},
         "zip"},
        {{.size = sizeof(shoal_predict_desc), .model = "lenet", .cluster = LAB, .sequence = true},
         "language"},
        {{.size = sizeof(shoal_predict_desc),
          .model = "megatron-22b",
          .cluster = A100,
          .tensor = 8,
          .pipeline = 64},
         "64 stages"},
        {{.size = sizeof(shoal_predict_desc), .model = "lenet"}, "needs a model and a cluster"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        shoal_prediction p = SHOAL_PREDICTION_INIT;
        assert_status(shoal_predict(&bad[i].desc, &p), SHOAL_EINVAL);
        assert_error_has(bad[i].error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(calculons_columns),
        CHECK_TEST(a_ring_by_hand),
        CHECK_TEST(protocols_by_simulation),
        CHECK_TEST(protocols_say_when_they_lose),
        CHECK_TEST(a_straggler_costs_who_waits_for_it),
        CHECK_TEST(bytes_are_those_of_the_schedules),
        CHECK_TEST(plans),
        CHECK_TEST(experts_are_kept_though_few_are_met),
        CHECK_TEST(blocks_that_differ),
        CHECK_TEST(sensitivities),
        CHECK_TEST(wrong_questions),
    };
    return CHECK_RUN(tests);
}
