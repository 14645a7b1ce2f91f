/* SPDX-License-Identifier: Apache-2.0 */
/* `--codec auto`: measure in the first steps, choose once. plan/choose.h decides.
 *
 *   step 1      warm up: float32
 *   step 2      float32 without overlap: the computation alone, then its exchange alone
 *   step 3      the computation alone; then, with copies of its gradients, an exchange of a sample
 *               in every candidate, and of everything in those that the sample puts near the best.
 *               All ranks share the slowest's figures and choose; this step's own exchange is the
 *               first in the chosen codec
 *
 * Exchanges of copies change nothing: what they leave in residuals and transforms is dropped. */
#ifndef SHOALI_WORKER_CODEC_CHOICE_H
#define SHOALI_WORKER_CODEC_CHOICE_H

#include "worker/worker.h"

/** If desc.codec is "auto" or begins with "auto:". Refuses what cannot choose, and codecs that the
 * collective does not carry. On a failure, destroy. */
SHOAL_MUST_USE shoal_status shoali_choice_create(shoal_train *train);
void shoali_choice_destroy(shoal_train *train);

/** This step's exchange has to wait for the end of its backward pass. */
bool shoali_choice_alone(const shoal_train *train);
/** Between backward pass and exchange, all ranges known: measure and choose if it is time.
 * @param probe_us_out how long that took; 0: it was not time */
SHOAL_MUST_USE shoal_status shoali_choice_step(shoal_train *train, uint64_t start_us,
                                               double compute_us, double *probe_us_out);
/** Behind a step. */
void shoali_choice_stepped(shoal_train *train, const shoali_step_times *times);

typedef enum { SHOALI_BOUND_UNCHECKED, SHOALI_BOUND_HELD, SHOALI_BOUND_BROKEN } shoali_bound_found;
/** The sum of a step that is checked is there, scaled by nobody yet: hold it against the bound of
 * auto:error=E. Where it is broken the step gets the exact sum, and all ranks fall back alike. */
SHOAL_MUST_USE shoal_status shoali_choice_check(shoal_train *train, shoali_bound_found *found_out);

/** Spec of what was chosen, for a checkpoint; NULL: no choice yet, or none asked for. */
const char *shoali_choice_made(const shoal_train *train);
/** The same of what it may fall to, joined by +, itself first; NULL: there is no bound. Of the
 * arena. */
const char *shoali_choice_ladder(const shoal_train *train);
/** Go on with an earlier choice, if it is among the candidates. NULL is allowed, also for the
 * ladder: then it falls to "off". */
void shoali_choice_resume(shoal_train *train, const char *spec, const char *ladder);

#endif
