/* SPDX-License-Identifier: Apache-2.0 */
/* SwitchML as a flow over a net in virtual time: sums, bits, both forms, members that vanish,
 * values that are not finite, and packets that nobody should send. */
#include "collective/switchml.h"

#include <math.h>

#include "base/rng.h"
#include "support/check.h"
#include "support/lossy_case.h"

static const lossnet_faults none = {.delay_us = 50};
enum { LONG_US = 60 * 1000 * 1000 };

static void run_to_end(lossy_case *c)
{
    if (!lossnet_run(c->net, LONG_US)) {
        char text[200];
        for (uint32_t m = 0; m < c->run.c.size; m++)
            if (!lossnet_result_of(c->net, m)->done) {
                (void)lossnet_time_out(c->net, m, text, sizeof text);
                print_error("member %u: %s\n", m, text);
            }
        fail_msg("%s: stuck", engine_run_name(&c->run));
    }
    for (uint32_t m = 0; m < c->run.c.size; m++)
        if (lossnet_result_of(c->net, m)->status != SHOAL_OK)
            fail_msg("%s: member %u: %s", engine_run_name(&c->run), m,
                     lossnet_result_of(c->net, m)->why);
    if (lossy_wrong(c)[0] != '\0')
        fail_msg("%s: %s", engine_run_name(&c->run), lossy_wrong(c));
    engine_run_assert_same(&c->run);
}

static void sums_without_faults(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 7, 64, 211, 600};
    for (uint32_t workers = 1; workers <= 6; workers++)
        for (size_t k = 0; k < 24; k++) {
            lossy_case c;
            lossy_open(&c, workers, k / 12 * 2, counts[k % 6], 8, 1 + k % 4, k / 6 % 2 == 1,
                       k % 5 == 0 ? 1 : 0.3, &none, check_seed() + 100 * workers + k);
            run_to_end(&c);
            lossy_close(&c);
        }
}

static void sums_with_faults(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 60; k++) {
        lossy_case c;
        const uint64_t seed = check_seed() + k;
        const lossnet_faults faults = lossy_faults(seed);
        lossy_open(&c, 2 + k % 7, k % 3, 64 * 8 - k % 9, 8, 1 + k % 9, k % 2 == 1,
                   k % 4 < 2 ? 1 : 0.2, &faults, seed);
        run_to_end(&c);
        lossy_close(&c);
    }
}

/* Something is left over from an operation before. */
static void leave_residuals(const engine_run *run)
{
    for (uint32_t m = 0; m < run->c.contributors; m++)
        for (uint32_t t = 0; t < run->c.tensors; t++)
            for (size_t i = 0; i < run->tensors[t].count; i++)
                run->residuals[m][t][i] = (float)((i * 7 + m) % 11) * 0x1p-12f;
}

/* The reference: the ring. Its sums are exact, so are these; what an encode loses is kept alike. */
static void compare_with_ring(const char *codec, const lossy_case *c)
{
    engine_case made = c->run.c;
    engine_run ring;
    made.collective = "ring";
    made.push = codec;
    made.size = made.contributors;
    assert_true(engine_run_open(&made, &ring));
    leave_residuals(&ring);
    engine_run_go(&ring);
    engine_run_assert_ok(&ring);
    for (uint32_t m = 0; m < made.contributors; m++) {
        for (size_t i = 0; i < made.count; i++)
            assert_true(c->run.bufs[m][i] == ring.bufs[m][i]);
        for (uint32_t t = 0; t < made.tensors; t++)
            assert_memory_equal(c->run.residuals[m][t], ring.residuals[m][t],
                                ring.tensors[t].count * sizeof(float));
    }
    engine_run_close(&ring);
}

