/* SPDX-License-Identifier: Apache-2.0 */
/* The codec of docs/add-codec.md. It stands outside the table, so only tests open it. */
#ifndef SHOALI_TESTS_SUPPORT_EXAMPLE_CODEC_H
#define SHOALI_TESTS_SUPPORT_EXAMPLE_CODEC_H

#include "codec/codec.h"

extern const shoali_codec_row shoali_codec_example;

#endif
