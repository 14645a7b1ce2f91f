/* SPDX-License-Identifier: Apache-2.0 */
/* What a net will take, from the plan by which it is made. */
#include "base/error.h"
#include "nn/exec.h"
#include "nn/graph.h"
#include "nn/nn.h"
#include "nn/optim.h"

enum { TEST_SAMPLES = 256, BATCH_MAX = 1 << 20 };

uint32_t shoali_net_samples(const shoal_model *model, uint32_t batch)
{
    const uint64_t room = UINT64_C(1) << 22; /* floats */
    shoal_model_info info = SHOAL_MODEL_INFO_INIT;
    if (model->sequence || shoal_model_describe(model, &info) != SHOAL_OK)
        return batch;
    const uint64_t each = info.activation_count > 0 ? info.activation_count : 1;
    const uint64_t samples = room / each < TEST_SAMPLES ? room / each : TEST_SAMPLES;
    return samples > batch ? (uint32_t)samples : batch;
}

static bool owns_output(const shoali_graph *graph, const shoali_layer *layer, uint32_t index)
{
    return !graph->in_place[index] && (layer->row->traits & SHOALI_LAYER_ALIAS) == 0;
}

static void add_layer(const shoali_graph *graph, const shoal_model *model, uint32_t index,
                      uint32_t samples, shoal_model_memory *m)
{
    const shoali_layer *layer = &model->layers[index];
    const shoali_exec *exec = shoali_exec_of(layer->row);
    if (owns_output(graph, layer, index))
        m->outputs += sizeof(float) * samples * shoali_shape_elems(layer->out);
    if (exec->saved_bytes != NULL)
        m->kept += exec->saved_bytes(layer, samples);
    const uint64_t work = exec->work_bytes != NULL ? exec->work_bytes(layer, samples) : 0;
    m->work = work > m->work ? work : m->work;
}

static shoal_status add_net(const shoal_model *model, uint32_t samples, shoal_arena *arena,
                            shoal_model_memory *m)
{
    shoali_graph graph;
    SHOALI_TRY(shoali_graph_plan(arena, model, &graph));
    for (uint32_t i = 0; i < model->layer_count; i++)
        add_layer(&graph, model, i, samples, m);
    if (m->work == SIZE_MAX) /* the last error says what oneDNN refused */
        return SHOAL_ENOTSUP;
    for (uint32_t slot = 0; slot < graph.slot_count; slot++)
        m->slopes += sizeof(float) * samples * graph.slot_elems[slot];
    return SHOAL_OK;
}

shoal_status shoal_model_memory_of(const shoal_model *model, uint32_t batch, const char *optimizer,
                                   shoal_model_memory *memory_out)
{
    if (model == NULL || memory_out == NULL || memory_out->size != sizeof *memory_out)
        return shoali_fail(SHOAL_EINVAL, "model memory: an argument is NULL, or the size is wrong");
    SHOALI_TRY(shoali_net_runs(model));
    if (batch == 0 || batch > BATCH_MAX)
        return shoali_fail(SHOAL_EINVAL, "a batch of %u samples; it must be 1 .. %u", batch,
                           (unsigned)BATCH_MAX);
    const uint32_t samples = shoali_net_samples(model, batch);
    const uint64_t params = sizeof(float) * model->param_count;
    shoal_model_memory m = {
        .size = sizeof m, .samples = samples, .parameters = params, .gradients = params};
    SHOALI_TRY(shoali_optim_bytes(optimizer != NULL ? optimizer : "sgd:momentum=0.9",
                                  model->tensors, model->tensor_count, &m.optimizer));
    m.input = sizeof(float) * samples * shoali_shape_elems(model->input);
    m.state = sizeof(float) * model->state_count;
    shoal_arena *arena = shoali_arena_create(4096);
    const shoal_status status = arena != NULL ? add_net(model, samples, arena, &m) : SHOAL_ENOMEM;
    shoali_arena_destroy(arena);
    m.total = m.parameters + m.gradients + m.optimizer + m.state + m.input + m.outputs + m.kept +
              m.slopes + m.work;
    if (status == SHOAL_OK)
        *memory_out = m;
    return status;
}
