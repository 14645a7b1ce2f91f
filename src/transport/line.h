/* SPDX-License-Identifier: Apache-2.0 */
/* How fast an interface says that it is. */
#ifndef SHOALI_TRANSPORT_LINE_H
#define SHOALI_TRANSPORT_LINE_H

#include <stdint.h>

/** Of an interface of this network namespace; 0: it does not say (loopback, many virtual ones). */
uint32_t shoali_line_mbit(const char *interface);
/** The same in bytes per second. A lab's are slower than they say: SHOAL_LINE_RATE, in bits. */
uint64_t shoali_line_bytes_s(const char *interface);
/** The rule alone; mbit 0: unknown, lab NULL: none. */
uint64_t shoali_line_limit(uint32_t mbit, const char *lab);

#endif
