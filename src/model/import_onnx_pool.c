/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of an ONNX file. A border at the end that differs from the one at the start is how a last,
 * partial window is said there, and how windows that do not reach the border are. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/import_onnx.h"

enum { WINDOW_MAX = 255, SIDES = 4 };

typedef struct pool {
    int64_t kernel, stride, pad;
    int64_t ends[2]; /* borders at the bottom and at the right */
    bool ceil, include_pad;
} pool;

shoal_status shoali_onnx_same(const shoali_onnx_node *node, const char *name, int64_t min,
                              int64_t fallback, int64_t *out)
{
    const Shoal__Onnx__Attribute *a = shoali_onnx_attribute(node, name);
    *out = a != NULL && a->n_ints > 0 ? a->ints[0] : fallback;
    for (size_t i = 1; a != NULL && i < a->n_ints; i++) {
        if (a->ints[i] != *out)
            return shoali_onnx_refuse(
                node, "windows, strides and padding must be the same in all directions");
    }
    return *out >= min && *out <= WINDOW_MAX ? SHOAL_OK
                                             : shoali_onnx_refuse(node, "a window beyond 255");
}

shoal_status shoali_onnx_check_auto_pad(const shoali_onnx_node *node)
{
    const Shoal__Onnx__Attribute *a = shoali_onnx_attribute(node, "auto_pad");
    const ProtobufCBinaryData text = a != NULL ? a->s : (ProtobufCBinaryData){0};
    if (a == NULL || (text.len == 6 && memcmp(text.data, "NOTSET", 6) == 0) ||
        (text.len == 5 && memcmp(text.data, "VALID", 5) == 0))
        return SHOAL_OK;
    return shoali_onnx_refuse(node, "auto_pad is not read, but NOTSET and VALID");
}

static shoal_status read_pads(const shoali_onnx_node *node, pool *p)
{
    const Shoal__Onnx__Attribute *a = shoali_onnx_attribute(node, "pads");
    if (a == NULL || a->n_ints == 0)
        return SHOAL_OK;
    if (a->n_ints != SIDES || a->ints[0] != a->ints[1])
        return shoali_onnx_refuse(node, "its border must be as wide at the top as at the left");
    for (size_t i = 0; i < SIDES; i++)
        if (a->ints[i] < 0 || a->ints[i] > WINDOW_MAX)
            return shoali_onnx_refuse(node, "a border beyond 255");
    p->pad = a->ints[0];
    p->ends[0] = a->ints[2];
    p->ends[1] = a->ints[3];
    return SHOAL_OK;
}

/* How many windows there are over side + pad + end pixels. */
static int64_t windows(const pool *p, uint32_t side, int64_t end, bool ceil)
{
    const int64_t room = (int64_t)side + p->pad + end - p->kernel;
    if (room < 0)
        return 0;
    const int64_t whole = room / p->stride + 1;
    /* a partial window counts if it starts inside the image */
    return whole + (ceil && room % p->stride != 0 && whole * p->stride < side + p->pad);
}

/* Whether a layer with one border all around has the file's windows, with ceil or without. */
static bool fits(const pool *p, shoal_shape in, bool ceil)
{
    return windows(p, in.height, p->pad, ceil) == windows(p, in.height, p->ends[0], p->ceil) &&
           windows(p, in.width, p->pad, ceil) == windows(p, in.width, p->ends[1], p->ceil);
}

shoal_status shoali_onnx_pool(const shoali_onnx_node *node, const char *kind, shoal_shape *shape,
                              char spec_out[SHOALI_LAYER_SPEC_MAX])
{
    pool p = {.ceil = shoali_onnx_integer(node, "ceil_mode", 0) != 0};
    int64_t dilation;
    SHOALI_TRY(shoali_onnx_same(node, "kernel_shape", 1, 0, &p.kernel));
    SHOALI_TRY(shoali_onnx_same(node, "strides", 1, 1, &p.stride));
    SHOALI_TRY(shoali_onnx_same(node, "dilations", 1, 1, &dilation));
    SHOALI_TRY(shoali_onnx_check_auto_pad(node));
    SHOALI_TRY(read_pads(node, &p));
    if (dilation != 1)
        return shoali_onnx_refuse(node, "dilations are not read");
    const bool ceil = !fits(&p, *shape, false);
    if (ceil && !fits(&p, *shape, true))
        return shoali_onnx_refuse(node, "its border at the end changes how many windows there are");
    const bool border = p.pad > 0 || p.ends[0] > 0 || p.ends[1] > 0;
    p.include_pad = border && shoali_onnx_integer(node, "count_include_pad", 0) != 0;
    if (p.include_pad && (ceil || p.ends[0] != p.pad || p.ends[1] != p.pad))
        return shoali_onnx_refuse(node, "count_include_pad goes with one border all around only");
    snprintf(spec_out, SHOALI_LAYER_SPEC_MAX, "%s:kernel=%d,stride=%d,pad=%d,ceil=%s%s", kind,
             (int)p.kernel, (int)p.stride, (int)p.pad, ceil ? "on" : "off",
             p.include_pad ? ",include_pad" : "");
    shape->height = (uint32_t)windows(&p, shape->height, p.pad, ceil);
    shape->width = (uint32_t)windows(&p, shape->width, p.pad, ceil);
    return SHOAL_OK;
}
