/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a metrics file says how far the run is, whatever a killed process has left there. */
#include "support/check.h"

#include <math.h>
#include <string.h>

#include "files/metrics_last.h"
#include "support/scratch_dir.h"

static int set_up(void **state)
{
    (void)state;
    scratch_dir_make();
    return 0;
}

static shoali_metrics_last last_of(const char *text)
{
    shoali_metrics_last last;
    scratch_write("metrics.jsonl", text, strlen(text));
    shoali_metrics_read_last(scratch_path("metrics.jsonl"), &last);
    return last;
}

static void an_epoch_that_ended_with_the_last_step_says_its_loss(void **state)
{
    (void)state;
    static const char steps[] = "{\"step\": 4, \"loss\": 2.5}\n{\"step\": 5, \"loss\": 2.25}\n";
    char text[512];
    shoali_metrics_last last = last_of(steps);
    assert_int_equal(last.step, 5);
    assert_int_equal(last.epoch, 0);
    assert_true(last.loss == 2.25 && isnan(last.accuracy));
    snprintf(text, sizeof text,
             "%s{\"epoch\": 1, \"step\": 5, \"train_loss\": 2.75, \"test_accuracy\": 62.5}\n",
             steps);
    last = last_of(text);
    assert_int_equal(last.epoch, 1);
    assert_true(last.loss == 2.75 && last.accuracy == 62.5);
    strcat(text, "{\"step\": 6, \"loss\": 2}\n{\"replica\": 6, \"hash\": \"0\"}\n");
    strcat(text, "{\"reform\": 1, \"step\": 9, \"rank\": 0}\n"); /* not done: where they begin */
    last = last_of(text);
    assert_int_equal(last.step, 6);
    assert_true(last.loss == 2 && last.accuracy == 62.5);
}

static void half_a_line_and_other_things_are_passed_over(void **state)
{
    (void)state;
    shoali_metrics_last last = last_of("[1]\nno JSON\n\n{\"step\": \"7\"}\n{\"step\": -3}\n"
                                       "{\"step\": 3, \"loss\": null}\n{\"step\": 4, \"lo");
    assert_int_equal(last.step, 3);
    assert_true(isnan(last.loss));
    last = last_of("");
    assert_int_equal(last.step, 0);
    shoali_metrics_read_last(scratch_path("absent"), &last);
    assert_int_equal(last.step, 0);
    assert_true(isnan(last.loss) && isnan(last.accuracy));
}

/* More than what is read at first stands behind the last epoch's line. */
static void a_long_epoch_is_found(void **state)
{
    (void)state;
    enum { LINES = 8000, BYTES = 64 };
    static char text[(LINES + 2) * BYTES];
    size_t used = (size_t)snprintf(text, BYTES,
                                   "{\"epoch\": 3, \"step\": 1, \"test_accuracy\": 7}\n");
    for (int i = 2; i <= LINES; i++)
        used += (size_t)snprintf(text + used, BYTES, "{\"step\": %d, \"loss\": %d}\n", i, i);
    const shoali_metrics_last last = last_of(text);
    assert_int_equal(last.step, LINES);
    assert_int_equal(last.epoch, 3);
    assert_true(last.loss == LINES && last.accuracy == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(an_epoch_that_ended_with_the_last_step_says_its_loss),
        CHECK_TEST(half_a_line_and_other_things_are_passed_over),
        CHECK_TEST(a_long_epoch_is_found),
    };
    return cmocka_run_group_tests(tests, set_up, scratch_tear_down);
}
