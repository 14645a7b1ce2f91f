/* SPDX-License-Identifier: Apache-2.0 */
/* What comes out of a status socket, as a client reads it, and what goes in, as a rank reads it:
 * whatever is accepted must encode to what decodes to the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "watch/watch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_row(const shoali_status_row *row)
{
    uint8_t first[SHOALI_STATUS_ROW_BYTES], second[SHOALI_STATUS_ROW_BYTES];
    shoali_status_row again;
    shoali_status_row_encode(row, first);
    if (!shoali_status_row_decode(first, sizeof first, &again) ||
        shoali_status_row_encode(&again, second) != sizeof second ||
        memcmp(first, second, sizeof first) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    shoal_watch *watch = NULL;
    (void)shoali_status_ask_decode(data, size);
    if (shoali_watch_read(data, size, &watch) != SHOAL_OK)
        return 0;
    for (uint32_t i = 0; i < watch->head.ranks; i++)
        check_row(&watch->rows[i]);
    shoal_watch_close(watch);
    return 0;
}
