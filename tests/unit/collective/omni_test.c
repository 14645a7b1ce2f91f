/* SPDX-License-Identifier: Apache-2.0 */
/* The two halves of OmniReduce by hand: the worked trace message by message, odd lengths, results
 * out of order, and bodies that cannot be. */
#include "collective/omni.h"

#include <math.h>

#include "support/check.h"

static shoal_arena *arena;

static int open_arena(void **state)
{
    (void)state;
    arena = shoali_arena_create(4096);
    return arena != NULL ? 0 : -1;
}

static int close_arena(void **state)
{
    (void)state;
    shoali_arena_destroy(arena);
    return 0;
}

/* Bodies hold at most 4 blocks of 4 here; as words, so that floats are aligned. */
typedef union body {
    float floats[64];
    uint8_t bytes[256];
} body;

static void lay_out(size_t count, uint32_t block, uint32_t fusion, uint32_t slots, uint32_t workers,
                    shoali_omni_layout *l)
{
    assert_ok(shoali_omni_lay_out(count, block, fusion, slots, workers, 1, l));
}

/* A contribution of one block: its value, and the next block of its column. */
static void says(const shoali_omni_layout *l, const body *b, float value, uint32_t next)
{
    assert_true(b->floats[0] == value);
    assert_int_equal(shoali_omni_word(l, b->bytes, 1, 0), next);
}

/* A result of one block. */
static void tells(const shoali_omni_layout *l, const body *b, uint32_t block, float value,
                  uint32_t asked)
{
    assert_int_equal(shoali_omni_word(l, b->bytes, 1, 0), block);
    assert_true(b->floats[0] == value);
    assert_int_equal(shoali_omni_word(l, b->bytes, 1, 1), asked);
}

static uint32_t answer(shoali_omni_worker *w, uint32_t slot, uint32_t round, const body *result,
                       body *reply)
{
    uint32_t k;
    bool flagged;
    assert_true(shoali_omni_worker_claim(w, slot, round));
    assert_ok(
        shoali_omni_worker_result(w, slot, round, result->bytes, 1, reply->bytes, &k, &flagged));
    assert_false(flagged);
    return k;
}

/* 2 workers, blocks of one element, 2 slots, no fusion; W0 has {1,4,6}, W1 {4,5}. */
typedef struct trace {
    shoali_omni_layout l;
    shoali_omni_worker w[2];
    shoali_omni_aggregator a;
    body from[2], out;
} trace;

static void first_row(trace *t, uint32_t slot)
{
    bool flagged;
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(shoali_omni_worker_first(&t->w[i], slot, t->from[i].bytes, &flagged), 1);
        assert_false(flagged);
    }
}

/* The contributions of `who` (bit i: worker i), the later rank first, end the round. */
static void aggregate(trace *t, uint32_t slot, uint32_t who)
{
    for (uint32_t i = 2; i-- > 0;) {
        assert_int_equal(shoali_omni_aggregator_owed(&t->a, slot, i), who >> i & 1);
        if ((who >> i & 1) != 0) {
            assert_false(shoali_omni_aggregator_ready(&t->a, slot));
            assert_ok(shoali_omni_aggregator_take(&t->a, slot, i, t->from[i].bytes, 1));
        }
    }
    assert_true(shoali_omni_aggregator_ready(&t->a, slot));
    assert_int_equal(shoali_omni_aggregator_sum(&t->a, slot, t->out.bytes), 1);
    for (uint32_t i = 0; i < 2; i++)
        (void)shoali_omni_aggregator_give_back(&t->a, slot, i);
}

/* Both take the result; who (bit i: worker i) answers. */
static void answers(trace *t, uint32_t slot, uint32_t round, uint32_t who)
{
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(answer(&t->w[i], slot, round, &t->out, &t->from[i]), who >> i & 1);
}

