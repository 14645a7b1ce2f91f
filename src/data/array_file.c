/* SPDX-License-Identifier: Apache-2.0 */
/* .npy: "\x93NUMPY", version, length of the head, then a head like
 *
 *     {'descr': '|u1', 'fortran_order': False, 'shape': (60000, 28, 28), }
 *
 * and the values. .npz: a ZIP archive, read from the directory at its end; members are stored or
 * deflated. Only what NumPy writes is read of either. */
#include "data/array_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"

enum { HEAD_MAX = 4096 };

/* ---------------------------------------------------------------- .npy */

/* What follows 'key': in the head; NULL: it is not there. */
static const char *find_key(const char *head, const char *key)
{
    const char *at = strstr(head, key);
    if (at == NULL)
        return NULL;
    at += strlen(key);
    return at + strspn(at, "' :");
}

static shoal_status read_type(const char *what, const char *head, shoali_array *a)
{
    const char *descr = find_key(head, "'descr'");
    if (descr == NULL)
        return shoali_fail(SHOAL_ECORRUPT, "%s: its head has no 'descr'", what);
    const char order = descr[0], kind = order != '\0' ? descr[1] : '\0',
               size = kind != '\0' ? descr[2] : '\0';
    const bool known = (kind == 'u' || kind == 'i') &&
                       (size == '1' || size == '2' || size == '4' || size == '8') &&
                       descr[3] == '\'' && (order == '<' || (order == '|' && size == '1'));
    if (!known)
        return shoali_fail(SHOAL_ECORRUPT,
                           "%s: values of type '%.*s'; whole numbers in little-endian order (|u1, "
                           "<i8, ...) are read",
                           what, (int)strcspn(descr, "'"), descr);
    a->value_bytes = (uint32_t)(size - '0');
    a->is_signed = kind == 'i';
    return SHOAL_OK;
}

static shoal_status read_shape(const char *what, const char *head, shoali_array *a)
{
    const char *order = find_key(head, "'fortran_order'"), *at = find_key(head, "'shape'");
    if (order == NULL || at == NULL || *at != '(')
        return shoali_fail(SHOAL_ECORRUPT, "%s: its head has no 'fortran_order' or 'shape'", what);
    if (strncmp(order, "False", 5) != 0)
        return shoali_fail(SHOAL_ECORRUPT,
                           "%s: its values are in Fortran's order; save it by "
                           "numpy.ascontiguousarray",
                           what);
    a->count = 1;
    for (at++; *at != ')' && *at != '\0';) {
        char *end;
        const unsigned long long size = strtoull(at, &end, 10);
        if (end == at || *at == '-' || a->dims == SHOALI_ARRAY_DIMS_MAX || size == 0 ||
            size > UINT32_MAX || a->count > UINT64_MAX / 8 / size)
            return shoali_fail(SHOAL_ECORRUPT, "%s: shape %.*s; 1 to %d sizes, none of them 0",
                               what, 40, strchr(head, '('), SHOALI_ARRAY_DIMS_MAX);
        a->sizes[a->dims++] = size;
        a->count *= size;
        at = end + strspn(end, ", ");
    }
    if (*at != ')')
        return shoali_fail(SHOAL_ECORRUPT, "%s: its head ends within its shape", what);
    return a->dims > 0 ? SHOAL_OK : shoali_fail(SHOAL_ECORRUPT, "%s holds one number", what);
}

