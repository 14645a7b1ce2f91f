/* SPDX-License-Identifier: Apache-2.0 */
/* blocks among members whose rounds are summed here: which blocks travel is worked out once more,
 * by sorting; nothing is lost; what the paper proves of the choices holds. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "codec/codec.h"

enum { N = 3, BLOCK = 32, FIRST = 11 * BLOCK + 5, COUNT = 40 * BLOCK + 7, BLOCKS = 41 };

static shoal_tensor table[2] = {
    {.key = 1, .offset = 0, .count = FIRST, .rows = FIRST, .cols = 1, .lr_scale = 1},
    {.key = 2, .offset = FIRST, .count = COUNT - FIRST, .lr_scale = 1},
};

typedef struct members {
    shoal_codec *codec;
    float *state[N];
    size_t state_floats;
} members;

static void open_members(members *m, const char *spec)
{
    table[1].flags = 0;
    assert_ok(shoal_codec_open(spec, &m->codec));
    const size_t bytes = m->codec->row->state_size(m->codec->params, table, 2);
    m->state_floats = bytes / sizeof(float);
    for (int i = 0; i < N; i++)
        m->state[i] = calloc(1, bytes);
}

static void close_members(members *m)
{
    for (int i = 0; i < N; i++)
        free(m->state[i]);
    shoal_codec_close(m->codec);
}

static const float *residual_of(const members *m, int i)
{
    return m->state[i] + m->state_floats - COUNT;
}

/* Member i's part of an operation: grad becomes what it sends. */
static void choose(members *m, int i, float *grad)
{
    shoal_round round;
    assert_ok(m->codec->row->next_round(m->codec->params, m->state[i], table, 2, 0, grad, &round));
    assert_true(round.last && round.buf == grad && round.count == COUNT && !round.slots);
    assert_non_null(strstr(round.codec, "threshold:block=32"));
}

static size_t length_of(size_t b)
{
    return b + 1 < BLOCKS ? BLOCK : COUNT - b * BLOCK;
}

static bool travels(const float *sent, size_t b)
{
    for (size_t j = 0; j < length_of(b); j++)
        if (sent[b * BLOCK + j] != 0)
            return true;
    return false;
}

static double square_of(const float *x, size_t first, size_t count)
{
    double sum = 0;
    for (size_t j = first; j < first + count; j++)
        sum += (double)x[j] * (double)x[j];
    return sum;
}

static void draw(float *grad, uint64_t stream)
{
    for (size_t j = 0; j < COUNT; j++) /* scales that differ from block to block */
        grad[j] = (float)(shoali_rng_normal(check_seed(), stream, j) *
                          exp2(
                              (double)shoali_rng_below(check_seed(), stream + 1000, j / BLOCK, 9)));
}

/* Brute force: as many blocks as have a larger norm decide whether one travels. */
static void top_is_the_largest_norms(void **state)
{
    (void)state;
    static float grad[COUNT], sent[COUNT];
    members m;
    open_members(&m, "blocks:block=32,k=0.2"); /* 9 of 41 */
    for (uint64_t step = 0; step < 20; step++) {
        double norm[BLOCKS];
        draw(grad, step);
        for (size_t j = 0; j < COUNT; j++)
            sent[j] = grad[j], grad[j] += residual_of(&m, 0)[j];
        for (size_t b = 0; b < BLOCKS; b++)
            norm[b] = square_of(grad, b * BLOCK, length_of(b));
        choose(&m, 0, sent);
        for (size_t b = 0; b < BLOCKS; b++) {
            size_t larger = 0;
            for (size_t c = 0; c < BLOCKS; c++)
                larger += norm[c] > norm[b];
            const bool travelled = travels(sent, b);
            assert_int_equal(travelled, larger < 9);
            for (size_t j = b * BLOCK; j < b * BLOCK + length_of(b); j++) {
                assert_true(sent[j] == (travelled ? grad[j] : 0));
                assert_true(residual_of(&m, 0)[j] == (travelled ? 0 : grad[j]));
            }
        }
    }
    close_members(&m);
}

