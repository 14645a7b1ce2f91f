/* SPDX-License-Identifier: Apache-2.0 */
/* A model and its weights as an ONNX file (opset 17), for runtimes that know nothing of Shoal: what
 * it computes when it is evaluated, for any number of samples at once. A sequence has all of its
 * frames. What a runtime has no operator for is written out (silu, gelu, rms norms, rope);
 * block-circulant matrices are written out whole. */
#ifndef SHOALI_MODEL_EXPORT_ONNX_H
#define SHOALI_MODEL_EXPORT_ONNX_H

#include "model/model.h"

/** What else stands in the file, as metadata: `keys`, NULL at the end, and their values. */
typedef struct shoali_onnx_about {
    const char *const *keys;
    const char *const *values;
} shoali_onnx_about;

/**
 * The file is there whole or not at all.
 * @param params, state as nn lays them out.
 * @return SHOAL_OK | EINVAL (the layer; weights above 2 GiB, the limit of the format) | EIO |
 * ENOMEM
 */
SHOAL_MUST_USE shoal_status shoali_onnx_write(const char *path, const shoal_model *model,
                                              const float *params, const float *state,
                                              const shoali_onnx_about *about);

#endif
