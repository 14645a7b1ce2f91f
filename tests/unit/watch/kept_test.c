/* SPDX-License-Identifier: Apache-2.0 */
/* What is read is whole, newest, and nothing that is being overwritten. */
#include "watch/kept.h"

#include <pthread.h>
#include <stdlib.h>

#include "support/check.h"

static shoali_kept *ring;
static shoali_trace_event out[SHOALI_KEPT_EVENTS];

static int make(void **state)
{
    (void)state;
    ring = calloc(1, sizeof *ring);
    return ring != NULL ? 0 : -1;
}

static int drop(void **state)
{
    (void)state;
    free(ring);
    return 0;
}

/* Every field says the same, so that half an event is found. */
static void add(uint64_t i)
{
    shoali_kept_add(ring, &(shoali_trace_event){.start_us = 10 * i,
                                                .step = i,
                                                .offset = i,
                                                .took_us = 5,
                                                .encode_us = (uint32_t)i,
                                                .decode_us = (uint32_t)i,
                                                .sent_bytes = (uint32_t)i,
                                                .kind = (uint32_t)i});
}

static void check_whole(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const shoali_trace_event *e = &out[i];
        assert_true(e->start_us == 10 * e->step && e->offset == e->step && e->took_us == 5);
        assert_true(e->encode_us == (uint32_t)e->step && e->decode_us == e->encode_us);
        assert_true(e->sent_bytes == e->encode_us && e->kind == e->encode_us);
        assert_true(i == 0 || e->step > out[i - 1].step);
    }
}

static void the_newest_are_there(void **state)
{
    (void)state;
    uint64_t overwritten;
    assert_int_equal(shoali_kept_copy(ring, 0, out, &overwritten), 0);
    assert_int_equal(overwritten, 0);
    for (uint64_t i = 0; i < SHOALI_KEPT_EVENTS + 7; i++)
        add(i);
    assert_int_equal(shoali_kept_copy(ring, 0, out, &overwritten), SHOALI_KEPT_EVENTS);
    assert_int_equal(overwritten, 7);
    assert_int_equal(out[0].step, 7);
    check_whole(SHOALI_KEPT_EVENTS);
}

static void what_ended_earlier_is_left_out(void **state)
{
    (void)state;
    uint64_t overwritten;
    for (uint64_t i = 0; i < 100; i++)
        add(i);
    assert_int_equal(shoali_kept_copy(ring, 905, out, &overwritten), 10);
    assert_int_equal(out[0].step, 90); /* from 900 to 905 */
    assert_int_equal(shoali_kept_copy(ring, 906, out, &overwritten), 9);
    assert_int_equal(shoali_kept_copy(ring, 100000, out, &overwritten), 0);
}

enum { WRITTEN = 40 * SHOALI_KEPT_EVENTS };

static void *write_all(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; i < WRITTEN; i++)
        add(i);
    return NULL;
}

static void reading_beside_a_writer_finds_whole_events(void **state)
{
    (void)state;
    pthread_t writer;
    uint64_t overwritten = 0;
    assert_int_equal(pthread_create(&writer, NULL, write_all, NULL), 0);
    while (atomic_load(&ring->noted) < WRITTEN)
        check_whole(shoali_kept_copy(ring, 0, out, &overwritten));
    assert_int_equal(pthread_join(writer, NULL), 0);
    assert_int_equal(shoali_kept_copy(ring, 0, out, &overwritten), SHOALI_KEPT_EVENTS);
    assert_int_equal(overwritten, WRITTEN - SHOALI_KEPT_EVENTS);
    check_whole(SHOALI_KEPT_EVENTS);
}

static void a_step_is_found_behind_others(void **state)
{
    (void)state;
    assert_int_equal(shoali_kept_step(ring, 0, out, 4), 0);
    for (uint64_t i = 0; i < SHOALI_KEPT_EVENTS + 50; i++)
        shoali_kept_add(ring, &(shoali_trace_event){.step = i / 10, .offset = i});
    const uint64_t last = SHOALI_KEPT_EVENTS + 49; /* the fourth of step `last / 10` */
    assert_int_equal(shoali_kept_step(ring, last / 10, out, 16), last % 10 + 1);
    assert_int_equal(out[0].offset, last);
    assert_int_equal(shoali_kept_step(ring, last / 10 - 1, out, 16), 10);
    assert_int_equal(out[9].offset, last - last % 10 - 10);
    assert_int_equal(shoali_kept_step(ring, last / 10 - 1, out, 4), 4);
    assert_int_equal(shoali_kept_step(ring, last / 10 - 9, out, 16), 0); /* 64 are looked at */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_newest_are_there, make, drop),
        cmocka_unit_test_setup_teardown(what_ended_earlier_is_left_out, make, drop),
        cmocka_unit_test_setup_teardown(a_step_is_found_behind_others, make, drop),
        cmocka_unit_test_setup_teardown(reading_beside_a_writer_finds_whole_events, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
