/* SPDX-License-Identifier: Apache-2.0 */
/* blockint: integers in units of twice an error bound, one width per block of 32. blockint.h has
 * the format.
 *
 * The bound holds: an encode errs by at most `bound`, and sums of coded values are exact, so that
 * an all-reduce of N ranks errs by at most N bounds, however many hops it takes. `rel` puts the
 * bound in units of each tensor's rms, the largest over all ranks: an absolute bound far above the
 * gradients loses them, unless error feedback (default) carries them over. The bound counts rounded
 * down to a power of two; steps are then exact in float32. */
#include "codec/blockint.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "kernel/kernel.h"

enum { BLOCK = SHOALI_BLOCKINT_BLOCK };

typedef struct blockint_params {
    double bound, rel;
    bool ef;
} blockint_params;

#define AT(field) offsetof(blockint_params, field)
static const shoali_key keys[] = {
    {"bound", SHOALI_KEY_FLOAT, AT(bound), 0x1p-30, 0x1p30, NULL, "2^-10",
     "largest error; rounded down to a power of two"},
    {"rel", SHOALI_KEY_FLOAT, AT(rel), 0, 0x1p10, NULL, "0",
     "the bound in units of each tensor's rms instead; 0: off"},
    SHOALI_CODEC_KEY_EF(blockint_params, "on"),
};

static uint16_t wire_id(const void *params)
{
    (void)params;
    return 40;
}

/* Sums are exact below 2^24 steps. That is promised where values of 2^8, or of 2^12 times the rms,
 * stay below: with finer steps a float32 has no room for them. */
static uint32_t more_traits(const void *params)
{
    const blockint_params *p = params;
    uint32_t traits = p->rel > 0 ? SHOAL_CODEC_MEASURE | SHOAL_CODEC_PER_TENSOR : 0;
    return (p->rel > 0 ? p->rel >= 0x1p-12 : p->bound >= 0x1p-16) ? traits | SHOAL_CODEC_SUMMABLE
                                                                  : traits;
}

static double error_bound(const void *params)
{
    const blockint_params *p = params;
    return p->rel > 0 ? (double)INFINITY : ldexp(1, ilogb(p->bound));
}

/* A tensor of zeros takes the absolute bound. */
static shoali_blockint_rule rule_of(const blockint_params *p, const shoal_codec_at *at)
{
    enum { LIMIT = 126 };
    double relative = p->rel > 0 ? p->rel * (double)at->shared[0] : 0;
    double bound = relative > 0 && isfinite(relative) ? relative : p->bound;
    int exponent = ilogb(bound) + 1;
    return shoali_blockint_rule_make(exponent < -LIMIT  ? -LIMIT
                                     : exponent > LIMIT ? LIMIT
                                                        : exponent);
}

static const shoali_blockint_loops *loops(void)
{
#if defined(__x86_64__)
    if (shoali_kernel()->avx2)
        return &shoali_blockint_avx2;
#elif defined(__aarch64__)
    if (shoali_kernel()->neon)
        return &shoali_blockint_neon;
#endif
    return &shoali_blockint_ref;
}

static size_t blocks_of(size_t count)
{
    return count / BLOCK + (count % BLOCK != 0);
}

static size_t header_bytes(size_t count)
{
    return (blocks_of(count) + 1) / 2;
}

static size_t block_count(size_t count, size_t block)
{
    size_t left = count - block * BLOCK;
    return left < BLOCK ? left : BLOCK;
}

static size_t bound(const void *params, size_t count, uint32_t parts)
{
    (void)params, (void)parts;
    return header_bytes(count) + blocks_of(count) + count * sizeof(float);
}

static void put_code(uint8_t *header, size_t block, unsigned code)
{
    if (block % 2 == 0)
        header[block / 2] = (uint8_t)code;
    else
        header[block / 2] |= (uint8_t)(code << 4);
}

static unsigned code_at(const uint8_t *header, size_t block)
{
    return header[block / 2] >> block % 2 * 4 & 15;
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    const shoali_blockint_rule rule = rule_of(params, at);
    const shoali_blockint_loops *loop = loops();
    const size_t full = count / BLOCK;
    uint8_t *payload = dst + header_bytes(count);
    unsigned code;
    (void)capacity;
    for (size_t b = 0; b < full; b++) {
        payload += loop->put(&rule, src + b * BLOCK, payload, &code);
        put_code(dst, b, code);
    }
    if (count % BLOCK != 0) {
        payload += shoali_blockint_put(&rule, src + full * BLOCK, count % BLOCK, payload, &code);
        put_code(dst, full, code);
    }
    *written_out = (size_t)(payload - dst);
    return SHOAL_OK;
}

