/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of links as if members had measured and agreed on them: the same for every member of a
 * size, another set for each draw. Some links are slow, some pairs of members are near. */
#ifndef SHOALI_TESTS_SUPPORT_MADE_RATES_H
#define SHOALI_TESTS_SUPPORT_MADE_RATES_H

#include "collective/rates.h"

enum { MADE_RATES_MAX = 32 };

/** Which set from now on; 0 at first. */
void made_rates_draw(uint32_t draw);
/** NULL: nothing is known, as with more than MADE_RATES_MAX members. Until the next draw. */
const shoali_rates *made_rates(uint32_t size);

#endif
