/* SPDX-License-Identifier: Apache-2.0 */
/* The codec table. A codec is one file with one row plus one line in codecs.def; core code reads
 * traits and calls through these functions, never asks for a name. docs/add-codec.md shows how.
 * Contract: include/shoal/codec.h. */
#ifndef SHOALI_CODEC_CODEC_H
#define SHOALI_CODEC_CODEC_H

#include "base/spec.h"
#include "shoal/codec.h"

/** A round that a transform asks for: sum buf[count] over the members, as float32 or, where the
 * collective codes at all (no trait FLOW), in `codec`. With slots the sum is made in member order
 * at every member (gather), whatever the operation's collective. `members` is what it is told: how
 * many the sum is over. */
typedef struct shoal_round {
    float *buf;
    size_t count;
    const char *codec; /* spec, for as long as the library lives; NULL: identity */
    bool slots, last;
    uint32_t members;
} shoal_round;

/** A coded piece in which `parts` members are summed. */
typedef struct shoali_coded {
    const uint8_t *bytes; /* hostile */
    size_t len_bytes;
    uint32_t parts;
} shoali_coded;

enum { SHOALI_STEPS_VIEW = 2 };

/** Of a transform in whose state steps are counted, from which follows what a round is: all members
 * have to count the same, also where one has taken a step that failed at another, or comes without
 * any. So they agree before their first operation, and again with other members or after a failure;
 * the largest count holds. */
typedef struct shoali_codec_steps {
    /** [0] how many steps, [1] a mark of what equal members have alike beside that; both integers
     * below 2^24. In no time: a few of the elements tell whether members are alike. */
    void (*look)(const void *params, void *state, const shoal_tensor *tensors,
                 uint32_t tensor_count, float view_out[SHOALI_STEPS_VIEW]);
    /** Go on with this count. anew: what members have alike is not, so it begins as zero. */
    void (*go_on)(const void *params, void *state, const shoal_tensor *tensors,
                  uint32_t tensor_count, uint64_t steps, bool anew);
    /** An operation has failed on its way: what it owed is nobody's. */
    void (*failed)(const void *params, void *state, const shoal_tensor *tensors,
                   uint32_t tensor_count);
} shoali_codec_steps;

typedef struct shoali_codec_row {
    const char *name;
    const char *paper;     /* source, and where we differ */
    uint32_t traits;       /* SHOAL_CODEC_* that hold for every params */
    float bytes_per_elem;  /* at the defaults; exact if FIXED_RATE, else typical */
    uint32_t shared_count; /* floats per tensor that measure() writes; 0 without it */
    shoali_schema schema;

    /** Id of the byte layout on the wire; two layouts of one row have two. Unique in the table. */
    uint16_t (*wire_id)(const void *params);
    /** Largest error per element for |x| < 1; NULL: 0 if LOSSLESS, else none promised. */
    double (*error_bound)(const void *params);
    /** Relative squared error of one member's values, E|decoded - x|^2 / |x|^2, of 65,536 Gaussian
     * elements in one tensor, at any scale; with SHAPE_FREE of any others, too. The conformance
     * suite measures no more than 12 % above it (SHAPE_FREE: 3 %), and no less than half. NULL: 0
     * if LOSSLESS, else none stated (absolute bounds have none: it depends on the scale). */
    double (*variance)(const void *params);
    /** Typical bytes per element of sums of `parts` members where keys change it and the rate is
     * not fixed; NULL: bytes_per_elem. With FIXED_RATE `bound` says it. */
    double (*rate)(const void *params, uint32_t parts);
    /** Traits on top that depend on params; NULL: none. */
    uint32_t (*more_traits)(const void *params);
    /** Tensors that travel as float32 with these params, beyond those marked RAW; NULL: none. */
    bool (*exempt)(const void *params, const shoal_tensor *tensor);
    /** Cross-key checks after parsing, may normalise; NULL: none. Sets the last error. */
    shoal_status (*check)(void *params);

    /* As in shoal/codec.h; the caller has checked `at` and that capacity is at least the bound. */
    size_t (*bound)(const void *params, size_t count, uint32_t parts);
    shoal_status (*encode)(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out);
    shoal_status (*decode)(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out);
    shoal_status (*measure)(const void *params, const shoal_tensor *tensor, const float *src,
                            float *shared_out);
    /** SUMMABLE: the code of the sum of two coded pieces of the same elements, as an aggregator
     * makes it; at->parts = a->parts + b->parts, capacity is the bound at these parts. Both are
     * consumed exactly, else ECORRUPT. dst overlaps neither. */
    shoal_status (*add)(const void *params, const shoal_codec_at *at, const shoali_coded *a,
                        const shoali_coded *b, size_t count, uint8_t *dst, size_t capacity,
                        size_t *written_out);

    /* A transform (trait TRANSFORM) has these instead; it runs on the work thread. next_round is
     * called with index 0, 1, ... and round_out->members; it names a buffer to be summed over the
     * members, and before the next call that buffer holds the sum. After the round with `last` it
     * is not called again: grad is complete then, at once if that round has count 0. State begins
     * zeroed and lives as long as the tensor table is used: residuals stay in it between
     * operations. */
    size_t (*state_size)(const void *params, const shoal_tensor *tensors, uint32_t tensor_count);
    shoal_status (*next_round)(const void *params, void *state, const shoal_tensor *tensors,
                               uint32_t tensor_count, uint32_t index, float *grad,
                               shoal_round *round_out);
    const shoali_codec_steps *steps; /* NULL: its state counts none */
} shoali_codec_row;

