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

/** "fixed:ms=100,backward=0.667,jitter=0,update_ms=0,slow=2:5x,random=6x:0.1,trace=FILE", or
 * "model:batch=32,gflops=50,..." without ms and backward. */
typedef struct shoali_sim_compute {
    bool from_model;
    double batch, gflops; /* gflops 0: the cluster's accelerators */
    double ms, backward, jitter, update_ms;
    shoali_sim_list slow; /* worker, factor */
    double random_factor,
        random_probability; /* probability < 0: one in so many as there are workers */
    char trace[96];
} shoali_sim_compute;

/** "links:rate=1gbit,down=,latency_us=50,jitter_us=0,loss=0,hosts=0,slow=3:10x,trace=". */
typedef struct shoali_sim_network {
    double up_bits, down_bits; /* per second and host */
    double latency_us;
    double jitter_us;     /* messages take up to so much longer, each by itself */
    double loss;          /* of packets */
    uint32_t hosts;       /* 0: one per endpoint */
    shoali_sim_list slow; /* host, divisor of its rates */
    char trace[96];       /* file of rates that change, "": none */
} shoali_sim_network;

/** A line of that file: from then on a host's link has these rates, bits per second. */
typedef struct shoali_sim_rate {
    uint64_t at_ns;
    uint32_t host;
    double up_bits, down_bits;
} shoali_sim_rate;

/** Hosts that for a while nobody else reaches: "2@1-1.5". */
typedef struct shoali_sim_cut {
    uint32_t host;
    double from_s, until_s;
} shoali_sim_cut;

/** What a worker sends in place of its gradient or update: noise five times as long, minus it, a
 *  hundred times it. */
enum { SHOALI_SIM_NOISE = 1, SHOALI_SIM_FLIP, SHOALI_SIM_SCALE };

/** "plan:die=1@2.5,stop=2@4,leave=0@1,rejoin=1@6,nan=3@7,lie=3:noise,cut=2@1-1.5,detect_ms=2500,
 * reform": endpoint @ seconds, nan @ iteration, host @ seconds - seconds. */
typedef struct shoali_sim_faults {
    shoali_sim_list die, stop, leave, rejoin, nan;
    shoali_sim_list lie; /* worker, SHOALI_SIM_NOISE ... */
    shoali_sim_cut cuts[SHOALI_SIM_PAIRS];
    uint32_t cut_count;
    double detect_ms;
    bool reform; /* a protocol that needs all goes on without the lost, in a new epoch */
} shoali_sim_faults;

/* NULL or "" is the default of every key. */
SHOAL_MUST_USE shoal_status shoali_sim_read_compute(const char *spec, shoali_sim_compute *out);
SHOAL_MUST_USE shoal_status shoali_sim_read_network(const char *spec, shoali_sim_network *out);
SHOAL_MUST_USE shoal_status shoali_sim_read_faults(const char *spec, shoali_sim_faults *out);

/** "12.5 0 10mbit 50mbit"; without the last, both rates are alike. EINVAL: it is something else. */
SHOAL_MUST_USE shoal_status shoali_sim_read_rate_line(const char *line, shoali_sim_rate *out);
/** "6x" or "6x:0.1", of the compute key `random` and of workers that are slow on purpose. */
SHOAL_MUST_USE shoal_status shoali_sim_read_random(const char *text, shoali_sim_compute *out);

/** Value of index in a list, fallback if it is not there. */
double shoali_sim_lookup(const shoali_sim_list *list, uint32_t index, double fallback);

/** How much longer than usual worker's iteration takes, slow * random * (1 +- jitter): a function
 * of the arguments only. */
double shoali_sim_compute_factor(const shoali_sim_compute *compute, uint32_t worker,
                                 uint32_t workers, uint64_t iteration, uint64_t seed);

#endif
