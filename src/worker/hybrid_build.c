/* SPDX-License-Identifier: Apache-2.0 */
/* From a plan to stages: which layers, of what shape, with which part of the weights. */
#include <string.h>

#include "base/error.h"
#include "model/model_text.h"
#include "nn/init.h"
#include "worker/hybrid.h"
#include "worker/together.h"

static uint32_t count_bits(uint32_t mask)
{
    return (uint32_t)__builtin_popcount(mask);
}

/* Level h of a mask is cut h, which is bit H - h of a worker's number. */
static uint32_t split_of(const shoal_partition *plan, uint32_t mask)
{
    uint32_t split = 0;
    for (uint32_t level = 1; level <= plan->levels; level++)
        split |= (mask >> (level - 1) & 1) << (plan->levels - level);
    return split;
}

uint32_t shoali_hybrid_part(uint32_t rank, uint32_t split)
{
    uint32_t part = 0, at = 0;
    for (; split != 0; split &= split - 1, at++)
        part |= (rank & split & -split) != 0 ? 1u << at : 0;
    return part;
}

/* ---------------------------------------------------------------- layers of a stage */

/* Layers [first, end) of the whole model. */
typedef struct range {
    uint32_t first, end;
} range;

/* Up to its own layer, or the last one that follows it if its output is complete; from where the
 * stage before ended. Views of the input (flatten) in front of everything do nothing. */
static range range_of(const shoal_train *train, const shoal_partition *plan, uint32_t stage)
{
    uint32_t layers = train->model->layer_count;
    range r = {0, layers};
    if (stage > 0) {
        const shoali_part_layer *before = &plan->layers[stage - 1];
        uint32_t next = stage < plan->layer_count ? plan->layers[stage].index : layers;
        r.first = before->mask != 0 ? before->index + 1 : next;
    }
    if (stage == plan->layer_count)
        return r;
    const shoali_part_layer *own = &plan->layers[stage];
    if (stage == 0)
        while (r.first < own->index &&
               (train->model->layers[r.first].row->traits & SHOALI_LAYER_ALIAS) != 0)
            r.first++;
    r.end = own->index + 1;
    if (own->mask == 0)
        r.end = stage + 1 < plan->layer_count ? plan->layers[stage + 1].index : layers;
    return r;
}

/* Its input: a part of the channels, or of the values if it starts with a dense layer. */
static shoal_shape shape_of(const shoali_layer *first, uint32_t parts)
{
    shoal_shape in = first->in;
    if (parts > 1 && strcmp(first->row->name, "dense") == 0)
        return (shoal_shape){(uint32_t)shoali_shape_elems(in) / parts, 1, 1};
    in.channels /= parts;
    return in;
}

static shoal_status build_model(const shoal_train *train, range r, uint32_t parts,
                                shoal_model **model_out)
{
    const char *specs[SHOALI_MODEL_LAYERS_MAX];
    for (uint32_t i = r.first; i < r.end; i++)
        specs[i - r.first] = train->model->layers[i].spec;
    const shoali_model_text text = {.name = "stage",
                                    .input = shape_of(&train->model->layers[r.first], parts),
                                    .init = train->model->init,
                                    .layers = specs,
                                    .layer_count = r.end - r.first};
    return shoali_model_build("a stage of the plan", &text, false, model_out);
}

