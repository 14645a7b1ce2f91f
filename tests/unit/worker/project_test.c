/* SPDX-License-Identifier: Apache-2.0 */
/* Projections against means taken by loops over every entry, with padding at both edges. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "support/scratch_dir.h"
#include "worker/project.h"

enum { MOST = 32 * 32 };

static shoal_model *whole, *blocks;

static shoal_model *open_model(const char *spec)
{
    shoal_model *model = NULL;
    assert_ok(shoal_model_open(spec, &model));
    return model;
}

static int set_up(void **state)
{
    static const char text[] = "{\"name\": \"m\", \"input\": [1, 12, 5], \"layers\": "
                               "[\"lstm:out=6,proj=7,peephole\", \"framewise:out=3\"]}";
    char spec[512];
    (void)state;
    scratch_dir_make();
    scratch_write("m.json", text, sizeof text - 1);
    whole = open_model(scratch_path("m.json"));
    snprintf(spec, sizeof spec, "%s:circulant=4,circulant_x=3,circulant_y=2",
             scratch_path("m.json"));
    blocks = open_model(spec);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    shoal_model_close(whole);
    shoal_model_close(blocks);
    scratch_dir_remove();
    return 0;
}

/* The value that entry (r, c) shares. */
static size_t shared(const shoali_projection *p, uint32_t r, uint32_t c)
{
    uint32_t k = p->block, across = (p->cols + k - 1) / k;
    return ((size_t)(r / k) * across + c / k) * k + (r % k + k - c % k) % k;
}

static void expect_means(const shoali_projection *p, const float *dense, const float *values)
{
    double sums[MOST] = {0};
    uint32_t counts[MOST] = {0};
    for (uint32_t r = 0; r < p->rows; r++)
        for (uint32_t c = 0; c < p->cols; c++) {
            sums[shared(p, r, c)] += (double)dense[r * p->cols + c];
            counts[shared(p, r, c)]++;
        }
    for (size_t i = 0; i < p->count; i++)
        assert_true(fabs((double)values[i] - (counts[i] > 0 ? sums[i] / counts[i] : 0)) < 1e-6);
}

static double distance(const shoali_projection *p, const float *dense, const float *values)
{
    double sum = 0;
    for (uint32_t r = 0; r < p->rows; r++)
        for (uint32_t c = 0; c < p->cols; c++) {
            double d = (double)dense[r * p->cols + c] - (double)values[shared(p, r, c)];
            sum += d * d;
        }
    return sum;
}

/* Moving any value that counts leads away: the projection is the nearest. */
static void expect_nearest(const shoali_projection *p, const float *dense, float *values)
{
    double best = distance(p, dense, values);
    for (size_t i = 0; i < p->count; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            float kept = values[i];
            values[i] += 0.01f * (float)sign;
            assert_true(distance(p, dense, values) >= best - 1e-9);
            values[i] = kept;
        }
}

static void projections_are_means_over_wrapped_diagonals(void **state)
{
    static const uint32_t want[] = {3, 4, 1, 1, 2, 2, 1};
    uint64_t seed = check_seed();
    float dense[MOST], values[MOST], back[MOST], again[MOST], room[MOST];
    (void)state;
    assert_int_equal(whole->tensor_count, 7);
    for (uint32_t i = 0; i < whole->tensor_count; i++) {
        shoali_projection p;
        assert_ok(shoali_projection_of(whole, blocks, i, &p));
        assert_int_equal(p.block, want[i]);
        assert_int_equal(p.count, blocks->tensors[i].count);
        for (size_t j = 0; j < whole->tensors[i].count; j++)
            dense[j] = (float)shoali_rng_normal(seed, i, j);
        shoali_project(&p, dense, room, values);
        shoali_unfold(&p, values, room, back);
        for (size_t j = 0; p.block == 1 && j < p.count; j++)
            assert_true(values[j] == dense[j] && back[j] == dense[j]);
        if (p.block == 1)
            continue;
        expect_means(&p, dense, values);
        expect_nearest(&p, dense, values);
        shoali_project(&p, back, room, again);
        assert_memory_equal(again, values, p.count * sizeof *values);
    }
}

/* Every entry of a whole convolution's [out][in][tap] against the mean of those that share its
 * value: of its tap, block of channels and wrapped diagonal. */
static void convolutions_are_projected_tap_by_tap(void **state)
{
    enum { OUT = 6, IN = 5, TAPS = 9, K = 4, COUNT = OUT * IN * TAPS };
    static const char text[] = "{\"name\": \"c\", \"input\": [5, 6, 6], \"layers\": "
                               "[\"conv:out=6,kernel=3\", \"dense:out=3\"]}";
    static const char block_text[] = "{\"name\": \"b\", \"input\": [5, 6, 6], \"layers\": "
                                     "[\"circulant_conv:out=6,kernel=3,block=4\", "
                                     "\"dense:out=3\"]}";
    float dense[COUNT], values[TAPS * 2 * 2 * K], back[COUNT], room[OUT * IN];
    shoali_projection p;
    (void)state;
    scratch_write("c.json", text, sizeof text - 1);
    scratch_write("b.json", block_text, sizeof block_text - 1);
    shoal_model *from = open_model(scratch_path("c.json"));
    shoal_model *to = open_model(scratch_path("b.json"));
    assert_ok(shoali_projection_of(from, to, 0, &p));
    assert_int_equal(p.count, TAPS * 2 * 2 * K);
    assert_int_equal(shoali_projection_whole(&p), COUNT);
    for (size_t i = 0; i < COUNT; i++)
        dense[i] = (float)shoali_rng_normal(check_seed(), 3, i);
    shoali_project(&p, dense, room, values);
    shoali_unfold(&p, values, room, back);
    for (int at = 0; at < COUNT; at++) {
        const int out = at / (IN * TAPS), in = at / TAPS % IN, tap = at % TAPS;
        double sum = 0;
        int n = 0;
        for (int o = out / K * K; o < OUT && o < out / K * K + K; o++)
            for (int i = in / K * K; i < IN && i < in / K * K + K; i++)
                if ((o - i - (out - in)) % K == 0) {
                    sum += (double)dense[(o * IN + i) * TAPS + tap];
                    n++;
                }
        assert_true(fabs((double)back[at] - sum / n) < 1e-6);
    }
    shoal_model_close(from);
    shoal_model_close(to);
}

static void what_does_not_fit_is_named(void **state)
{
    shoali_projection p;
    shoal_model *cnn = open_model("cnn"), *small = open_model("cnn:circulant_conv=4"),
                *other = open_model("mlp-small");
    (void)state;
    assert_status(shoali_projection_of(small, cnn, 2, &p), SHOAL_EINVAL);
    assert_error_has("do not fit");
    assert_status(shoali_projection_of(cnn, other, 0, &p), SHOAL_EINVAL);
    assert_error_has("do not fit");
    assert_status(shoali_projection_of(blocks, whole, 0, &p), SHOAL_EINVAL); /* never back */
    assert_status(shoali_projection_of(whole, blocks, 7, &p), SHOAL_EINVAL);
    shoal_model_close(cnn);
    shoal_model_close(small);
    shoal_model_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(projections_are_means_over_wrapped_diagonals),
                                       CHECK_TEST(convolutions_are_projected_tap_by_tap),
                                       CHECK_TEST(what_does_not_fit_is_named)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
