/* SPDX-License-Identifier: Apache-2.0 */
/* What the suites over all codecs share: the codecs, data of several distributions, and round trips
 * through buffers of exactly the right size, so that the address sanitizer sees every byte too
 * far. */
#ifndef SHOALI_TESTS_SUPPORT_CODEC_CASE_H
#define SHOALI_TESTS_SUPPORT_CODEC_CASE_H

#include "codec/codec.h"

typedef void codec_check(const shoal_codec *codec);

/** Every row of the table and the example of docs/add-codec.md, at its defaults and at each value
 * of each key; transforms code nothing by themselves and are left out. */
void each_codec(codec_check *check);
/** Each of them at its defaults only. */
void each_default_codec(codec_check *check);

enum { CODEC_DATA_MOST = 200003 };
/** Up to WIDE below 1 in magnitude, so that error bounds hold; WIDE also goes beyond. The shapes
 * after it are for what is promised of any or of Gaussian values. */
typedef enum codec_data {
    DENSE,
    SMALL,
    SPARSE,
    SKEWED,
    ZERO,
    WIDE,
    GAUSS,
    LAPLACE,
    STUDENT3,
    ROWS, /* of 256 elements, of very different scale */
    CONSTANT,
    DENORMAL,
    HUGE_VALUES, /* up to 1e38 */
    CODEC_DATA_KINDS
} codec_data;
const char *codec_data_name(codec_data kind);
/** Element i, the same in every call of a run (check_seed). */
float codec_data_at(codec_data kind, size_t i);
/** CODEC_DATA_MOST elements, made at the first call. */
const float *codec_data_of(codec_data kind);

/** Where a piece stands: some tensor, with the shared values that its own data give. */
typedef struct codec_place {
    shoal_tensor tensor;
    float shared[16];
    shoal_codec_at at;
} codec_place;
void codec_place_init(codec_place *p, const shoal_codec *codec, const float *src, size_t count);

/** Memory of exactly this size, never NULL; free. */
void *exactly(size_t bytes);

typedef struct coded {
    uint8_t *bytes;
    size_t length;
} coded;
/** Encode and check the length; the caller frees bytes. */
coded codec_encode(const shoal_codec *codec, const codec_place *p, const float *src, size_t count);
/** float32[count], all of c consumed; the caller frees it. */
float *codec_decode(const shoal_codec *codec, const codec_place *p, coded c, size_t count);

#endif
