/* SPDX-License-Identifier: Apache-2.0 */
/* Size classes: four per doubling, so at most a quarter of a buffer is lost. Each class has a list
 * of free buffers, last in, first out: the next frame lands where the cache is warm. A 64-byte
 * header in front of a buffer names its class. Slabs hold at least one buffer and about
 * SLAB_BYTES. */
#include "collective/scratch.h"

#include "base/arena.h"
#include <stdbool.h>

#include "base/error.h"

enum { UNIT_BYTES = 64, CLASSES = 4 * 40, SLAB_BYTES = 1 << 20 };

typedef struct buffer_head {
    struct buffer_head *next; /* free list */
    uint32_t size_class;
} buffer_head;
_Static_assert(sizeof(buffer_head) <= UNIT_BYTES, "a header fits in front of a buffer");

typedef struct slab {
    struct slab *next;
} slab;

struct shoali_scratch {
    slab *slabs;
    buffer_head *free[CLASSES];
    size_t used_bytes, held_bytes;
};

static size_t class_bytes(uint32_t size_class)
{
    return ((size_t)UNIT_BYTES * (4 + size_class % 4)) << (size_class / 4);
}

/* The smallest class that holds bytes; CLASSES if there is none. */
static uint32_t class_of(size_t bytes)
{
    uint32_t size_class = 0;
    size_t units = bytes / UNIT_BYTES / 8;
    if (units > 0)
        size_class = 4 * (uint32_t)(63 - __builtin_clzll(units));
    while (size_class < CLASSES && class_bytes(size_class) < bytes)
        size_class++;
    return size_class;
}

shoali_scratch *shoali_scratch_create(void)
{
    return shoali_alloc(sizeof(shoali_scratch));
}

void shoali_scratch_destroy(shoali_scratch *scratch)
{
    if (scratch == NULL)
        return;
    while (scratch->slabs != NULL) {
        slab *next = scratch->slabs->next;
        shoali_free(scratch->slabs);
        scratch->slabs = next;
    }
    shoali_free(scratch);
}

/* More free buffers of a class; false = ENOMEM. */
static bool grow(shoali_scratch *scratch, uint32_t size_class)
{
    size_t stride = class_bytes(size_class) + UNIT_BYTES;
    size_t buffers = stride < SLAB_BYTES ? SLAB_BYTES / stride : 1;
    size_t bytes = UNIT_BYTES + buffers * stride;
    slab *more = shoali_alloc(bytes);
    if (more == NULL)
        return false;
    more->next = scratch->slabs;
    scratch->slabs = more;
    scratch->held_bytes += bytes;
    for (size_t i = buffers; i-- > 0;) {
        buffer_head *head = (buffer_head *)((uint8_t *)more + UNIT_BYTES + i * stride);
        head->size_class = size_class;
        head->next = scratch->free[size_class];
        scratch->free[size_class] = head;
    }
    return true;
}

uint8_t *shoali_scratch_get(shoali_scratch *scratch, size_t bytes)
{
    uint32_t size_class = class_of(bytes);
    if (size_class >= CLASSES) {
        (void)shoali_fail(SHOAL_ENOMEM, "no scratch buffer of %zu bytes", bytes);
        return NULL;
    }
    if (scratch->free[size_class] == NULL && !grow(scratch, size_class))
        return NULL;
    buffer_head *head = scratch->free[size_class];
    scratch->free[size_class] = head->next;
    scratch->used_bytes += class_bytes(size_class);
    return (uint8_t *)head + UNIT_BYTES;
}

void shoali_scratch_put(shoali_scratch *scratch, uint8_t *buffer)
{
    if (buffer == NULL)
        return;
    buffer_head *head = (buffer_head *)(buffer - UNIT_BYTES);
    scratch->used_bytes -= class_bytes(head->size_class);
    head->next = scratch->free[head->size_class];
    scratch->free[head->size_class] = head;
}

size_t shoali_scratch_used_bytes(const shoali_scratch *scratch)
{
    return scratch->used_bytes;
}

size_t shoali_scratch_held_bytes(const shoali_scratch *scratch)
{
    return scratch->held_bytes;
}
