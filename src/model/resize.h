/* SPDX-License-Identifier: Apache-2.0 */
/* A model of images for images of another side, and for another number of classes. */
#ifndef SHOALI_MODEL_RESIZE_H
#define SHOALI_MODEL_RESIZE_H

#include "model/model_text.h"

/** For square images of this side; means over the whole image stay so. EINVAL: it reads none. */
SHOAL_MUST_USE shoal_status shoali_model_side(const char *name, int64_t side, shoal_arena *arena,
                                              shoali_model_text *text);

/** So many outputs of the dense layer at its end. EINVAL: something else stands there. */
SHOAL_MUST_USE shoal_status shoali_model_classes(const char *name, int64_t classes,
                                                 shoal_arena *arena, shoali_model_text *text);

#endif
