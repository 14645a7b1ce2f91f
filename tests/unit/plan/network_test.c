/* SPDX-License-Identifier: Apache-2.0 */
/* LIBRA's shipped cases (planning.md 3.8): every row of the tables, from files in its formats. */
#include "plan/network.h"

#include <math.h>

#include "support/check.h"

#define HERE SHOAL_SOURCE_DIR "/examples/network/"

/* Workload and tensor parallelism of each name. */
typedef struct load {
    const char *file, *groups;
} load;
static const load gpt3 = {HERE "gpt3.txt", "tp=16"}, msft = {HERE "msft1t.txt", "tp=128"},
                  resnet = {HERE "resnet50.txt", NULL}, tnlg = {HERE "tnlg.txt", NULL};

static shoal_network *open_jobs(int dims, const load *loads, uint32_t count, bool overlap)
{
    shoal_network_job jobs[4];
    shoal_network *net = NULL;
    for (uint32_t i = 0; i < count; i++)
        jobs[i] = (shoal_network_job){loads[i].file, loads[i].groups, 1, NULL};
    shoal_network_desc desc = SHOAL_NETWORK_DESC_INIT;
    desc.network = dims == 4 ? HERE "4d.yml" : HERE "3d.yml";
    desc.cost = dims == 4 ? HERE "4d-cost.yml" : HERE "3d-cost.yml";
    desc.jobs = jobs;
    desc.job_count = count;
    desc.overlap = overlap;
    assert_ok(shoal_network_open(&desc, &net));
    return net;
}

static shoal_network_answer ask(const shoal_network *net, shoal_network_objective objective,
                                uint32_t count, const char *const *limits)
{
    shoal_network_question question = SHOAL_NETWORK_QUESTION_INIT;
    shoal_network_answer answer = {.size = sizeof answer};
    question.objective = objective;
    question.limits = limits;
    question.limit_count = count;
    assert_ok(shoal_network_solve(net, &question, &answer));
    assert_true(answer.bound <= answer.objective * (1 + 1e-15));
    assert_true(answer.gap < (objective == SHOAL_NETWORK_PERF_PER_COST ? 1e-9 : 1e-12));
    return answer;
}

static shoal_network_answer ask_total(const shoal_network *net, shoal_network_objective objective,
                                      double total)
{
    char text[32];
    snprintf(text, sizeof text, "sum == %g", total);
    return ask(net, objective, 1, (const char *const[]){text});
}

static bool near(double got, double want, double relative)
{
    return fabs(got - want) <= relative * fabs(want);
}

static void check_b(const shoal_network_answer *answer, const double *want, int dims, double room)
{
    for (int d = 0; d < dims; d++) {
        if (!(fabs(answer->bandwidth[d] - want[d]) <= room + 1e-3 * room * want[d]))
            fail_msg("b%d is %.4f, the table says %.4f", d, answer->bandwidth[d], want[d]);
    }
}

typedef struct row {
    int dims;
    const load *load;
    double total, b[4], time, equal, gain, cost_gain;
} row;

static const row perf_rows[] = {
    {4, &gpt3, 100, {67.690, 16.922, 11.632, 3.756}, 874265936.6, 1137433074.0, 1.3010, 4.712},
    {4, &gpt3, 500, {338.450, 84.612, 58.158, 18.780}, 722411780.9, 775045208.4, 1.0729, 3.886},
    {4, &gpt3, 1000, {676.899, 169.225, 116.316, 37.560}, 703430011.5, 729746725.2, 1.0374, 3.758},
    {4, &msft, 100, {64.350, 18.769, 2.011, 14.870}, 368450918.4, 622413715.0, 1.6893, 2.672},
    {4, &msft, 500, {321.751, 93.844, 10.055, 74.351}, 209686274.9, 260478834.2, 1.2422, 1.965},
    {4, &msft, 1000, {643.501, 187.688, 20.109, 148.702}, 189840694.4, 215236974.1, 1.1338, 1.793},
    {4, &resnet, 100, {75.018, 21.880, 2.344, .757}, 2115181.4, 4155663.4, 1.9647, 11.400},
    {4, &resnet, 500, {375.092, 109.402, 11.722, 3.785}, 1299287.5, 1707383.9, 1.3141, 7.625},
    {4, &tnlg, 100, {75.018, 21.880, 2.344, .757}, 344533411.2, 379315645.7, 1.1010, 6.388},
    {4, &tnlg, 500, {375.092, 109.402, 11.722, 3.785}, 330625611.8, 337582058.7, 1.0210, 5.925},
    {3, &gpt3, 500, {397.553, 89.993, 12.454}, 727439975.7, 770741852.5, 1.0595, 4.333},
    {3, &gpt3, 1000, {795.106, 179.985, 24.909}, 705944108.8, 727595047.2, 1.0307, 4.215},
    {3, &msft, 500, {402.188, 23.461, 74.351}, 209686274.9, 254165358.1, 1.2121, 2.213},
    {3, &msft, 1000, {804.376, 46.922, 148.702}, 189840694.4, 212080236.0, 1.1171, 2.040},
    {3, &resnet, 100, {93.773, 5.470, .757}, 2115181.4, 3964391.6, 1.8743, 9.277},
    {3, &resnet, 500, {468.864, 27.350, 3.785}, 1299287.5, 1669129.5, 1.2846, 6.359},
    {3, &tnlg, 500, {468.864, 27.350, 3.785}, 330625611.8, 336929971.4, 1.0191, 5.044},
};