static void equal_norms_and_zeros_are_no_trouble(void **state)
{
    (void)state;
    static float grad[COUNT];
    members m;
    open_members(&m, "blocks:block=32,k=0.1"); /* 5 of 41 */
    choose(&m, 0, grad);
    for (size_t j = 0; j < COUNT; j++) {
        assert_true(grad[j] == 0);
        grad[j] = 1;
    }
    choose(&m, 0, grad); /* all alike but the short one: the first */
    for (size_t b = 0; b < BLOCKS; b++)
        assert_int_equal(travels(grad, b), b < 5);
    for (size_t j = 0; j < COUNT; j++) /* squares that float32 does not hold */
        grad[j] = j / BLOCK == 17 ? 1e-30f : 0;
    choose(&m, 1, grad);
    for (size_t b = 0; b < BLOCKS; b++)
        assert_int_equal(travels(grad, b), b == 17);
    close_members(&m);
}

/* Stich et al.'s contraction, which Fei et al. prove of their choices: of any x, and on average of
 * the drawn one. The short block counts as one. */
static void choices_contract(void **state)
{
    (void)state;
    static float grad[COUNT], sent[COUNT];
    const double k = 9.0 / BLOCKS;
    const int draws = 3000;
    members m;
    double left = 0;
    open_members(&m, "blocks:block=32,k=0.2");
    for (uint64_t step = 0; step < 50; step++) {
        draw(grad, 100 + step);
        memcpy(sent, grad, sizeof sent);
        memset(m.state[0], 0, m.state_floats * sizeof(float));
        choose(&m, 0, sent);
        assert_true(square_of(residual_of(&m, 0), 0, COUNT) <=
                    (1 - k + 1e-6) * square_of(grad, 0, COUNT));
    }
    close_members(&m);
    open_members(&m, "blocks:block=32,k=0.2,pick=random");
    for (int i = 0; i < draws; i++) { /* of 1, so that a block's part of |x|^2 is its length */
        for (size_t j = 0; j < COUNT; j++)
            sent[j] = 1;
        memset(m.state[0] + m.state_floats - COUNT, 0, COUNT * sizeof(float));
        choose(&m, 0, sent);
        left += square_of(residual_of(&m, 0), 0, COUNT) / COUNT;
    }
    assert_true(fabs(left / draws - (1 - k)) < 0.002); /* its standard error: 0.0001 */
    close_members(&m);
}

/* All members draw the same blocks, so that sums have no more; another time others; every block in
 * its turn. */
static void drawn_blocks_are_everybodys(void **state)
{
    (void)state;
    static float grad[N][COUNT];
    members m;
    size_t times[BLOCKS] = {0}, repeated = 0;
    bool before[BLOCKS] = {false};
    open_members(&m, "blocks:block=32,k=0.1,pick=random");
    for (uint64_t step = 0; step < 400; step++) {
        size_t travelled = 0;
        for (int i = 0; i < N; i++) {
            draw(grad[i], step * N + (uint64_t)i);
            choose(&m, i, grad[i]);
        }
        for (size_t b = 0; b < BLOCKS; b++) {
            const bool travelled_here = travels(grad[0], b);
            assert_int_equal(travelled_here, travels(grad[1], b));
            assert_int_equal(travelled_here, travels(grad[2], b));
            travelled += travelled_here;
            times[b] += travelled_here;
            repeated += travelled_here && before[b];
            before[b] = travelled_here;
        }
        assert_int_equal(travelled, 5);
    }
    for (size_t b = 0; b < BLOCKS; b++) /* 400 * 5 / 41 = 48.8, deviation 6.5 */
        assert_true(times[b] > 15 && times[b] < 85);
    assert_true(repeated > 100 && repeated < 420); /* 399 * 5 * 5 / 41 = 243 */
    close_members(&m);
}

static void above_is_a_root_mean_square(void **state)
{
    (void)state;
    static float grad[COUNT];
    members m;
    open_members(&m, "blocks:block=32,above=0.5");
    for (size_t j = 0; j < COUNT; j++)
        grad[j] = (j / BLOCK) % 2 == 0 ? 0.51f : -0.49f;
    choose(&m, 0, grad);
    for (size_t b = 0; b < BLOCKS; b++)
        assert_int_equal(travels(grad, b), b % 2 == 0);
    for (size_t j = 0; j < COUNT; j++) /* what waited is 0.98 together */
        grad[j] = (j / BLOCK) % 2 == 0 ? 0 : -0.49f;
    choose(&m, 0, grad);
    for (size_t b = 0; b < BLOCKS; b++)
        assert_int_equal(travels(grad, b), b % 2 == 1);
    close_members(&m);
}

