/* SPDX-License-Identifier: Apache-2.0 */
/* Rivals of shoal bench circulant, found when they are asked for: OpenBLAS, which libshoal has
 * loaded anyway, and FFTW (GPL: for benchmarks only, never linked), if it is installed. */
#ifndef SHOAL_CLI_BENCH_RIVALS_H
#define SHOAL_CLI_BENCH_RIVALS_H

#include <stdbool.h>
#include <stddef.h>

/** Row-major cblas; NULL where there is none. */
typedef struct bench_blas {
    void (*set_threads)(int threads);
    char *(*core)(void);
    void (*gemv)(int order, int trans, int m, int n, float alpha, const float *a, int lda,
                 const float *x, int incx, float beta, float *y, int incy);
    void (*gemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*cgemm)(int order, int trans_a, int trans_b, int m, int n, int k, const void *alpha,
                  const void *a, int lda, const void *b, int ldb, const void *beta, void *c,
                  int ldc);
} bench_blas;
enum { BENCH_ROWS = 101, BENCH_PLAIN = 111, BENCH_TRANS = 112 }; /* cblas's own numbers */

/** False: no OpenBLAS in this process. */
bool bench_blas_find(bench_blas *blas_out);

/** A block-circulant product of strided FFTW plans and one complex GEMM per bin. */
typedef struct bench_fftw bench_fftw;
/** w: first-column weights. NULL: FFTW is not installed, or no memory. */
bench_fftw *bench_fftw_create(const bench_blas *blas, size_t out, size_t in, size_t k, size_t batch,
                              const float *w);
/** Sides must be multiples of k. */
void bench_fftw_run(bench_fftw *f, float *x, float *y);
void bench_fftw_destroy(bench_fftw *f);

#endif
