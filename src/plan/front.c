/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/front.h"

#include <stdlib.h>
#include <string.h>

/* What differs by less is one place of the front. */
#define AS_GOOD 1.01

double shoali_front_cost(const shoal_prediction *p)
{
    return (p->price > 0 ? p->price / 3600 : p->workers) * p->iteration_s;
}

static bool is_better(const shoal_prediction *a, const shoal_prediction *b, double margin)
{
    return a->iteration_s <= margin * b->iteration_s &&
           shoali_front_cost(a) <= margin * shoali_front_cost(b) &&
           a->memory_bytes <= margin * b->memory_bytes;
}

bool shoali_front_beats(const shoali_front *front, const shoal_prediction *p)
{
    for (uint32_t i = 0; i < front->count; i++)
        if (is_better(&front->item[i].prediction, p, AS_GOOD))
            return true;
    return false;
}

shoal_status shoali_front_add(shoali_front *front, const shoal_candidate *candidate)
{
    uint32_t kept = 0;
    if (shoali_front_beats(front, &candidate->prediction))
        return SHOAL_OK;
    for (uint32_t i = 0; i < front->count; i++)
        if (!is_better(&candidate->prediction, &front->item[i].prediction, 1))
            front->item[kept++] = front->item[i];
    front->count = kept;
    if (front->count == front->capacity) {
        uint32_t capacity = front->capacity > 0 ? 2 * front->capacity : 64;
        shoal_candidate *more = shoali_arena_array(front->arena, capacity, sizeof *more);
        if (more == NULL)
            return SHOAL_ENOMEM;
        if (front->count > 0)
            memcpy(more, front->item, front->count * sizeof *more);
        front->item = more;
        front->capacity = capacity;
    }
    front->item[front->count++] = *candidate;
    return SHOAL_OK;
}

static int by_time(const void *a_in, const void *b_in)
{
    const shoal_candidate *a = a_in, *b = b_in;
    double x = a->prediction.iteration_s, y = b->prediction.iteration_s;
    return (x > y) - (x < y);
}

void shoali_front_sort(shoali_front *front)
{
    if (front->count > 1)
        qsort(front->item, front->count, sizeof *front->item, by_time);
}
