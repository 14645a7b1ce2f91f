/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a graph: what is known of small ones, and for random ones that no buffer of gradients
 * and no memory of an output is written while somebody still needs what is in it. */
#include "nn/graph.h"

#include <stdio.h>

#include "base/rng.h"
#include "model/model_text.h"
#include "support/check.h"

enum { DEPTH = 14, VALUES = DEPTH + 1, NOBODY = 1000 };

typedef struct setting {
    shoal_arena *arena;
    shoal_model *model;
    shoali_graph graph;
} setting;

static shoal_status open_graph(const char *const *layers, uint32_t count, setting *s)
{
    const shoali_model_text text = {
        .name = "g", .input = {4, 1, 1}, .layers = layers, .layer_count = count};
    s->arena = shoali_arena_create(1024);
    assert_ok(shoali_model_build("g", &text, false, &s->model));
    return shoali_graph_plan(s->arena, s->model, &s->graph);
}

static void close_graph(setting *s)
{
    shoal_model_close(s->model);
    shoali_arena_destroy(s->arena);
}

static void a_chain_takes_two_buffers_in_turn(void **state)
{
    static const char *const layers[] = {"dense:out=4", "relu", "flatten", "dense:out=3",
                                         "dense:out=9"};
    setting s;
    (void)state;
    assert_ok(open_graph(layers, 5, &s));
    assert_int_equal(s.graph.slot_count, 2);
    assert_int_equal(s.graph.slot[5], 0);
    assert_int_equal(s.graph.slot[4], 1);
    assert_int_equal(s.graph.slot[2], 0);
    assert_int_equal(s.graph.slot[1], 0); /* relu works over it */
    assert_true(s.graph.in_place[1]);
    assert_int_equal(s.graph.slot_elems[0], 9);
    assert_int_equal(s.graph.slot_elems[1], 4); /* the batch's own */
    assert_false(s.graph.trained[0]);
    close_graph(&s);
}

static void a_way_around_has_two_readers_and_adds(void **state)
{
    static const char *const layers[] = {"dense:out=4", "relu", "dense:out=4", "add:back=2",
                                         "tanh"};
    setting s;
    (void)state;
    assert_ok(open_graph(layers, 5, &s));
    assert_int_equal(s.graph.readers[2], 2);
    assert_int_equal(s.graph.output, 5);
    assert_true(s.graph.in_place[1] && s.graph.in_place[3] && s.graph.in_place[4]);
    assert_true(s.graph.edges[s.graph.first[2]].adds); /* the dense layer's, to what add gave */
    assert_false(s.graph.edges[s.graph.first[3]].adds);
    assert_true(s.graph.scratch[2] != SHOALI_GRAPH_NO_SLOT);
    assert_int_equal(s.graph.slot_count, 3);
    close_graph(&s);
}

/* ---------------------------------------------------------------- random graphs */

static uint32_t draw(uint64_t seed, uint32_t which, uint32_t at, uint32_t below)
{
    return (uint32_t)shoali_rng_below(seed, which, at, below);
}

/* Layers of one width, so that anything may join anything. */
static void random_layers(uint64_t seed, uint32_t which, char (*text)[32], const char **layers)
{
    static const char *const plain[] = {"dense:out=4", "tanh", "relu", "dropout", "flatten"};
    for (uint32_t i = 0; i < DEPTH; i++) {
        uint32_t kind = draw(seed, which, 3 * i, 9), back = 1 + draw(seed, which, 3 * i + 1, i + 1);
        if (kind < 5)
            snprintf(text[i], 32, "%s", plain[kind]);
        else
            snprintf(text[i], 32, "%s:back=%u", kind < 8 ? "add" : "branch", back);
        layers[i] = text[i];
    }
}

static bool is(const setting *s, uint32_t layer, const char *kind)
{
    return strcmp(s->model->layers[layer].row->name, kind) == 0;
}

static bool computes(const setting *s, uint32_t layer)
{
    return !is(s, layer, "flatten") && !is(s, layer, "branch");
}

