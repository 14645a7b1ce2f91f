/* SPDX-License-Identifier: Apache-2.0 */
/* Residuals by key, whatever the order of keys; states of transforms, and what a checkpoint brings
 * for them. */
#include "ops/residual.h"

#include "support/check.h"

enum { KEYS = 100, COUNT = 5 };

static uint64_t key_of(uint64_t i)
{
    return (i * 37 + 11) % KEYS * 1000; /* each once, in no order */
}

static void a_residual_stays_with_its_key(void **state)
{
    (void)state;
    shoali_residual_store *store = shoali_residuals_create();
    for (uint64_t i = 0; i < KEYS; i++) {
        float *values = shoali_residuals_at(store, key_of(i), COUNT);
        for (int v = 0; v < COUNT; v++) {
            assert_true(values[v] == 0);
            values[v] = (float)(i * COUNT) + (float)v;
        }
    }
    for (uint64_t i = 0; i < KEYS; i++)
        for (int v = 0; v < COUNT; v++)
            assert_true(shoali_residuals_at(store, key_of(i), COUNT)[v] ==
                        (float)(i * COUNT) + (float)v);
    shoali_residual all[KEYS];
    assert_int_equal(shoali_residuals_list(store, all, KEYS), KEYS);
    for (uint64_t i = 0; i < KEYS; i++)
        assert_int_equal(all[i].key, i * 1000);
    shoali_residuals_free(store);
}

static void another_size_starts_at_zero(void **state)
{
    (void)state;
    shoali_residual_store *store = shoali_residuals_create();
    shoali_residuals_at(store, 1, COUNT)[0] = 3;
    const float *fresh = shoali_residuals_at(store, 1, COUNT + 1);
    for (int v = 0; v <= COUNT; v++)
        assert_true(fresh[v] == 0);
    shoali_residual one;
    assert_int_equal(shoali_residuals_list(store, &one, 1), 1);
    assert_int_equal(one.count, COUNT + 1);
    shoali_residuals_free(store);
}

/* Operations under way go on with what they have. */
static void what_is_held_outlives_another_size(void **state)
{
    (void)state;
    shoali_residual_store *store = shoali_residuals_create();
    float *all[4];
    shoali_residuals_hold(store);
    shoali_residuals_hold(store);
    for (size_t i = 0; i < 4; i++)
        all[i] = shoali_residuals_at(store, 1, COUNT + i);
    shoali_residuals_release(store);
    for (size_t i = 0; i < 4; i++)
        all[i][COUNT - 1] = (float)i; /* the address sanitizer looks */
    for (size_t i = 0; i < 4; i++)
        assert_true(all[i][COUNT - 1] == (float)i);
    shoali_residuals_release(store);
    assert_ptr_equal(shoali_residuals_at(store, 1, COUNT + 3), all[3]);
    shoali_residuals_hold(store);
    shoali_residuals_at(store, 1, COUNT);
    shoali_residuals_free(store); /* with what was held */
}

static void a_state_stays_and_can_be_reset(void **state)
{
    (void)state;
    shoali_residual_store *store = shoali_residuals_create();
    float *a = shoali_residuals_state(store, 10, COUNT * sizeof *a),
          *b = shoali_residuals_state(store, 20, COUNT * sizeof *b);
    a[COUNT - 1] = 1;
    b[COUNT - 1] = 2;
    assert_ptr_equal(shoali_residuals_state(store, 10, COUNT * sizeof *a), a);
    assert_ptr_equal(shoali_residuals_state(store, 20, COUNT * sizeof *b), b);
    shoali_residuals_reset(store, a);
    assert_true(a[COUNT - 1] == 0 && b[COUNT - 1] == 2);
    shoali_residuals_reset(NULL, a);
    bool *agreed = shoali_residuals_agreed(store, b);
    assert_false(*agreed);
    *agreed = true;
    assert_false(*shoali_residuals_agreed(store, a));
    assert_true(*shoali_residuals_agreed(store, b));
    assert_null(shoali_residuals_agreed(store, agreed));
    assert_null(shoali_residuals_agreed(NULL, a));
    shoali_residuals_reform(store);
    shoali_residuals_reform(NULL);
    assert_false(*shoali_residuals_agreed(store, b));
    assert_true(b[COUNT - 1] == 2); /* nothing else of it changes */
    shoali_residuals_free(store);
}

static void a_state_takes_what_was_saved(void **state)
{
    (void)state;
    shoali_residual_store *store = shoali_residuals_create();
    for (uint64_t key = 5; key <= 9; key++)
        shoali_residuals_at(store, key, COUNT)[2] = (float)key;
    const float *taken = shoali_residuals_state(store, 7, COUNT * sizeof *taken);
    assert_true(taken[2] == 7);
    const float *none = shoali_residuals_state(store, 8, (COUNT + 1) * sizeof *none);
    for (int v = 0; v <= COUNT; v++)
        assert_true(none[v] == 0); /* of another size: it is dropped */
    shoali_residual all[8];
    static const uint64_t want[] = {5, 6, 9, 7, 8};
    assert_int_equal(shoali_residuals_list(store, all, 8), 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(all[i].key, want[i]);
    assert_int_equal(all[4].count, COUNT + 1);
    assert_ptr_equal(all[3].values, taken);
    assert_int_equal(shoali_residuals_list(store, all, 2), 5);
    assert_int_equal(shoali_residuals_list(NULL, all, 8), 0);
    shoali_residuals_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_residual_stays_with_its_key), CHECK_TEST(another_size_starts_at_zero),
        CHECK_TEST(what_is_held_outlives_another_size), CHECK_TEST(a_state_stays_and_can_be_reset),
        CHECK_TEST(a_state_takes_what_was_saved)};
    return CHECK_RUN(tests);
}
