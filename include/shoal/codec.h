/* SPDX-License-Identifier: Apache-2.0 */
/* Codecs: floats to the bytes of one chunk and back. Pure functions without hidden state. */
#ifndef SHOAL_CODEC_H
#define SHOAL_CODEC_H

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_codec shoal_codec;

/** Traits of a codec row. */
enum {
    SHOAL_CODEC_LOSSLESS = 1u << 0,   /* decode(encode(x)) == x, bit for bit */
    SHOAL_CODEC_FIXED_RATE = 1u << 1, /* bound() is the exact size */
    SHOAL_CODEC_PER_TENSOR = 1u << 2, /* a piece never spans two tensors */
    SHOAL_CODEC_UNBIASED = 1u << 3,   /* E[decoded] = source */
    SHOAL_CODEC_SUMMABLE = 1u << 4,   /* has an integer add of coded chunks */
    SHOAL_CODEC_RAW_BYTES = 1u << 5,  /* coded bytes are the floats themselves: sent and received in place */
    SHOAL_CODEC_SLOTS = 1u << 6,      /* sums are not codable: only collectives with slots carry it (gather) */
    SHOAL_CODEC_MEASURE = 1u << 7,    /* wants shared values, all-reduced (MAX) once per operation */
    SHOAL_CODEC_TRANSFORM = 1u << 8,  /* a transform: turns one operation into a few dense rounds */
    SHOAL_CODEC_NAN_SAFE = 1u << 9    /* encodes NaN and infinity without loss; others refuse what they would turn into either */
};

/** What is known at both ends about a piece, and so never sent. */
typedef struct shoal_codec_at {
    const shoal_tensor *tensor; /* of the piece's first element */
    size_t first;               /* index of the first element: in the tensor (PER_TENSOR), else in the operation */
    uint32_t parts;             /* members summed in what is coded, >= 1 */
    const float *shared;        /* the tensor's shared measured values, NULL without trait MEASURE */
    uint64_t seed, stream;      /* of random numbers; counter = element index */
} shoal_codec_at;

/** Open a codec from a spec string ("inceptionn:bound=2^-10,strict"). Freed by shoal_codec_close. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_codec_open(const char *spec, shoal_codec **codec_out);
SHOAL_API void shoal_codec_close(shoal_codec *codec);

SHOAL_API const char *shoal_codec_name(const shoal_codec *codec);
/** Canonical spec: name and every key that differs from its default. Lives as long as the codec. */
SHOAL_API const char *shoal_codec_spec(const shoal_codec *codec);
/** Traits of this codec as opened: keys may add some (inceptionn:prescale=auto measures). */
SHOAL_API uint32_t shoal_codec_traits(const shoal_codec *codec);
/** Largest |decoded - source| for |source| < 1, given exact arithmetic; infinity if none is promised. */
SHOAL_API double shoal_codec_error_bound(const shoal_codec *codec);

/** Bytes that always suffice for count elements (exact for FIXED_RATE). */
SHOAL_API size_t shoal_codec_bound(const shoal_codec *codec, size_t count, uint32_t parts);

/**
 * Encode one piece.
 * @param src         float32[count], unchanged.
 * @param dst         byte[capacity], any alignment, must not overlap src; undefined beyond written_out and on failure.
 * @param capacity    bytes, at least shoal_codec_bound.
 * @param written_out bytes used, set only on success.
 * @return SHOAL_OK | EINVAL (capacity below the bound, bad at) | ENOTFINITE (codecs without NAN_SAFE)
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_codec_encode(const shoal_codec *codec, const shoal_codec_at *at,
                                                         const float *src, size_t count, uint8_t *dst,
                                                         size_t capacity, size_t *written_out);

/**
 * Decode one piece of exactly count elements; finds its own end.
 * @param src      hostile bytes: anything malformed is ECORRUPT, never a read beyond len_bytes.
 * @param dst      float32[count]; undefined after ECORRUPT.
 * @param add      add to dst instead of overwriting it.
 * @param read_out bytes consumed.
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_codec_decode(const shoal_codec *codec, const shoal_codec_at *at,
                                                         const uint8_t *src, size_t len_bytes, float *dst,
                                                         size_t count, bool add, size_t *read_out);

/**
 * Values of a tensor that ranks share by MAX before encoding (trait MEASURE): how many floats, and compute them.
 * @param src        float32[tensor->count], the tensor's own elements.
 * @param shared_out float32[shoal_codec_measure_count(codec)].
 */
SHOAL_API size_t shoal_codec_measure_count(const shoal_codec *codec);
SHOAL_API SHOAL_MUST_USE shoal_status shoal_codec_measure(const shoal_codec *codec, const shoal_tensor *tensor,
                                                          const float *src, float *shared_out);

/** Row i of the table, for listings and --help: name, NULL at the end. */
SHOAL_API const char *shoal_codec_row_name(size_t i);

#ifdef __cplusplus
}
#endif
#endif