static void codes_are_summed_as_the_ring_sums_them(void **state)
{
    (void)state;
    static const char *const codecs[] = {"blockint:bound=2^-10", "blockint:bound=2^-6,ef=off",
                                         "blockint:bound=0.3"};
    static const char *const specs[] = {"switchml:block=8,slots=3", "switchml:block=16,dedicated",
                                        "switchml:block=8,slots=2,sparse",
                                        "switchml:block=40,dedicated,sparse"};
    for (uint64_t k = 0; k < 48; k++) {
        lossy_case c = {.block = 8};
        const uint64_t seed = check_seed() + k;
        const uint32_t workers = 2 + k % 7;
        const lossnet_faults faults = lossy_faults(seed);
        const engine_case made = {.collective = specs[k % 4],
                                  .push = codecs[k % 3],
                                  .size = workers + k % 2, /* every second spec is dedicated */
                                  .contributors = workers,
                                  .count = 1 + (k * 37) % 600,
                                  .tensors = 1 + k % 3,
                                  .input_seed = seed,
                                  .order_seed = seed,
                                  .unit = 1.0f / 4096,
                                  .feedback = true};
        assert_true(engine_run_open(&made, &c.run));
        leave_residuals(&c.run);
        lossy_start(&c, &faults, seed);
        assert_true(lossnet_run(c.net, LONG_US));
        for (uint32_t m = 0; m < made.size; m++)
            assert_int_equal(lossnet_result_of(c.net, m)->status, SHOAL_OK);
        compare_with_ring(codecs[k % 3], &c);
        lossy_close(&c);
    }
}

/* Once more the same inputs through other losses: the same bits. */
static void sums_repeat(void **state)
{
    (void)state;
    float first[300];
    for (uint64_t k = 0; k < 5; k++) {
        lossy_case c;
        const lossnet_faults faults = lossy_faults(k);
        lossy_open(&c, 5, 2, 300, 8, 4, false, 1, &faults, 11);
        run_to_end(&c);
        if (k == 0)
            memcpy(first, c.run.bufs[0], sizeof first);
        assert_memory_equal(first, c.run.bufs[0], sizeof first);
        lossy_close(&c);
    }
}

/* Sparse: each worker sends its own blocks once, and headers; dense: all of them. */
static void bytes_are_what_they_should_be(void **state)
{
    (void)state;
    for (int sparse = 0; sparse < 2; sparse++) {
        lossy_case c;
        lossy_open(&c, 4, 1, 100 * 8, 8, 4, sparse == 1, 0.25, &none, 5);
        uint64_t own = 0;
        for (size_t b = 0; b < 100; b++)
            own += c.run.inputs[0][8 * b] != 0 || c.run.inputs[0][8 * b + 1] != 0;
        run_to_end(&c);
        const shoali_flow_stats *stats = &lossnet_result_of(c.net, 0)->stats;
        assert_int_equal(stats->sent_elems, 8 * own); /* blocks that are zero are headers */
        uint64_t sent[2] = {0}, received[2] = {0};    /* by all: nothing is lost here */
        for (uint32_t i = 0; i < c.run.c.size; i++) {
            const shoali_flow_stats *each = &lossnet_result_of(c.net, i)->stats;
            sent[0] += each->sent_payload_bytes, received[0] += each->received_payload_bytes;
            sent[1] += each->sent_elems, received[1] += each->received_elems;
        }
        assert_true(sent[0] > 0 && sent[1] > 0);
        assert_true(received[0] == sent[0] && received[1] == sent[1]);
        const uint64_t headers = (stats->sent_payload_bytes - 4 * stats->sent_elems) /
                                 SHOALI_PACKET_BYTES;
        if (sparse == 0)
            assert_int_equal(headers, 100 + 4); /* each block, and the first round of each slot */
        else
            assert_true(headers < 100); /* what is zero everywhere is skipped */
        lossy_close(&c);
    }
}

static uint64_t sent_by_all(const lossy_case *c)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < c->run.c.size; i++)
        bytes += lossnet_result_of(c->net, i)->stats.sent_payload_bytes;
    return bytes;
}

