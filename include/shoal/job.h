/* SPDX-License-Identifier: Apache-2.0 */
/* Which options go together: asked before anything starts, so that an option is honoured or refused
 * and never ignored. */
#ifndef SHOAL_JOB_H
#define SHOAL_JOB_H

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a job is asked to do. NULL and 0 mean the default in brackets. */
typedef struct shoal_job {
    size_t size;
    const char *sync;       /* ["all_reduce"] */
    const char *codec;      /* ["identity"]; "auto" and "auto:..." as for shoal_train_desc */
    const char *collective; /* ["ring"]; "auto" */
    uint32_t workers;       /* [not known yet] that contribute */
} shoal_job;
#define SHOAL_JOB_INIT            \
    {                             \
        .size = sizeof(shoal_job) \
    }

/**
 * Whether a job's options go together. Reads what the rows of the tables say of themselves; starts
 * nothing.
 * @return SHOAL_OK | EINVAL: they do not, and the text names both options, the advice what does; or
 *         a spec that is none | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_job_check(const shoal_job *job);

#ifdef __cplusplus
}
#endif
#endif