shoal_status shoali_array_read(const char *what, const uint8_t *bytes, size_t len_bytes,
                               shoali_array *array_out)
{
    static const uint8_t magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    char head[HEAD_MAX + 1] = "";
    shoali_array a = {.dims = 0};
    if (len_bytes < 12 || memcmp(bytes, magic, sizeof magic) != 0 || bytes[6] < 1 || bytes[6] > 3)
        return shoali_fail(SHOAL_ECORRUPT, "%s is no .npy file, by its first bytes", what);
    const bool old = bytes[6] == 1;
    const size_t start = old ? 10 : 12,
                 length = (size_t)bytes[8] | (size_t)bytes[9] << 8 |
                          (old ? 0 : (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24);
    if (length > HEAD_MAX || length > len_bytes - start)
        return shoali_fail(SHOAL_ECORRUPT, "%s: a head of %zu bytes; at most %d, and the file's",
                           what, length, HEAD_MAX);
    memcpy(head, bytes + start, length);
    SHOALI_TRY(read_type(what, head, &a));
    SHOALI_TRY(read_shape(what, head, &a));
    if (a.count * a.value_bytes != len_bytes - start - length)
        return shoali_fail(SHOAL_ECORRUPT, "%s: %llu bytes should follow its head, %zu do", what,
                           (unsigned long long)(a.count * a.value_bytes),
                           len_bytes - start - length);
    a.values = bytes + start + length;
    *array_out = a;
    return SHOAL_OK;
}

int64_t shoali_array_at(const shoali_array *a, uint64_t i)
{
    const uint8_t *from = a->values + i * a->value_bytes;
    uint64_t value = 0;
    for (uint32_t b = 0; b < a->value_bytes; b++)
        value |= (uint64_t)from[b] << 8 * b;
    const uint32_t bits = 8 * a->value_bytes;
    if (a->is_signed && bits > 0 && bits < 64 && (value >> (bits - 1) & 1) != 0)
        value |= UINT64_MAX << bits;
    return (int64_t)value;
}

/* ---------------------------------------------------------------- .npz */

enum { END_BYTES = 22, ENTRY_BYTES = 46, LOCAL_BYTES = 30, COMMENT_MAX = 65535 };

static uint32_t half(const uint8_t *b)
{
    return b[0] | (uint32_t)b[1] << 8;
}

static uint32_t word(const uint8_t *b)
{
    return half(b) | half(b + 2) << 16;
}

typedef struct archive {
    const char *what;
    const uint8_t *bytes;
    size_t len_bytes;
    shoal_arena *arena;
} archive;

/* A member of the directory. */
typedef struct entry {
    uint32_t method, crc, packed, plain, local;
    char name[72]; /* "FILE: NAME" would be too long for errors */
} entry;

static shoal_status find_directory(const archive *z, size_t *at_out, uint32_t *count_out)
{
    const size_t most = END_BYTES + COMMENT_MAX;
    for (size_t back = END_BYTES; back <= z->len_bytes && back <= most; back++) {
        const uint8_t *end = z->bytes + z->len_bytes - back;
        if (memcmp(end, "PK\5\6", 4) != 0)
            continue;
        *count_out = half(end + 10);
        *at_out = word(end + 16);
        if (*count_out == 0 || *count_out > SHOALI_ARRAYS_MAX || *at_out >= z->len_bytes)
            return shoali_fail(SHOAL_ECORRUPT,
                               "%s: %u arrays; 1 to %d are read, of files below 4 GiB", z->what,
                               *count_out, SHOALI_ARRAYS_MAX);
        return SHOAL_OK;
    }
    return shoali_fail(SHOAL_ECORRUPT, "%s is no whole .npz file: its directory is not there",
                       z->what);
}

static shoal_status read_entry(const archive *z, size_t *at, entry *e)
{
    const uint8_t *b = z->bytes + *at;
    if (*at > z->len_bytes - ENTRY_BYTES || memcmp(b, "PK\1\2", 4) != 0)
        return shoali_fail(SHOAL_ECORRUPT, "%s, byte %zu: no entry of its directory", z->what, *at);
    const size_t name = half(b + 28), more = name + half(b + 30) + half(b + 32);
    *e = (entry){.method = half(b + 10),
                 .crc = word(b + 16),
                 .packed = word(b + 20),
                 .plain = word(b + 24),
                 .local = word(b + 42)};
    if (more > z->len_bytes - ENTRY_BYTES - *at)
        return shoali_fail(SHOAL_ECORRUPT, "%s: its directory is cut off", z->what);
    const size_t kept = name < sizeof e->name - 1 ? name : sizeof e->name - 1;
    memcpy(e->name, b + ENTRY_BYTES, kept);
    *at += ENTRY_BYTES + more;
    return SHOAL_OK;
}

/* Deflate makes at most 1032 bytes of one, so that a small file asks for little memory. */
static shoal_status unpack(const archive *z, const entry *e, const uint8_t *from,
                           const uint8_t **plain_out)
{
    if (e->method == 0 && e->packed == e->plain) {
        *plain_out = from;
        return SHOAL_OK;
    }
    if (e->method != 8 || e->plain / 1032 > e->packed)
        return shoali_fail(SHOAL_ECORRUPT, "%s: %s is packed by method %u to %u of %u bytes",
                           z->what, e->name, e->method, e->packed, e->plain);
    uint8_t *plain = shoali_arena_alloc(z->arena, e->plain);
    if (plain == NULL)
        return SHOAL_ENOMEM;
    z_stream stream = {.next_in = (uint8_t *)(uintptr_t)from,
                       .avail_in = e->packed,
                       .next_out = plain,
                       .avail_out = e->plain};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
        return shoali_fail(SHOAL_ENOMEM, "no memory to unpack %s", z->what);
    const int result = inflate(&stream, Z_FINISH);
    const bool whole = result == Z_STREAM_END && stream.avail_out == 0;
    inflateEnd(&stream);
    *plain_out = plain;
    return whole ? SHOAL_OK
                 : shoali_fail(SHOAL_ECORRUPT, "%s: %s does not unpack to %u bytes", z->what,
                               e->name, e->plain);
}

static shoal_status read_member(const archive *z, const entry *e, shoali_array *array_out)
{
    char what[160];
    const uint8_t *local = z->bytes + e->local, *plain = NULL;
    if (e->local > z->len_bytes || z->len_bytes - e->local < LOCAL_BYTES ||
        memcmp(local, "PK\3\4", 4) != 0)
        return shoali_fail(SHOAL_ECORRUPT, "%s: %s is not where the directory says", z->what,
                           e->name);
    const size_t start = (size_t)e->local + LOCAL_BYTES + half(local + 26) + half(local + 28);
    if (start > z->len_bytes || e->packed > z->len_bytes - start)
        return shoali_fail(SHOAL_ECORRUPT, "%s: %s is cut off", z->what, e->name);
    SHOALI_TRY(unpack(z, e, z->bytes + start, &plain));
    if (crc32(0, plain, e->plain) != e->crc)
        return shoali_fail(SHOAL_ECORRUPT, "%s: %s is damaged, by its checksum", z->what, e->name);
    snprintf(what, sizeof what, "%.80s: %.70s", z->what, e->name);
    SHOALI_TRY(shoali_array_read(what, plain, e->plain, array_out));
    const size_t length = strcspn(e->name, ".");
    snprintf(array_out->name, sizeof array_out->name, "%.*s", (int)(length < 63 ? length : 63),
             e->name);
    return SHOAL_OK;
}

shoal_status shoali_arrays_read(const char *what, const uint8_t *bytes, size_t len_bytes,
                                shoal_arena *arena, shoali_array *arrays_out, uint32_t *count_out)
{
    const archive z = {what, bytes, len_bytes, arena};
    size_t at = 0;
    uint32_t count = 0;
    if (len_bytes < ENTRY_BYTES)
        return shoali_fail(SHOAL_ECORRUPT, "%s is no whole .npz file: it has %zu bytes", what,
                           len_bytes);
    SHOALI_TRY(find_directory(&z, &at, &count));
    for (uint32_t i = 0; i < count; i++) {
        entry e;
        SHOALI_TRY(read_entry(&z, &at, &e));
        SHOALI_TRY(read_member(&z, &e, &arrays_out[i]));
    }
    *count_out = count;
    return SHOAL_OK;
}
