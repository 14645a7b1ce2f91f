/* SPDX-License-Identifier: Apache-2.0 */
/* OmniReduce as a flow: sums, bits and counted bytes over a net that orders nothing, members that
 * vanish, values that are not finite, and its time on simulated links beside the model's. */
#include <math.h>

#include "base/arena.h"
#include "base/rng.h"
#include "shoal/sparse.h"
#include "support/check.h"
#include "support/simhost.h"
#include "wire/frame.h"

enum { MOST = 6 };

static const char *const specs[] = {
    "omnireduce:block=4,fusion=1,slots=1",  "omnireduce:block=4,fusion=2,slots=2",
    "omnireduce:block=3,fusion=4,slots=3",  "omnireduce:block=4,fusion=2,slots=2,arrival",
    "omnireduce:block=4,fusion=3,shards=1", "omnireduce:block=4,fusion=2,slots=2,dedicated",
};
enum { SPECS = sizeof specs / sizeof specs[0] };

/* A case with blocks that are zero, and which are not. */
typedef struct sparse_run {
    engine_run run;
    shoal_sparse_desc desc;
    uint8_t *nonzero; /* [workers][blocks] */
} sparse_run;

static void sparse_open(const char *spec, uint32_t workers, uint32_t servers, size_t count,
                        double density, uint64_t seed, float unit, sparse_run *s)
{
    const engine_case c = {.collective = spec,
                           .size = workers + servers,
                           .contributors = workers,
                           .count = count,
                           .tensors = 3,
                           .unit = unit,
                           .input_seed = seed,
                           .order_seed = seed};
    assert_true(engine_run_open(&c, &s->run));
    assert_ok(shoal_sparse_describe(spec, count, workers, workers + servers, &s->desc));
    s->desc.head_bytes = 0;
    const size_t block = s->desc.block, blocks = (count + block - 1) / block;
    s->nonzero = calloc(workers * blocks + 1, 1);
    assert_non_null(s->nonzero);
    for (uint32_t w = 0; w < workers; w++)
        for (size_t i = 0; i < count; i++) {
            const bool kept = (double)shoali_rng_below(seed, 500 + w, i / block, 1000) <
                              1000 * density;
            if (!kept) /* some of them negative zeros */
                s->run.inputs[w][i] = s->run.bufs[w][i] = i % 3 == 0 ? -0.0f : 0;
            s->nonzero[w * blocks + i / block] |= s->run.inputs[w][i] != 0;
        }
}

static void sparse_close(sparse_run *s)
{
    engine_run_close(&s->run);
    free(s->nonzero);
}

static uint32_t servers_of(const char *spec)
{
    return strstr(spec, "dedicated") != NULL ? 2 : 0;
}

/* What each member sent and received is what the model counts. */
static void assert_counted(const sparse_run *s)
{
    uint64_t sent[2 * MOST], received[2 * MOST];
    shoal_sparse_cost cost;
    assert_ok(shoal_sparse_count(&s->desc, s->nonzero, sent, received, &cost));
    for (uint32_t m = 0; m < s->run.c.size; m++) {
        const shoali_flow_stats *stats = &memnet_result_of(s->run.net, m)->stats;
        assert_int_equal(stats->sent_payload_bytes, sent[m]);
        assert_int_equal(stats->received_payload_bytes, received[m]);
    }
}

static void sums_and_bytes(void **state)
{
    (void)state;
    static const double densities[] = {0, 0.05, 0.3, 1};
    static const size_t counts[] = {0, 1, 7, 211, 600};
    for (size_t i = 0; i < SPECS; i++)
        for (uint32_t workers = 1; workers <= MOST; workers++)
            for (size_t k = 0; k < 20; k++) {
                sparse_run s;
                sparse_open(specs[i], workers, servers_of(specs[i]), counts[k / 4],
                            densities[k % 4], check_seed() + 100 * i + k, 1, &s);
                engine_run_go(&s.run);
                engine_run_assert_ok(&s.run);
                engine_run_assert_exact(&s.run);
                engine_run_assert_same(&s.run);
                assert_counted(&s);
                sparse_close(&s);
            }
}

