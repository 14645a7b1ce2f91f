/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim_queue.h"

#include "support/check.h"

#include "base/arena.h"
#include "base/rng.h"

static void push(shoali_sim_queue *queue, uint64_t at_ns, uint64_t a)
{
    assert_ok(shoali_sim_push(queue, &(shoali_sim_event){.at_ns = at_ns, .a = a}));
}

static void time_orders_and_insertion_breaks_ties(void **state)
{
    (void)state;
    shoali_sim_queue queue = {0};
    assert_null(shoali_sim_peek(&queue));
    push(&queue, 5, 0);
    push(&queue, 3, 1);
    push(&queue, 5, 2);
    push(&queue, 3, 3);
    push(&queue, 1, 4);
    static const uint64_t wanted[] = {4, 1, 3, 0, 2};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        assert_int_equal(shoali_sim_peek(&queue)->a, wanted[i]);
        assert_int_equal(shoali_sim_pop(&queue).a, wanted[i]);
    }
    assert_null(shoali_sim_peek(&queue));
    shoali_sim_queue_fini(&queue);
}

/* Against a sort: random times with many ties, pops in between. */
static void a_long_mixed_life_is_sorted(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 2, 0};
    shoali_sim_queue queue = {0};
    uint64_t now = 0, last_order = 0, popped = 0;
    for (uint64_t i = 0; i < 50000 || shoali_sim_peek(&queue) != NULL; i++) {
        uint64_t draw = shoali_rng_next(&rng);
        if (i < 50000 && (draw % 5 < 3 || shoali_sim_peek(&queue) == NULL)) {
            push(&queue, now + (draw >> 8) % 50, i);
            continue;
        }
        shoali_sim_event event = shoali_sim_pop(&queue);
        assert_true(event.at_ns >= now);
        assert_true(event.at_ns > now || event.order > last_order || popped == 0);
        now = event.at_ns;
        last_order = event.order;
        popped++;
    }
    assert_int_equal(popped, queue.pushed);
    shoali_sim_queue_fini(&queue);
}

static void no_memory_is_reported(void **state)
{
    (void)state;
    shoali_sim_queue queue = {0};
    (void)shoali_alloc_fail_at(1);
    assert_status(shoali_sim_push(&queue, &(shoali_sim_event){0}), SHOAL_ENOMEM);
    (void)shoali_alloc_fail_at(0);
    assert_null(shoali_sim_peek(&queue));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(time_orders_and_insertion_breaks_ties),
        CHECK_TEST(a_long_mixed_life_is_sorted),
        CHECK_TEST(no_memory_is_reported),
    };
    return CHECK_RUN(tests);
}
