/* SPDX-License-Identifier: Apache-2.0 */
/* Operations entered by hand: the machines of the simulation know nothing of them. */
#include "driver/sim_parts.h"

#include "support/check.h"

enum { COUNT = 4, WORKERS = 3 };

static shoal_sim *open_sim(const char *network)
{
    static const shoal_tensor tensor = {.key = 1, .count = COUNT, .lr_scale = 1};
    shoal_sim *sim;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.workers = WORKERS;
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    desc.problem = "quadratic";
    desc.network = network;
    assert_ok(shoal_sim_create(&desc, &sim));
    for (uint32_t w = 0; w < WORKERS; w++) {
        shoali_event event = {.kind = SHOALI_EV_START, .world = &sim->nodes[w].world};
        assert_ok(sim->protocol.row->on_event(sim->nodes[w].state, &event, &sim->nodes[w].actions));
        for (size_t j = 0; j < COUNT; j++)
            sim->nodes[w].tensors.grads[j] = (float)(1 + w);
    }
    return sim;
}

/* Handle everything that comes. */
static void settle(shoal_sim *sim)
{
    for (;;) {
        const shoali_sim_event *next = shoali_sim_peek(&sim->queue);
        uint64_t link_ns = shoali_links_next_ns(sim->net);
        uint32_t index;
        if (next == NULL && link_ns == UINT64_MAX)
            return;
        if (next != NULL && next->at_ns <= link_ns) {
            const shoali_sim_event event = shoali_sim_pop(&sim->queue);
            sim->now_ns = event.at_ns;
            shoali_sim_handle(sim, &event);
        } else {
            sim->now_ns = link_ns;
            assert_true(shoali_links_finished(sim->net, link_ns, &index));
            shoali_sim_op_moved(sim, index);
        }
    }
}

static shoali_sync_op gradients(uint64_t id)
{
    return (shoali_sync_op){
        .id = id, .tensor = SHOALI_GRAD, .count = COUNT, .push_coded = true, .pull_coded = true};
}

static void an_operation_waits_for_all_and_ends_for_all(void **state)
{
    (void)state;
    /* 2 * 2/3 * 16 bytes at 1 byte per us = 22 us (blocks of 2, 1, 1), and 5 times 100 us */
    shoal_sim *sim = open_sim("links:rate=8mbit,latency_us=100");
    const shoali_sync_op op = gradients(77);
    shoali_sim_op_enter(sim, 2, &op);
    shoali_sim_op_enter(sim, 0, &op);
    settle(sim);
    assert_int_equal(sim->now_ns, 0);
    assert_int_equal(sim->ops.places[0].state, SHOALI_SIM_OP_GATHERING);
    assert_true(sim->nodes[0].tensors.grads[0] == 1);
    shoali_sim_op_enter(sim, 1, &op);
    assert_int_equal(sim->ops.places[0].state, SHOALI_SIM_OP_LATENCY);
    settle(sim);
    assert_int_equal(sim->ops.places[0].state, SHOALI_SIM_OP_FREE);
    assert_int_equal(sim->report.results.operations, 1);
    assert_in_range(sim->now_ns, 516000, 524000);
    for (uint32_t w = 0; w < WORKERS; w++)
        for (size_t j = 0; j < COUNT; j++)
            assert_true(sim->nodes[w].tensors.grads[j] == 6);
    assert_int_equal(sim->status, SHOAL_OK);
    shoal_sim_destroy(sim);
}

static void a_subset_in_its_own_order(void **state)
{
    (void)state;
    static const uint32_t members[] = {2, 0};
    shoal_sim *sim = open_sim(NULL);
    shoali_sync_op op = gradients(5);
    op.members = members;
    op.member_count = 2;
    op.kind = SHOALI_SYNC_BROADCAST;
    shoali_sim_op_enter(sim, 0, &op);
    shoali_sim_op_enter(sim, 2, &op);
    settle(sim);
    assert_true(sim->nodes[0].tensors.grads[0] == 3); /* root 0 is the first member: worker 2 */
    assert_true(sim->nodes[1].tensors.grads[0] == 2);
    shoal_sim_destroy(sim);
}

