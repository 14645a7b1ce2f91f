/* SPDX-License-Identifier: Apache-2.0 */
/* What an aggregator does, for Prometheus: plain HTTP at one address, GET /metrics. */
#ifndef SHOAL_CLI_AGGREGATOR_METRICS_H
#define SHOAL_CLI_AGGREGATOR_METRICS_H

#include <stdbool.h>

#include "shoal/aggregator.h"

typedef struct aggregator_metrics aggregator_metrics;

/** Serve until ended, on a thread of its own. address: "127.0.0.1:9464", "[::1]:0" or ":9464" (this
 * host only). Prints the reason and returns NULL on failure. */
aggregator_metrics *aggregator_metrics_start(const char *address, shoal_aggregator *aggregator);
/** The port, which the kernel chose if 0 was asked for. */
unsigned aggregator_metrics_port(const aggregator_metrics *metrics);
void aggregator_metrics_end(aggregator_metrics *metrics); /* NULL is allowed */

/** The page, to be freed by the caller; NULL: no memory. */
char *aggregator_metrics_text(shoal_aggregator *aggregator);

#endif
