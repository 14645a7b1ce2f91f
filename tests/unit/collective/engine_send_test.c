/* SPDX-License-Identifier: Apache-2.0 */
/* Frames out: who may be sent to, in which order, how many at a time, and what a body is. */
#include "base/arena.h"
#include "support/check.h"
#include "support/enginecase.h"
#include "support/flowprobe.h"
#include "support/toycodec.h"

/* The lone server of a worker-aggregator: member 0 of 3, one block of 10 chunks. */
static const engine_case server_case = {
    .collective = "worker_aggregator:ahead=0", .size = 3, .count = 160, .chunk_elems = 16};

static flowprobe *open_member(engine_run *run, const engine_case *c, uint32_t member)
{
    assert_true(engine_run_open(c, run));
    shoali_flow_args args = engine_run_args(run, member);
    return flowprobe_open(&shoali_engine, &args);
}

static void close_all(engine_run *run, flowprobe *probe)
{
    flowprobe_close(probe);
    engine_run_close(run);
}

/* A worker sends nothing before the grant, then at most four frames, each with the server's
 * slot. */
static void grant_and_flights(void **state)
{
    (void)state;
    engine_run run;
    flowprobe *probe = open_member(&run, &server_case, 1);
    assert_int_equal(probe->send_count, 0);
    assert_true(shoali_engine.sends_to(probe->state, 0));
    assert_true(shoali_engine.receives_from(probe->state, 0));
    assert_false(shoali_engine.sends_to(probe->state, 2));
    assert_false(shoali_engine.receives_from(probe->state, 2));
    assert_false(shoali_engine.sends_to(probe->state, 7));
    flowprobe_grant(probe, 2, 1); /* from a member that nothing goes to */
    assert_int_equal(probe->send_count, 0);
    flowprobe_grant(probe, 0, 4711);
    flowprobe_grant(probe, 0, 4712); /* a second grant changes nothing */
    assert_int_equal(probe->send_count, 4);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(probe->send_count, i + 4 < 10 ? i + 4 : 10);
        assert_int_equal(probe->sends[i].head.slot, 4711);
        assert_int_equal(probe->sends[i].head.chunk, i);
        assert_int_equal(probe->sends[i].head.match, 0);
        flowprobe_sent(probe, i);
    }
    flowprobe_sent(probe, 3); /* a cookie that is no longer out */
    probe->row->on_sent(probe->state, 0, UINT64_MAX);
    close_all(&run, probe);
}

/* ahead=3: a fourth chunk waits until one has come back, whichever; a server is never held up. */
static void nobody_runs_ahead(void **state)
{
    (void)state;
    engine_run run;
    engine_case c = server_case;
    c.collective = "worker_aggregator:ahead=3";
    flowprobe *probe = open_member(&run, &c, 1);
    float sum[16] = {0};
    flowprobe_grant(probe, 0, 1);
    for (size_t back = 0; back <= 7; back++) {
        for (size_t i = 0; i < probe->send_count; i++)
            flowprobe_sent(probe, i);
        assert_int_equal(probe->send_count, 3 + back);
        if (back < 7)
            assert_true(flowprobe_receive(
                probe, 0, (shoal_data){.chunk = (uint32_t)back, .len_bytes = 64}, sum));
    }
    close_all(&run, probe);

    probe = open_member(&run, &c, 0);
    for (uint32_t chunk = 0; chunk < 10; chunk++)
        for (uint32_t worker = 1; worker <= 2; worker++)
            assert_true(flowprobe_receive(probe, worker,
                                          (shoal_data){.chunk = chunk, .len_bytes = 64}, sum));
    flowprobe_grant(probe, 2, 1);
    for (size_t i = 0; i < 10; i++)
        flowprobe_sent(probe, i);
    assert_int_equal(probe->send_count, 10);
    close_all(&run, probe);
}

/* With identity the body is the buffer itself. */
static void identity_sends_in_place(void **state)
{
    (void)state;
    engine_run run;
    flowprobe *probe = open_member(&run, &server_case, 1);
    flowprobe_grant(probe, 0, 1);
    for (size_t i = 0; i < probe->send_count; i++) {
        assert_ptr_equal(probe->sends[i].body, run.bufs[1] + 16 * i);
        assert_int_equal(probe->sends[i].head.len_bytes, 64);
        assert_int_equal(probe->sends[i].head.flags, 0);
    }
    close_all(&run, probe);
}

