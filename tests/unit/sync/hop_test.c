/* SPDX-License-Identifier: Apache-2.0 */
/* One worker of hop among neighbours that the test plays. A ring of four, me = 1: neighbours 0 and
 * 2. */
#include "sync/hop.h"

#include "support/check.h"
#include "support/machine.h"

enum { ITER = 1, TAG, BOTH, ACK, NO_MORE };

static uint64_t put_id(uint32_t to, uint64_t number)
{
    return UINT64_C(1) << 47 | (uint64_t)to << 33 | number;
}

static uint64_t take_id(uint32_t from, uint64_t number)
{
    return (uint64_t)from << 47 | UINT64_C(1) << 33 | number;
}

static const char *say(machine *m, uint32_t peer, uint8_t kind, uint8_t value)
{
    const uint8_t bytes[8] = {kind, value};
    return machine_message(m, peer, bytes, sizeof bytes);
}

/* The peer enters an iteration, and its update is here. */
static const char *update(machine *m, uint32_t peer, uint64_t number, uint8_t iteration)
{
    (void)say(m, peer, BOTH, iteration);
    return machine_done(m, take_id(peer, number), SHOAL_OK, NULL);
}

static void begin(machine *m, const char *spec)
{
    machine_open(m, spec, 4, 0, 1, 1);
    m->world.hosts = m->hosts;
    (void)machine_start(m);
    (void)machine_done(m, put_id(0, 0), SHOAL_OK, NULL);
    (void)machine_done(m, put_id(2, 0), SHOAL_OK, NULL);
}

static void the_start_sends_and_asks_for_updates(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "hop", 4, 0, 1, 1);
    const char *text = machine_start(&m);
    assert_non_null(strstr(text, "send 0 0200000000000000; send 2 0200000000000000; "
                                 "mix SLOT1 [0,4) = 1*PARAM; op "));
    machine_close(&m);
}

static void standard_needs_all_updates_of_its_iteration(void **state)
{
    (void)state;
    machine m;
    begin(&m, "hop");
    assert_string_equal(machine_event(&m, SHOALI_EV_BEFORE), "");
    (void)update(&m, 0, 0, 0);
    const char *text = update(&m, 2, 0, 0);
    /* the finale's slot, four of the window, two for each neighbour */
    assert_non_null(strstr(text, "mix PARAM [0,4) = 0.333333*SLOT5 + 0.333333*SLOT7 + "
                                 "0.333333*PARAM; go apply @0"));
    text = machine_event(&m, SHOALI_EV_AFTER);
    assert_non_null(strstr(text, "send 0 0301000000000000; send 2 0301000000000000; "
                                 "mix SLOT2 [0,4) = 1*PARAM"));
    assert_non_null(strstr(text, "go hold @1"));
    machine_close(&m);
}

static void backup_goes_on_without_one(void **state)
{
    (void)state;
    machine m;
    begin(&m, "hop:backup=1,tokens=2");
    (void)machine_event(&m, SHOALI_EV_BEFORE);
    const char *text = update(&m, 2, 0, 0);
    assert_non_null(strstr(text, "mix PARAM [0,4) = 0.5*SLOT8 + 0.5*PARAM; go apply @0"));
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_AFTER), "go hold @1"));
    (void)update(&m, 2, 1, 1);
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_BEFORE), "go apply @1"));
    (void)machine_done(&m, put_id(0, 1), SHOAL_OK, NULL);
    (void)machine_done(&m, put_id(2, 1), SHOAL_OK, NULL);
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_AFTER), "go hold @2"));
    (void)update(&m, 2, 2, 2);
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_BEFORE), "go apply @2"));
    /* two ahead of worker 0, which is still in 0: its token is waited for */
    assert_null(strstr(machine_event(&m, SHOALI_EV_AFTER), "go"));
    assert_non_null(strstr(say(&m, 0, BOTH, 1), "go hold @3"));
    machine_close(&m);
}

static void stale_updates_weigh_by_their_age_and_once(void **state)
{
    (void)state;
    machine m;
    begin(&m, "hop:staleness=2,tokens=4");
    (void)update(&m, 0, 0, 0);
    (void)update(&m, 2, 0, 0);
    /* all of iteration 0: three equal weights */
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_BEFORE), "0.333333*PARAM; go apply @0"));
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_AFTER), "go hold @1"));
    /* nothing new, but within two iterations: alone */
    assert_string_equal(machine_event(&m, SHOALI_EV_BEFORE), "go apply @1 /1");
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_AFTER), "go hold @2"));
    /* a new one of iteration 1 weighs 2, one's own 3 */
    (void)update(&m, 0, 1, 1);
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_BEFORE), "= 0.4*SLOT6 + 0.6*PARAM"));
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_AFTER), "go hold @3"));
    /* worker 2's newest is of iteration 0: too old */
    assert_null(strstr(machine_event(&m, SHOALI_EV_BEFORE), "go"));
    assert_non_null(strstr(update(&m, 2, 1, 1), "go apply @3"));
    machine_close(&m);
}

