/* SPDX-License-Identifier: Apache-2.0 */
/* The best of all shapes is the best of those that this test enumerates and solves one by one; no
 * bound lies above an answer; what the limits exclude is told from what the question lacks. */
#include "plan/network_shapes.h"

#include <math.h>

#include "base/rng.h"
#include "support/check.h"

#define HERE SHOAL_SOURCE_DIR "/examples/network/"
#define A100 SHOAL_SOURCE_DIR "/examples/clusters/a100-80g.json"

enum { BLOCKS = 3 };

/* One space and one question, drawn. */
typedef struct drawn {
    uint32_t npus, dims_max, block_count, limit_count;
    const char *kind[BLOCKS];
    uint32_t least[BLOCKS], most[BLOCKS];
    double cost[BLOCKS], rate[BLOCKS];
    char block[BLOCKS][128], limit[2][64];
    const char *blocks[BLOCKS], *limits[2 + SHOAL_NETWORK_DIMS_MAX];
    shoal_predict_desc model;
    shoal_network_job job;
    shoal_network_desc desc;
    shoal_network_question question;
} drawn;

/* What one pass over all shapes found. */
typedef struct census {
    uint64_t fit, misfits, solved;
    double best;
} census;

static uint64_t below(shoali_rng *rng, uint64_t n)
{
    return shoali_rng_next(rng) % n;
}

static void draw_blocks(drawn *d, shoali_rng *rng)
{
    static const char *const kinds[] = {"ring", "fc", "switch"};
    d->block_count = 1 + (uint32_t)below(rng, BLOCKS);
    for (uint32_t b = 0; b < d->block_count; b++) {
        d->kind[b] = kinds[below(rng, 3)];
        d->least[b] = 2 + (uint32_t)below(rng, 2);
        d->most[b] = d->least[b] + (uint32_t)below(rng, 12);
        d->cost[b] = (double)(1 + below(rng, 9)) + shoali_rng_next_double(rng);
        d->rate[b] = below(rng, 3) == 0 ? 20 + 60 * shoali_rng_next_double(rng) : 0;
        snprintf(d->block[b], sizeof d->block[b], "%s:least=%u,most=%u,cost=%.17g,rate=%.17g",
                 d->kind[b], d->least[b], d->most[b], d->cost[b], d->rate[b]);
        d->blocks[b] = d->block[b];
    }
}

static void draw_job(drawn *d, shoali_rng *rng)
{
    static const char *const files[] = {HERE "gpt3.txt", HERE "msft1t.txt", HERE "resnet50.txt"};
    static const char *const groups[] = {"tp=1", "tp=2", "tp=4"};
    if (below(rng, 3) > 0) {
        d->job = (shoal_network_job){files[below(rng, 3)], groups[below(rng, 3)], 1, NULL};
    } else {
        d->model = (shoal_predict_desc)SHOAL_PREDICT_DESC_INIT;
        d->model.model = "megatron-22b";
        d->model.cluster = A100;
        d->model.tensor = 1U << below(rng, 3);
        d->model.pipeline = 1U << below(rng, 2);
        d->model.batch = 64;
        d->job = (shoal_network_job){NULL, NULL, 1, &d->model};
    }
    d->desc = (shoal_network_desc)SHOAL_NETWORK_DESC_INIT;
    d->desc.jobs = &d->job;
    d->desc.job_count = 1;
    d->desc.overlap = below(rng, 2) == 0;
    d->desc.fixed_cost = below(rng, 2) == 0 ? 1e4 : 0;
}

