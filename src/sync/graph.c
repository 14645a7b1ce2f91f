/* SPDX-License-Identifier: Apache-2.0 */
#include "sync/graph.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/read_file.h"

enum { NODES_MAX = 1 << 14, LINE_BYTES = 128, POWER_STEPS = 100000 };

/* ---------------------------------------------------------------- neighbours */

/* Nodes come in any order, some twice; a set bit per node sorts them. */
typedef struct node_set {
    uint32_t nodes, self;
    uint8_t heard[NODES_MAX / 8], hears[NODES_MAX / 8]; /* by self, self */
} node_set;

static void mark(uint8_t *bits, uint32_t node)
{
    bits[node / 8] |= (uint8_t)(1u << (node % 8));
}

static bool is_in(const uint8_t *bits, uint32_t node)
{
    return (bits[node / 8] >> (node % 8) & 1) != 0;
}

/* An edge that self may be an end of. */
static void add_edge(node_set *set, uint32_t from, uint32_t to)
{
    if (from == to)
        return;
    if (from == set->self)
        mark(set->hears, to);
    if (to == set->self)
        mark(set->heard, from);
}

static void add(node_set *set, uint32_t node)
{
    add_edge(set, set->self, node);
    add_edge(set, node, set->self);
}

static void add_ring(node_set *set, uint32_t base, uint32_t size, uint32_t i, bool chord)
{
    add(set, base + (i + 1) % size);
    add(set, base + (i + size - 1) % size);
    if (!chord)
        return;
    add(set, base + (i + size / 2) % size);
    add(set, base + (i + size - size / 2) % size);
}

static shoal_status add_double_ring(node_set *set)
{
    uint32_t half = set->nodes / 2;
    if (set->nodes % 2 != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "graph=double_ring needs an even number of workers, not %u", set->nodes);
    uint32_t base = set->self < half ? 0 : half;
    add_ring(set, base, half, set->self - base, true);
    add(set, (set->self + half) % set->nodes);
    return SHOAL_OK;
}

/* Whom i is heard by: i + 1, and with doubling i + 2, i + 4, ... */
static void add_onward(node_set *set, bool doubling)
{
    for (uint32_t far = 1; far < set->nodes && (doubling || far == 1); far *= 2) {
        add_edge(set, set->self, (set->self + far) % set->nodes);
        add_edge(set, (set->self + set->nodes - far) % set->nodes, set->self);
    }
}

/* "a b" or "a > b" of a line; false: an empty line or a comment. */
static bool read_line(char *line, uint32_t nodes, uint32_t pair[2], bool *one_way_out,
                      bool *bad_out)
{
    char *end = line;
    *one_way_out = false;
    line[strcspn(line, "#\n")] = '\0';
    if (strspn(line, " \t\r") == strlen(line))
        return false;
    for (int i = 0; i < 2; i++) {
        char *at = end + strspn(end, " \t");
        *one_way_out |= i == 1 && *at == '>';
        at += i == 1 && *at == '>';
        at += strspn(at, " \t");
        unsigned long value = strtoul(at, &end, 10);
        *bad_out |= at == end || *at == '-' || value >= nodes;
        pair[i] = (uint32_t)value;
    }
    *bad_out |= strspn(end, " \t\r") != strlen(end);
    return true;
}

static shoal_status add_file(node_set *set, const char *path)
{
    char line[LINE_BYTES];
    uint32_t pair[2], number = 0;
    bool bad = false, one_way;
    FILE *file;
    SHOALI_TRY(shoali_open_file(path, &file));
    while (!bad && fgets(line, sizeof line, file) != NULL) {
        number++;
        bad = strchr(line, '\n') == NULL && !feof(file);
        if (!read_line(line, set->nodes, pair, &one_way, &bad) || bad)
            continue;
        add_edge(set, pair[0], pair[1]);
        if (!one_way)
            add_edge(set, pair[1], pair[0]);
    }
    fclose(file);
    if (bad)
        return shoali_fail(
            SHOAL_EINVAL,
            "%s, line %u: expected two workers below %u, as in \"0 1\", or \"0 > 1\" "
            "where only 1 hears 0",
            path, number, set->nodes);
    return SHOAL_OK;
}

