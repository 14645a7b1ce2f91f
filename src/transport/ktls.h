/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's TLS: once a connection has agreed on its keys, records are made and opened below the
 * socket, and the process sends and receives clear bytes. Linux with CONFIG_TLS; TLS 1.3 with
 * AES-128-GCM, the one cipher of tls.c. `shoal doctor` tells. */
#ifndef SHOALI_TRANSPORT_KTLS_H
#define SHOALI_TRANSPORT_KTLS_H

#include <linux/tls.h>
#include <stdbool.h>
#include <stdint.h>

enum { SHOALI_KTLS_SECRET_BYTES = 32 };

/** What the kernel wants to know of one direction: key and nonce that follow from the direction's
 * traffic secret (RFC 8446, 7.3), from its first record on. False: libcrypto cannot. */
bool shoali_ktls_info(const uint8_t secret[SHOALI_KTLS_SECRET_BYTES],
                      struct tls12_crypto_info_aes_gcm_128 *info_out);

/** Whether this kernel has it; a connection is not needed. */
bool shoali_ktls_here(void);
/** A connected TCP socket is to have it; nothing changes yet. False: the kernel cannot. */
bool shoali_ktls_attach(int fd);
/** direction: TLS_TX or TLS_RX. From here on this direction is the kernel's. False: it is not. */
bool shoali_ktls_use(int fd, int direction, const uint8_t secret[SHOALI_KTLS_SECRET_BYTES]);

#endif
