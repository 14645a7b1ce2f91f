/* SPDX-License-Identifier: Apache-2.0 */
/* Codecs: floats to the bytes of one chunk and back. Pure functions without hidden state: the same
 * codec and the same `at` give the same bytes, on every machine.
 *
 * A codec is named by a spec string, the same in C, on the command line and in Python:
 *
 *     identity                        float32 as it is
 *     fp16, bf16                      16-bit floats, rounded to nearest even
 *     inceptionn:bound=2^-8,faithful  truncation to 0, 8, 16 or 32 bits by magnitude
 *
 * Most users name a codec in an operation (shoal_op_desc) and never call these functions.
 *
 * Threads: an opened codec never changes, so any number of threads may use it. */
#ifndef SHOAL_CODEC_H
#define SHOAL_CODEC_H

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_codec shoal_codec;

/** What a codec promises or asks for; the rest of Shoal reads these, never a name. */
enum {
    /** decode(encode(x)) == x, bit for bit. */
    SHOAL_CODEC_LOSSLESS = 1u << 0,
    /** shoal_codec_bound is the exact size. */
    SHOAL_CODEC_FIXED_RATE = 1u << 1,
    /** A piece never spans two tensors. */
    SHOAL_CODEC_PER_TENSOR = 1u << 2,
    /** E[decoded] = source. */
    SHOAL_CODEC_UNBIASED = 1u << 3,
    /** Sums are exact in coded form: each contribution loses once, when it is first coded (parts =
     * 1); sums of `parts` such values encode without any further loss, so every collective gives
     * the same result, and error feedback is due once. */
    SHOAL_CODEC_SUMMABLE = 1u << 4,
    /** Coded bytes are the floats themselves: sent and received in place. */
    SHOAL_CODEC_RAW_BYTES = 1u << 5,
    /** Sums are not codable: only collectives with slots carry it (gather). */
    SHOAL_CODEC_SLOTS = 1u << 6,
    /** Wants shared values (shoal_codec_measure), all-reduced once per operation, by MAX unless
     * MEASURE_RMS says otherwise. */
    SHOAL_CODEC_MEASURE = 1u << 7,
    /** A transform: turns one operation into a few dense rounds instead of coding pieces. */
    SHOAL_CODEC_TRANSFORM = 1u << 8,
    /** Carries NaN and infinity; without it encode refuses what has no finite code (ENOTFINITE). */
    SHOAL_CODEC_NAN_SAFE = 1u << 9,
    /** shoal_codec_variance holds whatever the distribution, not for Gaussian values only. */
    SHOAL_CODEC_SHAPE_FREE = 1u << 10,
    /** With MEASURE: values stay this rank's own; coded bytes carry what a decoder needs. */
    SHOAL_CODEC_MEASURE_OWN = 1u << 11,
    /** With MEASURE: all tensors of an operation share one set of values, the largest. */
    SHOAL_CODEC_MEASURE_ALL = 1u << 12,
    /** With MEASURE: the shared value is the root of the mean of the ranks' squares, not their
     * largest. */
    SHOAL_CODEC_MEASURE_RMS = 1u << 13,
    /** With TRANSFORM: what comes back is no sum but the step to take, of one size everywhere,
     * times the number of members; also of a single member. */
    SHOAL_CODEC_STEPS = 1u << 14,
    /** With TRANSFORM: what it codes goes from each member to all others (gather), whatever the
     * operation's collective. */
    SHOAL_CODEC_GATHERS = 1u << 15,
    /** With TRANSFORM: in some steps nothing travels, and what comes back is the member's own
     * gradient times the number of members; in others it is the sum of what the optimiser is to
     * have for a momentum. Only an optimiser that knows when (adam:local) makes steps of it. */
    SHOAL_CODEC_LOCAL = 1u << 16
};

/** What is known at both ends about a piece, and so never sent. */
typedef struct shoal_codec_at {
    const shoal_tensor *tensor; /* of the piece's first element; NULL outside an operation */
    size_t first;               /* the first element's index: in the tensor if PER_TENSOR, else in
                                   the operation */
    uint32_t parts;             /* members summed in what is coded, >= 1 */
    const float *shared;        /* the tensor's shared values, NULL without trait MEASURE */
    uint64_t seed, stream;      /* of random numbers; their counter is the element's index */
} shoal_codec_at;