static void receive_chunk(flowprobe *probe, uint32_t peer, uint32_t chunk, const float *values)
{
    shoal_data head = {.chunk = chunk, .len_bytes = 64};
    assert_true(flowprobe_receive(probe, peer, head, values));
}

/* Chunks come in backwards; what is ready goes out by (step, chunk), not by arrival. */
static void order_is_step_then_chunk(void **state)
{
    (void)state;
    engine_run run;
    flowprobe *probe = open_member(&run, &server_case, 0);
    float ones[16];
    for (size_t i = 0; i < 16; i++)
        ones[i] = 1;
    for (uint32_t chunk = 10; chunk-- > 0;) {
        receive_chunk(probe, 1, chunk, ones);
        receive_chunk(probe, 2, chunk, ones);
    }
    assert_int_equal(probe->send_count, 0);
    flowprobe_grant(probe, 2, 9); /* member 1 is late: 2 is served all the same */
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(probe->sends[i].peer, 2);
        assert_int_equal(probe->sends[i].head.chunk, i);
        flowprobe_sent(probe, i);
    }
    assert_int_equal(probe->send_count, 10);
    flowprobe_grant(probe, 1, 8);
    assert_int_equal(probe->send_count, 14);
    close_all(&run, probe);
}

/* One PULL encode serves every member: the same bytes, kept until all have been sent. */
static void pull_bytes_are_kept(void **state)
{
    (void)state;
    engine_run run;
    shoal_codec *toy = toy_codec_open("toy");
    engine_case c = {.collective = "gather",
                     .push_codec = toy,
                     .pull_codec = toy,
                     .size = 4,
                     .count = 32,
                     .chunk_elems = 16};
    flowprobe *probe = open_member(&run, &c, 1);
    for (uint32_t peer = 0; peer < 4; peer++)
        if (peer != 1)
            flowprobe_grant(probe, peer, peer);
    assert_int_equal(probe->send_count, 6);
    for (size_t i = 0; i < 6; i++)
        for (size_t k = 0; k < i; k++) {
            bool same = probe->sends[i].head.chunk == probe->sends[k].head.chunk;
            assert_true(same == (probe->sends[i].body == probe->sends[k].body));
        }
    close_all(&run, probe);
    shoal_codec_close(toy);
}

/* Counters: what went out is what the schedule costs. */
static void counts_what_the_list_costs(void **state)
{
    (void)state;
    const char *spec;
    for (size_t i = 0; (spec = engine_spec_at(i)) != NULL; i++) {
        engine_run run;
        engine_case c = {.collective = spec,
                         .kind = engine_spec_rooted(spec) ? SHOAL_BROADCAST : SHOAL_ALL_REDUCE,
                         .size = 6 + engine_spec_servers(spec),
                         .contributors = 6,
                         .count = 1001,
                         .order_seed = check_seed()};
        if (!engine_run_open(&c, &run))
            continue;
        engine_run_go(&run);
        for (uint32_t m = 0; m < c.size; m++) {
            shoal_schedule schedule;
            shoali_cost cost;
            shoal_arena *arena = shoali_arena_create(4096);
            shoal_schedule_args args = {c.size, 6, m, 0, NULL, NULL};
            assert_ok(shoali_collective_build(&run.collective, c.kind, &args, arena, &schedule));
            shoali_schedule_cost(&schedule, c.count, &cost);
            const shoali_flow_stats *stats = &memnet_result_of(run.net, m)->stats;
            assert_int_equal(stats->sent_elems, cost.sent_elems);
            assert_int_equal(stats->received_elems, cost.received_elems);
            assert_int_equal(stats->sent_payload_bytes, 4 * cost.sent_elems);
            assert_int_equal(stats->received_payload_bytes, 4 * cost.received_elems);
            shoali_arena_destroy(arena);
        }
        engine_run_close(&run);
    }
}

