/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/find.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "wire/bytes.h"
#include "wire/hello.h"

enum { MAGIC = 0x44464853 /* "SHFD" */, VERSION = 1, SIGNED_BYTES = 32, LABEL_BYTES = 16 };

static bool sign(const uint8_t *head, const char *job, const uint8_t *token, size_t token_bytes,
                 uint8_t mac_out[SHOALI_MAC_BYTES])
{
    uint8_t text[LABEL_BYTES + SIGNED_BYTES + SHOALI_JOB_BYTES] = "shoal find";
    unsigned mac_bytes = 0;
    memcpy(text + LABEL_BYTES, head, SIGNED_BYTES);
    memcpy(text + LABEL_BYTES + SIGNED_BYTES, job, strnlen(job, SHOALI_JOB_BYTES - 1));
    return token_bytes > 0 && token_bytes <= INT32_MAX &&
           HMAC(EVP_sha256(), token, (int)token_bytes, text, sizeof text, mac_out, &mac_bytes) !=
               NULL &&
           mac_bytes == SHOALI_MAC_BYTES;
}

bool shoali_find_encode(const shoali_find *find, const char *job, const uint8_t *token,
                        size_t token_bytes, uint8_t out[SHOALI_FIND_BYTES])
{
    shoali_put_u32(out, MAGIC);
    shoali_put_u16(out + 4, VERSION);
    out[6] = find->kind;
    out[7] = 0;
    shoali_put_u32(out + 8, find->endpoint);
    shoali_put_u16(out + 12, find->port);
    shoali_put_u16(out + 14, 0);
    memcpy(out + 16, find->nonce, SHOALI_FIND_NONCE_BYTES);
    return sign(out, job, token, token_bytes, out + SIGNED_BYTES);
}

bool shoali_find_decode(const uint8_t *bytes, size_t len_bytes, const char *job,
                        const uint8_t *token, size_t token_bytes, shoali_find *find_out)
{
    uint8_t mac[SHOALI_MAC_BYTES];
    if (len_bytes != SHOALI_FIND_BYTES || shoali_get_u32(bytes) != MAGIC ||
        shoali_get_u16(bytes + 4) != VERSION || bytes[7] != 0 || shoali_get_u16(bytes + 14) != 0)
        return false;
    shoali_find find = {.kind = bytes[6],
                        .endpoint = shoali_get_u32(bytes + 8),
                        .port = shoali_get_u16(bytes + 12)};
    memcpy(find.nonce, bytes + 16, SHOALI_FIND_NONCE_BYTES);
    if ((find.kind != SHOALI_FIND_ASK || find.port != 0) &&
        (find.kind != SHOALI_FIND_TELL || find.port == 0))
        return false;
    if (!sign(bytes, job, token, token_bytes, mac) ||
        CRYPTO_memcmp(mac, bytes + SIGNED_BYTES, sizeof mac) != 0)
        return false;
    *find_out = find;
    return true;
}
