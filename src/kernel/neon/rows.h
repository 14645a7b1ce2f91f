/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that the NEON table takes from half.c. */
#ifndef SHOALI_KERNEL_NEON_ROWS_H
#define SHOALI_KERNEL_NEON_ROWS_H

#include "kernel/kernel.h"

bool shoali_neon_fp16_encode(uint16_t *dst, const float *src, size_t n);
bool shoali_neon_fp16_decode(float *dst, const uint16_t *src, size_t n);
bool shoali_neon_fp16_add(float *acc, const uint16_t *src, size_t n);
bool shoali_neon_bf16_encode(uint16_t *dst, const float *src, size_t n);
bool shoali_neon_bf16_decode(float *dst, const uint16_t *src, size_t n);
bool shoali_neon_bf16_add(float *acc, const uint16_t *src, size_t n);

#endif
