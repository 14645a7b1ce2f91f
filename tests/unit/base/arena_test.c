/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "base/arena.h"

static bool all_zero(const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

static void heap_memory_is_aligned_and_zero(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 1000003};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *memory = shoali_alloc(sizes[i]);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 64, 0);
        assert_true(all_zero(memory, sizes[i]));
        memset(memory, 0xAA, sizes[i]);
        shoali_free(memory);
    }
    shoali_free(NULL);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    assert_null(shoali_alloc(SIZE_MAX));
    assert_int_equal(shoal_last_error()->status, SHOAL_ENOMEM);
    assert_null(shoali_alloc_array(SIZE_MAX / 2, 3));
    assert_error_has("exceed the address space");
    shoal_arena *arena = shoali_arena_create(0);
    assert_null(shoali_arena_alloc(arena, SIZE_MAX - 8));
    assert_null(shoali_arena_alloc(arena, PTRDIFF_MAX - 100));
    assert_null(shoali_arena_array(arena, SIZE_MAX, 2));
    assert_non_null(shoali_arena_alloc(arena, 10));
    shoali_arena_destroy(arena);
}

static void growing_keeps_and_zeroes(void **state)
{
    (void)state;
    char *memory = shoali_realloc(NULL, 0, 10);
    assert_non_null(memory);
    memset(memory, 7, 10);
    memory = shoali_realloc(memory, 10, 5000);
    assert_int_equal(memory[9], 7);
    assert_true(all_zero(memory + 10, 4990));
    memory = shoali_realloc(memory, 5000, 4);
    assert_int_equal(memory[3], 7);
    shoali_alloc_fail_at(1);
    assert_null(shoali_realloc(memory, 4, 8));
    assert_int_equal(memory[3], 7); /* the old block is still there */
    shoali_alloc_fail_at(0);
    shoali_free(memory);
}

/* Builds a small structure and says whether it worked; nothing may leak either way (checked under
 * asan). */
static bool build_something(void)
{
    shoal_arena *arena = shoali_arena_create(64);
    char *name = shoali_strdup("ring");
    bool ok = arena != NULL && name != NULL;
    for (int i = 0; ok && i < 8; i++)
        ok = shoali_arena_array(arena, 100, sizeof(int)) != NULL &&
             shoali_arena_strdup(arena, name) != NULL;
    shoali_free(name);
    shoali_arena_destroy(arena);
    return ok;
}

static void the_kth_allocation_fails_and_no_other(void **state)
{
    (void)state;
    shoali_alloc_fail_at(0);
    assert_true(build_something());
    size_t needed = shoali_alloc_fail_at(0);
    assert_in_range(needed, 3, 20);
    for (size_t k = 1; k <= needed; k++) {
        shoali_alloc_fail_at(k);
        assert_false(build_something());
        assert_int_equal(shoal_last_error()->status, SHOAL_ENOMEM);
        assert_error_has("no memory for");
    }
    shoali_alloc_fail_at(needed + 1);
    assert_true(build_something());
    shoali_alloc_fail_at(0);
}

static void arena_blocks_do_not_overlap(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    shoal_arena *arena = shoali_arena_create(256);
    unsigned char *parts[COUNT];
    for (int i = 0; i < COUNT; i++) {
        parts[i] = shoali_arena_alloc(arena, (size_t)i * 7);
        assert_non_null(parts[i]);
        assert_int_equal((uintptr_t)parts[i] % 64, 0);
        assert_true(all_zero((char *)parts[i], (size_t)i * 7));
        memset(parts[i], i, (size_t)i * 7);
    }
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < i * 7; j++)
            assert_int_equal(parts[i][j], i);
    shoali_arena_destroy(arena);
    shoali_arena_destroy(NULL);
}

static void reset_keeps_the_largest_block(void **state)
{
    (void)state;
    shoal_arena *arena = shoali_arena_create(64);
    shoali_arena_reset(arena); /* of an empty arena */
    assert_non_null(shoali_arena_alloc(arena, 65));
    assert_non_null(shoali_arena_alloc(arena, 4096));
    assert_int_equal(shoali_arena_bytes(arena), 128 + 4096);
    shoali_arena_reset(arena);
    assert_int_equal(shoali_arena_bytes(arena), 0);
    for (int i = 0; i < 50; i++)
        memset(shoali_arena_alloc(arena, 1000), 0xFF, 1000);
    shoali_arena_reset(arena);
    shoali_alloc_fail_at(1); /* so any new block would fail */
    for (int i = 0; i < 24; i++) {
        char *memory = shoali_arena_alloc(arena, 1000);
        assert_non_null(memory);
        assert_true(all_zero(memory, 1000));
    }
    assert_int_equal(shoali_alloc_fail_at(0), 0);
    shoali_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(heap_memory_is_aligned_and_zero),
        CHECK_TEST(impossible_sizes_are_refused),
        CHECK_TEST(growing_keeps_and_zeroes),
        CHECK_TEST(the_kth_allocation_fails_and_no_other),
        CHECK_TEST(arena_blocks_do_not_overlap),
        CHECK_TEST(reset_keeps_the_largest_block),
    };
    return CHECK_RUN(tests);
}
