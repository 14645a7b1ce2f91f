/* SPDX-License-Identifier: Apache-2.0 */
#include "model/onnx_graph.h"

#include <stdio.h>
#include <string.h>

enum { FLOAT = 1, INT64 = 7 };                  /* TensorProto.DataType */
enum { OF_FLOAT = 1, OF_INT = 2, OF_INTS = 7 }; /* AttributeProto.AttributeType */
enum { INPUTS_MAX = 24, ATTRIBUTES_MAX = 8, ROOM_FIRST = 64 };

/* Where to write once memory ran out: nobody reads it. */
static _Thread_local Shoal__Onnx__Node nowhere;

static void *take(shoali_onnx_graph *g, size_t bytes)
{
    void *memory = g->failed ? NULL : shoali_arena_alloc(g->arena, bytes);
    g->failed |= memory == NULL;
    return memory;
}

/* Room for one pointer more in a list, which moves when it grows. */
static bool grow(shoali_onnx_graph *g, void ***list, size_t count, size_t *room)
{
    if (count < *room)
        return !g->failed;
    const size_t more = *room == 0 ? ROOM_FIRST : 2 * *room;
    void **wider = take(g, more * sizeof *wider);
    if (wider == NULL)
        return false;
    if (count > 0)
        memcpy(wider, *list, count * sizeof *wider);
    *list = wider;
    *room = more;
    return true;
}

