/* SPDX-License-Identifier: Apache-2.0 */
#include "sync/rift.h"

#include "base/arena.h"
#include "base/error.h"
#include "sync/graph.h"

/* Marks what `from` reaches without passing anybody who is gone; todo has room for all nodes. */
static void spread(const shoali_graph *graph, const shoali_finale *finale, uint32_t from,
                   uint8_t *reached, uint32_t *todo)
{
    uint32_t count = 1;
    todo[0] = from;
    reached[from] = 1;
    while (count > 0) {
        uint32_t node = todo[--count];
        for (uint32_t e = graph->first[node]; e < graph->first[node + 1]; e++) {
            uint32_t next = graph->to[e];
            if (reached[next] || shoali_finale_is_gone(finale, next))
                continue;
            reached[next] = 1;
            todo[count++] = next;
        }
    }
}

/* Who heard the lost hears one less, and is heard by as many as before. */
static shoal_status unbalanced(const char *spec, const shoali_finale *finale)
{
    uint32_t lost = 0;
    while (lost < finale->world->workers && !shoali_finale_is_gone(finale, lost))
        lost++;
    if (lost == finale->world->workers)
        return SHOAL_OK;
    shoal_status status = shoali_fail(SHOAL_EPEER,
                                      "worker %u is lost, and graph=%s is directed: without it "
                                      "averages would lean to those that are heard most",
                                      lost, spec);
    shoali_error_advice("Go on from the last checkpoint; undirected graphs (ring, chords, "
                        "double_ring, complete) stand losses.");
    return status;
}

static shoal_status check(const char *spec, const shoali_graph *graph, const shoali_finale *finale,
                          uint8_t *reached, uint32_t *todo)
{
    uint32_t first = 0, other = 0, lost = 0;
    while (first < graph->nodes && shoali_finale_is_gone(finale, first))
        first++;
    if (first == graph->nodes)
        return SHOAL_OK;
    spread(graph, finale, first, reached, todo);
    while (other < graph->nodes && (reached[other] || shoali_finale_is_gone(finale, other)))
        other++;
    if (other == graph->nodes)
        return SHOAL_OK;
    for (uint32_t i = 0; i < graph->nodes; i++)
        lost += shoali_finale_is_gone(finale, i);
    shoal_status status = shoali_fail(
        SHOAL_EPEER,
        "the %u workers that are lost have cut graph=%s: no way leads "
        "from worker %u to worker %u any more",
        lost, spec, first, other);
    shoali_error_advice("Go on from the last checkpoint; a graph with more edges (chords, "
                        "double_ring, complete) stands more losses.");
    return status;
}

shoal_status shoali_rift_check(const char *spec, const shoali_finale *finale)
{
    shoali_graph graph;
    if (shoali_finale_all_finished(finale))
        return SHOAL_OK; /* only the mean of all is left */
    if (shoali_graph_is_directed(spec))
        return unbalanced(spec, finale);
    SHOALI_TRY(shoali_graph_open(spec, finale->world->workers, &graph));
    uint8_t *reached = shoali_alloc(graph.nodes);
    uint32_t *todo = shoali_alloc_array(graph.nodes, sizeof *todo);
    shoal_status status = reached != NULL && todo != NULL
                              ? check(spec, &graph, finale, reached, todo)
                              : SHOAL_ENOMEM;
    shoali_free(reached);
    shoali_free(todo);
    shoali_graph_close(&graph);
    return status;
}
