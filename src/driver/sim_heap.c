/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim_heap.h"

#include "base/arena.h"

enum { WAYS = 4 };

static bool before(const shoali_heap_entry *a, const shoali_heap_entry *b)
{
    return a->key != b->key ? a->key < b->key : a->order < b->order;
}

shoal_status shoali_heap_reserve(shoali_heap *heap, uint32_t items)
{
    if (items <= heap->capacity)
        return SHOAL_OK;
    shoali_heap_entry *entries = shoali_realloc(heap->entries, heap->capacity * sizeof *entries,
                                                items * sizeof *entries);
    if (entries == NULL)
        return SHOAL_ENOMEM;
    heap->entries = entries;
    uint32_t *place = shoali_realloc(heap->place, heap->capacity * sizeof *place,
                                     items * sizeof *place);
    if (place == NULL)
        return SHOAL_ENOMEM;
    heap->place = place;
    heap->capacity = items;
    return SHOAL_OK;
}

void shoali_heap_fini(shoali_heap *heap)
{
    shoali_free(heap->entries);
    shoali_free(heap->place);
    *heap = (shoali_heap){0};
}

static void put(shoali_heap *heap, uint32_t at, const shoali_heap_entry *entry)
{
    heap->entries[at] = *entry;
    heap->place[entry->item] = at + 1;
}

static uint32_t rise(shoali_heap *heap, uint32_t hole, const shoali_heap_entry *entry)
{
    while (hole > 0 && before(entry, &heap->entries[(hole - 1) / WAYS])) {
        put(heap, hole, &heap->entries[(hole - 1) / WAYS]);
        hole = (hole - 1) / WAYS;
    }
    return hole;
}

static uint32_t sink(shoali_heap *heap, uint32_t hole, const shoali_heap_entry *entry)
{
    for (;;) {
        uint32_t begin = hole * WAYS + 1, best = begin;
        if (begin >= heap->count)
            return hole;
        for (uint32_t i = begin + 1; i < begin + WAYS && i < heap->count; i++)
            if (before(&heap->entries[i], &heap->entries[best]))
                best = i;
        if (!before(&heap->entries[best], entry))
            return hole;
        put(heap, hole, &heap->entries[best]);
        hole = best;
    }
}

void shoali_heap_set(shoali_heap *heap, uint32_t item, uint64_t key, uint64_t order)
{
    const shoali_heap_entry entry = {key, order, item};
    uint32_t at = heap->place[item] > 0 ? heap->place[item] - 1 : heap->count++;
    uint32_t risen = rise(heap, at, &entry);
    put(heap, risen == at ? sink(heap, at, &entry) : risen, &entry);
}

void shoali_heap_remove(shoali_heap *heap, uint32_t item)
{
    if (heap->place[item] == 0)
        return;
    uint32_t at = heap->place[item] - 1;
    const shoali_heap_entry last = heap->entries[--heap->count];
    heap->place[item] = 0;
    if (last.item == item)
        return;
    uint32_t risen = rise(heap, at, &last);
    put(heap, risen == at ? sink(heap, at, &last) : risen, &last);
}

const shoali_heap_entry *shoali_heap_first(const shoali_heap *heap)
{
    return heap->count > 0 ? &heap->entries[0] : NULL;
}
