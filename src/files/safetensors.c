/* SPDX-License-Identifier: Apache-2.0 */
#include "files/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/plain_file.h"
#include "files/digest.h"

enum { HEADER_MAX_BYTES = 1 << 26, PATH_BYTES = 4096 };

struct shoali_safetensors {
    char *path;
    uint8_t *map;
    size_t bytes;      /* of the file */
    size_t data_start; /* offset of the data in it */
    json_t *header;
};

/* ------------------------------------------------------------------ digest */

/* The metadata's "sha256" is that of header and data, with zeros in its own place. */
static const char digest_key[] = "\"sha256\":\"";
enum { DIGEST_CHARS = SHOALI_DIGEST_CHARS };

/* Where the digest's text stands in a header; NULL: nowhere. */
static char *digest_in(const char *header, size_t length)
{
    char *at = memmem(header, length, digest_key, sizeof digest_key - 1);
    if (at == NULL || (size_t)(at - header) + sizeof digest_key - 1 + DIGEST_CHARS > length)
        return NULL;
    return at + sizeof digest_key - 1;
}

/* ------------------------------------------------------------------ writing */

static size_t bytes_of(const shoali_named_tensor *tensor)
{
    return tensor->count * (tensor->words != NULL ? sizeof(int16_t) : sizeof(float));
}

static json_t *describe(const shoali_named_tensor *tensor, uint64_t offset)
{
    json_t *shape = json_array();
    if (tensor->shape.dims > 0) {
        for (uint32_t i = 0; i < tensor->shape.dims; i++)
            json_array_append_new(shape, json_integer((json_int_t)tensor->shape.sizes[i]));
    } else if (tensor->rows > 0) {
        json_array_append_new(shape, json_integer(tensor->rows));
        json_array_append_new(shape, json_integer((json_int_t)(tensor->count / tensor->rows)));
    } else {
        json_array_append_new(shape, json_integer((json_int_t)tensor->count));
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", tensor->words != NULL ? "I16" : "F32",
                     "shape", shape, "data_offsets", (json_int_t)offset,
                     (json_int_t)(offset + bytes_of(tensor)));
}

/* The header's text, padded with spaces so that the data start at a multiple of 8. */
static char *make_header(const shoali_named_tensor *tensors, size_t count, const json_t *metadata,
                         size_t *len_out)
{
    uint64_t offset = 0;
    char zeros[DIGEST_CHARS + 1];
    json_t *header = json_object(),
           *about = metadata != NULL ? json_deep_copy(metadata) : json_object();
    memset(zeros, '0', DIGEST_CHARS);
    zeros[DIGEST_CHARS] = '\0';
    bool ok = header != NULL && json_object_set_new(about, "sha256", json_string(zeros)) == 0;
    ok = json_object_set_new(header, "__metadata__", about) == 0 && ok;
    for (size_t i = 0; ok && i < count; i++) {
        ok = json_object_set_new(header, tensors[i].name, describe(&tensors[i], offset)) == 0;
        offset += bytes_of(&tensors[i]);
    }
    char *text = ok ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    if (text == NULL)
        return NULL;
    size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    char *out = shoali_alloc(padded);
    if (out != NULL) {
        memset(out, ' ', padded);
        memcpy(out, text, length);
        *len_out = padded;
    }
    free(text);
    return out;
}

static const void *data_of(const shoali_named_tensor *tensor)
{
    return tensor->words != NULL ? (const void *)tensor->words : tensor->data;
}

/* Put the digest of all into the header. */
static bool seal(char *header, size_t header_len, const shoali_named_tensor *tensors, size_t count)
{
    shoali_digest digest;
    char text[DIGEST_CHARS + 1], *place = digest_in(header, header_len);
    shoali_digest_begin(&digest);
    shoali_digest_add(&digest, header, header_len);
    for (size_t i = 0; i < count; i++)
        shoali_digest_add(&digest, data_of(&tensors[i]), bytes_of(&tensors[i]));
    bool ok = place != NULL && shoali_digest_text(&digest, text);
    shoali_digest_end(&digest);
    if (ok)
        memcpy(place, text, DIGEST_CHARS);
    return ok;
}

