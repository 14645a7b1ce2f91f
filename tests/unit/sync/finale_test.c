/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a protocol with different replicas, behind the smallest protocol that has one: every
 * worker trains alone, and at the end all take their mean. */
#include "sync/finale.h"

#include <math.h>

#include "driver/sim.h"
#include "support/check.h"

enum { WORKERS = 5, ITERATIONS = 4 };

typedef struct alone {
    shoali_finale finale;
    uint64_t iteration;
    bool leaving;
} alone;

static size_t state_size(const shoali_world *world)
{
    return sizeof(alone) + shoali_finale_bytes(world);
}

static uint32_t slots(const shoali_world *world)
{
    (void)world;
    return 1;
}

static uint32_t max_staleness(const void *params)
{
    (void)params;
    return 0;
}

static shoal_status on_event(void *state, const shoali_event *event, shoali_actions *actions)
{
    alone *m = state;
    shoal_verdict verdict = {.apply = event->kind == SHOALI_EV_BEFORE, .grad_scale = 1};
    uint32_t peer;
    if (event->kind == SHOALI_EV_START) {
        shoali_finale_start(&m->finale, event->world, 0, m + 1);
        return SHOAL_OK;
    }
    bool mine = shoali_finale_event(&m->finale, event, &peer, actions) == SHOALI_NOT_MINE;
    verdict.stop = m->leaving && !mine && event->kind == SHOALI_EV_OP_DONE;
    if (mine && event->kind == SHOALI_EV_STOP) {
        m->leaving = true;
        verdict.stop = !shoali_finale_leave(&m->finale, actions);
    }
    m->iteration += event->kind == SHOALI_EV_AFTER;
    verdict.iteration = m->iteration;
    if (verdict.stop || event->kind == SHOALI_EV_BEFORE || event->kind == SHOALI_EV_AFTER)
        shoali_act_go(actions, &verdict);
    return SHOAL_OK;
}

static const shoali_sync_row row = {
    .name = "alone",
    .paper = "none",
    .traits = SHOALI_SYNC_MEAN | SHOALI_SYNC_SURVIVES,
    .state_size = state_size,
    .slots = slots,
    .max_staleness = max_staleness,
    .on_event = on_event,
};

static shoal_sim *open_sim(void)
{
    static const shoal_tensor tensor = {.key = 1, .count = 40, .lr_scale = 1};
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    shoal_sim *sim;
    desc.workers = WORKERS;
    desc.iterations = ITERATIONS;
    desc.compute = "fixed:ms=10,jitter=0.4,slow=1:3x";
    desc.problem = "quadratic:lr=0.125,noise=0.5";
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    desc.seed = check_seed();
    assert_ok(shoali_sim_create_row(&desc, &row, &sim));
    return sim;
}

/* Before the first FINISH comes its GO: sum of the replicas, each as it was when it finished. */
static void note_replicas(void *ctx, shoal_sim *sim, uint32_t endpoint, const shoali_event *event)
{
    double *sum = ctx;
    if (event->kind == SHOALI_EV_FINISH)
        for (size_t j = 0; j < sim->count; j++)
            sum[j] += (double)sim->nodes[endpoint].tensors.params[j];
}

static void all_take_the_exact_mean(void **state)
{
    (void)state;
    double sum[40] = {0};
    shoal_sim *sim = open_sim();
    sim->test.on_event = note_replicas;
    sim->test.ctx = sum;
    assert_ok(shoal_sim_run(sim));
    for (uint32_t w = 0; w < WORKERS; w++)
        for (size_t j = 0; j < sim->count; j++) {
            float value = sim->nodes[w].tensors.params[j];
            assert_true(fabs((double)value - sum[j] / WORKERS) < 1e-6);
            assert_true(value == sim->nodes[0].tensors.params[j]);
        }
    shoal_sim_destroy(sim);
}

static uint64_t events_of_a_run(void)
{
    shoal_sim *sim = open_sim();
    shoal_sim_results r = {.size = sizeof r};
    assert_ok(shoal_sim_run(sim));
    assert_ok(shoal_sim_results_get(sim, &r));
    shoal_sim_destroy(sim);
    return r.events;
}

/* All that are left end well, and with the same bits unless they ended before and after the loss.
 */
