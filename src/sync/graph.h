/* SPDX-License-Identifier: Apache-2.0 */
/* Who is whose neighbour, for protocols without a centre. Graphs are undirected and without loops;
 * nodes are endpoint ids 0 .. nodes - 1. Degrees and spectral gaps of 16 nodes:
 *
 *   ring          i +- 1                                                    2    .051
 *   chords        ring, and the node straight across                        3    .146
 *   double_ring   two rings with chords of half the nodes, rung by rung     4    .400
 *   complete      everybody                                                 15   1
 *   parity        everybody of the other parity: bipartite                  8    .111
 *   FILE          a path with '/' or '.': lines "a b", '#' begins a comment
 *
 * Weights are Metropolis': 1 / (1 + larger degree of the two) on edges, the rest on the node
 * itself; on a regular graph the plain mean over the node and its neighbours. They are symmetric
 * and doubly stochastic, so averaging with them never moves the mean. */
#ifndef SHOALI_SYNC_GRAPH_H
#define SHOALI_SYNC_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

typedef struct shoali_graph {
    uint32_t nodes;
    uint32_t *first; /* [nodes + 1] where a node's neighbours begin in to */
    uint32_t *to;    /* ascending per node */
} shoali_graph;

/**
 * Neighbours of one node, ascending.
 * @param out room for nodes - 1; NULL: only count.
 * @return SHOAL_OK | EINVAL (no such graph, or not of so many nodes; a file's line is named) | EIO
 */
SHOAL_MUST_USE shoal_status shoali_graph_neighbours(const char *spec, uint32_t nodes, uint32_t node,
                                                    uint32_t *out, uint32_t *count_out);

/** A file may change from one look to the next. */
bool shoali_graph_is_file(const char *spec);

/** The whole graph. graph_out: shoali_graph_close. EINVAL, too, if it falls into pieces. */
SHOAL_MUST_USE shoal_status shoali_graph_open(const char *spec, uint32_t nodes,
                                              shoali_graph *graph_out);
void shoali_graph_close(shoali_graph *graph);

uint32_t shoali_graph_degree(const shoali_graph *graph, uint32_t node);
/** Edges from a to every node on the shortest way; out has room for all nodes. */
void shoali_graph_distances(const shoali_graph *graph, uint32_t a, uint32_t *out);
uint32_t shoali_graph_diameter(const shoali_graph *graph);
/** Sides: 0 for node 0 and all at even distance, 1 for the others. False: an edge stays inside a
 * side. */
bool shoali_graph_sides(const shoali_graph *graph, uint32_t *sides_out);

/** Metropolis weight of an edge between nodes of these degrees. */
double shoali_graph_weight(uint32_t degree_a, uint32_t degree_b);
/** 1 - the second largest magnitude of the weight matrix' eigenvalues: how fast replicas mix. */
double shoali_graph_spectral_gap(const shoali_graph *graph);

#endif
