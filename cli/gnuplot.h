/* SPDX-License-Identifier: Apache-2.0 */
/* A gnuplot that draws all pictures of a command, one after another, as a process of its own. */
#ifndef SHOAL_CLI_GNUPLOT_H
#define SHOAL_CLI_GNUPLOT_H

#include <stddef.h>
#include <stdio.h>

typedef struct gnuplot_frame {
    const char *id;    /* a word that no other picture of the page has; NULL: it stands alone */
    const char *title; /* its name */
    const char *about; /* a sentence for who cannot see it; NULL: the name is all */
    unsigned width, height;
} gnuplot_frame;

/** Write what a script for the terminal svg draws as one <svg> element. NULL, or why nothing was
 *  written. */
const char *gnuplot_draw(FILE *out, const gnuplot_frame *frame, const char *script, size_t length);
/** Known before anything is drawn: NULL, or why no picture can be. */
const char *gnuplot_missing(void);

#endif
