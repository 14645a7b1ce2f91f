/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that move data: the shape of what they give. They cost nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/import_onnx.h"

typedef shoali_onnx_value value;
typedef shoali_onnx_node node_pb;

/* Lists of axes are an attribute in old files, an input in new ones. */
static bool axes_of(const node_pb *node, const value *list, int64_t *axes, size_t *count)
{
    const Shoal__Onnx__Attribute *a = shoali_onnx_attribute(node, "axes");
    *count = a != NULL ? a->n_ints : list != NULL && list->known ? list->count : 0;
    if (*count > SHOALI_ONNX_RANK)
        return false;
    for (size_t i = 0; i < *count; i++)
        axes[i] = a != NULL ? a->ints[i] : list->ints[i];
    return true;
}

static shoal_status axes_go(const node_pb *node, const value *const *in, size_t inputs, value *out)
{
    const value *v = in[0];
    bool more = strcmp(node->op_type, "Unsqueeze") == 0;
    bool kept = strcmp(node->op_type, "ReduceMean") == 0 &&
                shoali_onnx_integer(node, "keepdims", 1) != 0;
    int64_t axes[SHOALI_ONNX_RANK];
    bool hit[SHOALI_ONNX_RANK] = {false};
    size_t count;
    uint32_t rank = v->rank, from = 0;
    if (!axes_of(node, inputs > 1 ? in[1] : NULL, axes, &count) ||
        (more && rank + count > SHOALI_ONNX_RANK))
        return shoali_onnx_refuse(node, "its axes are not known");
    rank += more ? (uint32_t)count : 0;
    for (size_t i = 0; i < count; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank)
            return shoali_onnx_refuse(node, "an axis beyond the input's");
        hit[axis] = true;
    }
    out->rank = 0;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t dim = hit[i] || from >= v->rank ? 1 : v->dims[from];
        from += !(more && hit[i]);
        if (more || kept || !hit[i])
            out->dims[out->rank++] = dim;
    }
    return SHOAL_OK;
}

/* Slices whose ends are known; else what goes in (a part costs no more). */
static shoal_status slice(const node_pb *node, const value *const *in, size_t count, value *out)
{
    bool known = count > 3;
    for (size_t k = 1; known && k < 4; k++)
        known = in[k] != NULL && in[k]->known && in[k]->count == in[1]->count;
    for (uint32_t i = 0; known && i < in[1]->count; i++) {
        int64_t axis = in[3]->ints[i] < 0 ? in[3]->ints[i] + out->rank : in[3]->ints[i];
        if (axis < 0 || axis >= out->rank)
            return shoali_onnx_refuse(node, "an axis beyond the input's");
        int64_t size = out->dims[axis], from = in[1]->ints[i], to = in[2]->ints[i];
        from = from < 0 ? from + size : from;
        to = to < 0 ? to + size : to > size ? size : to;
        if (from >= 0 && to > from)
            out->dims[axis] = to - from;
    }
    return SHOAL_OK;
}

static shoal_status concat(const node_pb *node, const value *const *in, size_t count, value *out)
{
    int64_t axis = shoali_onnx_integer(node, "axis", 0), sum = 0, layer = -2;
    for (size_t i = 0; i < count; i++) {
        if (in[i] == NULL || in[i]->rank == 0)
            return shoali_onnx_refuse(node, "its input comes from no layer");
        int64_t at = axis < 0 ? axis + in[i]->rank : axis;
        if (at < 0 || at >= in[i]->rank || in[i]->dims[at] > SHOALI_ONNX_ELEMS - sum)
            return shoali_onnx_refuse(node, "an axis beyond the input's");
        sum += in[i]->dims[at];
        if (!in[i]->constant && in[i]->layer > layer) {
            layer = in[i]->layer;
            *out = *in[i];
            out->dims[at] = 1;
        }
    }
    int64_t at = axis < 0 ? axis + out->rank : axis;
    if (at < 0 || at >= out->rank || sum > SHOALI_ONNX_ELEMS / shoali_onnx_elems(out))
        return shoali_onnx_refuse(node, "puts together what does not fit");
    out->dims[at] = sum;
    return SHOAL_OK;
}

shoal_status shoali_onnx_split(const node_pb *node, const value *const *in, size_t count,
                               size_t part, value *out)
{
    const Shoal__Onnx__Attribute *a = shoali_onnx_attribute(node, "split");
    const value *list = count > 1 ? in[1] : NULL;
    int64_t axis = shoali_onnx_integer(node, "axis", 0);
    *out = *in[0];
    axis = axis < 0 ? axis + out->rank : axis;
    if (axis < 0 || axis >= out->rank)
        return shoali_onnx_refuse(node, "an axis beyond the input's");
    int64_t whole = out->dims[axis], size = whole / (int64_t)node->n_output;
    if (a != NULL && part < a->n_ints)
        size = a->ints[part];
    else if (list != NULL && list->known && part < list->count)
        size = list->ints[part];
    if (size < 1 || size > whole)
        return shoali_onnx_refuse(node, "parts that the input does not have");
    out->dims[axis] = size;
    return SHOAL_OK;
}

shoal_status shoali_onnx_move(const node_pb *node, const value *const *in, size_t count, value *out)
{
    const char *op = node->op_type;
    value folded;
    if (strcmp(op, "Concat") == 0)
        return concat(node, in, count, out);
    *out = *in[0];
    if (strcmp(op, "Slice") == 0)
        return slice(node, in, count, out);
    if (strcmp(op, "Unsqueeze") == 0 || strcmp(op, "Squeeze") == 0 || strcmp(op, "ReduceMean") == 0)
        return axes_go(node, in, count, out);
    if (strcmp(op, "Flatten") == 0) {
        int64_t elems = shoali_onnx_elems(out), first = out->rank > 0 ? out->dims[0] : 1;
        out->rank = 2;
        out->dims[0] = first;
        out->dims[1] = elems / first;
        return SHOAL_OK;
    }
    /* dimensions go as those of a constant would */
    if (!shoali_onnx_fold(node, in, count, &folded))
        return shoali_onnx_refuse(node, "the shape that it gives depends on more than the graph's "
                                        "sizes; export it with fixed ones");
    out->rank = folded.rank;
    memcpy(out->dims, folded.dims, sizeof out->dims);
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- gates */

/* The layer whose output an activation's layer takes. */
static int64_t taken_by(const shoali_layer_list *list, int64_t layer)
{
    static const char branch[] = "branch:back=";
    const char *spec = layer >= 1 ? list->layers[layer - 1] : "";
    if (strncmp(spec, branch, sizeof branch - 1) == 0)
        return layer - 1 - strtoll(spec + sizeof branch - 1, NULL, 10); /* we have written it */
    return layer - 1;
}

int64_t shoali_onnx_gate(shoali_layer_list *list, int64_t a, int64_t b)
{
    static const char *const gates[][2] = {
        {"sigmoid", "silu"}, {"erf", "gelu"}, {"tanh", "gelu"}, {"silu", "silu"}};
    int64_t later = a > b ? a : b, other = a > b ? b : a;
    if (later < 0 || list->failed || taken_by(list, later) != other)
        return -1;
    for (size_t i = 0; i < sizeof gates / sizeof *gates; i++)
        if (strcmp(list->layers[later], gates[i][0]) == 0) {
            list->layers[later] = gates[i][1];
            return later;
        }
    return -1;
}