bool shoali_graph_is_file(const char *spec)
{
    return strpbrk(spec, "/.") != NULL;
}

static bool is_one_way(const char *spec)
{
    return strcmp(spec, "one_way") == 0;
}

static bool is_exponential(const char *spec)
{
    return strcmp(spec, "exponential") == 0;
}

bool shoali_graph_is_directed(const char *spec)
{
    char line[LINE_BYTES];
    bool found = is_one_way(spec) || is_exponential(spec);
    FILE *file;
    if (found || !shoali_graph_is_file(spec) || shoali_open_file(spec, &file) != SHOAL_OK)
        return found;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "#")] = '\0';
        found = strchr(line, '>') != NULL;
    }
    fclose(file);
    return found;
}

shoal_status shoali_graph_both_ways(const char *spec)
{
    if (!shoali_graph_is_directed(spec))
        return SHOAL_OK;
    return shoali_fail(SHOAL_EINVAL,
                       "graph=%s is directed, and an average moves both of a pair: take an "
                       "undirected one, or hop or d_psgd",
                       spec);
}

static shoal_status fill(node_set *set, const char *spec)
{
    if (strcmp(spec, "ring") == 0 || strcmp(spec, "chords") == 0)
        add_ring(set, 0, set->nodes, set->self, spec[0] == 'c');
    else if (strcmp(spec, "double_ring") == 0)
        return add_double_ring(set);
    else if (strcmp(spec, "complete") == 0 || strcmp(spec, "parity") == 0)
        for (uint32_t i = spec[0] == 'c' ? 0 : (set->self + 1) % 2; i < set->nodes;
             i += spec[0] == 'c' ? 1 : 2)
            add(set, i);
    else if (is_one_way(spec) || is_exponential(spec))
        add_onward(set, is_exponential(spec));
    else if (shoali_graph_is_file(spec))
        return add_file(set, spec);
    else
        return shoali_fail(SHOAL_EINVAL,
                           "graph=%s: known are ring, chords, double_ring, complete, parity, "
                           "one_way, exponential, and files, with a '/' or a '.' in their names",
                           spec);
    return SHOAL_OK;
}

static shoal_status look(node_set *set, const char *spec, uint32_t nodes, uint32_t node)
{
    if (nodes > NODES_MAX || node >= nodes)
        return shoali_fail(SHOAL_EINVAL, "node %u of %u, at most %d", node, nodes, NODES_MAX);
    *set = (node_set){.nodes = nodes, .self = node};
    return fill(set, spec);
}

shoal_status shoali_graph_around(const char *spec, uint32_t nodes, uint32_t node,
                                 shoali_neighbour *out, uint32_t *count_out, uint32_t *heard_out)
{
    node_set set;
    uint32_t count = 0;
    *count_out = 0;
    SHOALI_TRY(look(&set, spec, nodes, node));
    for (int part = 0; part < 2; part++) {
        for (uint32_t i = 0; i < nodes; i++) {
            bool heard = is_in(set.heard, i), hears = is_in(set.hears, i);
            if (part == 0 ? !heard : heard || !hears)
                continue;
            if (out != NULL)
                out[count] = (shoali_neighbour){i, heard, hears};
            count++;
        }
        if (part == 0 && heard_out != NULL)
            *heard_out = count;
    }
    *count_out = count;
    return SHOAL_OK;
}

