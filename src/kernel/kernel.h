/* SPDX-License-Identifier: Apache-2.0 */
/* Vector operations that several rooms share. One table of functions; the reference rows (ref/) are
 * always complete, AVX2 rows (avx2/) override them where the CPU has AVX2, FMA and F16C, NEON rows
 * (neon/) on 64-bit ARM. SHOAL_KERNEL=ref|avx2|neon forces a row. Element-wise rows are bit-equal
 * to the reference (of a NaN only that it is one); reductions are within the bound stated
 * (different order). Pointers need only the alignment of their type; n may be 0. */
#ifndef SHOALI_KERNEL_KERNEL_H
#define SHOALI_KERNEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct shoali_kernels {
    const char *name; /* "ref", "avx2", "neon" */
    bool avx2, neon;  /* rooms with vector loops of their own (codec) take that path if set */
    void (*add)(float *acc, const float *x, size_t n); /* acc += x */
    void (*max)(float *acc, const float *x, size_t n); /* acc = max(acc, x); NaN in either wins */
    void (*scale)(float *x, float a, size_t n);        /* x *= a */
    void (*axpy)(float *y, float a, const float *x, size_t n); /* y = fma(a, x, y) */
    void (*copy)(float *dst, const float *src, size_t n);
    /* Round to nearest even; false if a result is not finite (source NaN, infinite, too large). */
    bool (*fp16_encode)(uint16_t *dst, const float *src, size_t n);
    /* false: some were not finite, decoded all the same */
    bool (*fp16_decode)(float *dst, const uint16_t *src, size_t n);
    bool (*fp16_add)(float *acc, const uint16_t *src, size_t n); /* fused decode + add */
    bool (*bf16_encode)(uint16_t *dst, const float *src, size_t n);
    bool (*bf16_decode)(float *dst, const uint16_t *src, size_t n);
    bool (*bf16_add)(float *acc, const uint16_t *src, size_t n);
    double (*sumsq)(const float *x, size_t n);           /* sum of squares in double, rel. 1e-12 */
    float (*absmax)(const float *x, size_t n);           /* NaN if any is NaN; 0 for n = 0 */
    size_t (*first_nonfinite)(const float *x, size_t n); /* index, n if all finite */
    const struct shoali_circulant_kernels *circulant;    /* kernel/circulant.h */
    /* Bit patterns ORed: 0 or only the sign bit if all are zero, -0 included; 0 for n = 0 */
    uint32_t (*or_bits)(const float *x, size_t n);
} shoali_kernels;

extern const shoali_kernels shoali_kernels_ref;
extern const shoali_kernels shoali_kernels_avx2; /* only on x86-64 builds */
extern const shoali_kernels shoali_kernels_neon; /* only on aarch64 builds */

/** The table for this CPU, chosen once (thread-safe). */
const shoali_kernels *shoali_kernel(void);
/** All rows that this build has and this CPU runs, NULL at the end: for tests and benchmarks. */
const shoali_kernels *shoali_kernel_row(size_t i);
/** CPU model and instruction set for benchmark headers: "EPYC ... avx2 fma f16c". Static. */
const char *shoali_cpu_name(void);

#endif
