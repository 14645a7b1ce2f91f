/* SPDX-License-Identifier: Apache-2.0 */
/* Codes of one byte each to fewer bits and back, eight at a time within a word. */
#include <string.h>

#include "codec/terngrad.h"

static uint64_t load(const uint8_t *src, size_t bytes)
{
    uint64_t word = 0;
    memcpy(&word, src, bytes);
    return word;
}

/* Eight bytes below 2^bits to 8 x bits bits: neighbours move together, then pairs, then fours. */
static uint64_t squeeze(uint64_t x, uint32_t bits)
{
    x = (x & 0x00ff00ff00ff00ffu) | (x & 0xff00ff00ff00ff00u) >> (8 - bits);
    x = (x & 0x0000ffff0000ffffu) | (x & 0xffff0000ffff0000u) >> (16 - 2 * bits);
    return (x & 0x00000000ffffffffu) | (x & 0xffffffff00000000u) >> (32 - 4 * bits);
}

static uint64_t spread(uint64_t x, uint32_t bits)
{
    const uint64_t four = ((uint64_t)1 << 4 * bits) - 1, two = ((uint64_t)1 << 2 * bits) - 1;
    const uint64_t one = ((uint64_t)1 << bits) - 1;
    x = (x & four) | (x >> 4 * bits & four) << 32;
    x = (x & two * 0x0000000100000001u) | (x >> 2 * bits & two * 0x0000000100000001u) << 16;
    return (x & one * 0x0001000100010001u) | (x >> bits & one * 0x0001000100010001u) << 8;
}

void shoali_tern_pack_bits(const uint8_t *codes, size_t count, uint32_t bits, uint8_t *dst)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8, dst += bits) {
        uint64_t word = squeeze(load(codes + i, 8), bits);
        memcpy(dst, &word, bits);
    }
    if (i < count) {
        uint64_t word = squeeze(load(codes + i, count - i), bits);
        memcpy(dst, &word, ((count - i) * bits + 7) / 8);
    }
}

void shoali_tern_unpack_bits(const uint8_t *src, size_t count, uint32_t bits, uint8_t *codes)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8, src += bits) {
        uint64_t word = spread(load(src, bits), bits);
        memcpy(codes + i, &word, 8);
    }
    if (i < count) {
        uint64_t word = spread(load(src, ((count - i) * bits + 7) / 8), bits);
        memcpy(codes + i, &word, count - i);
    }
}

/* Byte 4 of the product is c0 + 3 c1 + 9 c2 + 27 c3 + 81 c4; no byte below it exceeds 240, so
 * nothing is carried into it. */
static uint8_t five(uint64_t codes)
{
    return (uint8_t)((codes & 0xffffffffffu) * 0x0103091b51u >> 32);
}

void shoali_tern_pack_base3(const uint8_t *codes, size_t count, uint8_t *dst)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 5)
        *dst++ = five(load(codes + i, 8));
    for (; i < count; i += 5) {
        uint64_t word = 0x0101010101u;
        memcpy(&word, codes + i, count - i < 5 ? count - i : 5);
        *dst++ = five(word);
    }
}

/* The five digits of each byte below 243, one per byte; row DIGIT_n runs through digit n. */
#define DIGIT_0(w) (w), (w) + 1u, (w) + 2u
#define DIGIT_1(w) DIGIT_0(w), DIGIT_0((w) + 0x100u), DIGIT_0((w) + 0x200u)
#define DIGIT_2(w) DIGIT_1(w), DIGIT_1((w) + 0x10000u), DIGIT_1((w) + 0x20000u)
#define DIGIT_3(w) DIGIT_2(w), DIGIT_2((w) + 0x1000000u), DIGIT_2((w) + 0x2000000u)
#define DIGIT_4(w) DIGIT_3(w), DIGIT_3((w) + 0x100000000u), DIGIT_3((w) + 0x200000000u)
static const uint64_t digits[256] = {DIGIT_4(UINT64_C(0))};

bool shoali_tern_unpack_base3(const uint8_t *src, size_t count, uint8_t *codes)
{
    uint32_t worst = 0;
    for (size_t i = 0; i < count; i += 5) {
        uint32_t x = *src++;
        memcpy(codes + i, &digits[x], sizeof digits[x]);
        worst = x > worst ? x : worst;
    }
    return worst <= 242;
}
