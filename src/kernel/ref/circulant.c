/* SPDX-License-Identifier: Apache-2.0 */
/* Block-circulant products in portable C. The plain transforms, for any k, are used by all rows. */
#include "kernel/circulant.h"

#include <string.h>

/* ---------------------------------------------------------------- plain transforms */

void shoali_dft_analyse(const shoali_dft *dft, const float *src, size_t lane_stride, float *dst,
                        size_t bin_stride)
{
    const uint32_t k = dft->k;
    for (uint32_t lane = 0; lane < SHOALI_LANES; lane++) {
        const float *x = src + lane * lane_stride;
        for (uint32_t f = 0; f <= k / 2; f++) {
            double re = 0, im = 0;
            for (uint32_t t = 0, at = 0; t < k; t++, at = (at + f) % k) {
                re += (double)dft->cos[(size_t)at * dft->stride] * (double)x[t];
                im -= (double)dft->sin[(size_t)at * dft->stride] * (double)x[t];
            }
            float *group = dst + (2 * f == k ? 0 : f) * bin_stride + lane;
            if (2 * f == k)
                group[SHOALI_LANES] = (float)re;
            else {
                group[0] = (float)re;
                group[SHOALI_LANES] = f == 0 ? 0.0f : (float)im;
            }
        }
    }
}

/* One sample of one lane: X[0] (+-) X[k/2] + 2 Re sum X[f] exp(2 pi i f t / k). */
static double sample(const shoali_dft *dft, const float *src, size_t bin_stride, uint32_t t)
{
    const uint32_t k = dft->k;
    double sum = (double)src[0];
    if (k % 2 == 0)
        sum += t % 2 == 0 ? (double)src[SHOALI_LANES] : -(double)src[SHOALI_LANES];
    for (uint32_t f = 1; 2 * f < k; f++) {
        const float *group = src + f * bin_stride;
        size_t at = (size_t)((uint64_t)f * t % k) * dft->stride;
        sum += 2 * ((double)group[0] * (double)dft->cos[at] -
                    (double)group[SHOALI_LANES] * (double)dft->sin[at]);
    }
    return sum;
}

void shoali_dft_synthesise(const shoali_dft *dft, const float *src, size_t bin_stride, float *dst,
                           size_t lane_stride)
{
    for (uint32_t lane = 0; lane < SHOALI_LANES; lane++)
        for (uint32_t t = 0; t < dft->k; t++)
            dst[lane * lane_stride + t] = (float)sample(dft, src + lane, bin_stride, t);
}

/* ---------------------------------------------------------------- planes */

void shoali_dft_analyse_planes(const shoali_dft *dft, const shoali_planes *p, const float *channels,
                               float *spectrum)
{
    float time[SHOALI_LANES * SHOALI_DFT_MAX], groups[SHOALI_LANES * (SHOALI_DFT_MAX + 1)];
    const size_t k = dft->k;
    for (size_t at = 0; at < p->pixels; at += SHOALI_LANES) {
        const size_t lanes = p->pixels - at < SHOALI_LANES ? p->pixels - at : SHOALI_LANES;
        memset(time, 0, SHOALI_LANES * k * sizeof *time);
        for (size_t t = 0; t < p->known; t++)
            for (size_t lane = 0; lane < lanes; lane++)
                time[lane * k + t] = channels[t * p->plane + at + lane];
        shoali_dft_analyse(dft, time, k, groups, SHOALI_GROUP);
        for (size_t f = 0; 2 * f < k; f++)
            for (size_t lane = 0; lane < lanes; lane++) {
                float *to = spectrum + f * p->bin + at + lane;
                to[0] = groups[f * SHOALI_GROUP + lane];
                to[p->imaginary] = groups[f * SHOALI_GROUP + SHOALI_LANES + lane];
            }
    }
}

