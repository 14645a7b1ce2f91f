/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHOALI_BASE_CLOCK_H
#define SHOALI_BASE_CLOCK_H

#include <stdint.h>

/** Monotonic time in microseconds / nanoseconds. Only comm/, driver/real.c, train, cli and bench
 * call it. */
uint64_t shoali_now_us(void);
uint64_t shoali_now_ns(void);
/** CPU time of the calling thread / the whole process in nanoseconds. */
uint64_t shoali_thread_cpu_ns(void);
uint64_t shoali_process_cpu_ns(void);

enum { SHOALI_UTC_BYTES = 32 };
/** The date and time of day, UTC: "2026-11-25T14:03:22.017Z". */
void shoali_utc(char out[SHOALI_UTC_BYTES]);

#endif
