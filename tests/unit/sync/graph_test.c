/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs against the figures of specs/synchronisation.md 2.10, and spectral gaps against LAPACK. */
#include "sync/graph.h"

#include <math.h>

#include "support/check.h"
#include "support/scratch_dir.h"

/* LAPACK: eigenvalues of a symmetric matrix, ascending, to w. */
void dsyev_(const char *jobz, const char *uplo, const int *n, double *a, const int *lda, double *w,
            double *work, const int *lwork, int *info);

enum { MOST = 24 };

static double gap_of_lapack(const shoali_graph *graph)
{
    double a[MOST * MOST] = {0}, w[MOST], work[8 * MOST];
    int n = (int)graph->nodes, lwork = 8 * MOST, info = 1;
    for (uint32_t i = 0; i < graph->nodes; i++) {
        double rest = 1;
        for (uint32_t e = graph->first[i]; e < graph->first[i + 1]; e++) {
            uint32_t j = graph->to[e], di = graph->first[i + 1] - graph->first[i];
            uint32_t dj = graph->first[j + 1] - graph->first[j];
            double weight = 1.0 / (1 + (di > dj ? di : dj));
            a[i * graph->nodes + j] = weight;
            rest -= weight;
        }
        a[i * graph->nodes + i] = rest;
    }
    dsyev_("N", "U", &n, a, &n, w, work, &lwork, &info);
    assert_int_equal(info, 0);
    assert_true(fabs(w[n - 1] - 1) < 1e-12);
    return 1 - fmax(fabs(w[n - 2]), fabs(w[0]));
}

static void degrees_diameters_and_gaps_are_the_published_ones(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint32_t nodes, degree, diameter;
        double gap;
    } known[] = {{"ring", 8, 2, 4, .195},        {"chords", 8, 3, 2, .500},
                 {"double_ring", 8, 4, 2, .400}, {"ring", 16, 2, 8, .051},
                 {"chords", 16, 3, 4, .146},     {"double_ring", 16, 4, 3, .400},
                 {"complete", 16, 15, 1, 1}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        shoali_graph graph;
        assert_ok(shoali_graph_open(known[i].spec, known[i].nodes, &graph));
        for (uint32_t node = 0; node < known[i].nodes; node++)
            assert_int_equal(shoali_graph_degree(&graph, node), known[i].degree);
        assert_int_equal(shoali_graph_diameter(&graph), known[i].diameter);
        assert_true(fabs(shoali_graph_spectral_gap(&graph) - known[i].gap) < 6e-4);
        shoali_graph_close(&graph);
    }
}

static void spectral_gaps_equal_lapacks(void **state)
{
    (void)state;
    static const char *const specs[] = {"ring", "chords", "double_ring", "complete", "parity"};
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++)
        for (uint32_t nodes = 2; nodes <= MOST; nodes += 2) {
            shoali_graph graph;
            assert_ok(shoali_graph_open(specs[s], nodes, &graph));
            assert_true(fabs(shoali_graph_spectral_gap(&graph) - gap_of_lapack(&graph)) < 1e-7);
            shoali_graph_close(&graph);
        }
}

static void neighbours_are_mutual_and_sides_are_sides(void **state)
{
    (void)state;
    static const char *const specs[] = {"ring", "chords", "complete", "parity"};
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++)
        for (uint32_t nodes = 1; nodes <= 11; nodes++) {
            uint32_t sides[11];
            shoali_graph graph;
            assert_ok(shoali_graph_open(specs[s], nodes, &graph));
            for (uint32_t i = 0; i < nodes; i++)
                for (uint32_t e = graph.first[i]; e < graph.first[i + 1]; e++) {
                    uint32_t j = graph.to[e], back = graph.first[j];
                    while (back < graph.first[j + 1] && graph.to[back] != i)
                        back++;
                    assert_true(j != i && back < graph.first[j + 1]);
                }
            bool even_ring = s == 0 && nodes % 2 == 0;
            if (nodes > 3)
                assert_int_equal(shoali_graph_sides(&graph, sides),
                                 even_ring || s == 3 || (s == 1 && nodes % 4 == 2));
            shoali_graph_close(&graph);
        }
}

static void files_are_read_and_bad_lines_named(void **state)
{
    (void)state;
    char path[256];
    shoali_graph graph;
    uint32_t found[4], count;
    static const char star[] = "# a star\n0 1\n2 0 # back\n\n 0\t3\r\n";
    (void)scratch_dir_make();
    snprintf(path, sizeof path, "%s", scratch_path("graph.txt"));
    scratch_write("graph.txt", star, sizeof star - 1);
    assert_ok(shoali_graph_neighbours(path, 4, 0, found, &count));
    assert_int_equal(count, 3);
    assert_int_equal(found[2], 3);
    assert_ok(shoali_graph_open(path, 4, &graph));
    assert_true(fabs(shoali_graph_spectral_gap(&graph) - gap_of_lapack(&graph)) < 1e-9);
    shoali_graph_close(&graph);
    assert_status(shoali_graph_open(path, 5, &graph), SHOAL_EINVAL);
    assert_error_has("no way leads from worker 0 to worker 4");
    static const char *const bad[] = {"0 1\n0 4\n",   "0 1\n0 -1\n",    "0 1\n0\n",
                                      "0 1\n0 1 2\n", "0 1\nx y\n",     "0 1\n0 > 4\n",
                                      "0 1\n0 >\n",   "0 1\n0 > > 1\n", "0 1\n> 0 1\n",
                                      "0 1\n0 < 1\n", "0 1\n0 > -1\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        scratch_write("graph.txt", bad[i], strlen(bad[i]));
        assert_status(shoali_graph_neighbours(path, 4, 0, NULL, &count), SHOAL_EINVAL);
        assert_error_has("line 2");
    }
    scratch_dir_remove();
    assert_status(shoali_graph_neighbours("./none", 4, 0, NULL, &count), SHOAL_EIO);
    assert_status(shoali_graph_neighbours("torus", 4, 0, NULL, &count), SHOAL_EINVAL);
    assert_error_has("double_ring");
    assert_status(shoali_graph_neighbours("double_ring", 5, 0, NULL, &count), SHOAL_EINVAL);
}

