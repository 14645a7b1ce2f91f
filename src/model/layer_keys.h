/* SPDX-License-Identifier: Apache-2.0 */
/* How the layers_*.c write down the keys of a kind: as fields of its parameters. */
#ifndef SHOALI_MODEL_LAYER_KEYS_H
#define SHOALI_MODEL_LAYER_KEYS_H

#include <stddef.h>

#include "base/spec.h"

#define SHOALI_LAYER_INT(type, field, low, high, usual, text)                       \
    {                                                                               \
#field, SHOALI_KEY_INT, offsetof(type, field), low, high, NULL, usual, text \
    }
#define SHOALI_LAYER_FLAG(type, field, usual, text)                             \
    {                                                                           \
#field, SHOALI_KEY_FLAG, offsetof(type, field), 0, 0, NULL, usual, text \
    }
/* A share that training leaves out. */
#define SHOALI_LAYER_DROP(type, field, text)                                      \
    {                                                                             \
#field, SHOALI_KEY_FLOAT, offsetof(type, field), 0, 0.99, NULL, "0", text \
    }

/* What the operands of its products are rounded to: shoali_precision. */
#define SHOALI_LAYER_PRECISION(type)                                                     \
    {                                                                                    \
        "precision", SHOALI_KEY_CHOICE, offsetof(type, precision), 0, 0, "float32|bf16", \
            "float32", "of the operands of products; sums and all else are in float32"   \
    }

#endif
