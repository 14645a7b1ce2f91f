/* SPDX-License-Identifier: Apache-2.0 */
/* Processor time of a lab's ranks, held down by control groups: the second way to make a worker
 * slow, beside the emulated deadline (SHOAL_SLOW). cgroup v1 or v2, where this user may make groups
 * of the cpu controller. A process of its own removes the groups once all that is of the lab has
 * ended, also by kill -9. */
#ifndef SHOAL_CLI_THROTTLE_H
#define SHOAL_CLI_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

/**
 * Make a group for every rank with a share; before the lab's namespaces.
 * @param shares parts of one processor by rank, 0: as it likes
 * @return false, with a printed reason, where it cannot be done.
 */
bool throttle_begin(const char *verb, const double *shares, uint32_t ranks);
/** In a rank's process: enter its group, if it has one. Prints the reason and returns false. */
bool throttle_join(const char *verb, uint32_t rank);

#endif
