/* SPDX-License-Identifier: Apache-2.0 */
/* --augment: what becomes of images in training, drawn by (seed, number of the sample in the run).
 */
#ifndef SHOALI_DATA_AUGMENT_H
#define SHOALI_DATA_AUGMENT_H

#include "data/loader.h"

/** @param spec "crop=4,flip": adds to *crop what it asks for.
 *  @return SHOAL_OK | EINVAL (key and range named) */
SHOAL_MUST_USE shoal_status shoali_augment_parse(const char *spec, shoali_crop *crop);

#endif