static void draw(drawn *d, shoali_rng *rng)
{
    static const uint32_t sizes[] = {8, 12, 16, 24, 36};
    *d = (drawn){.npus = sizes[below(rng, 5)], .dims_max = 1 + (uint32_t)below(rng, 3)};
    draw_blocks(d, rng);
    draw_job(d, rng);
    d->question = (shoal_network_question)SHOAL_NETWORK_QUESTION_INIT;
    d->question.objective = (shoal_network_objective)below(rng, 3);
    if (d->question.objective == SHOAL_NETWORK_COST)
        snprintf(d->limit[d->limit_count++], sizeof d->limit[0], "time <= %g",
                 1e9 * (1 + 40 * shoali_rng_next_double(rng)));
    else
        snprintf(d->limit[d->limit_count++], sizeof d->limit[0], "sum == %g",
                 20 + 200 * shoali_rng_next_double(rng));
    if (below(rng, 2) == 0)
        snprintf(d->limit[d->limit_count++], sizeof d->limit[0], "cost <= %g",
                 1e4 + d->npus * 1000 * shoali_rng_next_double(rng));
    for (uint32_t i = 0; i < d->limit_count; i++)
        d->limits[i] = d->limit[i];
    d->question.limits = d->limits;
    d->question.limit_count = d->limit_count;
}

static void ask_one(drawn *d, const uint32_t *block, const uint32_t *size, uint32_t dims,
                    census *out)
{
    char net_text[256] = "", cost_text[256] = "", cap[SHOAL_NETWORK_DIMS_MAX][48];
    shoal_network_question q = d->question;
    shoal_network_answer answer = {.size = sizeof answer};
    shoal_network *net = NULL;
    for (uint32_t i = 0; i < dims; i++) {
        size_t n = strlen(net_text), c = strlen(cost_text);
        snprintf(net_text + n, sizeof net_text - n, "%s%s:%u", i > 0 ? ", " : "", d->kind[block[i]],
                 size[i]);
        snprintf(cost_text + c, sizeof cost_text - c, "%s%.17g", i > 0 ? "," : "",
                 d->cost[block[i]]);
        snprintf(cap[i], sizeof cap[i], "b%u <= %.17g", i, d->rate[block[i]]);
        if (d->rate[block[i]] > 0)
            d->limits[q.limit_count++] = cap[i];
    }
    d->desc.network = net_text;
    d->desc.cost = cost_text;
    bool fit = shoal_network_open(&d->desc, &net) == SHOAL_OK;
    d->desc.network = d->desc.cost = NULL;
    out->misfits += !fit;
    if (!fit)
        return;
    out->fit++;
    shoali_limits limits;
    assert_ok(shoali_limits_parse(net, &q, &limits));
    const double bound = shoali_shape_bound(net, &limits, q.objective);
    if (shoal_network_solve(net, &q, &answer) == SHOAL_OK) {
        if (!(bound <= answer.objective * (1 + 1e-12)))
            fail_msg("%s, costs %s, %s, objective %d, %s: a bound of %.17g for an answer of %.17g "
                     "(%.17g ns, $ %.17g, %.17g)",
                     net_text, cost_text, d->limit[0], (int)q.objective, d->limit[1], bound,
                     answer.objective, answer.time_ns, answer.cost, answer.bound);
        out->solved++;
        out->best = fmin(out->best, answer.objective);
    }
    shoal_network_close(net);
}

/* Every tuple of blocks and sizes is looked at, and those that are a shape are asked. */
static void enumerate(drawn *d, census *out)
{
    const uint32_t each = d->block_count * (d->npus - 1);
    for (uint32_t dims = 1; dims <= d->dims_max; dims++) {
        uint64_t tuples = 1;
        for (uint32_t i = 0; i < dims; i++)
            tuples *= each;
        for (uint64_t t = 0; t < tuples; t++) {
            uint32_t block[SHOAL_NETWORK_DIMS_MAX], size[SHOAL_NETWORK_DIMS_MAX], product = 1;
            uint64_t rest = t;
            bool good = true;
            for (uint32_t i = 0; i < dims; i++, rest /= each) {
                block[i] = (uint32_t)(rest % each) / (d->npus - 1);
                size[i] = 2 + (uint32_t)(rest % each) % (d->npus - 1);
                product *= size[i];
                good = good && size[i] >= d->least[block[i]] && size[i] <= d->most[block[i]] &&
                       (i == 0 || block[i] >= block[i - 1]);
            }
            if (good && product == d->npus)
                ask_one(d, block, size, dims, out);
        }
    }
}