static void perf_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof perf_rows / sizeof *perf_rows; i++) {
        const row *r = &perf_rows[i];
        shoal_network *net = open_jobs(r->dims, r->load, 1, false);
        shoal_network_answer a = ask_total(net, SHOAL_NETWORK_PERF, r->total);
        check_b(&a, r->b, r->dims, 6e-4);
        /* the table has one decimal: that is all that may differ */
        assert_true(fabs(a.time_ns - r->time) <= 0.0501 + 1e-9 * r->time);
        assert_true(fabs(a.equal_time_ns - r->equal) <= 0.0501 + 1e-9 * r->equal);
        assert_true(fabs(a.equal_time_ns / a.time_ns - r->gain) < 6e-5);
        assert_true(fabs(a.equal_time_ns * a.equal_cost / (a.time_ns * a.cost) - r->cost_gain) <
                    6e-4);
        shoal_network_close(net);
    }
}

typedef struct product_row {
    int dims;
    const load *load;
    double total, b[4], objective, time, cost, gain;
    bool rounded; /* the printed objective, not T * C, is the better value */
} product_row;

static const product_row product_rows[] = {
    {4, &gpt3, 500, {448.833, 44.559, 4.996, 1.613}, 395991, 813451678.9, 4868030, 6.754, false},
    {4, &gpt3, 1000, {927.638, 63.015, 7.065, 2.281}, 720116, 775667445.3, 9283828, 6.994, false},
    {4, &msft, 500, {391.559, 91.782, 9.834, 6.826}, 174133, 268829914.5, 6477438, 5.162, false},
    {4, &msft, 1000, {846.641, 129.799, 13.907, 9.654}, 277300, 239881870.4, 11559874, 5.357, true},
    {4, &resnet, 500, {419.820, 70.226, 7.524, 2.430}, 746.711, 1413072.4, 5284305, 7.891, false},
    {4, &tnlg, 500, {480.845, 16.777, 1.798, .580}, 153218, 349821852.6, 4379897, 7.603, true},
    {3, &gpt3, 1000, {971.969, 24.623, 3.408}, 1251510, 730624208.1, 17129384, 5.191, true},
    {3, &msft, 500, {463.919, 27.062, 9.019}, 252028, 247944871.7, 10164686, 4.503, false},
};

static void perf_per_cost_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof product_rows / sizeof *product_rows; i++) {
        const product_row *r = &product_rows[i];
        shoal_network *net = open_jobs(r->dims, r->load, 1, false);
        shoal_network_answer a = ask_total(net, SHOAL_NETWORK_PERF_PER_COST, r->total);
        for (int d = 0; d < r->dims; d++)
            assert_true(near(a.bandwidth[d], r->b[d], 1e-3));
        double printed = r->time * r->cost / 1e10;
        printed = r->rounded ? fmax(printed, r->objective * (1 + 4e-6)) : printed;
        assert_true(a.objective <= printed * (1 + 1e-6));
        assert_true(near(a.objective, r->objective, 5e-6));
        assert_true(fabs(a.equal_time_ns * a.equal_cost / (a.time_ns * a.cost) - r->gain) < 1e-3);
        shoal_network_close(net);
    }
}

