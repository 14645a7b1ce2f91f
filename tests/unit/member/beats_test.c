/* SPDX-License-Identifier: Apache-2.0 */
/* Who tells whom: counted, and in virtual time with a member that ends. */
#include "member/beats.h"

#include <stdlib.h>

#include "base/rng.h"
#include "support/check.h"

enum { TIMEOUT_US = 2500000, BEAT_US = TIMEOUT_US / SHOALI_BEATS_PER_TIMEOUT };

static const uint32_t sizes[] = {2, 3, 32, 33, 64, 100, 256, 257, 1024, 10000};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void few_tell_all_at_each_beat(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 32; size++)
        for (uint32_t other = 0; other < size; other++)
            for (uint64_t beat = 1; beat < 4; beat++)
                assert_true(shoali_beats_due(1, other, size, beat - 1, beat) == (other != 1));
    assert_int_equal(shoali_beats_turn_us(32, TIMEOUT_US), BEAT_US);
}

static void each_has_three_watchers_among_many(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SIZES; i++) {
        const uint32_t size = sizes[i], me = size / 2;
        uint32_t watch_me = 0, watched = 0;
        for (uint32_t other = 0; other < size; other++) {
            watch_me += shoali_beats_watches(other, me, size);
            watched += shoali_beats_watches(me, other, size);
        }
        assert_false(shoali_beats_watches(me, me, size));
        assert_int_equal(watch_me, size <= 32 ? size - 1 : 3);
        assert_int_equal(watched, watch_me);
    }
}

/* However late this thread comes, everyone is told within eight beats of its turn, or at once. */
static void everyone_has_a_turn(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 5, 0};
    for (uint32_t i = 0; i < SIZES; i++) {
        const uint32_t size = sizes[i], me = (uint32_t)(shoali_rng_next(&rng) % size);
        const uint64_t turn = shoali_beats_turn_us(size, TIMEOUT_US) / BEAT_US;
        assert_true(turn >= 1 && turn <= 8);
        uint64_t *told = calloc(size, sizeof *told), beat = 100, frames = 0;
        for (uint32_t other = 0; other < size; other++)
            told[other] = beat;
        for (int n = 0; n < 80; n++) {
            const uint64_t last = beat;
            beat += 1 + shoali_rng_next(&rng) % 3;
            for (uint32_t other = 0; other < size; other++) {
                if (shoali_beats_due(me, other, size, last, beat))
                    told[other] = beat, frames++;
                assert_true(other == me || beat - told[other] <= turn);
            }
        }
        free(told);
        if (size >= 256) /* a share of the members per beat, not all */
            assert_true(frames <= (beat - 100) * (size / turn + 1 + 3));
    }
}

/* What one member knows of the one that ends. */
typedef struct knowing {
    uint64_t heard_us, beat_us, known_us;
    bool missed;
} knowing;

/* One beat of member m at now_us: what alive/view.c does. */
static void look(knowing *all, uint32_t m, uint32_t victim, uint32_t size, uint64_t now_us)
{
    knowing *k = &all[m];
    const bool watches = shoali_beats_watches(m, victim, size);
    uint64_t patience_us = TIMEOUT_US;
    if (!watches && !k->missed)
        patience_us += shoali_beats_turn_us(size, TIMEOUT_US) - BEAT_US;
    if (k->known_us != 0 || now_us - k->heard_us <= patience_us)
        return;
    k->known_us = now_us;
    for (uint32_t i = 0; watches && i < size; i++)
        all[i].missed = true;
}

/* The victim falls silent at a random moment; the longest time until a member knows. dead_watchers:
 * those that watch it fall silent with it. */
static uint64_t known_after_us(uint32_t size, bool dead_watchers, shoali_rng *rng)
{
    enum { STEP_US = 10000, END_US = 10000000 };
    const uint32_t victim = (uint32_t)(shoali_rng_next(rng) % size);
    const uint64_t phase_us = shoali_rng_next(rng) % BEAT_US;
    const uint64_t ends_us = 2500000 + shoali_rng_next(rng) % 2000000;
    uint64_t longest_us = 0, beat = 0;
    knowing *all = calloc(size, sizeof *all);
    for (uint32_t m = 0; m < size; m++)
        all[m].beat_us = shoali_rng_next(rng) % BEAT_US;
    for (uint64_t now_us = 0; now_us < END_US; now_us += STEP_US) {
        const uint64_t last = beat;
        beat = (now_us + phase_us) / BEAT_US;
        for (uint32_t m = 0; m < size; m++) {
            const bool dead = m == victim ||
                              (dead_watchers && shoali_beats_watches(m, victim, size));
            if (now_us < ends_us && beat > last && shoali_beats_due(victim, m, size, last, beat))
                all[m].heard_us = now_us;
            if (!dead && (now_us + all[m].beat_us) % BEAT_US < STEP_US)
                look(all, m, victim, size, now_us);
            assert_true(all[m].known_us == 0 || all[m].known_us >= ends_us); /* no false word */
        }
    }
    for (uint32_t m = 0; m < size; m++) {
        if (m == victim || (dead_watchers && shoali_beats_watches(m, victim, size)))
            continue;
        assert_true(all[m].known_us != 0);
        if (all[m].known_us - ends_us > longest_us)
            longest_us = all[m].known_us - ends_us;
    }
    free(all);
    return longest_us;
}

static void all_know_of_a_silence_in_three_seconds(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 6, 0};
    for (uint32_t i = 2; i < SIZES; i++)
        for (int n = 0; n < 3; n++)
            assert_true(known_after_us(sizes[i], false, &rng) <= 3000000);
}

static void all_know_though_its_watchers_are_gone_too(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 7, 0};
    for (uint32_t i = 3; i < SIZES; i++)
        assert_true(known_after_us(sizes[i], true, &rng) <= 5000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(few_tell_all_at_each_beat),
        CHECK_TEST(each_has_three_watchers_among_many),
        CHECK_TEST(everyone_has_a_turn),
        CHECK_TEST(all_know_of_a_silence_in_three_seconds),
        CHECK_TEST(all_know_though_its_watchers_are_gone_too),
    };
    return CHECK_RUN(tests);
}
