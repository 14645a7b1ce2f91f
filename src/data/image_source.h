/* SPDX-License-Identifier: Apache-2.0 */
/* Labelled images of somebody's own: a folder with a folder of PNG and JPEG files per class (or
 * train/ and test/ with such folders), arrays of NumPy, a CSV table. */
#ifndef SHOALI_DATA_IMAGE_SOURCE_H
#define SHOALI_DATA_IMAGE_SOURCE_H

#include "base/arena.h"
#include "data/picture.h"
#include "shoal/data.h"

enum { SHOALI_IMAGE_ANY, SHOALI_IMAGE_TRAIN, SHOALI_IMAGE_TEST };

typedef struct shoali_image {
    const char *path;      /* of its file; NULL: an array's */
    const uint8_t *pixels; /* of an array */
    uint16_t label;
    uint8_t split; /* SHOALI_IMAGE_* */
} shoali_image;

typedef struct shoali_image_source {
    shoal_arena *arena; /* owns what is below */
    shoali_image *images;
    uint32_t count, room;
    const char **classes; /* names, [class_count] */
    uint32_t class_count;
    bool divided;                     /* it says itself which images are for tests */
    bool planes;                      /* of arrays: [channels][height][width] */
    uint32_t channels, height, width; /* of arrays */
} shoali_image_source;

/** @return SHOAL_OK | EINVAL (nothing there, or what it lacks) | EIO | ECORRUPT (file and reason) |
 * ENOMEM. To be closed in either case. */
SHOAL_MUST_USE shoal_status shoali_image_source_open(const shoal_images_desc *desc,
                                                     shoali_image_source *source_out);
void shoali_image_source_close(shoali_image_source *source);
/** Image i, as it is. */
SHOAL_MUST_USE shoal_status shoali_image_source_read(const shoali_image_source *source, uint32_t i,
                                                     shoali_picture *picture_out);
/** What errors call image i. */
void shoali_image_source_name(const shoali_image_source *source, uint32_t i, char *out,
                              size_t out_bytes);

#endif
