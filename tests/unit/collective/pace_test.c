/* SPDX-License-Identifier: Apache-2.0 */
#include "collective/pace.h"

#include <math.h>

#include "support/check.h"

enum { PIECE = 1000, PIECES = 20, FROM = 500, UNTIL = 500 + 40000 };

/* Send all pieces from a moment on, whenever it lets them; the times to at. */
static void send_all(shoali_pace *pace, uint64_t now_us, uint32_t pieces, uint64_t *at)
{
    for (uint32_t i = 0; i < pieces; i++) {
        while (!shoali_pace_may(pace, now_us)) {
            uint64_t next_us = shoali_pace_next_us(pace);
            assert_true(next_us > now_us && next_us <= UNTIL);
            now_us = next_us;
        }
        shoali_pace_sent(pace, PIECE);
        at[i] = now_us;
    }
}

static void pieces_leave_evenly(void **state)
{
    (void)state;
    shoali_pace pace;
    uint64_t at[PIECES];
    shoali_pace_begin(&pace, FROM, UNTIL, PIECES * PIECE, PIECE);
    send_all(&pace, FROM, PIECES, at);
    for (uint32_t i = 0; i < PIECES; i++)
        assert_true(fabs((double)at[i] - (FROM + i * (UNTIL - FROM) / (double)PIECES)) <= 2 + i);
}

/* For half of the time nothing was there to send: what is left takes the other half, and not more
 * than two pieces leave together. */
static void who_was_held_up_goes_faster_and_not_at_once(void **state)
{
    (void)state;
    shoali_pace pace;
    uint64_t at[PIECES];
    const uint64_t half = (UNTIL + FROM) / 2;
    shoali_pace_begin(&pace, FROM, UNTIL, PIECES * PIECE, PIECE);
    send_all(&pace, half, PIECES, at);
    assert_int_equal(at[1], half);
    for (uint32_t i = 2; i < PIECES; i++)
        assert_true(at[i] - at[i - 1] >= (UNTIL - half) / PIECES - 1);
    assert_true(at[PIECES - 1] <= UNTIL && at[PIECES - 1] > UNTIL - (UNTIL - half) / 5);
}

static void behind_its_time_there_is_no_limit(void **state)
{
    (void)state;
    shoali_pace pace = {0};
    assert_true(shoali_pace_may(&pace, 0)); /* nobody paces */
    shoali_pace_begin(&pace, FROM, UNTIL, PIECES * PIECE, PIECE);
    for (uint32_t i = 0; i < PIECES; i++) {
        assert_true(shoali_pace_may(&pace, UNTIL));
        shoali_pace_sent(&pace, PIECE);
    }
}

/* Timers that fire late cost nothing in the end: the rate follows. */
static void late_timers_are_made_good(void **state)
{
    (void)state;
    shoali_pace pace;
    uint64_t now_us = FROM, sent = 0;
    shoali_pace_begin(&pace, FROM, UNTIL, PIECES * PIECE, PIECE);
    for (; sent < PIECES; now_us += 1700) /* a piece is due each 2000 */
        if (shoali_pace_may(&pace, now_us)) {
            shoali_pace_sent(&pace, PIECE);
            sent++;
        }
    assert_true(now_us <= UNTIL + 1700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(pieces_leave_evenly),
        CHECK_TEST(who_was_held_up_goes_faster_and_not_at_once),
        CHECK_TEST(behind_its_time_there_is_no_limit),
        CHECK_TEST(late_timers_are_made_good),
    };
    return CHECK_RUN(tests);
}
