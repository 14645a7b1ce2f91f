/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas on a graph whose updates go through a codec: without losses nothing changes but the
 * bytes; with losses replicas that differ come together all the same, and their mean stays. */
#include <math.h>

#include "base/rng.h"
#include "driver/sim.h"
#include "support/check.h"

enum { WORKERS = 6, COUNT = 400 };

typedef struct ends {
    float x[WORKERS][COUNT]; /* replicas before the average at the end */
    uint64_t sent;
    bool images; /* compare those of both ends of every edge of a ring, when all is over */
} ends;

static void note_end(void *ctx, shoal_sim *sim, uint32_t endpoint, const shoali_event *event)
{
    ends *e = ctx;
    if (event->kind == SHOALI_EV_FINISH && sim->numbers)
        memcpy(e->x[endpoint], sim->nodes[endpoint].tensors.params, sizeof e->x[endpoint]);
}

/* Slots of a worker on a ring: the finale's, then image, change and theirs of each neighbour, the
 * lower one first. */
static const float *kept(const shoal_sim *sim, uint32_t w, uint32_t neighbour, uint32_t which)
{
    const uint32_t other = (w + WORKERS - 1) % WORKERS == neighbour ? (w + 1) % WORKERS
                                                                    : (w + WORKERS - 1) % WORKERS;
    const uint32_t slot = SHOALI_SLOT + 1 + 3 * (neighbour > other) + which;
    return shoali_tensor_memory(&sim->nodes[w].tensors, slot, 0, COUNT);
}

static void compare_images(const shoal_sim *sim)
{
    for (uint32_t w = 0; w < WORKERS; w++) {
        const uint32_t next = (w + 1) % WORKERS;
        assert_memory_equal(kept(sim, w, next, 0), kept(sim, next, w, 2), COUNT * sizeof(float));
        assert_memory_equal(kept(sim, next, w, 0), kept(sim, w, next, 2), COUNT * sizeof(float));
    }
}

/* With apart every worker begins with numbers of its own. */
static void run(const char *sync, const char *codec, const char *problem, uint64_t iterations,
                bool apart, ends *out)
{
    static const shoal_tensor tensors[2] = {
        {.key = 1, .count = 300, .lr_scale = 1},
        {.key = 2, .offset = 300, .count = COUNT - 300, .lr_scale = 1}};
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    shoal_sim_results r = {.size = sizeof r};
    shoal_sim *sim;
    desc.sync = sync;
    desc.codec = codec;
    desc.problem = problem;
    desc.workers = WORKERS;
    desc.iterations = iterations;
    desc.tensors = tensors;
    desc.tensor_count = 2;
    desc.compute = "fixed:ms=10,jitter=0.3";
    desc.network = "links:rate=10mbit";
    desc.seed = check_seed();
    assert_ok(shoal_sim_create(&desc, &sim));
    for (uint32_t w = 0; w < WORKERS && apart; w++)
        for (uint32_t j = 0; j < COUNT; j++)
            sim->nodes[w].tensors.params[j] = (float)(shoali_rng_normal(7, w, j) + 0.1 * w);
    sim->test.on_event = note_end;
    sim->test.ctx = out;
    assert_ok(shoal_sim_run(sim));
    assert_ok(shoal_sim_results_get(sim, &r));
    out->sent = r.sent_bytes;
    if (out->images)
        compare_images(sim);
    shoal_sim_destroy(sim);
}

static void a_codec_without_losses_changes_bytes_alone(void **state)
{
    (void)state;
    static const char *const specs[] = {"d_psgd", "d_psgd:serial", "hop:graph=chords",
                                        "ripples:static"};
    static ends plain, coded;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        run(specs[i], NULL, "quadratic:lr=0.1,noise=0.2", 25, false, &plain);
        run(specs[i], "expo", "quadratic:lr=0.1,noise=0.2", 25, false, &coded);
        assert_memory_equal(plain.x, coded.x, sizeof plain.x);
        assert_true(coded.sent < plain.sent);
    }
}

/* Square distance of the replicas from their mean, and the mean's from where it began. */
static double apart(const ends *e, double *moved_out)
{
    double sum = 0;
    *moved_out = 0;
    for (uint32_t j = 0; j < COUNT; j++) {
        double mean = 0, began = 0;
        for (uint32_t w = 0; w < WORKERS; w++) {
            mean += (double)e->x[w][j] / WORKERS;
            began += (double)(float)(shoali_rng_normal(7, w, j) + 0.1 * w) / WORKERS;
        }
        for (uint32_t w = 0; w < WORKERS; w++)
            sum += ((double)e->x[w][j] - mean) * ((double)e->x[w][j] - mean);
        *moved_out = fmax(*moved_out, fabs(mean - began));
    }
    return sum;
}

static void replicas_that_differ_come_together(void **state)
{
    (void)state;
    static const struct {
        const char *sync, *codec;
        bool mean;
        double left; /* of their square distance, after 300 iterations */
    } cases[] = {{"d_psgd", "eden:bits=4", true, 1e-10},
                 {"d_psgd", "eden:bits=2", true, 1e-10},
                 {"d_psgd:serial", "int8", true, 1e-10},
                 {"d_psgd:graph=complete", "topk:k=0.2", true, 1e-10},
                 {"d_psgd", "topk:k=0.02", true, 1e-2},
                 {"hop:graph=parity", "eden:bits=1", true, 1e-10},
                 {"hop:graph=chords", "sign", true, 1e-2},
                 {"hop:notify_ack", "randomk:k=0.2", true, 1e-6},
                 {"hop:backup=1", "eden:bits=4", false, 1e-10},
                 {"hop:staleness=3", "eden:bits=4", false, 1e-10}};
    static ends e;
    double moved, before;
    run("d_psgd", NULL, "quadratic:lr=0,noise=0", 1, true, &e);
    before = apart(&e, &moved);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run(cases[i].sync, cases[i].codec, "quadratic:lr=0,noise=0", 300, true, &e);
        double left = apart(&e, &moved) / before;
        assert_true(left < cases[i].left);
        assert_true(!cases[i].mean || moved < 1e-4);
    }
}

/* serial: at the end nothing is under way, and every image has met its other end. */
static void both_ends_have_the_same_images(void **state)
{
    (void)state;
    static const char *const codecs[] = {"eden:bits=2", "topk:k=0.05", "int8", "sign"};
    static ends e;
    e.images = true;
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        run("d_psgd:serial", codecs[i], "quadratic:lr=0.1,noise=0.3", 40, true, &e);
}

/* What an iteration more costs on a ring: a coded change to each of two neighbours. */
static void bytes_are_those_of_the_codec(void **state)
{
    (void)state;
    static const char *const codecs[] = {"identity", "fp16", "eden:bits=4", "topk:k=0.1"};
    static ends few, many;
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        shoal_codec *codec;
        assert_ok(shoal_codec_open(codecs[i], &codec));
        double bytes = COUNT * shoal_codec_bytes_per_elem(codec, 1);
        shoal_codec_close(codec);
        run("d_psgd", codecs[i], "cost", 20, false, &few);
        run("d_psgd", codecs[i], "cost", 60, false, &many);
        double each = (double)(many.sent - few.sent) / 40 / (2 * WORKERS);
        assert_true(fabs(each - bytes) <= 0.01 * bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_codec_without_losses_changes_bytes_alone),
        CHECK_TEST(replicas_that_differ_come_together),
        CHECK_TEST(both_ends_have_the_same_images),
        CHECK_TEST(bytes_are_those_of_the_codec),
    };
    return CHECK_RUN(tests);
}
