/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "base/arena.h"
#include "sync/sync.h"

static void every_row_opens_by_name_and_is_complete(void **state)
{
    (void)state;
    assert_true(shoali_sync_count() >= 2);
    for (size_t i = 0; i < shoali_sync_count(); i++) {
        const shoali_sync_row *row = shoali_sync_row_at(i);
        shoali_protocol protocol;
        assert_non_null(row->paper);
        assert_non_null(row->state_size);
        assert_non_null(row->max_staleness);
        assert_non_null(row->on_event);
        assert_int_equal(row->servers != NULL, (row->traits & SHOALI_SYNC_SERVERS) != 0);
        assert_ok(shoali_sync_open(row->name, &protocol));
        assert_ptr_equal(protocol.row, row);
        assert_string_equal(protocol.spec, row->name);
        shoali_sync_close(&protocol);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(row->name, shoali_sync_row_at(j)->name);
    }
    assert_null(shoali_sync_row_at(shoali_sync_count()));
}

static void unknown_names_and_keys_are_refused(void **state)
{
    (void)state;
    shoali_protocol protocol;
    assert_status(shoali_sync_open("all_reduces", &protocol), SHOAL_EINVAL);
    assert_error_has("param_server");
    assert_error_has("all_reduce");
    assert_status(shoali_sync_open("all_reduce:servers=2", &protocol), SHOAL_EINVAL);
    assert_status(shoali_sync_open("param_server:server=2", &protocol), SHOAL_EINVAL);
    assert_error_has("servers");
    assert_status(shoali_sync_open("", &protocol), SHOAL_EINVAL);
    assert_status(shoali_sync_open("auto", &protocol), SHOAL_EINVAL);
    assert_error_has("no protocol is chosen by itself");
    assert_non_null(strstr(shoal_last_error()->advice, "One of all_reduce, "));
    assert_status(shoali_sync_open("auto:allow=hop", &protocol), SHOAL_EINVAL);
    assert_error_has("no protocol is chosen by itself");
    assert_status(shoali_sync_open("autos", &protocol), SHOAL_EINVAL);
    assert_error_has("unknown sync 'autos'");
}

static void the_canonical_spec_and_servers_follow_the_keys(void **state)
{
    (void)state;
    shoali_protocol protocol;
    assert_ok(shoali_sync_open("param_server:dedicated,servers=3,pull=identity", &protocol));
    assert_string_equal(protocol.spec, "param_server:servers=3,dedicated");
    assert_int_equal(shoali_sync_servers(&protocol), 3);
    shoali_sync_close(&protocol);
    assert_ok(shoali_sync_open("param_server:servers=3", &protocol));
    assert_int_equal(shoali_sync_servers(&protocol), 0);
    shoali_sync_close(&protocol);
    assert_ok(shoali_sync_open("all_reduce", &protocol));
    assert_int_equal(shoali_sync_servers(&protocol), 0);
    shoali_sync_close(&protocol);
}

static void no_memory_is_reported(void **state)
{
    (void)state;
    shoali_protocol protocol;
    (void)shoali_alloc_fail_at(1);
    assert_status(shoali_sync_open("param_server", &protocol), SHOAL_ENOMEM);
    (void)shoali_alloc_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(every_row_opens_by_name_and_is_complete),
        CHECK_TEST(unknown_names_and_keys_are_refused),
        CHECK_TEST(the_canonical_spec_and_servers_follow_the_keys),
        CHECK_TEST(no_memory_is_reported),
    };
    return CHECK_RUN(tests);
}
