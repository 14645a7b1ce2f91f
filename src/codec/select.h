/* SPDX-License-Identifier: Apache-2.0 */
/* The largest magnitudes of an array, for topk and chunk_topk: which magnitude, as float bits, is
 * the k-th largest. */
#ifndef SHOALI_CODEC_SELECT_H
#define SHOALI_CODEC_SELECT_H

#include <stddef.h>
#include <stdint.h>

/** Returned when an element is not finite. */
#define SHOALI_SELECT_NOT_FINITE UINT32_MAX

/** The threshold t such that fewer than k magnitudes exceed it, and k with the first *equal_out of
 * those that equal it. n below 2^32; 1 <= k <= n. Ordered by magnitude, then by index. */
uint32_t shoali_select(const float *x, size_t n, size_t k, size_t *equal_out);

/** Indices of these k elements, ascending, 16 bits each, little-endian at any alignment. */
void shoali_select_indices(const float *x, size_t n, uint32_t threshold, size_t equal,
                           uint8_t *indices_out);

#endif
