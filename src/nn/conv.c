/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution by oneDNN. Nets keep tensors channel by channel; the library has orders of its own,
 * chosen by it for this CPU, into which tensors are turned a few images at a time, so that they
 * are still in the cache when they are read.
 *
 *     forward    y  = b + W x
 *     backward   dW = x dy, db = sums of dy; dx = W dy
 *
 * In bf16 what is read is turned into bfloat16 by the same way, where the CPU multiplies such
 * values; elsewhere it is rounded to them first, and products are in float32.
 *
 * Primitives have fixed sizes and are made with the net: for so many images as are taken at a time,
 * and for fewer, down to 1, from which any rest is put together. */
#include <string.h>

#include "base/error.h"
#include "kernel/kernel.h"
#include "nn/exec.h"
#include "nn/onednn.h"
#include "nn/rounded.h"

enum {
    SETS = 12,
    ALIGN = 64,
    LESS = 4, /* a set is for so many times fewer images than the one before */
    CACHED = 1 << 19
};

/* The three products of some images. */
typedef struct set {
    uint32_t images;
    bool shares; /* both ways back want dy in one order */
    size_t more_at, work_bytes;
    size_t rounded_x_at, rounded_w_at, rounded_y_at;
    shoali_onednn_product forward, weights, back;
} set;

/* What lies in saved. */
typedef struct kept {
    const shoali_onednn *lib;
    dnnl_stream_t stream;
    bool rounds;        /* bf16 that this CPU does not multiply: operands are rounded in work */
    dnnl_memory_t bias; /* or its gradient; NULL: none */
    uint32_t set_count;
    set sets[SETS]; /* the largest first, the last of one image */
} kept;

typedef struct geometry {
    size_t in_elems, out_elems, weights, out;
    bool bias;
} geometry;

static geometry geometry_of(const shoali_layer *layer)
{
    const shoali_conv_params *p = layer->params;
    const size_t groups = p->groups > 1 ? (size_t)p->groups : 1, out = layer->out.channels;
    return (geometry){(size_t)shoali_shape_elems(layer->in), (size_t)shoali_shape_elems(layer->out),
                      out * (layer->in.channels / groups) * (size_t)(p->kernel * p->kernel), out,
                      p->bias};
}

/* ---------------------------------------------------------------- making */

/* Forms of a product's sides as the library may choose them, as nets have them, and pixel by pixel.
 * Left to choose, the library takes four times as long for the weights' gradient of one channel
 * where there is no AVX-512; that channel's values lie in the same order either way. */
typedef struct forms {
    shoali_onednn_conv any, read, plain, pixels; /* read: of what is read, in bf16 if so asked */
    bool by_pixels;                              /* the weights' gradient reads pixel by pixel */
} forms;

static void end_forms(const shoali_onednn *d, forms *f)
{
    shoali_form *all[] = {&f->any.x,   &f->any.w,   &f->any.bias, &f->any.y,
                          &f->read.x,  &f->read.w,  &f->read.y,   &f->plain.x,
                          &f->plain.w, &f->plain.y, &f->pixels.x, &f->pixels.y};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        shoali_form_end(d, all[i]);
    if (f->any.attr != NULL)
        (void)d->primitive_attr_destroy(f->any.attr);
}

/* A side's forms: written by the library, read by it, and the nets'. */
static dnnl_status_t make_side(const shoali_onednn *d, int ndims, const dnnl_dims_t dims,
                               dnnl_format_tag_t tag, dnnl_data_type_t type, shoali_form *any,
                               shoali_form *read, shoali_form *plain)
{
    dnnl_status_t status = shoali_form_make(d, ndims, dims, dnnl_f32, dnnl_format_tag_any, any);
    if (status == dnnl_success)
        status = shoali_form_make(d, ndims, dims, type, dnnl_format_tag_any, read);
    return status == dnnl_success ? shoali_form_make(d, ndims, dims, dnnl_f32, tag, plain) : status;
}

static bool in_bf16(const shoali_layer *layer)
{
    return ((const shoali_conv_params *)layer->params)->precision == SHOALI_BF16;
}

