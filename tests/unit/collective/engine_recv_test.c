/* SPDX-License-Identifier: Apache-2.0 */
/* Frames in: where a body goes, that arrivals wait for their turn, and that nothing a stranger can
 * write into a head does more than be refused. */
#include <math.h>

#include "base/rng.h"
#include "support/check.h"
#include "support/enginecase.h"
#include "support/flowprobe.h"
#include "support/toycodec.h"

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

/* Member 1 of a broadcast receives floats straight into its buffer. */
static void identity_lands_in_place(void **state)
{
    (void)state;
    engine_run run;
    engine_case c = {.collective = "broadcast",
                     .kind = SHOAL_BROADCAST,
                     .size = 2,
                     .count = 100,
                     .chunk_elems = 30};
    flowprobe *probe = open_member(&run, &c, 1);
    shoal_data head = {.chunk = 3, .len_bytes = 40};
    uint8_t *at = shoali_engine.place(probe->state, 0, &head);
    assert_ptr_equal(at, run.bufs[1] + 90);
    shoali_engine.unplace(probe->state, 0, &head, at);
    assert_true(flowprobe_receive(probe, 0, head, run.inputs[0] + 90));
    for (uint32_t chunk = 0; chunk < 3; chunk++) {
        head = (shoal_data){.chunk = chunk, .len_bytes = 120};
        assert_false(probe->done);
        assert_true(flowprobe_receive(probe, 0, head, run.inputs[0] + 30 * (size_t)chunk));
    }
    assert_true(probe->done);
    assert_int_equal(probe->status, SHOAL_OK);
    assert_memory_equal(run.bufs[1], run.inputs[0], 100 * sizeof(float));
    close_all(&run, probe);
}

/* A frame before its turn never touches the buffer: here the sum, while partial sums are still
 * due. */
static void early_frames_wait(void **state)
{
    (void)state;
    engine_run run;
    engine_case c = {.collective = "ring", .size = 3, .count = 30};
    flowprobe *probe = open_member(&run, &c, 1);
    const float *buf = run.bufs[1];
    for (uint32_t match = 2; match < 4; match++)
        for (uint32_t chunk = 0; chunk < 3; chunk++) {
            shoal_data head = {.match = match, .chunk = chunk, .len_bytes = 40};
            const uint8_t *at = shoali_engine.place(probe->state, 0, &head);
            assert_true(at == NULL || at + 40 <= (const uint8_t *)buf ||
                        at >= (const uint8_t *)(buf + 30));
        }
    close_all(&run, probe);
}

/* What a transport adds itself: only the sum whose turn it is, never a maximum, and once; half a
 * sum stays half. */
static void sums_are_made_on_the_way(void **state)
{
    (void)state;
    engine_run run;
    engine_case c = {.collective = "worker_aggregator", .size = 3, .count = 4};
    shoal_data head = {.len_bytes = 16};
    flowprobe *probe = open_member(&run, &c, 0);
    assert_null(shoali_engine.place_add(probe->state, 2, &head)); /* member 1 comes first */
    float *sum = shoali_engine.place_add(probe->state, 1, &head);
    assert_ptr_equal(sum, run.bufs[0]);
    assert_null(shoali_engine.place_add(probe->state, 1, &head));
    assert_null(shoali_engine.place(probe->state, 1, &head));
    for (int i = 0; i < 4; i++)
        sum[i] += run.inputs[1][i];
    uint8_t *body = (uint8_t *)sum;
    shoali_engine.on_frames(probe->state, 1, &head, &body, 1);
    assert_true(flowprobe_receive(probe, 2, head, run.inputs[2]));
    flowprobe_grant(probe, 1, 1);
    for (int i = 0; i < 4; i++)
        assert_true(((const float *)probe->sends[0].body)[i] ==
                    run.inputs[0][i] + run.inputs[1][i] + run.inputs[2][i]);
    close_all(&run, probe);

    probe = open_member(&run, &c, 0);
    sum = shoali_engine.place_add(probe->state, 1, &head);
    assert_non_null(sum);
    shoali_engine.unplace(probe->state, 1, &head, (uint8_t *)sum);
    assert_null(shoali_engine.place_add(probe->state, 1, &head));
    assert_null(shoali_engine.place(probe->state, 1, &head));
    (probe->row->fail)(probe->state, SHOAL_EPEER, "rank 1 was lost");
    assert_true(probe->done);
    close_all(&run, probe);

    assert_true(engine_run_open(&c, &run));
    shoali_flow_args args = engine_run_args(&run, 0);
    args.reduce = SHOAL_MAX;
    probe = flowprobe_open(&shoali_engine, &args);
    assert_null(shoali_engine.place_add(probe->state, 1, &head));
    close_all(&run, probe);

    probe = open_member(&run, &c, 0);
    run.bufs[0][2] = INFINITY; /* flagged: the frame is placed, and dropped */
    assert_null(shoali_engine.place_add(probe->state, 1, &head));
    close_all(&run, probe);
}

