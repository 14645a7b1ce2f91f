/* SPDX-License-Identifier: Apache-2.0 */
/* The product of two matrices on the calling thread, by the library that is quicker for it: oneDNN,
 * which takes the CPU's widest instructions, where it is there and the product is large enough to
 * be worth a call; else OpenBLAS, whose choice of kernels is older than many CPUs. */
#ifndef SHOALI_NN_GEMM_H
#define SHOALI_NN_GEMM_H

#include <stdbool.h>

/** c[m][n] = scale a b + keep c, row by row, with rows so many values apart. a is [m][k], turned
 * [k][m]; b is [k][n], turned [n][k]. keep 0: c is not read. */
void shoali_gemm(bool turn_a, bool turn_b, int m, int n, int k, float scale, const float *a,
                 int a_step, const float *b, int b_step, float keep, float *c, int c_step);

#endif