/* Its results came while it did not run: it takes them, and asks for none of them. */
static void who_did_not_run_asks_for_nothing_that_is_there(void **state)
{
    (void)state;
    uint64_t bytes = 0, done_us = 0;
    for (int stalled = 0; stalled < 2; stalled++) {
        lossy_case c;
        lossy_open(&c, 2, 1, 64 * 8, 8, 64, false, 1, &none, 5);
        if (stalled)
            lossnet_stall(c.net, 0, done_us - none.delay_us / 2, 10 * 1000 * 1000);
        run_to_end(&c);
        assert_true(!stalled || lossnet_result_of(c.net, 0)->done_us > done_us + 1000 * 1000);
        assert_true(!stalled || sent_by_all(&c) == bytes);
        bytes = sent_by_all(&c);
        done_us = lossnet_result_of(c.net, 0)->done_us;
        lossy_close(&c);
    }
}

static uint64_t elems_of_all(const lossy_case *c)
{
    uint64_t elems = 0;
    for (uint32_t i = 0; i < c->run.c.size; i++)
        elems += lossnet_result_of(c->net, i)->stats.sent_elems;
    return elems;
}

/* An aggregator that did not run finds what is sent anew, and questions, behind what it waits for:
 * each sum goes out once. */
static void whoever_sums_late_answers_once(void **state)
{
    (void)state;
    uint64_t bytes = 0, elems = 0;
    for (int stalled = 0; stalled < 2; stalled++) {
        lossy_case c;
        lossy_open(&c, 2, 1, 64 * 8, 8, 64, false, 1, &none, 5);
        if (stalled)
            lossnet_stall(c.net, 2, 6 * none.delay_us + none.delay_us / 2, 1000 * 1000);
        run_to_end(&c);
        assert_true(!stalled || sent_by_all(&c) > bytes); /* the workers have asked */
        if (stalled)
            assert_int_equal(elems_of_all(&c), elems);
        bytes = sent_by_all(&c);
        elems = elems_of_all(&c);
        lossy_close(&c);
    }
}

static void not_finite_is_known_to_all(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 8; k++) {
        lossy_case c;
        const lossnet_faults faults = lossy_faults(k);
        const size_t at = 17 + 31 * k;
        lossy_open(&c, 4, k % 3, 300, 8, 3, k % 2 == 1, 0.5, &faults, 3 + k);
        c.run.bufs[2][at] = k % 2 == 0 ? NAN : -INFINITY; /* before time has passed */
        assert_true(lossnet_run(c.net, LONG_US));
        for (uint32_t m = 0; m < c.run.c.size; m++) {
            const lossnet_result *r = lossnet_result_of(c.net, m);
            if (m >= 4 && r->status == SHOAL_OK)
                continue; /* another shard's aggregator */
            assert_int_equal(r->status, SHOAL_ENOTFINITE);
            assert_int_equal(r->origin.endpoint, c.run.endpoints[2]);
            for (uint32_t t = 0; t < 3; t++)
                if (c.run.tensors[t].key == r->origin.key)
                    assert_int_equal(c.run.tensors[t].offset + r->origin.index, at);
        }
        lossy_close(&c);
    }
}

/* At the deadline everyone that is left names who has vanished. */
static void the_dead_are_named(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 8, 0};
    size_t named = 0;
    for (uint32_t k = 0; k < 60; k++) {
        lossy_case c;
        char text[200];
        const lossnet_faults faults = lossy_faults(k % 2 == 0 ? k : 0);
        const uint32_t dead = k % 5;
        lossy_open(&c, 4, 1, 64 * 8, 8, 8, false, 1, &faults, shoali_rng_next(&rng));
        if (!lossnet_run(c.net, shoali_rng_next(&rng) % 60000)) {
            lossnet_kill(c.net, dead);
            (void)lossnet_run(c.net, LONG_US);
        }
        for (uint32_t m = 0; m < 5; m++) {
            if (m == dead || lossnet_result_of(c.net, m)->done)
                continue;
            const uint32_t culprit = lossnet_time_out(c.net, m, text, sizeof text);
            if (strstr(text, "set up") != NULL)
                continue; /* before that only the aggregator knows; a comm spreads what it says */
            if (culprit != dead)
                fail_msg("case %u: member %u blames %u, but %u is dead: %s", k, m, culprit, dead,
                         text);
            named++;
        }
        lossy_close(&c);
    }
    assert_true(named > 100);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    engine_run run;
    engine_case c = {.collective = "switchml:block=8", .size = 256, .count = 10};
    assert_true(engine_run_open(&c, &run));
    lossnet *net = lossnet_create(256, &none, 1);
    shoali_flow_args args = engine_run_args(&run, 0);
    assert_status(lossnet_start(net, engine_run_row(&run), &args, 1472), SHOAL_EINVAL);
    assert_error_has("256 workers");
    assert_error_has("at most 255");
    args.contributors = 2;
    args.size = 2;
    args.reduce = SHOAL_MAX;
    assert_status(lossnet_start(net, engine_run_row(&run), &args, 1472), SHOAL_EINVAL);
    args.reduce = SHOAL_SUM;
    args.size = 3; /* one that contributes nothing */
    assert_status(lossnet_start(net, engine_run_row(&run), &args, 1472), SHOAL_EINVAL);
    assert_error_has("dedicated");
    lossnet_destroy(net);
    engine_run_close(&run);
}

