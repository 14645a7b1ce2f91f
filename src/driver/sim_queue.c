/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim_queue.h"

#include <stdbool.h>

#include "base/arena.h"

enum { FIRST_ITEMS = 256, WAYS = 4 };

static bool before(const shoali_sim_event *a, const shoali_sim_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

shoal_status shoali_sim_push(shoali_sim_queue *queue, const shoali_sim_event *event)
{
    if (queue->count == queue->capacity) {
        size_t capacity = queue->capacity > 0 ? 2 * queue->capacity : FIRST_ITEMS;
        shoali_sim_event *grown = shoali_realloc(queue->items, queue->capacity * sizeof *grown,
                                                 capacity * sizeof *grown);
        if (grown == NULL)
            return SHOAL_ENOMEM;
        queue->items = grown;
        queue->capacity = capacity;
    }
    shoali_sim_event item = *event;
    item.order = queue->pushed++;
    size_t hole = queue->count++;
    while (hole > 0 && before(&item, &queue->items[(hole - 1) / WAYS])) {
        queue->items[hole] = queue->items[(hole - 1) / WAYS];
        hole = (hole - 1) / WAYS;
    }
    queue->items[hole] = item;
    return SHOAL_OK;
}

const shoali_sim_event *shoali_sim_peek(const shoali_sim_queue *queue)
{
    return queue->count > 0 ? &queue->items[0] : NULL;
}

/* The earliest child of a hole, or count if it has none. */
static size_t first_child(const shoali_sim_queue *queue, size_t hole)
{
    size_t begin = hole * WAYS + 1, best = begin;
    if (begin >= queue->count)
        return queue->count;
    for (size_t i = begin + 1; i < begin + WAYS && i < queue->count; i++)
        if (before(&queue->items[i], &queue->items[best]))
            best = i;
    return best;
}

shoali_sim_event shoali_sim_pop(shoali_sim_queue *queue)
{
    shoali_sim_event top = queue->items[0];
    shoali_sim_event last = queue->items[--queue->count];
    size_t hole = 0;
    for (size_t child = first_child(queue, 0);
         child < queue->count && before(&queue->items[child], &last);
         child = first_child(queue, hole)) {
        queue->items[hole] = queue->items[child];
        hole = child;
    }
    if (queue->count > 0)
        queue->items[hole] = last;
    return top;
}

void shoali_sim_queue_fini(shoali_sim_queue *queue)
{
    shoali_free(queue->items);
    *queue = (shoali_sim_queue){0};
}
