/* SPDX-License-Identifier: Apache-2.0 */
#include "support/machine.h"

#include <math.h>
#include <stdlib.h>

#include "driver/sim.h"
#include "support/check.h"

enum { THROUGH_BYTES = 9, ROUND_SHIFT = 14 };

static const char *iterate(machine *m)
{
    (void)machine_event(m, SHOALI_EV_BEFORE);
    return machine_event(m, SHOALI_EV_AFTER);
}

static const char *through(machine *m, uint32_t peer, uint8_t iterations)
{
    const uint8_t bytes[THROUGH_BYTES] = {1, iterations};
    return machine_message(m, peer, bytes, sizeof bytes);
}

static const char alone[] = "mix SLOT1 [0,4) = 0.5*SLOT1 + 0.7*PARAM + -0.7*SLOT0; "
                            "mix SLOT0 [0,4) = 1*SLOT0 + 1*SLOT1; mix PARAM [0,4) = 1*SLOT0; ";

static void two_make_a_step_together(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "noloco:every=2,lr=0.5,momentum=0.25,pull=0.75", 2, 0, 1, 1);
    (void)machine_start(&m);
    assert_string_equal(iterate(&m), "go hold @1");
    assert_string_equal(iterate(&m), "mix SLOT2 [0,4) = 0.5*PARAM + 0.25*SLOT0; "
                                     "op 32768 [0,4) SLOT2 of 0,1 patient ring");
    assert_string_equal(machine_done(&m, 2 << ROUND_SHIFT, SHOAL_OK, NULL),
                        "mix SLOT1 [0,4) = 0.25*SLOT1 + 0.5*SLOT2 + -0.75*SLOT0; "
                        "mix SLOT0 [0,4) = 1*SLOT0 + 1*SLOT1; mix PARAM [0,4) = 1*SLOT0; "
                        "go hold @2");
    machine_close(&m);
}

/* theta' = u + pull (mean of both u - u) + momentum (u - u of the round before), with u = theta +
 * lr (what the inner steps made - theta): whatever the terms are, the numbers are the formula's. */
static void gasloc_is_its_formula(void **state)
{
    (void)state;
    const double lr = 0.5, mu = 0.5, pull = 0.75, start = 2;
    double base = start, before = start, kept = 0; /* kept: SLOT1 */
    machine m;
    machine_open(&m, "noloco:every=1,gasloc,lr=0.5,momentum=0.5,pull=0.75", 2, 0, 1, 1);
    (void)machine_start(&m);
    for (uint32_t round = 1; round <= 5; round++) {
        const double param = 5 - 1.5 * round, other = 1 + round;
        double sent[2], next[4], moved[3];
        const char *text = iterate(&m);
        assert_int_equal(sscanf(strstr(text, "mix SLOT2"),
                                "mix SLOT2 [0,4) = %lf*PARAM + %lf*SLOT0", &sent[0], &sent[1]),
                         2);
        const double u = base + lr * (param - base);
        assert_true(fabs(sent[0] * param + sent[1] * base - u) < 1e-6);
        text = machine_done(&m, (uint64_t)round << ROUND_SHIFT, SHOAL_OK, NULL);
        assert_int_equal(sscanf(text,
                                "mix SLOT2 [0,4) = %lf*PARAM + %lf*SLOT0 + %lf*SLOT1 + %lf*SLOT2; "
                                "mix SLOT1 [0,4) = %lf*PARAM + %lf*SLOT0 + %lf*SLOT2; ",
                                &next[0], &next[1], &next[2], &next[3], &moved[0], &moved[1],
                                &moved[2]),
                         7);
        assert_non_null(strstr(text, "mix SLOT0 [0,4) = 1*SLOT2; mix PARAM [0,4) = 1*SLOT0; go"));
        const double want = u + pull * ((u + other) / 2 - u) + mu * (u - before);
        const double got = next[0] * param + next[1] * base + next[2] * kept +
                           next[3] * (u + other);
        assert_true(fabs(got - want) < 1e-6);
        kept = moved[0] * param + moved[1] * base + moved[2] * got;
        before = u;
        base = got;
    }
    machine_close(&m);
}

static void who_has_nobody_steps_alone(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "noloco:every=1", 1, 0, 0, 1);
    (void)machine_start(&m);
    const char *text = iterate(&m);
    assert_memory_equal(text, alone, sizeof alone - 1);
    assert_string_equal(text + sizeof alone - 1, "go hold @1");
    machine_close(&m);
}

/* In the middle of a round the partner dies: cancelled, and the step is made alone; so are others
 * that it would have been in. */
static void a_lost_partner_costs_no_round(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "noloco:every=1", 2, 0, 1, 1);
    (void)machine_start(&m);
    (void)iterate(&m);
    assert_string_equal(machine_down(&m, 0, "x"), "cancel 16384");
    const char *text = machine_done(&m, 1 << ROUND_SHIFT, SHOAL_ECANCELLED, "x");
    assert_memory_equal(text, alone, sizeof alone - 1);
    text = iterate(&m);
    assert_memory_equal(text, alone, sizeof alone - 1);
    machine_close(&m);
}

/* Who is through says how far it came: it is waited for in the rounds up to there, and in no
 * other. */
