/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/ktls.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef TCP_ULP
#define TCP_ULP 31
#endif
#ifndef SOL_TLS
#define SOL_TLS 282
#endif

static const char name[] = "tls";

/* HKDF-Expand-Label with an empty context, for up to one hash of output. */
static bool expand(const uint8_t *secret, const char *label, uint8_t *out, size_t out_bytes)
{
    uint8_t info[40] = {0}, block[EVP_MAX_MD_SIZE];
    size_t label_bytes = strlen(label), at = 3 + label_bytes;
    unsigned block_bytes = 0;
    info[1] = (uint8_t)out_bytes; /* two bytes of length, the label's length, the label */
    info[2] = (uint8_t)label_bytes;
    memcpy(info + 3, label, label_bytes);
    info[at + 1] = 1; /* behind the length of no context: the number of the block */
    bool done = HMAC(EVP_sha256(), secret, SHOALI_KTLS_SECRET_BYTES, info, at + 2, block,
                     &block_bytes) != NULL &&
                out_bytes <= block_bytes;
    if (done)
        memcpy(out, block, out_bytes);
    explicit_bzero(block, sizeof block);
    return done;
}

bool shoali_ktls_info(const uint8_t secret[SHOALI_KTLS_SECRET_BYTES],
                      struct tls12_crypto_info_aes_gcm_128 *info_out)
{
    uint8_t nonce[TLS_CIPHER_AES_GCM_128_SALT_SIZE + TLS_CIPHER_AES_GCM_128_IV_SIZE];
    memset(info_out, 0, sizeof *info_out);
    info_out->info.version = TLS_1_3_VERSION;
    info_out->info.cipher_type = TLS_CIPHER_AES_GCM_128;
    if (!expand(secret, "tls13 key", info_out->key, sizeof info_out->key) ||
        !expand(secret, "tls13 iv", nonce, sizeof nonce))
        return false;
    memcpy(info_out->salt, nonce, sizeof info_out->salt);
    memcpy(info_out->iv, nonce + sizeof info_out->salt, sizeof info_out->iv);
    return true;
}

bool shoali_ktls_here(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool here = setsockopt(fd, IPPROTO_TCP, TCP_ULP, name, sizeof name - 1) == 0 ||
                errno == ENOTCONN; /* it is there, and wants a connection */
    close(fd);
    return here;
}

bool shoali_ktls_attach(int fd)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_ULP, name, sizeof name - 1) == 0;
}

bool shoali_ktls_use(int fd, int direction, const uint8_t secret[SHOALI_KTLS_SECRET_BYTES])
{
    struct tls12_crypto_info_aes_gcm_128 info;
    bool done = shoali_ktls_info(secret, &info) &&
                setsockopt(fd, SOL_TLS, direction, &info, sizeof info) == 0;
    explicit_bzero(&info, sizeof info);
    return done;
}
