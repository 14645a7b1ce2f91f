/* SPDX-License-Identifier: Apache-2.0 */
/* A net: the nodes of a model over a few arenas. Activations lie one behind the other, a layer that
 * may work in place takes its input's memory; gradients of activations have the buffers of
 * graph.h's plan. */
#include "nn/nn.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "kernel/kernel.h"
#include "nn/exec.h"
#include "nn/graph.h"
#include "nn/init.h"
#include "nn/masked.h"
#include "nn/sequence_loss.h"

struct shoali_net {
    shoal_arena *arena; /* everything below lives here */
    const shoal_model *model;
    uint32_t batch_max, classes, trained; /* trained: samples of the last training pass */
    size_t in_elems;
    uint64_t seed;
    double smoothing;   /* of labels, in training */
    shoali_node *nodes; /* [model->layer_count] */
    float *params, *grads, *state;
    shoali_graph graph;
    float **slopes; /* [graph.slot_count]: gradients of activations */
    void *work;
    const float *scores;
    shoali_sequence_work *sequence; /* NULL: one label per sample */
    float *hidden;   /* [batch_max][frames]: what the net sees where tokens are masked; or NULL */
    uint32_t *asked; /* beside it: the tokens that stood there */
    uint32_t held;   /* frames of a sequence that shoali_net_continue may go on from */
    shoali_net_turn turn; /* NULL: nobody is told that the way back begins */
    void *turn_ctx;
};

/* ---------------------------------------------------------------- creation */

/* The value that the layer before gives, as the layer at index reads it. */
static uint32_t value_before(const shoali_net *net, uint32_t index)
{
    return net->graph.edges[net->graph.first[index + 1] - 1].value;
}

