/* SPDX-License-Identifier: Apache-2.0 */
/* Key-value input: the worked picture by hand, sums against a plain loop over dense buffers and
 * against the form of blocks, bytes, lists and frames that cannot be, members that vanish. */
#include <math.h>

#include "base/arena.h"
#include "base/rng.h"
#include "collective/omni_form.h"
#include "support/check.h"
#include "support/simhost.h"

enum { MOST = 6 };

static const char *const specs[] = {
    "omnireduce:block=6,fusion=1,slots=1,input=coo,row=3",
    "omnireduce:block=6,fusion=2,slots=2,input=coo,row=3",
    "omnireduce:block=1,fusion=1,slots=3,input=coo,row=3",
    "omnireduce:block=6,fusion=2,shards=1,input=coo,row=3",
    "omnireduce:block=6,fusion=2,slots=2,input=coo,row=3,dedicated",
    "omnireduce:block=64,fusion=64,slots=5,input=coo,row=3",
};
enum { SPECS = sizeof specs / sizeof specs[0], ROW = 3 };

/* Members' lists; outside of its list a member's buffer is zero. */
typedef struct pairs_run {
    engine_run run;
    uint32_t *rows[MOST + 2];
    const uint32_t *lists[MOST + 2];
    size_t row_count[MOST + 2];
} pairs_run;

static void pairs_open(const char *spec, uint32_t workers, size_t rows, uint32_t kept,
                       uint64_t seed, float unit, pairs_run *p)
{
    const uint32_t servers = strstr(spec, "dedicated") != NULL ? 2 : 0;
    const engine_case c = {.collective = spec,
                           .size = workers + servers,
                           .contributors = workers,
                           .count = rows * ROW,
                           .unit = unit,
                           .input_seed = seed,
                           .order_seed = seed};
    memset(p, 0, sizeof *p);
    assert_true(engine_run_open(&c, &p->run));
    p->run.rows = p->lists;
    p->run.row_counts = p->row_count;
    for (uint32_t w = 0; w < workers; w++) {
        p->lists[w] = p->rows[w] = calloc(rows + 1, sizeof **p->rows);
        assert_non_null(p->rows[w]);
        for (uint32_t i = 0; i < rows; i++)
            if (shoali_rng_below(seed, 700 + w, i, 1000) < kept)
                p->rows[w][p->row_count[w]++] = i;
            else
                for (size_t k = 0; k < ROW; k++)
                    p->run.inputs[w][i * ROW + k] = p->run.bufs[w][i * ROW + k] = 0;
    }
}

static void pairs_close(pairs_run *p)
{
    engine_run_close(&p->run);
    for (uint32_t w = 0; w < MOST; w++)
        free(p->rows[w]);
}

/* A loop over dense buffers in order of ranks, bit for bit. */
static void assert_sums(const pairs_run *p)
{
    for (size_t i = 0; i < p->run.c.count; i++) {
        float sum = 0;
        for (uint32_t w = 0; w < p->run.c.contributors; w++)
            sum += p->run.inputs[w][i];
        for (uint32_t w = 0; w < p->run.c.contributors; w++)
            if (memcmp(&p->run.bufs[w][i], &sum, sizeof sum) != 0)
                fail_msg("%s: element %zu of worker %u is %g, not %g", engine_run_name(&p->run), i,
                         w, (double)p->run.bufs[w][i], (double)sum);
    }
}

static void sums_are_those_of_a_plain_loop(void **state)
{
    (void)state;
    static const size_t rows[] = {0, 1, 5, 97, 300};
    static const uint32_t kept[] = {0, 30, 300, 1000};
    for (size_t i = 0; i < SPECS; i++)
        for (uint32_t workers = 1; workers <= MOST; workers++)
            for (size_t k = 0; k < 20; k++) {
                pairs_run p;
                pairs_open(specs[i], workers, rows[k / 4], kept[k % 4], check_seed() + 100 * i + k,
                           0.1f, &p);
                engine_run_go(&p.run);
                engine_run_assert_ok(&p.run);
                assert_sums(&p);
                pairs_close(&p);
            }
}