static void lose_somebody_at_every_event(uint32_t fault)
{
    uint64_t events = events_of_a_run();
    uint32_t apart = 0;
    for (uint64_t at = 0; at < events * WORKERS; at++) {
        shoal_sim *sim = open_sim();
        uint32_t victim = (uint32_t)(at % WORKERS), first = victim == 0 ? 1 : 0;
        sim->test.inject_at = at / WORKERS;
        sim->test.inject_fault = fault;
        sim->test.inject_endpoint = victim;
        shoal_status status = shoal_sim_run(sim);
        assert_true(status == SHOAL_OK || status == SHOAL_ECANCELLED);
        for (uint32_t w = 0; w < WORKERS; w++) {
            if (w == victim)
                continue;
            assert_int_equal(sim->nodes[w].end, SHOAL_SIM_DONE);
            assert_int_equal(sim->nodes[w].done, ITERATIONS);
            apart += memcmp(sim->nodes[w].tensors.params, sim->nodes[first].tensors.params,
                            sim->count * sizeof(float)) != 0;
        }
        shoal_sim_destroy(sim);
    }
    assert_true(apart <= 4 * WORKERS); /* only where the leader dies while it commits */
}

static void the_dead_are_left_out(void **state)
{
    (void)state;
    lose_somebody_at_every_event(SHOALI_SIM_DIE);
}

static void the_frozen_are_left_out(void **state)
{
    (void)state;
    lose_somebody_at_every_event(SHOALI_SIM_FREEZE);
}

static void those_who_leave_are_left_out(void **state)
{
    (void)state;
    lose_somebody_at_every_event(SHOALI_SIM_LEAVE);
}

/* ---------------------------------------------------------------- whose word counts */

enum {
    ATTEMPT = SHOALI_FINALE_FIRST + 1,
    REPORT_GOOD,
    REPORT_BAD,
    COMMIT,
    GOODBYE,
    HELLO,
    CUT,
    WITHOUT,
    MISSES,
    ADOPT
};
enum { HEAD_BYTES = 9, LEADER_SHIFT = 40, ALL = (1 << WORKERS) - 1 };

/* Worker `me` has finished; what its machine asks for is counted and thrown away. */
typedef struct bench {
    shoali_world world;
    shoali_finale finale;
    shoali_actions actions;
    uint64_t memory[16];
    uint32_t operations, hellos, adopts, verdicts; /* since the last event */
    uint64_t hello, timer_us;                      /* what HELLO said; until when it waits */
    uint32_t members, without; /* bitmaps: of the operation; who was told WITHOUT */
    shoal_status failed;
    uint64_t operation;
} bench;

static void take(bench *b, const shoali_event *event)
{
    const shoali_action *action;
    uint32_t peer;
    b->operations = b->hellos = b->verdicts = b->without = b->members = b->adopts = 0;
    b->failed = SHOAL_OK;
    assert_int_not_equal(shoali_finale_event(&b->finale, event, &peer, &b->actions),
                         SHOALI_NOT_MINE);
    for (; (action = shoali_actions_front(&b->actions)) != NULL; shoali_actions_pop(&b->actions)) {
        b->verdicts += action->kind == SHOALI_ACT_GO;
        b->adopts += action->kind == SHOALI_ACT_SEND && action->send.bytes[0] == ADOPT;
        if (action->kind == SHOALI_ACT_SEND && action->send.bytes[0] == HELLO) {
            b->hellos++;
            memcpy(&b->hello, (const uint8_t *)action->send.bytes + 1, sizeof b->hello);
        }
        if (action->kind == SHOALI_ACT_TIMER)
            b->timer_us = action->timer.at_us;
        if (action->kind == SHOALI_ACT_SEND && action->send.bytes[0] == WITHOUT)
            b->without |= 1u << action->send.peer;
        if (action->kind == SHOALI_ACT_FAIL)
            b->failed = action->fail.status;
        if (action->kind == SHOALI_ACT_OP) {
            b->operations++;
            b->operation = action->op.id;
        }
        for (uint32_t i = 0; action->kind == SHOALI_ACT_OP && i < action->op.member_count; i++)
            b->members |= 1u << action->op.members[i];
    }
}

static void open_bench(bench *b, uint32_t me)
{
    *b = (bench){.world = {.workers = WORKERS, .me = me, .count = 40}};
    assert_true(shoali_finale_bytes(&b->world) <= sizeof b->memory);
    shoali_finale_start(&b->finale, &b->world, 0, b->memory);
    take(b, &(shoali_event){.kind = SHOALI_EV_FINISH});
}

