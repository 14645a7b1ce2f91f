/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim_heap.h"

#include "support/check.h"

#include "base/rng.h"

enum { ITEMS = 70 };

/* The least of a plain list, by looking at all of it. */
static uint32_t least(const shoali_heap_entry *list, const bool *inside)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < ITEMS; i++)
        if (inside[i] && (best == UINT32_MAX || list[i].key < list[best].key ||
                          (list[i].key == list[best].key && list[i].order < list[best].order)))
            best = i;
    return best;
}

static void the_first_is_the_least_whatever_changes(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 1, 0};
    shoali_heap_entry list[ITEMS];
    bool inside[ITEMS] = {false};
    shoali_heap heap = {0};
    assert_ok(shoali_heap_reserve(&heap, 10));
    assert_ok(shoali_heap_reserve(&heap, ITEMS));
    for (uint32_t step = 0; step < 20000; step++) {
        uint32_t item = (uint32_t)(shoali_rng_next(&rng) % ITEMS);
        if (shoali_rng_next(&rng) % 3 == 0) {
            shoali_heap_remove(&heap, item);
            inside[item] = false;
        } else {
            list[item] = (shoali_heap_entry){shoali_rng_next(&rng) % 50, step, item};
            shoali_heap_set(&heap, item, list[item].key, step);
            inside[item] = true;
        }
        uint32_t best = least(list, inside);
        const shoali_heap_entry *first = shoali_heap_first(&heap);
        assert_int_equal(first != NULL ? first->item : UINT32_MAX, best);
    }
    shoali_heap_fini(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_first_is_the_least_whatever_changes),
    };
    return CHECK_RUN(tests);
}
