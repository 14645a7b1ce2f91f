/* SPDX-License-Identifier: Apache-2.0 */
/* Callers who connect to ports of ours and say nothing. */
#ifndef SHOALI_TESTS_SUPPORT_STRANGERS_H
#define SHOALI_TESTS_SUPPORT_STRANGERS_H

#include <stdint.h>

typedef struct strangers strangers;

/** Make `count` connections to a loopback port, as soon as somebody listens there, and from then on
 * one every few milliseconds. */
strangers *strangers_start(uint16_t port, uint32_t count);
/** Close them all. */
void strangers_stop(strangers *s);

#endif
