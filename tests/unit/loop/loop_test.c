/* SPDX-License-Identifier: Apache-2.0 */
/* One thread: tasks in order, a call that waits, a timer that falls due, a descriptor that speaks,
 * a thread that came late. */
#include "loop/loop.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "support/check.h"
#include "support/looped.h"

typedef struct note {
    looped *l;
    int number;
} note;

static void write_down(void *arg)
{
    const note *n = arg;
    n->l->order[n->l->count++] = n->number;
}

static void tasks_run_in_order_of_posting(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    note notes[] = {{&l, 3}, {&l, 1}, {&l, 2}};
    shoali_task first = {.run = write_down, .arg = &notes[0]};
    shoali_loop_post(&l.loop, &first);
    assert_ok(shoali_loop_soon(&l.loop, write_down, &notes[1]));
    shoali_task *third = shoali_loop_task(write_down, &notes[2]);
    assert_ok(shoali_loop_offer(&l.loop, third));
    assert_int_equal(l.count, 0);
    shoali_loop_once(&l.loop, 0);
    assert_int_equal(l.count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(l.order[i], notes[i].number);
    assert_true(l.loop.busy);
    assert_ok(shoali_loop_offer(&l.loop, third)); /* the caller's, so once more */
    shoali_loop_once(&l.loop, 0);
    assert_int_equal(l.count, 4);
    shoali_loop_once(&l.loop, 0);
    assert_false(l.loop.busy);
    assert_int_equal(l.rounds, 3);
    shoali_free(third);
    looped_free(&l);
}

static void who_ends_takes_its_own_tasks_only(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    note one = {&l, 1};
    shoali_task task = {.run = write_down, .arg = &one};
    l.loop.stopping = true;
    assert_int_equal(shoali_loop_soon(&l.loop, write_down, &one), SHOAL_ECANCELLED);
    assert_int_equal(shoali_loop_offer(&l.loop, &task), SHOAL_ECANCELLED);
    shoali_loop_post(&l.loop, &task);
    shoali_loop_once(&l.loop, 0);
    assert_int_equal(l.count, 1);
    looped_free(&l);
}

static void see_thread(void *arg)
{
    *(pthread_t *)arg = pthread_self();
}

static void a_call_waits_for_its_end(void **state)
{
    (void)state;
    looped l;
    pthread_t where;
    looped_init(&l);
    shoali_loop_call(&l.loop, see_thread, &where); /* nobody runs it: here */
    assert_true(pthread_equal(where, pthread_self()));
    assert_ok(shoali_loop_start(&l.loop));
    shoali_loop_call(&l.loop, see_thread, &where);
    assert_true(pthread_equal(where, l.loop.thread));
    assert_int_equal(l.begun, 1);
    note notes[] = {{&l, 1}, {&l, 2}, {&l, 3}, {&l, 4}};
    for (int i = 0; i < 4; i++) { /* it sleeps each time, and is woken */
        shoali_loop_call(&l.loop, write_down, &notes[i]);
        assert_int_equal(l.count, i + 1);
    }
    looped_free(&l);
}

static void what_falls_due_is_not_slept_over(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    shoali_loop_once(&l.loop, 0); /* the first round comes late: it never came before */
    l.late_us = 0;
    const uint64_t begun_us = shoali_now_us();
    l.due_us = begun_us + 20 * 1000;
    shoali_loop_once(&l.loop, begun_us + 60 * 1000 * 1000);
    assert_true(shoali_now_us() >= l.due_us);
    assert_true(shoali_now_us() < begun_us + 50 * 1000 * 1000);
    const uint64_t until_us = shoali_now_us() + 20 * 1000;
    l.due_us = UINT64_MAX;
    shoali_loop_once(&l.loop, until_us);
    assert_true(shoali_now_us() >= until_us);
    looped_free(&l);
}

static void a_descriptor_that_speaks_is_told(void **state)
{
    (void)state;
    looped l;
    int ends[2];
    looped_init(&l);
    assert_int_equal(pipe(ends), 0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = ends[0]};
    assert_int_equal(epoll_ctl(l.loop.epoll_fd, EPOLL_CTL_ADD, ends[0], &event), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    shoali_loop_once(&l.loop, UINT64_MAX / 2);
    assert_int_equal(l.heard, 1);
    assert_int_equal(l.fd, ends[0]);
    l.waits_for = ends[0]; /* until the next timer, */
    const uint64_t until_us = shoali_now_us() + 5000;
    shoali_loop_once(&l.loop, until_us);
    assert_int_equal(l.heard, 2);
    assert_true(shoali_now_us() >= until_us);
    note last = {&l, 9}; /* or a task, */
    shoali_task task = {.run = write_down, .arg = &last};
    assert_ok(shoali_loop_start(&l.loop));
    shoali_loop_call(&l.loop, see_thread, &(pthread_t){0});
    shoali_loop_post(&l.loop, &task);
    shoali_loop_call(&l.loop, see_thread, &(pthread_t){0});
    assert_int_equal(l.count, 1);
    shoali_loop_stop(&l.loop);
    l.waits_for = -1; /* and what is urgent does not wait */
    l.due_us = UINT64_MAX;
    const int before = (int)l.heard; /* the thread may have left a round without sleep */
    for (int i = 0; i < 3 && (int)l.heard == before; i++)
        shoali_loop_once(&l.loop, UINT64_MAX / 2);
    assert_int_equal(l.heard, before + 1);
    close(ends[0]);
    close(ends[1]);
    looped_free(&l);
}

static void who_came_late_knows_by_how_much(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    l.loop.now_us = shoali_now_us() - 10 * SHOALI_LATE_US; /* as if the last round was then */
    l.loop.busy = true;                                    /* and nobody meant to sleep since */
    shoali_loop_once(&l.loop, 0);
    assert_true(l.late_us >= 10 * SHOALI_LATE_US);
    l.late_us = 0;
    l.loop.now_us = shoali_now_us();
    l.loop.busy = true;
    shoali_loop_once(&l.loop, 0);
    assert_true(l.late_us == 0 || l.late_us > SHOALI_LATE_US); /* this machine may be busy */
    looped_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(tasks_run_in_order_of_posting),    CHECK_TEST(who_ends_takes_its_own_tasks_only),
        CHECK_TEST(a_call_waits_for_its_end),         CHECK_TEST(what_falls_due_is_not_slept_over),
        CHECK_TEST(a_descriptor_that_speaks_is_told), CHECK_TEST(who_came_late_knows_by_how_much)};
    return CHECK_RUN(tests);
}
