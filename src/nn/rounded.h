/* SPDX-License-Identifier: Apache-2.0 */
/* Products whose operands are rounded to bfloat16 (to the nearest, ties to even) and whose sums are
 * in float32: by oneDNN where the CPU has such instructions, else in float32, where a product of
 * two bfloat16 values is exact: the two differ by the order of their sums alone. */
#ifndef SHOALI_NN_ROUNDED_H
#define SHOALI_NN_ROUNDED_H

#include <stdbool.h>
#include <stddef.h>

/** Bytes of work for operands of so many values together. */
size_t shoali_rounded_bytes(size_t values);

/** c = a b, or c += with add; else as shoali_gemm.
 * @param work shoali_rounded_bytes(m k + k n), 64-byte aligned */
void shoali_rounded_gemm(bool turn_a, bool turn_b, int m, int n, int k, const float *a, int a_step,
                         const float *b, int b_step, bool add, float *c, int c_step, void *work);

/** to[i] = from[i], rounded, in float32. */
void shoali_round(float *to, const float *from, size_t count);

#endif