static void who_is_through_is_not_waited_for(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "noloco:every=1", 2, 0, 1, 1);
    (void)machine_start(&m);
    assert_non_null(strstr(iterate(&m), "op 16384"));
    assert_string_equal(through(&m, 0, 2), "");
    (void)machine_done(&m, 1 << ROUND_SHIFT, SHOAL_OK, NULL);
    assert_non_null(strstr(iterate(&m), "op 32768"));
    assert_string_equal(through(&m, 0, 1), "cancel 32768");
    (void)machine_done(&m, 2 << ROUND_SHIFT, SHOAL_ECANCELLED, "x");
    assert_null(strstr(iterate(&m), "op"));
    machine_close(&m);
}

static void leaving_waits_for_what_is_open(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "noloco:every=1", 2, 0, 1, 1);
    (void)machine_start(&m);
    (void)iterate(&m);
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_STOP), "cancel 16384"));
    assert_string_equal(machine_done(&m, 1 << ROUND_SHIFT, SHOAL_ECANCELLED, "x"), "go stop @1");
    machine_close(&m);
}

static void what_is_not_finite_is_left_out(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "noloco:every=1", 2, 0, 1, 1);
    m.world.nonfinite = SHOAL_NONFINITE_SKIP;
    (void)machine_start(&m);
    (void)iterate(&m);
    assert_string_equal(machine_done(&m, 1 << ROUND_SHIFT, SHOAL_ENOTFINITE, "x"),
                        "mix PARAM [0,4) = 1*SLOT0; go hold @1");
    machine_close(&m);
}

static void strange_bytes_end_it(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "noloco", 2, 0, 1, 1);
    (void)machine_start(&m);
    assert_non_null(strstr(machine_message(&m, 0, "xyz", 3), "fail ECORRUPT"));
    machine_close(&m);
}

/* In every round each is in one pair, of two that mean each other, and pairs differ. */
static void pairs_are_mutual_and_change(void **state)
{
    (void)state;
    enum { WORKERS = 5, ROUNDS = 20 };
    uint32_t met[WORKERS][WORKERS] = {{0}};
    machine m[WORKERS];
    for (uint32_t w = 0; w < WORKERS; w++) {
        machine_open(&m[w], "noloco:every=1", WORKERS, 0, w, 1);
        (void)machine_start(&m[w]);
    }
    for (unsigned round = 1; round <= ROUNDS; round++) {
        uint32_t with[WORKERS], odd = 0;
        for (uint32_t w = 0; w < WORKERS; w++) {
            char *end;
            const char *op = strstr(iterate(&m[w]), "op ");
            with[w] = w;
            if (op == NULL)
                continue;
            const unsigned long id = strtoul(op + 3, &end, 10);
            const char *members = strstr(end, " of ");
            assert_non_null(members);
            const uint32_t first = (uint32_t)strtoul(members + 4, &end, 10);
            const uint32_t second = (uint32_t)strtoul(end + 1, &end, 10);
            assert_int_equal(id, round << ROUND_SHIFT | first);
            with[w] = first == w ? second : first;
        }
        for (uint32_t w = 0; w < WORKERS; w++) {
            assert_int_equal(with[with[w]], w);
            odd += with[w] == w;
            met[w][with[w]]++;
            uint32_t low = w < with[w] ? w : with[w];
            if (with[w] != w)
                (void)machine_done(&m[w], round << ROUND_SHIFT | low, SHOAL_OK, NULL);
        }
        assert_int_equal(odd, 1);
    }
    for (uint32_t w = 0; w < WORKERS; w++) {
        for (uint32_t v = 0; v < WORKERS; v++)
            assert_true(met[w][v] > 0);
        machine_close(&m[w]);
    }
}

/* Bytes grow with nobody: a worker sends its model once a round, however many there are. */
static void a_round_costs_one_model(void **state)
{
    (void)state;
    enum { COUNT = 1000, ITERATIONS = 12, EVERY = 4 };
    static const shoal_tensor tensor = {.key = 1, .count = COUNT, .lr_scale = 1};
    for (uint32_t workers = 2; workers <= 16; workers *= 2) {
        shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
        shoal_sim *sim;
        desc.workers = workers;
        desc.iterations = ITERATIONS;
        desc.sync = "noloco:every=4";
        desc.network = "links:rate=1mbit";
        desc.compute = "fixed:ms=10,jitter=0.3";
        desc.tensors = &tensor;
        desc.tensor_count = 1;
        desc.seed = check_seed();
        assert_ok(shoal_sim_create(&desc, &sim));
        assert_ok(shoal_sim_run(sim));
        double models = (double)sim->nodes[0].sent_bytes / (COUNT * sizeof(float));
        double finale = 2.0 * (workers - 1) / workers;
        assert_true(fabs(models - finale - ITERATIONS / EVERY) < 0.2);
        shoal_sim_destroy(sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(two_make_a_step_together),       CHECK_TEST(who_has_nobody_steps_alone),
        CHECK_TEST(a_lost_partner_costs_no_round),  CHECK_TEST(who_is_through_is_not_waited_for),
        CHECK_TEST(leaving_waits_for_what_is_open), CHECK_TEST(what_is_not_finite_is_left_out),
        CHECK_TEST(strange_bytes_end_it),           CHECK_TEST(pairs_are_mutual_and_change),
        CHECK_TEST(gasloc_is_its_formula),          CHECK_TEST(a_round_costs_one_model),
    };
    return CHECK_RUN(tests);
}
