/* SPDX-License-Identifier: Apache-2.0 */
/* What a description of a training asks for, in the terms of shoal_job_check. */
#include "shoal/train.h"

void shoal_train_job(const shoal_train_desc *d, uint32_t workers, shoal_job *job_out)
{
    const struct {
        bool asked;
        uint32_t bit;
    } all[] = {{d->simulate > 0, SHOAL_JOB_SIMULATED},
               {d->reform, SHOAL_JOB_REFORM},
               {d->plan != NULL, SHOAL_JOB_PLAN},
               {d->admm != NULL, SHOAL_JOB_ADMM},
               {d->batch_auto, SHOAL_JOB_BATCH_AUTO},
               {d->no_exchange, SHOAL_JOB_NO_EXCHANGE},
               {d->resume != NULL, SHOAL_JOB_RESUME},
               {d->nonfinite == SHOAL_NONFINITE_SKIP, SHOAL_JOB_SKIPS},
               {d->compute_ms > 0, SHOAL_JOB_PACED},
               {d->dump_gradients != NULL, SHOAL_JOB_DUMPS},
               {d->clip_norm > 0, SHOAL_JOB_CLIPS},
               {d->checkpoint_every > 0, SHOAL_JOB_CHECKPOINTS},
               {d->may_stop, SHOAL_JOB_STOPS}};
    *job_out = (shoal_job){.size = sizeof *job_out,
                           .sync = d->sync,
                           .codec = d->codec,
                           .collective = d->collective,
                           .optimizer = d->optimizer != NULL ? d->optimizer : "sgd",
                           .workers = d->simulate > 0 ? d->simulate : workers};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        job_out->asks |= all[i].asked ? all[i].bit : 0;
}
