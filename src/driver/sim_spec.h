/* SPDX-License-Identifier: Apache-2.0 */
/* The spec strings of a simulation: how long workers compute, what the links do, what goes wrong.
 */
#ifndef SHOALI_DRIVER_SIM_SPEC_H
#define SHOALI_DRIVER_SIM_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

/** "2:5x/3:1.5x" and "1@2.5/3@4": an index and a number. */
typedef struct shoali_sim_pair {
    uint32_t index;
    double value;
} shoali_sim_pair;
enum { SHOALI_SIM_PAIRS = 16 };
typedef struct shoali_sim_list {
    shoali_sim_pair items[SHOALI_SIM_PAIRS];
    uint32_t count;
} shoali_sim_list;

/** "fixed:ms=100,backward=0.667,jitter=0,update_ms=0,random=6,chance=0.1,slow=2:5x". */
typedef struct shoali_sim_compute {
    double ms, backward, jitter, update_ms;
    double random, chance; /* factor, and how likely it is; 0: until sim.c knows the workers */
    shoali_sim_list slow;  /* worker, factor */
} shoali_sim_compute;

/** "links:rate=1gbit,down=,latency_us=50,hosts=0,slow=3:10x". */
typedef struct shoali_sim_network {
    double up_bits, down_bits; /* per second and host */
    double latency_us;
    uint32_t hosts;       /* 0: one per endpoint */
    shoali_sim_list slow; /* host, divisor of its rates */
} shoali_sim_network;

/** "plan:die=1@2.5,stop=2@4,leave=0@1,nan=3@7,detect_ms=2500": endpoint @ seconds, nan @ iteration.
 */
typedef struct shoali_sim_faults {
    shoali_sim_list die, stop, leave, nan;
    double detect_ms;
} shoali_sim_faults;

/* NULL or "" is the default of every key. */
SHOAL_MUST_USE shoal_status shoali_sim_read_compute(const char *spec, shoali_sim_compute *out);
SHOAL_MUST_USE shoal_status shoali_sim_read_network(const char *spec, shoali_sim_network *out);
SHOAL_MUST_USE shoal_status shoali_sim_read_faults(const char *spec, shoali_sim_faults *out);

/** Value of index in a list, fallback if it is not there. */
double shoali_sim_lookup(const shoali_sim_list *list, uint32_t index, double fallback);

/** Nanoseconds of worker's iteration: ms * slow * random * (1 +- jitter), a function of the
 * arguments only.
 */
uint64_t shoali_sim_compute_ns(const shoali_sim_compute *compute, uint32_t worker,
                               uint64_t iteration, uint64_t seed);

#endif