/* Values whose float sums depend on the order: the same bits whatever overtakes what. */
static void sums_repeat_to_the_last_bit(void **state)
{
    (void)state;
    float first[500];
    for (uint64_t order = 0; order < 8; order++) {
        sparse_run s;
        sparse_open(specs[1], 5, 0, 500, 0.6, 7, 0.1f, &s);
        s.run.c.order_seed = check_seed() + order;
        memnet_destroy(s.run.net);
        s.run.net = memnet_create(5, s.run.c.order_seed);
        engine_run_go(&s.run);
        engine_run_assert_same(&s.run);
        if (order == 0)
            memcpy(first, s.run.bufs[0], sizeof first);
        for (size_t i = 0; i < 500; i++) { /* an independent sum in order of ranks */
            float sum = 0;
            for (uint32_t w = 0; w < 5; w++)
                sum += s.run.inputs[w][i];
            assert_true(s.run.bufs[0][i] == sum);
        }
        assert_memory_equal(first, s.run.bufs[0], sizeof first);
        sparse_close(&s);
    }
}

static void not_finite_is_known_to_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * SPECS; i++) {
        const char *spec = specs[i % SPECS];
        sparse_run s;
        sparse_open(spec, 4, servers_of(spec), 300, 0.2, check_seed() + i, 1, &s);
        const size_t at = 17 + 23 * i;
        s.run.bufs[2][at] = i % 2 == 0 ? NAN : -INFINITY;
        engine_run_go(&s.run);
        engine_run_assert_not_finite(&s.run, 2, at);
        sparse_close(&s);
    }
}

/* Workers and aggregators, at any moment: the others end with an error or had ended well. */
static void members_vanish(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 4, 0};
    size_t failed = 0;
    for (uint32_t round = 0; round < 120; round++) {
        const char *spec = specs[round % SPECS];
        sparse_run s;
        sparse_open(spec, 4, servers_of(spec), 200, 0.5, shoali_rng_next(&rng), 1, &s);
        failed += engine_run_lose(&s.run, shoali_rng_next(&rng) % 400, round % s.run.c.size);
        sparse_close(&s);
    }
    assert_true(failed > 60);
}

