/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine says about an operation that does not get on. */
#include "support/check.h"
#include "support/enginecase.h"
#include "support/flowprobe.h"

static void expect(flowprobe *probe, const char *text, uint32_t peer)
{
    char got[160];
    uint32_t got_peer = 77;
    shoali_engine.describe(probe->state, got, sizeof got, &got_peer);
    assert_string_equal(got, text);
    assert_int_equal(got_peer, peer);
}

/* Member 1 of three, server 0 with endpoint 40, two chunks: entering, sending, receiving. */
static void worker(void **state)
{
    (void)state;
    engine_run run;
    engine_case c = {.collective = "worker_aggregator", .size = 3, .count = 20, .chunk_elems = 10};
    assert_true(engine_run_open(&c, &run));
    shoali_flow_args args = engine_run_args(&run, 1);
    flowprobe *probe = flowprobe_open(&shoali_engine, &args);
    expect(probe, "waits for endpoint 40 to enter (2 of 2 chunks open)", 0);
    flowprobe_grant(probe, 0, 1);
    expect(probe, "chunk 0 of 2: waits for data from endpoint 40 (step 1 of 2, round 2)", 0);
    shoal_data head = {.chunk = 0, .len_bytes = 40};
    assert_true(flowprobe_receive(probe, 0, head, run.inputs[0]));
    expect(probe, "chunk 0 of 2: waits for data from endpoint 40 (step 1 of 2, round 2)", 0);
    flowprobe_sent(probe, 0);
    expect(probe, "chunk 1 of 2: waits for data from endpoint 40 (step 1 of 2, round 2)", 0);
    head.chunk = 1;
    assert_true(flowprobe_receive(probe, 0, head, run.inputs[0]));
    flowprobe_sent(probe, 1);
    assert_true(probe->done);
    flowprobe_close(probe);
    engine_run_close(&run);
}

static void server_with_owner_job(void **state)
{
    (void)state;
    engine_run run;
    engine_case c = {.collective = "worker_aggregator", .size = 2, .count = 10, .owner_job = true};
    assert_true(engine_run_open(&c, &run));
    shoali_flow_args args = engine_run_args(&run, 0);
    flowprobe *probe = flowprobe_open(&shoali_engine, &args);
    expect(probe, "chunk 0 of 1: waits for data from endpoint 43 (step 0 of 3, round 1)", 1);
    shoal_data head = {.len_bytes = 40};
    assert_true(flowprobe_receive(probe, 1, head, run.inputs[1]));
    assert_int_equal(probe->job_count, 1);
    expect(probe, "chunk 0 of 1: waits for its owner job (step 1 of 3)", 0);
    probe->row->on_job(probe->state, 5, SHOAL_OK); /* no such job */
    probe->row->on_job(probe->state, probe->jobs[0].cookie, SHOAL_OK);
    flowprobe_settle(probe);
    expect(probe, "waits for endpoint 43 to enter (1 of 1 chunks open)", 1);
    flowprobe_grant(probe, 1, 3);
    expect(probe, "waits for the transport (1 sends, 0 receives under way)", UINT32_MAX);
    flowprobe_sent(probe, 0);
    assert_true(probe->done);
    flowprobe_close(probe);
    engine_run_close(&run);
}

/* The first of several reasons is kept, and done waits for what is in others' hands. */
static void failing(void **state)
{
    (void)state;
    engine_run run;
    engine_case c = {.collective = "worker_aggregator", .size = 3, .count = 20, .chunk_elems = 10};
    assert_true(engine_run_open(&c, &run));
    shoali_flow_args args = engine_run_args(&run, 0);
    flowprobe *probe = flowprobe_open(&shoali_engine, &args);
    shoal_data head = {.len_bytes = 40};
    uint8_t *body = shoali_engine.place(probe->state, 1, &head);
    assert_non_null(body);
    (shoali_engine.fail)(probe->state, SHOAL_EPEER, "endpoint 43 is gone");
    (shoali_engine.fail)(probe->state, SHOAL_ECANCELLED, "another reason");
    head.chunk = 1;
    assert_null(shoali_engine.place(probe->state, 1, &head));
    assert_false(probe->done);
    head.chunk = 0;
    shoali_engine.unplace(probe->state, 1, &head, body);
    assert_true(probe->done);
    assert_int_equal(probe->status, SHOAL_EPEER);
    assert_string_equal(probe->why, "endpoint 43 is gone");
    assert_true(shoali_engine.next_wake_us(probe->state) == UINT64_MAX);
    flowprobe_close(probe);
    engine_run_close(&run);
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(worker),
    CHECK_TEST(server_with_owner_job),
    CHECK_TEST(failing),
};

int main(void)
{
    return CHECK_RUN(tests);
}