/* ResNet-50 at 100 GB/s: there the cheapest good network is the fastest one, too. */
static void where_both_objectives_meet(void **state)
{
    (void)state;
    for (int dims = 3; dims <= 4; dims++) {
        shoal_network *net = open_jobs(dims, &resnet, 1, false);
        shoal_network_answer fast = ask_total(net, SHOAL_NETWORK_PERF, 100);
        shoal_network_answer both = ask_total(net, SHOAL_NETWORK_PERF_PER_COST, 100);
        assert_true(near(both.time_ns, fast.time_ns, 1e-8) && near(both.cost, fast.cost, 1e-8));
        shoal_network_close(net);
    }
}

/* Where all dimensions cost the same, a total says the cost, and the fastest is best; where only
 * one costs more, the best lies where ever less of it is ever steeper. */
static void products_at_the_least_cost(void **state)
{
    (void)state;
    shoal_network_job job = {gpt3.file, gpt3.groups, 1, NULL};
    shoal_network_desc desc = SHOAL_NETWORK_DESC_INIT;
    desc.jobs = &job;
    desc.job_count = 1;
    for (int last = 0; last < 2; last++) {
        shoal_network *net = NULL;
        desc.network = last ? "ring:16, ring:8, ring:16, fc:2" : "ring:16, ring:16, ring:16";
        desc.cost = last ? "2,2,2,4" : "2,2,2";
        assert_ok(shoal_network_open(&desc, &net));
        shoal_network_answer fast = ask_total(net, SHOAL_NETWORK_PERF, 500);
        shoal_network_answer both = ask_total(net, SHOAL_NETWORK_PERF_PER_COST, 500);
        assert_true(both.time_ns * both.cost <= fast.time_ns * fast.cost * (1 + 1e-12));
        assert_true(last || near(both.time_ns, fast.time_ns, 1e-12));
        shoal_network_close(net);
    }
}

/* Limits so loose that the optimum has a millionth of the bandwidth that the search begins with. */
static void optima_far_from_the_start(void **state)
{
    (void)state;
    shoal_network *net = open_jobs(4, &resnet, 1, false);
    for (double limit = 1e8; limit < 1e15; limit *= 10) {
        char text[32];
        snprintf(text, sizeof text, "time <= %g", limit);
        shoal_network_answer a = ask(net, SHOAL_NETWORK_COST, 2,
                                     (const char *const[]){text, "cost <= 1e7"});
        assert_true(near(a.time_ns, limit, 1e-9));
    }
    shoal_network_close(net);
}

static void libras_default_limits(void **state)
{
    (void)state;
    static const char *const limits[] = {"sum == 1000", "b0 == 500", "b0 >= b1", "b1 >= b2",
                                         "b2 + b3 == 200"};
    static const struct {
        const load *load;
        double b[4], time;
        bool unique;
    } rows[] = {{&gpt3, {500, 300, 151.181, 48.819}, 708438743.38, true},
                {&msft, {500, 300, 15.625, 184.375}, 194118475.73, true},
                {&resnet, {500, 300, 0, 0}, 1248331.47, false},
                {&tnlg, {500, 300, 0, 0}, 329757011.18, false}};
    for (size_t i = 0; i < 4; i++) {
        shoal_network *net = open_jobs(4, rows[i].load, 1, false);
        shoal_network_answer a = ask(net, SHOAL_NETWORK_PERF, 5, limits);
        assert_true(fabs(a.time_ns - rows[i].time) < 0.0051 + 1e-9 * rows[i].time);
        check_b(&a, rows[i].b, rows[i].unique ? 4 : 2, 6e-4);
        assert_true((a.high[2] - a.low[2] < 1e-6) == rows[i].unique);
        assert_true((a.high[3] - a.low[3] < 1e-6) == rows[i].unique);
        if (i == 0)
            assert_true(fabs(a.cost - 22966069.36) < 0.0051);
        shoal_network_close(net);
    }
}

static void groups_of_workloads(void **state)
{
    (void)state;
    const load three[] = {tnlg, gpt3, msft};
    static const double at500[] = {315.164, 91.923, 43.488, 49.425};
    shoal_network *net = open_jobs(4, three, 3, false);
    shoal_network_answer a = ask_total(net, SHOAL_NETWORK_PERF, 500);
    check_b(&a, at500, 4, 6e-4);
    assert_true(fabs(a.time_ns - 1271411336.2) < 1.4 && fabs(a.equal_time_ns - 1373106101.3) < 1.4);
    double sum = 0;
    for (uint32_t i = 0; i < 3; i++)
        sum += shoal_network_time(net, i, a.bandwidth);
    assert_true(near(sum, a.time_ns, 1e-13));
    a = ask_total(net, SHOAL_NETWORK_PERF, 1000);
    assert_true(fabs(a.time_ns - 1226501677.1) < 1.3);
    shoal_network_close(net);
}

