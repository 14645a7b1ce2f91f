/* SPDX-License-Identifier: Apache-2.0 */
/* The executors, in the order of the layer table. */
#include "nn/exec.h"

#define SHOAL_LAYER_DESCRIBED(name) /* nothing executes these; they stand behind the others */
#define SHOAL_LAYER(name) extern const shoali_exec shoali_exec_##name;
#include "model/layers.def"
#undef SHOAL_LAYER

static const shoali_exec *const execs[] = {
#define SHOAL_LAYER(name) &shoali_exec_##name,
#include "model/layers.def"
#undef SHOAL_LAYER
#undef SHOAL_LAYER_DESCRIBED
};

const shoali_exec *shoali_exec_of(const shoali_layer_row *row)
{
    size_t i = 0;
    while (shoali_layer_row_at(i) != row)
        i++;
    return execs[i];
}
