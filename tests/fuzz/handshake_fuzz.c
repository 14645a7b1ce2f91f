/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a stranger sends while a connection is opened: it never gets in without the token. The
 * first byte chooses the side and how the rest is cut into reads. */
#include <stdlib.h>
#include <string.h>

#include "wire/handshake.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    static const uint8_t token[16] = "unknown to them";
    shoali_hello self = {.endpoint = 2, .target = 5, .job = "golden"};
    shoali_handshake handshake;
    if (len_bytes < 1)
        return 0;
    size_t piece = 1 + bytes[0] / 2, at = 1;
    shoali_handshake_start(&handshake, bytes[0] % 2 != 0, &self, token, sizeof token);
    while (at < len_bytes) {
        size_t take = shoali_handshake_want(&handshake);
        take = take < piece ? take : piece;
        take = take < len_bytes - at ? take : len_bytes - at;
        shoal_status status = shoali_handshake_feed(&handshake, bytes + at, take);
        if (status == SHOAL_OK || handshake.done || handshake.out_len > sizeof handshake.out)
            abort();
        if (status != SHOAL_PENDING)
            return 0;
        handshake.out_len = 0;
        at += take;
    }
    return 0;
}