static void overlap_of_both_gradients(void **state)
{
    (void)state;
    static const struct {
        const load *load;
        double total, b[4], time, equal;
    } rows[] = {{&gpt3, 100, {66.75, 16.69, 12.52, 4.04}, 792695944, 0},
                {&gpt3, 500, {333.77, 83.44, 62.58, 20.21}, 704353622, 727015503},
                {&msft, 100, {63.77, 18.60, 1.99, 15.63}, 323815820, 0},
                {&msft, 500, {306.19, 89.31, 9.57, 94.93}, 191999377, 228843201}};
    for (size_t i = 0; i < 4; i++) {
        shoal_network *net = open_jobs(4, rows[i].load, 1, true);
        shoal_network_answer a = ask_total(net, SHOAL_NETWORK_PERF, rows[i].total);
        check_b(&a, rows[i].b, 4, 0.05);
        assert_true(near(a.time_ns, rows[i].time, 1e-6));
        assert_true(rows[i].equal == 0 || near(a.equal_time_ns, rows[i].equal, 1e-6));
        shoal_network_close(net);
    }
}

static void budgets_instead_of_bandwidth(void **state)
{
    (void)state;
    static const struct {
        int dims;
        const load *load;
        double b[4], time;
    } rows[] = {{4, &msft, {403.317, 117.634, 12.604, 19.404}, 219565610.9},
                {3, &msft, {347.060, 20.245, 16.937}, 235060885.0},
                {4, &resnet, {630.705, 183.956, 19.710, 6.365}, 1216620.7},
                {3, &resnet, {519.810, 30.322, 4.196}, 1279296.6},
                {3, &gpt3, {430.628, 60.189, 8.330}, 729176213.6}};
    for (size_t i = 0; i < 5; i++) {
        shoal_network *net = open_jobs(rows[i].dims, rows[i].load, 1, false);
        shoal_network_answer a = ask(net, SHOAL_NETWORK_PERF, 1,
                                     (const char *const[]){"cost <= 1e7"});
        check_b(&a, rows[i].b, rows[i].dims, 6e-4);
        assert_true(fabs(a.time_ns - rows[i].time) < 0.0501 + 1e-9 * rows[i].time);
        assert_true(a.cost <= 1e7 * (1 + 1e-12));
        shoal_network_close(net);
    }
}

/* Least cost within a time, and least time within that cost, are the same network. */
static void cost_and_time_are_two_sides(void **state)
{
    (void)state;
    char budget[48];
    shoal_network *net = open_jobs(4, &msft, 1, false);
    shoal_network_answer cheap = ask(net, SHOAL_NETWORK_COST, 1,
                                     (const char *const[]){"time <= 2.5e8"});
    assert_true(cheap.time_ns <= 2.5e8 * (1 + 1e-12));
    snprintf(budget, sizeof budget, "cost <= %.17g", cheap.cost);
    shoal_network_answer fast = ask(net, SHOAL_NETWORK_PERF, 1, (const char *const[]){budget});
    assert_true(near(fast.time_ns, 2.5e8, 1e-10));
    assert_true(near(fast.bandwidth[3], cheap.bandwidth[3], 1e-5));
    shoal_network_close(net);
}

static void refuse(const shoal_network *net, shoal_network_objective objective, uint32_t count,
                   const char *const *limits, const char *text)
{
    shoal_network_question question = SHOAL_NETWORK_QUESTION_INIT;
    shoal_network_answer answer = {.size = sizeof answer};
    question.objective = objective;
    question.limits = limits;
    question.limit_count = count;
    assert_status(shoal_network_solve(net, &question, &answer), SHOAL_EINVAL);
    assert_error_has(text);
}

#define LIMITS(...)                                                                 \
    (sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), (const char *const[]) \
    {                                                                               \
        __VA_ARGS__                                                                 \
    }

