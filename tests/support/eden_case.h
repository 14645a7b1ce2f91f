/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of eden:allot=energy share: values, and coding them. */
#ifndef SHOALI_TESTS_SUPPORT_EDEN_CASE_H
#define SHOALI_TESTS_SUPPORT_EDEN_CASE_H

#include "codec/eden.h"

enum {
    EDEN_GROUP = SHOALI_EDEN_ROW * SHOALI_EDEN_ROWS,
    EDEN_COUNT = EDEN_GROUP + SHOALI_EDEN_MOST + 700,
    EDEN_KINDS = 5
};

/** Expected squared error at 0 .. 4 bits: D / (1 - D), or D with feedback, of the distortions in
 * Max's table. */
double eden_case_error(unsigned bits, bool ef);
shoal_codec *eden_case_open(const char *spec);
float eden_case_draw(int kind, size_t i);
/** EDEN_COUNT of them. */
const float *eden_case_data(int kind);
/** Into eden_coded, of the stated size; the length. */
size_t eden_case_encode(const shoal_codec *codec, uint64_t stream, const float *src, size_t count);
void eden_case_decode(const shoal_codec *codec, uint64_t stream, size_t length, float *got,
                      size_t count);
double eden_case_energy(const float *x, size_t count);
extern uint8_t eden_coded[EDEN_COUNT * 4];

#endif