static dnnl_status_t make_forms(const shoali_onednn *d, const shoali_layer *layer, uint32_t images,
                                forms *f)
{
    const shoali_conv_params *p = layer->params;
    const dnnl_dim_t groups = p->groups > 1 ? p->groups : 1;
    const dnnl_dim_t in = layer->in.channels, out = layer->out.channels, k = p->kernel;
    const dnnl_dims_t x = {images, in, layer->in.height, layer->in.width};
    const dnnl_dims_t y = {images, out, layer->out.height, layer->out.width};
    const dnnl_dims_t w = {out, in, k, k}, grouped = {groups, out / groups, in / groups, k, k};
    const dnnl_dims_t bias = {out};
    const dnnl_data_type_t type = in_bf16(layer) && shoali_onednn_has_bf16(d) ? dnnl_bf16
                                                                              : dnnl_f32;
    f->any.has_bias = p->bias;
    for (int i = 0; i < 2; i++) {
        f->any.strides[i] = p->stride;
        f->any.pads[i] = p->pad;
    }
    dnnl_status_t status = make_side(d, 4, x, dnnl_nchw, type, &f->any.x, &f->read.x, &f->plain.x);
    if (status == dnnl_success)
        status = make_side(d, 4, y, dnnl_nchw, type, &f->any.y, &f->read.y, &f->plain.y);
    if (status == dnnl_success)
        status = groups > 1
                     ? make_side(d, 5, grouped, dnnl_goihw, type, &f->any.w, &f->read.w,
                                 &f->plain.w)
                     : make_side(d, 4, w, dnnl_oihw, type, &f->any.w, &f->read.w, &f->plain.w);
    if (status == dnnl_success)
        status = shoali_form_make(d, 1, bias, dnnl_f32, dnnl_x, &f->any.bias);
    if (status == dnnl_success)
        status = shoali_form_make(d, 4, x, dnnl_f32, dnnl_nhwc, &f->pixels.x);
    if (status == dnnl_success)
        status = shoali_form_make(d, 4, y, dnnl_f32, dnnl_nhwc, &f->pixels.y);
    f->by_pixels = in == 1 && d->get_effective_cpu_isa() < dnnl_cpu_isa_avx512_core;
    if (status == dnnl_success)
        status = d->primitive_attr_create(&f->any.attr);
    if (status == dnnl_success)
        status = d->primitive_attr_set_scratchpad_mode(f->any.attr, dnnl_scratchpad_mode_user);
    return status;
}

/* Which queries name a product's sides, and whether it reads them. */
typedef struct direction {
    dnnl_prop_kind_t kind;
    dnnl_query_t x, w, y;
    bool reads_x, reads_w, reads_y;
} direction;

static const direction ahead = {dnnl_forward_training,
                                dnnl_query_src_md,
                                dnnl_query_weights_md,
                                dnnl_query_dst_md,
                                true,
                                true,
                                false},
                       weights = {dnnl_backward_weights,
                                  dnnl_query_src_md,
                                  dnnl_query_diff_weights_md,
                                  dnnl_query_diff_dst_md,
                                  true,
                                  false,
                                  true},
                       back = {dnnl_backward_data,
                               dnnl_query_diff_src_md,
                               dnnl_query_weights_md,
                               dnnl_query_diff_dst_md,
                               false,
                               true,
                               true};

static dnnl_status_t make_product(const shoali_onednn *d, const forms *f, const direction *dir,
                                  dnnl_primitive_desc_t desc, shoali_onednn_product *p)
{
    const shoali_form_view x = d->primitive_desc_query_md(desc, dir->x, 0),
                           w = d->primitive_desc_query_md(desc, dir->w, 0),
                           y = d->primitive_desc_query_md(desc, dir->y, 0),
                           scratch = d->primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    dnnl_status_t status = d->primitive_create(&p->run, desc);
    if (status == dnnl_success)
        status = shoali_onednn_side_make(d, shoali_form_of(&f->plain.x), x, dir->reads_x, &p->x);
    if (status == dnnl_success)
        status = shoali_onednn_side_make(d, shoali_form_of(&f->plain.w), w, dir->reads_w, &p->w);
    if (status == dnnl_success)
        status = shoali_onednn_side_make(d, shoali_form_of(&f->plain.y), y, dir->reads_y, &p->y);
    p->scratch_bytes = d->memory_desc_get_size(scratch);
    if (status == dnnl_success && p->scratch_bytes > 0)
        status = d->memory_create(&p->scratch, scratch, d->engine, DNNL_MEMORY_NONE);
    return status;
}

