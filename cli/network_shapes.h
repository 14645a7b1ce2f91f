/* SPDX-License-Identifier: Apache-2.0 */
/* shoal network --shapes: which dimensions a network has is looked for, too. */
#ifndef SHOAL_CLI_NETWORK_SHAPES_H
#define SHOAL_CLI_NETWORK_SHAPES_H

#include "network_show.h"

enum { NETWORK_SHAPE_TEXT = 512 };

/** "ring:4, fc:8": the dimensions; with rates "ring:4@338.450GB/s, ..."; --network reads both. */
void network_shape_text(const shoal_network_shape *shape, bool rates, char out[NETWORK_SHAPE_TEXT]);
/** Ask, best first, into results (room for `top` of them), whose `choice` is the whole space's. */
shoal_status network_shapes_ask(const shoal_network_shapes *shapes,
                                const shoal_network_question *question, const char *objective,
                                double at, uint32_t top, network_result *results, size_t *count);
/** The network of one shape, for all that is asked of a given one. */
shoal_status network_shapes_open(const shoal_network_desc *desc, const shoal_network_shape *shape,
                                 bool has_cost, shoal_network **network_out);

/** Whether no other result is as short and as cheap. */
bool network_on_front(const network_report *report, size_t i);
/** The results as rows, and what was proved. */
void network_shapes_show(FILE *out, const network_report *report);
void network_shapes_csv(FILE *out, const network_report *report);

#endif