/* What was delivered in all steps and what members still keep are all gradients. */
static void nothing_is_lost(void **state)
{
    (void)state;
    static const char *const specs[] = {"blocks:block=32,k=0.05", "blocks:block=64,pick=random",
                                        "blocks:block=32,above=40"};
    static float grad[N][COUNT];
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        double owed[COUNT] = {0}, most = 0, waits = 0;
        members m;
        open_members(&m, specs[s]);
        for (uint64_t step = 0; step < 12; step++)
            for (int i = 0; i < N; i++) {
                shoal_round round;
                draw(grad[i], 7000 + step * N + (uint64_t)i);
                for (size_t j = 0; j < COUNT; j++)
                    owed[j] += (double)grad[i][j];
                assert_ok(m.codec->row->next_round(m.codec->params, m.state[i], table, 2, 0,
                                                   grad[i], &round));
                for (size_t j = 0; j < COUNT; j++)
                    owed[j] -= (double)grad[i][j];
            }
        for (size_t j = 0; j < COUNT; j++) {
            double kept = 0;
            for (int i = 0; i < N; i++)
                kept += (double)residual_of(&m, i)[j];
            most = fmax(most, fabs(kept - owed[j]));
            waits = fmax(waits, fabs(kept));
        }
        assert_true(most < 0.02 && waits > 10); /* rounding; values reach 1000 */
        close_members(&m);
    }
}

/* Its rank is to be named, and it must not stay behind. */
static void what_is_not_finite_travels(void **state)
{
    (void)state;
    static float grad[COUNT];
    members m;
    open_members(&m, "blocks:block=32,k=0.02"); /* 1 of 41 */
    for (int i = 0; i < 2; i++) {
        for (size_t j = 0; j < COUNT; j++)
            grad[j] = j == 70 ? NAN : j == 200 ? INFINITY : 1;
        choose(&m, 0, grad);
        assert_true(isnan(grad[70]) && isinf(grad[200]));
        for (size_t j = 0; j < COUNT; j++)
            assert_true(isfinite(residual_of(&m, 0)[j]));
    }
    close_members(&m);
}

static void raw_tensors_travel_whole(void **state)
{
    (void)state;
    static float grad[COUNT];
    members m;
    open_members(&m, "blocks:block=32,k=0.02");
    table[1].flags = SHOAL_TENSOR_RAW;
    for (size_t j = 0; j < COUNT; j++)
        grad[j] = 1;
    choose(&m, 0, grad);
    for (size_t b = 0; b < BLOCKS; b++) /* the first of the others, and all of the second tensor */
        assert_int_equal(travels(grad, b), b == 0 || b >= FIRST / BLOCK);
    close_members(&m);
}

static void rates_are_of_unions(void **state)
{
    (void)state;
    shoal_codec *codec = NULL;
    assert_ok(shoal_codec_open("blocks:k=0.1", &codec));
    assert_true(fabs(shoal_codec_bytes_per_elem(codec, 1) - 0.4) < 1e-9);
    assert_true(fabs(shoal_codec_bytes_per_elem(codec, 3) - 4 * (1 - 0.9 * 0.9 * 0.9)) < 1e-9);
    shoal_codec_close(codec);
    assert_ok(shoal_codec_open("blocks:k=0.1,pick=random", &codec));
    assert_true(fabs(shoal_codec_bytes_per_elem(codec, 3) - 0.4) < 1e-9);
    shoal_codec_close(codec);
}

static void keys_that_do_not_go_together_are_refused(void **state)
{
    (void)state;
    shoal_codec *codec = NULL;
    assert_status(shoal_codec_open("blocks:above=1,k=0.5", &codec), SHOAL_EINVAL);
    assert_error_has("leave k and pick out");
    assert_status(shoal_codec_open("blocks:above=1,pick=random", &codec), SHOAL_EINVAL);
    assert_error_has("leave k and pick out");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(top_is_the_largest_norms),
        CHECK_TEST(equal_norms_and_zeros_are_no_trouble),
        CHECK_TEST(choices_contract),
        CHECK_TEST(drawn_blocks_are_everybodys),
        CHECK_TEST(above_is_a_root_mean_square),
        CHECK_TEST(nothing_is_lost),
        CHECK_TEST(what_is_not_finite_travels),
        CHECK_TEST(raw_tensors_travel_whole),
        CHECK_TEST(rates_are_of_unions),
        CHECK_TEST(keys_that_do_not_go_together_are_refused),
    };
    return CHECK_RUN(tests);
}