/* Frames that nobody should send are refused, and a result that cannot be ends the operation. */
static void hostile_frames(void **state)
{
    (void)state;
    sparse_run s;
    sparse_open(specs[1], 2, 0, 64, 1, 3, 1, &s);
    engine_run_start(&s.run);
    void *flow = memnet_state(s.run.net, 0);
    const shoali_flow_row *row = engine_run_row(&s.run);
    const shoal_data bad[] = {
        {.chunk = 99, .len_bytes = 40},              /* no such slot */
        {.chunk = 0, .len_bytes = 20},               /* owes two blocks */
        {.chunk = 0, .match = 1, .len_bytes = 40},   /* not this round */
        {.chunk = 0, .len_bytes = 40, .flags = 2},   /* unknown flag */
        {.chunk = 1, .len_bytes = 25},               /* no whole block */
        {.chunk = 1, .len_bytes = 0},                /* none at all */
        {.chunk = 1, .match = 100, .len_bytes = 24}, /* no such round */
        {.chunk = 1, .len_bytes = 24 * 3},           /* wider than the slot */
        {.chunk = 1, .len_bytes = 10, .flags = 1},   /* no room for the origin */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_null(row->place(flow, 1, &bad[i]));
    assert_null(row->place(flow, 0, &(shoal_data){.chunk = 0, .len_bytes = 40}));
    assert_null(row->place(flow, 2, &(shoal_data){.chunk = 0, .len_bytes = 40}));
    const shoal_data twice = {.chunk = 0, .len_bytes = 40};
    uint8_t *at = row->place(flow, 1, &twice);
    assert_non_null(at);
    assert_null(row->place(flow, 1, &twice));
    row->unplace(flow, 1, &twice, at);
    const shoal_data result = {.chunk = 1, .len_bytes = 24};
    at = row->place(flow, 1, &result);
    assert_non_null(at);
    assert_null(row->place(flow, 1, &result));
    memset(at, 0xff, 24);
    row->on_frames(flow, 1, &result, &at, 1);
    memnet_fail(s.run.net, 1, SHOAL_ECANCELLED);
    assert_true(memnet_run(s.run.net, SIZE_MAX, s.run.text, sizeof s.run.text));
    assert_int_equal(memnet_result_of(s.run.net, 0)->status, SHOAL_ECORRUPT);
    assert_non_null(strstr(memnet_result_of(s.run.net, 0)->why, "endpoint 43"));
    sparse_close(&s);
}

static void what_it_cannot_do_is_refused(void **state)
{
    (void)state;
    sparse_run s;
    uint64_t memory[256];
    const shoal_sink none = {0};
    sparse_open(specs[1], 2, 0, 64, 1, 3, 1, &s);
    const shoali_flow_row *row = engine_run_row(&s.run);
    shoali_flow_args args = engine_run_args(&s.run, 0);
    assert_true(row->state_size(&args) <= sizeof memory);
    args.reduce = SHOAL_MAX;
    assert_status(row->start(memory, &args, &none, 0), SHOAL_EINVAL);
    args = engine_run_args(&s.run, 0);
    args.owner_job = true;
    assert_status(row->start(memory, &args, &none, 0), SHOAL_EINVAL);
    args = engine_run_args(&s.run, 0);
    args.contributors = 1;
    assert_status(row->start(memory, &args, &none, 0), SHOAL_EINVAL);
    assert_error_has("dedicated");
    sparse_close(&s);
}

/* Each table of many slots is a block of its own: whichever there is no memory for, nothing is left
 * of the others. */
static void memory_runs_out(void **state)
{
    (void)state;
    sparse_run s;
    uint64_t memory[256];
    const shoal_sink none = {0};
    sparse_open("omnireduce:block=4,fusion=1,slots=4096", 4, 0, 1 << 16, 1, 3, 1, &s);
    const shoali_flow_row *row = engine_run_row(&s.run);
    shoali_flow_args args = engine_run_args(&s.run, 0);
    assert_true(row->state_size(&args) <= sizeof memory);
    for (size_t k = 1;; k++) {
        (void)shoali_alloc_fail_at(k);
        const shoal_status status = row->start(memory, &args, &none, 0);
        (void)shoali_alloc_fail_at(0);
        if (status == SHOAL_OK) {
            assert_true(k > 4);
            break;
        }
        assert_int_equal(status, SHOAL_ENOMEM);
    }
    row->fini(memory);
    sparse_close(&s);
}

/* On links of 100 Mbit/s: not faster than the bytes that the busiest link has to carry, and not
 * much slower. */
static void time_is_near_the_ceiling(void **state)
{
    (void)state;
    static const shoali_fabric_desc links = {.rate_bps = 100000000, .latency_ns = 100000};
    static const double densities[] = {1, 0.4, 0.1, 0.01};
    static const char *const timed[] = {"omnireduce", "omnireduce:dedicated"};
    for (size_t i = 0; i < 8; i++) {
        const uint32_t servers = i < 4 ? 0 : 4;
        shoal_sparse_cost cost;
        sparse_run s;
        sparse_open(timed[i / 4], 4, servers, 1 << 19, densities[i % 4], check_seed(), 1, &s);
        s.desc.head_bytes = SHOALI_FRAME_BYTES;
        assert_ok(shoal_sparse_count(&s.desc, s.nonzero, NULL, NULL, &cost));
        simhost *host = simhost_start(&s.run, &links);
        const double took_ns = (double)simhost_run(host), ceiling_ns = cost.busiest_bytes * 80;
        for (uint32_t m = 0; m < s.run.c.size; m++)
            assert_int_equal(simhost_result_of(host, m)->status, SHOAL_OK);
        simhost_destroy(host);
        engine_run_assert_exact(&s.run);
        print_message("%s, density %g: %.2f of the ceiling\n", timed[i / 4], densities[i % 4],
                      took_ns / ceiling_ns);
        assert_true(took_ns >= ceiling_ns);
        assert_true(took_ns <= 1.3 * ceiling_ns + 3e6);
        sparse_close(&s);
    }
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(sums_and_bytes),
    CHECK_TEST(sums_repeat_to_the_last_bit),
    CHECK_TEST(not_finite_is_known_to_all),
    CHECK_TEST(members_vanish),
    CHECK_TEST(hostile_frames),
    CHECK_TEST(what_it_cannot_do_is_refused),
    CHECK_TEST(memory_runs_out),
    CHECK_TEST(time_is_near_the_ceiling),
};

int main(void)
{
    return CHECK_RUN(tests);
}
