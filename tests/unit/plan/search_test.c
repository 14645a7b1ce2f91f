/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "shoal/codec.h"
#include "shoal/predict.h"

#define A100 SHOAL_SOURCE_DIR "/examples/clusters/a100-80g.json"
#define LAB SHOAL_SOURCE_DIR "/examples/clusters/lab-4.json"

static void near(double got, double want, double relative)
{
    if (!(fabs(got - want) <= relative * fabs(want) + 1e-4))
        fail_msg("%.6f, expected %.6f within %g", got, want, relative);
}

static shoal_prediction ask(shoal_predict_desc *d)
{
    shoal_prediction p = SHOAL_PREDICTION_INIT;
    d->cluster = d->cluster != NULL ? d->cluster : LAB;
    assert_ok(shoal_predict(d, &p));
    return p;
}

/* The best is no slower than any configuration asked for by itself. */
static void a_search_finds_the_best(void **state)
{
    (void)state;
    static const char *const collectives[] = {"ring", "direct", "worker_aggregator"};
    shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
    shoal_search *search = NULL;
    uint64_t fit;
    d.model = "lenet";
    d.cluster = LAB;
    d.batch = 32;
    assert_ok(shoal_predict_search(&d, 5, &search));
    const shoal_candidate *best = shoal_search_at(search, 0);
    assert_non_null(best);
    assert_true(shoal_search_tried(search, &fit) >= 20 && fit > 0);
    for (uint32_t i = 1; shoal_search_at(search, i) != NULL; i++)
        assert_true(shoal_search_at(search, i)->why[0] != '\0');
    for (int i = 0; i < 3; i++) {
        d.collective = collectives[i % 3];
        assert_true(ask(&d).samples_per_s <= best->prediction.samples_per_s * (1 + 6e-4));
    }
    shoal_search_destroy(search);
}

static void look(void *ctx, double done, double total)
{
    double *s = ctx; /* calls, total */
    assert_true(done == s[0] && done <= total && (s[0] == 0 || total == s[1]));
    s[0]++;
    s[1] = total;
}

/* Its questions share a model, a cluster and what exchanges cost; one that is asked alone shares
 * nothing. */
static void a_search_predicts_as_a_single_question(void **state)
{
    (void)state;
    /* measured, with an interval of its spread; a data sheet, with one of more and less overlap */
    static const char *const clusters[] = {LAB, A100};
    for (int k = 0; k < 4; k++) {
        shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
        shoal_search *search = NULL;
        const shoal_candidate *c;
        uint32_t seen = 0;
        d.model = "lenet";
        d.cluster = clusters[k % 2];
        d.collective = k < 2 ? NULL : "hierarchical:site=2"; /* which codecs cost differently */
        d.workers = 4;
        d.batch = 16;
        d.allow_lossy = d.allow_async = true;
        assert_ok(shoal_predict_search(&d, 20, &search));
        for (int front = 0; front < 2; front++)
            for (uint32_t i = 0; (c = front != 0 ? shoal_search_front(search, i)
                                                 : shoal_search_at(search, i)) != NULL;
                 i++, seen++) {
                shoal_prediction alone = SHOAL_PREDICTION_INIT;
                assert_ok(shoal_predict(&c->desc, &alone));
                assert_true(alone.iteration_s == c->prediction.iteration_s);
                assert_true(alone.low_s == c->prediction.low_s);
                assert_true(alone.high_s == c->prediction.high_s);
                assert_true(alone.memory_bytes == c->prediction.memory_bytes);
            }
        assert_true(seen >= 10);
        shoal_search_destroy(search);
    }
}

/* Each way once, and as many as were said at the start; the answer is the same. */
static void who_watches_a_search_sees_it_go_on(void **state)
{
    (void)state;
    const char *const models[] = {"lenet", "megatron-22b"}, *const clusters[] = {LAB, A100};
    for (int i = 0; i < 2; i++) {
        shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
        shoal_search *search, *alone;
        double s[2] = {0};
        d.model = models[i];
        d.cluster = clusters[i];
        d.workers = i == 0 ? 4 : 16;
        assert_ok(shoal_predict_search_watched(&d, 1, look, s, &search));
        assert_ok(shoal_predict_search(&d, 1, &alone));
        assert_true(s[0] > 4 && s[0] == s[1] + 1);
        assert_true(shoal_search_at(search, 0)->prediction.iteration_s ==
                    shoal_search_at(alone, 0)->prediction.iteration_s);
        shoal_search_destroy(search);
        shoal_search_destroy(alone);
    }
}

typedef struct proposed {
    uint32_t lossy, other, ties;
    double best;
} proposed;

/* What a search for lenet proposes, and whether any two lines say the same. */
static proposed propose(bool lossy, bool async, uint32_t keep, shoal_search **search_out)
{
    shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
    proposed p = {0};
    const shoal_candidate *c;
    double before = INFINITY;
    d.model = "lenet";
    d.cluster = LAB;
    d.allow_lossy = lossy;
    d.allow_async = async;
    assert_ok(shoal_predict_search(&d, keep, search_out));
    for (uint32_t i = 0; (c = shoal_search_at(*search_out, i)) != NULL; i++) {
        shoal_codec *codec;
        assert_ok(shoal_codec_open(c->desc.codec != NULL ? c->desc.codec : "identity", &codec));
        p.lossy += (shoal_codec_traits(codec) & SHOAL_CODEC_LOSSLESS) == 0;
        shoal_codec_close(codec);
        p.other += c->desc.sync != NULL;
        p.ties += c->ties;
        assert_true(c->prediction.samples_per_s < before);
        before = c->prediction.samples_per_s;
        p.best = fmax(p.best, c->prediction.samples_per_s);
    }
    return p;
}

