/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of the page, each with its table below it. `id` names the run: "r1". */
#ifndef SHOAL_CLI_REPORT_CHARTS_H
#define SHOAL_CLI_REPORT_CHARTS_H

#include <jansson.h>
#include <stdio.h>

/** Of each run a line, of the objects in `list` ("loss_points"): y over x. */
typedef struct report_curve {
    const char *list, *x, *y;
    const char *low, *high; /* NULL: no band */
    const char *title, *x_label, *y_label;
    const char *word; /* of its id */
} report_curve;

extern const report_curve report_loss_by_step, report_loss_by_time, report_accuracy_by_step,
    report_accuracy_by_time, report_step_time;

/** Nothing where no run has a point. runs: array of facts, or of one. */
void report_draw_curve(FILE *out, const char *id, const json_t *runs, const report_curve *curve);
void report_draw_parts(FILE *out, const char *id, const json_t *facts);
/** Of runs that are compared: a row each. */
void report_draw_runs(FILE *out, const json_t *rows);
void report_draw_waits(FILE *out, const json_t *facts);
void report_draw_links(FILE *out, const char *id, const json_t *facts);
void report_draw_codecs(FILE *out, const char *id, const json_t *facts);
void report_draw_members(FILE *out, const char *id, const json_t *facts);

#endif
