/* SPDX-License-Identifier: Apache-2.0 */
/* The lease that a proof of death rests on, by its arithmetic. */
#include "member/life.h"
#include "support/check.h"

enum { TIMEOUT = 2500 * 1000, BEAT = TIMEOUT / 10 };

static void a_proof_counts_while_the_last_word_is_fresh(void **state)
{
    (void)state;
    assert_int_equal(shoali_life_end(false, 0, TIMEOUT), SHOALI_DEATH_CERTAIN);
    assert_int_equal(shoali_life_end(true, 0, TIMEOUT), SHOALI_DEATH_DYING);
    assert_int_equal(shoali_life_end(false, TIMEOUT / 2, TIMEOUT), SHOALI_DEATH_NONE);
    assert_int_equal(shoali_life_end(true, TIMEOUT / 2, TIMEOUT), SHOALI_DEATH_NONE);
    /* who dies just before a heartbeat, and is looked at a little later */
    assert_int_equal(shoali_life_end(false, BEAT + 100 * 1000, TIMEOUT), SHOALI_DEATH_CERTAIN);
}

/* The longest time for which a word is fresh. */
static uint64_t fresh_us(void)
{
    uint64_t us = 0;
    while (shoali_life_end(false, us + 1000, TIMEOUT) != SHOALI_DEATH_NONE)
        us += 1000;
    return us;
}

/* Who leaves somebody out is quiet for longer than a word is fresh to that one, though its clock is
 * a tenth fast, the other's a tenth slow, the word was late and the other one late itself. */
static void quiet_is_longer_than_fresh(void **state)
{
    (void)state;
    const uint64_t quiet_us = shoali_life_quiet_us(TIMEOUT) / 11 * 10;
    const uint64_t late_us = TIMEOUT / 10, word_us = TIMEOUT / 20;
    assert_int_equal(shoali_life_deaf_us(late_us, TIMEOUT), 0);
    assert_true(fresh_us() / 9 * 10 + late_us + word_us < quiet_us + 100 * 1000);
    assert_true(fresh_us() + late_us + word_us < quiet_us);
}

/* Towards who is silent: by the time it is lost, this one has been quiet for long enough. */
static void who_is_silent_is_not_spoken_to(void **state)
{
    (void)state;
    uint64_t us = 0;
    while (shoali_life_speaks(us, TIMEOUT))
        us += 1000;
    assert_true(us + shoali_life_quiet_us(TIMEOUT) <= TIMEOUT + 1000);
    assert_true(us > 4 * BEAT); /* a few lost or late heartbeats are none of that */
}

/* All that waited for a process that was stopped has been read by then. */
static void who_was_late_takes_nothing_for_a_word(void **state)
{
    (void)state;
    assert_int_equal(shoali_life_deaf_us(0, TIMEOUT), 0);
    assert_true(shoali_life_deaf_us(TIMEOUT / 2, TIMEOUT) > 100 * 1000);
    assert_true(shoali_life_deaf_us(TIMEOUT / 2, TIMEOUT) <= BEAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_proof_counts_while_the_last_word_is_fresh),
        CHECK_TEST(quiet_is_longer_than_fresh),
        CHECK_TEST(who_is_silent_is_not_spoken_to),
        CHECK_TEST(who_was_late_takes_nothing_for_a_word),
    };
    return CHECK_RUN(tests);
}
