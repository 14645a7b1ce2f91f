/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that nobody can guess, for nonces, secrets and names. What is to be repeated takes
 * base/rng.h. */
#ifndef SHOALI_BASE_RANDOM_H
#define SHOALI_BASE_RANDOM_H

#include <stddef.h>

#include "shoal/status.h"

/** Fill with random bytes from the kernel. */
SHOAL_MUST_USE shoal_status shoali_random(void *bytes, size_t len_bytes);

#endif
