/* SPDX-License-Identifier: Apache-2.0 */
/* An arena hands out memory that is freed all at once: everything of one operation, one schedule,
 * one model. Allocation is a pointer bump; blocks come from malloc and double in size. Not
 * thread-safe. All heap memory of the library goes through shoali_alloc/shoali_free, so tests can
 * fail the k-th. */
#ifndef SHOALI_BASE_ARENA_H
#define SHOALI_BASE_ARENA_H

#include <stddef.h>

/** 64-byte aligned zeroed memory, or NULL with the last error set (ENOMEM). bytes 0 gives a valid
 * pointer. */
void *shoali_alloc(size_t bytes);
/** count * size with overflow check, else as shoali_alloc. */
void *shoali_alloc_array(size_t count, size_t size);
void shoali_free(void *memory);
/** Grow to new_bytes (contents kept, new part zeroed); old_bytes is the old size. NULL: old block
 * still valid. */
void *shoali_realloc(void *memory, size_t old_bytes, size_t new_bytes);
/** A copy of a string, or NULL (ENOMEM). */
char *shoali_strdup(const char *text);
/** Tests: let the k-th allocation from now fail (1 = next), 0 = never; returns allocations since
 * the last call. */
size_t shoali_alloc_fail_at(size_t k);

typedef struct shoal_arena shoal_arena;
shoal_arena *shoali_arena_create(size_t first_block_bytes);
void shoali_arena_destroy(shoal_arena *arena);
/** Zeroed, 64-byte aligned, valid until reset or destroy; NULL = ENOMEM. */
void *shoali_arena_alloc(shoal_arena *arena, size_t bytes);
void *shoali_arena_array(shoal_arena *arena, size_t count, size_t size);
/** Bytes handed out since the last reset. */
size_t shoali_arena_bytes(const shoal_arena *arena);
char *shoali_arena_strdup(shoal_arena *arena, const char *text);
/** Forget everything, keep the largest block. */
void shoali_arena_reset(shoal_arena *arena);

#endif
