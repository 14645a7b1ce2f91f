/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHOALI_DATA_DISTORT_H
#define SHOALI_DATA_DISTORT_H

#include <stdint.h>

#include "data/faces.h"

enum { SHOALI_DIGIT_SIDE = 28 };

/**
 * Draw a glyph into a 28 x 28 image: size 17 .. 22 pixels, rotation +-0.35, shear +-0.3, aspect
 * +-12 %, shift +-1.5 pixels, a 4 x 4 elastic grid of deviation 1.3 pixels, blur of deviation 0.5
 * .. 1.5, gain 0.6 .. 1, noise of deviation 8 .. 30 of 255; sampled 3 x 3 per pixel.
 * @param hard   multiplies rotation, shear, aspect, shift, grid, the upper end of blur, and noise.
 * @param seed, stream the image is a function of (glyph, hard, seed, stream).
 */
void shoali_distort(const shoali_glyph *glyph, double hard, uint64_t seed, uint64_t stream,
                    uint8_t image_out[SHOALI_DIGIT_SIDE * SHOALI_DIGIT_SIDE]);

#endif
