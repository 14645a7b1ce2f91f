/* SPDX-License-Identifier: Apache-2.0 */
/* The largest magnitudes of an array, for topk and chunk_topk. */
#ifndef SHOALI_CODEC_SELECT_H
#define SHOALI_CODEC_SELECT_H

#include "codec/codec.h"

/** Indices of the k elements of largest magnitude, of equal ones the first; ascending, 16 bits
 * each, little-endian at any alignment. n up to 65536, 1 <= k <= n. ENOTFINITE, with the codec's
 * name and the place of x, if an element is not finite. */
SHOAL_MUST_USE shoal_status shoali_select(const char *name, size_t first, const float *x, size_t n,
                                          size_t k, uint8_t *indices_out);

/** Only on aarch64 builds. Appends the numbers of those of elements first .. end whose magnitude,
 * as bits, reaches low: at has *count, and room for end - first more. Returns the first element
 * that is left to a plain loop. */
size_t shoali_select_reaching_neon(const float *x, size_t first, size_t end, uint32_t low,
                                   uint16_t *at, size_t *count);

#endif
