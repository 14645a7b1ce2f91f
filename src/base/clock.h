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

#endif