shoal_status shoali_graph_neighbours(const char *spec, uint32_t nodes, uint32_t node, uint32_t *out,
                                     uint32_t *count_out)
{
    node_set set;
    uint32_t count = 0;
    *count_out = 0;
    SHOALI_TRY(look(&set, spec, nodes, node));
    SHOALI_TRY(shoali_graph_both_ways(spec));
    for (uint32_t i = 0; i < nodes; i++)
        if (is_in(set.hears, i)) {
            if (out != NULL)
                out[count] = i;
            count++;
        }
    *count_out = count;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- the whole graph */

/* Edges out of a node, ascending; to NULL: only count. */
static shoal_status edges_of(const char *spec, uint32_t nodes, uint32_t node, uint32_t *to,
                             uint32_t *out_of, uint32_t *into)
{
    node_set set;
    SHOALI_TRY(look(&set, spec, nodes, node));
    *out_of = *into = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        *into += is_in(set.heard, i);
        if (!is_in(set.hears, i))
            continue;
        if (to != NULL)
            to[*out_of] = i;
        ++*out_of;
    }
    return SHOAL_OK;
}

static shoal_status count_edges(const char *spec, shoali_graph *graph)
{
    uint32_t out_of, into;
    for (uint32_t i = 0; i < graph->nodes; i++) {
        SHOALI_TRY(edges_of(spec, graph->nodes, i, NULL, &out_of, &into));
        if (into == out_of) {
            graph->first[i + 1] = graph->first[i] + out_of;
            continue;
        }
        shoal_status status = shoali_fail(
            SHOAL_EINVAL,
            "graph=%s: worker %u hears %u and is heard by %u: averages would lean to those that "
            "are heard most",
            spec, i, into, out_of);
        shoali_error_advice("Let as many edges lead into each worker as out of it, as in one_way "
                            "and exponential; push-sum, which needs no balance, is not here.");
        return status;
    }
    return SHOAL_OK;
}

static shoal_status check_connected(const char *spec, const shoali_graph *graph)
{
    uint32_t *distance = shoali_alloc_array(graph->nodes, sizeof *distance), lost = 0;
    if (distance == NULL)
        return SHOAL_ENOMEM;
    shoali_graph_distances(graph, 0, distance);
    while (lost < graph->nodes && distance[lost] != UINT32_MAX)
        lost++;
    shoali_free(distance);
    if (lost < graph->nodes)
        return shoali_fail(SHOAL_EINVAL, "graph=%s: no way leads from worker 0 to worker %u", spec,
                           lost);
    return SHOAL_OK;
}

shoal_status shoali_graph_open(const char *spec, uint32_t nodes, shoali_graph *graph_out)
{
    shoali_graph graph = {.nodes = nodes, .directed = shoali_graph_is_directed(spec)};
    uint32_t out_of, into;
    graph.first = shoali_alloc_array((size_t)nodes + 1, sizeof *graph.first);
    shoal_status status = graph.first != NULL ? count_edges(spec, &graph) : SHOAL_ENOMEM;
    if (status == SHOAL_OK) {
        graph.to = shoali_alloc_array((size_t)graph.first[nodes] + 1, sizeof *graph.to);
        status = graph.to != NULL ? SHOAL_OK : SHOAL_ENOMEM;
    }
    for (uint32_t i = 0; i < nodes && status == SHOAL_OK; i++)
        status = edges_of(spec, nodes, i, graph.to + graph.first[i], &out_of, &into);
    if (status == SHOAL_OK)
        status = check_connected(spec, &graph);
    if (status != SHOAL_OK) {
        shoali_graph_close(&graph);
        return status;
    }
    *graph_out = graph;
    return SHOAL_OK;
}

void shoali_graph_close(shoali_graph *graph)
{
    shoali_free(graph->first);
    shoali_free(graph->to);
    *graph = (shoali_graph){0};
}

uint32_t shoali_graph_degree(const shoali_graph *graph, uint32_t node)
{
    return graph->first[node + 1] - graph->first[node];
}

uint32_t shoali_graph_largest_degree(const shoali_graph *graph)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < graph->nodes; i++) {
        uint32_t degree = shoali_graph_degree(graph, i);
        most = degree > most ? degree : most;
    }
    return most;
}