static shoal_status corrupt(const shoal_codec_at *at, size_t len_bytes, size_t count)
{
    return shoali_fail(SHOAL_ECORRUPT, "blockint: %zu bytes do not hold the %zu elements from %zu",
                       len_bytes, count, at->first);
}

/* Header and the code of a block that does not exist. */
static bool header_fits(const uint8_t *src, size_t len_bytes, size_t count)
{
    size_t blocks = blocks_of(count);
    return len_bytes >= header_bytes(count) && (blocks % 2 == 0 || code_at(src, blocks) == 0);
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    const shoali_blockint_rule rule = rule_of(params, at);
    const shoali_blockint_loops *loop = loops();
    size_t used = header_bytes(count);
    if (!header_fits(src, len_bytes, count))
        return corrupt(at, len_bytes, count);
    for (size_t b = 0, bytes; b < blocks_of(count); b++, used += bytes) {
        size_t n = block_count(count, b);
        unsigned code = code_at(src, b);
        bytes = n == BLOCK
                    ? loop->get(&rule, code, src + used, len_bytes - used, dst, add)
                    : shoali_blockint_get(&rule, code, src + used, len_bytes - used, dst, n, add);
        if (bytes == SHOALI_BLOCKINT_CORRUPT)
            return corrupt(at, len_bytes, count);
        dst += n;
    }
    *read_out = used;
    return SHOAL_OK;
}

/* One of the two inputs of a sum. */
typedef struct reader {
    const shoali_coded *coded;
    size_t used;
} reader;

/* The next block's code and payload; false: corrupt. */
static bool next_block(reader *r, size_t block, size_t count, unsigned *code_out,
                       const uint8_t **payload_out)
{
    unsigned width;
    *code_out = code_at(r->coded->bytes, block);
    *payload_out = r->coded->bytes + r->used;
    size_t bytes = shoali_blockint_size(*code_out, *payload_out, r->coded->len_bytes - r->used,
                                        count, &width);
    if (bytes == SHOALI_BLOCKINT_CORRUPT)
        return false;
    r->used += bytes;
    return true;
}

static shoal_status add(const void *params, const shoal_codec_at *at, const shoali_coded *a,
                        const shoali_coded *b, size_t count, uint8_t *dst, size_t capacity,
                        size_t *written_out)
{
    const shoali_blockint_rule rule = rule_of(params, at);
    reader in[2] = {{a, header_bytes(count)}, {b, header_bytes(count)}};
    uint8_t *payload = dst + header_bytes(count);
    (void)capacity;
    if (!header_fits(a->bytes, a->len_bytes, count) || !header_fits(b->bytes, b->len_bytes, count))
        return corrupt(at, a->len_bytes, count);
    for (size_t i = 0; i < blocks_of(count); i++) {
        const uint8_t *pa, *pb;
        unsigned ca, cb, code;
        size_t n = block_count(count, i);
        if (!next_block(&in[0], i, n, &ca, &pa) || !next_block(&in[1], i, n, &cb, &pb))
            return corrupt(at, a->len_bytes, count);
        payload += shoali_blockint_add(&rule, ca, pa, cb, pb, n, payload, &code);
        put_code(dst, i, code);
    }
    if (in[0].used != a->len_bytes || in[1].used != b->len_bytes)
        return corrupt(at, a->len_bytes, count);
    *written_out = (size_t)(payload - dst);
    return SHOAL_OK;
}

static shoal_status measure(const void *params, const shoal_tensor *tensor, const float *src,
                            float *shared_out)
{
    (void)params;
    double sum = shoali_kernel()->sumsq(src, tensor->count);
    shared_out[0] = tensor->count > 0 ? (float)sqrt(sum / (double)tensor->count) : 0;
    return SHOAL_OK;
}

const shoali_codec_row shoali_codec_blockint = {
    .name = "blockint",
    .paper = "the idea of hZCCL (Huang et al., SC 2024): blocks of integers that add in coded "
             "form; ours: bit planes, powers of two",
    .traits = SHOAL_CODEC_NAN_SAFE,
    .bytes_per_elem = 0.7F,
    .shared_count = 1,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(blockint_params)},
    .wire_id = wire_id,
    .more_traits = more_traits,
    .error_bound = error_bound,
    .bound = bound,
    .encode = encode,
    .decode = decode,
    .add = add,
    .measure = measure,
};
