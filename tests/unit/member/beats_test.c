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
                assert_true(shoali_beats_due(1, other, size, beat % 2, beat - 1, beat) ==
                            (other != 1));
    assert_int_equal(shoali_beats_turn_us(32, true, TIMEOUT_US), BEAT_US);
    assert_int_equal(shoali_beats_turn_us(32, false, TIMEOUT_US), BEAT_US);
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

/* However late this thread comes, everyone is told within eight beats of its turn, or at once; by
 * one that does nothing, within 128. Who begins to work tells all within a turn. */
static void everyone_has_a_turn(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 5, 0};
    for (uint32_t i = 0; i < SIZES; i++) {
        const uint32_t size = sizes[i], me = (uint32_t)(shoali_rng_next(&rng) % size);
        const uint64_t turn = shoali_beats_turn_us(size, true, TIMEOUT_US) / BEAT_US;
        const uint64_t rare = shoali_beats_turn_us(size, false, TIMEOUT_US) / BEAT_US;
        assert_true(turn >= 1 && turn <= 8);
        assert_int_equal(rare, size <= 32 ? 1 : 128);
        uint64_t *told = calloc(size, sizeof *told), beat = 100, frames = 0, works_from = 0;
        for (uint32_t other = 0; other < size; other++)
            told[other] = beat;
        for (int n = 0; n < 600; n++) {
            const uint64_t last = beat;
            const bool works = n % 200 < 40;
            works_from = n % 200 == 0 ? last : works_from;
            beat += 1 + shoali_rng_next(&rng) % 3;
            for (uint32_t other = 0; other < size; other++) {
                if (shoali_beats_due(me, other, size, works, last, beat))
                    told[other] = beat, frames += !works;
                const uint64_t since = told[other] > works_from ? told[other] : works_from;
                assert_true(other == me || beat - told[other] <= rare);
                assert_true(other == me || !works || beat - since <= turn);
            }
        }
        free(told);
        if (size >= 256) /* a share of the members per beat, not all */
            assert_true(frames <= (beat - 100) * (size / rare + 1 + 3));
    }
}

/* ------------------------------------------------------------------ a member ends */

/* What one member knows of the one that ends. asked_us, known_us: 0: not */
typedef struct knowing {
    uint64_t heard_us, beat_us, asked_us, known_us;
    bool told, missed; /* to ask; that it is lost */
} knowing;

/* A world in virtual time. One member, the victim, falls silent at ends_us, and does nothing with
 * the others before that for a long time, or works with them. */
typedef struct world {
    uint32_t size, victim;
    uint64_t ends_us, back_us; /* it says nothing in between, and answers late what it was asked */
    bool works, dead_watchers, deaf_watcher;
    knowing *all;
    uint64_t asks;
} world;

static bool is_dead(const world *w, uint32_t m)
{
    return m == w->victim || (w->dead_watchers && shoali_beats_watches(m, w->victim, w->size));
}

/* Its first watcher alone, whose cable to it is cut. */
static bool is_deaf(const world *w, uint32_t m)
{
    return w->deaf_watcher && m == (w->victim + 1) % w->size;
}

static void ask(world *w, uint32_t m, uint64_t now_us)
{
    knowing *k = &w->all[m];
    k->asked_us = now_us;
    w->asks++;
    if ((now_us < w->ends_us || now_us >= w->back_us) && !is_deaf(w, m))
        k->heard_us = now_us, k->asked_us = 0, k->missed = false;
}

static shoali_silence silence(const world *w, uint32_t m, uint64_t now_us)
{
    const knowing *k = &w->all[m];
    return (shoali_silence){.watches = shoali_beats_watches(m, w->victim, w->size),
                            .asked = k->asked_us > 0,
                            .missed = k->missed,
                            .silent_us = now_us - k->heard_us,
                            .asked_us = now_us - k->asked_us};
}

/* Something of member m at now_us: what alive/view.c does at each beat, and when it is told. */
static void look(world *w, uint32_t m, bool beat, uint64_t now_us)
{
    knowing *k = &w->all[m];
    shoali_silence s = silence(w, m, now_us);
    if (k->known_us != 0 || is_dead(w, m))
        return;
    if ((k->told || k->missed) && shoali_beats_asks_too(&s, TIMEOUT_US))
        ask(w, m, now_us);
    k->told = false;
    s = silence(w, m, now_us);
    if ((beat || k->missed) && shoali_beats_lost(&s, w->size, TIMEOUT_US)) {
        k->known_us = now_us;
        for (uint32_t i = 0; s.watches && i < w->size; i++)
            w->all[i].missed = true;
    } else if (beat && shoali_beats_asks(&s, w->size, w->works, TIMEOUT_US)) {
        ask(w, m, now_us);
        for (uint32_t i = 0; s.watches && i < w->size; i++)
            w->all[i].told = true;
    }
}

/* Runs until end_us; the longest time after its silence began until a living member knew, or 0:
 * none did. */