static void the_worked_trace(void **state)
{
    (void)state;
    float x0[8] = {0, 10, 0, 0, 40, 0, 60, 0}, x1[8] = {0, 0, 0, 0, 4, 5, 0, 0};
    const float sum[8] = {0, 10, 0, 0, 44, 5, 60, 0};
    trace t;
    lay_out(8, 1, 1, 2, 2, &t.l);
    assert_ok(shoali_omni_worker_init(&t.w[0], &t.l, x0, true, arena));
    assert_ok(shoali_omni_worker_init(&t.w[1], &t.l, x1, true, arena));
    assert_ok(shoali_omni_aggregator_init(&t.a, &t.l, 0, arena));
    const uint32_t end0 = shoali_omni_end(&t.l, 0), end1 = shoali_omni_end(&t.l, 1);
    first_row(&t, 0); /* slot 0: blocks 0, 2, 4, 6 */
    says(&t.l, &t.from[0], 0, 4);
    says(&t.l, &t.from[1], 0, 4);
    aggregate(&t, 0, 3);
    tells(&t.l, &t.out, 0, 0, 4);
    answers(&t, 0, 0, 3);
    says(&t.l, &t.from[0], 40, 6);
    says(&t.l, &t.from[1], 4, end0);
    aggregate(&t, 0, 3);
    tells(&t.l, &t.out, 4, 44, 6);
    answers(&t, 0, 1, 1); /* W1 is silent */
    says(&t.l, &t.from[0], 60, end0);
    aggregate(&t, 0, 1);
    tells(&t.l, &t.out, 6, 60, end0);
    answers(&t, 0, 2, 0);
    first_row(&t, 1); /* slot 1: blocks 1, 3, 5, 7 */
    says(&t.l, &t.from[0], 10, end1);
    says(&t.l, &t.from[1], 0, 5);
    aggregate(&t, 1, 3);
    tells(&t.l, &t.out, 1, 10, 5);
    answers(&t, 1, 0, 2);
    says(&t.l, &t.from[1], 5, end1);
    assert_int_equal(t.w[0].open + t.a.open, 2); /* slot 1, here and there */
    aggregate(&t, 1, 2);
    tells(&t.l, &t.out, 5, 5, end1);
    answers(&t, 1, 1, 0);
    assert_int_equal(t.w[0].open + t.w[1].open + t.a.open, 0);
    assert_memory_equal(x0, sum, sizeof sum);
    assert_memory_equal(x1, sum, sizeof sum);
}

/* -0 counts as zero and becomes zero; the smallest denormal and NaN do not. */
static void zero_is_by_value(void **state)
{
    (void)state;
    float x[6] = {1, -0.0f, 0x1p-149f, -0.0f, 0, 0}, y[2] = {1, -NAN};
    shoali_omni_layout l;
    shoali_omni_worker w;
    body out;
    bool flagged;
    lay_out(6, 1, 1, 1, 1, &l);
    assert_ok(shoali_omni_worker_init(&w, &l, x, true, arena));
    (void)shoali_omni_worker_first(&w, 0, out.bytes, &flagged);
    says(&l, &out, 1, 2);
    assert_false(flagged);
    assert_false(signbit(x[1]));
    lay_out(2, 1, 1, 1, 1, &l);
    assert_ok(shoali_omni_worker_init(&w, &l, y, true, arena));
    (void)shoali_omni_worker_first(&w, 0, out.bytes, &flagged);
    says(&l, &out, 1, 1);
}

/* 11 elements in blocks of 4, two columns in one slot: the last block is short, the second column
 * has one block only. */
static void a_short_tail_is_padded(void **state)
{
    (void)state;
    float x[11] = {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3};
    shoali_omni_layout l;
    shoali_omni_worker w;
    shoali_omni_aggregator a;
    body mine, out;
    uint32_t k;
    bool flagged;
    lay_out(11, 4, 2, 1, 1, &l);
    assert_int_equal(l.blocks, 3);
    assert_int_equal(shoali_omni_rows(&l, 0), 2);
    assert_ok(shoali_omni_worker_init(&w, &l, x, true, arena));
    assert_ok(shoali_omni_aggregator_init(&a, &l, 0, arena));
    assert_int_equal(shoali_omni_worker_first(&w, 0, mine.bytes, &flagged), 2);
    assert_ok(shoali_omni_aggregator_take(&a, 0, 0, mine.bytes, 2));
    assert_int_equal(shoali_omni_aggregator_sum(&a, 0, out.bytes), 2);
    assert_int_equal(shoali_omni_aggregator_blocks(&a, 0), 1);
    memset(mine.bytes, 0xff, sizeof mine.bytes);
    assert_ok(shoali_omni_worker_result(&w, 0, 0, out.bytes, 2, mine.bytes, &k, &flagged));
    assert_int_equal(k, 1);
    assert_true(mine.floats[2] == 3 && mine.floats[3] == 0);
    assert_int_equal(shoali_omni_word(&l, mine.bytes, 1, 0), shoali_omni_end(&l, 0));
}

