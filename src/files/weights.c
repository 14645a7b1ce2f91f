/* SPDX-License-Identifier: Apache-2.0 */
#include "files/weights.h"

#include <string.h>

#include "base/error.h"
#include "files/weights_hf.h"

enum { NAME_BYTES = SHOALI_HF_NAME_BYTES, SHAPE_BYTES = 96 };

typedef enum {
    MATRIX, /* [out, in] */
    CONV,   /* [out, in, k, k] */
    VECTOR,
    TWO_BIASES /* ours is the sum of theirs: the second is `other` */
} form;

/* A tensor of ours: layer kind, role, theirs. */
typedef struct row {
    const char *kind, *role, *name, *other;
    form form;
} row;
static const row rows[] = {
    {"conv", "weight", "weight", NULL, CONV},
    {"conv", "bias", "bias", NULL, VECTOR},
    {"dense", "weight", "weight", NULL, MATRIX},
    {"dense", "bias", "bias", NULL, VECTOR},
    {"framewise", "weight", "weight", NULL, MATRIX},
    {"framewise", "bias", "bias", NULL, VECTOR},
    {"lookup", "table", "weight", NULL, MATRIX},
    {"sparse", "table", "weight", NULL, MATRIX},
    {"rmsnorm", "scale", "weight", NULL, VECTOR},
    {"attention", "query", "q_proj.weight", NULL, MATRIX},
    {"attention", "key", "k_proj.weight", NULL, MATRIX},
    {"attention", "value", "v_proj.weight", NULL, MATRIX},
    {"attention", "out", "o_proj.weight", NULL, MATRIX},
    {"attention", "query_bias", "q_proj.bias", NULL, VECTOR},
    {"attention", "key_bias", "k_proj.bias", NULL, VECTOR},
    {"attention", "value_bias", "v_proj.bias", NULL, VECTOR},
    {"attention", "out_bias", "o_proj.bias", NULL, VECTOR},
    {"lookup", "positions", "positions.weight", NULL, MATRIX},
    {"lookup", "types", "types.weight", NULL, MATRIX},
    {"bias", "bias", "bias", NULL, VECTOR},
    {"layernorm", "scale", "weight", NULL, VECTOR},
    {"layernorm", "shift", "bias", NULL, VECTOR},
    {"swiglu", "gate", "gate_proj.weight", NULL, MATRIX},
    {"swiglu", "up", "up_proj.weight", NULL, MATRIX},
    {"swiglu", "down", "down_proj.weight", NULL, MATRIX},
    {"batchnorm", "scale", "weight", NULL, VECTOR},
    {"batchnorm", "shift", "bias", NULL, VECTOR},
    {"lstm", "input", "weight_ih_l0", NULL, MATRIX},
    {"lstm", "recurrent", "weight_hh_l0", NULL, MATRIX},
    {"lstm", "bias", "bias_ih_l0", "bias_hh_l0", TWO_BIASES},
    {"lstm", "back_input", "weight_ih_l0_reverse", NULL, MATRIX},
    {"lstm", "back_recurrent", "weight_hh_l0_reverse", NULL, MATRIX},
    {"lstm", "back_bias", "bias_ih_l0_reverse", "bias_hh_l0_reverse", TWO_BIASES},
};

/* A tensor of theirs. */
typedef struct foreign {
    char name[NAME_BYTES];
    shoali_tensor_shape shape;
    uint64_t offset, count; /* in parameters, or in state */
    bool of_state, second;  /* second: a bias beside the one before */
    bool transposed;        /* theirs is [cols, rows] */
    bool fresh;             /* a head's that the file lacks: stays as it is */
} foreign;

typedef struct list {
    foreign *items; /* [room] */
    size_t count, room;
    shoali_hf_view view; /* of a family: named as a whole model of Hugging Face's, else by layer */
} list;

/* ---------------------------------------------------------------- what there is */

static shoal_status no_counterpart(const shoali_layer *layer, const char *what)
{
    return shoali_fail(SHOAL_EINVAL, "layer %s (%s) has no counterpart in PyTorch: %s", layer->name,
                       layer->spec, what);
}

static const row *row_of(const shoali_layer *layer, const char *role)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].kind, layer->row->name) == 0 && strcmp(rows[i].role, role) == 0)
            return &rows[i];
    return NULL;
}

static foreign *add(list *l, const shoali_layer *layer, const char *name, uint64_t offset,
                    uint64_t count)
{
    foreign *one = &l->items[l->count++];
    *one = (foreign){.offset = offset, .count = count, .shape = {1, {count}}};
    snprintf(one->name, sizeof one->name, "%s.%s", layer->name, name);
    return one;
}

