/* SPDX-License-Identifier: Apache-2.0 */
/* y = the rows of a table that the ids of a sample name, side by side. The gradient is zero but in
 * the rows of the batch: what sparse collectives are for. */
#include <math.h>
#include <string.h>

#include "nn/exec.h"

/* The row of an id; NULL: it is no id of the table. */
static float *row_of(const shoali_lookup_params *p, float *table, float id)
{
    return id >= 0 && id < (float)p->vocab ? table + (size_t)id * (size_t)p->width : NULL;
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    const shoali_lookup_params *p = node->layer->params;
    const size_t width = (size_t)p->width,
                 ids = (size_t)pass->count * shoali_shape_elems(node->layer->in);
    for (size_t i = 0; i < ids; i++, y += width) {
        const float *row = row_of(p, node->params, x[i]);
        if (row != NULL)
            memcpy(y, row, width * sizeof *y);
        else
            for (size_t k = 0; k < width; k++)
                y[k] = isnan(x[i]) ? x[i] : 0;
    }
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    const shoali_lookup_params *p = node->layer->params;
    const size_t width = (size_t)p->width,
                 ids = (size_t)pass->count * shoali_shape_elems(node->layer->in);
    (void)y;
    memset(node->grads, 0, (size_t)node->layer->param_count * sizeof *node->grads);
    for (size_t i = 0; i < ids; i++) {
        float *sum = row_of(p, node->grads, x[i]);
        for (size_t k = 0; sum != NULL && k < width; k++)
            sum[k] += dy[i * width + k];
    }
    if (dx != NULL) /* an id has no slope */
        memset(dx, 0, ids * sizeof *dx);
}

const shoali_exec shoali_exec_lookup = {.forward = forward, .backward = backward};