static dnnl_status_t make_products(const shoali_onednn *d, const forms *f, set *s)
{
    dnnl_primitive_desc_t descs[3] = {NULL, NULL, NULL};
    const direction *directions[] = {&ahead, &weights, &back};
    shoali_onednn_product *products[] = {&s->forward, &s->weights, &s->back};
    dnnl_status_t status = dnnl_success;
    for (size_t i = 0; i < 3 && status == dnnl_success; i++) {
        shoali_onednn_conv what = f->any;
        what.x = directions[i]->reads_x ? f->read.x : f->any.x;
        what.w = directions[i]->reads_w ? f->read.w : f->any.w;
        what.y = directions[i]->reads_y ? f->read.y : f->any.y;
        if (directions[i] == &weights && f->by_pixels) {
            what.x = f->pixels.x;
            what.y = f->pixels.y;
        }
        status = shoali_onednn_conv_make(d, directions[i]->kind, &what, descs[0], &descs[i]);
        if (status == dnnl_success)
            status = make_product(d, f, directions[i], descs[i], products[i]);
    }
    if (status == dnnl_success)
        s->shares = d->memory_desc_equal(
                        d->primitive_desc_query_md(descs[1], dnnl_query_diff_dst_md, 0),
                        d->primitive_desc_query_md(descs[2], dnnl_query_diff_dst_md, 0)) != 0;
    for (size_t i = 0; i < 3; i++)
        if (descs[i] != NULL)
            (void)d->primitive_desc_destroy(descs[i]);
    return status;
}

