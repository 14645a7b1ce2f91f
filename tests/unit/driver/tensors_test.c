/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/tensors.h"

#include "support/check.h"

enum { COUNT = 6 };

typedef struct fixture {
    float params[COUNT], grads[COUNT];
    shoali_tensors tensors;
} fixture;

static void open_tensors(fixture *f)
{
    for (size_t j = 0; j < COUNT; j++) {
        f->params[j] = (float)j;
        f->grads[j] = 10 + (float)j;
    }
    assert_ok(shoali_tensors_init(&f->tensors, f->params, f->grads, COUNT, 2));
}

static shoal_status mix(fixture *f, uint32_t dst, size_t offset, size_t count,
                        const shoali_mix_term *terms, uint32_t term_count)
{
    shoali_action action = {.kind = SHOALI_ACT_MIX};
    action.mix.dst = dst;
    action.mix.offset = offset;
    action.mix.count = count;
    action.mix.terms = terms;
    action.mix.term_count = term_count;
    return shoali_tensors_mix(&f->tensors, &action);
}

static void names_are_memory(void **state)
{
    (void)state;
    fixture f;
    open_tensors(&f);
    assert_ptr_equal(shoali_tensor_memory(&f.tensors, SHOALI_PARAM, 2, 4), f.params + 2);
    assert_ptr_equal(shoali_tensor_memory(&f.tensors, SHOALI_GRAD, 0, COUNT), f.grads);
    float *slot = shoali_tensor_memory(&f.tensors, SHOALI_SLOT + 1, 0, COUNT);
    for (size_t j = 0; j < COUNT; j++)
        assert_true(slot[j] == 0);
    assert_null(shoali_tensor_memory(&f.tensors, SHOALI_SLOT + 2, 0, 1));
    assert_null(shoali_tensor_memory(&f.tensors, SHOALI_SLOT + 99, 0, 1));
    assert_null(shoali_tensor_memory(&f.tensors, SHOALI_GRAD, COUNT + 1, 0));
    assert_null(shoali_tensor_memory(&f.tensors, SHOALI_GRAD, 1, SIZE_MAX));
    assert_error_has("not there");
    shoali_tensors_fini(&f.tensors);
}

static void a_mix_is_a_weighted_sum_of_its_range(void **state)
{
    (void)state;
    fixture f;
    const shoali_mix_term terms[] = {{SHOALI_PARAM, 0.5f}, {SHOALI_GRAD, -2}};
    open_tensors(&f);
    assert_ok(mix(&f, SHOALI_SLOT, 1, 4, terms, 2));
    const float *slot = shoali_tensor_memory(&f.tensors, SHOALI_SLOT, 0, COUNT);
    assert_true(slot[0] == 0 && slot[5] == 0);
    for (size_t j = 1; j < 5; j++)
        assert_true(slot[j] == 0.5f * (float)j - 2 * (10 + (float)j));
    shoali_tensors_fini(&f.tensors);
}

static void the_result_may_be_among_the_terms(void **state)
{
    (void)state;
    fixture f;
    const shoali_mix_term average[] = {{SHOALI_GRAD, 0.5f}, {SHOALI_PARAM, 0.5f}};
    open_tensors(&f);
    assert_ok(mix(&f, SHOALI_PARAM, 0, COUNT, average, 2));
    for (size_t j = 0; j < COUNT; j++)
        assert_true(f.params[j] == 0.5f * (float)j + 0.5f * (10 + (float)j));
    assert_ok(mix(&f, SHOALI_PARAM, 0, 3, NULL, 0)); /* the empty sum */
    assert_true(f.params[2] == 0 && f.params[3] != 0);
    shoali_tensors_fini(&f.tensors);
}

static void wrong_names_change_nothing(void **state)
{
    (void)state;
    fixture f;
    const shoali_mix_term bad[] = {{SHOALI_PARAM, 3}, {SHOALI_SLOT + 7, 1}};
    open_tensors(&f);
    assert_status(mix(&f, SHOALI_PARAM, 0, COUNT, bad, 2), SHOAL_EINTERNAL);
    assert_status(mix(&f, SHOALI_SLOT + 99, 0, COUNT, bad, 1), SHOAL_EINTERNAL);
    assert_true(f.params[5] == 5);
    shoali_tensors_fini(&f.tensors);
    assert_status(shoali_tensors_init(&f.tensors, f.params, f.grads, SIZE_MAX / 2, 4),
                  SHOAL_ENOMEM);
}

static void tables_are_checked_and_cut(void **state)
{
    (void)state;
    const shoal_tensor good[] = {{.key = 1, .count = 3},
                                 {.key = 2, .offset = 3, .count = 5},
                                 {.key = 3, .offset = 8, .count = 2}};
    const shoal_tensor bad[][2] = {{{.count = 3}, {.offset = 4, .count = 1}},
                                   {{.count = 3}, {.offset = 3}},
                                   {{.offset = 1, .count = 3}, {.offset = 4, .count = 1}},
                                   {{.count = 3}, {.offset = 3, .count = SIZE_MAX / 4}}};
    shoal_tensor cut[3];
    size_t count = 0;
    uint32_t first;
    assert_ok(shoali_table_check(good, 3, &count));
    assert_int_equal(count, 10);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_status(shoali_table_check(bad[i], 2, &count), SHOAL_EINVAL);
    assert_int_equal(shoali_table_cut(good, 3, 3, 7, cut, &first), 2);
    assert_int_equal(first, 1);
    assert_true(cut[0].key == 2 && cut[0].offset == 0 && cut[1].key == 3 && cut[1].offset == 5);
    assert_int_equal(shoali_table_cut(good, 3, 0, 3, cut, &first), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(tables_are_checked_and_cut),
        CHECK_TEST(names_are_memory),
        CHECK_TEST(a_mix_is_a_weighted_sum_of_its_range),
        CHECK_TEST(the_result_may_be_among_the_terms),
        CHECK_TEST(wrong_names_change_nothing),
    };
    return CHECK_RUN(tests);
}
