/* SPDX-License-Identifier: Apache-2.0 */
/* y = the rows of a table that the ids of a sample name, side by side, of frames plus a row of
 * another table by their place and one of a third by their segment. The gradient is zero but in
 * the rows of the batch, which it lists: what sparse collectives are for. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/exec.h"

/* Rows of the last batch, once each, ascending. */
typedef struct touched {
    size_t count;
    uint32_t rows[];
} touched;

static size_t saved_bytes(const shoali_layer *layer, uint32_t batch)
{
    return sizeof(touched) + (size_t)batch * shoali_shape_elems(layer->in) * sizeof(uint32_t);
}

/* Whether the table has a row for it. Ids of segment k are k vocab more. */
static bool is_id(const shoali_lookup_params *p, float id)
{
    return id >= 0 && id < (float)(p->vocab * (p->types > 0 ? p->types : 1));
}

/* The row of an id; NULL: it is no id of the table. */
static float *row_of(const shoali_lookup_params *p, float *table, float id)
{
    return is_id(p, id) ? table + (size_t)id % (size_t)p->vocab * (size_t)p->width : NULL;
}

/* Ids of a sample: of a sequence, those before its end. */
static size_t ids_of(const shoali_node *node, const shoali_pass *pass, size_t sample)
{
    const shoali_lookup_params *p = node->layer->params;
    return p->frames && pass->lengths != NULL ? pass->lengths[sample] : node->layer->in.height;
}

/* The second table lies behind the first. */
static float *place_of(const shoali_lookup_params *p, float *tables, size_t place)
{
    return tables + ((size_t)p->vocab + place) * (size_t)p->width;
}

/* The third behind that; what is no id is of the first segment. */
static float *type_of(const shoali_lookup_params *p, float *tables, float id)
{
    const size_t type = is_id(p, id) ? (size_t)id / (size_t)p->vocab : 0;
    return tables + (size_t)(p->vocab + p->positions) * (size_t)p->width + type * (size_t)p->width;
}

static void add_row(const shoali_lookup_params *p, const float *row, float *y)
{
    for (size_t k = 0; k < (size_t)p->width; k++)
        y[k] += row[k];
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    const shoali_lookup_params *p = node->layer->params;
    const size_t width = (size_t)p->width, ids = node->layer->in.height;
    for (size_t n = 0; n < pass->count; n++, x += ids, y += ids * width) {
        const size_t count = ids_of(node, pass, n);
        for (size_t i = pass->from; i < count; i++) {
            const float *row = row_of(p, node->params, x[i]);
            if (row != NULL)
                memcpy(y + i * width, row, width * sizeof *y);
            else
                for (size_t k = 0; k < width; k++)
                    y[i * width + k] = isnan(x[i]) ? x[i] : 0;
            if (p->positions > 0)
                add_row(p, place_of(p, node->params, i), y + i * width);
            if (p->types > 0)
                add_row(p, type_of(p, node->params, x[i]), y + i * width);
        }
        memset(y + count * width, 0, (ids - count) * width * sizeof *y);
    }
}

static int by_row(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void list_rows(const shoali_node *node, const shoali_pass *pass, const float *x)
{
    const shoali_lookup_params *p = node->layer->params;
    touched *t = node->saved;
    size_t all = 0;
    for (size_t n = 0; n < pass->count; n++, x += node->layer->in.height)
        for (size_t i = 0; i < ids_of(node, pass, n); i++)
            if (is_id(p, x[i]))
                t->rows[all++] = (uint32_t)x[i] % (uint32_t)p->vocab;
    qsort(t->rows, all, sizeof *t->rows, by_row);
    t->count = 0;
    for (size_t i = 0; i < all; i++)
        if (i == 0 || t->rows[i] != t->rows[i - 1])
            t->rows[t->count++] = t->rows[i];
}

static const uint32_t *rows(const shoali_node *node, size_t *count_out)
{
    const touched *t = node->saved;
    const shoali_lookup_params *p = node->layer->params;
    const bool all = node->layer->lends || p->positions > 0 || p->types > 0;
    *count_out = all ? 0 : t->count;
    return all ? NULL : t->rows;
}

static void places_back(const shoali_node *node, const shoali_pass *pass, const float *x,
                        const float *dy)
{
    const shoali_lookup_params *p = node->layer->params;
    const size_t width = (size_t)p->width, ids = node->layer->in.height;
    memset(place_of(p, node->grads, 0), 0,
           (size_t)(p->positions + p->types) * width * sizeof *node->grads);
    for (size_t n = 0; n < pass->count; n++, x += ids, dy += ids * width)
        for (size_t i = 0; i < ids_of(node, pass, n); i++) {
            if (p->positions > 0)
                add_row(p, dy + i * width, place_of(p, node->grads, i));
            if (p->types > 0)
                add_row(p, dy + i * width, type_of(p, node->grads, x[i]));
        }
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    const shoali_lookup_params *p = node->layer->params;
    const size_t width = (size_t)p->width,
                 ids = (size_t)pass->count * shoali_shape_elems(node->layer->in);
    (void)y;
    if (!node->layer->lends) /* else who borrowed the table has written already */
        memset(node->grads, 0, (size_t)node->layer->param_count * sizeof *node->grads);
    for (size_t i = 0; i < ids; i++) {
        float *sum = row_of(p, node->grads, x[i]);
        for (size_t k = 0; sum != NULL && k < width; k++)
            sum[k] += dy[i * width + k];
    }
    if (p->positions > 0 || p->types > 0)
        places_back(node, pass, x, dy);
    list_rows(node, pass, x);
    if (dx != NULL) /* an id has no slope */
        memset(dx, 0, ids * sizeof *dx);
}

const shoali_exec shoali_exec_lookup = {.continues = true,
                                        .saved_bytes = saved_bytes,
                                        .forward = forward,
                                        .backward = backward,
                                        .rows = rows};