static size_t take(size_t *used, size_t bytes)
{
    const size_t at = *used;
    *used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Weights turned for one pass stay where they are while others come and go. */
static void place(set *s, const geometry *g, bool rounds)
{
    size_t ahead_used = 0, used = 0;
    const size_t each = rounds ? sizeof(float) : 0;
    s->rounded_w_at = take(&used, g->weights * each);
    s->rounded_x_at = take(&used, s->images * g->in_elems * each);
    ahead_used = used;
    s->rounded_y_at = take(&used, s->images * g->out_elems * each);
    s->forward.w.at = take(&ahead_used, s->forward.w.bytes);
    s->forward.x.at = take(&ahead_used, s->forward.x.bytes);
    s->forward.y.at = take(&ahead_used, s->forward.y.bytes);
    s->forward.scratch_at = take(&ahead_used, s->forward.scratch_bytes);
    s->back.w.at = take(&used, s->back.w.bytes);
    s->weights.y.at = take(&used, s->weights.y.bytes);
    s->more_at = take(&used, (g->weights + g->out) * sizeof(float));
    size_t learning = used, descending = used;
    s->weights.x.at = take(&learning, s->weights.x.bytes);
    s->weights.w.at = take(&learning, s->weights.w.bytes);
    s->weights.scratch_at = take(&learning, s->weights.scratch_bytes);
    s->back.y.at = s->shares ? s->weights.y.at : take(&descending, s->back.y.bytes);
    s->back.x.at = take(&descending, s->back.x.bytes);
    s->back.scratch_at = take(&descending, s->back.scratch_bytes);
    s->work_bytes = larger(ahead_used, larger(learning, descending));
}

static dnnl_status_t make_set(const shoali_onednn *d, const shoali_layer *layer, uint32_t images,
                              set *s)
{
    const geometry g = geometry_of(layer);
    forms f = {.any = {.attr = NULL}};
    s->images = images;
    dnnl_status_t status = make_forms(d, layer, images, &f);
    if (status == dnnl_success)
        status = make_products(d, &f, s);
    end_forms(d, &f);
    place(s, &g, in_bf16(layer) && !shoali_onednn_has_bf16(d));
    return status;
}

/* As many images as stay in the cache, or more where weights are larger than they are. */
static uint32_t most_images(const shoali_layer *layer, uint32_t batch)
{
    const geometry g = geometry_of(layer);
    const size_t image = (g.in_elems + g.out_elems) * sizeof(float);
    const size_t fit = larger(CACHED, 2 * g.weights * sizeof(float)) / image;
    uint32_t images = 1;
    if (fit >= batch)
        return batch;
    while (2 * (size_t)images <= fit)
        images *= 2;
    return images;
}

static void end_kept(kept *k)
{
    const shoali_onednn *d = k->lib;
    for (uint32_t i = 0; i < k->set_count; i++) {
        shoali_onednn_product_end(d, &k->sets[i].forward);
        shoali_onednn_product_end(d, &k->sets[i].weights);
        shoali_onednn_product_end(d, &k->sets[i].back);
    }
    if (k->bias != NULL)
        (void)d->memory_destroy(k->bias);
    if (k->stream != NULL)
        (void)d->stream_destroy(k->stream);
    *k = (kept){.lib = NULL};
}

static dnnl_status_t make_rest(const shoali_layer *layer, kept *k)
{
    const shoali_onednn *d = k->lib;
    const dnnl_dims_t out = {layer->out.channels};
    shoali_form form;
    dnnl_status_t status = d->stream_create(&k->stream, d->engine, dnnl_stream_in_order);
    if (status != dnnl_success || !geometry_of(layer).bias)
        return status;
    status = shoali_form_make(d, 1, out, dnnl_f32, dnnl_x, &form);
    if (status == dnnl_success) {
        status = d->memory_create(&k->bias, shoali_form_of(&form), d->engine, DNNL_MEMORY_NONE);
        shoali_form_end(d, &form);
    }
    return status;
}

/* The largest power of LESS below. */
static uint32_t fewer(uint32_t images)
{
    uint32_t less = 1;
    while (less * LESS < images)
        less *= LESS;
    return less;
}

static dnnl_status_t make_all(const shoali_layer *layer, uint32_t batch, kept *k)
{
    const shoali_onednn_before before = shoali_onednn_alone(k->lib);
    k->rounds = in_bf16(layer) && !shoali_onednn_has_bf16(k->lib);
    dnnl_status_t status = make_rest(layer, k);
    uint32_t images = most_images(layer, batch);
    for (bool more = true; more && status == dnnl_success; k->set_count++) {
        status = make_set(k->lib, layer, images, &k->sets[k->set_count]);
        more = images > 1;
        images = fewer(images);
    }
    shoali_onednn_give_back(k->lib, &before);
    return status;
}

static shoal_status make(const shoali_layer *layer, uint32_t batch, kept *k)
{
    k->lib = shoali_onednn_load();
    if (k->lib == NULL)
        return SHOAL_ENOTSUP;
    const dnnl_status_t status = make_all(layer, batch, k);
    if (status != dnnl_success)
        end_kept(k);
    return shoali_onednn_status(status, "a convolution of this shape");
}

static shoal_status setup(const shoali_node *node, uint32_t batch)
{
    return make(node->layer, batch, node->saved);
}

static void teardown(const shoali_node *node)
{
    kept *k = node->saved;
    if (k->lib != NULL)
        end_kept(k);
}

static size_t saved_bytes(const shoali_layer *layer, uint32_t batch)
{
    (void)layer, (void)batch;
    return sizeof(kept);
}

/* It is the library that knows: the same primitives, made once more. */
static size_t work_bytes(const shoali_layer *layer, uint32_t batch)
{
    kept k = {.lib = NULL};
    size_t most = 0;
    if (make(layer, batch, &k) != SHOAL_OK)
        return SIZE_MAX;
    for (uint32_t i = 0; i < k.set_count; i++)
        most = larger(most, k.sets[i].work_bytes);
    end_kept(&k);
    return most;
}

/* ---------------------------------------------------------------- running */

/* Parts of a batch, each with the largest set that it fills. */
typedef struct part {
    set *set;
    uint32_t first, left;
    bool changed; /* another set than the part before */
} part;

static bool next_part(kept *k, part *p)
{
    set *s = p->set != NULL ? p->set : k->sets;
    if (p->set != NULL) {
        p->first += s->images;
        p->left -= s->images;
    }
    while (p->left > 0 && s->images > p->left)
        s++;
    p->changed = s != p->set;
    p->set = s;
    return p->left > 0;
}

/* Run a product on what its sides are aimed at. */
static void run(const shoali_onednn_call *c, const shoali_onednn_product *p,
                const dnnl_exec_arg_t *sides, dnnl_memory_t bias, int bias_arg)
{
    dnnl_exec_arg_t args[5];
    int count = 3;
    memcpy(args, sides, 3 * sizeof *args);
    if (bias != NULL)
        args[count++] = (dnnl_exec_arg_t){bias_arg, bias};
    if (p->scratch != NULL) {
        (void)c->lib->memory_set_data_handle(p->scratch, c->work + p->scratch_at);
        args[count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, p->scratch};
    }
    (void)c->lib->primitive_execute(p->run, c->stream, count, args);
}

/* What a product reads, rounded in work if need be. */
static const float *rounded(const shoali_onednn_call *c, const kept *k, size_t at,
                            const float *from, size_t count)
{
    float *to = (float *)(void *)(c->work + at);
    if (!k->rounds)
        return from;
    shoali_round(to, from, count);
    return to;
}

/* max(y, 0); what is no number stays none. */
static void rectify(size_t count, float *y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = y[i] < 0.0f ? 0.0f : y[i];
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    kept *k = node->saved;
    const geometry g = geometry_of(node->layer);
    const shoali_onednn_call c = {k->lib, k->stream, pass->work};
    const shoali_onednn_before before = shoali_onednn_alone(k->lib);
    if (k->bias != NULL)
        (void)k->lib->memory_set_data_handle(k->bias, node->params + g.weights);
    for (part p = {.left = pass->count}; next_part(k, &p);) {
        shoali_onednn_product *f = &p.set->forward;
        float *to = y + p.first * g.out_elems;
        if (p.changed)
            shoali_onednn_take(&c, &f->w,
                               rounded(&c, k, p.set->rounded_w_at, node->params, g.weights));
        shoali_onednn_take(&c, &f->x,
                           rounded(&c, k, p.set->rounded_x_at, x + p.first * g.in_elems,
                                   p.set->images * g.in_elems));
        shoali_onednn_aim(&c, &f->y, to);
        run(&c, f,
            (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, f->x.inner},
                                {DNNL_ARG_WEIGHTS, f->w.inner},
                                {DNNL_ARG_DST, f->y.inner}},
            k->bias, DNNL_ARG_BIAS);
        shoali_onednn_put(&c, &f->y, to);
        if (node->rectify)
            rectify(p.set->images * g.out_elems, to);
    }
    shoali_onednn_give_back(k->lib, &before);
}

