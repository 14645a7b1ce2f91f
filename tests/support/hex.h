/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHOALI_TESTS_SUPPORT_HEX_H
#define SHOALI_TESTS_SUPPORT_HEX_H

#include "support/check.h"

/** "0aff.." as bytes; fails the test on anything else or beyond capacity. @return number of
 * bytes */
size_t hex_parse(const char *text, uint8_t *out, size_t capacity);

#endif
