/* SPDX-License-Identifier: Apache-2.0 */
/* What shoal network prints and draws. */
#ifndef SHOAL_CLI_NETWORK_SHOW_H
#define SHOAL_CLI_NETWORK_SHOW_H

#include <stdbool.h>
#include <stdio.h>

#include "shoal/network.h"

enum { NETWORK_TOP_MAX = 1000 };

/** One answer, with what was asked. */
typedef struct network_result {
    const char *objective; /* "perf" ... */
    double at;             /* the value swept; 0 without a sweep */
    double solve_us;
    shoal_network_answer answer;
    shoal_network_shape shape;          /* with --shapes only: dims 0 otherwise */
    shoal_network_choice choice;        /* of the whole space */
    shoal_network_schedule found, even; /* in chunks, on these bandwidths and on as much evenly */
} network_result;

/** All that was asked of one network. In a sweep the results of one value stand together, first the
 *  shortest time, then, if there are costs, the least time * cost. */
typedef struct network_report {
    const shoal_network *network;
    shoal_network_info info;
    const char *const *jobs; /* workload paths */
    uint32_t job_count;
    const char *swept; /* "sum", "cost"; NULL: no sweep */
    const network_result *results;
    size_t count;
    bool shapes; /* each result has its own; without a sweep they stand best first, and network is
                    the first one's */
    uint32_t chunks; /* 0: not simulated; else the first result, with shapes all of them */
} network_report;

double network_now_us(void);
void network_show_text(FILE *out, const network_report *report);
void network_show_collectives(FILE *out, const network_report *report);
/** @return exit code */
int network_show_json(const network_report *report);
const char *network_show_csv(FILE *out, const network_report *report);
/** Time against the value swept: optimum, best product, equal bandwidth. These return NULL, or why
 *  nothing was drawn. */
const char *network_show_svg(FILE *out, const network_report *report);
/** Both plots (time, time * cost), and the table. */
const char *network_show_html(FILE *out, const network_report *report);

#endif
