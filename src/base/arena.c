/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of an arena form a list, newest first; only the newest is carved. The block header takes
 * one alignment unit, so the bytes behind it are aligned as the block itself is. */
#include "base/arena.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { ALIGN_BYTES = 64 }; /* a cache line, and the widest vector register */

static atomic_size_t allocations;
static atomic_size_t fail_at;

/* Bytes rounded up to the alignment, 0 if that overflows what an object may be long. */
static size_t padded(size_t bytes)
{
    if (bytes > PTRDIFF_MAX - ALIGN_BYTES)
        return 0;
    return bytes == 0 ? ALIGN_BYTES : (bytes + ALIGN_BYTES - 1) & ~(size_t)(ALIGN_BYTES - 1);
}

static void *allocate(size_t bytes)
{
    size_t whole = padded(bytes);
    size_t number = atomic_fetch_add(&allocations, 1) + 1;
    void *memory = NULL;
    if (whole != 0 && number != atomic_load(&fail_at))
        memory = aligned_alloc(ALIGN_BYTES, whole);
    if (memory == NULL) {
        (void)shoali_fail(SHOAL_ENOMEM, "no memory for %zu bytes", bytes);
        shoali_error_advice(
            "Free memory on this host, or use a smaller model, batch or worker count.");
    }
    return memory;
}

void *shoali_alloc(size_t bytes)
{
    void *memory = allocate(bytes);
    if (memory != NULL)
        memset(memory, 0, padded(bytes));
    return memory;
}

/* False, with the error set, if count * size overflows. */
static bool product(size_t count, size_t size, size_t *bytes_out)
{
    if (!__builtin_mul_overflow(count, size, bytes_out))
        return true;
    (void)shoali_fail(SHOAL_ENOMEM, "%zu elements of %zu bytes exceed the address space", count,
                      size);
    return false;
}

void *shoali_alloc_array(size_t count, size_t size)
{
    size_t bytes;
    return product(count, size, &bytes) ? shoali_alloc(bytes) : NULL;
}

void shoali_free(void *memory)
{
    free(memory);
}

void *shoali_realloc(void *memory, size_t old_bytes, size_t new_bytes)
{
    size_t kept = old_bytes < new_bytes ? old_bytes : new_bytes;
    char *bigger = allocate(new_bytes);
    if (bigger == NULL)
        return NULL;
    if (kept > 0)
        memcpy(bigger, memory, kept);
    memset(bigger + kept, 0, padded(new_bytes) - kept);
    free(memory);
    return bigger;
}

char *shoali_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = allocate(bytes);
    return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

size_t shoali_alloc_fail_at(size_t k)
{
    size_t before = atomic_exchange(&allocations, 0);
    atomic_store(&fail_at, k);
    return before;
}

typedef struct block {
    struct block *older;
    size_t capacity; /* bytes behind the header */
} block;

_Static_assert(sizeof(block) <= ALIGN_BYTES, "a block header fits one alignment unit");

struct shoal_arena {
    block *newest;
    size_t used;       /* bytes of newest */
    size_t next_bytes; /* capacity of the next block */
    size_t given;      /* bytes handed out */
};

shoal_arena *shoali_arena_create(size_t first_block_bytes)
{
    shoal_arena *arena = shoali_alloc(sizeof *arena);
    if (arena != NULL)
        arena->next_bytes = first_block_bytes > ALIGN_BYTES ? first_block_bytes : ALIGN_BYTES;
    return arena;
}

static void free_blocks(block *from)
{
    while (from != NULL) {
        block *older = from->older;
        free(from);
        from = older;
    }
}

void shoali_arena_destroy(shoal_arena *arena)
{
    if (arena == NULL)
        return;
    free_blocks(arena->newest);
    free(arena);
}

/* Start a block that holds at least `bytes` (a multiple of the alignment). */
static bool add_block(shoal_arena *arena, size_t bytes)
{
    size_t capacity = padded(arena->next_bytes);
    if (capacity < bytes)
        capacity = bytes;
    block *fresh = capacity <= PTRDIFF_MAX - 2 * ALIGN_BYTES ? allocate(ALIGN_BYTES + capacity)
                                                             : allocate(SIZE_MAX);
    if (fresh == NULL)
        return false;
    *fresh = (block){.older = arena->newest, .capacity = capacity};
    arena->newest = fresh;
    arena->used = 0;
    if (capacity <= PTRDIFF_MAX / 4)
        arena->next_bytes = 2 * capacity;
    return true;
}

void *shoali_arena_alloc(shoal_arena *arena, size_t bytes)
{
    size_t whole = padded(bytes);
    if (whole == 0)
        return allocate(bytes); /* sets the error */
    if (arena->newest == NULL || arena->newest->capacity - arena->used < whole)
        if (!add_block(arena, whole))
            return NULL;
    char *memory = (char *)arena->newest + ALIGN_BYTES + arena->used;
    arena->used += whole;
    arena->given += whole;
    return memset(memory, 0, whole);
}

void *shoali_arena_array(shoal_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    return product(count, size, &bytes) ? shoali_arena_alloc(arena, bytes) : NULL;
}

char *shoali_arena_strdup(shoal_arena *arena, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = shoali_arena_alloc(arena, bytes);
    return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

void shoali_arena_reset(shoal_arena *arena)
{
    block *largest = arena->newest;
    for (block *b = arena->newest; b != NULL; b = b->older)
        if (b->capacity > largest->capacity)
            largest = b;
    while (arena->newest != NULL) {
        block *b = arena->newest;
        arena->newest = b->older;
        if (b != largest)
            free(b);
    }
    if (largest != NULL)
        largest->older = NULL;
    arena->newest = largest;
    arena->used = 0;
    arena->given = 0;
}

size_t shoali_arena_bytes(const shoal_arena *arena)
{
    return arena->given;
}