/* Rounds of a breadth-first search without a queue: graphs are small. */
void shoali_graph_distances(const shoali_graph *graph, uint32_t a, uint32_t *out)
{
    bool more = true;
    memset(out, 0xff, graph->nodes * sizeof *out);
    out[a] = 0;
    for (uint32_t far = 0; more; far++) {
        more = false;
        for (uint32_t i = 0; i < graph->nodes; i++)
            for (uint32_t e = graph->first[i]; out[i] == far && e < graph->first[i + 1]; e++)
                if (out[graph->to[e]] == UINT32_MAX) {
                    out[graph->to[e]] = far + 1;
                    more = true;
                }
    }
}

uint32_t shoali_graph_diameter(const shoali_graph *graph)
{
    uint32_t most = 0;
    uint32_t *distance = shoali_alloc_array(graph->nodes, sizeof *distance);
    for (uint32_t a = 0; a < graph->nodes && distance != NULL; a++) {
        shoali_graph_distances(graph, a, distance);
        for (uint32_t b = 0; b < graph->nodes; b++)
            most = distance[b] > most ? distance[b] : most;
    }
    shoali_free(distance);
    return most;
}

bool shoali_graph_sides(const shoali_graph *graph, uint32_t *sides_out)
{
    shoali_graph_distances(graph, 0, sides_out);
    for (uint32_t i = 0; i < graph->nodes; i++)
        sides_out[i] %= 2;
    for (uint32_t i = 0; i < graph->nodes; i++)
        for (uint32_t e = graph->first[i]; e < graph->first[i + 1]; e++)
            if (sides_out[i] == sides_out[graph->to[e]])
                return false;
    return true;
}

/* ---------------------------------------------------------------- weights */

double shoali_graph_weight(uint32_t degree_a, uint32_t degree_b)
{
    return 1.0 / (1 + (degree_a > degree_b ? degree_a : degree_b));
}

/* y = W x. */
static void multiply(const shoali_graph *graph, const double *x, double *y)
{
    for (uint32_t i = 0; i < graph->nodes; i++) {
        uint32_t degree = shoali_graph_degree(graph, i);
        y[i] = x[i];
        for (uint32_t e = graph->first[i]; e < graph->first[i + 1]; e++) {
            uint32_t j = graph->to[e];
            y[i] += shoali_graph_weight(degree, shoali_graph_degree(graph, j)) * (x[j] - x[i]);
        }
    }
}

/* Take the mean out and make the length 1; the length before. */
static double normalise(double *x, uint32_t count)
{
    double mean = 0, length = 0;
    for (uint32_t i = 0; i < count; i++)
        mean += x[i] / count;
    for (uint32_t i = 0; i < count; i++) {
        x[i] -= mean;
        length += x[i] * x[i];
    }
    length = sqrt(length);
    for (uint32_t i = 0; i < count && length > 0; i++)
        x[i] /= length;
    return length;
}

/* Power iteration without the constant vector, whose eigenvalue is 1; W is symmetric, so |W x|
 * rises towards the largest magnitude that is left. */
double shoali_graph_spectral_gap(const shoali_graph *graph)
{
    double *x = shoali_alloc_array(graph->nodes, 2 * sizeof *x), before = -1, rate = 0;
    if (x == NULL)
        return -1;
    double *y = x + graph->nodes;
    for (uint32_t i = 0; i < graph->nodes; i++)
        x[i] = sin(1 + 3.7 * i); /* not orthogonal to anything by accident */
    (void)normalise(x, graph->nodes);
    for (int step = 0; step < POWER_STEPS && fabs(rate - before) > 1e-15; step++) {
        before = rate;
        multiply(graph, x, y);
        rate = normalise(y, graph->nodes);
        double *swap = x;
        x = y;
        y = swap;
    }
    shoali_free(x < y ? x : y);
    return 1 - rate;
}