static shoal_status make_node(shoali_net *net, uint32_t index)
{
    const shoali_layer *layer = &net->model->layers[index];
    shoali_node *node = &net->nodes[index];
    *node = (shoali_node){.layer = layer,
                          .exec = shoali_exec_of(layer->row),
                          .params = net->params + layer->param_offset,
                          .grads = net->grads + layer->param_offset,
                          .state = net->state + layer->state_offset,
                          .in_place = net->graph.in_place[index]};
    if (node->in_place)
        node->y = net->nodes[value_before(net, index) - 1].y;
    node->absorbed = node->in_place && (layer->row->traits & SHOALI_LAYER_RECTIFIES) != 0 &&
                     node[-1].exec->rectifies;
    if (node->absorbed)
        node[-1].rectify = true;
    if (node->exec->saved_bytes != NULL) {
        node->saved = shoali_arena_alloc(net->arena,
                                         node->exec->saved_bytes(layer, net->batch_max));
        if (node->saved == NULL)
            return SHOAL_ENOMEM;
    }
    if (node->in_place || (layer->row->traits & SHOALI_LAYER_ALIAS) != 0)
        return SHOAL_OK;
    node->y = shoali_arena_array(
        net->arena, (size_t)shoali_shape_elems(layer->out) * net->batch_max, sizeof(float));
    return node->y != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static shoal_status make_buffers(shoali_net *net)
{
    size_t work = 0;
    for (uint32_t i = 0; i < net->model->layer_count; i++) {
        const shoali_layer *layer = &net->model->layers[i];
        const shoali_node *node = &net->nodes[i];
        if (node->exec->setup != NULL)
            SHOALI_TRY(node->exec->setup(node, net->batch_max));
        const size_t needed = node->exec->work_bytes != NULL
                                  ? node->exec->work_bytes(layer, net->batch_max)
                                  : 0;
        work = needed > work ? needed : work;
    }
    net->work = shoali_arena_alloc(net->arena, work);
    net->slopes = shoali_arena_array(net->arena, net->graph.slot_count, sizeof *net->slopes);
    if (net->work == NULL || net->slopes == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t slot = 0; slot < net->graph.slot_count; slot++) {
        size_t elems = (size_t)net->graph.slot_elems[slot];
        net->slopes[slot] = shoali_arena_array(net->arena, elems * net->batch_max, sizeof(float));
        if (net->slopes[slot] == NULL)
            return SHOAL_ENOMEM;
    }
    return SHOAL_OK;
}

/* Running variances start at 1, all other state at 0. */
static void init_state(shoali_net *net)
{
    for (uint32_t i = 0; i < net->model->layer_count; i++) {
        const shoali_layer *layer = &net->model->layers[i];
        for (uint64_t s = layer->state_count / 2; s < layer->state_count; s++)
            net->state[layer->state_offset + s] = 1.0f;
    }
}

/* params and grads: of someone else, who fills them, too; NULL: our own. */
static shoal_status fill_net(shoali_net *net, float *params, float *grads)
{
    const shoal_model *model = net->model;
    size_t count = (size_t)model->param_count;
    net->nodes = shoali_arena_array(net->arena, model->layer_count, sizeof *net->nodes);
    net->params = params != NULL ? params : shoali_arena_array(net->arena, count, sizeof(float));
    net->grads = grads != NULL ? grads : shoali_arena_array(net->arena, count, sizeof(float));
    net->state = shoali_arena_array(net->arena, (size_t)model->state_count, sizeof(float));
    if (net->nodes == NULL || net->params == NULL || net->grads == NULL || net->state == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(shoali_graph_plan(net->arena, model, &net->graph));
    for (uint32_t i = 0; i < model->layer_count; i++)
        SHOALI_TRY(make_node(net, i));
    SHOALI_TRY(make_buffers(net));
    if (model->sequence && params == NULL)
        SHOALI_TRY(shoali_sequence_work_create(net->arena, model, &net->sequence));
    if (model->masked) {
        const size_t tokens = (size_t)model->input.height * net->batch_max;
        net->hidden = shoali_arena_array(net->arena, tokens, sizeof *net->hidden);
        net->asked = shoali_arena_array(net->arena, tokens, sizeof *net->asked);
        if (net->hidden == NULL || net->asked == NULL)
            return SHOAL_ENOMEM;
    }
    if (params == NULL)
        shoali_init_params(model, net->seed, net->params);
    init_state(net);
    return SHOAL_OK;
}

shoal_status shoali_net_runs(const shoal_model *model)
{
    if (model->described == NULL)
        return SHOAL_OK;
    (void)shoali_fail(SHOAL_ENOTSUP,
                      "model '%s' is a description for planners: nothing here runs its %s ('%s')",
                      model->name, model->described->name, model->described->spec);
    bool blocks = false;
    for (uint32_t i = 0; i < model->layer_count; i++)
        blocks = blocks || strcmp(model->layers[i].row->name, "transformer") == 0;
    if (blocks && strcmp(model->described->row->name, "embedding") == 0)
        shoali_error_advice("Blocks like LLaMA's train as layers of their own: open the model as "
                            "./net.json:parts (docs/language-models.md).");
    else if (strcmp(model->described->row->name, "embedding") == 0)
        shoali_error_advice(
            "Of an ONNX graph of tokens only its costs are read. What runs is a run "
            "folder (--from DIR) or one of Hugging Face's: docs/language-models.md.");
    return SHOAL_ENOTSUP;
}

static shoal_status check_runnable(const shoal_model *model, uint32_t batch_max)
{
    SHOALI_TRY(shoali_net_runs(model));
    if (batch_max == 0 || batch_max > 1u << 20)
        return shoali_fail(SHOAL_EINVAL, "a batch of %u samples; it must be 1 .. %u", batch_max,
                           1u << 20);
    return SHOAL_OK;
}

static shoal_status check_model(const shoal_model *model, uint32_t batch_max)
{
    shoal_shape out = model->layers[model->layer_count - 1].out;
    SHOALI_TRY(check_runnable(model, batch_max));
    if (model->param_count == 0)
        return shoali_fail(SHOAL_EINVAL, "model '%s' has no parameters to train", model->name);
    if (model->sequence && (model->input.channels != 1 || out.height != model->input.height))
        return shoali_fail(SHOAL_EINVAL,
                           "model '%s' turns %u frames into %u; training needs scores for each",
                           model->name, model->input.height, out.height);
    if (!model->sequence && (out.height != 1 || out.width != 1))
        return shoali_fail(
            SHOAL_EINVAL,
            "model '%s' ends in %u x %u x %u; training needs a vector of class scores", model->name,
            out.channels, out.height, out.width);
    return SHOAL_OK;
}

void shoali_net_destroy(shoali_net *net)
{
    for (uint32_t i = 0; net != NULL && net->nodes != NULL && i < net->model->layer_count; i++)
        if (net->nodes[i].saved != NULL && net->nodes[i].exec->teardown != NULL)
            net->nodes[i].exec->teardown(&net->nodes[i]);
    if (net != NULL)
        shoali_arena_destroy(net->arena);
}

size_t shoali_net_bytes(const shoali_net *net)
{
    return shoali_arena_bytes(net->arena);
}

static shoal_status create(const shoal_model *model, uint32_t batch_max, uint64_t seed,
                           float *params, float *grads, shoali_net **net_out)
{
    openblas_set_num_threads(1); /* one compute thread per worker: two pools cost more than give */
    shoal_arena *arena = shoali_arena_create(4096);
    shoali_net *net = arena != NULL ? shoali_arena_alloc(arena, sizeof *net) : NULL;
    shoal_status status = SHOAL_ENOMEM;
    if (net != NULL) {
        net->arena = arena;
        net->model = model;
        net->batch_max = batch_max;
        net->seed = seed;
        shoal_shape out = model->layers[model->layer_count - 1].out;
        net->classes = model->sequence ? out.width : out.channels;
        net->in_elems = (size_t)shoali_shape_elems(model->input);
        status = fill_net(net, params, grads);
    }
    if (status == SHOAL_OK)
        *net_out = net;
    else if (net != NULL)
        shoali_net_destroy(net);
    else
        shoali_arena_destroy(arena);
    return status;
}

shoal_status shoali_net_create(const shoal_model *model, uint32_t batch_max, uint64_t seed,
                               shoali_net **net_out)
{
    SHOALI_TRY(check_model(model, batch_max));
    return create(model, batch_max, seed, NULL, NULL, net_out);
}

shoal_status shoali_net_create_part(const shoal_model *model, uint32_t batch_max, float *params,
                                    float *grads, shoali_net **net_out)
{
    SHOALI_TRY(check_runnable(model, batch_max));
    return create(model, batch_max, 0, params, grads, net_out);
}

shoal_status shoali_net_smooth(shoali_net *net, double smoothing)
{
    if (smoothing > 0 && net->model->ctc)
        return shoali_fail(
            SHOAL_EINVAL,
            "model '%s' learns by CTC, which has no label per frame to smooth; leave "
            "label smoothing out",
            net->model->name);
    if (smoothing > 0 && net->model->hinge)
        return shoali_fail(SHOAL_EINVAL,
                           "model '%s' learns by the hinge loss, which has no label to smooth; "
                           "leave label smoothing out",
                           net->model->name);
    net->smoothing = smoothing;
    return SHOAL_OK;
}

float *shoali_net_params(shoali_net *net)
{
    return net->params;
}

size_t shoali_net_first_nonfinite(const shoali_net *net)
{
    return shoali_kernel()->first_nonfinite(net->grads, shoali_net_count(net));
}

float *shoali_net_grads(shoali_net *net)
{
    return net->grads;
}

size_t shoali_net_count(const shoali_net *net)
{
    return (size_t)net->model->param_count;
}

float *shoali_net_state(shoali_net *net, size_t *count_out)
{
    *count_out = (size_t)net->model->state_count;
    return *count_out > 0 ? net->state : NULL;
}

const float *shoali_net_scores(const shoali_net *net)
{
    return net->scores;
}

/* ---------------------------------------------------------------- running */

static shoal_status check_batch(const shoali_net *net, const shoali_batch *batch)
{
    if (batch->count > net->batch_max)
        return shoali_fail(SHOAL_EINVAL, "a batch of %u samples in a net made for %u", batch->count,
                           net->batch_max);
    uint32_t frames = net->sequence != NULL ? net->model->input.height : 1;
    for (uint32_t n = 0; n < batch->count; n++) {
        uint32_t length = net->sequence != NULL && batch->lengths != NULL ? batch->lengths[n]
                                                                          : frames;
        if (length == 0 || length > frames)
            return shoali_fail(SHOAL_EINVAL, "sample %u has %u frames; the model takes 1 .. %u", n,
                               length, frames);
        for (uint32_t t = 0; t < length; t++)
            if (batch->labels[(size_t)n * frames + t] >= net->classes)
                return shoali_fail(SHOAL_EINVAL, "sample %u has label %u, the model has %u classes",
                                   n, batch->labels[(size_t)n * frames + t], net->classes);
    }
    return SHOAL_OK;
}

static shoali_pass pass_of(const shoali_net *net, const shoali_batch *batch, bool training)
{
    shoali_pass pass = {.count = batch->count,
                        .training = training,
                        .seed = net->seed,
                        .first_serial = batch->first_serial,
                        .work = net->work};
    if (net->sequence == NULL || batch->lengths == NULL)
        return pass;
    pass.lengths = batch->lengths;
    for (uint32_t n = 0; n < batch->count; n++)
        pass.longest = pass.longest > batch->lengths[n] ? pass.longest : batch->lengths[n];
    return pass;
}

static const shoali_layer *last_layer(const shoali_net *net)
{
    return &net->model->layers[net->model->layer_count - 1];
}

/* What the net is shown of a batch. */
static const float *shown(shoali_net *net, const shoali_batch *batch, bool training)
{
    if (!net->model->masked)
        return batch->x;
    shoali_mask_batch(last_layer(net), batch, training, net->seed, net->hidden, net->asked);
    return net->hidden;
}

static void judge(shoali_net *net, const shoali_batch *batch, float *dscores, shoali_loss *loss)
{
    const double smoothing = dscores != NULL ? net->smoothing : 0;
    if (net->model->masked) {
        shoali_masked_loss(last_layer(net), net->scores, net->asked, batch, smoothing, dscores,
                           loss);
        return;
    }
    if (net->sequence != NULL) {
        shoali_sequence_loss(net->sequence, net->scores, batch, smoothing, dscores, loss);
        return;
    }
    shoali_class_loss_of(net->model)(net->scores, batch->labels, batch->count, net->classes,
                                     smoothing, batch->weight, dscores, &loss->sum, &loss->correct);
    loss->labels = batch->count;
}

/* What a layer gave, or the caller's batch. */
static const float *value_at(const shoali_net *net, const float *batch_x, uint32_t value)
{
    return value == 0 ? batch_x : net->nodes[value - 1].y;
}

static shoali_inputs inputs_of(const shoali_net *net, const float *batch_x, uint32_t index)
{
    const shoal_model *model = net->model;
    shoali_inputs in = {0};
    for (uint32_t e = net->graph.first[index]; e < net->graph.first[index + 1]; e++, in.count++) {
        uint32_t value = net->graph.edges[e].value;
        in.x[in.count] = value_at(net, batch_x, value);
        in.channels[in.count] = value == 0 ? model->input.channels
                                           : model->layers[value - 1].out.channels;
    }
    return in;
}

static const float *run_forward(shoali_net *net, const shoali_pass *pass, const float *x)
{
    net->held = 0;
    for (uint32_t i = 0; i < net->model->layer_count; i++) {
        const shoali_node *node = &net->nodes[i];
        if (node->y == NULL || node->absorbed)
            continue;
        if (node->exec->join_forward != NULL) {
            const shoali_inputs in = inputs_of(net, x, i);
            node->exec->join_forward(node, pass, &in, node->y);
        } else {
            node->exec->forward(node, pass, value_at(net, x, value_before(net, i)), node->y);
        }
    }
    return value_at(net, x, net->graph.output);
}

static shoal_status report(const shoali_node *node, shoali_grads_ready ready, void *ctx)
{
    if (ready == NULL || node->layer->param_count == 0)
        return SHOAL_OK;
    return ready(ctx, (size_t)node->layer->param_offset, (size_t)node->layer->param_count);
}

/* A pass to the parameters, or to the batch, too. */
typedef struct descent {
    const shoali_pass *pass;
    const float *batch_x;
    bool all; /* gradients also of what depends on no parameters */
} descent;

static bool needs(const shoali_net *net, const descent *d, uint32_t value)
{
    return d->all || net->graph.trained[value];
}

static float *slope_of(const shoali_net *net, uint32_t value)
{
    return net->slopes[net->graph.slot[value]];
}

static void join_back(shoali_net *net, const descent *d, uint32_t index)
{
    const shoali_node *node = &net->nodes[index];
    const shoali_inputs in = inputs_of(net, d->batch_x, index);
    const shoali_edge *edges = net->graph.edges + net->graph.first[index];
    for (uint32_t k = 0; k < in.count; k++)
        if (needs(net, d, edges[k].value))
            node->exec->join_backward(node, d->pass, &in, k, slope_of(net, index + 1),
                                      slope_of(net, edges[k].value), edges[k].adds);
}

static void layer_back(shoali_net *net, const descent *d, uint32_t index)
{
    const shoali_node *node = &net->nodes[index];
    const shoali_edge edge = net->graph.edges[net->graph.first[index]];
    const float *x = value_at(net, d->batch_x, edge.value);
    float *dx = needs(net, d, edge.value) ? slope_of(net, edge.value) : NULL, *to = dx;
    if (dx != NULL && edge.adds)
        to = net->slopes[net->graph.scratch[index]];
    node->exec->backward(node, d->pass, x, node->y, slope_of(net, index + 1), to);
    size_t count = to == dx ? 0 : d->pass->count * (size_t)shoali_shape_elems(node->layer->in);
    for (size_t i = 0; i < count; i++)
        dx[i] += to[i];
}

static shoal_status run_backward(shoali_net *net, const descent *d, shoali_grads_ready ready,
                                 void *ctx)
{
    for (uint32_t i = net->model->layer_count; i-- > 0;) {
        const shoali_node *node = &net->nodes[i];
        if (node->y == NULL || node->absorbed || !needs(net, d, i + 1))
            continue;
        (node->exec->join_backward != NULL ? join_back : layer_back)(net, d, i);
        SHOALI_TRY(report(node, ready, ctx));
    }
    return SHOAL_OK;
}

/* A worker without samples in this step still takes part in the exchange, with zeros. */
static shoal_status train_nothing(shoali_net *net, shoali_grads_ready ready, void *ctx)
{
    memset(net->grads, 0, shoali_net_count(net) * sizeof(float));
    for (uint32_t i = net->model->layer_count; i-- > 0;)
        SHOALI_TRY(report(&net->nodes[i], ready, ctx));
    return SHOAL_OK;
}

void shoali_net_at_turn(shoali_net *net, shoali_net_turn turn, void *ctx)
{
    net->turn = turn;
    net->turn_ctx = ctx;
}

shoal_status shoali_net_train(shoali_net *net, const shoali_batch *batch, shoali_grads_ready ready,
                              void *ctx, shoali_loss *loss_out)
{
    SHOALI_TRY(check_batch(net, batch));
    *loss_out = (shoali_loss){.count = batch->count};
    net->trained = batch->count;
    if (batch->count == 0)
        return train_nothing(net, ready, ctx);
    const shoali_pass pass = pass_of(net, batch, true);
    const float *x = shown(net, batch, true);
    net->scores = run_forward(net, &pass, x);
    judge(net, batch, net->slopes[0], loss_out);
    if (net->turn != NULL)
        net->turn(net->turn_ctx);
    return run_backward(net, &(descent){&pass, x, false}, ready, ctx);
}

const uint32_t *shoali_net_rows(const shoali_net *net, size_t offset, size_t *count_out)
{
    const uint32_t *rows = NULL;
    *count_out = 0;
    for (uint32_t i = 0; i < net->model->layer_count && rows == NULL; i++) {
        const shoali_node *node = &net->nodes[i];
        if (node->layer->param_offset == offset && node->exec->rows != NULL)
            rows = node->exec->rows(node, count_out);
    }
    if (net->trained == 0)
        *count_out = 0;
    return rows;
}

const float *shoali_net_forward(shoali_net *net, const float *x, uint32_t count)
{
    const shoali_pass pass = {.count = count, .training = true, .work = net->work};
    net->scores = run_forward(net, &pass, x);
    return net->scores;
}

float *shoali_net_slope(shoali_net *net)
{
    return net->slopes[0];
}

float *shoali_net_backward(shoali_net *net, const float *x, uint32_t count, bool need_dx)
{
    const shoali_pass pass = {.count = count, .training = true, .work = net->work};
    shoal_status status = run_backward(net, &(descent){&pass, x, need_dx}, NULL, NULL);
    return status == SHOAL_OK && need_dx ? slope_of(net, 0) : NULL; /* without `ready` nothing can
                                                                       fail */
}

shoal_status shoali_net_evaluate(shoali_net *net, const shoali_batch *batch, shoali_loss *loss_out)
{
    SHOALI_TRY(check_batch(net, batch));
    *loss_out = (shoali_loss){.count = batch->count};
    if (batch->count == 0)
        return SHOAL_OK;
    const shoali_pass pass = pass_of(net, batch, false);
    net->scores = run_forward(net, &pass, shown(net, batch, false));
    judge(net, batch, NULL, loss_out);
    return SHOAL_OK;
}

extern const shoali_exec shoali_exec_attention;

/* Frames that see later ones are others once there are more. */
static bool continues(const shoali_net *net)
{
    for (uint32_t i = 0; i < net->model->layer_count; i++) {
        const shoali_node *node = &net->nodes[i];
        const shoali_attention_params *p = node->layer->params;
        const bool looks = node->exec == &shoali_exec_attention;
        if (node->y != NULL && (!node->exec->continues || (looks && !p->causal)))
            return false;
    }
    return true;
}

void shoali_net_continue(shoali_net *net, const float *x, uint32_t from, uint32_t count)
{
    shoali_pass pass = {
        .count = 1, .seed = net->seed, .work = net->work, .lengths = &count, .longest = count};
    pass.from = from < net->held ? from : net->held;
    if (pass.from >= count || !continues(net))
        pass.from = 0;
    net->scores = run_forward(net, &pass, x);
    net->held = count;
}

static float largest(const float *x, size_t count, float most)
{
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf(x[i]));
    return most;
}

shoal_status shoali_net_magnitudes(shoali_net *net, const shoali_batch *batch, float *most)
{
    shoali_loss loss;
    SHOALI_TRY(shoali_net_evaluate(net, batch, &loss));
    most[0] = largest(batch->x, batch->count * net->in_elems, most[0]);
    for (uint32_t i = 0; i < net->model->layer_count; i++) {
        const shoali_node *node = &net->nodes[i];
        size_t count = batch->count * (size_t)shoali_shape_elems(node->layer->out);
        if (node->y != NULL)
            most[i + 1] = largest(node->y, count, most[i + 1]);
    }
    return SHOAL_OK;
}

shoal_status shoali_net_judge(shoali_net *net, const shoali_batch *batch, const float *scores,
                              shoali_loss *loss_out)
{
    SHOALI_TRY(check_batch(net, batch));
    *loss_out = (shoali_loss){.count = batch->count};
    net->scores = scores;
    (void)shown(net, batch, false);
    if (batch->count > 0)
        judge(net, batch, NULL, loss_out);
    return SHOAL_OK;
}
