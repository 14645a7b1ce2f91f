/* SPDX-License-Identifier: Apache-2.0 */
#include "shoal/doctor.h"

#include "support/net.h"

static void each_provider_is_told_once_with_its_domain(void **state)
{
    (void)state;
    shoal_provider p = {.size = sizeof p};
    size_t count = 0, tcp = 0;
    if (!net_is_here("libfabric")) {
        assert_false(shoal_provider_at(0, &p));
        assert_error_has("libfabric");
        skip();
    }
    for (; shoal_provider_at(count, &p); count++) {
        tcp += strcmp(p.name, "tcp") == 0;
        assert_true(p.size == sizeof p && p.name[0] != '\0' && p.domain[0] != '\0');
    }
    assert_true(count > 1);
    assert_int_equal(tcp, 1);
}

static void a_struct_of_another_size_is_refused(void **state)
{
    (void)state;
    shoal_provider p = {.size = 1};
    assert_false(shoal_provider_at(0, &p));
    assert_error_has("size");
    assert_false(shoal_provider_at(0, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(each_provider_is_told_once_with_its_domain),
        CHECK_TEST(a_struct_of_another_size_is_refused),
    };
    return CHECK_RUN(tests);
}