/* Negative zeros, and rows that all bring and that cancel out. */
static void zeros_are_those_of_a_plain_loop(void **state)
{
    (void)state;
    pairs_run p;
    pairs_open(specs[1], 3, 40, 1000, 5, 1, &p);
    for (size_t i = 0; i < 40 * ROW; i++)
        for (uint32_t w = 0; w < 3; w++)
            p.run.inputs[w][i] = p.run.bufs[w][i] = i % 2 == 0 ? -0.0f
                                                    : w == 0   ? 1.5f
                                                    : w == 1   ? -1.5f
                                                               : 0;
    engine_run_go(&p.run);
    engine_run_assert_ok(&p.run);
    assert_sums(&p);
    pairs_close(&p);
}

/* The same gradients by both forms: the same bits, and fewer bytes than whole blocks take. */
static void the_form_of_blocks_gives_the_same_bits(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        pairs_run p, b;
        pairs_open(specs[1], 5, 400, 50, check_seed() + seed, 0.1f, &p);
        pairs_open("omnireduce:block=96,fusion=2,slots=2", 5, 400, 50, check_seed() + seed, 0.1f,
                   &b);
        engine_run_go(&p.run);
        engine_run_go(&b.run);
        engine_run_assert_ok(&p.run);
        engine_run_assert_ok(&b.run);
        for (uint32_t w = 0; w < 5; w++) {
            assert_memory_equal(p.run.bufs[w], b.run.bufs[w], 400 * ROW * sizeof(float));
            assert_true(memnet_result_of(p.run.net, w)->stats.sent_payload_bytes <
                        memnet_result_of(b.run.net, w)->stats.sent_payload_bytes / 2);
        }
        pairs_close(&p);
        pairs_close(&b);
    }
}

/* One aggregator beside the workers, everything in one message each way: bytes by hand. */
static void bytes_are_those_of_the_rows(void **state)
{
    (void)state;
    pairs_run p;
    size_t together = 0;
    pairs_open("omnireduce:block=512,fusion=4,slots=1,input=coo,row=3,dedicated", 3, 200, 100, 9, 1,
               &p);
    for (uint32_t i = 0; i < 200; i++) {
        bool any = false;
        for (uint32_t w = 0; w < 3; w++)
            for (size_t k = 0; k < p.row_count[w]; k++)
                any |= p.rows[w][k] == i;
        together += any;
    }
    engine_run_go(&p.run);
    for (uint32_t w = 0; w < 3; w++) { /* two shards: a last word in each */
        const shoali_flow_stats *stats = &memnet_result_of(p.run.net, w)->stats;
        assert_int_equal(stats->sent_payload_bytes, p.row_count[w] * (ROW + 1) * 4 + 2 * 4);
        assert_int_equal(stats->received_payload_bytes, together * (ROW + 1) * 4 + 2 * 4);
    }
    pairs_close(&p);
}

static void not_finite_is_known_to_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < SPECS; i++) {
        pairs_run p;
        pairs_open(specs[i], 4, 100, 200, check_seed() + i, 1, &p);
        assert_true(p.row_count[2] > 3);
        const size_t at = (size_t)p.rows[2][p.row_count[2] / 2] * ROW + 1;
        p.run.bufs[2][at] = i % 2 == 0 ? NAN : -INFINITY;
        engine_run_go(&p.run);
        engine_run_assert_not_finite(&p.run, 2, at);
        pairs_close(&p);
    }
}

static void members_vanish(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 4, 0};
    size_t failed = 0;
    for (uint32_t round = 0; round < 100; round++) {
        pairs_run p;
        pairs_open(specs[round % SPECS], 4, 80, 500, shoali_rng_next(&rng), 1, &p);
        failed += engine_run_lose(&p.run, shoali_rng_next(&rng) % 200, round % p.run.c.size);
        pairs_close(&p);
    }
    assert_true(failed > 50);
}

