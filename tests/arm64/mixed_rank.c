/* SPDX-License-Identifier: Apache-2.0 */
/* The same program on hosts of two kinds (tests/arm64/mixed.py, make check-arm64):
 *
 *     mixed_rank bytes                 digests of what every codec makes of the same floats
 *     mixed_rank job [TRANSPORT]       a rank: digests of what every codec's all-reduce gives
 *
 * The floats are made in integers, so that no mathematical library has a say in them. */
#include "support/check.h"

#include "base/rng.h"
#include "kernel/kernel.h"
#include "shoal/shoal.h"
#include "support/codec_case.h"
#include "wire/crc32c.h"

enum { HEIGHT = 250, WIDTH = 280, MOST = HEIGHT * WIDTH, KINDS = 4 };

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Kind 0: 24-bit fractions below 1. 1: of many sizes. 2: mostly zeros, in runs. 3: a few levels. */
static float value(int kind, uint64_t stream, size_t i)
{
    const uint64_t r = shoali_rng_u64(check_seed(), stream, i);
    const float fraction = (float)((int32_t)(r >> 40) - (1 << 23)) * 0x1p-23f;
    const uint32_t exponent = 127 - (uint32_t)(r >> 8) % 30;
    switch (kind) {
    case 0:
        return fraction;
    case 1:
        return fraction * float_of(exponent << 23);
    case 2:
        return shoali_rng_u64(check_seed(), stream + 1, i / 50) % 8 != 0 ? 0 : fraction * 0x1p-4f;
    default:
        return (float)((int)(r % 7) - 3) * 0x1p-5f;
    }
}

static float *values(int kind, uint64_t stream, size_t count)
{
    float *x = exactly(count * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = value(kind, stream, i);
    return x;
}

/* ---------------------------------------------------------------- bytes */

static void print_bytes(const shoal_codec *codec)
{
    static const size_t counts[] = {1, 100, 1025, 5000};
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            float *src = values(kind, 100 + 2 * (uint64_t)kind, counts[i]);
            codec_place place;
            codec_place_init(&place, codec, src, counts[i]);
            coded c = codec_encode(codec, &place, src, counts[i]);
            float *got = codec_decode(codec, &place, c, counts[i]);
            printf("%s floats %d count %zu: %zu bytes %08x, values %08x\n", shoal_codec_spec(codec),
                   kind, counts[i], c.length, shoali_crc32c(0, c.bytes, c.length),
                   shoali_crc32c(0, got, counts[i] * sizeof *got));
            free(got);
            free(c.bytes);
            free(src);
        }
}

/* ---------------------------------------------------------------- job */

static const char *carrier(const char *codec)
{
    return shoal_codec_carried(codec, "ring") == SHOAL_OK ? "ring" : "gather";
}

static const char *promise(const char *name)
{
    shoal_codec *codec;
    assert_ok(shoal_codec_open(name, &codec));
    const bool lossless = (shoal_codec_traits(codec) & SHOAL_CODEC_LOSSLESS) != 0;
    shoal_codec_close(codec);
    return lossless ? "lossless" : "lossy";
}

/* All-reduce of one matrix, which some codecs need. */
static void sum_of(shoal_comm *comm, const char *codec, float *x)
{
    const shoal_tensor matrix = {
        .key = 7, .count = MOST, .rows = HEIGHT, .cols = WIDTH, .lr_scale = 1};
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    shoal_op *op = NULL;
    desc.buf = x;
    desc.count = MOST;
    desc.tensors = &matrix;
    desc.tensor_count = 1;
    desc.collective = carrier(codec);
    desc.push_codec = codec;
    assert_ok(shoal_op_start(comm, &desc, &op));
    assert_ok(shoal_op_wait(&op, -1, NULL));
}

static void print_sums(shoal_comm *comm, uint32_t rank)
{
    const char *name;
    for (size_t i = 0; (name = shoal_codec_row_name(i)) != NULL; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            float *x = values(kind, 1000 + 100 * (uint64_t)rank + 2 * (uint64_t)kind, MOST);
            sum_of(comm, name, x);
            printf("rank %u %s %s floats %d: sum %08x\n", rank, promise(name), name, kind,
                   shoali_crc32c(0, x, MOST * sizeof *x));
            free(x);
        }
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "bytes") == 0) {
        each_codec(print_bytes);
        return EXIT_SUCCESS;
    }
    if (argc < 2 || argc > 3 || strcmp(argv[1], "job") != 0) {
        fprintf(stderr, "usage: mixed_rank bytes | job [TRANSPORT]\n");
        return 2;
    }
    shoal_comm_desc desc = SHOAL_COMM_DESC_INIT;
    shoal_comm *comm = NULL;
    shoal_view view;
    desc.transport = argc == 3 ? argv[2] : NULL;
    desc.join_timeout_us = 120000000; /* an emulated rank starts slowly */
    desc.peer_timeout_us = 60000000;
    assert_ok(shoal_comm_create(&desc, &comm));
    assert_ok(shoal_comm_view(comm, &view));
    printf("rank %u kernels %s\n", view.rank, shoali_kernel()->name);
    print_sums(comm, view.rank);
    shoal_comm_destroy(comm);
    return EXIT_SUCCESS;
}