static void says(bench *b, uint32_t peer, uint8_t kind, uint64_t value, uint8_t members)
{
    uint8_t bytes[HEAD_BYTES + 1] = {kind};
    memcpy(bytes + 1, &value, sizeof value);
    bytes[HEAD_BYTES] = members;
    take(b, &(shoali_event){
                .kind = SHOALI_EV_MESSAGE,
                .message = {peer, bytes, HEAD_BYTES + (kind == ATTEMPT || kind == ADOPT)}});
}

static void operation_ends_with(bench *b, shoal_status status)
{
    take(b, &(shoali_event){.kind = SHOALI_EV_OP_DONE, .op = {b->operation, status, ""}});
}

static void operation_ends(bench *b)
{
    operation_ends_with(b, SHOAL_OK);
}

static void is_down(bench *b, uint32_t peer, shoali_down how)
{
    take(b, &(shoali_event){.kind = SHOALI_EV_PEER_DOWN, .down = {peer, "gone", how}});
}

static void is_lost(bench *b, uint32_t peer)
{
    is_down(b, peer, SHOALI_DOWN_AWAY);
}

static void all_finish(bench *b)
{
    for (uint32_t w = 0; w < WORKERS; w++)
        if (w != b->world.me)
            says(b, w, SHOALI_FINALE_FIRST, 0, 0);
}

static uint64_t attempt_of(uint64_t leader, uint64_t number)
{
    return leader << LEADER_SHIFT | number;
}

/* An attempt is called by the leader whose number it carries, and joined by those it names. */
static void an_attempt_of_somebody_else_is_not_joined(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, 3);
    says(&b, 2, ATTEMPT, attempt_of(0, 1), ALL);
    assert_int_equal(b.operations, 0);
    says(&b, 0, ATTEMPT, attempt_of(0, 1), ALL & ~(1 << 3));
    assert_int_equal(b.operations, 0);
    says(&b, 0, ATTEMPT, attempt_of(0, 1), ALL);
    assert_int_equal(b.operations, 1);
    assert_true(b.operation == (SHOALI_FINALE_OP | attempt_of(0, 1)));
    shoali_actions_fini(&b.actions);
}

/* A sum is taken when it is complete here, and somebody says so of this very attempt. */
static void a_commit_is_of_the_attempt_that_is_over_here(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, 3);
    says(&b, 0, ATTEMPT, attempt_of(0, 2), ALL);
    says(&b, 0, COMMIT, attempt_of(0, 2), 0); /* its sum is not here yet */
    assert_int_equal(b.verdicts, 0);
    operation_ends(&b);
    says(&b, 0, COMMIT, attempt_of(0, 1), 0);
    assert_int_equal(b.verdicts, 0);
    says(&b, 1, COMMIT, attempt_of(0, 2), 0); /* whoever has heard it says it on */
    assert_int_equal(b.verdicts, 1);
    shoali_actions_fini(&b.actions);
}

/* The next leader hears which sum is here, and COMMIT of it counts from whoever knows. */
static void hello_says_whose_sum_is_here(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, 3);
    says(&b, 0, ATTEMPT, attempt_of(0, 1), ALL);
    is_lost(&b, 0);
    assert_int_equal(b.hellos, 1);
    assert_true(b.hello == 0); /* it has promised, and reports nothing to the first any more */
    operation_ends(&b);
    is_lost(&b, 1);
    assert_int_equal(b.hellos, 1);
    assert_true(b.hello == attempt_of(0, 1));
    says(&b, 4, COMMIT, attempt_of(0, 1), 0);
    assert_int_equal(b.verdicts, 1);
    shoali_actions_fini(&b.actions);
}

/* Worker 1 of those whom the first leader has asked, and then been lost to. */
static void open_next_leader(bench *b, bool whole)
{
    open_bench(b, 1);
    all_finish(b);
    says(b, 0, ATTEMPT, attempt_of(0, 1), ALL);
    operation_ends_with(b, whole ? SHOAL_OK : SHOAL_EPEER);
    is_lost(b, 0);
}