static void a_straggler_jumps_to_where_nobody_waits_for_it(void **state)
{
    (void)state;
    machine m;
    begin(&m, "hop:backup=1,skip=10,tokens=8");
    for (uint8_t k = 0; k < 5; k++) {
        (void)update(&m, 0, k, k);
        (void)update(&m, 2, k, k);
    }
    (void)say(&m, 0, BOTH, 5);
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_BEFORE), "go apply @0"));
    /* worker 2 is in 4: four on, with the neighbours' models of iteration 3 */
    const char *text = machine_event(&m, SHOALI_EV_AFTER);
    assert_non_null(strstr(text, "mix PARAM [0,4) = 0.5*SLOT8 + 0.5*SLOT17; "));
    assert_non_null(strstr(text, "send 0 0304000000000000"));
    assert_non_null(strstr(text, "go hold @4"));
    machine_close(&m);
}

static void too_many_updates_are_refused(void **state)
{
    (void)state;
    machine m;
    begin(&m, "hop");
    assert_string_equal(say(&m, 0, BOTH, 0), "");
    assert_string_equal(say(&m, 0, BOTH, 1), "");
    assert_non_null(strstr(say(&m, 0, BOTH, 2), "fail ECORRUPT"));
    machine_close(&m);
    begin(&m, "hop");
    assert_string_equal(say(&m, 0, BOTH, 1), "");
    assert_non_null(strstr(say(&m, 0, BOTH, 1), "fail ECORRUPT"));
    machine_close(&m);
    begin(&m, "hop");
    assert_string_equal(machine_message(&m, 0, "xyz", 3), ""); /* not a message */
    assert_string_equal(say(&m, 3, BOTH, 9), "");              /* not a neighbour */
    machine_close(&m);
}

static void keys_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"hop:skip=4", "hop:backup=1,skip=4,serial",
                                      "hop:notify_ack,backup=1", "hop:notify_ack,serial"};
    shoali_protocol protocol;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_status(shoali_sync_open(bad[i], &protocol), SHOAL_EINVAL);
    machine m;
    machine_open(&m, "hop:graph=torus", 4, 0, 0, 1);
    assert_non_null(strstr(machine_start(&m), "fail EINVAL"));
    machine_close(&m);
    machine_open(&m, "d_psgd:graph=double_ring", 5, 0, 0, 1);
    assert_non_null(strstr(machine_start(&m), "even number of workers"));
    machine_close(&m);
}

static void notify_ack_waits_until_updates_are_used(void **state)
{
    (void)state;
    machine m;
    begin(&m, "hop:notify_ack");
    (void)update(&m, 0, 0, 0);
    (void)update(&m, 2, 0, 0);
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_BEFORE), "send 0 0400000000000000"));
    assert_null(strstr(machine_event(&m, SHOALI_EV_AFTER), "go"));
    assert_null(strstr(say(&m, 0, ACK, 0), "go"));
    assert_non_null(strstr(say(&m, 2, ACK, 0), "go hold @1"));
    machine_close(&m);
}

static void serial_sends_what_the_update_made(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "hop:serial", 4, 0, 1, 1);
    assert_null(strstr(machine_start(&m), "send"));
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_BEFORE), "go apply @0"));
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_AFTER), "send 0 0200000000000000"));
    (void)update(&m, 0, 0, 0);
    const char *text = update(&m, 2, 0, 0);
    assert_non_null(strstr(text, "mix PARAM"));
    assert_non_null(strstr(text, "send 0 0101000000000000"));
    assert_non_null(strstr(text, "go hold @1"));
    machine_close(&m);
}

static void a_codec_without_losses_codes_all_updates(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "hop", 4, 0, 1, 1);
    m.world.coding = SHOALI_LOSSLESS;
    m.world.hosts = m.hosts;
    const char *text = machine_start(&m);
    assert_non_null(strstr(text, "mix SLOT1 [0,4) = 1*PARAM; op "));
    assert_non_null(strstr(text, "push pull"));
    machine_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_start_sends_and_asks_for_updates),
        CHECK_TEST(standard_needs_all_updates_of_its_iteration),
        CHECK_TEST(backup_goes_on_without_one),
        CHECK_TEST(stale_updates_weigh_by_their_age_and_once),
        CHECK_TEST(a_straggler_jumps_to_where_nobody_waits_for_it),
        CHECK_TEST(too_many_updates_are_refused),
        CHECK_TEST(keys_that_do_not_fit_are_refused),
        CHECK_TEST(notify_ack_waits_until_updates_are_used),
        CHECK_TEST(serial_sends_what_the_update_made),
        CHECK_TEST(a_codec_without_losses_codes_all_updates),
    };
    return CHECK_RUN(tests);
}
