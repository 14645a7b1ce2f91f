/* SPDX-License-Identifier: Apache-2.0 */
/* Long jobs: one at a time and in order, elsewhere; their end, with its error, on the loop's
 * thread. */
#include "loop/work.h"

#include "base/error.h"
#include "support/check.h"
#include "support/looped.h"

typedef struct labour {
    looped *l;
    shoali_job job;
    shoal_status gives, got;
    bool says;
    int number;
    pthread_t worked, done;
    char text[64];
} labour;

static shoal_status work_on(void *arg)
{
    labour *one = arg;
    one->worked = pthread_self();
    return one->says ? shoali_fail(one->gives, "job %d has failed", one->number) : one->gives;
}

static void done(void *arg, shoal_status status)
{
    labour *one = arg;
    one->got = status;
    one->done = pthread_self();
    if (one->job.work != NULL)
        snprintf(one->text, sizeof one->text, "%s", one->job.error.text);
    one->l->order[one->l->count++] = one->number;
}

/* A worker that has been stopped has done what was posted; a call then comes behind its ends. */
static void nothing(void *arg)
{
    (void)arg;
}

static void jobs_run_in_order_and_elsewhere(void **state)
{
    (void)state;
    looped l;
    shoali_worker worker = {0};
    looped_init(&l);
    shoali_work_init(&worker, &l.loop);
    assert_false(worker.running); /* before there is work there is no thread */
    assert_ok(shoali_loop_start(&l.loop));
    labour all[] = {{.l = &l, .number = 1},
                    {.l = &l, .number = 2, .gives = SHOAL_ENOMEM, .says = true},
                    {.l = &l, .number = 3, .gives = SHOAL_ECORRUPT}};
    for (int i = 0; i < 3; i++) {
        all[i].got = SHOAL_PENDING;
        all[i].job = (shoali_job){.work = work_on, .done = done, .arg = &all[i]};
        shoali_work_post(&worker, &all[i].job);
    }
    shoali_work_stop(&worker);
    shoali_loop_call(&l.loop, nothing, NULL);
    assert_int_equal(l.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(l.order[i], i + 1);
        assert_int_equal(all[i].got, all[i].gives);
        assert_false(pthread_equal(all[i].worked, l.loop.thread));
        assert_false(pthread_equal(all[i].worked, pthread_self()));
        assert_true(pthread_equal(all[i].done, l.loop.thread));
    }
    assert_string_equal(all[1].text, "job 2 has failed");
    assert_non_null(strstr(all[2].text, shoal_status_text(SHOAL_ECORRUPT))); /* it left none */
    assert_int_equal(l.begun, 2);
    shoali_work_free(&worker);
    looped_free(&l);
}

static void see_error(void *arg, shoal_status status)
{
    labour *one = arg;
    done(arg, status);
    snprintf(one->text, sizeof one->text, "%s", shoal_last_error()->text);
}

static void a_function_is_a_job_with_an_error_of_its_own(void **state)
{
    (void)state;
    looped l;
    shoali_worker worker = {0};
    looped_init(&l);
    shoali_work_init(&worker, &l.loop);
    labour good = {.l = &l, .number = 1}, bad = {.l = &l, .number = 2, .gives = SHOAL_ECORRUPT};
    bad.says = true;
    assert_ok(shoali_work_soon(&worker, work_on, see_error, &good));
    assert_ok(shoali_work_soon(&worker, work_on, see_error, &bad));
    shoali_work_stop(&worker);
    shoali_loop_once(&l.loop, 0); /* no thread runs the loop: this one */
    assert_int_equal(l.count, 2);
    assert_int_equal(good.got, SHOAL_OK);
    assert_int_equal(bad.got, SHOAL_ECORRUPT);
    assert_string_equal(bad.text, "job 2 has failed");
    shoali_work_free(&worker);
    looped_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(jobs_run_in_order_and_elsewhere),
                                       CHECK_TEST(a_function_is_a_job_with_an_error_of_its_own)};
    return CHECK_RUN(tests);
}
