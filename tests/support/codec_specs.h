/* SPDX-License-Identifier: Apache-2.0 */
/* The specs that conformance tests and fuzzers try of a codec row. They follow from its schema, so
 * a new key is covered without a new test. */
#ifndef SHOALI_TESTS_SUPPORT_CODEC_SPECS_H
#define SHOALI_TESTS_SUPPORT_CODEC_SPECS_H

#include "codec/codec.h"

enum { CODEC_SPEC_BYTES = 160 };

/** Spec i of a row: the defaults, then each key alone at each of its values (flags, choices) or at
 * both ends of its range, then the few combinations that codec_specs.c names. False behind the
 * last. */
bool codec_spec(const shoali_codec_row *row, size_t i, char spec_out[CODEC_SPEC_BYTES]);

#endif
