/* SPDX-License-Identifier: Apache-2.0 */
/* The front of a search as a picture. */
#ifndef SHOAL_CLI_PREDICT_FRONT_H
#define SHOAL_CLI_PREDICT_FRONT_H

#include <stdio.h>

#include "shoal/predict.h"

/** Of one step: the accelerators' price for its time, or workers x seconds where none is said. */
double predict_cost(const shoal_prediction *prediction);
/** Draw time against cost, a colour for each third of the memory needed. NULL, or why nothing was
 *  drawn. */
const char *predict_draw_front(FILE *out, const shoal_search *search);

#endif
