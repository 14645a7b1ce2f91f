/* SPDX-License-Identifier: Apache-2.0 */
/* A heap of numbered items, least key first, ties by order. Each item is in it at most once, and
 * its key may change at any time: the due times of coflows, the levels of links. */
#ifndef SHOALI_DRIVER_SIM_HEAP_H
#define SHOALI_DRIVER_SIM_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "shoal/status.h"

typedef struct shoali_heap_entry {
    uint64_t key, order;
    uint32_t item;
} shoali_heap_entry;

/** Zero bytes are an empty heap without room. */
typedef struct shoali_heap {
    shoali_heap_entry *entries;
    uint32_t *place; /* by item: index of its entry + 1, 0: it is not in the heap */
    uint32_t count, capacity;
} shoali_heap;

/** Room for items 0 .. items - 1; keeps what is inside. */
SHOAL_MUST_USE shoal_status shoali_heap_reserve(shoali_heap *heap, uint32_t items);
void shoali_heap_fini(shoali_heap *heap);

/** Put an item in, or change its key and order. */
void shoali_heap_set(shoali_heap *heap, uint32_t item, uint64_t key, uint64_t order);
/** Take an item out, if it is in. */
void shoali_heap_remove(shoali_heap *heap, uint32_t item);
/** The first entry; NULL: the heap is empty. Valid until the next change. */
const shoali_heap_entry *shoali_heap_first(const shoali_heap *heap);

#endif
