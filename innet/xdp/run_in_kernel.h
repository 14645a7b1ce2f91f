/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: the program in the kernel of this machine, fed packet by packet (BPF_PROG_RUN), with
 * no network. */
#ifndef SHOALI_XDP_RUN_IN_KERNEL_H
#define SHOALI_XDP_RUN_IN_KERNEL_H

#include "collective/slot.h"
#include "slots.h"

/** Load the object; NULL, or why this machine does not. */
const char *run_in_kernel_open(const char *object);
/** This share, and no longer the one before. False: the maps refuse it. */
bool run_in_kernel_share(const shoali_slot_share *share);
/** One packet to the aggregator: replaced by its answer, if there is one. */
enum slots_verdict run_in_kernel(uint8_t *packet, size_t *bytes);
void run_in_kernel_close(void);

#endif
