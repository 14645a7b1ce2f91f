/* SPDX-License-Identifier: Apache-2.0 */
/* Places where a job can meet, without races. */
#ifndef SHOALI_TESTS_SUPPORT_PORTS_H
#define SHOALI_TESTS_SUPPORT_PORTS_H

#include <stddef.h>
#include <stdint.h>

/** A loopback port that the kernel chose and gives to nobody else while *fd_out is open; a listener
 * with SO_REUSEADDR may take it. */
uint16_t port_reserve(int *fd_out);

/** "tcp://127.0.0.1:PORT" or "file:///tmp/..", fresh; hold *fd_out open (-1: nothing to hold). */
void place_reserve(const char *scheme, char *place, size_t place_bytes, int *fd_out);
void place_release(const char *place, int fd);

#endif
