/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures as SVG, drawn by gnuplot: lines over axes, and lying bars, one a row, of stacked parts.
 * One gnuplot draws all pictures of a command. It need not be installed: then a sentence says so,
 * and the caller's table has to do. A picture stands alone as a file and inside an HTML page. */
#ifndef SHOAL_CLI_CHART_H
#define SHOAL_CLI_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct chart_line {
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
} chart_line;

typedef struct chart_plot {
    const char *title, *x_label, *y_label; /* NULL: none */
    bool log_x, log_y;                     /* points that are not positive are left out */
    bool zero_y;                           /* the y axis begins at 0 (not with log_y) */
    bool dashes;                           /* lines differ by their dashes, not only by colour */
    const char *id;    /* a word that no other picture of the page has; NULL: it stands alone */
    const char *about; /* a sentence for who cannot see it */
    const chart_line *lines;
    size_t line_count;
    unsigned width, height; /* 0: 720 x 440 */
} chart_plot;

enum { CHART_PARTS = 6 }; /* so many look different, by hatching as well as by colour */

typedef struct chart_bars {
    const char *title, *x_label;
    const char *id, *about;   /* as above */
    const char *const *rows;  /* [row_count] names; of long ones the end is left out */
    size_t row_count;         /* at least 1 */
    const char *const *parts; /* [part_count] names, for the legend */
    size_t part_count;        /* 1 .. CHART_PARTS */
    const double *values;     /* [row_count][part_count]; what is not positive is not drawn */
} chart_bars;

/** Write one <svg> element. Returns NULL, or why nothing was written. Pages change the colours by
 *  the class ground, by `text`, and by the attributes stroke, fill and color. */
const char *chart_draw(FILE *out, const chart_plot *plot);
const char *chart_draw_bars(FILE *out, const chart_bars *bars);

#endif
