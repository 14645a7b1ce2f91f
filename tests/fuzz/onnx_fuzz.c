/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX files: a model within its bounds, or refused with a reason. */
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "model/import_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    shoali_model_text text;
    shoal_model *model = NULL;
    shoal_arena *arena = shoali_arena_create(1024);
    shoal_status status = shoali_import_onnx("fuzz.onnx", bytes, len_bytes, arena, &text);
    if (status == SHOAL_OK)
        status = shoali_model_build("fuzz", &text, false, &model);
    if (status != SHOAL_OK && (model != NULL || shoal_last_error()->status != status))
        abort();
    if (model != NULL && model->param_count > SHOALI_DESCRIBED_ELEMS_MAX)
        abort();
    shoal_model_close(model);
    shoali_arena_destroy(arena);
    return 0;
}
