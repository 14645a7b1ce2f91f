/* SPDX-License-Identifier: Apache-2.0 */
/* What an aggregator does, for Prometheus. */
#ifndef SHOAL_CLI_AGGREGATOR_METRICS_H
#define SHOAL_CLI_AGGREGATOR_METRICS_H

#include "metrics_page.h"

/** Fills a page (metrics_http.h). @param aggregator a shoal_aggregator */
void aggregator_metrics_fill(void *aggregator, metrics_page *page);

#endif