/* Rows and columns of what all nodes are told they hear, with one weight for all edges. */
static void directed_graphs_are_balanced_and_doubly_stochastic(void **state)
{
    (void)state;
    static const char *const specs[] = {"one_way", "exponential"};
    for (size_t s = 0; s < 2; s++)
        for (uint32_t nodes = 2; nodes <= MOST; nodes++) {
            double w[MOST][MOST] = {{0}}, weight;
            shoali_graph graph;
            uint32_t degree = 0;
            for (uint32_t far = 1; far < nodes; far = s == 0 ? nodes : 2 * far)
                degree++;
            assert_true(shoali_graph_is_directed(specs[s]));
            assert_ok(shoali_graph_open(specs[s], nodes, &graph));
            assert_true(graph.directed);
            assert_int_equal(shoali_graph_largest_degree(&graph), degree);
            if (s == 0)
                assert_int_equal(shoali_graph_diameter(&graph), nodes - 1);
            weight = shoali_graph_weight(degree, degree);
            for (uint32_t i = 0; i < nodes; i++) {
                shoali_neighbour around[MOST];
                uint32_t count, heard;
                assert_ok(shoali_graph_around(specs[s], nodes, i, around, &count, &heard));
                w[i][i] = 1 - heard * weight;
                for (uint32_t k = 0; k < count; k++) {
                    assert_int_equal(around[k].heard, k < heard);
                    if (around[k].heard)
                        w[i][around[k].node] = weight;
                    if (s == 0 && nodes > 2)
                        assert_int_equal(around[k].node, (i + (k == 0 ? nodes - 1 : 1)) % nodes);
                }
            }
            for (uint32_t j = 0; j < nodes; j++) {
                double column = 0;
                for (uint32_t i = 0; i < nodes; i++)
                    column += w[i][j];
                assert_true(fabs(column - 1) < 1e-12);
            }
            shoali_graph_close(&graph);
        }
}

static void graphs_that_lean_are_refused(void **state)
{
    (void)state;
    char path[256];
    shoali_graph graph;
    uint32_t count;
    static const char leaning[] = "0 > 1\n1 > 2\n2 > 0\n0 > 2\n";
    static const char whole[] = "0 > 1 # and on\n1 > 2\n2 > 3\n3 > 0\n0 2\n";
    static const char apart[] = "0 > 1\n1 > 0\n2 > 3\n3 > 2\n";
    (void)scratch_dir_make();
    snprintf(path, sizeof path, "%s", scratch_path("graph.txt"));
    scratch_write("graph.txt", leaning, sizeof leaning - 1);
    assert_true(shoali_graph_is_directed(path));
    assert_status(shoali_graph_open(path, 3, &graph), SHOAL_EINVAL);
    assert_error_has("worker 0 hears 1 and is heard by 2");
    assert_status(shoali_graph_neighbours(path, 3, 0, NULL, &count), SHOAL_EINVAL);
    assert_error_has("is directed");
    scratch_write("graph.txt", whole, sizeof whole - 1);
    assert_ok(shoali_graph_open(path, 4, &graph));
    assert_int_equal(shoali_graph_largest_degree(&graph), 2);
    shoali_graph_close(&graph);
    scratch_write("graph.txt", apart, sizeof apart - 1);
    assert_status(shoali_graph_open(path, 4, &graph), SHOAL_EINVAL);
    assert_error_has("no way leads from worker 0 to worker 2");
    scratch_write("graph.txt", "0 1 # > is for arrows\n", 22);
    assert_false(shoali_graph_is_directed(path));
    scratch_dir_remove();
    assert_false(shoali_graph_is_directed("ring"));
    assert_false(shoali_graph_is_directed("./none"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(degrees_diameters_and_gaps_are_the_published_ones),
        CHECK_TEST(spectral_gaps_equal_lapacks),
        CHECK_TEST(neighbours_are_mutual_and_sides_are_sides),
        CHECK_TEST(files_are_read_and_bad_lines_named),
        CHECK_TEST(directed_graphs_are_balanced_and_doubly_stochastic),
        CHECK_TEST(graphs_that_lean_are_refused),
    };
    return CHECK_RUN(tests);
}
