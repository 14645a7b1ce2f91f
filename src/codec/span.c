/* SPDX-License-Identifier: Apache-2.0 */
/* A chunk of an operation as codec pieces. Where pieces begin and end follows from the tensor table
 * and the codec's traits alone, so both ends agree without sending it:
 *
 *     tensors           |--- A ---|-- B --|--- C (RAW) ---|-- D --|
 *     chunk                  [============================)
 *     PER_TENSOR        piece A', piece B, floats of C, (D is another chunk's)
 *     otherwise         piece A'B,          floats of C
 */
#include "base/error.h"
#include "base/rng.h"
#include "codec/codec.h"

typedef struct piece {
    const shoali_codec_row *row;
    const void *params;
    shoal_codec_at at;
    size_t offset, count; /* elements of the span */
} piece;

/* Position of a walk over the pieces of a span. */
typedef struct walk {
    const shoal_codec *codec;
    const shoali_codec_span *span;
    size_t tensor, offset; /* the next element and the tensor that holds it */
} walk;

bool shoali_codec_keeps(const shoal_codec *codec, const shoal_tensor *tensor)
{
    return (tensor->flags & SHOAL_TENSOR_RAW) != 0 ||
           (codec->row->exempt != NULL && codec->row->exempt(codec->params, tensor));
}

static size_t tensor_end(const shoal_tensor *tensor)
{
    return tensor->offset + tensor->count;
}

/* Index of the tensor that holds an element: the first that ends behind it. */
static size_t tensor_of(const shoali_codec_span *span, size_t element)
{
    size_t low = 0, high = span->tensor_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (tensor_end(&span->tensors[middle]) <= element)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static shoal_status walk_begin(const shoal_codec *codec, const shoali_codec_span *span,
                               walk *walk_out)
{
    size_t end = span->tensor_count > 0 ? tensor_end(&span->tensors[span->tensor_count - 1]) : 0;
    if (span->first > end || span->count > end - span->first)
        return shoali_fail(SHOAL_EINVAL,
                           "elements %zu to %zu lie outside the tensor table of %zu elements",
                           span->first, span->first + span->count, end);
    *walk_out = (walk){codec, span, tensor_of(span, span->first), 0};
    return SHOAL_OK;
}

/* Last tensor of the piece that begins in tensor `from` and may reach up to element `end` of the
 * operation. */
static size_t last_of_run(const walk *w, size_t from, size_t end)
{
    const shoal_tensor *tensors = w->span->tensors;
    size_t last = from;
    if ((w->codec->traits & SHOAL_CODEC_PER_TENSOR) != 0)
        return last;
    const bool raw = shoali_codec_keeps(w->codec, &tensors[from]);
    while (tensor_end(&tensors[last]) < end &&
           shoali_codec_keeps(w->codec, &tensors[last + 1]) == raw)
        last++;
    return last;
}

static piece describe(const walk *w, const shoal_tensor *tensor, size_t count)
{
    const shoali_codec_span *span = w->span;
    const shoal_codec *codec = w->codec;
    bool raw = shoali_codec_keeps(codec, tensor),
         per_tensor = (codec->traits & SHOAL_CODEC_PER_TENSOR) != 0;
    size_t first = span->first + w->offset;
    piece p = {.row = raw ? &shoali_codec_identity : codec->row,
               .params = raw ? NULL : codec->params};
    p.offset = w->offset;
    p.count = count;
    p.at.tensor = tensor;
    p.at.first = per_tensor ? first - tensor->offset : first;
    p.at.parts = span->parts;
    if (span->shared != NULL)
        p.at.shared = span->shared + w->tensor * codec->row->shared_count;
    p.at.seed = span->seed;
    /* Without PER_TENSOR the counter runs over the operation, and where a chunk begins must not
     * change a stream. */
    p.at.stream = per_tensor ? shoali_mix(span->stream, tensor->key) : span->stream;
    return p;
}

/* False at the end of the span. */
static bool walk_next(walk *w, piece *piece_out)
{
    const shoali_codec_span *span = w->span;
    if (w->offset == span->count)
        return false;
    size_t first = span->first + w->offset, end = span->first + span->count;
    while (tensor_end(&span->tensors[w->tensor]) <= first)
        w->tensor++;
    size_t last = last_of_run(w, w->tensor, end), run_end = tensor_end(&span->tensors[last]);
    size_t count = (run_end < end ? run_end : end) - first;
    *piece_out = describe(w, &span->tensors[w->tensor], count);
    w->offset += count;
    w->tensor = last;
    return true;
}

size_t shoali_codec_span_bound(const shoal_codec *codec, const shoali_codec_span *span)
{
    walk w;
    piece p;
    size_t bytes = 0;
    if (walk_begin(codec, span, &w) != SHOAL_OK)
        return 0;
    while (walk_next(&w, &p))
        bytes += p.row->bound(p.params, p.count, span->parts);
    return bytes;
}

shoal_status shoali_codec_span_encode(const shoal_codec *codec, const shoali_codec_span *span,
                                      const float *src, uint8_t *dst, size_t capacity,
                                      size_t *written_out)
{
    walk w;
    piece p;
    size_t used = 0;
    SHOALI_TRY(walk_begin(codec, span, &w));
    while (walk_next(&w, &p)) {
        size_t written, bound = p.row->bound(p.params, p.count, span->parts);
        if (capacity - used < bound)
            return shoali_fail(SHOAL_EINVAL, "codec %s: %zu bytes are too few for %zu elements",
                               codec->spec, capacity, span->count);
        SHOALI_TRY(p.row->encode(p.params, &p.at, src + p.offset, p.count, dst + used,
                                 capacity - used, &written));
        used += written;
    }
    *written_out = used;
    return SHOAL_OK;
}

shoal_status shoali_codec_span_decode(const shoal_codec *codec, const shoali_codec_span *span,
                                      const uint8_t *src, size_t len_bytes, float *dst, bool add)
{
    walk w;
    piece p;
    size_t used = 0;
    SHOALI_TRY(walk_begin(codec, span, &w));
    while (walk_next(&w, &p)) {
        size_t consumed;
        SHOALI_TRY(p.row->decode(p.params, &p.at, src + used, len_bytes - used, dst + p.offset,
                                 p.count, add, &consumed));
        used += consumed;
    }
    if (used != len_bytes)
        return shoali_fail(SHOAL_ECORRUPT, "codec %s: %zu elements ended after %zu of %zu bytes",
                           codec->spec, span->count, used, len_bytes);
    return SHOAL_OK;
}
