/* SPDX-License-Identifier: Apache-2.0 */
/* What somebody who typed an unknown name has probably meant. */
#ifndef SHOAL_CLI_NEAREST_H
#define SHOAL_CLI_NEAREST_H

#include <stddef.h>

/** Letters to change, leave out, add or swap with their neighbour until a is b; SIZE_MAX where one
 * of them is longer than any name here. */
size_t nearest_distance(const char *a, const char *b);
/** What a misspelling of a name differs by at most; what is further off was meant otherwise. */
size_t nearest_most(const char *typed);

#endif
