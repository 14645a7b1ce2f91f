/* SPDX-License-Identifier: Apache-2.0 */
/* What the unit tests of the scaled codecs (int8, int4, fp8, sign) share. */
#ifndef SHOALI_TESTS_SUPPORT_SCALED_CASE_H
#define SHOALI_TESTS_SUPPORT_SCALED_CASE_H

#include "codec/scaled.h"

/** Encode at stream 0 and decode again. coded_out: the bytes, at least the bound of them, or NULL.
 */
void scaled_round_trip(const char *spec, uint64_t stream, const float *src, size_t count,
                       float *got, uint8_t *coded_out);

/** Vector loops give the bytes and values of plain ones, at every length of a block. */
void scaled_compare(const shoali_scaled_format *ref, const shoali_scaled_format *vector,
                    bool stochastic);

#endif
