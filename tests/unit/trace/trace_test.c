/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks that differ by what is planted, and what becomes of it in the file; the ring when it is
 * full. */
#include "trace/trace.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/rng.h"
#include "support/check.h"
#include "support/scratch_dir.h"

enum { ROUNDS = 16, CASES = 200 };

/* Two ranks begin at random times and end after both have begun, by true time. */
static void bounds_hold_whatever_the_clocks_say(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < CASES; n++) {
        uint64_t first[2 * ROUNDS], its[2 * ROUNDS], now = UINT64_C(1) << 40;
        const int64_t ahead = (int64_t)(1e9 * (shoali_rng_double(7, 1, n) - 0.5));
        for (uint64_t i = 0; i < 2 * ROUNDS; i += 2) {
            const uint64_t draw = n * 64 + 2 * i;
            uint64_t a = now + (uint64_t)(1000 * shoali_rng_double(7, 2, draw));
            uint64_t b = now + (uint64_t)(1000 * shoali_rng_double(7, 2, draw + 1));
            uint64_t met = a > b ? a : b;
            first[i] = a;
            first[i + 1] = met + (uint64_t)(500 * shoali_rng_double(7, 2, draw + 2));
            its[i] = b + (uint64_t)ahead;
            its[i + 1] = met + (uint64_t)(500 * shoali_rng_double(7, 2, draw + 3)) +
                         (uint64_t)ahead;
            now += 2000;
        }
        shoali_trace_rank rank = {0};
        shoali_trace_compare(first, its, ROUNDS, &rank);
        assert_true(fabs(rank.offset_us - (double)ahead) <= rank.error_us);
        assert_true(rank.error_us < 500);
    }
}

static json_t *written(const char *path, shoali_trace_rank *ranks, uint32_t count)
{
    const shoali_trace_about about = {
        .path = path, .made_by = "a test", .model = "none", .exact = true, .whole = true};
    assert_int_equal(shoali_trace_write(&about, ranks, count), SHOAL_OK);
    json_t *file = json_load_file(path, 0, NULL);
    assert_non_null(file);
    return file;
}

static double at_of(const json_t *file, const char *name, int pid)
{
    size_t i;
    json_t *event;
    json_array_foreach(json_object_get(file, "traceEvents"), i,
                       event) if (strcmp(json_string_value(json_object_get(event, "name")), name) ==
                                      0 &&
                                  json_integer_value(json_object_get(event, "pid")) ==
                                      pid) return json_number_value(json_object_get(event, "ts"));
    return (double)NAN;
}

/* The second one's clock is 5 s ahead: it begins 30 us after the first one all the same. */
static void spans_are_on_the_first_clock(void **state)
{
    (void)state;
    char path[256];
    shoali_trace_event one = {.start_us = 1000000, .took_us = 10, .kind = SHOALI_TRACE_UPDATE};
    shoali_trace_event two = {.start_us = 6000030, .took_us = 10, .kind = SHOALI_TRACE_UPDATE};
    shoali_trace_rank ranks[2] = {{.rank = 0, .count = 1, .events = &one},
                                  {.rank = 1, .count = 1, .events = &two, .offset_us = 5e6}};
    snprintf(path, sizeof path, "%s", scratch_path("trace.json"));
    json_t *file = written(path, ranks, 2);
    assert_true(fabs(at_of(file, "update", 0)) < 1e-9);
    assert_true(fabs(at_of(file, "update", 1) - 30) < 1e-9);
    json_decref(file);
}

static void the_ring_keeps_the_newest(void **state)
{
    (void)state;
    char path[256];
    shoal_train train = {.desc = {.model = "none"}, .step = 3 * SHOALI_KEPT_EVENTS};
    snprintf(path, sizeof path, "%s", scratch_path("full.json"));
    train.trace = shoali_alloc(sizeof *train.trace);
    train.trace->path = path;
    train.trace->last = UINT64_MAX;
    for (uint64_t i = 0; i < SHOALI_KEPT_EVENTS + 5; i++)
        shoali_trace_add(train.trace, (shoali_trace_event){.start_us = 10 * i,
                                                           .step = i,
                                                           .took_us = 1,
                                                           .kind = SHOALI_TRACE_DATA});
    assert_int_equal(shoali_trace_collect(&train), SHOAL_OK);
    json_t *file = json_load_file(path, 0, NULL), *rank;
    assert_non_null(file);
    rank = json_array_get(json_object_get(json_object_get(file, "otherData"), "ranks"), 0);
    assert_int_equal(json_integer_value(json_object_get(rank, "overwritten")), 5);
    assert_int_equal(json_integer_value(json_object_get(rank, "events")), SHOALI_KEPT_EVENTS);
    json_t *first = json_array_get(json_object_get(file, "traceEvents"), 3); /* behind names */
    first = json_object_get(json_object_get(first, "args"), "step");
    assert_int_equal(json_integer_value(first), 5);
    json_decref(file);
    shoali_trace_close(&train);
}

static void note(shoal_train *train, uint64_t step, uint64_t took_us)
{
    const uint64_t began_us = shoali_now_us() - took_us;
    train->step = step;
    shoali_trace_note(train, SHOALI_TRACE_UPDATE, began_us);
    shoali_trace_step(train, began_us);
}

/* Marks and updates by step, of a file in which step 5 * n takes n seconds, the others 1 ms. */
static void a_slow_step_outlives_the_ring(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s", scratch_path("slow.json"));
    shoal_train train = {.desc.trace = path, .desc.model = "none"};
    assert_int_equal(shoali_trace_open(&train), SHOAL_OK);
    for (uint64_t i = 0; i < SHOALI_KEPT_EVENTS; i++) /* two events each */
        note(&train, i, i % 5 == 0 && i <= 50 ? i / 5 * 1000000 : 1000);
    assert_int_equal(shoali_trace_collect(&train), SHOAL_OK);
    json_t *file = json_load_file(path, 0, NULL), *event;
    size_t i, updates = 0;
    int marks = 0;
    json_array_foreach(json_object_get(file, "traceEvents"), i, event)
    {
        const json_int_t step = json_integer_value(
            json_object_get(json_object_get(event, "args"), "step"));
        const char *name = json_string_value(json_object_get(event, "name"));
        marks += strncmp(name, "slow step, place ", 17) == 0 && step == 50 - 5 * marks;
        updates += strcmp(name, "update") == 0 && step <= 50;
    }
    assert_int_equal(marks, 5);
    assert_int_equal(updates, SHOALI_TRACE_SLOW);
    json_decref(file);
    shoali_trace_close(&train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(bounds_hold_whatever_the_clocks_say),
        CHECK_TEST(spans_are_on_the_first_clock),
        CHECK_TEST(the_ring_keeps_the_newest),
        CHECK_TEST(a_slow_step_outlives_the_ring),
    };
    return cmocka_run_group_tests(tests, scratch_set_up, scratch_tear_down);
}