static void members_that_differ_are_told(void **state)
{
    (void)state;
    shoal_sim *sim = open_sim(NULL);
    shoali_sync_op op = gradients(5);
    shoali_sim_op_enter(sim, 0, &op);
    op.pull_coded = false;
    shoali_sim_op_enter(sim, 1, &op);
    assert_int_equal(sim->ops.places[0].state, SHOALI_SIM_OP_FAILED);
    assert_int_equal(sim->ops.places[0].status, SHOAL_EMISMATCH);
    settle(sim);
    assert_int_equal(sim->ops.places[0].told, 2);
    shoali_sim_op_enter(sim, 2, &op); /* late: told, too */
    settle(sim);
    assert_int_equal(sim->ops.places[0].told, 3);
    shoal_sim_destroy(sim);
}

static void cancelling_ends_it_in_every_state(void **state)
{
    (void)state;
    for (uint32_t entered = 1; entered <= WORKERS; entered++) {
        shoal_sim *sim = open_sim("links:latency_us=0");
        const shoali_sync_op op = gradients(5);
        for (uint32_t w = 0; w < entered; w++)
            shoali_sim_op_enter(sim, w, &op);
        if (entered == WORKERS) { /* on its way */
            const shoali_sim_event event = shoali_sim_pop(&sim->queue);
            shoali_sim_handle(sim, &event);
            assert_int_equal(sim->ops.places[0].state, SHOALI_SIM_OP_MOVING);
        }
        shoali_sim_op_cancel(sim, 0, 5);
        shoali_sim_op_cancel(sim, 1, 5);
        shoali_sim_op_cancel(sim, 1, 6); /* there is none */
        settle(sim);
        assert_int_equal(sim->ops.places[0].status, SHOAL_ECANCELLED);
        assert_int_equal(sim->ops.places[0].told, entered);
        assert_int_equal(sim->report.results.operations, 0);
        shoal_sim_destroy(sim);
    }
}

static void a_member_that_stands_still_hangs_it_until_it_is_noticed(void **state)
{
    (void)state;
    shoal_sim *sim = open_sim(NULL);
    const shoali_sync_op op = gradients(5);
    shoali_sim_op_enter(sim, 0, &op);
    shoali_sim_op_enter(sim, 1, &op);
    shoali_sim_ops_hang(sim, 1);
    settle(sim);
    assert_int_equal(sim->ops.places[0].state, SHOALI_SIM_OP_HUNG);
    shoali_sim_ops_fail(sim, 1, "endpoint 1 is lost");
    settle(sim);
    assert_int_equal(sim->ops.places[0].status, SHOAL_EPEER);
    assert_non_null(strstr(sim->ops.places[0].text, "endpoint 1 is lost"));
    shoal_sim_destroy(sim);
}

static void misuse_breaks_the_run(void **state)
{
    (void)state;
    static const uint32_t members[] = {0, 1};
    shoal_sim *sim = open_sim(NULL);
    shoali_sync_op op = gradients(5);
    op.members = members;
    op.member_count = 2;
    shoali_sim_op_enter(sim, 0, &op);
    shoali_sim_op_enter(sim, 2, &op);
    assert_int_equal(sim->status, SHOAL_EINTERNAL);
    assert_non_null(strstr(sim->error.text, "is no member"));
    shoal_sim_destroy(sim);
    sim = open_sim(NULL);
    op = gradients(5);
    shoali_sim_op_enter(sim, 0, &op);
    shoali_sim_op_enter(sim, 0, &op);
    assert_non_null(strstr(sim->error.text, "reuses"));
    shoal_sim_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(an_operation_waits_for_all_and_ends_for_all),
        CHECK_TEST(a_subset_in_its_own_order),
        CHECK_TEST(members_that_differ_are_told),
        CHECK_TEST(cancelling_ends_it_in_every_state),
        CHECK_TEST(a_member_that_stands_still_hangs_it_until_it_is_noticed),
        CHECK_TEST(misuse_breaks_the_run),
    };
    return CHECK_RUN(tests);
}
