/* SPDX-License-Identifier: Apache-2.0 */
/* Steps at distances that double: what codec/onebit.c and the optimisers behind it agree on without
 * a word. */
#ifndef SHOALI_BASE_RENEWALS_H
#define SHOALI_BASE_RENEWALS_H

#include <stdint.h>

/**
 * Of the first `steps` steps, how many renew the variance: k_0 = 0,
 * k_{j+1} = k_j + 2^floor(j/kappa) (Lu et al., "Maximizing Communication Efficiency for Large-scale
 * Training via 0/1 Adam", ICLR 2023). kappa 0: all.
 */
uint64_t shoali_renewals(uint64_t steps, uint64_t kappa);

#endif
