/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

#include "base/error.h"

shoal_status shoali_random(void *bytes, size_t len_bytes)
{
    uint8_t *at = bytes;
    while (len_bytes > 0) {
        ssize_t got = getrandom(at, len_bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return shoali_fail_os(SHOAL_ESYSTEM, errno, "no random numbers from the kernel");
        at += got;
        len_bytes -= (size_t)got;
    }
    return SHOAL_OK;
}