/* The first leader may have committed what all of them have. */
static void a_sum_that_may_be_taken_is_kept(void **state)
{
    (void)state;
    bench b;
    open_next_leader(&b, true);
    for (uint32_t w = 2; w < WORKERS; w++)
        says(&b, w, HELLO, attempt_of(0, 1), 0);
    assert_int_equal(b.operations, 0);
    assert_int_equal(b.adopts, 1);
    says(&b, 2, REPORT_GOOD, attempt_of(1, 1), 0);
    says(&b, 3, REPORT_GOOD, attempt_of(1, 1), 0);
    is_lost(&b, 4); /* once more, without it */
    assert_int_equal(b.adopts, 1);
    says(&b, 2, REPORT_GOOD, attempt_of(1, 2), 0);
    assert_int_equal(b.verdicts, 0);
    says(&b, 3, REPORT_GOOD, attempt_of(1, 2), 0);
    assert_int_equal(b.verdicts, 1);
    shoali_actions_fini(&b.actions);
}

static void a_sum_that_one_has_not_got_is_made_anew(void **state)
{
    (void)state;
    bench b;
    for (uint32_t who = 1; who <= 2; who++) {
        open_next_leader(&b, who != 1);
        says(&b, 2, HELLO, who == 2 ? 0 : attempt_of(0, 1), 0);
        says(&b, 3, HELLO, attempt_of(0, 1), 0);
        assert_int_equal(b.operations, 0);
        says(&b, 4, HELLO, attempt_of(0, 1), 0);
        assert_int_equal(b.operations, 1);
        assert_int_equal(b.members, ALL & ~1);
        shoali_actions_fini(&b.actions);
    }
}

static void who_adopts_keeps_its_sum(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, 3);
    says(&b, 0, ATTEMPT, attempt_of(0, 1), ALL);
    operation_ends(&b);
    is_lost(&b, 0);
    says(&b, 1, ADOPT, attempt_of(1, 1), ALL & ~(1 << 0 | 1 << 4));
    assert_int_equal(b.operations, 0);
    assert_int_equal(b.without, 1 << 4);
    is_lost(&b, 1);
    assert_true(b.hello == attempt_of(1, 1));
    says(&b, 2, COMMIT, attempt_of(1, 1), 0);
    assert_int_equal(b.verdicts, 1);
    shoali_actions_fini(&b.actions);
    open_bench(&b, 3);
    says(&b, 0, ADOPT, attempt_of(0, 1), ALL); /* what it has not got */
    says(&b, 0, COMMIT, attempt_of(0, 1), 0);
    assert_int_equal(b.verdicts, 0);
    shoali_actions_fini(&b.actions);
}

static void report_all_but(bench *b, uint32_t quiet, uint64_t attempt)
{
    for (uint32_t w = 1; w < WORKERS; w++)
        if (w != quiet && !shoali_finale_is_gone(&b->finale, w))
            says(b, w, REPORT_GOOD, attempt, 0);
}

/* It may live, and say later that it has not got the sum. */
static void nothing_is_committed_without_a_member_s_report(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, 0);
    all_finish(&b);
    operation_ends(&b);
    report_all_but(&b, 4, attempt_of(0, 1));
    is_lost(&b, 4);
    assert_int_equal(b.verdicts, 0);
    assert_int_equal(b.members, ALL & ~(1 << 4));
    operation_ends(&b);
    report_all_but(&b, 4, attempt_of(0, 2));
    assert_int_equal(b.verdicts, 1);
    shoali_actions_fini(&b.actions);
}

static void a_minority_takes_no_mean(void **state)
{
    (void)state;
    bench b;
    for (int proof = 0; proof < 2; proof++) {
        open_bench(&b, 0);
        for (uint32_t w = 2; w < WORKERS; w++)
            is_lost(&b, w);
        says(&b, 1, SHOALI_FINALE_FIRST, 0, 0);
        assert_int_equal(b.operations, 0);
        assert_true(b.timer_us > 0);
        for (uint32_t w = 2; w < WORKERS && proof == 1; w++) {
            assert_int_equal(b.operations, 0);
            is_down(&b, w, SHOALI_DOWN_DEAD);
        }
        assert_int_equal(b.operations, proof);
        take(&b, &(shoali_event){
                     .kind = SHOALI_EV_TIMER, .now_us = b.timer_us, .timer = {SHOALI_FINALE_OP}});
        assert_int_equal(b.failed, proof == 1 ? SHOAL_OK : SHOAL_EEPOCH);
        shoali_actions_fini(&b.actions);
    }
}

