/* SPDX-License-Identifier: Apache-2.0 */
/* Max-min rates from the definition, from scratch: the second opinion on driver/sim_share.c. */
#ifndef SHOALI_TESTS_SUPPORT_MAX_MIN_H
#define SHOALI_TESTS_SUPPORT_MAX_MIN_H

#include <stdint.h>

/** rates_out[f] of flows whose weights[f * links + l] say what they take of link l per unit of
 * rate. Every flow has a positive weight somewhere. */
void max_min_rates(const double *capacity, uint32_t links, const double *weights, uint32_t flows,
                   double *rates_out);

#endif