static void compare(drawn *d, int *answered)
{
    census all = {.best = INFINITY};
    shoal_network_shapes *shapes = NULL;
    shoal_network_shape best[3];
    shoal_network_choice choice = {.size = sizeof choice};
    shoal_network_space space = SHOAL_NETWORK_SPACE_INIT;
    uint32_t found = 0;
    space.npus = d->npus;
    space.blocks = d->blocks;
    space.block_count = d->block_count;
    space.dims_max = d->dims_max;
    enumerate(d, &all);
    if (all.fit == 0) {
        assert_status(shoal_network_shapes_open(&d->desc, &space, &shapes), SHOAL_EINVAL);
        return;
    }
    assert_ok(shoal_network_shapes_open(&d->desc, &space, &shapes));
    shoal_status status = shoal_network_shapes_best(shapes, &d->question, best, 3, &found, &choice);
    if (all.solved == 0) {
        assert_status(status, SHOAL_EINVAL);
    } else {
        assert_ok(status);
        assert_int_equal(choice.shapes, all.fit);
        assert_int_equal(choice.misfits, all.misfits);
        assert_int_equal(choice.solved + choice.excluded + choice.beyond, all.fit);
        if (!(fabs(choice.objective - all.best) <= 1e-9 * all.best))
            fail_msg("%.17g, and one by one %.17g", choice.objective, all.best);
        if (!(choice.bound <= all.best * (1 + 1e-12) && choice.gap < 1e-5))
            fail_msg("%s, %s: %.17g, not below %.17g, one by one %.17g; %s %s %s", d->limit[0],
                     d->limit[1], choice.objective, choice.bound, all.best, d->block[0],
                     d->block[1], d->block[2]);
        for (uint32_t i = 1; i < found; i++)
            assert_true(best[i].answer.objective >= best[i - 1].answer.objective);
        (*answered)++;
    }
    shoal_network_shapes_close(shapes);
}

static void the_best_of_all(void **state)
{
    (void)state;
    shoali_rng rng = {.seed = check_seed()};
    int answered = 0;
    for (int trial = 0; trial < 60; trial++) {
        static drawn d;
        draw(&d, &rng);
        compare(&d, &answered);
    }
    assert_true(answered > 10);
}

static void questions(void **state)
{
    (void)state;
    static const struct {
        shoal_network_objective objective;
        const char *limit, *text;
    } bad[] = {{SHOAL_NETWORK_PERF, "b0 <= 5", "names a dimension"},
               {SHOAL_NETWORK_PERF, "sum <= furlongs", "furlongs"},
               {SHOAL_NETWORK_PERF, "time <= 1e12", "nothing ends the bandwidth"},
               {SHOAL_NETWORK_PERF, "cost <= 0", "without bandwidth"},
               {SHOAL_NETWORK_COST, "sum == 5", "wants a limit such as 'time"},
               {SHOAL_NETWORK_COST, "time <= 1e6", "none of the"},
               {SHOAL_NETWORK_PERF_PER_COST, "sum <= 5", "no minimum"}};
    const char *const blocks[] = {"ring:cost=2", "switch:cost=9"};
    shoal_network_shapes *shapes = NULL;
    shoal_network_job job = {HERE "gpt3.txt", "tp=2", 1, NULL};
    shoal_network_desc desc = SHOAL_NETWORK_DESC_INIT;
    shoal_network_space space = {sizeof space, 16, blocks, 2, 4};
    desc.jobs = &job;
    desc.job_count = 1;
    assert_ok(shoal_network_shapes_open(&desc, &space, &shapes));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        shoal_network_shape best;
        shoal_network_choice choice = {.size = sizeof choice};
        shoal_network_question q = SHOAL_NETWORK_QUESTION_INIT;
        uint32_t found;
        q.objective = bad[i].objective;
        q.limits = &bad[i].limit;
        q.limit_count = 1;
        assert_status(shoal_network_shapes_best(shapes, &q, &best, 1, &found, &choice),
                      SHOAL_EINVAL);
        assert_error_has(bad[i].text);
    }
    shoal_network_shapes_close(shapes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(the_best_of_all), CHECK_TEST(questions)};
    return CHECK_RUN(tests);
}
