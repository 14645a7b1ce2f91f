/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates that no other one beats in time, cost and memory at once. */
#ifndef SHOALI_PLAN_FRONT_H
#define SHOALI_PLAN_FRONT_H

#include "base/arena.h"
#include "shoal/predict.h"

typedef struct shoali_front {
    shoal_arena *arena;
    shoal_candidate *item;
    uint32_t count, capacity;
} shoali_front;

/** Of a step; in workers x seconds where no price is said. */
double shoali_front_cost(const shoal_prediction *prediction);
/** Whether one of the front is as good in all three, to 1 %. */
bool shoali_front_beats(const shoali_front *front, const shoal_prediction *prediction);
/** Enter it unless the front beats it; those that it beats leave. @return SHOAL_OK | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_front_add(shoali_front *front, const shoal_candidate *candidate);
/** Fastest first. */
void shoali_front_sort(shoali_front *front);

#endif
