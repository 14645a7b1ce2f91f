/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHOALI_WIRE_CRC32C_H
#define SHOALI_WIRE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/** CRC-32C (Castagnoli, RFC 3720 appendix B.4) of len_bytes, going on from the checksum of what
 * came before (0 at the start). Finds every burst of up to 32 bits; no protection against an
 * attacker. */
uint32_t shoali_crc32c(uint32_t before, const void *bytes, size_t len_bytes);
/** The same by table, on any machine: the reference of the tests. */
uint32_t shoali_crc32c_plain(uint32_t before, const void *bytes, size_t len_bytes);

#endif
