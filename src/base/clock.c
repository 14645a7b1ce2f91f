/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static uint64_t read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now); /* cannot fail: the ids are fixed and the pointer is valid */
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t shoali_now_us(void)
{
    return read_ns(CLOCK_MONOTONIC) / 1000;
}

uint64_t shoali_now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

uint64_t shoali_thread_cpu_ns(void)
{
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t shoali_process_cpu_ns(void)
{
    return read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void shoali_utc(char out[SHOALI_UTC_BYTES])
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    const size_t used = strftime(out, 24, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &parts));
    snprintf(out + used, SHOALI_UTC_BYTES - used, ".%03ldZ", now.tv_nsec / 1000000);
}
