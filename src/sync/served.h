/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter servers whose legs are operations of their own: gradients go up, the server decides
 * when it answers with weights. Asynchronous, bounded staleness, backup workers, or lockstep with
 * one leg after the other. Servers are dedicated endpoints; param_server.c gives the options. */
#ifndef SHOALI_SYNC_SERVED_H
#define SHOALI_SYNC_SERVED_H

#include "sync/sync.h"

typedef struct shoali_served_options {
    bool together;      /* one step from all workers' gradients; false: one from each */
    uint32_t backup;    /* together: a step does without the last so many */
    uint32_t staleness; /* alone: a worker may be so many iterations ahead of the slowest;
                           SHOALI_STALENESS_UNBOUNDED: any */
    bool pull_coded;
} shoali_served_options;

/** What the server knows of a worker. */
typedef struct shoali_client {
    uint64_t clock; /* iterations whose gradient has arrived */
    uint64_t base;  /* together: step whose weights it got last */
    bool pushing, owed, pulling, out, finished;
} shoali_client;

/** What a worker knows of a server: its range and legs. */
typedef struct shoali_leg {
    size_t offset, count;
    bool pushing, pulling, done;
} shoali_leg;

typedef struct shoali_served {
    const shoali_world *world;
    shoali_served_options options;
    uint64_t iteration; /* worker: mine; server: steps taken */
    uint32_t got, added, open;
    bool asked, finishing, leaving, ending, skipped, over;
    size_t offset, count;   /* server: my range */
    shoali_client *clients; /* server: [workers] */
    shoali_leg *legs;       /* worker: [servers] */
} shoali_served;

size_t shoali_served_bytes(const shoali_world *world);
uint32_t shoali_served_slots(const shoali_world *world);
void shoali_served_start(shoali_served *served, const shoali_world *world,
                         const shoali_served_options *options);
void shoali_served_event(shoali_served *served, const shoali_event *event, shoali_actions *actions);

#endif
