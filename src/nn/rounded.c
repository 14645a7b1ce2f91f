/* SPDX-License-Identifier: Apache-2.0 */
#include "nn/rounded.h"

#include <stdint.h>
#include <string.h>

#include "kernel/kernel.h"
#include "model/model.h"
#include "nn/gemm.h"
#include "nn/nn.h"
#include "nn/onednn.h"
#include "nn/onednn_matmul.h"

enum { ALIGN = 64, CHUNK = 1024, SMALL = 64 * 64 * 64 }; /* SMALL: a primitive takes as long */

size_t shoali_rounded_bytes(size_t values)
{
    return values * sizeof(float) + ALIGN;
}

void shoali_round(float *to, const float *from, size_t count)
{
    uint16_t words[CHUNK];
    for (size_t at = 0; at < count; at += CHUNK) {
        const size_t n = count - at < CHUNK ? count - at : CHUNK;
        (void)shoali_kernel()->bf16_encode(words, from + at, n);
        (void)shoali_kernel()->bf16_decode(to + at, words, n);
    }
}

bool shoali_net_rounds_slowly(const shoal_model *model)
{
    bool any = false;
    for (uint32_t i = 0; i < model->layer_count && !any; i++)
        any = strstr(model->layers[i].spec, "precision=bf16") != NULL;
    const shoali_onednn *d = any ? shoali_onednn_there() : NULL;
    return any && (d == NULL || !shoali_onednn_has_bf16(d));
}

typedef struct product {
    bool turn_a, turn_b, add;
    int m, n, k;
    int c_step;
} product;

/* ---------------------------------------------------------------- by oneDNN */

typedef struct made {
    shoali_form a, b, c;
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t ops;
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t run;
    dnnl_memory_t memory[3];
} made;

static dnnl_status_t make_forms(const shoali_onednn *d, const product *p, made *x)
{
    const dnnl_dims_t a = {p->m, p->k}, b = {p->k, p->n}, c = {p->m, p->n};
    dnnl_status_t status = shoali_form_make(d, 2, a, dnnl_bf16, p->turn_a ? dnnl_ba : dnnl_ab,
                                            &x->a);
    if (status == dnnl_success)
        status = shoali_form_make(d, 2, b, dnnl_bf16, p->turn_b ? dnnl_ba : dnnl_ab, &x->b);
    if (status == dnnl_success)
        status = shoali_form_rows(d, c, p->c_step, &x->c);
    if (status == dnnl_success && p->add)
        status = d->primitive_attr_create(&x->attr);
    if (status == dnnl_success && p->add)
        status = d->post_ops_create(&x->ops);
    if (status == dnnl_success && p->add)
        status = shoali_onednn_sum(d, x->ops);
    if (status == dnnl_success && p->add)
        status = d->primitive_attr_set_post_ops(x->attr, x->ops);
    return status;
}

/* The library keeps what it has made: the second time is quick. */
static dnnl_status_t make(const shoali_onednn *d, const product *p, void *a, void *b, float *c,
                          made *x)
{
    dnnl_status_t status = make_forms(d, p, x);
    if (status == dnnl_success)
        status = shoali_onednn_matmul_make(d, &x->a, &x->b, &x->c, x->attr, &x->desc);
    if (status == dnnl_success)
        status = d->primitive_create(&x->run, x->desc);
    if (status == dnnl_success)
        status = d->memory_create(&x->memory[0], shoali_form_of(&x->a), d->engine, a);
    if (status == dnnl_success)
        status = d->memory_create(&x->memory[1], shoali_form_of(&x->b), d->engine, b);
    if (status == dnnl_success)
        status = d->memory_create(&x->memory[2], shoali_form_of(&x->c), d->engine, c);
    return status;
}

static void end(const shoali_onednn *d, made *x)
{
    for (size_t i = 0; i < 3; i++)
        if (x->memory[i] != NULL)
            (void)d->memory_destroy(x->memory[i]);
    if (x->run != NULL)
        (void)d->primitive_destroy(x->run);
    if (x->desc != NULL)
        (void)d->primitive_desc_destroy(x->desc);
    if (x->ops != NULL)
        (void)d->post_ops_destroy(x->ops);
    if (x->attr != NULL)
        (void)d->primitive_attr_destroy(x->attr);
    shoali_form_end(d, &x->a);
    shoali_form_end(d, &x->b);
    shoali_form_end(d, &x->c);
}

static bool multiply(const shoali_onednn *d, const product *p, void *a, void *b, float *c)
{
    made x = {.attr = NULL};
    dnnl_stream_t stream = NULL;
    const shoali_onednn_before before = shoali_onednn_alone(d);
    dnnl_status_t status = d->stream_create(&stream, d->engine, dnnl_stream_in_order);
    if (status == dnnl_success)
        status = make(d, p, a, b, c, &x);
    if (status == dnnl_success) {
        const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, x.memory[0]},
                                        {DNNL_ARG_WEIGHTS, x.memory[1]},
                                        {DNNL_ARG_DST, x.memory[2]}};
        status = d->primitive_execute(x.run, stream, 3, args);
    }
    end(d, &x);
    if (stream != NULL)
        (void)d->stream_destroy(stream);
    shoali_onednn_give_back(d, &before);
    return status == dnnl_success;
}

/* ---------------------------------------------------------------- both ways */

static void pack(uint16_t *to, const float *from, int rows, int cols, int step)
{
    for (int i = 0; i < rows; i++, to += cols, from += step)
        (void)shoali_kernel()->bf16_encode(to, from, (size_t)cols);
}

static void pack_floats(float *to, const float *from, int rows, int cols, int step)
{
    for (int i = 0; i < rows; i++, to += cols, from += step)
        shoali_round(to, from, (size_t)cols);
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

void shoali_rounded_gemm(bool turn_a, bool turn_b, int m, int n, int k, const float *a, int a_step,
                         const float *b, int b_step, bool add, float *c, int c_step, void *work)
{
    const product p = {turn_a, turn_b, add, m, n, k, c_step};
    const int a_rows = turn_a ? k : m, a_cols = turn_a ? m : k, b_rows = turn_b ? n : k,
              b_cols = turn_b ? k : n;
    const size_t a_count = (size_t)m * (size_t)k;
    const shoali_onednn *d = (int64_t)m * n * k >= SMALL ? shoali_onednn_there() : NULL;
    if (d != NULL && shoali_onednn_has_bf16(d)) {
        uint16_t *words = work;
        void *behind = (char *)work + aligned(a_count * sizeof *words);
        pack(words, a, a_rows, a_cols, a_step);
        pack(behind, b, b_rows, b_cols, b_step);
        if (multiply(d, &p, words, behind, c))
            return;
    }
    float *x = work, *y = x + a_count;
    pack_floats(x, a, a_rows, a_cols, a_step);
    pack_floats(y, b, b_rows, b_cols, b_step);
    shoali_gemm(turn_a, turn_b, m, n, k, 1.0f, x, a_cols, y, b_cols, add ? 1.0f : 0.0f, c, c_step);
}
