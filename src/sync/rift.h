/* SPDX-License-Identifier: Apache-2.0 */
/* Losses can cut a communication graph into parts that would train apart without a word. */
#ifndef SHOALI_SYNC_RIFT_H
#define SHOALI_SYNC_RIFT_H

#include "sync/finale.h"

/**
 * After a loss: whether those that are left still reach each other over the graph. Allocates, which
 * machines otherwise do not after START: it is for a death only.
 * @param graph spec of the whole graph, as shoali_graph_open takes it
 * @return SHOAL_OK, also once all have finished | EPEER: no, and the text names a worker of each
 *         part | ENOMEM | what shoali_graph_open returns
 */
SHOAL_MUST_USE shoal_status shoali_rift_check(const char *graph, const shoali_finale *finale);

#endif
