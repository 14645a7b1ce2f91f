/* SPDX-License-Identifier: Apache-2.0 */
/* Events to come in virtual time: ordered by time, ties by insertion. A 4-ary heap that keeps its
 * memory, so a run in steady state does not allocate. */
#ifndef SHOALI_DRIVER_SIM_QUEUE_H
#define SHOALI_DRIVER_SIM_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

typedef struct shoali_sim_event {
    uint64_t at_ns, order; /* order: filled in by push */
    uint32_t kind, endpoint;
    uint64_t a, b, c; /* of the kind */
} shoali_sim_event;

/** Zero bytes are an empty queue. */
typedef struct shoali_sim_queue {
    shoali_sim_event *items;
    size_t count, capacity;
    uint64_t pushed;
} shoali_sim_queue;

SHOAL_MUST_USE shoal_status shoali_sim_push(shoali_sim_queue *queue, const shoali_sim_event *event);
/** The next event without taking it; NULL: none. */
const shoali_sim_event *shoali_sim_peek(const shoali_sim_queue *queue);
/** Take the next event; the queue must not be empty. */
shoali_sim_event shoali_sim_pop(shoali_sim_queue *queue);
void shoali_sim_queue_fini(shoali_sim_queue *queue);

#endif
