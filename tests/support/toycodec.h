/* SPDX-License-Identifier: Apache-2.0 */
/* A lossy codec of variable length for tests of whoever carries codecs. It rounds to multiples of q
 * towards zero, or with `random` up or down by chance. Every piece begins with a hash of what both
 * ends have to know (seed, stream, position, parts, tensor), so a decode in the wrong place is
 * ECORRUPT. Keys: q, random, per_tensor, slots, ef. NaN and infinity are refused. */
#ifndef SHOALI_TESTS_SUPPORT_TOYCODEC_H
#define SHOALI_TESTS_SUPPORT_TOYCODEC_H

#include "codec/codec.h"

extern const shoali_codec_row toy_codec_row;

/** Opened from "toy:q=0.25,ef"; closed by shoal_codec_close. Fails the test on error. */
shoal_codec *toy_codec_open(const char *spec);

#endif
