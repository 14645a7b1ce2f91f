/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "transport/transport.h"

static void rows_are_complete_and_found_by_name(void **state)
{
    (void)state;
    assert_true(shoali_transport_count() > 0);
    for (size_t i = 0; i < shoali_transport_count(); i++) {
        const shoali_transport_row *row = shoali_transport_row_at(i);
        char spec[64];
        assert_ptr_equal(shoali_transport_find(row->name), row);
        snprintf(spec, sizeof spec, "%s:anything", row->name);
        assert_ptr_equal(shoali_transport_find(spec), row);
        assert_true(row->open && row->address && row->add_peer && row->send && row->control &&
                    row->fd);
        assert_true(row->progress && row->next_wake_us && row->drop_peer && row->peer_stats);
        assert_true(row->close && row->forked && row->state_size > 0);
        uint32_t kinds = row->traits & (SHOALI_TRANSPORT_STREAM | SHOALI_TRANSPORT_DATAGRAM);
        assert_true(kinds == SHOALI_TRANSPORT_STREAM || kinds == SHOALI_TRANSPORT_DATAGRAM);
    }
}

static void unknown_names_list_the_known(void **state)
{
    (void)state;
    assert_null(shoali_transport_find("tpc"));
    assert_error_has("tcp");
    assert_null(shoali_transport_find(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(rows_are_complete_and_found_by_name),
        CHECK_TEST(unknown_names_list_the_known),
    };
    return CHECK_RUN(tests);
}
