/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that the AVX2 tables take from other files. Sources in avx2/ are compiled for AVX2, FMA and
 * F16C. */
#ifndef SHOALI_KERNEL_AVX2_ROWS_H
#define SHOALI_KERNEL_AVX2_ROWS_H

#include "kernel/circulant.h"
#include "kernel/kernel.h"

bool shoali_avx2_fp16_encode(uint16_t *dst, const float *src, size_t n);
bool shoali_avx2_fp16_decode(float *dst, const uint16_t *src, size_t n);
bool shoali_avx2_fp16_add(float *acc, const uint16_t *src, size_t n);
bool shoali_avx2_bf16_encode(uint16_t *dst, const float *src, size_t n);
bool shoali_avx2_bf16_decode(float *dst, const uint16_t *src, size_t n);
bool shoali_avx2_bf16_add(float *acc, const uint16_t *src, size_t n);

void shoali_avx2_analyse(const shoali_dft *dft, const float *src, size_t lane_stride, float *dst,
                         size_t bin_stride);
void shoali_avx2_synthesise(const shoali_dft *dft, const float *src, size_t bin_stride, float *dst,
                            size_t lane_stride);
void shoali_avx2_apply(const shoali_apply *job);
void shoali_avx2_apply_one(const shoali_apply *job); /* of count 1 */
void shoali_avx2_correlate(const shoali_correlate *job);
void shoali_avx2_analyse_planes(const shoali_dft *dft, const shoali_planes *p,
                                const float *channels, float *spectrum);
void shoali_avx2_synthesise_planes(const shoali_dft *dft, const shoali_planes *p,
                                   const float *spectrum, float *channels);

#endif
