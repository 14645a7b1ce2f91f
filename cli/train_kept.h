/* SPDX-License-Identifier: Apache-2.0 */
/* The options of shoal train that its run folder keeps (run.json), so that --resume DIR alone goes
 * on as the run was started. Those of shoal_train_desc the library keeps itself; these are all
 * others, as the command line has them. */
#ifndef SHOAL_CLI_TRAIN_KEPT_H
#define SHOAL_CLI_TRAIN_KEPT_H

#include <jansson.h>
#include <stdbool.h>

#include "launch.h"
#include "shoal/run.h"

typedef struct train_kept {
    json_t
        *given; /* option: its text, true for a switch, a list of texts where it may be repeated */
    char *text; /* of those for shoal_train_desc.options */
    shoal_run *run; /* that is resumed; NULL: none, or of a version that kept nothing */
} train_kept;

/** The command line has this option; text NULL: a switch. */
void train_kept_add(train_kept *kept, const char *name, const char *text);

/** The command line says where ranks start. */
void train_kept_launch(train_kept *kept, const launch_desc *launch);

/** Take an option: train_take_named. */
typedef int (*train_take)(void *args, const char *name, const char *text);
/** Give take() what the run in `resume` was started with and the command line leaves out. @return
 * CLI_OK, or an exit code: printed why. */
int train_kept_restore(train_kept *kept, const char *resume, train_take take, void *args);

/** An option of the run that is resumed; NULL: it has none. */
const char *train_kept_option(const train_kept *kept, const char *name);

/** All of them as JSON, for shoal_train_desc.options; NULL: no memory. */
const char *train_kept_text(train_kept *kept);

void train_kept_free(train_kept *kept);

#endif
