/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes at the edge of what may be read: who reads one more dies, without any sanitizer. */
#ifndef SHOALI_TESTS_SUPPORT_EDGE_H
#define SHOALI_TESTS_SUPPORT_EDGE_H

#include <stddef.h>
#include <stdint.h>

/** A copy whose end is the end of all memory that there is; good until the next call. At most
 * 64 KiB. */
const uint8_t *edge_copy(const void *bytes, size_t len_bytes);

#endif
