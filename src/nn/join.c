/* SPDX-License-Identifier: Apache-2.0 */
/* branch, which is a view and no work; add and concat, which read several outputs. Sums run from
 * the first input to the last, so the same values give the same bits. */
#include <string.h>

#include "nn/exec.h"

static size_t elems(const shoali_node *node, const shoali_pass *pass)
{
    return (size_t)shoali_shape_elems(node->layer->out) * pass->count;
}

const shoali_exec shoali_exec_branch = {0};

static void add_forward(const shoali_node *node, const shoali_pass *pass, const shoali_inputs *in,
                        float *y)
{
    const float *a = in->x[0], *b = in->x[1]; /* y may be b */
    const size_t n = elems(node, pass);
    const size_t from = pass->from * (size_t)node->layer->out.width;
    for (size_t i = from; i < n && !node->rectify; i++)
        y[i] = a[i] + b[i];
    for (size_t i = from; i < n && node->rectify; i++) { /* what is no number stays none */
        const float sum = a[i] + b[i];
        y[i] = sum < 0.0f ? 0.0f : sum;
    }
}

static void give(size_t count, const float *dy, float *dx, bool add)
{
    if (!add) {
        memcpy(dx, dy, count * sizeof *dx);
        return;
    }
    for (size_t i = 0; i < count; i++)
        dx[i] += dy[i];
}

/* The same behind max(y, 0). dx may be dy. */
static void give_rectified(size_t count, const float *y, const float *dy, float *dx, bool add)
{
    for (size_t i = 0; i < count && !add; i++)
        dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
    for (size_t i = 0; i < count && add; i++)
        dx[i] += y[i] > 0.0f ? dy[i] : 0.0f;
}

static void add_backward(const shoali_node *node, const shoali_pass *pass, const shoali_inputs *in,
                         uint32_t input, const float *dy, float *dx, bool add)
{
    (void)in;
    (void)input;
    if (node->rectify)
        give_rectified(elems(node, pass), node->y, dy, dx, add);
    else if (dx != dy)
        give(elems(node, pass), dy, dx, add);
}

const shoali_exec shoali_exec_add = {.rectifies = true,
                                     .continues = true,
                                     .join_forward = add_forward,
                                     .join_backward = add_backward};

/* Values of an input per sample: its channels of all pixels. */
static size_t part_of(const shoali_node *node, const shoali_inputs *in, uint32_t input)
{
    return (size_t)in->channels[input] * node->layer->out.height * node->layer->out.width;
}

static size_t place_of(const shoali_node *node, const shoali_inputs *in, uint32_t input)
{
    size_t place = 0;
    for (uint32_t k = 0; k < input; k++)
        place += part_of(node, in, k);
    return place;
}

static void concat_forward(const shoali_node *node, const shoali_pass *pass,
                           const shoali_inputs *in, float *y)
{
    for (uint32_t n = 0; n < pass->count; n++)
        for (uint32_t k = 0; k < in->count; k++) {
            const size_t part = part_of(node, in, k);
            memcpy(y, in->x[k] + n * part, part * sizeof *y);
            y += part;
        }
}

static void concat_backward(const shoali_node *node, const shoali_pass *pass,
                            const shoali_inputs *in, uint32_t input, const float *dy, float *dx,
                            bool add)
{
    const size_t part = part_of(node, in, input),
                 all = (size_t)shoali_shape_elems(node->layer->out);
    const float *from = dy + place_of(node, in, input);
    for (uint32_t n = 0; n < pass->count; n++)
        give(part, from + n * all, dx + n * part, add);
}

const shoali_exec shoali_exec_concat = {.join_forward = concat_forward,
                                        .join_backward = concat_backward};
