/* SPDX-License-Identifier: Apache-2.0 */
/* Who is whose neighbour, for protocols without a centre. Graphs are without loops; nodes are
 * endpoint ids 0 .. nodes - 1. Degrees and spectral gaps of 16 nodes:
 *
 *   ring          i +- 1                                                    2    .051
 *   chords        ring, and the node straight across                        3    .146
 *   double_ring   two rings with chords of half the nodes, rung by rung     4    .400
 *   complete      everybody                                                 15   1
 *   parity        everybody of the other parity: bipartite                  8    .111
 *   FILE          a path with '/' or '.': lines "a b", '#' begins a comment
 *
 * Directed, where a node is heard by some and hears others; edges lead from who is heard:
 *
 *   one_way       i to i + 1
 *   exponential   i to i + 1, i + 2, i + 4, ...
 *   FILE          with a line "a > b": a is heard by b, and "a b" is both ways
 *
 * Weights are Metropolis': 1 / (1 + larger degree of the two) on edges, the rest on the node
 * itself; on a regular graph the plain mean over the node and its neighbours. They are symmetric
 * and doubly stochastic, so averaging with them never moves the mean. In a directed graph all edges
 * weigh the same, 1 / (1 + largest degree): rows add up to 1, and columns where as many edges lead
 * into a node as out of it. Other directed graphs are refused. */
#ifndef SHOALI_SYNC_GRAPH_H
#define SHOALI_SYNC_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

typedef struct shoali_graph {
    uint32_t nodes;
    bool directed;
    uint32_t *first; /* [nodes + 1] where those whom a node is heard by begin in to */
    uint32_t *to;    /* ascending per node */
} shoali_graph;

/** Somebody next to a node, at the other end of one edge or two. */
typedef struct shoali_neighbour {
    uint32_t node;
    bool heard; /* by the node whose neighbour it is */
    bool hears; /* that node */
} shoali_neighbour;

/**
 * Neighbours of one node: those that it hears, ascending, then the others, ascending.
 * @param out room for nodes - 1; NULL: only count.
 * @param heard_out how many it hears; NULL: not asked.
 * @return SHOAL_OK | EINVAL (no such graph, or not of so many nodes; a file's line is named) | EIO
 */
SHOAL_MUST_USE shoal_status shoali_graph_around(const char *spec, uint32_t nodes, uint32_t node,
                                                shoali_neighbour *out, uint32_t *count_out,
                                                uint32_t *heard_out);
/** In an undirected graph, ascending: as they hear each other, a number says it. Else EINVAL. */
SHOAL_MUST_USE shoal_status shoali_graph_neighbours(const char *spec, uint32_t nodes, uint32_t node,
                                                    uint32_t *out, uint32_t *count_out);

/** A file may change from one look to the next. */
bool shoali_graph_is_file(const char *spec);
/** By its name, or a '>' in its file; false if it cannot be read. */
bool shoali_graph_is_directed(const char *spec);
/** EINVAL if it is directed: for protocols whose pairs average. */
SHOAL_MUST_USE shoal_status shoali_graph_both_ways(const char *spec);

/** The whole graph. graph_out: shoali_graph_close. EINVAL, too, if it falls into pieces, or is
 * directed and a node is heard by more or fewer than it hears. */
SHOAL_MUST_USE shoal_status shoali_graph_open(const char *spec, uint32_t nodes,
                                              shoali_graph *graph_out);
void shoali_graph_close(shoali_graph *graph);

/** How many hear a node. */
uint32_t shoali_graph_degree(const shoali_graph *graph, uint32_t node);
uint32_t shoali_graph_largest_degree(const shoali_graph *graph);
/** Edges from a to every node on the shortest way; out has room for all nodes. */
void shoali_graph_distances(const shoali_graph *graph, uint32_t a, uint32_t *out);
uint32_t shoali_graph_diameter(const shoali_graph *graph);
/** Sides: 0 for node 0 and all at even distance, 1 for the others. False: an edge stays inside a
 * side. */
bool shoali_graph_sides(const shoali_graph *graph, uint32_t *sides_out);

/** Metropolis weight of an edge between nodes of these degrees. */
double shoali_graph_weight(uint32_t degree_a, uint32_t degree_b);
/** 1 - the second largest magnitude of the weight matrix' eigenvalues: how fast replicas mix.
 * Undirected graphs only. */
double shoali_graph_spectral_gap(const shoali_graph *graph);

#endif