static void questions_without_an_answer(void **state)
{
    (void)state;
    shoal_network *net = open_jobs(4, &msft, 1, false);
    refuse(net, SHOAL_NETWORK_PERF, LIMITS("sum == 100", "b0 >= 70", "b1 <= 5", "b3 >= 35"),
           "'sum == 100' and 'b0 >= 70' and 'b3 >= 35' at once");
    refuse(net, SHOAL_NETWORK_PERF, LIMITS("b0 <= 100"),
           "nothing ends the bandwidth of dimension 1");
    refuse(net, SHOAL_NETWORK_PERF, LIMITS("sum == 100", "time <= 3e8"), "'time <= 3e8'");
    refuse(net, SHOAL_NETWORK_PERF, LIMITS("sum == 100", "b2 == 0"),
           "meets 'b2 == 0': dimension 2");
    refuse(net, SHOAL_NETWORK_COST, LIMITS("sum <= 100"), "wants a limit such as 'time");
    refuse(net, SHOAL_NETWORK_COST, LIMITS("time <= 1.5e8"), "'time <= 1.5e8'");
    refuse(net, SHOAL_NETWORK_PERF_PER_COST, LIMITS("sum <= 100"), "time * cost has no minimum");
    refuse(net, SHOAL_NETWORK_PERF, LIMITS("b9 <= 100"), "expected a number");
    refuse(net, SHOAL_NETWORK_PERF, LIMITS("sum 100"), "expected <=, >= or ==");
    refuse(net, SHOAL_NETWORK_PERF, LIMITS("sum == 100 GB"), "expected");
    refuse(net, SHOAL_NETWORK_PERF, LIMITS("b0 == b0"), "limits nothing");
    refuse(net, SHOAL_NETWORK_PERF, LIMITS("time >= 5"), "time can only be limited from above");
    shoal_network_close(net);
}

/* A cost that is always paid makes time * cost well-posed without any other limit. */
static void a_fixed_cost_ends_the_product(void **state)
{
    (void)state;
    shoal_network_job job = {msft.file, msft.groups, 1, NULL};
    shoal_network_desc desc = SHOAL_NETWORK_DESC_INIT;
    shoal_network *net;
    desc.network = HERE "4d.yml";
    desc.cost = HERE "4d-cost.yml";
    desc.jobs = &job;
    desc.job_count = 1;
    desc.fixed_cost = 4e7;
    assert_ok(shoal_network_open(&desc, &net));
    shoal_network_answer a = ask(net, SHOAL_NETWORK_PERF_PER_COST, 0, NULL);
    for (double scale = 0.9; scale < 1.15; scale += 0.1) {
        double b[4];
        for (int d = 0; d < 4; d++)
            b[d] = scale * a.bandwidth[d];
        double other = shoal_network_time(net, 1, b) * shoal_network_cost(net, b) / 1e10;
        assert_true(other >= a.objective * (1 - 1e-12));
    }
    shoal_network_close(net);
}

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    shoal_network_job job = {gpt3.file, gpt3.groups, 1, NULL};
    shoal_network_desc desc = SHOAL_NETWORK_DESC_INIT;
    shoal_network_question question = SHOAL_NETWORK_QUESTION_INIT;
    shoal_network_answer answer = {.size = sizeof answer};
    desc.network = HERE "4d.yml";
    desc.cost = HERE "4d-cost.yml";
    desc.jobs = &job;
    desc.job_count = 1;
    question.limits = (const char *const[]){"sum == 500"};
    question.limit_count = 1;
    question.objective = SHOAL_NETWORK_PERF_PER_COST;
    shoal_status status = SHOAL_ENOMEM;
    size_t k = 0;
    while (status != SHOAL_OK) {
        shoal_network *net = NULL;
        (void)shoali_alloc_fail_at(++k);
        status = shoal_network_open(&desc, &net);
        if (status == SHOAL_OK)
            status = shoal_network_solve(net, &question, &answer);
        (void)shoali_alloc_fail_at(0);
        shoal_network_close(net);
        assert_true(status == SHOAL_OK || status == SHOAL_ENOMEM);
    }
    assert_true(k > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(perf_table),
                                       CHECK_TEST(perf_per_cost_table),
                                       CHECK_TEST(where_both_objectives_meet),
                                       CHECK_TEST(products_at_the_least_cost),
                                       CHECK_TEST(optima_far_from_the_start),
                                       CHECK_TEST(libras_default_limits),
                                       CHECK_TEST(groups_of_workloads),
                                       CHECK_TEST(overlap_of_both_gradients),
                                       CHECK_TEST(budgets_instead_of_bandwidth),
                                       CHECK_TEST(cost_and_time_are_two_sides),
                                       CHECK_TEST(questions_without_an_answer),
                                       CHECK_TEST(a_fixed_cost_ends_the_product),
                                       CHECK_TEST(every_failing_allocation_is_reported)};
    return CHECK_RUN(tests);
}