/* The leader counts reports of the attempt that it called last. */
static void reports_of_earlier_attempts_do_not_count(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, 0);
    all_finish(&b);
    assert_int_equal(b.operations, 1);
    operation_ends(&b);
    says(&b, 1, REPORT_BAD, attempt_of(0, 1), 0);
    for (uint32_t w = 2; w < WORKERS; w++)
        says(&b, w, REPORT_GOOD, attempt_of(0, 1), 0);
    assert_int_equal(b.operations, 1); /* again */
    operation_ends(&b);
    for (uint32_t w = 1; w < WORKERS; w++) {
        says(&b, w, REPORT_GOOD, attempt_of(0, 1), 0);
        assert_int_equal(b.verdicts, 0);
    }
    for (uint32_t w = 1; w < WORKERS; w++)
        says(&b, w, REPORT_GOOD, attempt_of(0, 2), 0);
    assert_int_equal(b.verdicts, 1);
    shoali_actions_fini(&b.actions);
}

/* Worker 2 lives, as far as worker 3 knows: it would see the others leave, and end alone. */
static void whom_the_leader_has_lost_hears_so(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, 3);
    is_lost(&b, 1);
    says(&b, 0, ATTEMPT, attempt_of(0, 1), ALL & ~(1 << 2 | 1 << 1));
    assert_int_equal(b.operations, 1);
    assert_int_equal(b.without, 1 << 2);
    says(&b, 0, WITHOUT, 0, 0);
    assert_int_equal(b.failed, SHOAL_EEPOCH);
    says(&b, 0, COMMIT, attempt_of(0, 1), 0);
    assert_int_equal(b.verdicts, 0);
    shoali_actions_fini(&b.actions);
}

/* The others have their mean; the slot here has nothing. */
static void a_broken_sum_is_not_taken(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, 3);
    says(&b, 0, ATTEMPT, attempt_of(0, 1), ALL);
    operation_ends_with(&b, SHOAL_EPEER);
    says(&b, 1, COMMIT, attempt_of(0, 1), 0);
    assert_int_equal(b.verdicts, 0);
    assert_int_equal(b.failed, SHOAL_EEPOCH);
    shoali_actions_fini(&b.actions);
}

static void report_bad(bench *b, uint32_t worker, uint32_t misses, uint64_t attempt)
{
    says(b, worker, MISSES, misses, 0);
    says(b, worker, REPORT_BAD, attempt, 0);
}

/* Said by one alone it may be news that the leader has not heard yet, of a death, or that the other
 * has not: it waits. */
static void of_two_that_lost_each_other_one_is_left_out(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, 0);
    all_finish(&b);
    assert_int_equal(b.members, ALL);
    operation_ends_with(&b, SHOAL_EPEER);
    report_bad(&b, 1, 3, attempt_of(0, 1));
    says(&b, 2, REPORT_GOOD, attempt_of(0, 1), 0);
    says(&b, 4, REPORT_GOOD, attempt_of(0, 1), 0);
    says(&b, 3, REPORT_BAD, attempt_of(0, 1), 0);
    assert_int_equal(b.operations, 0);
    says(&b, 3, MISSES, 1, 0);
    assert_int_equal(b.members, ALL & ~(1 << 3));
    assert_int_equal(b.without, 1 << 3);
    shoali_actions_fini(&b.actions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(all_take_the_exact_mean),
        CHECK_TEST(the_dead_are_left_out),
        CHECK_TEST(the_frozen_are_left_out),
        CHECK_TEST(those_who_leave_are_left_out),
        CHECK_TEST(an_attempt_of_somebody_else_is_not_joined),
        CHECK_TEST(a_commit_is_of_the_attempt_that_is_over_here),
        CHECK_TEST(hello_says_whose_sum_is_here),
        CHECK_TEST(a_sum_that_may_be_taken_is_kept),
        CHECK_TEST(a_sum_that_one_has_not_got_is_made_anew),
        CHECK_TEST(who_adopts_keeps_its_sum),
        CHECK_TEST(nothing_is_committed_without_a_member_s_report),
        CHECK_TEST(a_minority_takes_no_mean),
        CHECK_TEST(reports_of_earlier_attempts_do_not_count),
        CHECK_TEST(whom_the_leader_has_lost_hears_so),
        CHECK_TEST(a_broken_sum_is_not_taken),
        CHECK_TEST(of_two_that_lost_each_other_one_is_left_out),
    };
    return CHECK_RUN(tests);
}
