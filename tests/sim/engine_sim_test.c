/* SPDX-License-Identifier: Apache-2.0 */
/* The real engine with real bytes over simulated links: right, as fast as the formulas say, the
 * same every time, and over when a member is. */
#include <math.h>

#include "support/check.h"
#include "support/simhost.h"
#include "wire/frame.h"

static const double RATE = 1e9, LATENCY_NS = 50e3; /* bits per second; one way */
static const shoali_fabric_desc gigabit = {.rate_bps = 1000000000, .latency_ns = 50000};

/* Time of so many frames and bytes of payload on a link. */
static double link_ns(double frames, double bytes)
{
    return (frames * SHOALI_FRAME_BYTES + bytes) * 8e9 / RATE;
}

static void assert_within(double got, double want, double part)
{
    if (fabs(got - want) <= part * want)
        return;
    print_error("%.0f ns, the formula says %.0f\n", got, want);
    fail();
}

static double timed(const engine_case *c)
{
    engine_run run;
    assert_true(engine_run_open(c, &run));
    simhost *host = simhost_start(&run, &gigabit);
    double took_ns = (double)simhost_run(host);
    for (uint32_t m = 0; m < c->size; m++) {
        const simhost_result *r = simhost_result_of(host, m);
        assert_true(r->done);
        assert_int_equal(r->status, SHOAL_OK);
    }
    simhost_destroy(host);
    engine_run_assert_exact(&run);
    engine_run_close(&run);
    return took_ns;
}

/* 2 (N-1) rounds of S/N bytes, and a latency each where a block is one chunk; the grant is
 * another. */
static void ring_takes_its_time(void **state)
{
    (void)state;
    static const uint32_t chunks[] = {65536, 8192, 1000};
    for (size_t i = 0; i < 3; i++) {
        engine_case c = {
            .collective = "ring", .size = 8, .count = 1 << 18, .chunk_elems = chunks[i]};
        double frames = ceil((1 << 15) / (double)chunks[i]);
        double want = LATENCY_NS + 14 * (link_ns(frames, 1 << 17) + LATENCY_NS);
        if (frames > 1) /* while one chunk is under way, the next one uses the link */
            want = 2 * LATENCY_NS + 14 * link_ns(frames, 1 << 17);
        assert_within(timed(&c), want, 0.01);
        c.collective = "ring:both"; /* both directions: half the rounds, the same volume */
        want = LATENCY_NS + 14 * link_ns(frames, 1 << 17) + 8 * LATENCY_NS;
        assert_within(timed(&c), want, 0.15); /* 4 rounds of 7 have nothing to send backwards */
    }
}

/* One server among the workers: 7 S over its link each way; the way back is one chunk behind. */
static void worker_aggregator_takes_its_time(void **state)
{
    (void)state;
    engine_case c = {
        .collective = "worker_aggregator", .size = 8, .count = 1 << 18, .chunk_elems = 8192};
    double want = 2 * LATENCY_NS + link_ns(7 * 32, 7.0 * (1 << 20)) + LATENCY_NS +
                  link_ns(7, 7.0 * 4 * 8192);
    assert_within(timed(&c), want, 0.05);
    c.collective = "worker_aggregator:servers=8"; /* all serve: a direct exchange */
    want = 3 * LATENCY_NS + link_ns(2 * 7 * 4, 2 * 7.0 * (1 << 17));
    assert_within(timed(&c), want, 0.15);
}

/* What a message that any member wants to send would find in front of it: bytes on a link of a
 * gigabit, by member. */
typedef struct backlog {
    double bytes[8];
    uint64_t at_ns[8], last_ns[8];
    double most_bytes;
    uint64_t gap_ns; /* the longest one between two frames of a member */
} backlog;

static void note_frame(void *ctx, uint32_t member, uint64_t now_ns, uint64_t len_bytes)
{
    backlog *b = ctx;
    double sent = (double)(now_ns - b->at_ns[member]) * RATE / 8e9;
    b->bytes[member] = fmax(b->bytes[member] - sent, 0) + (double)len_bytes;
    b->most_bytes = fmax(b->most_bytes, b->bytes[member]);
    if (b->last_ns[member] > 0 && now_ns - b->last_ns[member] > b->gap_ns)
        b->gap_ns = now_ns - b->last_ns[member];
    b->at_ns[member] = b->last_ns[member] = now_ns;
}

static double watched(const engine_case *c, backlog *b)
{
    *b = (backlog){.most_bytes = 0};
    simhost_watch(note_frame, b);
    double took_ns = timed(c);
    simhost_watch(NULL, NULL);
    return took_ns;
}

/* An operation that has four times as long as it needs: it ends in time, frames leave at about one
 * distance, and no more than two of them are in front of what else is sent. As fast as it can,
 * there are more. */