/* Every memory knows which value is in it. */
static void check_outputs(const setting *s)
{
    const shoali_graph *g = &s->graph;
    uint32_t memory[VALUES] = {0}, holds[VALUES] = {0};
    for (uint32_t i = 0; i < DEPTH; i++) {
        if (!computes(s, i))
            continue;
        for (uint32_t e = g->first[i]; e < g->first[i + 1]; e++)
            assert_int_equal(holds[memory[g->edges[e].value]], g->edges[e].value);
        memory[i + 1] = g->in_place[i] ? memory[g->edges[g->first[i + 1] - 1].value] : i + 1;
        holds[memory[i + 1]] = i + 1;
    }
    assert_int_equal(holds[0], 0); /* the caller's batch */
    assert_int_equal(holds[memory[g->output]], g->output);
    for (uint32_t i = 0; i < DEPTH; i++) {
        if (is(s, i, "dense")) /* backward reads the input, of the others the output */
            assert_int_equal(holds[memory[g->edges[g->first[i]].value]],
                             g->edges[g->first[i]].value);
        if (is(s, i, "tanh") || is(s, i, "relu"))
            assert_int_equal(holds[memory[i + 1]], i + 1);
    }
}

/* Every buffer knows whose gradient is in it, and of how many readers. */
static void check_slopes(const setting *s)
{
    const shoali_graph *g = &s->graph;
    uint32_t whose[VALUES + 1], got[VALUES] = {0};
    for (uint32_t slot = 0; slot <= VALUES; slot++)
        whose[slot] = NOBODY;
    whose[0] = g->output;
    got[g->output] = 1; /* the loss */
    for (uint32_t i = DEPTH; i-- > 0;) {
        if (!computes(s, i))
            continue;
        assert_int_equal(whose[g->slot[i + 1]], i + 1);
        assert_int_equal(got[i + 1], g->readers[i + 1]);
        for (uint32_t e = g->first[i]; e < g->first[i + 1]; e++) {
            uint32_t value = g->edges[e].value, slot = g->slot[value];
            assert_int_equal(g->edges[e].adds, got[value] > 0);
            assert_true(slot < g->slot_count && g->slot_elems[slot] >= 4);
            if (g->edges[e].adds && g->first[i + 1] - g->first[i] == 1)
                whose[g->scratch[i]] = NOBODY;
            if (g->edges[e].adds)
                assert_int_equal(whose[slot], value);
            assert_true(slot != g->slot[i + 1] || (g->in_place[i] && e + 1 == g->first[i + 1]));
            whose[slot] = value;
            got[value]++;
        }
    }
}

static void random_graphs_overwrite_nothing_that_is_needed(void **state)
{
    uint64_t seed = check_seed();
    uint32_t checked = 0;
    (void)state;
    for (uint32_t which = 0; which < 4000; which++) {
        char text[DEPTH][32];
        const char *layers[DEPTH];
        setting s;
        random_layers(seed, which, text, layers);
        shoal_status status = open_graph(layers, DEPTH, &s);
        if (status == SHOAL_OK) {
            check_outputs(&s);
            check_slopes(&s);
            checked++;
        } else {
            assert_status(status, SHOAL_ENOTSUP); /* a branch left somebody behind */
        }
        close_graph(&s);
    }
    assert_true(checked > 400);
}

static void memory_runs_out_cleanly(void **state)
{
    shoal_model *model;
    shoal_arena *arena = shoali_arena_create(64);
    shoali_graph graph;
    (void)state;
    assert_ok(shoal_model_open("resnet-18", &model));
    (void)shoali_alloc_fail_at(1);
    assert_status(shoali_graph_plan(arena, model, &graph), SHOAL_ENOMEM);
    (void)shoali_alloc_fail_at(0);
    assert_ok(shoali_graph_plan(arena, model, &graph));
    assert_true(graph.slot_count <= 4); /* however deep */
    shoal_model_close(model);
    shoali_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_chain_takes_two_buffers_in_turn),
        CHECK_TEST(a_way_around_has_two_readers_and_adds),
        CHECK_TEST(random_graphs_overwrite_nothing_that_is_needed),
        CHECK_TEST(memory_runs_out_cleanly),
    };
    return CHECK_RUN(tests);
}