static void shape_of(const shoali_layer *layer, const shoal_tensor *tensor, form kind,
                     shoali_tensor_shape *shape)
{
    if (kind == MATRIX)
        *shape = (shoali_tensor_shape){2, {tensor->rows, tensor->count / tensor->rows}};
    if (kind == CONV) {
        const shoali_conv_params *p = layer->params;
        const uint64_t seen = layer->in.channels / (uint64_t)p->groups, k = (uint64_t)p->kernel;
        *shape = (shoali_tensor_shape){4, {(uint64_t)p->out, seen, k, k}};
    }
}

/* A tensor of a family's, which may hold several of ours, one below the other. */
static void list_place(const shoal_model *model, const shoali_layer *layer, uint32_t i, list *l)
{
    const shoal_tensor *tensor = &model->tensors[i];
    shoali_hf_place place;
    uint64_t count = 0;
    shoali_hf_place_of(&l->view, (uint32_t)(layer - model->layers), model->tensor_params[i].role,
                       &place);
    for (uint32_t k = 0; k < place.tensors; k++)
        count += tensor[k].count;
    if (count == 0)
        return;
    foreign *one = add(l, layer, "", tensor->offset, count);
    snprintf(one->name, sizeof one->name, "%s", place.name);
    one->transposed = place.transposed;
    if (tensor->rows == 0)
        return;
    const uint64_t out = count / tensor->cols;
    one->shape = place.transposed ? (shoali_tensor_shape){2, {tensor->cols, out}}
                                  : (shoali_tensor_shape){2, {out, tensor->cols}};
}

static shoal_status list_tensor(const shoal_model *model, const shoali_layer *layer, uint32_t i,
                                list *l)
{
    const shoal_tensor *tensor = &model->tensors[i];
    const shoali_param *param = &model->tensor_params[i];
    const row *theirs = row_of(layer, param->role);
    if (theirs == NULL)
        return no_counterpart(layer, param->role);
    if (param->block > 1)
        return no_counterpart(layer, "blocks are circulant");
    if (l->view.family != NULL) {
        list_place(model, layer, i, l);
        return SHOAL_OK;
    }
    foreign *one = add(l, layer, theirs->name, tensor->offset, tensor->count);
    shape_of(layer, tensor, theirs->form, &one->shape);
    if (theirs->form == TWO_BIASES)
        add(l, layer, theirs->other, tensor->offset, tensor->count)->second = true;
    return SHOAL_OK;
}

static shoal_status list_layer(const shoal_model *model, const shoali_layer *layer, list *l)
{
    if (strcmp(layer->row->name, "lstm") == 0) {
        const shoali_recurrent_params *p = layer->params;
        if (p->gate != 0)
            return no_counterpart(layer, "gate=sigmoid");
    }
    for (uint32_t i = 0; i < layer->tensor_count; i++)
        SHOALI_TRY(list_tensor(model, layer, layer->tensor_first + i, l));
    if (layer->state_count == 0)
        return SHOAL_OK;
    const uint64_t half = layer->state_count / 2;
    add(l, layer, "running_mean", layer->state_offset, half)->of_state = true;
    add(l, layer, "running_var", layer->state_offset + half, half)->of_state = true;
    return SHOAL_OK;
}

static void close_list(list *l)
{
    shoali_free(l->items);
    shoali_hf_close(&l->view);
}

/* l: close_list. */
static shoal_status list_all(const shoal_model *model, list *l)
{
    *l = (list){.room = 2 * (size_t)model->tensor_count + 2 * (size_t)model->layer_count};
    SHOALI_TRY(shoali_hf_open(model, &l->view));
    l->items = shoali_alloc_array(l->room, sizeof *l->items);
    shoal_status status = l->items != NULL ? SHOAL_OK : SHOAL_ENOMEM;
    for (uint32_t i = 0; i < model->layer_count && status == SHOAL_OK; i++)
        status = list_layer(model, &model->layers[i], l);
    if (status != SHOAL_OK)
        close_list(l);
    return status;
}

/* to[in][out] = from[out][in]. */
static void transpose(const float *from, uint64_t out, uint64_t in, float *to)
{
    for (uint64_t o = 0; o < out; o++)
        for (uint64_t i = 0; i < in; i++)
            to[i * out + o] = from[o * in + i];
}

/* ---------------------------------------------------------------- out */

