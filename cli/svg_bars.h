/* SPDX-License-Identifier: Apache-2.0 */
/* Lying bars as SVG, one a row, each of stacked parts: for what belongs to names (ranks, codecs,
 * links) and not to a scale. Parts differ by hatching as well as by colour. */
#ifndef SHOAL_CLI_SVG_BARS_H
#define SHOAL_CLI_SVG_BARS_H

#include <stddef.h>
#include <stdio.h>

enum { CLI_SVG_PARTS = 6 }; /* so many look different */

typedef struct cli_svg_bars {
    const char *title, *about, *x_label; /* NULL: none */
    const char *id;                      /* a word that no other picture of the page has */
    const char *const *rows;             /* [row_count] names; of long ones the end is left out */
    size_t row_count;
    const char *const *parts; /* [part_count] names, for the legend */
    size_t part_count;        /* 1 .. CLI_SVG_PARTS */
    const double *values;     /* [row_count][part_count]; what is not positive is not drawn */
} cli_svg_bars;

/** Write them as one <svg> element. Write errors stay in the stream (ferror). */
void cli_svg_write_bars(FILE *out, const cli_svg_bars *bars);

#endif
