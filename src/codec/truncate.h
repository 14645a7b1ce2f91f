/* SPDX-License-Identifier: Apache-2.0 */
/* Vector loops of truncate; they return how many elements they did, and the plain loops of
 * truncate.c, which define the bytes, do the rest. AVX2 only on x86-64 builds, NEON only on aarch64
 * builds. */
#ifndef SHOALI_CODEC_TRUNCATE_H
#define SHOALI_CODEC_TRUNCATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHOALI_TRUNCATE_16, SHOALI_TRUNCATE_22, SHOALI_TRUNCATE_24 };

/** The largest magnitude, as float bits, in most_out. */
size_t shoali_truncate_put_avx2(int32_t bits, const float *src, size_t count, uint8_t *dst,
                                uint32_t *most_out);
size_t shoali_truncate_get_avx2(int32_t bits, const uint8_t *src, size_t count, float *dst,
                                bool add, uint32_t *most_out);
size_t shoali_truncate_put_neon(int32_t bits, const float *src, size_t count, uint8_t *dst,
                                uint32_t *most_out);
size_t shoali_truncate_get_neon(int32_t bits, const uint8_t *src, size_t count, float *dst,
                                bool add, uint32_t *most_out);

#endif
