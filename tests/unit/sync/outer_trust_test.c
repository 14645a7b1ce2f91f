/* SPDX-License-Identifier: Apache-2.0 */
#include "sync/outer_trust.h"

#include "support/check.h"
#include "support/machine.h"

/* All three members of the round with id 4, version 0 and weight 3. */
static const uint8_t CALL[35] = {0xe1, 4, [17] = 3, [33] = 7};

static machine m;

static void open_machine(shoali_coding coding)
{
    machine_open(&m, "diloco:every=1,momentum=0,lr=1,trust=median", 3, 0, 1, 1);
    m.world.coding = coding;
    (void)machine_start(&m);
    (void)machine_event(&m, SHOALI_EV_BEFORE);
}

/* Ids of broadcasts: worker + 1 at bit 54, and the call's. */
static uint64_t id_of(uint64_t worker)
{
    return 4 | (worker + 1) << 54;
}

static void each_update_travels_by_itself_and_all_are_judged(void **state)
{
    (void)state;
    open_machine(SHOALI_PLAIN);
    assert_string_equal(machine_event(&m, SHOALI_EV_AFTER),
                        "mix SLOT2 [0,4) = 1*SLOT0 + -1*PARAM; "
                        "send 0 e000000000000000000100000000000000");
    const char *text = machine_message(&m, 0, CALL, sizeof CALL);
    assert_non_null(strstr(text, "mix SLOT6 [0,4) = 1*SLOT2; "));
    for (uint64_t worker = 0; worker < 3; worker++) {
        char op[64];
        snprintf(op, sizeof op, "op %llu [0,4) SLOT%llu of 0,1,2 push pull",
                 (unsigned long long)id_of(worker), (unsigned long long)worker + 5);
        assert_non_null(strstr(text, op));
        assert_int_equal(shoali_outer_trust_base(id_of(worker)), 4);
    }
    assert_string_equal(machine_done(&m, id_of(2), SHOAL_OK, NULL), "");
    assert_string_equal(machine_done(&m, id_of(0), SHOAL_OK, NULL), "");
    assert_string_equal(machine_done(&m, id_of(1), SHOAL_OK, NULL),
                        "trust SLOT2 [0,4) = 1*SLOT5 + 1*SLOT6 + 1*SLOT7; "
                        "mix SLOT0 [0,4) = 1*SLOT0 + -0.333333*SLOT2; "
                        "mix PARAM [0,4) = 1*SLOT0; go hold @1");
    machine_close(&m);
}

static void what_a_codec_leaves_comes_with_the_next_update(void **state)
{
    (void)state;
    open_machine(SHOALI_LOSSY);
    assert_non_null(
        strstr(machine_event(&m, SHOALI_EV_AFTER), "mix SLOT2 [0,4) = 1*SLOT2 + 1*SLOT4; "));
    (void)machine_message(&m, 0, CALL, sizeof CALL);
    (void)machine_done(&m, id_of(0), SHOAL_OK, NULL);
    (void)machine_done(&m, id_of(1), SHOAL_OK, NULL);
    assert_non_null(strstr(machine_done(&m, id_of(2), SHOAL_OK, NULL),
                           "mix SLOT4 [0,4) = 1*SLOT2 + -1*SLOT6; trust SLOT2"));
    machine_close(&m);
}

static void a_broadcast_that_fails_costs_the_round(void **state)
{
    (void)state;
    open_machine(SHOALI_PLAIN);
    (void)machine_event(&m, SHOALI_EV_AFTER);
    (void)machine_message(&m, 0, CALL, sizeof CALL);
    (void)machine_done(&m, id_of(0), SHOAL_EPEER, "x");
    (void)machine_done(&m, id_of(1), SHOAL_OK, NULL);
    assert_string_equal(machine_done(&m, id_of(2), SHOAL_OK, NULL),
                        "mix SLOT2 [0,4) = 1*SLOT0 + -1*PARAM; "
                        "send 0 e000000000000000000100000000000000");
    machine_close(&m);
}

static void leaving_cancels_all_of_them(void **state)
{
    (void)state;
    open_machine(SHOALI_PLAIN);
    (void)machine_event(&m, SHOALI_EV_AFTER);
    (void)machine_message(&m, 0, CALL, sizeof CALL);
    const char *text = machine_event(&m, SHOALI_EV_STOP);
    for (uint64_t worker = 0; worker < 3; worker++) {
        char cancel[48];
        snprintf(cancel, sizeof cancel, "cancel %llu", (unsigned long long)id_of(worker));
        assert_non_null(strstr(text, cancel));
    }
    machine_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(each_update_travels_by_itself_and_all_are_judged),
        CHECK_TEST(what_a_codec_leaves_comes_with_the_next_update),
        CHECK_TEST(a_broadcast_that_fails_costs_the_round),
        CHECK_TEST(leaving_cancels_all_of_them),
    };
    return CHECK_RUN(tests);
}
