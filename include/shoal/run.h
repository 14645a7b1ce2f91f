/* SPDX-License-Identifier: Apache-2.0 */
/* Run folders, as shoal_train_desc.out makes them: what is in one, read without training.
 *
 *     shoal_run *run;
 *     if (shoal_run_open("runs/x", &run) != SHOAL_OK) ...
 *     const char *name, *value;
 *     for (uint32_t i = 0; (value = shoal_run_option(run, i, &name)) != NULL; i++)
 *         printf("--%s %s\n", name, value);
 *     shoal_run_close(run);
 *
 * Threads: a shoal_run does not change, so any number of threads may read it. */
#ifndef SHOAL_RUN_H
#define SHOAL_RUN_H

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_run shoal_run;

/**
 * Read DIR/run.json.
 * @param run_out owned by the caller; shoal_run_close.
 * @return SHOAL_OK | EIO: there is none | ECORRUPT: it is not as it was written, or of another
 *         version; the text names file and reason | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_run_open(const char *dir, shoal_run **run_out);
/** NULL is allowed. */
SHOAL_API void shoal_run_close(shoal_run *run);

/**
 * Option i with which the run went: what `shoal train` would be given as --NAME VALUE to do the
 * same, defaults included. A list has one option per entry.
 * @param name_out "batch"; both live as long as the run.
 * @return the value, "" for a switch; NULL behind the last one.
 */
SHOAL_API const char *shoal_run_option(const shoal_run *run, uint32_t i, const char **name_out);

/** All of run.json, as text; lives as long as the run. Its members are described in
 * docs/run-folders.md. */
SHOAL_API const char *shoal_run_json(const shoal_run *run);

#ifdef __cplusplus
}
#endif
#endif
