/* SPDX-License-Identifier: Apache-2.0 */
/* A model as an ONNX file, written below the build folder and read back by the format's reader. */
#ifndef SHOALI_TESTS_SUPPORT_ONNX_FILE_H
#define SHOALI_TESTS_SUPPORT_ONNX_FILE_H

#include "model/model.h"
#include "onnx_min.pb-c.h"

/** Weights count up from 1. Fails unless each value is made once, before it is used. Free it with
 * shoal__onnx__model__free_unpacked. */
Shoal__Onnx__Model *onnx_file_of(const shoal_model *model);
/** A model of these layers, "a;b;c". */
shoal_model *onnx_file_model(const char *layers, shoal_shape input);
/** How many nodes are of that operator. */
size_t onnx_file_count(const Shoal__Onnx__Model *file, const char *op);
/** The initializer of that name; NULL. */
Shoal__Onnx__Tensor *onnx_file_tensor(const Shoal__Onnx__Model *file, const char *name);

#endif