/** An opened codec: a row, its parsed params and what follows from them. */
struct shoal_codec {
    const shoali_codec_row *row;
    void *params;
    uint32_t traits;     /* row->traits and more_traits(params); core code reads this one */
    bool error_feedback; /* the key "ef": the engine keeps a residual per element and rank */
    float decay;         /* the key "decay": the part of it that is added before an encode */
    char spec[160];      /* canonical */
    uint64_t hash;       /* of spec and wire id, for READY */
};

/* clang-format off */
/** The key that every codec with losses lists in its schema; `type`, its params, has `bool ef`. */
#define SHOALI_CODEC_KEY_EF(type, fallback)                                     \
    {"ef", SHOALI_KEY_FLAG, offsetof(type, ef), 0, 0, NULL, (fallback),         \
     "error feedback: keep what an encode loses, add it to the next gradient"}
/* clang-format on */

size_t shoali_codec_count(void);
const shoali_codec_row *shoali_codec_row_at(size_t i);
/** shoal_codec_open for a row that need not stand in the table; the name in spec is ignored. */
SHOAL_MUST_USE shoal_status shoali_codec_open_row(const shoali_codec_row *row, const char *spec,
                                                  shoal_codec **codec_out);

/** Row `add`, checked: EINVAL without SUMMABLE or with too little capacity. */
SHOAL_MUST_USE shoal_status shoali_codec_add(const shoal_codec *codec, const shoal_codec_at *at,
                                             const shoali_coded *a, const shoali_coded *b,
                                             size_t count, uint8_t *dst, size_t capacity,
                                             size_t *written_out);

/** float32 as it lies in memory: the row `identity`, and RAW tensors whatever the codec. */
extern const shoali_codec_row shoali_codec_identity;

/** Trait MEASURE_ALL: give every tensor the largest of all tensors' values. */
void shoali_codec_measured_all(const shoal_codec *codec, uint32_t tensor_count, float *values);

/** Trait MEASURE_RMS: what a member puts into the sum for each of its values, 0 for one that is no
 * number or below 0, and what the sum of all means for `contributors` of them. Values count between
 * 2^-70 (or 0) and 2^56: beyond, float32 cannot hold their squares. */
void shoali_codec_measured_squares(float *values, size_t count);
void shoali_codec_measured_roots(float *sums, size_t count, uint32_t contributors);

/** A run of elements of an operation (a chunk, or less), coded as whole pieces one after the other:
 * PER_TENSOR codecs make one piece per tensor, others one per run of tensors with equal RAW flag;
 * RAW and exempt tensors travel as float32. Decoding finds each piece's end. */
typedef struct shoali_codec_span {
    const shoal_tensor *tensors; /* the operation's table */
    uint32_t tensor_count;
    const float *shared;   /* shared_count floats per tensor; NULL without trait MEASURE */
    size_t first, count;   /* elements of the operation */
    uint32_t parts;        /* members summed in what is coded */
    uint64_t seed, stream; /* of the operation's leg; PER_TENSOR pieces mix in their tensor's key */
} shoali_codec_span;

/** Whether a tensor travels as float32: marked RAW, or exempt for this codec. */
bool shoali_codec_keeps(const shoal_codec *codec, const shoal_tensor *tensor);

/** Bytes that always suffice; 0 if the span lies outside the table (then encode says so). */
SHOAL_MUST_USE size_t shoali_codec_span_bound(const shoal_codec *codec,
                                              const shoali_codec_span *span);
SHOAL_MUST_USE shoal_status shoali_codec_span_encode(const shoal_codec *codec,
                                                     const shoali_codec_span *span,
                                                     const float *src, uint8_t *dst,
                                                     size_t capacity, size_t *written_out);
/** len_bytes must be consumed exactly, else ECORRUPT. */
SHOAL_MUST_USE shoal_status shoali_codec_span_decode(const shoal_codec *codec,
                                                     const shoali_codec_span *span,
                                                     const uint8_t *src, size_t len_bytes,
                                                     float *dst, bool add);

#endif
