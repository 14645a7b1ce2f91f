/* SPDX-License-Identifier: Apache-2.0 */
/* A codec that loses, seen from worker 1 of a ring of four whose neighbours 0 and 2 the test plays:
 * what travels, and what is kept of it at both ends. */
#include "sync/hop.h"

#include "support/check.h"
#include "support/machine.h"

enum { TAG = 2, BOTH };

static uint64_t put_id(uint32_t to, uint64_t number)
{
    return UINT64_C(1) << 47 | (uint64_t)to << 33 | number;
}

static uint64_t take_id(uint32_t from, uint64_t number)
{
    return (uint64_t)from << 47 | UINT64_C(1) << 33 | number;
}

static const char *update(machine *m, uint32_t peer, uint64_t number, uint8_t iteration)
{
    const uint8_t bytes[8] = {BOTH, iteration};
    (void)machine_message(m, peer, bytes, sizeof bytes);
    return machine_done(m, take_id(peer, number), SHOAL_OK, NULL);
}

static void begin(machine *m, const char *spec)
{
    machine_open(m, spec, 4, 0, 1, 1);
    m->world.coding = SHOALI_LOSSY;
    m->world.hosts = m->hosts;
}

/* Slots: the finale's; image, change and theirs of each neighbour; two updates of each. */
static void paired_images_take_their_average_with_the_replicas(void **state)
{
    (void)state;
    machine m;
    begin(&m, "hop");
    const char *text = machine_start(&m);
    assert_non_null(strstr(text, "mix SLOT2 [0,4) = 1*PARAM; op "));
    assert_non_null(strstr(text, "mix SLOT5 [0,4) = 1*PARAM; op "));
    assert_null(strstr(text, "push")); /* the first time whole */
    (void)machine_event(&m, SHOALI_EV_BEFORE);
    (void)update(&m, 0, 0, 0);
    (void)update(&m, 2, 0, 0); /* all are here, but it is not known what the neighbours have */
    assert_string_equal(machine_done(&m, put_id(0, 0), SHOAL_OK, NULL),
                        "mix SLOT1 [0,4) = 1*SLOT2");
    text = machine_done(&m, put_id(2, 0), SHOAL_OK, NULL);
    assert_non_null(strstr(text, "mix SLOT4 [0,4) = 1*SLOT5; "
                                 "mix SLOT3 [0,4) = 1*SLOT7; mix SLOT6 [0,4) = 1*SLOT9; "
                                 "mix PARAM [0,4) = 0.333333*SLOT3 + -0.333333*SLOT1 + "
                                 "0.333333*SLOT6 + -0.333333*SLOT4 + 1*PARAM; "
                                 "mix SLOT2 [0,4) = 1*SLOT1; "
                                 "mix SLOT1 [0,4) = 0.666667*SLOT1 + 0.333333*SLOT3; "
                                 "mix SLOT3 [0,4) = 0.666667*SLOT3 + 0.333333*SLOT2; "));
    assert_non_null(strstr(text, "go apply @0"));
    text = machine_event(&m, SHOALI_EV_AFTER);
    assert_non_null(strstr(text, "mix SLOT2 [0,4) = 1*PARAM + -1*SLOT1; op "));
    assert_non_null(strstr(text, "push pull"));
    assert_non_null(strstr(text, "go hold @1"));
    /* a change waits for its average: the image that it adds to may not have met yet */
    assert_null(strstr(update(&m, 0, 1, 1), "mix"));
    assert_string_equal(machine_done(&m, put_id(0, 1), SHOAL_OK, NULL),
                        "mix SLOT1 [0,4) = 1*SLOT1 + 1*SLOT2");
    (void)machine_done(&m, put_id(2, 1), SHOAL_OK, NULL);
    (void)update(&m, 2, 1, 1);
    text = machine_event(&m, SHOALI_EV_BEFORE);
    assert_non_null(strstr(text, "mix SLOT3 [0,4) = 1*SLOT3 + 1*SLOT8; "));
    assert_non_null(strstr(text, "go apply @1"));
    machine_close(&m);
}

/* Slots: image and change of each neighbour; updates from SLOT5 on, eleven of each. */
static void other_forms_keep_images_in_the_queue(void **state)
{
    (void)state;
    machine m;
    begin(&m, "hop:backup=1");
    (void)machine_start(&m);
    (void)machine_done(&m, put_id(0, 0), SHOAL_OK, NULL);
    (void)machine_done(&m, put_id(2, 0), SHOAL_OK, NULL);
    assert_null(strstr(update(&m, 0, 0, 0), "mix"));
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_BEFORE),
                           "mix PARAM [0,4) = 0.5*SLOT5 + -0.5*SLOT1 + 1*PARAM; go apply @0"));
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_AFTER), "go hold @1"));
    assert_non_null(strstr(update(&m, 0, 1, 1), "mix SLOT6 [0,4) = 1*SLOT5 + 1*SLOT6"));
    /* an update of its iteration is here, but one's own to 2 is still on its way */
    (void)machine_done(&m, put_id(0, 1), SHOAL_OK, NULL);
    assert_null(strstr(machine_event(&m, SHOALI_EV_BEFORE), "go"));
    assert_non_null(strstr(machine_done(&m, put_id(2, 1), SHOAL_OK, NULL), "go apply @1"));
    machine_close(&m);
}

/* A neighbour that is lost is left out, and what was on its way to it is waited for no more. */
static void the_lost_are_left_out(void **state)
{
    (void)state;
    machine m;
    begin(&m, "d_psgd");
    (void)machine_start(&m);
    (void)machine_done(&m, put_id(0, 0), SHOAL_OK, NULL);
    (void)update(&m, 0, 0, 0);
    (void)update(&m, 2, 0, 0);
    assert_null(strstr(machine_event(&m, SHOALI_EV_BEFORE), "go"));
    const char *text = machine_down(&m, 2, "gone");
    assert_non_null(strstr(text, "mix PARAM [0,4) = 0.333333*SLOT3 + -0.333333*SLOT1 + 1*PARAM; "));
    assert_non_null(strstr(text, "go apply @0"));
    machine_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(paired_images_take_their_average_with_the_replicas),
        CHECK_TEST(other_forms_keep_images_in_the_queue),
        CHECK_TEST(the_lost_are_left_out),
    };
    return CHECK_RUN(tests);
}
