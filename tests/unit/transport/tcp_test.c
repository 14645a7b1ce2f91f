/* SPDX-License-Identifier: Apache-2.0 */
#include "support/net.h"

static void two_nodes_exchange_a_frame_and_a_message(void **state)
{
    (void)state;
    net n;
    uint8_t body[1000];
    net_open(&n, 2, "tcp");
    net_fill(body, sizeof body, 3);
    assert_ok(net_send(&n, 0, 1, 3, body, sizeof body));
    assert_ok(n.nodes[1].row->control(n.nodes[1].state, 0, 20, "hello", 5));
    NET_UNTIL(&n, n.nodes[1].complete == 1 && n.nodes[0].controls == 1 && n.nodes[0].sent_ok == 1);
    net_check_bodies(&n.nodes[1]);
    assert_memory_equal(n.nodes[0].last_control, "hello", 5);
    net_close_node(&n, 0);
    NET_UNTIL(&n, n.nodes[1].downs[0] == 1);
    assert_int_equal(n.nodes[1].why[0], SHOAL_OK);
    net_close(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(two_nodes_exchange_a_frame_and_a_message),
    };
    return CHECK_RUN(tests);
}
