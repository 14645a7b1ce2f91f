/* SPDX-License-Identifier: Apache-2.0 */
#include "data/feature_file.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "data/sequence.h"

/* Bytes still to be read. */
typedef struct cursor {
    const char *what;
    const uint8_t *bytes;
    size_t at, end;
} cursor;

static shoal_status corrupt(const cursor *c, const char *reason)
{
    return shoali_fail(SHOAL_ECORRUPT, "%s, byte %zu: %s", c->what, c->at, reason);
}

static const uint8_t *take(cursor *c, size_t len_bytes)
{
    if (c->end - c->at < len_bytes)
        return NULL;
    c->at += len_bytes;
    return c->bytes + c->at - len_bytes;
}

static uint32_t little(const uint8_t *b)
{
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static uint32_t big(const uint8_t *b)
{
    return b[3] | (uint32_t)b[2] << 8 | (uint32_t)b[1] << 16 | (uint32_t)b[0] << 24;
}

static float as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float as_double(const uint8_t *b)
{
    uint64_t bits = little(b) | (uint64_t)little(b + 4) << 32;
    double value;
    memcpy(&value, &bits, sizeof value);
    return (float)value;
}

/* Sizes are checked, and that the rest of the file holds that much, before memory is taken. */
static shoal_status reserve(cursor *c, uint32_t frames, uint32_t values, size_t bytes_each,
                            size_t bytes_besides, shoal_arena *arena, shoali_feature_matrix *m)
{
    if (frames == 0 || frames > SHOALI_SEQUENCE_FRAMES_MAX || values == 0 ||
        values > SHOALI_SEQUENCE_VALUES_MAX)
        return shoali_fail(
            SHOAL_ECORRUPT, "%s, byte %zu: %u frames of %u values; there may be 1 .. %d of 1 .. %d",
            c->what, c->at, frames, values, SHOALI_SEQUENCE_FRAMES_MAX, SHOALI_SEQUENCE_VALUES_MAX);
    const size_t need = (size_t)frames * values * bytes_each + bytes_besides;
    if (c->end - c->at < need)
        return shoali_fail(SHOAL_ECORRUPT,
                           "%s, byte %zu: %u frames of %u values take %zu bytes, %zu are left",
                           c->what, c->at, frames, values, need, c->end - c->at);
    *m = (shoali_feature_matrix){
        .frames = frames,
        .values = values,
        .x = shoali_arena_array(arena, (size_t)frames * values, sizeof(float))};
    return m->x != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static shoal_status all_finite(const cursor *c, const shoali_feature_matrix *m)
{
    for (size_t i = 0; i < (size_t)m->frames * m->values; i++)
        if (!isfinite(m->x[i]))
            return shoali_fail(SHOAL_ECORRUPT, "%s, byte %zu: value %zu of frame %zu is not finite",
                               c->what, c->at, i % m->values, i / m->values);
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- Kaldi */

/* Size and value: 4, then a little-endian int32. */
static bool take_int(cursor *c, uint32_t *value_out)
{
    const uint8_t *b = take(c, 5);
    if (b == NULL || b[0] != 4)
        return false;
    *value_out = little(b + 1);
    return true;
}

static shoal_status read_plain(cursor *c, size_t bytes_each, shoal_arena *arena,
                               shoali_feature_matrix *m)
{
    uint32_t frames = 0, values = 0;
    if (!take_int(c, &frames) || !take_int(c, &values))
        return corrupt(c, "no sizes of a matrix (4 and an int32, twice)");
    SHOALI_TRY(reserve(c, frames, values, bytes_each, 0, arena, m));
    for (size_t i = 0; i < (size_t)frames * values; i++) {
        const uint8_t *b = take(c, bytes_each);
        m->x[i] = bytes_each == 4 ? as_float(little(b)) : as_double(b);
    }
    return SHOAL_OK;
}

/* A byte between the quarters of its column. */
static float between(const float *quarter, uint8_t b)
{
    if (b <= 64)
        return quarter[0] + (quarter[1] - quarter[0]) * b / 64;
    if (b <= 192)
        return quarter[1] + (quarter[2] - quarter[1]) * (b - 64) / 128;
    return quarter[2] + (quarter[3] - quarter[2]) * (b - 192) / 63;
}

static void read_columns(cursor *c, float least, float range, shoali_feature_matrix *m)
{
    const uint8_t *heads = take(c, (size_t)m->values * 8);
    for (uint32_t v = 0; v < m->values; v++) {
        float quarter[4];
        for (int q = 0; q < 4; q++) {
            const uint8_t *b = heads + (size_t)v * 8 + (size_t)q * 2;
            quarter[q] = least + range * (float)(b[0] | b[1] << 8) / 65535;
        }
        const uint8_t *column = take(c, m->frames);
        for (uint32_t t = 0; t < m->frames; t++)
            m->x[(size_t)t * m->values + v] = between(quarter, column[t]);
    }
}

static shoal_status read_compressed(cursor *c, char form, shoal_arena *arena,
                                    shoali_feature_matrix *m)
{
    const uint8_t *head = take(c, 16);
    if (head == NULL)
        return corrupt(c, "the file ends in the head of a compressed matrix");
    const float least = as_float(little(head)), range = as_float(little(head + 4));
    const uint32_t frames = little(head + 8), values = little(head + 12);
    const size_t each = form == '2' ? 2 : 1;
    const size_t besides = form == ' ' && values <= SHOALI_SEQUENCE_VALUES_MAX ? values * 8 : 0;
    SHOALI_TRY(reserve(c, frames, values, each, besides, arena, m));
    if (form == ' ') {
        read_columns(c, least, range, m);
        return SHOAL_OK;
    }
    for (size_t i = 0; i < (size_t)frames * values; i++) {
        const uint8_t *b = take(c, each);
        m->x[i] = each == 2 ? least + range * (float)(b[0] | b[1] << 8) / 65535
                            : least + range * (float)b[0] / 255;
    }
    return SHOAL_OK;
}

static shoal_status read_kaldi(cursor *c, shoal_arena *arena, shoali_feature_matrix *m)
{
    const uint8_t *token = take(c, 5);
    if (token == NULL)
        return corrupt(c, "the file ends in a matrix's name");
    token += 2;
    if (memcmp(token, "FM ", 3) == 0)
        return read_plain(c, 4, arena, m);
    if (memcmp(token, "DM ", 3) == 0)
        return read_plain(c, 8, arena, m);
    if (memcmp(token, "CM ", 3) == 0)
        return read_compressed(c, ' ', arena, m);
    const uint8_t *blank = memcmp(token, "CM", 2) == 0 ? take(c, 1) : NULL;
    if (blank != NULL && *blank == ' ' && (token[2] == '2' || token[2] == '3'))
        return read_compressed(c, (char)token[2], arena, m);
    return corrupt(c, "no matrix of Kaldi's (FM, DM, CM, CM2 or CM3)");
}

/* ---------------------------------------------------------------- HTK */

enum { HTK_COMPRESSED = 02000, HTK_KIND = 077, HTK_WAVEFORM = 0, HTK_HEAD = 12 };

static shoal_status read_packed(cursor *c, uint32_t frames, uint32_t values, shoal_arena *arena,
                                shoali_feature_matrix *m)
{
    if (frames <= 4)
        return corrupt(c, "a compressed file without frames");
    SHOALI_TRY(reserve(c, frames - 4, values, 2,
                       values <= SHOALI_SEQUENCE_VALUES_MAX ? (size_t)values * 8 : 0, arena, m));
    const uint8_t *scale = take(c, (size_t)values * 4), *shift = take(c, (size_t)values * 4);
    for (size_t i = 0; i < (size_t)m->frames * values; i++) {
        const uint8_t *b = take(c, 2);
        const size_t v = i % values;
        const float packed = (float)(int16_t)(b[1] | b[0] << 8);
        m->x[i] = (packed + as_float(big(shift + v * 4))) / as_float(big(scale + v * 4));
    }
    return SHOAL_OK;
}

static shoal_status read_htk(cursor *c, shoal_arena *arena, shoali_feature_matrix *m)
{
    const uint8_t *head = take(c, HTK_HEAD);
    if (head == NULL)
        return corrupt(c, "neither Kaldi's (0 B) nor HTK's: less than a head of 12 bytes");
    const uint32_t frames = big(head), size = (uint32_t)head[8] << 8 | head[9];
    const uint32_t kind = (uint32_t)head[10] << 8 | head[11];
    const bool packed = (kind & HTK_COMPRESSED) != 0;
    if ((kind & HTK_KIND) == HTK_WAVEFORM || size % (packed ? 2 : 4) != 0)
        return shoali_fail(SHOAL_ECORRUPT,
                           "%s, byte %zu: neither Kaldi's (0 B) nor HTK's: kind %u, frames of %u "
                           "bytes",
                           c->what, c->at, kind, size);
    if (packed)
        return read_packed(c, frames, size / 2, arena, m);
    SHOALI_TRY(reserve(c, frames, size / 4, 4, 0, arena, m));
    for (size_t i = 0; i < (size_t)frames * m->values; i++)
        m->x[i] = as_float(big(take(c, 4)));
    return SHOAL_OK;
}

shoal_status shoali_feature_matrix_read(const char *what, const uint8_t *bytes, size_t len_bytes,
                                        size_t offset, shoal_arena *arena,
                                        shoali_feature_matrix *matrix_out)
{
    cursor c = {.what = what, .bytes = bytes, .at = offset, .end = len_bytes};
    if (offset >= len_bytes)
        return shoali_fail(SHOAL_ECORRUPT, "%s: nothing at byte %zu, the file has %zu", what,
                           offset, len_bytes);
    const bool kaldi = len_bytes - offset >= 2 && bytes[offset] == 0 && bytes[offset + 1] == 'B';
    SHOALI_TRY(kaldi ? read_kaldi(&c, arena, matrix_out) : read_htk(&c, arena, matrix_out));
    return all_finite(&c, matrix_out);
}