static bool write_all(FILE *file, const void *bytes, size_t len_bytes)
{
    return fwrite(bytes, 1, len_bytes, file) == len_bytes;
}

static bool write_file(FILE *file, const char *header, size_t header_len,
                       const shoali_named_tensor *tensors, size_t count)
{
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)header_len >> (8 * i));
    bool ok = write_all(file, length, sizeof length) && write_all(file, header, header_len);
    for (size_t i = 0; ok && i < count; i++)
        ok = write_all(file, data_of(&tensors[i]), bytes_of(&tensors[i]));
    return ok && fflush(file) == 0 && fsync(fileno(file)) == 0;
}

/* A new name lasts once its folder is written, too. */
shoal_status shoali_sync_folder_of(const char *path)
{
    char folder[PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    snprintf(slash != NULL ? slash + 1 : folder, 2, "%s", slash != NULL ? "" : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    int error = errno;
    if (fd >= 0)
        close(fd);
    return ok ? SHOAL_OK : shoali_fail_os(SHOAL_EIO, error, "cannot write the folder of %s", path);
}

shoal_status shoali_safetensors_write(const char *path, const shoali_named_tensor *tensors,
                                      size_t count, const json_t *metadata)
{
    char temporary[PATH_BYTES];
    size_t header_len = 0;
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.tmp%d", path, (int)getpid()) >=
        sizeof temporary)
        return shoali_fail(SHOAL_EINVAL, "path of a checkpoint is too long: %s", path);
    char *header = make_header(tensors, count, metadata, &header_len);
    if (header == NULL || !seal(header, header_len, tensors, count)) {
        shoali_free(header);
        return shoali_fail(SHOAL_ENOMEM, "no memory for the header of %s", path);
    }
    FILE *file = shoali_scratch_file(temporary);
    bool ok = file != NULL && write_file(file, header, header_len, tensors, count);
    int error = errno;
    if (file != NULL && fclose(file) != 0 && ok) {
        error = errno;
        ok = false;
    }
    if (ok && rename(temporary, path) != 0) {
        error = errno;
        ok = false;
    }
    shoali_free(header);
    if (ok)
        return shoali_sync_folder_of(path);
    unlink(temporary);
    return shoali_fail_os(SHOAL_EIO, error, "cannot write %s", path);
}

/* ------------------------------------------------------------------ reading */

static shoal_status corrupt(const shoali_safetensors *file, const char *reason)
{
    return shoali_fail(SHOAL_ECORRUPT, "%s is no valid safetensors file: %s", file->path, reason);
}

static bool range_of(const json_t *entry, uint64_t *start_out, uint64_t *end_out)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *start = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(start) || !json_is_integer(end))
        return false;
    if (json_integer_value(start) < 0 || json_integer_value(end) < json_integer_value(start))
        return false;
    *start_out = (uint64_t)json_integer_value(start);
    *end_out = (uint64_t)json_integer_value(end);
    return true;
}

typedef struct extent {
    uint64_t start, end;
} extent;

static int by_start(const void *a, const void *b)
{
    const extent *one = a, *other = b;
    if (one->start != other->start)
        return one->start < other->start ? -1 : 1;
    return one->end < other->end ? -1 : one->end > other->end;
}

/* One behind the other, without holes, to the end. */
static shoal_status check_extents(const shoali_safetensors *file, extent *extents, size_t count)
{
    uint64_t end = 0, data = file->bytes - file->data_start;
    qsort(extents, count, sizeof *extents, by_start);
    for (size_t i = 0; i < count; i++) {
        if (extents[i].start != end)
            return corrupt(file, extents[i].start < end ? "tensors overlap"
                                                        : "there is a hole between tensors");
        end = extents[i].end;
    }
    return end == data ? SHOAL_OK : corrupt(file, "its length differs from the tensors' sum");
}

