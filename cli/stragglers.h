/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a run: who made whom wait. */
#ifndef SHOAL_CLI_STRAGGLERS_H
#define SHOAL_CLI_STRAGGLERS_H

#include "shoal/train.h"

/** "ranks": [...] as the last member of an object, and its end. */
void stragglers_json(const shoal_train *train, uint32_t workers);
/** A table and a sentence per straggler; nothing for a single worker. */
void stragglers_table(const shoal_train *train, uint32_t workers);

#endif
