/* SPDX-License-Identifier: Apache-2.0 */
/* A plain line plot as SVG: axes with round numbers, lines with or without dots, a legend. For
 * verbs that draw what they found; the result stands alone as a file and inside an HTML page. */
#ifndef SHOAL_CLI_SVG_H
#define SHOAL_CLI_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct cli_svg_line {
    const char *name; /* for the legend; NULL: not listed there */
    const double *x, *y;
    size_t count; /* points in drawing order; one that is not finite breaks the line */
    bool dots;    /* a dot on each point */
    bool no_line; /* dots alone */
    bool dashed;  /* for a reference */
    bool stairs;  /* each value holds until the next point */
    /** NULL, or count values each: a band below and above the line. */
    const double *low, *high;
    unsigned colour; /* 0: the palette's colour of this line's place, else n: its n-th colour */
} cli_svg_line;

typedef struct cli_svg_plot {
    const char *title, *x_label, *y_label; /* NULL: none */
    bool log_x, log_y;                     /* points that are not positive are left out */
    bool zero_y;                           /* the y axis begins at 0 (not with log_y) */
    bool dashes;                           /* lines differ by their dashes, not only by colour */
    const char *id, *about; /* for pages: a word of its own, and a sentence for who cannot see it */
    const cli_svg_line *lines;
    size_t line_count;
    unsigned width, height; /* 0: 720 x 440 */
} cli_svg_plot;

/** Write the plot as one <svg> element. Write errors stay in the stream (ferror). */
void cli_svg_write(FILE *out, const cli_svg_plot *plot);

/** The beginning of an element that stands in a page: what it is called, and what it shows. NULL
 *  id: it stands alone. Pages change colours by the classes ground, grid and axis, and `text`. */
void cli_svg_begin(FILE *out, unsigned width, unsigned height, const char *id, const char *title,
                   const char *about);
/** Text with <, >, &, " and ' escaped, for SVG and HTML; what XML cannot hold becomes '?'. */
void cli_svg_text(FILE *out, const char *text);

#endif
