/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHOALI_DATA_SHAPES_H
#define SHOALI_DATA_SHAPES_H

#include <stdint.h>

enum {
    SHOALI_SHAPE_SIDE = 32,
    SHOALI_SHAPE_BYTES = 3 * SHOALI_SHAPE_SIDE * SHOALI_SHAPE_SIDE,
    SHOALI_SHAPE_CLASSES = 10
};

/**
 * Draw one colour image, three planes of 32 x 32 as in CIFAR's files: a shape or texture of its
 * class over a cloudy background, with part of another class's over it, and noise. Hue leans
 * towards the class's own and is a hint only. Size, contrast and phase always vary.
 * @param kind   0 .. 9: disc, ring, square, triangle, cross, star, stripes, checks, dots, circles.
 * @param hard   multiplies rotation, shift, wobble, spread of hue, clouds, the distractor's
 *               strength, and noise; divides contrast.
 * @param seed, stream the image is a function of (kind, hard, seed, stream).
 */
void shoali_shape_draw(uint32_t kind, double hard, uint64_t seed, uint64_t stream,
                       uint8_t image_out[SHOALI_SHAPE_BYTES]);

#endif
