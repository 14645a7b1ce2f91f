/* SPDX-License-Identifier: Apache-2.0 */
/* Operations without a name of their own are numbered, group by group, in order of their start: so
 * members that start the same ones in the same order know each other's. */
#ifndef SHOALI_OPS_NUMBERS_H
#define SHOALI_OPS_NUMBERS_H

#include <stdint.h>

#include "shoal/status.h"

/** All zero: none has been given. Whoever owns it lets one thread in at a time. */
typedef struct shoali_numbers {
    struct shoali_group *groups; /* few */
    uint32_t count, capacity;
} shoali_numbers;

/** The next number of a group: 1, 2, 3 ... */
SHOAL_MUST_USE shoal_status shoali_numbers_next(shoali_numbers *numbers, uint64_t group,
                                                uint64_t *number_out);
void shoali_numbers_free(shoali_numbers *numbers);

#endif
