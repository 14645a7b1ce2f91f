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

/**
 * Step k (from 0) among those whose workers go apart: how many steps have been made since they last
 * met, this one included, if they meet behind it, else 0. They meet behind every 1st, then 2nd,
 * 4th, .. step, each for `doubling` steps, at last behind every `most`th (a power of two); doubling
 * 0: so from the first on.
 */
uint64_t shoali_local_run(uint64_t k, uint64_t most, uint64_t doubling);

#endif
