/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of outputs: a buffer is taken when the last reader of a value has run backward, and
 * given back when the layer that made the value has. A chain takes two of them in turn. */
#include "nn/graph.h"

#include "base/error.h"

static shoal_status take_arrays(shoal_arena *arena, const shoal_model *model, shoali_graph *g)
{
    const size_t layers = model->layer_count, values = layers + 1;
    size_t edges = 0;
    uint32_t inputs[SHOALI_LAYER_INPUTS_MAX];
    for (uint32_t i = 0; i < layers; i++)
        edges += shoali_layer_inputs(model, i, inputs);
    g->edges = shoali_arena_array(arena, edges, sizeof *g->edges);
    g->first = shoali_arena_array(arena, values, sizeof *g->first);
    g->readers = shoali_arena_array(arena, values, sizeof *g->readers);
    g->trained = shoali_arena_array(arena, values, sizeof *g->trained);
    g->in_place = shoali_arena_array(arena, layers, sizeof *g->in_place);
    g->slot = shoali_arena_array(arena, values, sizeof *g->slot);
    g->scratch = shoali_arena_array(arena, layers, sizeof *g->scratch);
    g->slot_elems = shoali_arena_array(arena, values + 1, sizeof *g->slot_elems);
    bool ok = g->edges != NULL && g->first != NULL && g->readers != NULL && g->trained != NULL &&
              g->in_place != NULL && g->slot != NULL && g->scratch != NULL && g->slot_elems != NULL;
    return ok ? SHOAL_OK : SHOAL_ENOMEM;
}

static bool is_view(const shoali_layer *layer)
{
    return (layer->row->traits & SHOALI_LAYER_ALIAS) != 0;
}

/* Views read nothing: who reads them reads what they show. */
static void read_edges(const shoal_model *model, shoali_graph *g)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        uint32_t inputs[SHOALI_LAYER_INPUTS_MAX], count = shoali_layer_inputs(model, i, inputs);
        g->first[i] = at;
        g->trained[i + 1] = model->layers[i].tensor_count > 0;
        for (uint32_t k = 0; k < count && !is_view(&model->layers[i]); k++) {
            g->edges[at++] = (shoali_edge){inputs[k], false};
            g->readers[inputs[k]]++;
            g->trained[i + 1] = g->trained[i + 1] || g->trained[inputs[k]];
        }
    }
    g->first[model->layer_count] = at;
    g->output = shoali_layer_value(model, model->layer_count);
    g->readers[g->output]++;
}

static shoal_status check_readers(const shoal_model *model, const shoali_graph *g)
{
    for (uint32_t i = 0; i < model->layer_count; i++)
        if (g->readers[i + 1] == 0 && !is_view(&model->layers[i]))
            return shoali_fail(
                SHOAL_ENOTSUP,
                "model '%s': nothing reads what layer %u, %s ('%s'), gives: a branch "
                "leaves it behind. Join it (add, concat) or take it out",
                model->name, i + 1, model->layers[i].name, model->layers[i].spec);
    return SHOAL_OK;
}

/* Neither the caller's batch, nor what somebody else reads, nor an output that its own layer still
 * needs. */
static bool may_overwrite(const shoal_model *model, const shoali_graph *g, uint32_t layer)
{
    if ((model->layers[layer].row->traits & SHOALI_LAYER_IN_PLACE) == 0)
        return false;
    const uint32_t value = g->edges[g->first[layer + 1] - 1].value;
    return value > 0 && g->readers[value] == 1 &&
           (model->layers[value - 1].row->traits & SHOALI_LAYER_KEEPS_OUTPUT) == 0;
}

/* ---------------------------------------------------------------- buffers */

typedef struct planner {
    const shoal_model *model;
    shoali_graph *graph;
    bool *taken; /* [values + 1] */
} planner;

static uint64_t elems_of(const planner *p, uint32_t value)
{
    return shoali_shape_elems(value == 0 ? p->model->input : p->model->layers[value - 1].out);
}

static uint32_t take(planner *p, uint32_t value)
{
    shoali_graph *g = p->graph;
    uint32_t slot = 0;
    while (slot < g->slot_count && p->taken[slot])
        slot++;
    if (slot == g->slot_count)
        g->slot_count++;
    p->taken[slot] = true;
    if (g->slot_elems[slot] < elems_of(p, value))
        g->slot_elems[slot] = elems_of(p, value);
    return slot;
}

static void plan_edge(planner *p, uint32_t layer, uint32_t at)
{
    shoali_graph *g = p->graph;
    shoali_edge *edge = &g->edges[at];
    if (g->in_place[layer] && at + 1 == g->first[layer + 1]) {
        g->slot[edge->value] = g->slot[layer + 1];
    } else if (g->slot[edge->value] == SHOALI_GRAPH_NO_SLOT) {
        g->slot[edge->value] = take(p, edge->value);
    } else {
        edge->adds = true;
        if (g->first[layer + 1] - g->first[layer] == 1) /* joints add by themselves */
            g->scratch[layer] = take(p, edge->value);
    }
}

static void plan_slots(planner *p)
{
    shoali_graph *g = p->graph;
    g->slot[g->output] = take(p, g->output);
    for (uint32_t i = p->model->layer_count; i-- > 0;) {
        if (is_view(&p->model->layers[i]))
            continue;
        for (uint32_t at = g->first[i]; at < g->first[i + 1]; at++)
            plan_edge(p, i, at);
        if (g->scratch[i] != SHOALI_GRAPH_NO_SLOT)
            p->taken[g->scratch[i]] = false;
        if (!g->in_place[i])
            p->taken[g->slot[i + 1]] = false;
    }
}

shoal_status shoali_graph_plan(shoal_arena *arena, const shoal_model *model,
                               shoali_graph *graph_out)
{
    shoali_graph g = {0};
    SHOALI_TRY(take_arrays(arena, model, &g));
    planner p = {model, &g, shoali_arena_array(arena, model->layer_count + 2u, sizeof(bool))};
    if (p.taken == NULL)
        return SHOAL_ENOMEM;
    read_edges(model, &g);
    SHOALI_TRY(check_readers(model, &g));
    for (uint32_t i = 0; i < model->layer_count; i++) {
        g.in_place[i] = may_overwrite(model, &g, i);
        g.scratch[i] = SHOALI_GRAPH_NO_SLOT;
    }
    for (uint32_t v = 0; v <= model->layer_count; v++)
        g.slot[v] = SHOALI_GRAPH_NO_SLOT;
    plan_slots(&p);
    *graph_out = g;
    return SHOAL_OK;
}