static void what_has_time_takes_it(void **state)
{
    (void)state;
    static const char *const specs[] = {"ring", "gather", "direct", "halving_doubling"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        backlog fast, slow;
        engine_case c = {.collective = specs[i], .size = 8, .count = 1 << 18, .chunk_elems = 8192};
        const double chunk = 4.0 * 8192, hurry_ns = watched(&c, &fast);
        c.pace_us = (uint64_t)(4 * hurry_ns / 1000);
        const double took_ns = watched(&c, &slow), frames = hurry_ns * RATE / 8e9 / chunk;
        print_message("%s: %.1f ms, %.1f paced; backlog %.1f, %.1f frames; gap %.1f, %.1f ms of "
                      "%.1f\n",
                      specs[i], hurry_ns / 1e6, took_ns / 1e6, fast.most_bytes / chunk,
                      slow.most_bytes / chunk, (double)fast.gap_ns / 1e6, (double)slow.gap_ns / 1e6,
                      4 * hurry_ns / frames / 1e6);
        assert_true(took_ns <= 1.02 * 4 * hurry_ns && took_ns >= 0.8 * 4 * hurry_ns);
        assert_true(slow.most_bytes <= 2 * chunk);
        assert_true(fast.most_bytes > 3 * chunk);
        assert_true((double)slow.gap_ns <= 4 * 4 * hurry_ns / frames + 2 * (double)fast.gap_ns);
    }
}

static uint64_t jittery(uint64_t seed, float *values, uint64_t *events_out)
{
    engine_run run;
    const shoali_fabric_desc desc = {
        .rate_bps = 100000000, .latency_ns = 20000, .jitter_ns = 300000, .seed = seed};
    engine_case c = {.collective = "halving_doubling",
                     .push = "inceptionn",
                     .size = 12,
                     .count = 20000,
                     .chunk_elems = 1024,
                     .unit = 1.0f / 3000};
    assert_true(engine_run_open(&c, &run));
    simhost *host = simhost_start(&run, &desc);
    shoali_fabric_set_rate(simhost_fabric(host), 5, 10000000, 20000000);
    uint64_t took_ns = simhost_run(host);
    *events_out = shoali_fabric_events(simhost_fabric(host));
    simhost_destroy(host);
    engine_run_assert_same(&run);
    memcpy(values, run.bufs[0], 20000 * sizeof *values);
    engine_run_close(&run);
    return took_ns;
}

static void runs_repeat(void **state)
{
    (void)state;
    static float first[20000], again[20000], other[20000];
    uint64_t first_events, again_events, other_events;
    uint64_t first_ns = jittery(check_seed(), first, &first_events);
    assert_int_equal(jittery(check_seed(), again, &again_events), first_ns);
    assert_int_equal(first_events, again_events);
    assert_memory_equal(first, again, sizeof first);
    assert_int_not_equal(jittery(check_seed() + 1, other, &other_events), first_ns);
    assert_memory_equal(first, other, sizeof first); /* chance moves frames, never values */
}

/* A member is lost at several moments: the others end, within the deadline, or had ended before. */
static void lose(void (*how)(shoali_fabric *, uint32_t), shoal_status expected, uint64_t when_ns,
                 size_t *failed)
{
    engine_run run;
    engine_case c = {.collective = "ring", .size = 6, .count = 60000, .chunk_elems = 2048};
    assert_true(engine_run_open(&c, &run));
    simhost *host = simhost_start(&run, &gigabit);
    shoali_fabric *sim = simhost_fabric(host);
    const uint64_t until_ns = shoali_fabric_now_ns(sim) + when_ns;
    uint32_t endpoint;
    while (shoali_fabric_now_ns(sim) < until_ns) {
        while (shoali_fabric_next_ready(sim, &endpoint))
            simhost_progress(host, endpoint);
        assert_true(shoali_fabric_advance(sim));
    }
    how(sim, 2);
    (void)simhost_run(host);
    for (uint32_t m = 0; m < c.size; m++) {
        const simhost_result *r = simhost_result_of(host, m);
        if (m == 2 && how == shoali_fabric_kill)
            continue;
        assert_true(r->done);
        assert_true(r->done_ns <= when_ns + 3100000);
        if (r->status == SHOAL_OK)
            continue;
        assert_int_equal(r->status, expected);
        assert_non_null(strstr(r->why, m == 2 ? "endpoint" : "endpoint 2"));
        ++*failed;
    }
    simhost_destroy(host);
    engine_run_close(&run);
}

static void members_are_lost(void **state)
{
    (void)state;
    size_t failed = 0;
    for (uint64_t when_ns = 0; when_ns < 3000000; when_ns += 250000) {
        lose(shoali_fabric_kill, SHOAL_EPEER, when_ns, &failed);
        lose(shoali_fabric_cut, SHOAL_ETIMEDOUT, when_ns, &failed);
    }
    assert_true(failed > 80);
}

static void many_members(void **state)
{
    (void)state;
    engine_case c = {.collective = "hierarchical", .size = 32, .count = 1 << 16};
    c.chunk_elems = 2048;
    (void)timed(&c);
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(ring_takes_its_time), CHECK_TEST(worker_aggregator_takes_its_time),
    CHECK_TEST(runs_repeat),         CHECK_TEST(members_are_lost),
    CHECK_TEST(many_members),        CHECK_TEST(what_has_time_takes_it),
};

int main(void)
{
    return CHECK_RUN(tests);
}