/* Lists that do not ascend or point behind the buffer; none at all; sums in order of arrival. */
static void lists_that_cannot_be_are_refused(void **state)
{
    (void)state;
    uint64_t memory[256];
    const shoal_sink none = {0};
    static const uint32_t bad[][3] = {{1, 1, 2}, {2, 1, 3}, {0, 1, 40}, {0, 1, UINT32_MAX}};
    pairs_run p;
    pairs_open(specs[1], 2, 40, 500, 3, 1, &p);
    const shoali_flow_row *row = engine_run_row(&p.run);
    shoali_flow_args args = engine_run_args(&p.run, 0);
    assert_true(row->state_size(&args) <= sizeof memory);
    args.row_count = 3;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        args.rows = bad[i];
        assert_status(row->start(memory, &args, &none, 0), SHOAL_EINVAL);
        assert_error_has("of the list");
    }
    args.rows = NULL;
    assert_status(row->start(memory, &args, &none, 0), SHOAL_EINVAL);
    args = engine_run_args(&p.run, 0);
    args.count--;
    assert_status(row->start(memory, &args, &none, 0), SHOAL_EINVAL);
    assert_error_has("no rows of 3");
    pairs_close(&p);
    pairs_open("omnireduce:input=coo,row=3,arrival", 2, 40, 500, 3, 1, &p);
    args = engine_run_args(&p.run, 0);
    assert_status(row->start(memory, &args, &none, 0), SHOAL_EINVAL);
    pairs_close(&p);
}

/* ------------------------------------------------------------------ by hand */

/* Bodies hold at most 12 rows of one element here; as words, so that floats are aligned. */
typedef union body {
    float floats[32];
    uint8_t bytes[128];
} body;

typedef struct hand {
    shoal_arena *arena;
    shoali_omni_layout l;
    shoali_omni_worker w[2];
    shoali_omni_aggregator a;
    body from[2], out;
    float x[2][8];
} hand;

static void hand_open(hand *h)
{
    static const uint32_t rows0[] = {1, 4, 6}, rows1[] = {4};
    *h = (hand){.arena = shoali_arena_create(4096),
                .x = {{0, 10, 0, 0, 40, 0, 60, 0}, {0, 0, 0, 0, 4, 0, 0, 0}}};
    assert_non_null(h->arena);
    assert_ok(shoali_omni_lay_out_pairs(8, 1, 2, 1, 2, 1, &h->l));
    assert_ok(shoali_omni_pairs_worker_init(&h->w[0], &h->l, h->x[0], rows0, 3, true, h->arena));
    assert_ok(shoali_omni_pairs_worker_init(&h->w[1], &h->l, h->x[1], rows1, 1, true, h->arena));
    assert_ok(shoali_omni_pairs_aggregator_init(&h->a, &h->l, 0, h->arena));
}

/* k rows of one element, then their keys and what comes next. */
static void says(const hand *h, const body *b, uint32_t k, const float *values,
                 const uint32_t *words)
{
    for (uint32_t i = 0; i < k; i++)
        assert_true(b->floats[i] == values[i]);
    for (uint32_t i = 0; i <= k; i++)
        assert_int_equal(shoali_omni_word(&h->l, b->bytes, k, i), words[i]);
}

