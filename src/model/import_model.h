/* SPDX-License-Identifier: Apache-2.0 */
/* Models in files of other tools: hostile input, as all of import.h. */
#ifndef SHOALI_MODEL_IMPORT_MODEL_H
#define SHOALI_MODEL_IMPORT_MODEL_H

#include "model/model_text.h"

struct json_t;

/** Whether a JSON file is Hugging Face's config.json, and that file as a model (import_hf.c). */
bool shoali_is_hf_config(const struct json_t *root);
SHOAL_MUST_USE shoal_status shoali_import_hf_config(const struct json_t *root, shoal_arena *arena,
                                                    shoali_model_text *text_out);
/** An ONNX file as a model: shapes and layers, no weights (import_onnx.c). */
SHOAL_MUST_USE shoal_status shoali_import_onnx(const char *what, const uint8_t *bytes,
                                               size_t len_bytes, shoal_arena *arena,
                                               shoali_model_text *text_out);
SHOAL_MUST_USE shoal_status shoali_import_onnx_file(const char *path, shoal_arena *arena,
                                                    shoali_model_text *text_out);
/** An ONNX file's weights for the model that it is (import_onnx_weights.c), all or none. params,
 * state: as nn lays them out.
 * @return SHOAL_OK | EINVAL (another model; a node that would compute something else here; a weight
 * of another type or shape: its name) | as shoali_import_onnx_file */
SHOAL_MUST_USE shoal_status shoali_onnx_read_weights(const char *path, const shoal_model *model,
                                                     float *params, float *state);
/** The same of bytes. what: for errors. */
SHOAL_MUST_USE shoal_status shoali_onnx_parse_weights(const char *what, const uint8_t *bytes,
                                                      size_t len_bytes, const shoal_model *model,
                                                      float *params, float *state);

#endif