static shoal_status check_header(const shoali_safetensors *file)
{
    const char *name;
    json_t *entry;
    size_t count = 0;
    extent *extents = shoali_alloc_array(json_object_size(file->header) + 1, sizeof *extents);
    shoal_status status = extents != NULL ? SHOAL_OK : SHOAL_ENOMEM;
    json_object_foreach(file->header, name, entry)
    {
        if (status != SHOAL_OK || strcmp(name, "__metadata__") == 0)
            continue;
        extent *e = &extents[count++];
        if (!range_of(entry, &e->start, &e->end) || e->end > file->bytes - file->data_start)
            status = corrupt(file, "a tensor lies outside the file");
    }
    if (status == SHOAL_OK)
        status = check_extents(file, extents, count);
    shoali_free(extents);
    return status;
}

/* A file without a digest is another program's. */
static shoal_status check_digest(const shoali_safetensors *file)
{
    const char *header = (const char *)file->map + 8, *place;
    char zeros[DIGEST_CHARS], text[DIGEST_CHARS + 1];
    shoali_digest digest;
    if (shoali_safetensors_metadata(file, "sha256") == NULL ||
        (place = digest_in(header, file->data_start - 8)) == NULL)
        return SHOAL_OK;
    memset(zeros, '0', sizeof zeros);
    const size_t before = (size_t)(place - header);
    shoali_digest_begin(&digest);
    shoali_digest_add(&digest, header, before);
    shoali_digest_add(&digest, zeros, sizeof zeros);
    shoali_digest_add(&digest, place + DIGEST_CHARS, file->bytes - 8 - before - DIGEST_CHARS);
    bool ok = shoali_digest_text(&digest, text);
    shoali_digest_end(&digest);
    if (!ok)
        return shoali_fail(SHOAL_ENOMEM, "no memory to check %s", file->path);
    if (memcmp(text, place, DIGEST_CHARS) != 0)
        return corrupt(file, "its bytes are not those that were written (SHA-256)");
    return SHOAL_OK;
}

static shoal_status parse(shoali_safetensors *file, bool read)
{
    uint64_t header_len = 0;
    if (file->bytes < 8)
        return corrupt(file, "shorter than 8 bytes");
    for (int i = 7; i >= 0; i--)
        header_len = header_len << 8 | file->map[i];
    if (header_len > HEADER_MAX_BYTES || header_len > file->bytes - 8)
        return corrupt(file, "the header's length is beyond the file");
    file->data_start = 8 + (size_t)header_len;
    SHOALI_TRY(shoali_json_parse(file->path, (const char *)file->map + 8, (size_t)header_len,
                                 &file->header));
    if (!json_is_object(file->header))
        return corrupt(file, "the header is no object");
    SHOALI_TRY(check_header(file));
    return read ? check_digest(file) : SHOAL_OK;
}

static shoal_status map_file(const char *path, shoali_safetensors *file)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot open %s", path);
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < 1) {
        close(fd);
        return corrupt(file, "empty, or no regular file");
    }
    file->bytes = (size_t)info.st_size;
    void *map = mmap(NULL, file->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    int error = errno;
    close(fd);
    if (map == MAP_FAILED)
        return shoali_fail_os(SHOAL_EIO, error, "cannot map %s", path);
    file->map = map;
    return SHOAL_OK;
}

static shoal_status open_file(const char *path, bool read, shoali_safetensors **file_out)
{
    shoali_safetensors *file = shoali_alloc(sizeof *file);
    if (file == NULL)
        return SHOAL_ENOMEM;
    file->path = shoali_strdup(path);
    shoal_status status = file->path != NULL ? map_file(path, file) : SHOAL_ENOMEM;
    if (status == SHOAL_OK)
        status = parse(file, read);
    if (status == SHOAL_OK)
        *file_out = file;
    else
        shoali_safetensors_close(file);
    return status;
}

shoal_status shoali_safetensors_open(const char *path, shoali_safetensors **file_out)
{
    return open_file(path, true, file_out);
}

shoal_status shoali_safetensors_open_unread(const char *path, shoali_safetensors **file_out)
{
    return open_file(path, false, file_out);
}

void shoali_safetensors_close(shoali_safetensors *file)
{
    if (file == NULL)
        return;
    json_decref(file->header);
    if (file->map != NULL)
        munmap(file->map, file->bytes);
    shoali_free(file->path);
    shoali_free(file);
}

