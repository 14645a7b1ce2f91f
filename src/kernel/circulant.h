/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of block-circulant products; kernel/circulant.c strings them together.
 *
 * Spectra are kept in groups of 8 blocks: 16 floats hold one bin of 8 blocks, their real parts,
 * then their imaginary parts. A real block of k has ceil(k / 2) bins: bin 0 holds two real numbers,
 * the sum (DC) as real part and, for even k, the alternating sum (Nyquist) as imaginary part. So k
 * floats stay k floats, and every group is one cache line. */
#ifndef SHOALI_KERNEL_CIRCULANT_H
#define SHOALI_KERNEL_CIRCULANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SHOALI_LANES = 8,        /* blocks of a group */
    SHOALI_GROUP = 16,       /* floats of a group: real parts, imaginary parts */
    SHOALI_DFT_MAX = 1024,   /* largest block */
    SHOALI_CORR_COLUMNS = 6, /* columns of a tile in correlate */
    SHOALI_FETCHED = 64 *
                     SHOALI_GROUP /* weights that a single sample's product finds on their way */
};

/** A transform's constants. cos, sin of 2 pi i / (k * stride) at i * stride. */
typedef struct shoali_dft {
    uint32_t k;
    bool fast; /* a power of two */
    uint32_t stride;
    const float *cos, *sin;
} shoali_dft;

/** Bins of y = W x, each: y[b][tile] = sum over j of w[tile][j] * x[b][j]. */
typedef struct shoali_apply {
    const float *w; /* [tiles][columns] groups of 8 outputs */
    size_t tiles, columns;
    const float *x; /* [count] samples of x_stride floats: groups of 8 inputs */
    size_t x_stride, count;
    float *y; /* [count] samples of y_stride floats: groups of 8 outputs */
    size_t y_stride;
    bool real; /* bin 0: real and imaginary parts are two products of real numbers */
    size_t bins, w_bin, x_bin, y_bin; /* so many of them, so far apart */
} shoali_apply;

/** One bin of dw = g conj(x)^T for 8 rows: dw[j] = sum over b of g[b] * conj(x[b][j]), scaled; or
 * dw[j] += that. */
typedef struct shoali_correlate {
    const float *g; /* [count] samples of g_stride floats, one group is read */
    size_t g_stride;
    const float *x; /* [count] samples of x_stride floats */
    size_t x_stride, count;
    size_t first, columns; /* of the j */
    float *dw;             /* [columns] groups */
    float scale_re, scale_im;
    bool real, add;
} shoali_correlate;

/** A block of channels of an image, k planes, and its spectrum: a plane of real and one of
 * imaginary parts per bin. */
typedef struct shoali_planes {
    size_t pixels;
    size_t plane;     /* floats from one channel to the next */
    size_t known;     /* channels that there are: others are 0, and not written */
    size_t bin;       /* floats from one bin to the next */
    size_t imaginary; /* floats from real to imaginary parts */
    /* of synthesis alone */
    const float *bias; /* float32[known], added; NULL: none */
    bool rectify;      /* at last, max(y, 0); NaN stays */
} shoali_planes;

typedef struct shoali_circulant_kernels {
    /** 8 blocks of k floats, lane_stride apart, to groups that lie bin_stride floats apart. */
    void (*analyse)(const shoali_dft *dft, const float *src, size_t lane_stride, float *dst,
                    size_t bin_stride);
    /** Back, times k. */
    void (*synthesise)(const shoali_dft *dft, const float *src, size_t bin_stride, float *dst,
                       size_t lane_stride);
    void (*apply)(const shoali_apply *job);
    void (*correlate)(const shoali_correlate *job);
    /** The same transforms, a pixel per lane: no lane has to be turned. */
    void (*analyse_planes)(const shoali_dft *dft, const shoali_planes *p, const float *channels,
                           float *spectrum);
    void (*synthesise_planes)(const shoali_dft *dft, const shoali_planes *p, const float *spectrum,
                              float *channels);
} shoali_circulant_kernels;

extern const shoali_circulant_kernels shoali_circulant_ref;
extern const shoali_circulant_kernels shoali_circulant_avx2; /* only on x86-64 builds */
extern const shoali_circulant_kernels shoali_circulant_neon; /* only on aarch64 builds */

/** The plain transform of any size; also the reference. */
void shoali_dft_analyse(const shoali_dft *dft, const float *src, size_t lane_stride, float *dst,
                        size_t bin_stride);
void shoali_dft_synthesise(const shoali_dft *dft, const float *src, size_t bin_stride, float *dst,
                           size_t lane_stride);
void shoali_dft_analyse_planes(const shoali_dft *dft, const shoali_planes *p, const float *channels,
                               float *spectrum);
void shoali_dft_synthesise_planes(const shoali_dft *dft, const shoali_planes *p,
                                  const float *spectrum, float *channels);

/** Constants of a transform of k; own: float32[2 * k], used unless k is a power of two. */
shoali_dft shoali_dft_make(uint32_t k, float *own);

/** Where column j of a sample stands: the offset of its real part; its imaginary part is 8 on. */
static inline size_t shoali_column(size_t j)
{
    return j / SHOALI_LANES * SHOALI_GROUP + j % SHOALI_LANES;
}

#endif
