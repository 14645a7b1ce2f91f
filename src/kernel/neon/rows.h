/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that the NEON tables take from other files. */
#ifndef SHOALI_KERNEL_NEON_ROWS_H
#define SHOALI_KERNEL_NEON_ROWS_H

#include "kernel/circulant.h"
#include "kernel/kernel.h"

bool shoali_neon_fp16_encode(uint16_t *dst, const float *src, size_t n);
bool shoali_neon_fp16_decode(float *dst, const uint16_t *src, size_t n);
bool shoali_neon_fp16_add(float *acc, const uint16_t *src, size_t n);
bool shoali_neon_bf16_encode(uint16_t *dst, const float *src, size_t n);
bool shoali_neon_bf16_decode(float *dst, const uint16_t *src, size_t n);
bool shoali_neon_bf16_add(float *acc, const uint16_t *src, size_t n);

void shoali_neon_analyse(const shoali_dft *dft, const float *src, size_t lane_stride, float *dst,
                         size_t bin_stride);
void shoali_neon_synthesise(const shoali_dft *dft, const float *src, size_t bin_stride, float *dst,
                            size_t lane_stride);
void shoali_neon_apply(const shoali_apply *job);
void shoali_neon_correlate(const shoali_correlate *job);
void shoali_neon_analyse_planes(const shoali_dft *dft, const shoali_planes *p,
                                const float *channels, float *spectrum);
void shoali_neon_synthesise_planes(const shoali_dft *dft, const shoali_planes *p,
                                   const float *spectrum, float *channels);

#endif
