/* SPDX-License-Identifier: Apache-2.0 */
/* The safetensors file format (Hugging Face): u64 length of the header, JSON header, raw
 * little-endian data. Written whole or not at all (temporary file, fsync, rename); files read are
 * hostile. */
#ifndef SHOALI_FILES_SAFETENSORS_H
#define SHOALI_FILES_SAFETENSORS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

/** Sizes of a tensor, the outermost first. */
typedef struct shoali_tensor_shape {
    uint32_t dims;
    uint64_t sizes[8];
} shoali_tensor_shape;

/** One tensor to write: float32, or int16 if words is set. rows 0: a vector of count elements, else
 * a matrix rows x (count / rows). */
typedef struct shoali_named_tensor {
    const char *name;
    const float *data;
    size_t count;
    uint32_t rows;
    const int16_t *words;
    shoali_tensor_shape shape; /* dims above 0: this, whose product count is */
} shoali_named_tensor;

/** Make the name of a file that was just renamed last: fsync of its folder. */
SHOAL_MUST_USE shoal_status shoali_sync_folder_of(const char *path);

/** Adds a digest of the whole ("sha256") to the metadata.
 *  @param metadata object of strings, or NULL; borrowed. */
SHOAL_MUST_USE shoal_status shoali_safetensors_write(const char *path,
                                                     const shoali_named_tensor *tensors,
                                                     size_t count, const json_t *metadata);

typedef struct shoali_safetensors shoali_safetensors;

/** Map a file and check it: tensors one behind the other, without holes, and the digest where there
 * is one. ECORRUPT names file and reason. */
SHOAL_MUST_USE shoal_status shoali_safetensors_open(const char *path,
                                                    shoali_safetensors **file_out);
/** The same but for the digest: the header is checked, tensors are not read. */
SHOAL_MUST_USE shoal_status shoali_safetensors_open_unread(const char *path,
                                                           shoali_safetensors **file_out);
void shoali_safetensors_close(shoali_safetensors *file);

/** Copy a float32 tensor of exactly count elements; ECORRUPT: missing, another type or size. */
SHOAL_MUST_USE shoal_status shoali_safetensors_read(const shoali_safetensors *file,
                                                    const char *name, float *out, size_t count);
/** Whether a type is F32, F16 or BF16, and the same as above of any of these. */
bool shoali_safetensors_is_float(const char *dtype);
SHOAL_MUST_USE shoal_status shoali_safetensors_read_float(const shoali_safetensors *file,
                                                          const char *name, float *out,
                                                          size_t count);
/** Name of tensor i in the header's order, and its elements; NULL at the end. */
const char *shoali_safetensors_name(const shoali_safetensors *file, size_t i, size_t *count_out);
/** Type ("F32") and shape of a tensor; NULL: there is none of that name, or of more than eight
 * sizes. Valid until close. */
const char *shoali_safetensors_shape(const shoali_safetensors *file, const char *name,
                                     shoali_tensor_shape *shape_out);
/** A metadata string, NULL if there is none. Valid until close. */
const char *shoali_safetensors_metadata(const shoali_safetensors *file, const char *key);

#endif
