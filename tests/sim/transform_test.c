/* SPDX-License-Identifier: Apache-2.0 */
/* The transform hook: a toy row of two rounds, each an ordinary identity operation of the engine,
 * driven as a comm does it. */
#include <math.h>

#include "base/rng.h"
#include "support/check.h"
#include "support/enginecase.h"
#include "support/toytransform.h"

enum { MEMBERS = 4, COUNT = 6 * 5 + 1 * 7 + 9 * 3 };

static const shoal_tensor table[] = {
    {.key = 11, .offset = 0, .count = 30, .rows = 6, .cols = 5},
    {.key = 12, .offset = 30, .count = 7, .rows = 1, .cols = 7},
    {.key = 13, .offset = 37, .count = 27, .rows = 9, .cols = 3},
};

/* Sum one round's buffers in place, by the engine. */
static void exchange(const shoal_round *rounds, uint32_t index)
{
    engine_run run;
    engine_case c = {.collective = rounds[0].slots ? "gather" : "ring",
                     .size = MEMBERS,
                     .count = rounds[0].count,
                     .chunk_elems = 8,
                     .sequence = index,
                     .order_seed = check_seed() + index};
    assert_true(engine_run_open(&c, &run));
    for (uint32_t m = 0; m < MEMBERS; m++) {
        assert_int_equal(rounds[m].count, c.count);
        memcpy(run.bufs[m], rounds[m].buf, c.count * sizeof(float));
    }
    engine_run_go(&run);
    engine_run_assert_ok(&run);
    for (uint32_t m = 0; m < MEMBERS; m++)
        memcpy(rounds[m].buf, run.bufs[m], c.count * sizeof(float));
    engine_run_close(&run);
}

/* Returns how many rounds moved something. */
static uint32_t transform(const shoal_codec *codec, void *const *states, float grads[][COUNT])
{
    shoal_round rounds[MEMBERS] = {{.last = false}};
    uint32_t moved = 0;
    for (uint32_t index = 0; !rounds[0].last; index++) {
        assert_true(index < 8);
        for (uint32_t m = 0; m < MEMBERS; m++)
            assert_ok(codec->row->next_round(codec->params, states[m], table, 3, index, grads[m],
                                             &rounds[m]));
        if (rounds[0].count > 0) {
            exchange(rounds, index);
            moved++;
        }
    }
    return moved;
}

static void open_states(const shoal_codec *codec, void **states)
{
    for (uint32_t m = 0; m < MEMBERS; m++) {
        states[m] = calloc(1, codec->row->state_size(codec->params, table, 3));
        assert_non_null(states[m]);
    }
}

static void close_states(void **states)
{
    for (uint32_t m = 0; m < MEMBERS; m++)
        free(states[m]);
}

/* Matrices that are multiples of one product of two vectors: nothing is lost. */
static void rank_one_is_exact(void **state)
{
    (void)state;
    static float grads[MEMBERS][COUNT];
    void *states[MEMBERS];
    shoal_codec *codec = NULL;
    double sum[COUNT] = {0};
    assert_ok(shoali_codec_open_row(&toy_transform_row, "toy_transform", &codec));
    open_states(codec, states);
    for (uint32_t m = 0; m < MEMBERS; m++)
        for (uint32_t t = 0; t < 3; t++)
            for (size_t i = 0; i < table[t].count; i++) {
                size_t r = i / table[t].cols, c = i % table[t].cols;
                double x = (m + 1) * (1 + 0.5 * (double)r) * (2 - 0.3 * (double)c);
                grads[m][table[t].offset + i] = (float)x;
                sum[table[t].offset + i] += x;
            }
    assert_int_equal(transform(codec, states, grads), 2);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(fabs((double)grads[0][i] - sum[i]) < 1e-4);
        for (uint32_t m = 1; m < MEMBERS; m++)
            assert_memory_equal(&grads[m][i], &grads[0][i], sizeof(float));
    }
    close_states(states);
    shoal_codec_close(codec);
}

/* Any matrices, three times: delivered + residuals = gradients. */
static void nothing_is_lost(void **state)
{
    (void)state;
    static float grads[MEMBERS][COUNT];
    void *states[MEMBERS];
    shoal_codec *codec = NULL;
    double owed[COUNT] = {0}, largest = 0;
    assert_ok(shoali_codec_open_row(&toy_transform_row, "toy_transform", &codec));
    open_states(codec, states);
    for (uint64_t step = 0; step < 3; step++) {
        for (uint32_t m = 0; m < MEMBERS; m++)
            for (size_t i = 0; i < COUNT; i++) {
                grads[m][i] = (float)shoali_rng_normal(check_seed(), 10 * step + m, i);
                owed[i] += (double)grads[m][i];
            }
        (void)transform(codec, states, grads);
        for (size_t i = 0; i < COUNT; i++)
            owed[i] -= (double)grads[0][i];
    }
    for (size_t i = 0; i < COUNT; i++) {
        double kept = 0;
        for (uint32_t m = 0; m < MEMBERS; m++)
            kept += (double)toy_transform_residual(states[m], table, 3)[i];
        assert_true(fabs(kept - owed[i]) < 1e-4);
        largest = fmax(largest, fabs(kept));
    }
    assert_true(largest > 0.1); /* something was kept back */
    close_states(states);
    shoal_codec_close(codec);
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(rank_one_is_exact),
    CHECK_TEST(nothing_is_lost),
};

int main(void)
{
    return CHECK_RUN(tests);
}
