/* SPDX-License-Identifier: Apache-2.0 */
#include "watch_pin.h"

#include <stdio.h>
#include <string.h>

static const int64_t ASK_US = 1000000;

bool watch_pin(const char *place, const shoal_watch *answer, char name[WATCH_NAME_BYTES])
{
    const char *job;
    uint32_t by;
    double age_s;
    shoal_watch *same;
    if (place == NULL || place[0] == '\0' || place[strspn(place, "0123456789")] != '\0')
        return false;
    shoal_watch_job(answer, &job, &by, &age_s);
    if (shoal_watch_ask(job, ASK_US, &same) != SHOAL_OK)
        return false;
    snprintf(name, WATCH_NAME_BYTES, "%s", job);
    shoal_watch_close(same);
    return true;
}
