/* SPDX-License-Identifier: Apache-2.0 */
/* zstd: lossless, by libzstd. Bytes of equal weight are first brought together (shuffle), which is
 * what makes anything of floats compressible: their exponents. A piece is cut into blocks of 65536
 * elements, each a 32-bit length and a zstd frame. The baseline for `expo`, which needs no entropy
 * coder.
 *
 * Contexts and scratch belong to the thread and are kept: no allocation after the first call. */
#include <pthread.h>
#include <string.h>
#include <zstd.h>

#include "base/arena.h"
#include "base/error.h"
#include "codec/codec.h"
#include "kernel/kernel.h"

enum { BLOCK = 65536, BLOCK_BYTES = 4 * BLOCK };

typedef struct zstd_params {
    int64_t level;
    bool shuffle;
} zstd_params;

static const shoali_key keys[] = {
    {"level", SHOALI_KEY_INT, offsetof(zstd_params, level), -7, 19, NULL, "1",
     "zstd's level: more is smaller and slower"},
    {"shuffle", SHOALI_KEY_FLAG, offsetof(zstd_params, shuffle), 0, 0, NULL, "on",
     "bytes of equal weight together"},
};

static uint16_t wire_id(const void *params)
{
    return ((const zstd_params *)params)->shuffle ? 53 : 60;
}

/* What a thread keeps. */
typedef struct tools {
    ZSTD_CCtx *compress;
    ZSTD_DCtx *decompress;
    uint8_t planes[BLOCK_BYTES];
    float values[BLOCK];
} tools;

static pthread_key_t tools_key;

static void tools_free(void *any)
{
    tools *t = any;
    ZSTD_freeCCtx(t->compress);
    ZSTD_freeDCtx(t->decompress);
    shoali_free(t);
}

static void make_key(void)
{
    (void)pthread_key_create(&tools_key, tools_free);
}

/* NULL: out of memory, and the last error says so. */
static tools *tools_of_thread(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    tools *t = pthread_getspecific(tools_key);
    if (t != NULL)
        return t;
    t = shoali_alloc(sizeof *t);
    if (t == NULL)
        return NULL;
    t->compress = ZSTD_createCCtx();
    t->decompress = ZSTD_createDCtx();
    if (t->compress == NULL || t->decompress == NULL || pthread_setspecific(tools_key, t) != 0) {
        tools_free(t);
        (void)shoali_fail(SHOAL_ENOMEM, "zstd: no memory for a context");
        return NULL;
    }
    return t;
}

static size_t block_bound(size_t n)
{
    return n > 0 ? sizeof(uint32_t) + ZSTD_compressBound(n * sizeof(float)) : 0;
}

static size_t bound(const void *params, size_t count, uint32_t parts)
{
    (void)params, (void)parts;
    return count / BLOCK * block_bound(BLOCK) + block_bound(count % BLOCK);
}

static void shuffle(const float *src, size_t n, uint8_t *planes)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &src[i], sizeof bits);
        for (size_t p = 0; p < 4; p++)
            planes[p * n + i] = (uint8_t)(bits >> 8 * p);
    }
}

static void unshuffle(const uint8_t *planes, size_t n, float *dst)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = 0;
        for (size_t p = 0; p < 4; p++)
            bits |= (uint32_t)planes[p * n + i] << 8 * p;
        memcpy(&dst[i], &bits, sizeof bits);
    }
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    const zstd_params *p = params;
    uint8_t *to = dst;
    (void)at;
    tools *t = tools_of_thread();
    if (t == NULL)
        return SHOAL_ENOMEM;
    for (size_t i = 0, n; i < count; i += n) {
        n = count - i < BLOCK ? count - i : BLOCK;
        const void *from = src + i;
        if (p->shuffle) {
            shuffle(src + i, n, t->planes);
            from = t->planes;
        }
        size_t room = capacity - (size_t)(to - dst) - sizeof(uint32_t);
        size_t bytes = ZSTD_compressCCtx(t->compress, to + sizeof(uint32_t), room, from,
                                         n * sizeof *src, (int)p->level);
        if (ZSTD_isError(bytes))
            return shoali_fail(SHOAL_ENOMEM, "zstd: %s", ZSTD_getErrorName(bytes));
        const uint32_t length = (uint32_t)bytes;
        memcpy(to, &length, sizeof length);
        to += sizeof length + bytes;
    }
    *written_out = (size_t)(to - dst);
    return SHOAL_OK;
}

/* One block to floats in t->values; its bytes, or 0 if it is corrupt. */
static size_t open_block(const zstd_params *p, tools *t, const uint8_t *src, size_t len_bytes,
                         size_t n)
{
    uint32_t length;
    if (len_bytes < sizeof length)
        return 0;
    memcpy(&length, src, sizeof length);
    if (length > len_bytes - sizeof length)
        return 0;
    void *to = p->shuffle ? (void *)t->planes : (void *)t->values;
    size_t bytes = ZSTD_decompressDCtx(t->decompress, to, n * sizeof(float), src + sizeof length,
                                       length);
    if (ZSTD_isError(bytes) || bytes != n * sizeof(float))
        return 0;
    if (p->shuffle)
        unshuffle(t->planes, n, t->values);
    return sizeof length + length;
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    size_t used = 0;
    tools *t = tools_of_thread();
    if (t == NULL)
        return SHOAL_ENOMEM;
    for (size_t i = 0, n; i < count; i += n) {
        n = count - i < BLOCK ? count - i : BLOCK;
        size_t bytes = open_block(params, t, src + used, len_bytes - used, n);
        if (bytes == 0)
            return shoali_fail(SHOAL_ECORRUPT, "zstd: no frame of the %zu elements from %zu on", n,
                               at->first + i);
        used += bytes;
        if (add)
            shoali_kernel()->add(dst + i, t->values, n);
        else
            shoali_kernel()->copy(dst + i, t->values, n);
    }
    *read_out = used;
    return SHOAL_OK;
}

const shoali_codec_row shoali_codec_zstd = {
    .name = "zstd",
    .paper = "RFC 8878, by libzstd; the bytes shuffled as in Blosc",
    .traits = SHOAL_CODEC_LOSSLESS | SHOAL_CODEC_NAN_SAFE,
    .bytes_per_elem = 3.45F,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(zstd_params)},
    .wire_id = wire_id,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