static void the_picture(void **state)
{
    (void)state;
    const shoali_omni_form *form = &shoali_omni_pairs;
    const uint32_t none = SHOALI_OMNI_NO_KEY;
    hand h;
    bool flagged;
    uint32_t k;
    hand_open(&h);
    assert_int_equal(form->first(&h.w[0], 0, h.from[0].bytes, &flagged), 2);
    assert_int_equal(form->first(&h.w[1], 0, h.from[1].bytes, &flagged), 1);
    says(&h, &h.from[0], 2, (float[]){10, 40}, (uint32_t[]){1, 4, 6});
    says(&h, &h.from[1], 1, (float[]){4}, (uint32_t[]){4, none});
    assert_int_equal(form->owed_units(&h.a, 0, 0, 20), 2);
    assert_ok(form->take(&h.a, 0, 1, h.from[1].bytes, 1));
    assert_false(shoali_omni_aggregator_ready(&h.a, 0));
    assert_ok(form->take(&h.a, 0, 0, h.from[0].bytes, 2));
    assert_true(shoali_omni_aggregator_ready(&h.a, 0));
    assert_int_equal(form->sum(&h.a, 0, h.out.bytes), 2);
    says(&h, &h.out, 2, (float[]){10, 44}, (uint32_t[]){1, 4, 6});
    assert_non_null(form->give_back(&h.a, 0, 0));
    assert_non_null(form->give_back(&h.a, 0, 1));
    assert_ok(form->result(&h.w[0], 0, 0, h.out.bytes, 2, h.from[0].bytes, &k, &flagged));
    assert_int_equal(k, 1);
    assert_ok(form->result(&h.w[1], 0, 0, h.out.bytes, 2, h.from[1].bytes, &k, &flagged));
    assert_int_equal(k, 0); /* silent */
    assert_true(form->owes(&h.a, 0, 0) && !form->owes(&h.a, 0, 1));
    assert_ok(form->take(&h.a, 0, 0, h.from[0].bytes, 1));
    assert_int_equal(form->sum(&h.a, 0, h.out.bytes), 1);
    says(&h, &h.out, 1, (float[]){60}, (uint32_t[]){6, none});
    assert_int_equal(h.a.open, 0);
    for (uint32_t w = 0; w < 2; w++) {
        assert_ok(form->result(&h.w[w], 0, 1, h.out.bytes, 1, h.from[w].bytes, &k, &flagged));
        assert_int_equal(h.w[w].open, 0);
        assert_memory_equal(h.x[w], ((float[]){0, 10, 0, 0, 44, 0, 60, 0}), sizeof h.x[w]);
    }
    shoali_arena_destroy(h.arena);
}

static void put_words(const hand *h, body *b, uint32_t k, const uint32_t *words)
{
    for (uint32_t i = 0; i <= k; i++)
        shoali_omni_set_word(&h->l, b->bytes, k, i, words[i]);
}

/* Unsorted, double and impossible keys, rows that were not asked for, and bodies cut off. */
static void bodies_that_cannot_be_are_refused(void **state)
{
    (void)state;
    const shoali_omni_form *form = &shoali_omni_pairs;
    const uint32_t none = SHOALI_OMNI_NO_KEY;
    static const uint32_t bad[][3] = {{4, 1, 6},
                                      {4, 4, 6},
                                      {1, 4, 4},
                                      {1, 4, 2},
                                      {1, 8, UINT32_MAX},
                                      {1, 4, 8},
                                      {1, UINT32_MAX, UINT32_MAX}};
    hand h;
    uint32_t k;
    bool flagged;
    hand_open(&h);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put_words(&h, &h.from[0], 2, bad[i]);
        assert_status(form->take(&h.a, 0, 0, h.from[0].bytes, 2), SHOAL_ECORRUPT);
        assert_status(form->result(&h.w[0], 0, 0, h.from[0].bytes, 2, h.out.bytes, &k, &flagged),
                      SHOAL_ECORRUPT);
    }
    put_words(&h, &h.from[0], 0, (uint32_t[]){3}); /* nothing now, but something later */
    assert_status(form->take(&h.a, 0, 0, h.from[0].bytes, 0), SHOAL_ECORRUPT);
    put_words(&h, &h.from[0], 1, (uint32_t[]){1, 2}); /* a result beyond what worker 0 has sent */
    assert_status(form->result(&h.w[0], 0, 0, h.from[0].bytes, 1, h.out.bytes, &k, &flagged),
                  SHOAL_ECORRUPT);
    static const size_t lengths[] = {0, 3, 5, 8, 11, 16, 44, SIZE_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        assert_int_equal(form->owed_units(&h.a, 0, 0, lengths[i]), SHOALI_OMNI_NONE);
        assert_int_equal(form->result_units(&h.l, 0, lengths[i]), SHOALI_OMNI_NONE);
    }
    assert_int_equal(form->first(&h.w[0], 0, h.from[0].bytes, &flagged), 2);
    assert_int_equal(form->first(&h.w[1], 0, h.from[1].bytes, &flagged), 1);
    assert_ok(form->take(&h.a, 0, 0, h.from[0].bytes, 2));
    assert_ok(form->take(&h.a, 0, 1, h.from[1].bytes, 1));
    assert_int_equal(form->owed_units(&h.a, 0, 0, 20), SHOALI_OMNI_NONE); /* it has come */
    (void)form->sum(&h.a, 0, h.out.bytes);
    assert_int_equal(form->owed_units(&h.a, 0, 0, 4), SHOALI_OMNI_NONE); /* 6 was asked for */
    put_words(&h, &h.from[0], 1, (uint32_t[]){7, none});
    assert_status(form->take(&h.a, 0, 0, h.from[0].bytes, 1), SHOAL_ECORRUPT);
    assert_status(shoali_omni_lay_out_pairs(SIZE_MAX, 1, 1, 1, 1, 1, &h.l), SHOAL_EINVAL);
    assert_status(shoali_omni_lay_out_pairs(1u << 30, 1u << 20, 1, 1, 1000, 1, &h.l), SHOAL_EINVAL);
    shoali_arena_destroy(h.arena);
}

