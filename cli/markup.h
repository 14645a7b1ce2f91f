/* SPDX-License-Identifier: Apache-2.0 */
/* Text that stands in a page or a picture. */
#ifndef SHOAL_CLI_MARKUP_H
#define SHOAL_CLI_MARKUP_H

#include <stdio.h>

/** Text with <, >, &, " and ' escaped, for SVG and HTML; what XML cannot hold becomes '?'. */
void cli_markup(FILE *out, const char *text);

#endif