/* Transposed copies of what is written so, [copies->count]. shoali_free. */
static shoal_status copy_transposed(const list *l, const float *params, float **copies_out)
{
    uint64_t all = 1;
    for (size_t i = 0; i < l->count; i++)
        all += l->items[i].transposed ? l->items[i].count : 0;
    float *to = *copies_out = shoali_alloc_array(all, sizeof *to);
    if (to == NULL)
        return SHOAL_ENOMEM;
    for (size_t i = 0; i < l->count; i++) {
        const foreign *one = &l->items[i];
        if (!one->transposed)
            continue;
        transpose(params + one->offset, one->shape.sizes[1], one->shape.sizes[0], to);
        to += one->count;
    }
    return SHOAL_OK;
}

shoal_status shoali_weights_write(const char *path, const shoal_model *model, const float *params,
                                  const float *state)
{
    list l;
    uint64_t most = 1;
    SHOALI_TRY(list_all(model, &l));
    for (size_t i = 0; i < l.count; i++)
        most = l.items[i].count > most ? l.items[i].count : most;
    shoali_named_tensor *out = shoali_alloc_array(l.count + 1, sizeof *out);
    float *zeros = shoali_alloc_array(most, sizeof *zeros);
    float *copies = NULL;
    shoal_status status = out != NULL && zeros != NULL ? copy_transposed(&l, params, &copies)
                                                       : SHOAL_ENOMEM;
    const float *copy = copies;
    for (size_t i = 0; i < l.count && status == SHOAL_OK; i++) {
        const foreign *one = &l.items[i];
        out[i] = (shoali_named_tensor){.name = one->name,
                                       .count = one->count,
                                       .shape = one->shape,
                                       .data = one->second       ? zeros
                                               : one->of_state   ? state + one->offset
                                               : one->transposed ? copy
                                                                 : params + one->offset};
        copy += one->transposed ? one->count : 0;
    }
    json_t *metadata = json_pack("{s:s}", "format", "pt"); /* what `transformers` asks for */
    if (status == SHOAL_OK)
        status = shoali_safetensors_write(path, out, l.count, metadata);
    json_decref(metadata);
    shoali_free(copies);
    shoali_free(zeros);
    shoali_free(out);
    close_list(&l);
    return status;
}

/* ---------------------------------------------------------------- in */

bool shoali_weights_are_foreign(const shoali_safetensors *file)
{
    return shoali_safetensors_metadata(file, "model") == NULL &&
           shoali_safetensors_metadata(file, "layers") == NULL;
}

static const char *shape_text(const shoali_tensor_shape *shape, char text[SHAPE_BYTES])
{
    size_t used = (size_t)snprintf(text, SHAPE_BYTES, "[");
    for (uint32_t i = 0; i < shape->dims && used < SHAPE_BYTES; i++)
        used += (size_t)snprintf(text + used, SHAPE_BYTES - used, "%s%llu", i > 0 ? ", " : "",
                                 (unsigned long long)shape->sizes[i]);
    if (used < SHAPE_BYTES)
        snprintf(text + used, SHAPE_BYTES - used, "]");
    return text;
}

static shoal_status check_one(const char *path, const shoali_safetensors *file, const foreign *one)
{
    shoali_tensor_shape found;
    char want[SHAPE_BYTES], got[SHAPE_BYTES];
    const char *dtype = shoali_safetensors_shape(file, one->name, &found);
    shape_text(&one->shape, want);
    if (dtype == NULL)
        return shoali_fail(SHOAL_EINVAL, "%s: no tensor %s of shape %s", path, one->name, want);
    bool same = found.dims == one->shape.dims;
    for (uint32_t i = 0; same && i < found.dims; i++)
        same = found.sizes[i] == one->shape.sizes[i];
    if (same && shoali_safetensors_is_float(dtype))
        return SHOAL_OK;
    return shoali_fail(SHOAL_EINVAL, "%s: tensor %s is %.8s %s, wanted F32 %s", path, one->name,
                       dtype, shape_text(&found, got), want);
}

static bool is_buffer(const shoali_hf_family *family, const char *name)
{
    const size_t length = strlen(name);
    for (const char *const *b = family->buffers; b != NULL && *b != NULL; b++)
        if (length >= strlen(*b) && strcmp(name + length - strlen(*b), *b) == 0)
            return true;
    return false;
}

/* Files of a model without its head leave the prefix out, in all names. */
static void drop_prefix(const shoali_safetensors *file, list *l)
{
    const char *prefix = l->view.family != NULL ? l->view.family->prefix : "", *name;
    const size_t length = strlen(prefix);
    size_t count = 0;
    for (size_t i = 0; (name = shoali_safetensors_name(file, i, &count)) != NULL; i++)
        if (strncmp(name, prefix, length) == 0)
            return;
    for (size_t i = 0; i < l->count; i++) {
        foreign *one = &l->items[i];
        if (strncmp(one->name, prefix, length) == 0)
            memmove(one->name, one->name + length, strlen(one->name + length) + 1);
    }
}

