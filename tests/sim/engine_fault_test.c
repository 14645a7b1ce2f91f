/* SPDX-License-Identifier: Apache-2.0 */
/* Members that vanish, and memory that runs out, at every moment: every other member's operation
 * ends, with a reason, with nothing in others' hands and no buffer lost, and the next one works. */
#include "base/arena.h"
#include "base/rng.h"
#include "support/check.h"
#include "support/enginecase.h"
#include "support/toycodec.h"

static bool one_of(shoal_status status, shoal_status a, shoal_status b)
{
    return status == a || status == b;
}

static void assert_no_residuals(const engine_run *run, uint32_t m)
{
    for (uint32_t t = 0; t < run->c.tensors; t++)
        for (size_t i = 0; i < run->tensors[t].count; i++)
            assert_true(run->residuals[m][t][i] == 0);
}

/* After `events` events a member vanishes. */
static void kill_one(const engine_case *c, size_t events, uint32_t victim, size_t *failed_out)
{
    engine_run run;
    if (!engine_run_open(c, &run))
        return;
    *failed_out += engine_run_lose(&run, events, victim);
    for (uint32_t m = 0; m < c->size; m++)
        if (!memnet_result_of(run.net, m)->dead &&
            memnet_result_of(run.net, m)->status == SHOAL_EPEER)
            assert_no_residuals(&run, m);
    engine_run_again(&run, 9, 9);
    engine_run_assert_ok(&run);
    engine_run_assert_same(&run);
    engine_run_close(&run);
}

static void members_vanish(void **state)
{
    (void)state;
    const char *spec;
    shoal_codec *toy = toy_codec_open("toy:random,ef");
    shoali_rng rng = {check_seed(), 3, 0};
    size_t failed = 0;
    for (size_t i = 0; (spec = engine_spec_at(i)) != NULL; i++)
        for (int round = 0; round < 40; round++) {
            uint32_t servers = engine_spec_servers(spec), size = 2 + (uint32_t)round % 5 + servers;
            engine_case c = {.collective = spec,
                             .kind = engine_spec_rooted(spec) ? SHOAL_BROADCAST : SHOAL_ALL_REDUCE,
                             .push_codec = round % 2 == 0 ? toy : NULL,
                             .pull_codec = round % 2 == 0 ? toy : NULL,
                             .size = size,
                             .contributors = size - servers,
                             .count = 300,
                             .chunk_elems = 16,
                             .feedback = true,
                             .order_seed = shoali_rng_next(&rng)};
            kill_one(&c, shoali_rng_next(&rng) % 600, (uint32_t)shoali_rng_next(&rng) % size,
                     &failed);
        }
    assert_true(failed > 100);
    shoal_codec_close(toy);
}

/* The k-th allocation fails; a member that cannot start is as good as dead to the others. */
static bool starve(const engine_case *c, size_t k)
{
    engine_run run;
    size_t failed = 0;
    assert_true(engine_run_open(c, &run));
    (void)shoali_alloc_fail_at(k);
    for (uint32_t m = 0; m < c->size; m++) {
        shoali_flow_args args = engine_run_args(&run, m);
        shoal_status status = memnet_start(run.net, &shoali_engine, &args);
        assert_true(one_of(status, SHOAL_OK, SHOAL_ENOMEM));
        if (status != SHOAL_OK)
            memnet_kill(run.net, m);
    }
    for (uint32_t m = 0; m < c->size; m++)
        if (memnet_result_of(run.net, m)->dead)
            memnet_kill(run.net, m); /* tells those that started later, too */
    if (!memnet_run(run.net, SIZE_MAX, run.text, sizeof run.text)) {
        print_error("stuck after allocation %zu failed: %s\n", k, run.text);
        fail();
    }
    (void)shoali_alloc_fail_at(0);
    for (uint32_t m = 0; m < c->size; m++) {
        const memnet_result *r = memnet_result_of(run.net, m);
        failed += r->status != SHOAL_OK;
        assert_true(r->dead || one_of(r->status, SHOAL_OK, SHOAL_ENOMEM) ||
                    r->status == SHOAL_EPEER);
    }
    engine_run_close(&run);
    return failed > 0;
}

static void memory_runs_out(void **state)
{
    (void)state;
    shoal_codec *toy = toy_codec_open("toy:ef"), *slots = toy_codec_open("toy:slots,ef");
    static const char *const specs[] = {"ring", "gather", "worker_aggregator:servers=2,dedicated"};
    for (size_t i = 0; i < 3; i++) {
        engine_case c = {.collective = specs[i],
                         .push_codec = i == 1 ? slots : toy,
                         .pull_codec = i == 1 ? slots : toy,
                         .size = 5,
                         .contributors = i == 2 ? 3 : 5,
                         .count = 300,
                         .chunk_elems = 20,
                         .feedback = true,
                         .order_seed = check_seed()};
        size_t k = 1;
        while (starve(&c, k))
            k++;
        assert_true(k > 2 * c.size); /* state and arena of each, and the pool */
    }
    shoal_codec_close(toy);
    shoal_codec_close(slots);
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(members_vanish),
    CHECK_TEST(memory_runs_out),
};

int main(void)
{
    return CHECK_RUN(tests);
}
