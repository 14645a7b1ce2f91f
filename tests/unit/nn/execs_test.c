/* SPDX-License-Identifier: Apache-2.0 */
/* Each kind of layer has the executor of its own line in the table. */
#include "support/check.h"

#include "nn/exec.h"

extern const shoali_exec shoali_exec_dense, shoali_exec_relu, shoali_exec_add, shoali_exec_masked;

static const shoali_exec *by_name(const char *name)
{
    size_t i = 0;
    while (strcmp(shoali_layer_row_at(i)->name, name) != 0)
        i++;
    return shoali_exec_of(shoali_layer_row_at(i));
}

static void rows_have_their_executors(void **state)
{
    (void)state;
    assert_ptr_equal(by_name("dense"), &shoali_exec_dense);
    assert_ptr_equal(by_name("relu"), &shoali_exec_relu);
    assert_ptr_equal(by_name("add"), &shoali_exec_add);
    assert_ptr_equal(by_name("masked"), &shoali_exec_masked);
    for (size_t i = 0; i < shoali_layer_row_count(); i++) {
        const shoali_layer_row *row = shoali_layer_row_at(i);
        if ((row->traits & SHOALI_LAYER_DESCRIBED) == 0)
            assert_non_null(shoali_exec_of(row));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_have_their_executors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