/* A block that is larger than some member's datagrams: all hear it. */
static void a_small_mtu_is_an_error(void **state)
{
    (void)state;
    engine_run run;
    const engine_case c = {.collective = "switchml:block=256", .size = 2, .count = 1000};
    assert_true(engine_run_open(&c, &run));
    lossnet *net = lossnet_create(2, &none, 1);
    for (uint32_t m = 0; m < 2; m++) {
        const shoali_flow_args args = engine_run_args(&run, m);
        assert_ok(lossnet_start(net, engine_run_row(&run), &args, m == 0 ? 1472 : 500));
    }
    (void)lossnet_run(net, 1000 * 1000);
    assert_int_equal(lossnet_result_of(net, 0)->status, SHOAL_EINVAL);
    assert_non_null(strstr(lossnet_result_of(net, 0)->why, "MTU"));
    lossnet_destroy(net);
    engine_run_close(&run);
}

/* Strangers, other operations, packets of nowhere: the sums stay right. */
static void hostile_packets(void **state)
{
    (void)state;
    lossy_case c;
    shoali_rng rng = {check_seed(), 1, 0};
    lossy_open(&c, 3, 1, 64 * 8, 8, 4, false, 1, &none, 2);
    uint8_t bytes[SHOALI_PACKET_BYTES + 40];
    for (uint64_t t = 200; !lossnet_run(c.net, t); t += 20) {
        const shoali_switchml *f = lossnet_state(c.net, 3);
        shoali_packet p = {.kind = (uint8_t)(shoali_rng_next(&rng) % 6),
                           .worker = (uint8_t)(shoali_rng_next(&rng) % 5),
                           .slot = (uint16_t)(shoali_rng_next(&rng) % 6),
                           .exponent = (int16_t)shoali_rng_next(&rng),
                           .key = f != NULL && shoali_rng_next(&rng) % 2 == 0 ? f->pool.share.key
                                                                              : 77,
                           .round = (uint32_t)(shoali_rng_next(&rng) % 100) + 100,
                           .next = (uint32_t)(shoali_rng_next(&rng) % 70)};
        const uint32_t to = (uint32_t)(shoali_rng_next(&rng) % 4);
        shoali_packet_encode(&p, bytes);
        if (lossnet_state(c.net, to) != NULL)
            (void)lossnet_inject(c.net, (uint32_t)(shoali_rng_next(&rng) % 4), to, bytes,
                                 shoali_rng_next(&rng) % sizeof bytes);
    }
    run_to_end(&c);
    lossy_close(&c);
}

/* Where most rounds lose a packet of somebody, waits have to follow round trips, not each other. */
static void heavy_loss_takes_round_trips(void **state)
{
    (void)state;
    static const uint64_t delays_us[] = {50, 5000},
                          limits_us[] = {15 * 1000 * 1000, 80 * 1000 * 1000};
    for (size_t k = 0; k < 2; k++) {
        lossy_case c;
        const lossnet_faults faults = {
            .loss = 0.3, .delay_us = delays_us[k], .jitter_us = delays_us[k] / 5};
        lossy_open(&c, 5, 1, 2000 * 8, 8, 16, false, 1, &faults, 3);
        if (!lossnet_run(c.net, limits_us[k]))
            fail_msg("not over after %g s", (double)limits_us[k] * 1e-6);
        assert_string_equal(lossy_wrong(&c), "");
        lossy_close(&c);
    }
}

