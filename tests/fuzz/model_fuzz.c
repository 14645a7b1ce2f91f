/* SPDX-License-Identifier: Apache-2.0 */
/* Model files: built or refused with a reason; what was built keeps its bounds, and its graph is
 * planned or refused. */
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "model/model_text.h"
#include "nn/graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

static void check(const shoal_model *model)
{
    uint64_t next = 0;
    bool described = model->described != NULL;
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        /* described blocks before it have no tensors */
        const uint64_t at = model->tensors[t].offset;
        if ((described ? at < next : at != next) || model->tensors[t].count == 0)
            abort();
        next = at + model->tensors[t].count;
    }
    if (described ? next > model->param_count : next != model->param_count)
        abort();
    if (model->param_count > (described ? SHOALI_DESCRIBED_ELEMS_MAX : SHOALI_MODEL_ELEMS_MAX))
        abort();
    for (uint32_t i = 0; i < model->layer_count; i++) {
        uint64_t elems = shoali_shape_elems(model->layers[i].out);
        bool own = model->layers[i].described;
        if (elems == 0 || elems > (own ? SHOALI_DESCRIBED_ELEMS_MAX : SHOALI_MODEL_ELEMS_MAX) ||
            !(model->layers[i].forward_flops >= 0))
            abort();
    }
}

static void check_graph(const shoal_model *model, shoal_arena *arena)
{
    shoali_graph graph;
    if (model->described != NULL || shoali_graph_plan(arena, model, &graph) != SHOAL_OK)
        return;
    for (uint32_t i = 0; i < model->layer_count; i++)
        for (uint32_t e = graph.first[i]; e < graph.first[i + 1]; e++)
            if (graph.edges[e].value > i || graph.slot[graph.edges[e].value] >= graph.slot_count)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    shoali_model_text text;
    shoal_model *model = NULL;
    shoal_arena *arena = shoali_arena_create(1024);
    shoal_status status = shoali_model_parse_json("fuzz", (const char *)bytes, len_bytes, arena,
                                                  &text);
    if (status == SHOAL_OK)
        status = shoali_model_build("fuzz", &text, len_bytes % 2 == 0, &model);
    if (status == SHOAL_OK) {
        check(model);
        check_graph(model, arena);
    } else if (model != NULL || shoal_last_error()->status != status) {
        abort();
    }
    shoal_model_close(model);
    shoali_arena_destroy(arena);
    return 0;
}
