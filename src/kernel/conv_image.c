/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv_image.h"

#include <string.h>

enum { LANES = SHOALI_CONV_LANES, ROWS = SHOALI_CONV_ROWS };

/* ---------------------------------------------------------------- images */

shoali_conv_image shoali_conv_image_make(unsigned channels, unsigned height, unsigned width,
                                         unsigned padded_height, unsigned padded_width,
                                         unsigned pad, unsigned stride, unsigned spread)
{
    shoali_conv_image image = {.channels = channels,
                               .height = height,
                               .width = width,
                               .pad = pad,
                               .stride = stride,
                               .spread = spread,
                               .rows = (padded_height + stride - 1) / stride,
                               .pitch = (padded_width + stride - 1) / stride};
    image.plane = (size_t)stride * stride * image.rows * image.pitch;
    image.elems = channels * image.plane;
    return image;
}

/* Where value (y, x) of a padded plane lies. */
static size_t place(const shoali_conv_image *im, unsigned y, unsigned x)
{
    size_t remainder = (size_t)(y % im->stride) * im->stride + x % im->stride;
    return (remainder * im->rows + y / im->stride) * im->pitch + x / im->stride;
}

void shoali_conv_image_fill(const shoali_conv_image *im, const float *from, float *to)
{
    for (unsigned c = 0; c < im->channels; c++, to += im->plane)
        for (unsigned y = 0; y < im->height; y++, from += im->width) {
            unsigned row = im->pad + y * im->spread;
            if (im->stride == 1 && im->spread == 1)
                memcpy(to + (size_t)row * im->pitch + im->pad, from, im->width * sizeof *from);
            else
                for (unsigned x = 0; x < im->width; x++)
                    to[place(im, row, im->pad + x * im->spread)] = from[x];
        }
}

void shoali_conv_image_taps(const shoali_conv_image *im, unsigned kernel, int32_t *taps_out)
{
    for (unsigned c = 0; c < im->channels; c++)
        for (unsigned y = 0; y < kernel; y++)
            for (unsigned x = 0; x < kernel; x++)
                *taps_out++ = (int32_t)(c * im->plane + place(im, y, x));
}

size_t shoali_conv_span_count(unsigned height, unsigned width)
{
    return (size_t)height * ((width + LANES - 1) / LANES);
}

void shoali_conv_image_spans(const shoali_conv_image *im, unsigned height, unsigned width,
                             shoali_conv_span *spans_out)
{
    for (unsigned y = 0; y < height; y++)
        for (unsigned x = 0; x < width; x += LANES)
            *spans_out++ = (shoali_conv_span){y * im->pitch + x, y * width + x,
                                              width - x < LANES ? width - x : LANES};
}

void shoali_conv_image_windows(const shoali_conv_image *im, unsigned height, unsigned width,
                               unsigned images, int32_t *windows_out)
{
    for (unsigned n = 0; n < images; n++)
        for (unsigned y = 0; y < height; y++)
            for (unsigned x = 0; x < width; x++)
                *windows_out++ = (int32_t)(n * im->elems + (size_t)y * im->pitch + x);
}

/* ---------------------------------------------------------------- panels */

unsigned shoali_conv_panel_count(unsigned rows)
{
    return (rows + ROWS - 1) / ROWS;
}

unsigned shoali_conv_panel(unsigned rows, unsigned i, unsigned *first_out)
{
    unsigned count = shoali_conv_panel_count(rows), least = rows / count, longer = rows % count;
    *first_out = i * least + (i < longer ? i : longer);
    return least + (i < longer);
}

void shoali_conv_pack_forward(const float *w, unsigned out, unsigned in, unsigned taps,
                              float *panels_out)
{
    size_t columns = (size_t)in * taps;
    for (unsigned i = 0; i < shoali_conv_panel_count(out); i++) {
        unsigned first, rows = shoali_conv_panel(out, i, &first);
        for (size_t t = 0; t < columns; t++)
            for (unsigned r = 0; r < rows; r++)
                *panels_out++ = w[(first + r) * columns + t];
    }
}

void shoali_conv_pack_backward(const float *w, unsigned out, unsigned in, unsigned taps,
                               float *panels_out)
{
    for (unsigned i = 0; i < shoali_conv_panel_count(in); i++) {
        unsigned first, rows = shoali_conv_panel(in, i, &first);
        for (unsigned o = 0; o < out; o++)
            for (unsigned t = taps; t-- > 0;)
                for (unsigned r = 0; r < rows; r++)
                    *panels_out++ = w[((size_t)o * in + first + r) * taps + t];
    }
}