/* The gradient before max(y, 0). */
static void unrectify(size_t count, const float *y, float *dy)
{
    for (size_t i = 0; i < count; i++)
        dy[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

/* The first part's gradient of the weights and biases is the sum so far; others are added. */
static void learn(const shoali_onednn_call *c, kept *k, const part *p, const shoali_node *node,
                  const geometry *g, const float *x, const float *dy)
{
    shoali_onednn_product *l = &p->set->weights;
    float *sums = p->first == 0 ? node->grads : (float *)(void *)(c->work + p->set->more_at);
    shoali_onednn_take(c, &l->y, dy);
    shoali_onednn_take(c, &l->x, x);
    shoali_onednn_aim(c, &l->w, sums);
    if (k->bias != NULL)
        (void)c->lib->memory_set_data_handle(k->bias, sums + g->weights);
    run(c, l,
        (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, l->x.inner},
                            {DNNL_ARG_DIFF_DST, l->y.inner},
                            {DNNL_ARG_DIFF_WEIGHTS, l->w.inner}},
        k->bias, DNNL_ARG_DIFF_BIAS);
    shoali_onednn_put(c, &l->w, sums);
    if (p->first > 0)
        shoali_kernel()->add(node->grads, sums, g->weights + (g->bias ? g->out : 0));
}

/* Behind learn, which has turned dy already if both want it in one order. */
static void descend(const shoali_onednn_call *c, const part *p, const float *w, const float *dy,
                    float *dx)
{
    shoali_onednn_product *b = &p->set->back;
    if (p->changed)
        shoali_onednn_take(c, &b->w, w);
    if (p->set->shares)
        shoali_onednn_aim(c, &b->y, (float *)(uintptr_t)dy);
    else
        shoali_onednn_take(c, &b->y, dy);
    shoali_onednn_aim(c, &b->x, dx);
    run(c, b,
        (dnnl_exec_arg_t[]){{DNNL_ARG_DIFF_DST, b->y.inner},
                            {DNNL_ARG_WEIGHTS, b->w.inner},
                            {DNNL_ARG_DIFF_SRC, b->x.inner}},
        NULL, 0);
    shoali_onednn_put(c, &b->x, dx);
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    kept *k = node->saved;
    const geometry g = geometry_of(node->layer);
    const shoali_onednn_call c = {k->lib, k->stream, pass->work};
    const shoali_onednn_before before = shoali_onednn_alone(k->lib);
    for (part p = {.left = pass->count}; next_part(k, &p);) {
        float *slopes = dy + p.first * g.out_elems;
        if (node->rectify)
            unrectify(p.set->images * g.out_elems, y + p.first * g.out_elems, slopes);
        const size_t images = p.set->images;
        const float *from = rounded(&c, k, p.set->rounded_x_at, x + p.first * g.in_elems,
                                    images * g.in_elems),
                    *given = rounded(&c, k, p.set->rounded_y_at, slopes, images * g.out_elems);
        learn(&c, k, &p, node, &g, from, given);
        if (dx == NULL)
            continue;
        descend(&c, &p,
                p.changed ? rounded(&c, k, p.set->rounded_w_at, node->params, g.weights) : NULL,
                given, dx + p.first * g.in_elems);
    }
    shoali_onednn_give_back(k->lib, &before);
}

const shoali_exec shoali_exec_conv = {.rectifies = true,
                                      .saved_bytes = saved_bytes,
                                      .work_bytes = work_bytes,
                                      .setup = setup,
                                      .teardown = teardown,
                                      .forward = forward,
                                      .backward = backward};
