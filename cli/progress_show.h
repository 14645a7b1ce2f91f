/* SPDX-License-Identifier: Apache-2.0 */
/* The progress of this process's command on standard error, drawn by a thread of its own, so that
 * it goes on while the command computes. One at a time; without progress_begin the others do
 * nothing. */
#ifndef SHOAL_CLI_PROGRESS_SHOW_H
#define SHOAL_CLI_PROGRESS_SHOW_H

#include <argp.h>

#include "progress.h"

/** A verb's children: --quiet, after which nothing is shown. */
extern const struct argp_child progress_children[];

/**
 * @param verb, unit as in progress_init.
 * @param quiet      nothing is shown.
 * @param interrupted what Ctrl-C does, "what is measured is lost": said when it comes, then the
 *                   process ends. NULL: a launcher says it.
 */
void progress_begin(const char *verb, const char *unit, bool quiet, const char *interrupted);
/** How far it is; note NULL: as before. */
void progress_at(double done, double total, const char *note);
/** Before something else is printed: the bar goes until the next progress_at. */
void progress_aside(void);
void progress_end(void);

#endif