static shoal_status make_stage(shoal_train *train, uint32_t index, size_t *params)
{
    struct shoali_hybrid *h = train->hybrid;
    shoali_stage *stage = &h->stages[index];
    bool loss = index == h->part_count;
    range r = range_of(train, h->plan, index);
    stage->split = loss ? 0 : split_of(h->plan, h->plan->layers[index].mask);
    stage->samples = h->share << count_bits(stage->split);
    stage->offset = *params;
    if (r.first == r.end)
        return SHOAL_OK;
    if (index == 0 && stage->split != 0 && r.first < h->plan->layers[0].index)
        return shoali_fail(SHOAL_ENOTSUP,
                           "the plan divides %s by channels, but %s in front of it sees them all",
                           h->plan->layers[0].name, train->model->layers[r.first].name);
    SHOALI_TRY(build_model(train, r, 1u << count_bits(stage->split), &stage->model));
    stage->count = (size_t)stage->model->param_count;
    stage->tensor_count = stage->model->tensor_count;
    stage->first_tensor = h->tensor_count;
    h->tensor_count += stage->tensor_count;
    *params += stage->count;
    if (!loss)
        stage->whole_tensor = train->model->layers[h->plan->layers[index].index].tensor_first;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- memory */

static float *floats(shoal_train *train, size_t count)
{
    return shoali_arena_array(train->arena, count, sizeof(float));
}

/* The whole model's keys, so that codecs and checkpoints know a tensor by one name everywhere. */
static void list_tensors(shoal_train *train, shoali_stage *stage)
{
    for (uint32_t t = 0; t < stage->tensor_count; t++) {
        const shoal_tensor *whole = &train->tensors[stage->whole_tensor + t];
        shoal_tensor *own = &train->hybrid->tensors[stage->first_tensor + t];
        *own = stage->model->tensors[t];
        own->offset += stage->offset;
        own->key = whole->key;
        own->flags = whole->flags;
        own->lr_scale = whole->lr_scale;
        if ((own->flags & SHOAL_TENSOR_BIAS) != 0) {
            stage->bias_offset = own->offset;
            stage->bias_count = own->count;
        }
    }
}

static void draw(shoal_train *train, const shoali_stage *stage)
{
    for (uint32_t t = 0; t < stage->tensor_count; t++) {
        const shoal_tensor *own = &train->hybrid->tensors[stage->first_tensor + t];
        size_t cols = own->rows > 0 ? own->cols : 1;
        size_t first = own->rows > 0 ? cols * shoali_hybrid_part(train->rank, stage->split) : 0;
        shoali_init_columns(train->model, stage->whole_tensor + t, train->desc.seed, first, cols,
                            train->params + own->offset);
    }
}

static shoal_status finish_stage(shoal_train *train, uint32_t index)
{
    struct shoali_hybrid *h = train->hybrid;
    shoali_stage *stage = &h->stages[index];
    if (stage->model == NULL)
        return SHOAL_OK;
    list_tensors(train, stage);
    draw(train, stage);
    stage->bias = floats(train, stage->bias_count);
    if (stage->bias == NULL)
        return SHOAL_ENOMEM;
    return shoali_net_create_part(stage->model, stage->samples, train->params + stage->offset,
                                  train->grads + stage->offset, &stage->net);
}

/* Elements per sample of what crosses the border behind a stage: of the whole, not of a part. */
static size_t features_behind(const shoal_train *train, uint32_t index)
{
    range r = range_of(train, train->hybrid->plan, index);
    return (size_t)shoali_shape_elems(train->model->layers[r.end - 1].out);
}

static shoal_status make_borders(shoal_train *train)
{
    struct shoali_hybrid *h = train->hybrid;
    size_t pack = 0, turn = 0;
    for (uint32_t i = 1; i < h->stage_count; i++) {
        size_t features = features_behind(train, i - 1);
        h->stages[i].border = (shoali_border){.comm = train->comm,
                                              .traffic = &h->traffic,
                                              .label = "activations",
                                              .workers = train->workers,
                                              .me = train->rank,
                                              .from = h->stages[i - 1].split,
                                              .to = h->stages[i].split,
                                              .share = h->share,
                                              .features = features,
                                              .silent = train->desc.no_exchange};
        size_t block = features * h->share;
        size_t packed = h->stages[i - 1].split != 0 ? block << count_bits(h->stages[i - 1].split)
                                                    : 0;
        pack = packed > pack ? packed : pack;
        turn = block > turn ? block : turn;
        h->stages[i].x = floats(train, shoali_border_is_open(&h->stages[i].border) ? 0 : block);
        if (h->stages[i].x == NULL)
            return SHOAL_ENOMEM;
    }
    float *packs = floats(train, pack), *swap = floats(train, turn), *a = floats(train, turn),
          *b = floats(train, turn);
    if (packs == NULL || swap == NULL || a == NULL || b == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 1; i < h->stage_count; i++) {
        h->stages[i].border.pack = packs;
        h->stages[i].border.swap = swap;
        h->stages[i].border.turn[0] = a;
        h->stages[i].border.turn[1] = b;
    }
    return SHOAL_OK;
}

static shoal_status make_inputs(shoal_train *train)
{
    struct shoali_hybrid *h = train->hybrid;
    size_t sample = (size_t)shoali_shape_elems(train->info.input);
    shoali_stage *first = &h->stages[0];
    h->image = floats(train, sample * h->share);
    first->x = floats(train, sample * h->share); /* more samples of fewer channels */
    h->slope = floats(train, (size_t)train->info.classes * h->share);
    h->labels = shoali_arena_array(train->arena, 2 * (size_t)h->share, sizeof *h->labels);
    h->order = shoali_arena_array(train->arena, h->share, sizeof *h->order);
    h->members = shoali_arena_array(train->arena, train->workers, sizeof *h->members);
    bool ok = h->image != NULL && first->x != NULL && h->slope != NULL && h->labels != NULL &&
              h->order != NULL && h->members != NULL;
    return ok ? SHOAL_OK : SHOAL_ENOMEM;
}

/* ---------------------------------------------------------------- checks */

static shoal_status check(const shoal_train *train)
{
    const shoal_partition *plan = train->hybrid->plan;
    const shoal_train_desc *d = &train->desc;
    if (plan->why_not != NULL)
        return shoali_fail(SHOAL_ENOTSUP, "the plan %s cannot be run: %s", d->plan, plan->why_not);
    if (train->workers != 1u << plan->levels || (train->comm == NULL && plan->levels > 0))
        return shoali_fail(SHOAL_EINVAL, "the plan %s is for %u workers, there are %u", d->plan,
                           1u << plan->levels, train->workers);
    if ((uint64_t)d->batch * train->workers != plan->batch)
        return shoali_fail(SHOAL_EINVAL,
                           "the plan %s is for a batch of %u, %u per worker; asked for %u", d->plan,
                           plan->batch, plan->batch >> plan->levels, d->batch);
    if (d->slow > 1 || d->slow_random != NULL)
        return shoali_fail(SHOAL_EINVAL, "a plan's workers keep their own pace: slow is not for "
                                         "them");
    return SHOAL_OK;
}

static shoal_status take_plan(shoal_train *train)
{
    struct shoali_hybrid *h = train->hybrid;
    h->part_count = h->plan->layer_count;
    h->stage_count = h->part_count + 1;
    h->share = train->desc.batch;
    h->stages = shoali_arena_array(train->arena, h->stage_count, sizeof *h->stages);
    return h->stages != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

shoal_status shoali_hybrid_create(shoal_train *train)
{
    struct shoali_hybrid *h = train->hybrid;
    size_t params = 0;
    SHOALI_TRY(check(train));
    SHOALI_TRY(take_plan(train));
    for (uint32_t i = 0; i < h->stage_count; i++)
        SHOALI_TRY(make_stage(train, i, &params));
    train->param_count = params;
    train->params = floats(train, params);
    train->grads = floats(train, params);
    h->tensors = shoali_arena_array(train->arena, h->tensor_count + 1, sizeof *h->tensors);
    if (train->params == NULL || train->grads == NULL || h->tensors == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < h->stage_count; i++)
        SHOALI_TRY(finish_stage(train, i));
    SHOALI_TRY(make_borders(train));
    return make_inputs(train);
}

void shoali_hybrid_destroy(shoal_train *train)
{
    struct shoali_hybrid *h = train->hybrid;
    if (h == NULL)
        return;
    for (uint32_t i = 0; h->stages != NULL && i < h->stage_count; i++) {
        shoali_net_destroy(h->stages[i].net);
        shoal_model_close(h->stages[i].model);
    }
    shoal_partition_destroy(h->plan);
}

/* ---------------------------------------------------------------- whole tensors */

size_t shoali_hybrid_largest(const shoal_train *train)
{
    size_t most = 0;
    for (uint32_t t = 0; t < train->tensor_count; t++)
        most = train->tensors[t].count > most ? train->tensors[t].count : most;
    return most;
}

/* The stage that has a part of a tensor of the whole model. */
static const shoali_stage *stage_with(const struct shoali_hybrid *h, uint32_t tensor)
{
    const shoali_stage *stage = h->stages;
    while (tensor < stage->whole_tensor || tensor >= stage->whole_tensor + stage->tensor_count)
        stage++;
    return stage;
}

/* Copy this worker's columns of a tensor: into the whole, or out of it. */
static void move_columns(shoal_train *train, uint32_t tensor, float *whole, bool into_whole)
{
    const struct shoali_hybrid *h = train->hybrid;
    const shoali_stage *stage = stage_with(h, tensor);
    const shoal_tensor *own = &h->tensors[stage->first_tensor + tensor - stage->whole_tensor];
    const shoal_tensor *full = &train->tensors[tensor];
    float *local = train->params + own->offset;
    size_t rows = own->rows > 0 ? own->rows : 1, cols = own->count / rows, all = full->count / rows;
    size_t first = own->rows > 0 ? cols * shoali_hybrid_part(train->rank, stage->split) : 0;
    for (size_t r = 0; r < rows; r++) {
        float *inside = whole + r * all + first, *outside = local + r * cols;
        memcpy(into_whole ? inside : outside, into_whole ? outside : inside, cols * sizeof *local);
    }
}

void shoali_hybrid_set(shoal_train *train, uint32_t tensor, const float *whole)
{
    move_columns(train, tensor, (float *)(uintptr_t)whole, false);
}

/* Of those with the same part, the one with the lowest number gives it; the others add zeros. A
 * vector is whole everywhere, so worker 0 gives it. */
static bool gives(const shoal_train *train, uint32_t tensor)
{
    const shoali_stage *stage = stage_with(train->hybrid, tensor);
    uint32_t split = train->tensors[tensor].rows > 0 ? stage->split : 0;
    return (train->rank & ~split) == 0;
}

shoal_status shoali_hybrid_collect(shoal_train *train, float **params_out)
{
    size_t total = (size_t)train->info.param_count;
    float *all = train->rank == 0 ? shoali_alloc_array(total, sizeof *all) : NULL;
    float *one = shoali_alloc_array(shoali_hybrid_largest(train), sizeof *one);
    shoal_status status = one != NULL && (train->rank != 0 || all != NULL) ? SHOAL_OK
                                                                           : SHOAL_ENOMEM;
    for (uint32_t t = 0; t < train->tensor_count && status == SHOAL_OK; t++) {
        size_t count = train->tensors[t].count;
        memset(one, 0, count * sizeof *one);
        if (gives(train, t))
            move_columns(train, t, one, true);
        status = shoali_train_reduce(train, one, count, SHOAL_SUM, "weights of all");
        if (status == SHOAL_OK && all != NULL)
            memcpy(all + train->tensors[t].offset, one, count * sizeof *one);
    }
    shoali_free(one);
    if (status == SHOAL_OK)
        *params_out = all;
    else
        shoali_free(all);
    return status;
}