const char *shoali_onnx_text(shoali_onnx_graph *g, const char *format, ...)
{
    char text[160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *kept = g->failed ? NULL : shoali_arena_strdup(g->arena, text);
    g->failed |= kept == NULL;
    return kept != NULL ? kept : "";
}

/* The format's own types have no const; what is written is not changed. */
static char *plain(const char *text)
{
    return (char *)(uintptr_t)text;
}

Shoal__Onnx__Node *shoali_onnx_node(shoali_onnx_graph *g, const char *op, const char *output,
                                    const char *const inputs[])
{
    Shoal__Onnx__Node *node = take(g, sizeof *node);
    char **in = take(g, INPUTS_MAX * sizeof *in), **out = take(g, 2 * sizeof *out);
    Shoal__Onnx__Attribute **attributes = take(g, ATTRIBUTES_MAX * sizeof *attributes);
    shoal__onnx__node__init(&nowhere);
    if (attributes == NULL || !grow(g, (void ***)&g->pb.node, g->pb.n_node, &g->nodes_room))
        return &nowhere;
    shoal__onnx__node__init(node);
    for (size_t i = 0; i < INPUTS_MAX && inputs[i] != NULL; i++)
        in[node->n_input++] = plain(inputs[i]);
    out[0] = plain(output);
    node->input = in;
    node->output = out;
    node->n_output = 1;
    node->name = plain(output);
    node->op_type = plain(op);
    node->attribute = attributes;
    g->pb.node[g->pb.n_node++] = node;
    return node;
}

void shoali_onnx_second(shoali_onnx_graph *g, Shoal__Onnx__Node *node, const char *output)
{
    if (!g->failed && node->n_output == 1)
        node->output[node->n_output++] = plain(output);
}

/* ---------------------------------------------------------------- attributes */

static Shoal__Onnx__Attribute *attribute(shoali_onnx_graph *g, Shoal__Onnx__Node *node,
                                         const char *name, int32_t type)
{
    Shoal__Onnx__Attribute *a = take(g, sizeof *a);
    if (a == NULL || node == &nowhere)
        return NULL;
    shoal__onnx__attribute__init(a);
    a->name = plain(name);
    a->has_type = true;
    a->type = type;
    node->attribute[node->n_attribute++] = a;
    return a;
}

void shoali_onnx_int(shoali_onnx_graph *g, Shoal__Onnx__Node *node, const char *name, int64_t value)
{
    Shoal__Onnx__Attribute *a = attribute(g, node, name, OF_INT);
    if (a == NULL)
        return;
    a->has_i = true;
    a->i = value;
}

void shoali_onnx_float(shoali_onnx_graph *g, Shoal__Onnx__Node *node, const char *name, float value)
{
    Shoal__Onnx__Attribute *a = attribute(g, node, name, OF_FLOAT);
    if (a == NULL)
        return;
    a->has_f = true;
    a->f = value;
}

void shoali_onnx_ints(shoali_onnx_graph *g, Shoal__Onnx__Node *node, const char *name,
                      const int64_t *values, size_t count)
{
    Shoal__Onnx__Attribute *a = attribute(g, node, name, OF_INTS);
    int64_t *kept = take(g, count * sizeof *kept);
    if (a == NULL || kept == NULL)
        return;
    memcpy(kept, values, count * sizeof *kept);
    a->ints = kept;
    a->n_ints = count;
}

/* ---------------------------------------------------------------- tensors */

static const char *tensor(shoali_onnx_graph *g, const char *name, int32_t type, const void *data,
                          size_t width, size_t dims, const int64_t *sizes)
{
    Shoal__Onnx__Tensor *t = take(g, sizeof *t);
    int64_t *kept = take(g, (dims + 1) * sizeof *kept);
    size_t elems = 1;
    if (kept == NULL ||
        !grow(g, (void ***)&g->pb.initializer, g->pb.n_initializer, &g->tensors_room))
        return name;
    shoal__onnx__tensor__init(t);
    for (size_t i = 0; i < dims; i++) {
        kept[i] = sizes[i];
        elems *= (size_t)sizes[i];
    }
    t->dims = kept;
    t->n_dims = dims;
    t->has_data_type = true;
    t->data_type = type;
    t->name = plain(name);
    t->has_raw_data = true;
    t->raw_data = (ProtobufCBinaryData){elems * width, (uint8_t *)(uintptr_t)data};
    g->bytes += elems * width;
    g->pb.initializer[g->pb.n_initializer++] = t;
    return name;
}

const char *shoali_onnx_floats(shoali_onnx_graph *g, const char *name, const float *data,
                               size_t dims, const int64_t *sizes)
{
    return tensor(g, name, FLOAT, data, sizeof *data, dims, sizes);
}

const char *shoali_onnx_scalar(shoali_onnx_graph *g, const char *name, float value)
{
    float *kept = take(g, sizeof *kept);
    if (kept == NULL)
        return name;
    *kept = value;
    return tensor(g, name, FLOAT, kept, sizeof *kept, 0, NULL);
}

const char *shoali_onnx_list(shoali_onnx_graph *g, const char *name, const int64_t *values,
                             size_t count)
{
    int64_t *kept = take(g, count * sizeof *kept);
    if (kept == NULL)
        return name;
    memcpy(kept, values, count * sizeof *kept);
    return tensor(g, name, INT64, kept, sizeof *kept, 1, (const int64_t[]){(int64_t)count});
}

/* ---------------------------------------------------------------- in and out */

static Shoal__Onnx__Dimension *dimension(shoali_onnx_graph *g, int64_t size)
{
    Shoal__Onnx__Dimension *d = take(g, sizeof *d);
    if (d == NULL)
        return NULL;
    shoal__onnx__dimension__init(d);
    d->has_value = size > 0;
    d->value = size;
    if (size == 0)
        d->param = plain("batch");
    return d;
}

Shoal__Onnx__ValueInfo *shoali_onnx_value(shoali_onnx_graph *g, const char *name, bool ints,
                                          size_t dims, const int64_t *sizes)
{
    Shoal__Onnx__ValueInfo *value = take(g, sizeof *value);
    Shoal__Onnx__Type *type = take(g, sizeof *type);
    Shoal__Onnx__TensorType *of = take(g, sizeof *of);
    Shoal__Onnx__Shape *shape = take(g, sizeof *shape);
    Shoal__Onnx__Dimension **all = take(g, (dims + 1) * sizeof *all);
    if (all == NULL)
        return NULL;
    shoal__onnx__value_info__init(value);
    shoal__onnx__type__init(type);
    shoal__onnx__tensor_type__init(of);
    shoal__onnx__shape__init(shape);
    all[0] = dimension(g, 0);
    for (size_t i = 0; i < dims; i++)
        all[i + 1] = dimension(g, sizes[i]);
    shape->dim = all;
    shape->n_dim = dims + 1;
    of->has_elem_type = true;
    of->elem_type = ints ? INT64 : FLOAT;
    of->shape = shape;
    type->tensor = of;
    value->name = plain(name);
    value->type = type;
    return value;
}
