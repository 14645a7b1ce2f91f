/* SPDX-License-Identifier: Apache-2.0 */
/* What exporters compute from shapes: lists of dimensions, ranges, masks. Elements are followed
 * where they are few whole numbers, else dimensions only. */
#include <string.h>

#include "model/import_onnx.h"

int64_t shoali_onnx_elems(const shoali_onnx_value *v)
{
    int64_t elems = 1;
    for (uint32_t i = 0; i < v->rank; i++)
        elems *= v->dims[i];
    return elems;
}

/* Append a dimension; false: none that can be. */
static bool push(shoali_onnx_value *v, int64_t dim)
{
    int64_t elems = shoali_onnx_elems(v);
    if (v->rank == SHOALI_ONNX_RANK || dim < 1 || dim > SHOALI_ONNX_ELEMS / elems)
        return false;
    v->dims[v->rank++] = dim;
    return true;
}

static int64_t read_i64(const uint8_t *bytes, size_t width)
{
    uint64_t value = 0;
    for (size_t i = 0; i < width; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return width == 4 ? (int64_t)(int32_t)(uint32_t)value : (int64_t)value;
}

bool shoali_onnx_of_tensor(const shoali_onnx_tensor *t, shoali_onnx_value *out)
{
    enum { INT32 = 6, INT64 = 7 };
    size_t width = t->data_type == INT64 ? 8 : t->data_type == INT32 ? 4 : 0;
    *out = (shoali_onnx_value){.constant = true, .weight = t};
    for (size_t i = 0; i < t->n_dims; i++)
        if (!push(out, t->dims[i]))
            return false;
    int64_t elems = shoali_onnx_elems(out);
    if (width == 0 || elems > SHOALI_ONNX_INTS)
        return true;
    out->weight = NULL; /* whole numbers are no parameters */
    out->count = (uint32_t)elems;
    if (t->has_raw_data && t->raw_data.len == width * (size_t)elems) {
        for (int64_t i = 0; i < elems; i++)
            out->ints[i] = read_i64(t->raw_data.data + width * (size_t)i, width);
        out->known = true;
    } else if (t->n_int64_data == (size_t)elems) {
        memcpy(out->ints, t->int64_data, sizeof *out->ints * (size_t)elems);
        out->known = true;
    }
    return true;
}

bool shoali_onnx_reshape(const shoali_onnx_value *from, const shoali_onnx_value *shape,
                         shoali_onnx_value *out)
{
    int64_t elems = shoali_onnx_elems(from), product = 1, open = -1;
    int64_t dims[SHOALI_ONNX_RANK];
    if (!shape->known || shape->count > SHOALI_ONNX_RANK)
        return false;
    for (uint32_t i = 0; i < shape->count; i++) {
        dims[i] = shape->ints[i] == 0 && i < from->rank ? from->dims[i] : shape->ints[i];
        if (dims[i] == -1 && open < 0)
            open = i;
        else if (dims[i] < 1 || product > SHOALI_ONNX_ELEMS / dims[i])
            return false;
        else
            product *= dims[i];
    }
    if (open >= 0)
        dims[open] = elems / product;
    if (open >= 0 ? elems % product != 0 || elems < product : product != elems)
        return false;
    out->rank = shape->count;
    memcpy(out->dims, dims, sizeof *dims * shape->count);
    return true;
}

/* ---------------------------------------------------------------- lists of whole numbers */

static bool one_number(char op, int64_t a, int64_t b, int64_t *out)
{
    switch (op) {
    case '+':
        return !__builtin_add_overflow(a, b, out);
    case '-':
        return !__builtin_sub_overflow(a, b, out);
    case '*':
        return !__builtin_mul_overflow(a, b, out);
    default:
        if (b == 0 || (a == INT64_MIN && b == -1))
            return false;
        *out = a / b;
        return true;
    }
}

static bool arithmetic(char op, const shoali_onnx_value *a, const shoali_onnx_value *b,
                       shoali_onnx_value *out)
{
    const shoali_onnx_value *most = a->count >= b->count ? a : b;
    if (!a->known || !b->known || (a->count != b->count && a->count != 1 && b->count != 1))
        return false;
    for (uint32_t i = 0; i < most->count; i++)
        if (!one_number(op, a->ints[a->count == 1 ? 0 : i], b->ints[b->count == 1 ? 0 : i],
                        &out->ints[i]))
            return false;
    out->count = most->count;
    return true;
}

static bool pick(const shoali_onnx_value *list, const shoali_onnx_value *at, shoali_onnx_value *out)
{
    if (!list->known || !at->known)
        return false;
    for (uint32_t i = 0; i < at->count; i++) {
        int64_t k = at->ints[i] < 0 ? at->ints[i] + list->count : at->ints[i];
        if (k < 0 || k >= list->count)
            return false;
        out->ints[i] = list->ints[k];
    }
    out->count = at->count;
    return true;
}

static bool cut(const shoali_onnx_value *const *in, size_t count, shoali_onnx_value *out)
{
    if (count < 3 || in[1] == NULL || in[2] == NULL || !in[0]->known || !in[1]->known ||
        !in[2]->known || in[1]->count != 1 || in[2]->count != 1 || (count > 4 && in[4] != NULL))
        return false;
    int64_t n = in[0]->count, from = in[1]->ints[0], to = in[2]->ints[0];
    from = from < 0 ? from + n : from;
    to = to < 0 ? to + n : to > n ? n : to;
    for (int64_t i = from < 0 ? 0 : from; i < to; i++)
        out->ints[out->count++] = in[0]->ints[i];
    return true;
}

static bool chain(const shoali_onnx_value *const *in, size_t count, shoali_onnx_value *out)
{
    for (size_t i = 0; i < count; i++) {
        if (in[i] == NULL || !in[i]->known || out->count + in[i]->count > SHOALI_ONNX_INTS)
            return false;
        memcpy(out->ints + out->count, in[i]->ints, sizeof *out->ints * in[i]->count);
        out->count += in[i]->count;
    }
    return true;
}

/* The elements, where the operator is one of those that lists of dimensions go through. */
static bool elements(const char *op, const shoali_onnx_value *const *in, size_t count,
                     shoali_onnx_value *out)
{
    static const char *const same[] = {"Unsqueeze", "Squeeze", "Cast", "Identity", "Reshape"};
    static const char *const names[] = {"Add", "Sub", "Mul", "Div"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (strcmp(op, same[i]) == 0 && in[0]->known) {
            memcpy(out->ints, in[0]->ints, sizeof out->ints);
            out->count = in[0]->count;
            return true;
        }
    for (size_t i = 0; i < 4 && count > 1 && in[1] != NULL; i++)
        if (strcmp(op, names[i]) == 0)
            return arithmetic("+-*/"[i], in[0], in[1], out);
    if (strcmp(op, "Gather") == 0 && count > 1 && in[1] != NULL)
        return pick(in[0], in[1], out);
    if (strcmp(op, "Slice") == 0)
        return cut(in, count, out);
    return strcmp(op, "Concat") == 0 && chain(in, count, out);
}

/* ---------------------------------------------------------------- dimensions */

static bool gathered(const shoali_onnx_node *node, const shoali_onnx_value *table,
                     const shoali_onnx_value *at, shoali_onnx_value *out)
{
    if (shoali_onnx_integer(node, "axis", 0) != 0 || table->rank < 1)
        return false;
    for (uint32_t i = 0; i < at->rank; i++)
        if (!push(out, at->dims[i]))
            return false;
    for (uint32_t i = 1; i < table->rank; i++)
        if (!push(out, table->dims[i]))
            return false;
    out->weight = table->weight;
    return true;
}

static bool transposed(const shoali_onnx_node *node, const shoali_onnx_value *in,
                       shoali_onnx_value *out)
{
    const Shoal__Onnx__Attribute *perm = shoali_onnx_attribute(node, "perm");
    for (uint32_t i = 0; i < in->rank; i++) {
        int64_t from = perm != NULL && perm->n_ints == in->rank ? perm->ints[i] : in->rank - 1 - i;
        if (from < 0 || from >= in->rank || !push(out, in->dims[from]))
            return false;
    }
    out->weight = in->weight;
    return true;
}

static bool from_list(const shoali_onnx_value *list, shoali_onnx_value *out)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (!push(out, list->ints[i]))
            return false;
    return list->known;
}

static bool counted(const shoali_onnx_value *const *in, size_t count, shoali_onnx_value *out)
{
    for (size_t i = 0; i < 3; i++)
        if (i >= count || in[i] == NULL || !in[i]->known || in[i]->count != 1)
            return false;
    int64_t span, step = in[2]->ints[0];
    return step > 0 && !__builtin_sub_overflow(in[1]->ints[0], in[0]->ints[0], &span) && span > 0 &&
           push(out, (span - 1) / step + 1);
}

/* Of operators that work element by element: those of the largest input. */
static void largest(const shoali_onnx_value *const *in, size_t count, shoali_onnx_value *out)
{
    const shoali_onnx_value *most = in[0];
    for (size_t i = 1; i < count; i++)
        if (in[i] != NULL &&
            (shoali_onnx_elems(in[i]) > shoali_onnx_elems(most) ||
             (shoali_onnx_elems(in[i]) == shoali_onnx_elems(most) && in[i]->rank > most->rank)))
            most = in[i];
    out->rank = most->rank;
    memcpy(out->dims, most->dims, sizeof out->dims);
}

static bool dimensions(const shoali_onnx_node *node, const shoali_onnx_value *const *in,
                       size_t count, shoali_onnx_value *out)
{
    const char *op = node->op_type;
    if (strcmp(op, "Gather") == 0)
        return count > 1 && in[1] != NULL && gathered(node, in[0], in[1], out);
    if (strcmp(op, "Transpose") == 0)
        return transposed(node, in[0], out);
    if (strcmp(op, "Reshape") == 0)
        return count > 1 && in[1] != NULL && shoali_onnx_reshape(in[0], in[1], out);
    if (strcmp(op, "ConstantOfShape") == 0)
        return from_list(in[0], out);
    if (strcmp(op, "Expand") == 0)
        return count > 1 && in[1] != NULL && from_list(in[1], out);
    if (strcmp(op, "Range") == 0)
        return counted(in, count, out);
    largest(in, count, out);
    if (strcmp(op, "Identity") == 0 || strcmp(op, "Cast") == 0 || strcmp(op, "Slice") == 0 ||
        strcmp(op, "Unsqueeze") == 0)
        out->weight = in[0]->weight;
    return true;
}

bool shoali_onnx_fold(const shoali_onnx_node *node, const shoali_onnx_value *const *in,
                      size_t count, shoali_onnx_value *out)
{
    *out = (shoali_onnx_value){.constant = true};
    if (count == 0 || in[0] == NULL)
        return false;
    if (strcmp(node->op_type, "Shape") == 0) {
        memcpy(out->ints, in[0]->dims, sizeof in[0]->dims);
        out->count = in[0]->rank;
        out->known = true;
    } else {
        out->known = elements(node->op_type, in, count, out);
    }
    if (!out->known) {
        out->count = 0;
        return dimensions(node, in, count, out);
    }
    out->rank = 1; /* a list, be it of one */
    out->dims[0] = out->count > 0 ? out->count : 1;
    return true;
}
