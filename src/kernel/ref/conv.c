/* SPDX-License-Identifier: Apache-2.0 */
/* The definition: one value at a time, a fused multiply-add per tap, sums of a call added to what
 * was there. */
#include <math.h>

#include "kernel/conv_kernels.h"

static void pixels(const shoali_conv_pixels *j)
{
    for (size_t s = 0; s < j->span_count; s++)
        for (uint32_t i = 0; i < j->spans[s].count; i++)
            for (unsigned r = 0; r < j->rows; r++) {
                const float *x = j->x + j->spans[s].in + i;
                float *y = j->y + r * j->plane + j->spans[s].out + i;
                float sum = 0;
                for (size_t t = 0; t < j->tap_count; t++)
                    sum = fmaf(j->w[t * j->rows + r], x[j->taps[t]], sum);
                sum += j->bias != NULL ? j->bias[r] : *y;
                *y = j->rectify && sum < 0.0f ? 0.0f : sum;
            }
}

static float weight(const shoali_conv_weights *j, size_t tap, unsigned lane)
{
    const float *x = j->x + j->taps[tap];
    float sum = 0;
    for (size_t p = 0; p < j->pixel_count; p++)
        sum = fmaf(x[j->pixels[p]], j->dy[p * j->vectors * SHOALI_CONV_LANES + lane], sum);
    return sum;
}

static void weights(const shoali_conv_weights *j)
{
    unsigned lanes = j->vectors * SHOALI_CONV_LANES;
    for (size_t t = 0; t < j->tap_count; t++)
        for (unsigned lane = 0; lane < lanes; lane++) {
            float *dw = j->dw + t * lanes + lane;
            *dw = weight(j, t, lane) + (j->add ? *dw : 0.0f);
        }
}

static void lanes(const shoali_conv_lanes *j)
{
    float *to = j->to;
    for (size_t p = 0; p < j->pixels; p++)
        for (unsigned l = 0; l < j->vectors * SHOALI_CONV_LANES; l++)
            *to++ = l < j->known ? j->from[l * j->pixels + p] : 0.0f;
}

const shoali_conv_kernels shoali_conv_ref = {pixels, weights, lanes};
