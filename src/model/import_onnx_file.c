/* SPDX-License-Identifier: Apache-2.0 */
/* An ONNX file in memory, bounded by what it may take there. */
#include <string.h>

#include "base/error.h"
#include "base/read_file.h"
#include "model/import_onnx.h"

enum {
    UNPACKED_BYTES = 256 << 20, /* and twice the file */
    ALLOCATION_BYTES = 63       /* one is rounded up to 64 */
};

/* Letters, digits, '.', '_' and '-' of the file's name, without folder and suffix. */
const char *shoali_onnx_name_of(const char *what, shoal_arena *arena)
{
    const char *base = strrchr(what, '/');
    char *name = shoali_arena_strdup(arena, base != NULL ? base + 1 : what);
    if (name == NULL)
        return NULL;
    char *dot = strrchr(name, '.');
    if (dot != NULL && dot != name)
        *dot = '\0';
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    name[len < SHOALI_MODEL_NAME_MAX ? len : SHOALI_MODEL_NAME_MAX - 1] = '\0';
    return name[0] != '\0' ? name : "onnx";
}

shoal_status shoali_onnx_in_file(const char *what, shoal_status status)
{
    shoal_error error;
    if (status == SHOAL_OK || status == SHOAL_ENOMEM)
        return status;
    shoali_error_get(&error);
    return shoali_fail(status, "%s: %s", what, error.text);
}

/* A node of two bytes takes a hundred once it is unpacked; weights are copied as they are. */
typedef struct budget {
    shoal_arena *arena;
    size_t left;
    bool spent, failed;
} budget;

static void *take(void *ctx, size_t bytes)
{
    budget *b = ctx;
    b->spent = b->spent || bytes + ALLOCATION_BYTES > b->left;
    if (b->spent)
        return NULL;
    b->left -= bytes + ALLOCATION_BYTES;
    void *memory = shoali_arena_alloc(b->arena, bytes);
    b->failed = b->failed || memory == NULL;
    return memory;
}

static void give_back(void *ctx, void *bytes)
{
    (void)ctx, (void)bytes; /* with the arena */
}

shoal_status shoali_onnx_unpack(const char *what, const uint8_t *bytes, size_t len_bytes,
                                shoal_arena *arena, Shoal__Onnx__Model **file_out)
{
    const size_t most = UNPACKED_BYTES + 2 * len_bytes;
    budget b = {.arena = arena, .left = most};
    ProtobufCAllocator heap = {.alloc = take, .free = give_back, .allocator_data = &b};
    *file_out = shoal__onnx__model__unpack(&heap, len_bytes, bytes);
    if (b.failed)
        return SHOAL_ENOMEM;
    if (b.spent)
        return shoali_fail(SHOAL_ECORRUPT, "%s: a graph that takes more than %zu MB of memory",
                           what, most >> 20);
    if (*file_out == NULL || (*file_out)->graph == NULL)
        return shoali_fail(SHOAL_ECORRUPT, "%s: not an ONNX model", what);
    return SHOAL_OK;
}

shoal_status shoali_import_onnx(const char *what, const uint8_t *bytes, size_t len_bytes,
                                shoal_arena *arena, shoali_model_text *text_out)
{
    return shoali_import_onnx_use(what, bytes, len_bytes, arena, text_out, NULL, NULL);
}

shoal_status shoali_import_onnx_file(const char *path, shoal_arena *arena,
                                     shoali_model_text *text_out)
{
    char *bytes;
    size_t len_bytes;
    SHOALI_TRY(shoali_read_file(path, SHOALI_ONNX_FILE_MAX, &bytes, &len_bytes));
    shoal_status status = shoali_import_onnx(path, (const uint8_t *)bytes, len_bytes, arena,
                                             text_out);
    shoali_free(bytes);
    return status;
}