static void searches_propose_what_is_allowed(void **state)
{
    (void)state;
    shoal_search *all, *few;
    proposed plain = propose(false, false, 100, &all);
    assert_true(plain.lossy == 0 && plain.other == 0 && plain.ties > 0);
    assert_true(shoal_search_bounded(all) == 0); /* everything is among the first hundred */
    propose(false, false, 2, &few);              /* what is left out could not have been there */
    assert_true(shoal_search_bounded(few) > 0);
    for (uint32_t i = 0; i < 2; i++)
        near(shoal_search_at(few, i)->prediction.samples_per_s,
             shoal_search_at(all, i)->prediction.samples_per_s, 1e-3);
    shoal_search_destroy(few);
    shoal_search_destroy(all);
    proposed lossy = propose(true, false, 20, &all);
    assert_true(lossy.lossy > 0 && lossy.other == 0 && lossy.best > plain.best);
    shoal_search_destroy(all);
    proposed async = propose(false, true, 100, &all);
    assert_true(async.lossy == 0 && async.best >= plain.best * (1 - 1e-3));
    shoal_search_destroy(all);
    proposed both = propose(true, true, 20, &all);
    assert_true(both.lossy > 0 && both.other > 0);
    shoal_search_destroy(all);
}

static void write_priced(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(
        "{\"name\": \"p\", \"accelerators\": [{\"name\": \"a\", \"flops\": 1e14, \"memory\": 4e10, "
        "\"price\": 2, \"watts\": 400}, {\"name\": \"b\", \"flops\": 1e14, \"memory\": 4e10, "
        "\"price\": 9, \"watts\": 100}], \"hosts\": [{\"count\": 2, \"workers\": 4, \"nic\": "
        "\"10gbit\"}, {\"count\": 2, \"workers\": 4, \"nic\": \"10gbit\", \"accelerator\": "
        "\"b\"}]}",
        file);
    fclose(file);
}

/* The front against every configuration that a search keeps when nothing is left out: none of them
 * is better in all three by more than 1 %; and the cheapest is no dearer than any. */
static void searches_weigh_cost(void **state)
{
    (void)state;
    char path[] = "/tmp/shoal-priced-XXXXXX.json";
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    close(fd);
    write_priced(path);
    shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
    d.model = "lenet", d.cluster = path;
    shoal_search *all, *cheap, *sparing;
    const shoal_candidate *c, *f;
    assert_ok(shoal_predict_search(&d, 100, &all));
    d.objective = SHOAL_OBJECTIVE_COST;
    assert_ok(shoal_predict_search(&d, 3, &cheap));
    d.objective = SHOAL_OBJECTIVE_ENERGY;
    assert_ok(shoal_predict_search(&d, 3, &sparing));
    double least = INFINITY, joules = INFINITY, before = 0;
    for (uint32_t i = 0; (c = shoal_search_at(all, i)) != NULL; i++) {
        const shoal_prediction *p = &c->prediction;
        bool met = false;
        uint32_t first = p->workers < 8 ? p->workers : 8;
        near(p->price, 2.0 * first + 9.0 * (p->workers - first), 1e-12);
        near(p->watts, 400.0 * first + 100.0 * (p->workers - first), 1e-12);
        least = fmin(least, p->price * p->iteration_s);
        joules = fmin(joules, p->watts * p->iteration_s);
        for (uint32_t k = 0; (f = shoal_search_front(all, k)) != NULL; k++)
            met = met || (f->prediction.iteration_s <= 1.011 * p->iteration_s &&
                          f->prediction.price * f->prediction.iteration_s <=
                              1.011 * p->price * p->iteration_s &&
                          f->prediction.memory_bytes <= 1.011 * p->memory_bytes);
        assert_true(met);
    }
    for (uint32_t k = 0; (f = shoal_search_front(all, k)) != NULL; k++) {
        assert_true(f->prediction.iteration_s >= before);
        before = f->prediction.iteration_s;
    }
    const shoal_prediction *best = &shoal_search_at(cheap, 0)->prediction;
    assert_true(best->price * best->iteration_s <= least * (1 + 1e-3));
    assert_true(best->workers <= 8);
    best = &shoal_search_at(sparing, 0)->prediction;
    assert_true(best->watts * best->iteration_s <= joules * (1 + 1e-3));
    shoal_search_destroy(all);
    shoal_search_destroy(cheap);
    shoal_search_destroy(sparing);
    unlink(path);
    d.cluster = LAB;
    assert_status(shoal_predict_search(&d, 3, &cheap), SHOAL_EINVAL);
    assert_error_has("energy needs the watts");
    d.objective = SHOAL_OBJECTIVE_COST;
    assert_status(shoal_predict_search(&d, 3, &cheap), SHOAL_EINVAL);
    assert_error_has("objective cost needs a price");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_search_finds_the_best),
        CHECK_TEST(a_search_predicts_as_a_single_question),
        CHECK_TEST(who_watches_a_search_sees_it_go_on),
        CHECK_TEST(searches_propose_what_is_allowed),
        CHECK_TEST(searches_weigh_cost),
    };
    return CHECK_RUN(tests);
}
