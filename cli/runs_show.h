/* SPDX-License-Identifier: Apache-2.0 */
/* Printing run folders for shoal runs: a table, all about one, and JSON. */
#ifndef SHOAL_CLI_RUNS_SHOW_H
#define SHOAL_CLI_RUNS_SHOW_H

#include <jansson.h>
#include <stdbool.h>

#include "shoal/run.h"

/** All about a run, as --json prints it and the other functions read it; NULL: no memory. */
json_t *runs_object(const char *dir, const shoal_run_look *look);
/** Its checkpoints or run.json are, whether it is running or not. */
bool runs_is_damaged(const json_t *run);

/** A line per run, and one more where it is damaged. */
void runs_table(const json_t *runs);
void runs_details(const json_t *run);

/** As a shell takes it: in quotes unless it is plain. The caller's, free; NULL: no memory. */
char *runs_quoted(const char *text);

#endif