/* Norms of files as old as BERT's own: gamma and beta. */
static void take_old_names(const shoali_safetensors *file, list *l)
{
    static const char *const ends[][2] = {{".LayerNorm.weight", ".LayerNorm.gamma"},
                                          {".LayerNorm.bias", ".LayerNorm.beta"}};
    shoali_tensor_shape shape;
    for (size_t i = 0; i < l->count; i++)
        for (size_t k = 0; k < 2; k++) {
            char *name = l->items[i].name, old[NAME_BYTES];
            const size_t length = strlen(name), end = strlen(ends[k][0]);
            if (length < end || strcmp(name + length - end, ends[k][0]) != 0)
                continue;
            snprintf(old, sizeof old, "%.*s%s", (int)(length - end), name, ends[k][1]);
            if (shoali_safetensors_shape(file, name, &shape) == NULL &&
                shoali_safetensors_shape(file, old, &shape) != NULL)
                snprintf(name, NAME_BYTES, "%s", old);
        }
}

/* Heads of which the file has nothing at all. */
static uint32_t leave_heads(const shoali_safetensors *file, list *l)
{
    const char *const *heads = l->view.family != NULL ? l->view.family->heads : NULL;
    shoali_tensor_shape shape;
    uint32_t fresh = 0;
    for (; heads != NULL && *heads != NULL; heads++) {
        const size_t length = strlen(*heads);
        bool any = false;
        for (size_t i = 0; i < l->count; i++)
            any = any || (strncmp(l->items[i].name, *heads, length) == 0 &&
                          shoali_safetensors_shape(file, l->items[i].name, &shape) != NULL);
        for (size_t i = 0; i < l->count && !any; i++)
            if (strncmp(l->items[i].name, *heads, length) == 0) {
                l->items[i].fresh = true;
                fresh++;
            }
    }
    return fresh;
}

static bool is_listed(const list *l, const char *name)
{
    const char *end = strrchr(name, '.');
    if (end != NULL && (strcmp(end, ".num_batches_tracked") == 0 || /* of no use here */
                        strcmp(end, ".inv_freq") == 0))             /* theta says it */
        return true;
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->items[i].name, name) == 0)
            return true;
    return l->view.family != NULL && is_buffer(l->view.family, name);
}

/* Whatever is wrong is found here, before anything is copied. */
static shoal_status check_all(const char *path, const shoali_safetensors *file, const list *l)
{
    size_t count = 0;
    const char *name;
    for (size_t i = 0; i < l->count; i++)
        if (!l->items[i].fresh)
            SHOALI_TRY(check_one(path, file, &l->items[i]));
    for (size_t i = 0; (name = shoali_safetensors_name(file, i, &count)) != NULL; i++)
        if (!is_listed(l, name))
            return shoali_fail(SHOAL_EINVAL, "%s: tensor %.100s has no place in this model", path,
                               name);
    return SHOAL_OK;
}

static shoal_status copy_one(const shoali_safetensors *file, const foreign *one, float *to)
{
    if (!one->second && !one->transposed)
        return shoali_safetensors_read_float(file, one->name, to, one->count);
    float *values = shoali_alloc_array(one->count, sizeof *values);
    if (values == NULL)
        return SHOAL_ENOMEM;
    const shoal_status status = shoali_safetensors_read_float(file, one->name, values, one->count);
    if (status == SHOAL_OK && one->transposed)
        transpose(values, one->shape.sizes[0], one->shape.sizes[1], to);
    for (size_t i = 0; i < one->count && status == SHOAL_OK && one->second; i++)
        to[i] += values[i];
    shoali_free(values);
    return status;
}

shoal_status shoali_weights_read(const char *path, const shoali_safetensors *file,
                                 const shoal_model *model, float *params, float *state,
                                 uint32_t *fresh_out)
{
    list l;
    SHOALI_TRY(list_all(model, &l));
    drop_prefix(file, &l);
    take_old_names(file, &l);
    const uint32_t fresh = fresh_out != NULL ? leave_heads(file, &l) : 0;
    shoal_status status = check_all(path, file, &l);
    for (size_t i = 0; i < l.count && status == SHOAL_OK; i++)
        if (!l.items[i].fresh)
            status = copy_one(file, &l.items[i],
                              (l.items[i].of_state ? state : params) + l.items[i].offset);
    if (status == SHOAL_OK && fresh_out != NULL)
        *fresh_out = fresh;
    close_list(&l);
    return status;
}
