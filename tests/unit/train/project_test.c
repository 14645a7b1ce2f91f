/* SPDX-License-Identifier: Apache-2.0 */
/* Projections against means taken by loops over every entry, with padding at both edges. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "support/scratch_dir.h"
#include "train/project.h"

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
    float dense[MOST], values[MOST], back[MOST], again[MOST];
    (void)state;
    assert_int_equal(whole->tensor_count, 7);
    for (uint32_t i = 0; i < whole->tensor_count; i++) {
        shoali_projection p;
        assert_ok(shoali_projection_of(whole, blocks, i, &p));
        assert_int_equal(p.block, want[i]);
        assert_int_equal(p.count, blocks->tensors[i].count);
        for (size_t j = 0; j < whole->tensors[i].count; j++)
            dense[j] = (float)shoali_rng_normal(seed, i, j);
        shoali_project(&p, dense, values);
        shoali_unfold(&p, values, back);
        for (size_t j = 0; p.block == 1 && j < p.count; j++)
            assert_true(values[j] == dense[j] && back[j] == dense[j]);
        if (p.block == 1)
            continue;
        expect_means(&p, dense, values);
        expect_nearest(&p, dense, values);
        shoali_project(&p, back, again);
        assert_memory_equal(again, values, p.count * sizeof *values);
    }
}

static void what_does_not_fit_is_named(void **state)
{
    shoali_projection p;
    shoal_model *cnn = open_model("cnn"), *small = open_model("cnn:circulant_conv=4"),
                *other = open_model("mlp-small");
    (void)state;
    assert_status(shoali_projection_of(cnn, small, 2, &p), SHOAL_ENOTSUP);
    assert_error_has("convolutions");
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
                                       CHECK_TEST(what_does_not_fit_is_named)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
