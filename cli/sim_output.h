/* SPDX-License-Identifier: Apache-2.0 */
/* What shoal sim tells of a run: as text, as JSON, as pictures. */
#ifndef SHOAL_CLI_SIM_OUTPUT_H
#define SHOAL_CLI_SIM_OUTPUT_H

#include "shoal/sim.h"

typedef struct sim_report {
    const shoal_sim_desc *desc;
    const shoal_sim *sim;
    shoal_sim_results results;
    uint32_t workers;
    double spectral_gap; /* NaN: not measured */
    const char *error;   /* why the run ended early, NULL: it did not */
} sim_report;

void sim_print_text(const sim_report *report);
int sim_print_json(const sim_report *report);
/** Whether DIR is there to draw in, or can be made; false with errno. */
bool sim_may_draw(const char *dir);
/** DIR/iterations.svg, DIR/waits.svg and, with numbers, DIR/loss.svg; false with errno,
 * and a folder that was made for them is gone again. */
bool sim_draw(const sim_report *report, const char *dir);

#endif
