/* SPDX-License-Identifier: Apache-2.0 */
/* What workers of `ripples` say to one machine under test, and one of its iterations. */
#ifndef SHOALI_TESTS_SUPPORT_RIPPLES_TALK_H
#define SHOALI_TESTS_SUPPORT_RIPPLES_TALK_H

#include "support/machine.h"

/* Messages: kind, two numbers, for GROUP a bitmap of members. */
enum { REQUEST = 1, GROUP, DONE, HELLO, ENDED, SKIPPED, GOODBYE = 0xf5 };

/** A message from peer; the text of what it led to. */
const char *ripples_tell(machine *m, uint32_t peer, uint8_t kind, uint64_t a, uint64_t b,
                         uint8_t bitmap);
/** Gradients, update, and what the machine does behind it. */
const char *ripples_iterate(machine *m);

#endif
