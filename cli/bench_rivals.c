/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_rivals.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* A function's address as the pointer that the caller has a type for. */
static bool find(void *library, const char *name, void *function_out)
{
    void *symbol = dlsym(library, name);
    memcpy(function_out, &symbol, sizeof symbol);
    return symbol != NULL;
}

bool bench_blas_find(bench_blas *b)
{
    void *all = dlopen("libopenblas.so.0", RTLD_NOW);
    bool found = all != NULL && find(all, "cblas_sgemv", &b->gemv) &&
                 find(all, "cblas_sgemm", &b->gemm) && find(all, "cblas_cgemm", &b->cgemm) &&
                 find(all, "openblas_set_num_threads", &b->set_threads) &&
                 find(all, "openblas_get_corename", &b->core);
    if (found)
        b->set_threads(1);
    return found;
}

/* ------------------------------------------------------------------ FFTW */

typedef void *plan;

struct bench_fftw {
    const bench_blas *blas;
    size_t p, q, k, batch, bins;
    float *w, *xs, *ys; /* complex, planar by bin: [bin][p][q], [bin][batch][q], [bin][batch][p] */
    plan ahead, back;
    void *library;
    plan (*plan_r2c)(int, const int *, int, float *, const int *, int, int, void *, const int *,
                     int, int, unsigned);
    plan (*plan_c2r)(int, const int *, int, void *, const int *, int, int, float *, const int *,
                     int, int, unsigned);
    void (*execute_r2c)(plan, float *, void *);
    void (*execute_c2r)(plan, void *, float *);
    void (*destroy_plan)(plan);
};

enum { MEASURE = 0 };

static bool load(bench_fftw *f)
{
    f->library = dlopen("libfftw3f.so.3", RTLD_NOW);
    return f->library != NULL && find(f->library, "fftwf_plan_many_dft_r2c", &f->plan_r2c) &&
           find(f->library, "fftwf_plan_many_dft_c2r", &f->plan_c2r) &&
           find(f->library, "fftwf_execute_dft_r2c", &f->execute_r2c) &&
           find(f->library, "fftwf_execute_dft_c2r", &f->execute_c2r) &&
           find(f->library, "fftwf_destroy_plan", &f->destroy_plan);
}

static plan plan_ahead(const bench_fftw *f, size_t count, float *from, float *to)
{
    const int n = (int)f->k, all = (int)count;
    return f->plan_r2c(1, &n, all, from, NULL, 1, n, to, NULL, all, 1, MEASURE);
}

static float *floats(size_t count)
{
    float *x = aligned_alloc(64, (count / 16 + 1) * 64);
    if (x != NULL)
        memset(x, 0, (count / 16 + 1) * 64);
    return x;
}

/* Plans are made on memory of their own: measuring overwrites it. The weights' transform has 1 / k
 * in it, which FFTW leaves out. */
static bool make(bench_fftw *f, const float *w)
{
    const size_t blocks = f->p * f->q, in = f->q * f->k * f->batch, out = f->p * f->k * f->batch;
    const int n = (int)f->k, outs = (int)(f->p * f->batch);
    const size_t scratch = in > out ? in : out;
    float *time = floats(blocks * f->k > scratch ? blocks * f->k : scratch);
    f->w = floats(2 * f->bins * blocks);
    f->xs = floats(2 * f->bins * f->q * f->batch);
    f->ys = floats(2 * f->bins * f->p * f->batch);
    bool good = time != NULL && f->w != NULL && f->xs != NULL && f->ys != NULL;
    if (good) {
        plan weights = plan_ahead(f, blocks, time, f->w);
        for (size_t i = 0; i < blocks * f->k; i++)
            time[i] = w[i] / (float)f->k;
        f->execute_r2c(weights, time, f->w);
        f->destroy_plan(weights);
        f->ahead = plan_ahead(f, f->q * f->batch, time, f->xs);
        f->back = f->plan_c2r(1, &n, outs, f->ys, NULL, outs, 1, time, NULL, 1, n, MEASURE);
    }
    free(time);
    return good && f->ahead != NULL && f->back != NULL;
}

bench_fftw *bench_fftw_create(const bench_blas *blas, size_t out, size_t in, size_t k, size_t batch,
                              const float *w)
{
    bench_fftw *f = calloc(1, sizeof *f);
    if (f == NULL)
        return NULL;
    *f = (bench_fftw){
        .blas = blas, .p = out / k, .q = in / k, .k = k, .batch = batch, .bins = k / 2 + 1};
    if (load(f) && make(f, w))
        return f;
    bench_fftw_destroy(f);
    return NULL;
}

void bench_fftw_run(bench_fftw *f, float *x, float *y)
{
    const float one[2] = {1, 0}, zero[2] = {0, 0};
    const int p = (int)f->p, q = (int)f->q, batch = (int)f->batch;
    f->execute_r2c(f->ahead, x, f->xs);
    for (size_t bin = 0; bin < f->bins; bin++)
        f->blas->cgemm(BENCH_ROWS, BENCH_PLAIN, BENCH_TRANS, batch, p, q, one,
                       f->xs + 2 * bin * f->q * f->batch, q, f->w + 2 * bin * f->p * f->q, q, zero,
                       f->ys + 2 * bin * f->p * f->batch, p);
    f->execute_c2r(f->back, f->ys, y);
}

void bench_fftw_destroy(bench_fftw *f)
{
    if (f == NULL)
        return;
    if (f->ahead != NULL)
        f->destroy_plan(f->ahead);
    if (f->back != NULL)
        f->destroy_plan(f->back);
    free(f->w), free(f->xs), free(f->ys);
    free(f);
}
