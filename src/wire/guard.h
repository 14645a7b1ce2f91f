/* SPDX-License-Identifier: Apache-2.0 */
/* Words that pass a float codec in the network unharmed (docs/hardware.md).
 *
 * Such a codec takes every 4 bytes of a marked connection for a float32, and leaves those of 2 and
 * more, infinities and NaNs alone: words whose bit 30 is set. So what is no float is guarded: bit
 * 30 of each word is set, and what it was, of all words but word 1, stands in bits 23 to 29 of word
 * 1, in their order. Those bits and bit 30 of word 1 must be zero before.
 */
#ifndef SHOALI_WIRE_GUARD_H
#define SHOALI_WIRE_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SHOALI_TOS_FLOATS = 0x28, /* IP ToS of connections whose floats the network may code */
    SHOALI_GUARD_MAX_WORDS = 8
};

/** In place; words: 2 .. 8, little-endian, any alignment. */
void shoali_guard(uint8_t *bytes, size_t words);
/** Back. False, and nothing changed: not guarded. */
bool shoali_unguard(uint8_t *bytes, size_t words);

#endif
