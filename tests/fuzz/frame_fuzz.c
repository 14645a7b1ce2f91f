/* SPDX-License-Identifier: Apache-2.0 */
/* Frame headers: refused with a reason, or within bounds and equal to their own encoding. */
#include <stdlib.h>
#include <string.h>

#include "wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    shoali_frame frame;
    uint8_t again[SHOALI_FRAME_BYTES];
    for (size_t at = 0; at + SHOALI_FRAME_BYTES <= len_bytes; at += SHOALI_FRAME_BYTES) {
        if (shoali_frame_decode(bytes + at, &frame) != SHOAL_OK) {
            if (shoal_last_error()->text[0] == '\0')
                abort();
            continue;
        }
        if (frame.head.len_bytes > SHOALI_FRAME_MAX_BODY_BYTES ||
            (frame.kind != SHOALI_MESSAGE_data &&
             frame.head.len_bytes > SHOALI_FRAME_MAX_CONTROL_BYTES))
            abort();
        shoali_frame_encode(&frame, again);
        if (memcmp(again, bytes + at, sizeof again) != 0)
            abort();
    }
    return 0;
}
