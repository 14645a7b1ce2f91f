/* SPDX-License-Identifier: Apache-2.0 */
#include "collective/scratch.h"

#include "base/arena.h"
#include "base/rng.h"
#include "support/check.h"

enum { BUFFERS = 200 };

/* Buffers are aligned, do not overlap, and waste at most a quarter. */
static void random_sizes(void **state)
{
    (void)state;
    shoali_scratch *scratch = shoali_scratch_create();
    uint8_t *buffers[BUFFERS] = {0};
    size_t sizes[BUFFERS] = {0}, asked = 0;
    shoali_rng rng = {check_seed(), 2, 0};
    for (int i = 0; i < 5000; i++) {
        size_t at = shoali_rng_next(&rng) % BUFFERS;
        for (size_t k = 0; k < sizes[at]; k += 61)
            assert_int_equal(buffers[at][k], (uint8_t)at);
        shoali_scratch_put(scratch, buffers[at]);
        asked -= sizes[at];
        sizes[at] = shoali_rng_next(&rng) % ((size_t)1 << (shoali_rng_next(&rng) % 17));
        buffers[at] = shoali_scratch_get(scratch, sizes[at]);
        assert_non_null(buffers[at]);
        assert_int_equal((uintptr_t)buffers[at] % 64, 0);
        memset(buffers[at], (int)at, sizes[at]);
        asked += sizes[at];
        size_t used = shoali_scratch_used_bytes(scratch);
        assert_true(used >= asked && used <= asked + asked / 4 + BUFFERS * 256);
    }
    assert_true(shoali_scratch_held_bytes(scratch) >= shoali_scratch_used_bytes(scratch));
    for (size_t at = 0; at < BUFFERS; at++)
        shoali_scratch_put(scratch, buffers[at]);
    assert_int_equal(shoali_scratch_used_bytes(scratch), 0);
    shoali_scratch_destroy(scratch);
}

/* The same demand again allocates nothing. */
static void warm_pool_does_not_allocate(void **state)
{
    (void)state;
    shoali_scratch *scratch = shoali_scratch_create();
    uint8_t *buffers[16];
    for (int round = 0; round < 3; round++) {
        (void)shoali_alloc_fail_at(0);
        for (size_t i = 0; i < 16; i++)
            buffers[i] = shoali_scratch_get(scratch, 100000 * (i % 4 + 1));
        assert_true(round == 0 || shoali_alloc_fail_at(0) == 0);
        for (size_t i = 0; i < 16; i++)
            shoali_scratch_put(scratch, buffers[i]);
    }
    shoali_scratch_destroy(scratch);
}

static void out_of_memory(void **state)
{
    (void)state;
    shoali_scratch *scratch = shoali_scratch_create();
    assert_null(shoali_scratch_get(scratch, SIZE_MAX));
    assert_null(shoali_scratch_get(scratch, SIZE_MAX / 2 + 1));
    (void)shoali_alloc_fail_at(1);
    assert_null(shoali_scratch_get(scratch, 10));
    (void)shoali_alloc_fail_at(0);
    uint8_t *buffer = shoali_scratch_get(scratch, 0);
    assert_non_null(buffer);
    shoali_scratch_put(scratch, buffer);
    shoali_scratch_put(scratch, NULL);
    shoali_scratch_destroy(scratch);
    shoali_scratch_destroy(NULL);
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(random_sizes),
    CHECK_TEST(warm_pool_does_not_allocate),
    CHECK_TEST(out_of_memory),
};

int main(void)
{
    return CHECK_RUN(tests);
}