/* Shares of dense input by a count of our own: element by element, to the shard of its slot. */
static void shares_are_all_there_is(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 5, 64, 97, 1000};
    enum { BLOCK = 3, FUSION = 2, SLOTS = 2, SHARDS = 3 };
    shoali_omni_layout l;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint64_t blocks[SHARDS] = {0}, rows[SHARDS] = {0};
        for (uint32_t j = 0; j < counts[i]; j++) {
            const uint32_t unit = j / BLOCK;
            blocks[unit % (FUSION * SLOTS * SHARDS) / FUSION % SHARDS]++;
            rows[unit % (SLOTS * SHARDS) % SHARDS] += j < counts[i] / BLOCK * BLOCK;
        }
        assert_ok(shoali_omni_lay_out(counts[i], BLOCK, FUSION, SLOTS, 2, SHARDS, &l));
        for (uint32_t a = 0; a < SHARDS; a++)
            assert_int_equal(shoali_omni_share(&l, a), blocks[a]);
        assert_ok(
            shoali_omni_lay_out_pairs(counts[i] / BLOCK * BLOCK, BLOCK, 12, SLOTS, 2, SHARDS, &l));
        for (uint32_t a = 0; a < SHARDS; a++)
            assert_int_equal(shoali_omni_share(&l, a), rows[a]);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    float x[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    shoali_omni_layout l;
    shoali_omni_worker w;
    shoali_omni_aggregator a;
    body b;
    uint32_t k;
    bool flagged;
    lay_out(8, 1, 2, 2, 2, &l); /* columns 0 .. 3, two rows */
    assert_ok(shoali_omni_worker_init(&w, &l, x, true, arena));
    assert_ok(shoali_omni_aggregator_init(&a, &l, 0, arena));
    static const uint32_t bad[] = {0, 5, 3, 8, 12, UINT32_MAX}; /* behind column 0 */
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)shoali_omni_worker_first(&w, 0, b.bytes, &flagged);
        shoali_omni_set_word(&l, b.bytes, 2, 0, bad[i]);
        assert_status(shoali_omni_aggregator_take(&a, 0, 0, b.bytes, 2), SHOAL_ECORRUPT);
    }
    static const uint32_t results[][2] = {{0, 1}, {1, 6}, {2, 6}, {9, 12}, {4, 4}, {4, 0}};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        shoali_omni_set_word(&l, b.bytes, 1, 0, results[i][0]);
        shoali_omni_set_word(&l, b.bytes, 1, 1, results[i][1]);
        assert_status(shoali_omni_worker_result(&w, 0, 0, b.bytes, 1, b.bytes + 128, &k, &flagged),
                      SHOAL_ECORRUPT);
    }
    assert_false(shoali_omni_worker_claim(&w, 2, 0));
    assert_false(shoali_omni_worker_claim(&w, 0, 2));
    assert_true(shoali_omni_worker_claim(&w, 0, 1));
    assert_false(shoali_omni_worker_claim(&w, 0, 1));
    shoali_omni_worker_unclaim(&w, 0, 1);
    assert_true(shoali_omni_worker_claim(&w, 0, 1));
    assert_status(shoali_omni_lay_out(SIZE_MAX, 1, 1, 1, 1, 1, &l), SHOAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_worked_trace),          CHECK_TEST(zero_is_by_value),
        CHECK_TEST(a_short_tail_is_padded),    CHECK_TEST(shares_are_all_there_is),
        CHECK_TEST(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