/* Virtual milliseconds until all of 8 workers have the sum of so many packets: mean of seeds. */
static double lossy_ms(const lossnet_faults *faults, uint32_t seeds, uint32_t packets,
                       uint32_t block)
{
    double sum = 0;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        lossy_case c;
        uint64_t most_us = 0;
        lossy_open(&c, 8, 8, (size_t)packets * block, block, 8, false, 1, faults,
                   check_seed() + seed);
        run_to_end(&c);
        for (uint32_t m = 0; m < 8; m++)
            if (lossnet_result_of(c.net, m)->done_us > most_us)
                most_us = lossnet_result_of(c.net, m)->done_us;
        sum += (double)most_us / 1000;
        lossy_close(&c);
    }
    return sum / seeds;
}

/* Of three packets one is lost: waits do not grow out of proportion. Eight rounds of 2 ms each, at
 * least; with waits that double from the first on, and each worker by its timer alone, 2300 ms;
 * with the patience that few losses ask for 600 ms, ten times what 1 % takes. */
static void a_third_lost_is_no_standstill(void **state)
{
    (void)state;
    enum { SEEDS = 6, PACKETS = 512, BLOCK = 16 };
    lossnet_faults faults = {.loss = 0.01, .delay_us = 1000, .jitter_us = 250};
    const double little = lossy_ms(&faults, SEEDS, PACKETS, BLOCK);
    faults.loss = 0.3;
    const double much = lossy_ms(&faults, SEEDS, PACKETS, BLOCK);
    if (!(little < 100 && much < 5 * little))
        fail_msg("%.0f ms at 1 %%, %.0f ms at 30 %%", little, much);
    print_message("%.0f ms at 1 %%, %.0f ms at 30 %%\n", little, much);
}

/* The same on links of 50 Mbit/s, whose queues grow with what is asked for: 0.3 ms each way, and
 * threads that sleep for whole milliseconds, as in the lab. Waits that do not see that it is they
 * who fill the queue take 500 times as long as at 1 %. */
static void a_third_lost_does_not_clog_the_links(void **state)
{
    (void)state;
    enum { SEEDS = 2, PACKETS = 512, BLOCK = 362 };
    lossnet_faults faults = {.loss = 0.01,
                             .delay_us = 300,
                             .jitter_us = 75,
                             .rate_bits = 50 * 1000 * 1000,
                             .tick_us = 1000};
    const double little = lossy_ms(&faults, SEEDS, PACKETS, BLOCK);
    faults.loss = 0.3;
    const double much = lossy_ms(&faults, SEEDS, PACKETS, BLOCK);
    if (!(much < 5 * little))
        fail_msg("%.0f ms at 1 %%, %.0f ms at 30 %%", little, much);
    print_message("%.0f ms at 1 %%, %.0f ms at 30 %%\n", little, much);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(sums_without_faults),
        CHECK_TEST(sums_with_faults),
        CHECK_TEST(codes_are_summed_as_the_ring_sums_them),
        CHECK_TEST(sums_repeat),
        CHECK_TEST(bytes_are_what_they_should_be),
        CHECK_TEST(who_did_not_run_asks_for_nothing_that_is_there),
        CHECK_TEST(whoever_sums_late_answers_once),
        CHECK_TEST(not_finite_is_known_to_all),
        CHECK_TEST(the_dead_are_named),
        CHECK_TEST(what_cannot_be_is_refused),
        CHECK_TEST(a_small_mtu_is_an_error),
        CHECK_TEST(hostile_packets),
        CHECK_TEST(heavy_loss_takes_round_trips),
        CHECK_TEST(a_third_lost_is_no_standstill),
        CHECK_TEST(a_third_lost_does_not_clog_the_links),
    };
    return CHECK_RUN(tests);
}