shoal_status shoali_safetensors_read(const shoali_safetensors *file, const char *name, float *out,
                                     size_t count)
{
    uint64_t start = 0, end = 0;
    const json_t *entry = json_object_get(file->header, name);
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (entry == NULL || dtype == NULL || !range_of(entry, &start, &end))
        return shoali_fail(SHOAL_ECORRUPT, "%s has no tensor %s", file->path, name);
    if (strcmp(dtype, "F32") != 0 || end - start != count * sizeof(float))
        return shoali_fail(SHOAL_ECORRUPT, "%s: tensor %s is %s of %llu bytes, wanted F32 of %zu",
                           file->path, name, dtype, (unsigned long long)(end - start),
                           count * sizeof(float));
    memcpy(out, file->map + file->data_start + start, count * sizeof(float));
    return SHOAL_OK;
}

bool shoali_safetensors_is_float(const char *dtype)
{
    return strcmp(dtype, "F32") == 0 || strcmp(dtype, "F16") == 0 || strcmp(dtype, "BF16") == 0;
}

/* The upper half of a float32. */
static float of_bf16(uint16_t word)
{
    const uint32_t bits = (uint32_t)word << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE 754: a sign, 5 bits of exponent, 10 of fraction. */
static float of_half(uint16_t word)
{
    const int exponent = word >> 10 & 31, fraction = word & 1023;
    const float sign = (word & 0x8000) != 0 ? -1.0f : 1.0f;
    if (exponent == 31)
        return fraction != 0 ? NAN : sign * INFINITY;
    return sign * (exponent == 0 ? ldexpf((float)fraction, -24)
                                 : ldexpf((float)(fraction | 1024), exponent - 25));
}

shoal_status shoali_safetensors_read_float(const shoali_safetensors *file, const char *name,
                                           float *out, size_t count)
{
    enum { CHUNK = 1024 };
    uint16_t words[CHUNK]; /* those of the file need not be aligned */
    uint64_t start = 0, end = 0;
    const json_t *entry = json_object_get(file->header, name);
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (dtype == NULL || strcmp(dtype, "F32") == 0 || !shoali_safetensors_is_float(dtype) ||
        !range_of(entry, &start, &end) || end - start != count * sizeof *words)
        return shoali_safetensors_read(file, name, out, count);
    const bool bf16 = dtype[0] == 'B';
    for (size_t at = 0, part; at < count; at += part) {
        part = count - at < CHUNK ? count - at : CHUNK;
        memcpy(words, file->map + file->data_start + start + at * sizeof *words,
               part * sizeof *words);
        for (size_t i = 0; i < part; i++)
            out[at + i] = bf16 ? of_bf16(words[i]) : of_half(words[i]);
    }
    return SHOAL_OK;
}

const char *shoali_safetensors_name(const shoali_safetensors *file, size_t i, size_t *count_out)
{
    const char *name;
    json_t *entry;
    json_object_foreach(file->header, name, entry)
    {
        uint64_t start = 0, end = 0;
        if (strcmp(name, "__metadata__") == 0 || i-- > 0)
            continue;
        if (range_of(entry, &start, &end))
            *count_out = (size_t)(end - start) / sizeof(float);
        return name;
    }
    return NULL;
}

const char *shoali_safetensors_shape(const shoali_safetensors *file, const char *name,
                                     shoali_tensor_shape *shape_out)
{
    const json_t *entry = json_object_get(file->header, name);
    const json_t *shape = json_object_get(entry, "shape");
    shoali_tensor_shape out = {.dims = (uint32_t)json_array_size(shape)};
    if (!json_is_array(shape) || json_array_size(shape) > 8 || strcmp(name, "__metadata__") == 0)
        return NULL;
    for (uint32_t i = 0; i < out.dims; i++) {
        const json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return NULL;
        out.sizes[i] = (uint64_t)json_integer_value(size);
    }
    *shape_out = out;
    return json_string_value(json_object_get(entry, "dtype"));
}

const char *shoali_safetensors_metadata(const shoali_safetensors *file, const char *key)
{
    return json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));
}
