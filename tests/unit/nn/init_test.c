/* SPDX-License-Identifier: Apache-2.0 */
/* First weights: the variance that He and Glorot ask for, blocks that sum up to zero, and the same
 * numbers whoever draws which columns. */
#include "support/check.h"

#include <math.h>

#include "nn/init.h"

typedef struct drawn {
    shoal_model *model;
    float *params;
} drawn;

static drawn draw(const char *spec, uint64_t seed)
{
    drawn d;
    assert_ok(shoal_model_open(spec, &d.model));
    d.params = malloc(d.model->param_count * sizeof *d.params);
    assert_non_null(d.params);
    shoali_init_params(d.model, seed, d.params);
    return d;
}

static void drop(drawn *d)
{
    free(d->params);
    shoal_model_close(d->model);
}

static double variance_wanted(const shoal_model *model, const shoali_param *p)
{
    return 2.0 / (model->init == SHOALI_INIT_HE ? p->fan_in : (double)p->fan_in + p->fan_out);
}

/* Six deviations of a variance's estimate; fourth moments are at most a normal's. */
static void check_variance(const float *w, size_t count, double wanted)
{
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (double)w[i] * (double)w[i] / (double)count;
    assert_true(fabs(squares / wanted - 1) < 6 * sqrt(2.0 / (double)count));
}

static void weights_have_the_variance_of_their_fans(void **state)
{
    static const char *const specs[] = {"mlp",
                                        "mlp:init=xavier",
                                        "mlp:circulant=4",
                                        "mlp:circulant=128,init=xavier",
                                        "cnn:circulant=16,circulant_conv=8",
                                        "lstm-asr:circulant=8"};
    uint64_t seed = check_seed();
    (void)state;
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        drawn d = draw(specs[s], seed);
        for (uint32_t t = 0; t < d.model->tensor_count; t++) {
            const shoali_param *p = &d.model->tensor_params[t];
            if (p->fill == SHOALI_FILL_WEIGHT || p->fill == SHOALI_FILL_BALANCED)
                check_variance(d.params + d.model->tensors[t].offset, d.model->tensors[t].count,
                               variance_wanted(d.model, p));
        }
        drop(&d);
    }
}

static void large_blocks_sum_up_to_zero(void **state)
{
    uint64_t seed = check_seed();
    uint32_t found = 0;
    (void)state;
    drawn d = draw("cnn:circulant=64,circulant_conv=16", seed);
    for (uint32_t t = 0; t < d.model->tensor_count; t++) {
        const shoali_param *p = &d.model->tensor_params[t];
        const float *w = d.params + d.model->tensors[t].offset;
        if (p->fill != SHOALI_FILL_BALANCED)
            continue;
        found++;
        for (size_t i = 0; i < d.model->tensors[t].count; i += p->block) {
            double sum = 0;
            for (size_t j = 0; j < p->block; j++)
                sum += (double)w[i + j];
            assert_true(fabs(sum) < 1e-6);
        }
    }
    assert_int_equal(found, 2);
    drop(&d);
}

static void small_blocks_do_not(void **state)
{
    uint64_t seed = check_seed();
    (void)state;
    drawn d = draw("mlp:circulant=8", seed);
    double squares = 0;
    const size_t blocks = d.model->tensors[0].count / 8;
    for (size_t b = 0; b < blocks; b++) {
        double sum = 0;
        for (size_t j = 0; j < 8; j++)
            sum += (double)d.params[8 * b + j];
        squares += sum * sum / (double)blocks;
    }
    assert_true(fabs(squares / (8 * variance_wanted(d.model, &d.model->tensor_params[0])) - 1) <
                6 * sqrt(2.0 / (double)blocks));
    drop(&d);
}

/* Any columns, also from the middle of a block. */
static void parts_are_drawn_as_the_whole(void **state)
{
    static const char *const specs[] = {"mlp", "mlp:circulant=16"};
    uint64_t seed = check_seed();
    (void)state;
    for (size_t s = 0; s < 2; s++) {
        drawn d = draw(specs[s], seed);
        const shoal_tensor *tensor = &d.model->tensors[2]; /* the second layer's weight */
        const size_t rows = tensor->count / tensor->cols, first = 24, count = 37;
        float *part = malloc(rows * count * sizeof *part);
        assert_non_null(part);
        shoali_init_columns(d.model, 2, seed, first, count, part);
        for (size_t r = 0; r < rows; r++)
            assert_memory_equal(part + r * count,
                                d.params + tensor->offset + r * tensor->cols + first,
                                count * sizeof *part);
        free(part);
        drop(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_have_the_variance_of_their_fans),
        cmocka_unit_test(large_blocks_sum_up_to_zero),
        cmocka_unit_test(small_blocks_do_not),
        cmocka_unit_test(parts_are_drawn_as_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
