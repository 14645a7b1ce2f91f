/* SPDX-License-Identifier: Apache-2.0 */
/* Address texts: refused with a reason, or equal to themselves after format and parse. */
#include <stdlib.h>
#include <string.h>

#include "transport/address.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    char text[2 * SHOALI_ADDRESS_BYTES], again[SHOALI_ADDRESS_BYTES], third[SHOALI_ADDRESS_BYTES];
    shoali_address address, copy;
    if (len_bytes >= sizeof text)
        return 0;
    memcpy(text, bytes, len_bytes);
    text[len_bytes] = '\0';
    if (shoali_address_parse(text, &address) != SHOAL_OK) {
        if (shoal_last_error()->text[0] == '\0')
            abort();
        return 0;
    }
    if (address.host[0] == '\0' || address.boot[0] == '\0')
        return 0; /* optional when read, always there when written */
    shoali_address_format(&address, again);
    if (shoali_address_parse(again, &copy) != SHOAL_OK)
        abort();
    shoali_address_format(&copy, third);
    if (strcmp(again, third) != 0)
        abort();
    return 0;
}
