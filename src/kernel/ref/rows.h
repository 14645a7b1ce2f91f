/* SPDX-License-Identifier: Apache-2.0 */
/* The portable rows, for the table in vector.c and for the tails of wider rows. */
#ifndef SHOALI_KERNEL_REF_ROWS_H
#define SHOALI_KERNEL_REF_ROWS_H

#include "kernel/kernel.h"

/** Conversions of one element, bit-equal to F16C (vcvtps2ph, vcvtph2ps) with denormals kept. */
uint16_t shoali_ref_fp16_from(float x);
float shoali_ref_fp16_to(uint16_t h);
uint16_t shoali_ref_bf16_from(float x);
float shoali_ref_bf16_to(uint16_t h);

bool shoali_ref_fp16_encode(uint16_t *dst, const float *src, size_t n);
bool shoali_ref_fp16_decode(float *dst, const uint16_t *src, size_t n);
bool shoali_ref_fp16_add(float *acc, const uint16_t *src, size_t n);
bool shoali_ref_bf16_encode(uint16_t *dst, const float *src, size_t n);
bool shoali_ref_bf16_decode(float *dst, const uint16_t *src, size_t n);
bool shoali_ref_bf16_add(float *acc, const uint16_t *src, size_t n);

#endif
