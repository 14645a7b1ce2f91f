/* SPDX-License-Identifier: Apache-2.0 */
/* One picture: from the bytes of a PNG or JPEG file, brought to a size and to so many channels. */
#ifndef SHOALI_DATA_PICTURE_H
#define SHOALI_DATA_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

enum { SHOALI_PICTURE_SIDE_MAX = 16384, SHOALI_PICTURE_ELEMS_MAX = 1 << 28 };

typedef struct shoali_picture {
    uint32_t channels, height, width; /* channels: 1 grey, 3 red green blue */
    uint8_t *pixels;                  /* [height][width][channels], of shoali_alloc */
} shoali_picture;

/** Known by its first bytes. Alpha is dropped, a palette resolved, 16 bits become 8. Damage is
 * refused, even where a decoder would make something of it.
 * @param what names the file in errors.
 * @return SHOAL_OK | ECORRUPT (file and reason) | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_picture_decode(const char *what, const uint8_t *bytes,
                                                  size_t len_bytes, shoali_picture *picture_out);
void shoali_picture_free(shoali_picture *picture);

/** Grey by ITU-R 601 (0.299, 0.587, 0.114), or three times the grey. */
SHOAL_MUST_USE shoal_status shoali_picture_recolour(shoali_picture *picture, uint32_t channels);

/** To height x width: stretched, or (crop) so that it covers them, of which the middle is kept. A
 * triangle as wide as the reduction: bilinear without aliasing. */
SHOAL_MUST_USE shoal_status shoali_picture_resize(shoali_picture *picture, uint32_t height,
                                                  uint32_t width, bool crop);

#endif
