/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams that anybody on a cable can send: nobody without the token is believed. */
#include <stdlib.h>

#include "wire/find.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    static const uint8_t token[16] = "unknown to them";
    shoali_find find;
    if (shoali_find_decode(bytes, len_bytes, "golden", token, sizeof token, &find))
        abort();
    return 0;
}
