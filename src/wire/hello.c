/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/hello.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/printable.h"
#include "wire/bytes.h"

enum { MAGIC = 0x4c4f4853 }; /* "SHOL" in memory */

static void put_prefix(shoali_hello_type type, uint8_t *out)
{
    shoali_put_u32(out, MAGIC);
    shoali_put_u16(out + 4, SHOALI_HELLO_VERSION);
    out[6] = (uint8_t)type;
    out[7] = 0;
}

shoal_status shoali_prefix_decode(const uint8_t in[SHOALI_PREFIX_BYTES],
                                  shoali_hello_type *type_out, size_t *bytes_out)
{
    static const size_t bytes[] = {
        [SHOALI_TYPE_HELLO] = SHOALI_HELLO_BYTES,
        [SHOALI_TYPE_PROOF] = SHOALI_PROOF_BYTES,
        [SHOALI_TYPE_REFUSAL] = SHOALI_REFUSAL_BYTES,
    };
    uint16_t version = shoali_get_u16(in + 4);
    uint8_t type = in[6];
    if (shoali_get_u32(in) != MAGIC || type < SHOALI_TYPE_HELLO || type > SHOALI_TYPE_REFUSAL ||
        in[7] != 0)
        return shoali_fail(SHOAL_ECORRUPT, "the other side does not speak Shoal's protocol");
    if (version != SHOALI_HELLO_VERSION && type != SHOALI_TYPE_REFUSAL)
        return shoali_fail(SHOAL_EVERSION, "the other side speaks protocol version %u, this one %u",
                           version, SHOALI_HELLO_VERSION);
    *type_out = (shoali_hello_type)type;
    *bytes_out = bytes[type];
    return SHOAL_OK;
}

void shoali_hello_encode(const shoali_hello *hello, uint8_t out[SHOALI_HELLO_BYTES])
{
    put_prefix(SHOALI_TYPE_HELLO, out);
    shoali_put_u32(out + 8, hello->features);
    out[12] = hello->purpose;
    out[13] = hello->tos;
    shoali_put_u16(out + 14, hello->lane);
    shoali_put_u32(out + 16, hello->endpoint);
    shoali_put_u32(out + 20, hello->target);
    shoali_put_u64(out + 24, hello->incarnation);
    memcpy(out + 32, hello->nonce, SHOALI_NONCE_BYTES);
    memset(out + 64, 0, SHOALI_JOB_BYTES);
    memcpy(out + 64, hello->job, strnlen(hello->job, SHOALI_JOB_BYTES - 1));
}

shoal_status shoali_hello_decode(const uint8_t in[SHOALI_HELLO_BYTES], shoali_hello *hello_out)
{
    if (in[12] > SHOALI_PURPOSE_RELAY)
        return shoali_fail(SHOAL_ECORRUPT, "hello for an unknown purpose %u", in[12]);
    if (memchr(in + 64, '\0', SHOALI_JOB_BYTES) == NULL)
        return shoali_fail(SHOAL_ECORRUPT, "hello with a job name that has no end");
    *hello_out = (shoali_hello){
        .features = shoali_get_u32(in + 8),
        .purpose = in[12],
        .tos = in[13],
        .lane = shoali_get_u16(in + 14),
        .endpoint = shoali_get_u32(in + 16),
        .target = shoali_get_u32(in + 20),
        .incarnation = shoali_get_u64(in + 24),
    };
    memcpy(hello_out->nonce, in + 32, SHOALI_NONCE_BYTES);
    memcpy(hello_out->job, in + 64, SHOALI_JOB_BYTES);
    return SHOAL_OK;
}

shoal_status shoali_proof(const uint8_t *token, size_t token_bytes, int from_dialler,
                          const uint8_t dialler_hello[SHOALI_HELLO_BYTES],
                          const uint8_t listener_hello[SHOALI_HELLO_BYTES],
                          uint8_t mac_out[SHOALI_MAC_BYTES])
{
    enum { LABEL_BYTES = 16 };
    uint8_t text[LABEL_BYTES + 2 * SHOALI_HELLO_BYTES] = {0};
    unsigned mac_bytes = 0;
    memcpy(text, from_dialler ? "shoal dialler" : "shoal listener", LABEL_BYTES - 2);
    memcpy(text + LABEL_BYTES, dialler_hello, SHOALI_HELLO_BYTES);
    memcpy(text + LABEL_BYTES + SHOALI_HELLO_BYTES, listener_hello, SHOALI_HELLO_BYTES);
    if (token_bytes > INT32_MAX)
        return shoali_fail(SHOAL_EINVAL, "a token of %zu bytes is too long", token_bytes);
    const void *key = token_bytes > 0 ? token : (const uint8_t *)"";
    if (HMAC(EVP_sha256(), key, (int)token_bytes, text, sizeof text, mac_out, &mac_bytes) == NULL ||
        mac_bytes != SHOALI_MAC_BYTES)
        return shoali_fail(SHOAL_ESYSTEM, "libcrypto could not compute an HMAC");
    return SHOAL_OK;
}

void shoali_proof_encode(const uint8_t mac[SHOALI_MAC_BYTES], uint8_t out[SHOALI_PROOF_BYTES])
{
    put_prefix(SHOALI_TYPE_PROOF, out);
    memcpy(out + SHOALI_PREFIX_BYTES, mac, SHOALI_MAC_BYTES);
}

void shoali_refusal_encode(shoal_status status, const char *text, uint8_t out[SHOALI_REFUSAL_BYTES])
{
    memset(out, 0, SHOALI_REFUSAL_BYTES);
    put_prefix(SHOALI_TYPE_REFUSAL, out);
    shoali_put_u16(out + 8, (uint16_t)status);
    memcpy(out + 10, text, strnlen(text, SHOALI_REFUSAL_TEXT_BYTES - 1));
}

shoal_status shoali_refusal_decode(const uint8_t in[SHOALI_REFUSAL_BYTES],
                                   char text_out[SHOALI_REFUSAL_TEXT_BYTES])
{
    memcpy(text_out, in + 10, SHOALI_REFUSAL_TEXT_BYTES);
    text_out[SHOALI_REFUSAL_TEXT_BYTES - 1] = '\0';
    shoali_make_printable(text_out);
    switch (shoali_get_u16(in + 8)) {
    case SHOAL_EVERSION:
        return SHOAL_EVERSION;
    case SHOAL_EPEER:
        return SHOAL_EPEER;
    case SHOAL_EEPOCH:
        return SHOAL_EEPOCH;
    default:
        return SHOAL_EAUTH;
    }
}