/* Round 1 of member 1 sends two chunks to 3, round 2 one to 0, which waits for both. */
static void earlier_rounds_have_the_link_first(void **state)
{
    (void)state;
    engine_run run;
    const engine_case c = {
        .collective = "halving_doubling", .size = 4, .count = 64, .chunk_elems = 16};
    float ones[16] = {1};
    flowprobe *probe = open_member(&run, &c, 1);
    flowprobe_grant(probe, 3, 1);
    flowprobe_grant(probe, 0, 2);
    assert_int_equal(probe->send_count, 2);
    receive_chunk(probe, 3, 0, ones);
    flowprobe_sent(probe, 0);
    assert_int_equal(probe->send_count, 2);
    flowprobe_sent(probe, 1);
    assert_int_equal(probe->send_count, 3);
    assert_int_equal(probe->sends[1].peer, 3);
    assert_int_equal(probe->sends[2].peer, 0);
    close_all(&run, probe);
}

/* ... unless 0 and 3 are reached by links of their own: then nobody is in anybody's way. */
static void rounds_on_other_links_do_not_wait(void **state)
{
    (void)state;
    engine_run run;
    const engine_case c = {
        .collective = "halving_doubling", .size = 4, .count = 64, .chunk_elems = 16};
    uint64_t links[64] = {0};
    float ones[16] = {1};
    assert_true(engine_run_open(&c, &run));
    for (uint32_t m = 0; m < 4; m++)
        links[run.endpoints[m]] = m == 3 ? 2 : 5;
    shoali_flow_args args = engine_run_args(&run, 1);
    args.links = links;
    flowprobe *probe = flowprobe_open(&shoali_engine, &args);
    flowprobe_grant(probe, 3, 1);
    flowprobe_grant(probe, 0, 2);
    assert_int_equal(probe->send_count, 2);
    receive_chunk(probe, 3, 0, ones);
    assert_int_equal(probe->send_count, 3);
    assert_int_equal(probe->sends[2].peer, 0);
    for (uint64_t i = 0; i < 3; i++)
        flowprobe_sent(probe, i);
    close_all(&run, probe);
}

/* A row that sends a block in place and then owns it. */
static shoal_status build_send_then_own(const shoal_schedule_args *args, shoal_arena *arena,
                                        shoal_schedule *schedule_out)
{
    shoali_steps steps;
    shoali_steps_begin(arena, &steps);
    shoali_steps_add(&steps, (shoal_step){SHOAL_SEND, SHOAL_PUSH, 1, 1 - args->me, 0, 1, 1});
    shoali_steps_add(&steps, (shoal_step){SHOAL_OWN, SHOAL_PULL, 1, args->me, 0, 1, 1});
    return shoali_steps_end(&steps, 1, 1, schedule_out);
}

/* Who writes (here an owner job) waits until nobody reads. */
static void writers_wait_for_readers(void **state)
{
    (void)state;
    static const shoali_collective_row row = {.name = "odd", .build = build_send_then_own};
    const shoali_collective odd = {.row = &row, .spec = "odd"};
    engine_run run;
    engine_case c = {.collective = "ring", .size = 2, .count = 10, .owner_job = true};
    assert_true(engine_run_open(&c, &run));
    shoali_flow_args args = engine_run_args(&run, 0);
    args.collective = &odd;
    flowprobe *probe = flowprobe_open(&shoali_engine, &args);
    flowprobe_grant(probe, 1, 1);
    assert_int_equal(probe->send_count, 1);
    assert_int_equal(probe->job_count, 0);
    flowprobe_sent(probe, 0);
    assert_int_equal(probe->job_count, 1);
    probe->row->on_job(probe->state, probe->jobs[0].cookie, SHOAL_OK);
    assert_true(probe->done);
    assert_int_equal(probe->status, SHOAL_OK);
    close_all(&run, probe);
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(grant_and_flights),
    CHECK_TEST(identity_sends_in_place),
    CHECK_TEST(order_is_step_then_chunk),
    CHECK_TEST(pull_bytes_are_kept),
    CHECK_TEST(counts_what_the_list_costs),
    CHECK_TEST(writers_wait_for_readers),
    CHECK_TEST(nobody_runs_ahead),
    CHECK_TEST(earlier_rounds_have_the_link_first),
    CHECK_TEST(rounds_on_other_links_do_not_wait),
};

int main(void)
{
    return CHECK_RUN(tests);
}
