/* SPDX-License-Identifier: Apache-2.0 */
#include "support/max_min.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

typedef struct network {
    const double *capacity, *weights;
    uint32_t links, flows;
    bool *frozen;
} network;

/* The level that would fill link l if nothing else held its flows back any more. */
static double level_of(const network *n, uint32_t l, const double *rates)
{
    double left = n->capacity[l], demand = 0;
    for (uint32_t f = 0; f < n->flows; f++) {
        double w = n->weights[f * n->links + l];
        left -= n->frozen[f] ? w * rates[f] : 0;
        demand += n->frozen[f] ? 0 : w;
    }
    return demand > 0 ? fmax(left, 0) / demand : INFINITY;
}

/* Fill the lowest link there is, freeze its flows, look again. */
void max_min_rates(const double *capacity, uint32_t links, const double *weights, uint32_t flows,
                   double *rates_out)
{
    network n = {capacity, weights, links, flows, calloc(flows, sizeof(bool))};
    for (;;) {
        uint32_t lowest = 0;
        double level = INFINITY;
        for (uint32_t l = 0; l < links; l++) {
            double own = level_of(&n, l, rates_out);
            lowest = own < level ? l : lowest;
            level = fmin(level, own);
        }
        if (level == INFINITY)
            break;
        for (uint32_t f = 0; f < flows; f++)
            if (!n.frozen[f] && weights[f * links + lowest] > 0) {
                n.frozen[f] = true;
                rates_out[f] = level;
            }
    }
    free(n.frozen);
}
