/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHOALI_MODEL_PRECISION_H
#define SHOALI_MODEL_PRECISION_H

#include "model/model_text.h"

/** Operands of all products in bfloat16, or in float32. ENOTSUP: of a layer's they cannot be. */
SHOAL_MUST_USE shoal_status shoali_model_round(const char *name, bool bf16, shoal_arena *arena,
                                               shoali_model_text *text);

#endif
