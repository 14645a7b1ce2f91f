/* SPDX-License-Identifier: Apache-2.0 */
/* What runs elsewhere: a task on the owner's one thread, a job on another. */
#ifndef SHOALI_BASE_JOB_H
#define SHOALI_BASE_JOB_H

#include <stdbool.h>

#include "base/error.h"

/** Something to run on the owner's thread. owned: allocated by whoever posts it, freed after the
 * run. */
typedef struct shoali_task {
    struct shoali_task *next;
    void (*run)(void *arg);
    void *arg;
    bool owned;
} shoali_task;

/** A long job: work on the work thread, then done on the owner's thread (by the task). */
typedef struct shoali_job {
    struct shoali_job *next;
    shoal_status (*work)(void *arg);
    void (*done)(void *arg, shoal_status status);
    void *arg;
    shoal_status status; /* of work; a failure's text is in error */
    shoal_error error;
    shoali_task back;
} shoali_job;

#endif
