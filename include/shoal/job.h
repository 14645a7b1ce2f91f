/* SPDX-License-Identifier: Apache-2.0 */
/* Which options go together: asked before anything starts, so that an option is honoured or refused
 * and never ignored. */
#ifndef SHOAL_JOB_H
#define SHOAL_JOB_H
/* Of libshoal_train: pkg-config shoal_train. */

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What else a job is asked for, each the option of that name. */
enum {
    SHOAL_JOB_SIMULATED = 1u << 0, /* --simulate */
    SHOAL_JOB_REFORM = 1u << 1,    /* --on-loss reform */
    SHOAL_JOB_PLAN = 1u << 2,
    SHOAL_JOB_ADMM = 1u << 3,
    SHOAL_JOB_BATCH_AUTO = 1u << 4,
    SHOAL_JOB_NO_EXCHANGE = 1u << 5,
    SHOAL_JOB_RESUME = 1u << 6,
    SHOAL_JOB_SKIPS = 1u << 7,        /* --nonfinite skip */
    SHOAL_JOB_PACED = 1u << 8,        /* --compute-ms */
    SHOAL_JOB_DUMPS = 1u << 9,        /* --dump-gradients */
    SHOAL_JOB_CLIPS = 1u << 10,       /* --clip-norm */
    SHOAL_JOB_CHECKPOINTS = 1u << 11, /* --checkpoint-every */
    SHOAL_JOB_STOPS = 1u << 12        /* --on-term checkpoint */
};

/** The option of the i-th of these ("--simulate"); NULL beyond the last. */
SHOAL_API const char *shoal_job_option(size_t i);

/** What a job is asked to do. NULL and 0: not asked for; the default in brackets holds. */
typedef struct shoal_job {
    size_t size;
    const char *sync;       /* ["all_reduce"] */
    const char *codec;      /* ["identity"]; "auto" and "auto:..." as for shoal_train_desc */
    const char *collective; /* ["ring"]; "auto" */
    const char *optimizer;  /* [none that asks for anything] */
    uint32_t workers;       /* [not known yet] that contribute */
    uint32_t asks;          /* SHOAL_JOB_* */
} shoal_job;
#define SHOAL_JOB_INIT            \
    {                             \
        .size = sizeof(shoal_job) \
    }

/**
 * Whether a job's options go together. Reads what the rows of the tables say of themselves; starts
 * nothing. An option that would change nothing beside another one does not go with it.
 * @return SHOAL_OK | EINVAL: they do not, and the text names both options, the advice what does; or
 *         a spec that is none | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_job_check(const shoal_job *job);

#ifdef __cplusplus
}
#endif
#endif