void shoali_dft_synthesise_planes(const shoali_dft *dft, const shoali_planes *p,
                                  const float *spectrum, float *channels)
{
    float time[SHOALI_LANES * SHOALI_DFT_MAX], groups[SHOALI_LANES * (SHOALI_DFT_MAX + 1)] = {0};
    const size_t k = dft->k;
    for (size_t at = 0; at < p->pixels; at += SHOALI_LANES) {
        const size_t lanes = p->pixels - at < SHOALI_LANES ? p->pixels - at : SHOALI_LANES;
        for (size_t f = 0; 2 * f < k; f++)
            for (size_t lane = 0; lane < lanes; lane++) {
                const float *from = spectrum + f * p->bin + at + lane;
                groups[f * SHOALI_GROUP + lane] = from[0];
                groups[f * SHOALI_GROUP + SHOALI_LANES + lane] = from[p->imaginary];
            }
        shoali_dft_synthesise(dft, groups, SHOALI_GROUP, time, k);
        for (size_t t = 0; t < p->known; t++)
            for (size_t lane = 0; lane < lanes; lane++) {
                float y = time[lane * k + t] + (p->bias != NULL ? p->bias[t] : 0.0f);
                channels[t * p->plane + at + lane] = p->rectify && y < 0.0f ? 0.0f : y;
            }
    }
}

/* ---------------------------------------------------------------- bins */

static void apply_column(const float *w, const float *x, float *y, bool real)
{
    for (size_t lane = 0; lane < SHOALI_LANES; lane++) {
        float wr = w[lane], wi = w[lane + SHOALI_LANES], xr = x[0], xi = x[SHOALI_LANES];
        y[lane] += real ? wr * xr : wr * xr - wi * xi;
        y[lane + SHOALI_LANES] += real ? wi * xi : wr * xi + wi * xr;
    }
}

static void apply_bin(const shoali_apply *job, size_t f)
{
    for (size_t b = 0; b < job->count; b++)
        for (size_t tile = 0; tile < job->tiles; tile++) {
            float *y = job->y + f * job->y_bin + b * job->y_stride + tile * SHOALI_GROUP;
            const float *w = job->w + f * job->w_bin + tile * job->columns * SHOALI_GROUP;
            const float *x = job->x + f * job->x_bin + b * job->x_stride;
            memset(y, 0, SHOALI_GROUP * sizeof *y);
            for (size_t j = 0; j < job->columns; j++)
                apply_column(w + j * SHOALI_GROUP, x + shoali_column(j), y, job->real);
        }
}

static void apply(const shoali_apply *job)
{
    for (size_t f = 0; f < job->bins; f++)
        apply_bin(job, f);
}

static void correlate_column(const shoali_correlate *job, const float *x, float *dw)
{
    float re[SHOALI_LANES] = {0}, im[SHOALI_LANES] = {0};
    for (size_t b = 0; b < job->count; b++) {
        const float *g = job->g + b * job->g_stride;
        float xr = x[b * job->x_stride], xi = x[b * job->x_stride + SHOALI_LANES];
        for (size_t lane = 0; lane < SHOALI_LANES; lane++) {
            float gr = g[lane], gi = g[lane + SHOALI_LANES];
            re[lane] += job->real ? gr * xr : gr * xr + gi * xi;
            im[lane] += job->real ? gi * xi : gi * xr - gr * xi;
        }
    }
    for (size_t lane = 0; lane < SHOALI_LANES; lane++) {
        float *to = dw + lane;
        to[0] = re[lane] * job->scale_re + (job->add ? to[0] : 0.0f);
        to[SHOALI_LANES] = im[lane] * job->scale_im + (job->add ? to[SHOALI_LANES] : 0.0f);
    }
}

static void correlate(const shoali_correlate *job)
{
    for (size_t j = 0; j < job->columns; j++)
        correlate_column(job, job->x + shoali_column(job->first + j), job->dw + j * SHOALI_GROUP);
}

const shoali_circulant_kernels shoali_circulant_ref = {
    .analyse = shoali_dft_analyse,
    .synthesise = shoali_dft_synthesise,
    .apply = apply,
    .correlate = correlate,
    .analyse_planes = shoali_dft_analyse_planes,
    .synthesise_planes = shoali_dft_synthesise_planes};
