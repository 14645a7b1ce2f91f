/* SPDX-License-Identifier: Apache-2.0 */
/* The library's own inceptionn functions, as a C++ test bench calls them: nothing is computed here
 * that src/codec/inceptionn_ref.c does not compute. */
#ifndef SHOALI_RTL_GOLDEN_H
#define SHOALI_RTL_GOLDEN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One element: its class, its payload in stream order (first byte in bits 7:0), and the bits of
 * what it decodes to. k is 6, 8 or 10. */
typedef struct golden_element {
    uint32_t tag, payload, decoded;
} golden_element;
golden_element golden_code(uint32_t k, int strict, uint32_t bits);

/** A stream in layout `interleaved`; dst holds 2 bytes per 8 elements and 4 per element. */
size_t golden_encode(uint32_t k, int strict, const float *src, size_t count, uint8_t *dst);
/** Bytes read, SIZE_MAX if they do not hold count elements. */
size_t golden_decode(uint32_t k, int strict, const uint8_t *src, size_t len_bytes, float *dst,
                     size_t count);

#ifdef __cplusplus
}
#endif
#endif
