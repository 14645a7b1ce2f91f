/* SPDX-License-Identifier: Apache-2.0 */
/* OUT/run.json: all that a run was started with, so that the folder is enough to go on with it and
 * to use what came of it. Written whole or not at all, with a digest of itself. */
#ifndef SHOALI_FOLDER_RUN_FILE_H
#define SHOALI_FOLDER_RUN_FILE_H

#include <jansson.h>

#include "worker/worker.h"

#define SHOALI_RUN_FORMAT "shoal-run-1"

/** Rank 0, once it holds the folder. */
SHOAL_MUST_USE shoal_status shoali_run_file_write(const shoal_train *train);
/** @param run_out the caller's, json_decref
 *  @return SHOAL_OK | EIO: there is none | ECORRUPT: it is not as it was written; names the file */
SHOAL_MUST_USE shoal_status shoali_run_file_read(const char *dir, json_t **run_out);

/** Write DIR/run.json, with a digest of itself. The object is given away; NULL:
 * ENOMEM. @return SHOAL_OK | EIO | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_run_file_put(const char *dir, json_t *run);
/** EINVAL: it is of a simulation, from which no run goes on. */
SHOAL_MUST_USE shoal_status shoali_run_file_check_real(const char *dir);

bool shoali_run_file_is_there(const char *dir);

/** Where the desc of a resumed run names no model or no data: they are those of the run. */
SHOAL_MUST_USE shoal_status shoali_run_file_complete(shoal_train *train);

#endif
