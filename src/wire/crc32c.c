/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/crc32c.h"

#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

/* Remainders of the 16 values of four bits, reflected polynomial 0x82f63b78. */
static const uint32_t nibbles[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

uint32_t shoali_crc32c_plain(uint32_t before, const void *bytes, size_t len_bytes)
{
    const uint8_t *at = bytes;
    uint32_t crc = ~before;
    for (size_t i = 0; i < len_bytes; i++) {
        crc ^= at[i];
        crc = crc >> 4 ^ nibbles[crc & 15];
        crc = crc >> 4 ^ nibbles[crc & 15];
    }
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t before, const uint8_t *at,
                                                               size_t len_bytes)
{
    uint64_t crc = ~before;
    for (; len_bytes >= 8; at += 8, len_bytes -= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    for (; len_bytes > 0; at++, len_bytes--)
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *at);
    return ~(uint32_t)crc;
}
#elif defined(__aarch64__)
enum { HAS_CRC32 = 1 << 7 }; /* HWCAP_CRC32; an option of the first ARMv8, a must from 8.1 on */

/* gcc and clang have no builtin in common for this. */
static inline uint32_t eight_bytes(uint32_t crc, uint64_t word)
{
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    return crc;
}

static inline uint32_t one_byte(uint32_t crc, uint32_t byte)
{
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(byte));
    return crc;
}

static uint32_t crc32c_armv8(uint32_t before, const uint8_t *at, size_t len_bytes)
{
    uint32_t crc = ~before;
    for (; len_bytes >= 8; at += 8, len_bytes -= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        crc = eight_bytes(crc, word);
    }
    for (; len_bytes > 0; at++, len_bytes--)
        crc = one_byte(crc, *at);
    return ~crc;
}
#endif

uint32_t shoali_crc32c(uint32_t before, const void *bytes, size_t len_bytes)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return crc32c_sse42(before, bytes, len_bytes);
#elif defined(__aarch64__)
    if ((getauxval(AT_HWCAP) & HAS_CRC32) != 0)
        return crc32c_armv8(before, bytes, len_bytes);
#endif
    return shoali_crc32c_plain(before, bytes, len_bytes);
}
