/* SPDX-License-Identifier: Apache-2.0 */
/* How long a pipeline takes whose stages need not be equal: every pass is an event. */
#ifndef SHOALI_PLAN_PIPELINE_H
#define SHOALI_PLAN_PIPELINE_H

#include "base/arena.h"
#include "shoal/shoal.h"

/** Stage i holds chunks i, i + stages, ... of the model, in the order in which data pass them; with
 * several chunks the microbatches are a multiple of the stages. */
typedef struct shoali_pipeline {
    uint32_t stages, chunks; /* chunks: of each stage */
    uint64_t microbatches;
    const double *forward, *backward; /* [stages * chunks] seconds of one microbatch */
} shoali_pipeline;

/** From the first pass to the end of the last. *arena for what is needed meanwhile. */
SHOAL_MUST_USE shoal_status shoali_pipeline_run(const shoali_pipeline *pipeline, shoal_arena *arena,
                                                double *seconds_out);
/** No schedule takes less: a stage's own passes, and the way to it and back. */
double shoali_pipeline_least(const shoali_pipeline *pipeline);

#endif
