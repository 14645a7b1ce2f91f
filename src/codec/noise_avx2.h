/* SPDX-License-Identifier: Apache-2.0 */
/* noise.h in eight lanes; for files compiled with AVX2. */
#ifndef SHOALI_CODEC_NOISE_AVX2_H
#define SHOALI_CODEC_NOISE_AVX2_H

#include <immintrin.h>

#include "codec/noise.h"

/** shoali_noise_at of eight counters. */
static inline __m256i shoali_noise_at8(shoali_noise key, __m256i counter)
{
    __m256i x = _mm256_xor_si256(counter, _mm256_set1_epi32((int)key.first));
    x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
    x = _mm256_mullo_epi32(x, _mm256_set1_epi32(SHOALI_NOISE_MUL_1));
    x = _mm256_add_epi32(x, _mm256_set1_epi32((int)key.second));
    x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 15));
    x = _mm256_mullo_epi32(x, _mm256_set1_epi32((int)SHOALI_NOISE_MUL_2));
    return _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
}

#endif