/**
 * Open a codec.
 * @param spec      see the head of this file; an unknown name or key is answered with the known.
 * @param codec_out owned by the caller; shoal_codec_close.
 * @return SHOAL_OK | EINVAL | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_codec_open(const char *spec, shoal_codec **codec_out);

/** Free a codec and every string got from it. NULL is allowed. */
SHOAL_API void shoal_codec_close(shoal_codec *codec);

/** Name of the row: "inceptionn". */
SHOAL_API const char *shoal_codec_name(const shoal_codec *codec);

/** Canonical spec: the name and every key that differs from its default. */
SHOAL_API const char *shoal_codec_spec(const shoal_codec *codec);

/** SHOAL_CODEC_* of this codec as opened: keys may add some (inceptionn:prescale=auto measures). */
SHOAL_API uint32_t shoal_codec_traits(const shoal_codec *codec);

/** Largest |decoded - source| that is promised where |source| < 1; infinity if none is. */
SHOAL_API double shoal_codec_error_bound(const shoal_codec *codec);

/** Promised relative squared error E|decoded - x|^2 / |x|^2 of one rank's Gaussian values (with
 * SHAPE_FREE of any values); infinity if none is promised. */
SHOAL_API double shoal_codec_variance(const shoal_codec *codec);

/** Bytes per element of sums of `parts` members: exact with FIXED_RATE, but for the ends of pieces,
 * else typical. */
SHOAL_API double shoal_codec_bytes_per_elem(const shoal_codec *codec, uint32_t parts);

/** Bytes that always suffice for count elements in which `parts` members are summed; 0 of a
 * transform, which codes no pieces. */
SHOAL_API size_t shoal_codec_bound(const shoal_codec *codec, size_t count, uint32_t parts);

/**
 * Encode one piece.
 * @param src         float32[count], unchanged.
 * @param dst         byte[capacity], any alignment, must not overlap src; undefined behind
 *                    written_out, and as a whole after a failure.
 * @param capacity    at least shoal_codec_bound(codec, count, at->parts).
 * @param written_out bytes used, set only on success.
 * @return SHOAL_OK | EINVAL (capacity, at) | ENOTFINITE (without NAN_SAFE)
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_codec_encode(const shoal_codec *codec,
                                                         const shoal_codec_at *at, const float *src,
                                                         size_t count, uint8_t *dst,
                                                         size_t capacity, size_t *written_out);

/**
 * Decode one piece of exactly count elements; finds its own end.
 * @param src      hostile bytes, any alignment; never read beyond len_bytes.
 * @param dst      float32[count]; undefined after a failure.
 * @param add      add to dst instead of overwriting it.
 * @param read_out bytes consumed, set only on success.
 * @return SHOAL_OK | EINVAL (at) | ECORRUPT
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_codec_decode(const shoal_codec *codec,
                                                         const shoal_codec_at *at,
                                                         const uint8_t *src, size_t len_bytes,
                                                         float *dst, size_t count, bool add,
                                                         size_t *read_out);

/** Floats per tensor that ranks share before the first encode; 0 without trait MEASURE. */
SHOAL_API size_t shoal_codec_measure_count(const shoal_codec *codec);

/**
 * Compute this rank's values of one tensor; the maximum over all ranks (MEASURE_RMS: the root mean
 * square) becomes at->shared.
 * @param src        float32[tensor->count], the tensor's own elements.
 * @param shared_out float32[shoal_codec_measure_count(codec)].
 * @return SHOAL_OK | EINVAL (without trait MEASURE)
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_codec_measure(const shoal_codec *codec,
                                                          const shoal_tensor *tensor,
                                                          const float *src, float *shared_out);

/**
 * Whether an all-reduce by this collective ("ring", "gather", ...) carries this codec.
 * @return SHOAL_OK | EINVAL: says why not, and which go together
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_codec_carried(const char *codec_spec,
                                                          const char *collective_spec);

/** Name of row i of the table, for listings and --help; NULL at the end. */
SHOAL_API const char *shoal_codec_row_name(size_t i);

#ifdef __cplusplus
}
#endif
#endif
