/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a run: who made whom wait. */
#ifndef SHOAL_CLI_STRAGGLERS_H
#define SHOAL_CLI_STRAGGLERS_H

#include <jansson.h>

#include "shoal/train.h"

/** One object per rank. */
json_t *stragglers_of(const shoal_train *train, uint32_t workers);
/** A table and a sentence per straggler, or that there is none; nothing for a single worker. */
void stragglers_table(const shoal_train *train, uint32_t workers, uint64_t steps);

#endif