/* A server adds its workers in the order of its list, whoever comes first. */
static void additions_follow_the_list(void **state)
{
    (void)state;
    const float big[2] = {1e8f, 1e8f}, small[2] = {1, 1}, minus[2] = {-1e8f, -1e8f};
    const float *values[] = {NULL, big, minus, small};
    static const uint32_t orders[][3] = {{1, 2, 3}, {3, 2, 1}, {2, 3, 1}, {3, 1, 2}};
    for (size_t o = 0; o < 4; o++) {
        engine_run run;
        engine_case c = {.collective = "worker_aggregator", .size = 4, .count = 2};
        flowprobe *probe = open_member(&run, &c, 0);
        run.bufs[0][0] = run.bufs[0][1] = 3;
        shoal_data head = {.len_bytes = 8};
        for (size_t i = 0; i < 3; i++)
            assert_true(flowprobe_receive(probe, orders[o][i], head, values[orders[o][i]]));
        /* ((3 + 1e8) - 1e8) + 1: the sum 3 + 1e8 is rounded to a multiple of 8 */
        assert_true(run.bufs[0][0] == 1.0f);
        close_all(&run, probe);
    }
}

static void refused_heads(void **state)
{
    (void)state;
    engine_run run;
    engine_case c = {.collective = "worker_aggregator", .size = 3, .count = 100, .chunk_elems = 30};
    flowprobe *probe = open_member(&run, &c, 0);
    const shoal_data good = {.chunk = 3, .len_bytes = 40};
    shoal_data bad = good;
    bad.match = 1;
    assert_false(flowprobe_receive(probe, 1, bad, run.inputs[1]));
    bad = good;
    bad.chunk = 4;
    assert_false(flowprobe_receive(probe, 1, bad, run.inputs[1]));
    bad = good;
    bad.len_bytes = 44;
    assert_false(flowprobe_receive(probe, 1, bad, run.inputs[1]));
    bad.len_bytes = 36;
    assert_false(flowprobe_receive(probe, 1, bad, run.inputs[1]));
    bad = good;
    bad.flags = 2;
    assert_false(flowprobe_receive(probe, 1, bad, run.inputs[1]));
    bad.flags = SHOAL_DATA_NOT_FINITE;
    assert_false(flowprobe_receive(probe, 1, bad, run.inputs[1]));
    assert_false(flowprobe_receive(probe, 0, good, run.inputs[1]));
    assert_false(flowprobe_receive(probe, 3, good, run.inputs[1]));
    assert_false(flowprobe_receive(probe, UINT32_MAX, good, run.inputs[1]));
    assert_true(flowprobe_receive(probe, 1, good, run.inputs[1]));
    assert_false(flowprobe_receive(probe, 1, good, run.inputs[1])); /* twice */
    uint8_t *at = shoali_engine.place(probe->state, 2, &good);
    assert_non_null(at);
    assert_null(shoali_engine.place(probe->state, 2, &good)); /* twice at the same time */
    uint8_t other[40];
    uint8_t *not_placed = other;
    shoali_engine.on_frames(probe->state, 2, &good, &not_placed, 1);
    shoali_engine.unplace(probe->state, 2, &good, not_placed);
    assert_null(shoali_engine.place(probe->state, 2, &good));
    shoali_engine.unplace(probe->state, 2, &good, at);
    assert_true(flowprobe_receive(probe, 2, good, run.inputs[2]));
    close_all(&run, probe);
}

/* Any bytes under any head: refused, or the operation fails with a reason; never a crash. */
static void hostile_frames(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 1, 0};
    size_t accepted = 0, failures = 0;
    for (int round = 0; round < 300; round++) {
        engine_run run;
        shoal_codec *toy = toy_codec_open(round % 3 == 0 ? "toy:slots" : "toy:ef");
        engine_case c = {.collective = round % 3 == 0 ? "gather" : "ring",
                         .push_codec = toy,
                         .pull_codec = toy,
                         .size = 3,
                         .count = 60,
                         .chunk_elems = 8,
                         .feedback = true};
        flowprobe *probe = open_member(&run, &c, 1);
        flowprobe_grant(probe, 2, 1);
        for (int i = 0; i < 200 && !probe->done; i++) {
            uint8_t body[64];
            shoal_data head = {.match = (uint32_t)shoali_rng_next(&rng) % 5,
                               .chunk = (uint32_t)shoali_rng_next(&rng) % 30,
                               .len_bytes = (uint32_t)shoali_rng_next(&rng) % 65,
                               .flags = (uint16_t)(shoali_rng_next(&rng) % 8 == 0)};
            for (size_t k = 0; k < sizeof body; k++)
                body[k] = (uint8_t)shoali_rng_next(&rng);
            if (head.flags != 0)
                head.len_bytes = SHOAL_DATA_NOT_FINITE * 24;
            accepted += flowprobe_receive(probe, (uint32_t)shoali_rng_next(&rng) % 4, head, body);
            if (probe->send_count > 0)
                flowprobe_sent(probe, shoali_rng_next(&rng) % probe->send_count);
        }
        for (size_t i = 0; i < probe->send_count; i++)
            flowprobe_sent(probe, i);
        if (probe->done && probe->status != SHOAL_ENOTFINITE) {
            failures++;
            assert_int_equal(probe->status, SHOAL_ECORRUPT);
            assert_non_null(strstr(probe->why, "from endpoint") != NULL
                                ? probe->why
                                : strstr(probe->why, "slot"));
            for (uint32_t t = 0; t < run.c.tensors; t++)
                for (size_t k = 0; k < run.tensors[t].count; k++)
                    assert_true(run.residuals[1][t][k] == 0);
        }
        close_all(&run, probe);
        shoal_codec_close(toy);
    }
    assert_true(accepted > 100 && failures > 100);
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(identity_lands_in_place),
    CHECK_TEST(early_frames_wait),
    CHECK_TEST(sums_are_made_on_the_way),
    CHECK_TEST(additions_follow_the_list),
    CHECK_TEST(refused_heads),
    CHECK_TEST(hostile_frames),
};

int main(void)
{
    return CHECK_RUN(tests);
}
