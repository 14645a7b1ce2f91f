/* SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"

#include <stdbool.h>
#include <string.h>

#include "codec/inceptionn.h"

golden_element golden_code(uint32_t k, int strict, uint32_t bits)
{
    shoali_inc_rule rule = shoali_inc_rule_make(k, 0, strict != 0);
    float x, y = 0;
    uint16_t word;
    memcpy(&x, &bits, sizeof x);
    golden_element e = {.tag = shoali_inc_classify(&rule, x, &word)};
    switch (e.tag) {
    case SHOALI_INC_RAW:
        e.payload = e.decoded = bits;
        return e;
    case SHOALI_INC_WORD:
        e.payload = word;
        y = shoali_inc_value(&rule, word);
        break;
    case SHOALI_INC_BYTE:
        e.payload = word >> 8;
        y = shoali_inc_value(&rule, (uint16_t)(word & 0xff00));
        break;
    default:
        break;
    }
    memcpy(&e.decoded, &y, sizeof y);
    return e;
}

size_t golden_encode(uint32_t k, int strict, const float *src, size_t count, uint8_t *dst)
{
    shoali_inc_rule rule = shoali_inc_rule_make(k, 0, strict != 0);
    return shoali_inc_ref_interleaved.encode(&rule, src, count, dst);
}

size_t golden_decode(uint32_t k, int strict, const uint8_t *src, size_t len_bytes, float *dst,
                     size_t count)
{
    shoali_inc_rule rule = shoali_inc_rule_make(k, 0, strict != 0);
    return shoali_inc_ref_interleaved.decode(&rule, src, len_bytes, dst, count, false);
}