static uint64_t live(world *w, uint64_t end_us, shoali_rng *rng)
{
    enum { STEP_US = 10000 };
    const uint64_t phase_us = shoali_rng_next(rng) % BEAT_US;
    uint64_t longest_us = 0, beat = 0;
    uint32_t knowing_ones = 0, living = 0;
    w->victim = (uint32_t)(shoali_rng_next(rng) % w->size);
    w->all = calloc(w->size, sizeof *w->all);
    for (uint32_t m = 0; m < w->size; m++)
        w->all[m].beat_us = shoali_rng_next(rng) % BEAT_US;
    for (uint64_t now_us = STEP_US; now_us < end_us; now_us += STEP_US) {
        const uint64_t last = beat;
        const bool speaks = now_us < w->ends_us || now_us >= w->back_us;
        beat = (now_us + phase_us) / BEAT_US;
        for (uint32_t m = 0; m < w->size; m++) {
            knowing *k = &w->all[m];
            if (speaks && !is_deaf(w, m) &&
                ((beat > last && shoali_beats_due(w->victim, m, w->size, w->works, last, beat)) ||
                 (now_us == w->back_us && k->asked_us > 0)))
                k->heard_us = now_us, k->asked_us = 0, k->missed = false;
            look(w, m, (now_us + k->beat_us) % BEAT_US < STEP_US, now_us);
            assert_true(k->known_us == 0 || k->known_us >= w->ends_us); /* no false word */
        }
    }
    for (uint32_t m = 0; m < w->size; m++) {
        living += !is_dead(w, m);
        knowing_ones += w->all[m].known_us > 0;
        if (w->all[m].known_us > w->ends_us + longest_us)
            longest_us = w->all[m].known_us - w->ends_us;
    }
    assert_true(w->deaf_watcher ? knowing_ones == 1 : knowing_ones == 0 || knowing_ones == living);
    free(w->all);
    return longest_us;
}

static uint64_t random_us(shoali_rng *rng)
{
    return 34000000 + shoali_rng_next(rng) % 2000000; /* more than a rare turn from the beginning */
}

static void all_know_of_a_silence_in_three_seconds(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 6, 0};
    for (uint32_t i = 2; i < SIZES; i++)
        for (int n = 0; n < (sizes[i] < 2000 ? 4 : 2); n++) {
            world w = {.size = sizes[i], .ends_us = random_us(&rng), .back_us = UINT64_MAX};
            w.works = n % 2 == 0;
            const uint64_t us = live(&w, w.ends_us + 4000000, &rng);
            assert_true(us > TIMEOUT_US - BEAT_US && us <= 3000000);
        }
}

static void all_who_work_know_though_its_watchers_are_gone_too(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 7, 0};
    for (uint32_t i = 3; i < SIZES; i++) {
        world w = {.size = sizes[i], .works = true, .dead_watchers = true, .back_us = UINT64_MAX};
        w.ends_us = random_us(&rng);
        const uint64_t us = live(&w, w.ends_us + 6000000, &rng);
        assert_true(us > 0 && us <= 5000000);
    }
}

/* Who does nothing for the others, and stops for less than the timeout, is lost to nobody. */
static void a_pause_below_the_timeout_is_no_loss(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 8, 0};
    for (uint32_t i = 0; i < SIZES - 1; i++)
        for (int n = 0; n < 4; n++) {
            world w = {.size = sizes[i], .works = n % 2 == 0};
            w.ends_us = random_us(&rng) / 10000 * 10000;
            w.back_us = w.ends_us + TIMEOUT_US - 2 * BEAT_US;
            assert_int_equal(live(&w, w.back_us + 3000000, &rng), 0);
        }
}

/* A watcher's word alone is nothing, nor is an answer that has just been asked for. */
static void both_a_word_and_no_answer_make_a_loss(void **state)
{
    (void)state;
    const uint64_t half_us = TIMEOUT_US / 2;
    shoali_silence s = {.missed = true, .silent_us = 4 * TIMEOUT_US};
    assert_false(shoali_beats_lost(&s, 256, TIMEOUT_US));
    s.asked = true;
    s.asked_us = half_us - BEAT_US;
    assert_false(shoali_beats_lost(&s, 256, TIMEOUT_US));
    s.asked_us++;
    assert_true(shoali_beats_lost(&s, 256, TIMEOUT_US));
    s.silent_us = TIMEOUT_US; /* heard within the timeout */
    assert_false(shoali_beats_lost(&s, 256, TIMEOUT_US));
    s = (shoali_silence){.asked = true, .silent_us = 4 * TIMEOUT_US, .asked_us = TIMEOUT_US - 1};
    assert_false(shoali_beats_lost(&s, 256, TIMEOUT_US));
    s.asked_us++;
    assert_true(shoali_beats_lost(&s, 256, TIMEOUT_US));
    s = (shoali_silence){.watches = true, .silent_us = TIMEOUT_US};
    assert_false(shoali_beats_lost(&s, 256, TIMEOUT_US));
    s.silent_us++;
    assert_true(shoali_beats_lost(&s, 256, TIMEOUT_US));
}

/* One watcher hears it no more and says so to all: it alone loses it; the others are answered. */
static void a_watcher_alone_is_not_believed(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 9, 0};
    for (uint32_t i = 3; i < SIZES - 1; i++)
        for (int n = 0; n < 2; n++) {
            world w = {.size = sizes[i], .works = n == 0, .deaf_watcher = true};
            const uint64_t us = live(&w, 40000000, &rng);
            assert_true(us > TIMEOUT_US && us <= TIMEOUT_US + 2 * BEAT_US);
            assert_true(w.asks <= 8 * (uint64_t)w.size); /* once a timeout, not at each beat */
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(few_tell_all_at_each_beat),
        CHECK_TEST(each_has_three_watchers_among_many),
        CHECK_TEST(everyone_has_a_turn),
        CHECK_TEST(all_know_of_a_silence_in_three_seconds),
        CHECK_TEST(all_who_work_know_though_its_watchers_are_gone_too),
        CHECK_TEST(a_pause_below_the_timeout_is_no_loss),
        CHECK_TEST(both_a_word_and_no_answer_make_a_loss),
        CHECK_TEST(a_watcher_alone_is_not_believed),
    };
    return CHECK_RUN(tests);
}