/* On links of 100 Mbit/s, a table of which 1 % is touched: less time than blocks take. */
static void it_takes_less_time_than_blocks(void **state)
{
    (void)state;
    static const shoali_fabric_desc links = {.rate_bps = 100000000, .latency_ns = 100000};
    static const char *const both[] = {"omnireduce:input=coo,row=3", "omnireduce"};
    uint64_t took_ns[2];
    for (size_t i = 0; i < 2; i++) {
        pairs_run p;
        pairs_open(both[i], 4, 100000, 10, 17, 1, &p);
        simhost *host = simhost_start(&p.run, &links);
        took_ns[i] = simhost_run(host);
        for (uint32_t m = 0; m < 4; m++)
            assert_int_equal(simhost_result_of(host, m)->status, SHOAL_OK);
        simhost_destroy(host);
        assert_sums(&p);
        pairs_close(&p);
    }
    print_message("rows %.2f ms, blocks %.2f ms\n", 1e-6 * (double)took_ns[0],
                  1e-6 * (double)took_ns[1]);
    assert_true(took_ns[0] < took_ns[1] / 4);
}

/* Whichever table of an aggregator there is no memory for, it says so: numbers of workers move the
 * tables across the arena's blocks. */
static void memory_of_an_aggregator_runs_out(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 40; workers++) {
        shoali_omni_layout layout;
        assert_ok(shoali_omni_lay_out_pairs(4096, 1, 2, 4, workers, 1, &layout));
        shoal_status status = SHOAL_ENOMEM;
        for (size_t k = 1; status != SHOAL_OK; k++) {
            shoali_omni_aggregator a;
            shoal_arena *arena = shoali_arena_create(64);
            assert_non_null(arena);
            (void)shoali_alloc_fail_at(k);
            status = shoali_omni_pairs_aggregator_init(&a, &layout, 0, arena);
            const bool failed = shoali_alloc_fail_at(0) >= k;
            assert_int_equal(status, failed ? SHOAL_ENOMEM : SHOAL_OK);
            shoali_arena_destroy(arena);
        }
    }
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(sums_are_those_of_a_plain_loop),
    CHECK_TEST(zeros_are_those_of_a_plain_loop),
    CHECK_TEST(the_form_of_blocks_gives_the_same_bits),
    CHECK_TEST(bytes_are_those_of_the_rows),
    CHECK_TEST(not_finite_is_known_to_all),
    CHECK_TEST(members_vanish),
    CHECK_TEST(lists_that_cannot_be_are_refused),
    CHECK_TEST(memory_of_an_aggregator_runs_out),
    CHECK_TEST(the_picture),
    CHECK_TEST(bodies_that_cannot_be_are_refused),
    CHECK_TEST(it_takes_less_time_than_blocks),
};

int main(void)
{
    return CHECK_RUN(tests);
}
