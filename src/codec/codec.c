/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/codec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/rng.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "coded bytes are little-endian and written as they lie");

#define SHOAL_CODEC(name) extern const shoali_codec_row shoali_codec_##name;
#include "codec/codecs.def"
#undef SHOAL_CODEC

static const shoali_codec_row *const rows[] = {
#define SHOAL_CODEC(name) &shoali_codec_##name,
#include "codec/codecs.def"
#undef SHOAL_CODEC
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

size_t shoali_codec_count(void)
{
    return ROW_COUNT;
}

const shoali_codec_row *shoali_codec_row_at(size_t i)
{
    return i < ROW_COUNT ? rows[i] : NULL;
}

const char *shoal_codec_row_name(size_t i)
{
    return i < ROW_COUNT ? rows[i]->name : NULL;
}

/* ---------------------------------------------------------------- open */

/* A key that core code knows, too; NULL: the row has none. */
static const void *common_key(const shoali_codec_row *row, const void *params, const char *name)
{
    for (size_t i = 0; i < row->schema.count; i++) {
        const shoali_key *key = &row->schema.keys[i];
        if (strcmp(key->name, name) == 0)
            return (const char *)params + key->offset;
    }
    return NULL;
}

static shoal_status read_feedback(shoal_codec *codec)
{
    const bool *ef = common_key(codec->row, codec->params, "ef");
    const double *decay = common_key(codec->row, codec->params, "decay");
    codec->error_feedback = ef != NULL && *ef;
    codec->decay = decay != NULL ? (float)*decay : 1;
    if (codec->decay == 1 || codec->error_feedback)
        return SHOAL_OK;
    return shoali_fail(SHOAL_EINVAL, "codec %s: decay=%g is of error feedback, which is off",
                       codec->row->name, (double)codec->decay);
}

static uint64_t hash_of(const shoal_codec *codec)
{
    uint16_t id = codec->row->wire_id(codec->params);
    return shoali_hash(codec->spec, strlen(codec->spec), shoali_hash(&id, sizeof id, 0));
}

static shoal_status fill(shoal_codec *codec, const char *spec)
{
    const shoali_codec_row *row = codec->row;
    SHOALI_TRY(shoali_spec_parse("codec", spec, &row->schema, codec->params));
    if (row->check != NULL)
        SHOALI_TRY(row->check(codec->params));
    codec->traits = row->traits | (row->more_traits != NULL ? row->more_traits(codec->params) : 0);
    SHOALI_TRY(read_feedback(codec));
    shoali_spec_format(row->name, &row->schema, codec->params, codec->spec, sizeof codec->spec);
    codec->hash = hash_of(codec);
    return SHOAL_OK;
}

shoal_status shoali_codec_open_row(const shoali_codec_row *row, const char *spec,
                                   shoal_codec **codec_out)
{
    shoal_codec *codec = shoali_alloc(sizeof *codec + row->schema.params_size);
    if (codec == NULL)
        return SHOAL_ENOMEM;
    codec->row = row;
    codec->params = codec + 1;
    shoal_status status = fill(codec, spec);
    if (status != SHOAL_OK) {
        shoali_free(codec);
        return status;
    }
    *codec_out = codec;
    return SHOAL_OK;
}

shoal_status shoal_codec_open(const char *spec, shoal_codec **codec_out)
{
    if (spec == NULL || codec_out == NULL)
        return shoali_fail(SHOAL_EINVAL, "shoal_codec_open: spec and codec_out must not be NULL");
    const char *names[ROW_COUNT];
    size_t found;
    for (size_t i = 0; i < ROW_COUNT; i++)
        names[i] = rows[i]->name;
    SHOALI_TRY(shoali_spec_find("codec", spec, names, ROW_COUNT, &found));
    return shoali_codec_open_row(rows[found], spec, codec_out);
}

void shoal_codec_close(shoal_codec *codec)
{
    shoali_free(codec);
}

/* ---------------------------------------------------------------- the contract */

const char *shoal_codec_name(const shoal_codec *codec)
{
    return codec->row->name;
}

const char *shoal_codec_spec(const shoal_codec *codec)
{
    return codec->spec;
}

uint32_t shoal_codec_traits(const shoal_codec *codec)
{
    return codec->traits;
}

double shoal_codec_error_bound(const shoal_codec *codec)
{
    if (codec->row->error_bound != NULL)
        return codec->row->error_bound(codec->params);
    return (codec->traits & SHOAL_CODEC_LOSSLESS) != 0 ? 0 : (double)INFINITY;
}

double shoal_codec_variance(const shoal_codec *codec)
{
    if (codec->row->variance != NULL)
        return codec->row->variance(codec->params);
    return (codec->traits & SHOAL_CODEC_LOSSLESS) != 0 ? 0 : (double)INFINITY;
}

double shoal_codec_bytes_per_elem(const shoal_codec *codec, uint32_t parts)
{
    enum { MANY = 1 << 16 };
    if ((codec->traits & SHOAL_CODEC_FIXED_RATE) != 0)
        return (double)codec->row->bound(codec->params, MANY, parts) / MANY;
    if (codec->row->rate != NULL)
        return codec->row->rate(codec->params, parts);
    return (double)codec->row->bytes_per_elem;
}

size_t shoal_codec_measure_count(const shoal_codec *codec)
{
    return (codec->traits & SHOAL_CODEC_MEASURE) != 0 ? codec->row->shared_count : 0;
}

/* ---------------------------------------------------------------- calls into the row */

size_t shoal_codec_bound(const shoal_codec *codec, size_t count, uint32_t parts)
{
    return codec->row->bound == NULL ? 0 : codec->row->bound(codec->params, count, parts);
}

/* A row gets a usable `at`: never NULL, with shared values if it measures. */
static shoal_status check_at(const shoal_codec *codec, const shoal_codec_at *at)
{
    if (codec->row->encode == NULL)
        return shoali_fail(SHOAL_EINVAL, "codec %s is a transform: it has rounds, not pieces",
                           codec->spec);
    if (at == NULL || at->parts == 0)
        return shoali_fail(SHOAL_EINVAL, "codec %s: at must not be NULL and at->parts at least 1",
                           codec->spec);
    if ((codec->traits & SHOAL_CODEC_MEASURE) != 0 && at->shared == NULL)
        return shoali_fail(SHOAL_EINVAL, "codec %s needs the shared values of shoal_codec_measure",
                           codec->spec);
    return SHOAL_OK;
}

shoal_status shoal_codec_encode(const shoal_codec *codec, const shoal_codec_at *at,
                                const float *src, size_t count, uint8_t *dst, size_t capacity,
                                size_t *written_out)
{
    SHOALI_TRY(check_at(codec, at));
    size_t bound = codec->row->bound(codec->params, count, at->parts);
    if (capacity < bound)
        return shoali_fail(SHOAL_EINVAL,
                           "codec %s: %zu bytes for %zu elements; up to %zu are needed",
                           codec->spec, capacity, count, bound);
    return codec->row->encode(codec->params, at, src, count, dst, capacity, written_out);
}

shoal_status shoal_codec_decode(const shoal_codec *codec, const shoal_codec_at *at,
                                const uint8_t *src, size_t len_bytes, float *dst, size_t count,
                                bool add, size_t *read_out)
{
    SHOALI_TRY(check_at(codec, at));
    return codec->row->decode(codec->params, at, src, len_bytes, dst, count, add, read_out);
}

shoal_status shoal_codec_measure(const shoal_codec *codec, const shoal_tensor *tensor,
                                 const float *src, float *shared_out)
{
    if ((codec->traits & SHOAL_CODEC_MEASURE) == 0)
        return shoali_fail(SHOAL_EINVAL, "codec %s measures nothing", codec->spec);
    return codec->row->measure(codec->params, tensor, src, shared_out);
}

shoal_status shoali_codec_add(const shoal_codec *codec, const shoal_codec_at *at,
                              const shoali_coded *a, const shoali_coded *b, size_t count,
                              uint8_t *dst, size_t capacity, size_t *written_out)
{
    SHOALI_TRY(check_at(codec, at));
    if ((codec->traits & SHOAL_CODEC_SUMMABLE) == 0)
        return shoali_fail(SHOAL_EINVAL, "codec %s has no sums in coded form", codec->spec);
    size_t bound = codec->row->bound(codec->params, count, at->parts);
    if (capacity < bound || at->parts != a->parts + b->parts)
        return shoali_fail(SHOAL_EINVAL, "codec %s: %zu of %zu bytes, or %u parts of %u and %u",
                           codec->spec, capacity, bound, at->parts, a->parts, b->parts);
    return codec->row->add(codec->params, at, a, b, count, dst, capacity, written_out);
}

void shoali_codec_measured_all(const shoal_codec *codec, uint32_t tensor_count, float *values)
{
    const size_t each = codec->row->shared_count;
    for (size_t i = 0; i < each; i++) {
        float most = tensor_count > 0 ? values[i] : 0;
        for (size_t t = 1; t < tensor_count; t++)
            most = values[t * each + i] > most ? values[t * each + i] : most;
        for (size_t t = 0; t < tensor_count; t++)
            values[t * each + i] = most;
    }
}

void shoali_codec_measured_squares(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value = values[i] > 0 ? fmaxf(0x1p-70f, fminf(0x1p56f, values[i])) : 0;
        values[i] = value * value;
    }
}

void shoali_codec_measured_roots(float *sums, size_t count, uint32_t contributors)
{
    for (size_t i = 0; i < count; i++)
        sums[i] = (float)sqrt((double)sums[i] / (double)contributors);
}
