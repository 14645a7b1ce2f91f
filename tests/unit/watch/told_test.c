/* SPDX-License-Identifier: Apache-2.0 */
/* Question and answer, and answers that are none. */
#include "watch/told.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "support/check.h"

static const shoali_status_head head = {.rank = 1, .ranks = 3, .age_us = 77, .job = "j"};

static void the_question_holds_the_time(void **state)
{
    (void)state;
    uint8_t ask[SHOALI_STATUS_ASK_BYTES];
    uint32_t last_ms = 0;
    shoali_told_question(20001, ask);
    assert_true(shoali_told_is_question(ask, &last_ms));
    assert_int_equal(last_ms, 20001);
    assert_false(shoali_status_ask_decode(ask, sizeof ask));
    shoali_status_ask_encode(ask);
    assert_false(shoali_told_is_question(ask, &last_ms));
}

static void an_answer_holds_the_last_events(void **state)
{
    (void)state;
    size_t bytes = 0;
    shoali_told told;
    shoali_kept *ring = calloc(1, sizeof *ring);
    assert_non_null(ring);
    ring->together = 1;
    memcpy(ring->model, "le\033net", 6);
    for (uint64_t i = 0; i < 5; i++)
        shoali_kept_add(ring, &(shoali_trace_event){.start_us = 1000000 * i, .step = i});
    uint8_t *answer = shoali_told_answer(&head, ring, 4000000, 1500, &bytes);
    assert_non_null(answer);
    assert_int_equal(shoali_told_read(answer, bytes, &told), SHOAL_OK);
    assert_true(told.keeps && told.together && told.now_us == 4000000);
    assert_int_equal(told.head.rank, 1);
    assert_string_equal(told.model, "le?net");
    assert_int_equal(told.count, 2);
    assert_int_equal(told.events[0].step, 3);
    shoali_free(told.events);
    for (size_t cut = 0; cut < bytes; cut++)
        assert_int_equal(shoali_told_read(answer, cut, &told), SHOAL_ECORRUPT);
    memset(answer + SHOALI_STATUS_HEAD_BYTES + 32, 0xff, 8); /* more events than there can be */
    assert_int_equal(shoali_told_read(answer, bytes, &told), SHOAL_ECORRUPT);
    shoali_free(answer);
    free(ring);
}

static void who_keeps_none_says_so(void **state)
{
    (void)state;
    size_t bytes = 0;
    shoali_told told;
    uint8_t *answer = shoali_told_answer(&head, NULL, 5, 1000, &bytes);
    assert_non_null(answer);
    assert_int_equal(shoali_told_read(answer, bytes, &told), SHOAL_OK);
    assert_true(!told.keeps && told.count == 0);
    shoali_free(told.events);
    shoali_free(answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_question_holds_the_time),
        CHECK_TEST(an_answer_holds_the_last_events),
        CHECK_TEST(who_keeps_none_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
