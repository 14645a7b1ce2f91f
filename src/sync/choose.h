/* SPDX-License-Identifier: Apache-2.0 */
/* A protocol for a job whose links and workers are known: what makes most progress in a second, as
 * far as that can be told beforehand. Progress of an iteration is a rule of thumb: 2 % less for
 * each doubling of the iterations between two rounds, and for models of neighbours instead of sums;
 * 1 % less with 4 bits a value, and less where samples are left out. docs/protocols.md says how
 * often it was right. */
#ifndef SHOALI_SYNC_CHOOSE_H
#define SHOALI_SYNC_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct shoali_sync_facts {
    uint32_t workers;
    size_t params;
    uint32_t buckets; /* operations of all_reduce: the last one hides behind nothing */
    double up_bytes_s, down_bytes_s; /* of the slowest host's link */
    double latency_s;
    double compute_s;      /* an iteration of a usual worker */
    double backward;       /* part of it in which gradients become ready */
    double slowest;        /* the slowest worker's time in units of that, 1: all alike */
    uint32_t slow_workers; /* that are half as slow again, or more */
    double chance, by;     /* so many iterations of one take so many times as long, by chance */
    uint64_t iterations;   /* of each worker, 0: not known. Four rounds of them at least */
    double bytes_per_elem; /* of the codec that is given, 0: choose one */
    bool sums;             /* a collective is given: nothing else */
} shoali_sync_facts;

typedef struct shoali_sync_choice {
    char sync[96];
    const char *codec;    /* NULL: the given one, or none */
    double step_s, share; /* an iteration on the mean; part of it that is computing */
    double round_s;       /* one exchange */
    double everybody_s;   /* an iteration of all_reduce without a codec, for comparison */
    char why[512];        /* a line */
} shoali_sync_choice;

/** A function of the facts. */
void shoali_sync_choose(const shoali_sync_facts *facts, shoali_sync_choice *choice_out);
/** How long a worker's model takes to so many neighbours, by the codec that is given: degree times
 * its bytes by the rate, and a latency. */
double shoali_sync_models_s(const shoali_sync_facts *facts, uint32_t degree);
/** Whether that hides behind its computing. */
bool shoali_sync_graph_hides(const shoali_sync_facts *facts, uint32_t degree);

#endif
