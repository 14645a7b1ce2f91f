/* SPDX-License-Identifier: Apache-2.0 */
/* D-PSGD: every iteration each replica becomes the mean of itself and its neighbours, with doubly
 * stochastic weights, minus its own gradient step. The machine is hop's in its standard form:
 * updates are tagged, so a fast pair may be an iteration ahead of its neighbours, but nobody
 * averages anything but the iteration that it is in. State table: hop.c. */
#include "sync/hop.h"

#include "base/error.h"
#include "sync/graph.h"

/* What both rows say of their graph. */

const char *shoali_hop_graph(const void *any)
{
    return ((const shoali_hop_params *)any)->graph;
}

uint32_t shoali_hop_traits(const shoali_hop_params *p)
{
    return SHOALI_SYNC_SURVIVES | SHOALI_SYNC_MODELS |
           (shoali_graph_is_directed(p->graph) ? 0 : SHOALI_SYNC_CHANGES);
}

shoal_status shoali_hop_fits(const void *any, uint32_t codec_traits, uint32_t workers)
{
    const shoali_hop_params *p = any;
    shoali_graph graph;
    (void)codec_traits;
    if (workers == 0 || !shoali_graph_is_directed(p->graph))
        return SHOAL_OK;
    SHOALI_TRY(shoali_graph_open(p->graph, workers, &graph));
    shoali_graph_close(&graph);
    return SHOAL_OK;
}

static const shoali_key keys[] = {
    {"graph", SHOALI_KEY_TEXT, offsetof(shoali_hop_params, graph), 0, 0, NULL, "ring",
     "ring, chords, double_ring, complete, parity, a file with lines of two workers; directed: "
     "one_way, exponential, a file with lines \"a > b\""},
    {"serial", SHOALI_KEY_FLAG, offsetof(shoali_hop_params, serial), 0, 0, NULL, "off",
     "send after the update and wait, instead of sending before the gradient"},
};

static uint32_t traits_with(const void *any)
{
    return SHOALI_SYNC_MEAN | SHOALI_SYNC_APART | shoali_hop_traits(any);
}

const shoali_sync_row shoali_sync_d_psgd = {
    .name = "d_psgd",
    .paper = "Lian et al., NIPS 2017; losses survived, exact mean at the end. "
             "Slower than all_reduce where degree x model bytes / rate exceeds the compute time",
    .traits = SHOALI_SYNC_MEAN | SHOALI_SYNC_SURVIVES | SHOALI_SYNC_APART | SHOALI_SYNC_MODELS |
              SHOALI_SYNC_CHANGES,
    .traits_with = traits_with,
    .fits = shoali_hop_fits,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(shoali_hop_params)},
    .state_size = shoali_hop_state_size,
    .slots = shoali_hop_slots,
    .graph = shoali_hop_graph,
    .max_staleness = shoali_hop_max_staleness,
    .max_gap = shoali_hop_max_gap,
    .on_event = shoali_hop_on_event,
};
