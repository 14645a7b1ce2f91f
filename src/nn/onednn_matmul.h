/* SPDX-License-Identifier: Apache-2.0 */
/* A product of two matrices by oneDNN 2 or 3, and what it adds to. */
#ifndef SHOALI_NN_ONEDNN_MATMUL_H
#define SHOALI_NN_ONEDNN_MATMUL_H

#include "nn/onednn_version.h"

#if DNNL_VERSION_MAJOR >= 3

/** Two dimensions of float32, the rows so many values apart. */
static inline dnnl_status_t shoali_form_rows(const shoali_onednn *d, const dnnl_dims_t dims,
                                             dnnl_dim_t step, shoali_form *form_out)
{
    const dnnl_dims_t strides = {step, 1};
    return d->memory_desc_create_with_strides(form_out, 2, dims, dnnl_f32, strides);
}

static inline dnnl_status_t shoali_onednn_sum(const shoali_onednn *d, dnnl_post_ops_t ops)
{
    return d->post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

static inline dnnl_status_t shoali_onednn_matmul_make(const shoali_onednn *d, const shoali_form *a,
                                                      const shoali_form *b, const shoali_form *c,
                                                      dnnl_primitive_attr_t attr,
                                                      dnnl_primitive_desc_t *desc_out)
{
    return d->matmul_primitive_desc_create(desc_out, d->engine, *a, *b, NULL, *c, attr);
}

#else

/** Two dimensions of float32, the rows so many values apart. */
static inline dnnl_status_t shoali_form_rows(const shoali_onednn *d, const dnnl_dims_t dims,
                                             dnnl_dim_t step, shoali_form *form_out)
{
    const dnnl_dims_t strides = {step, 1};
    return d->memory_desc_init_by_strides(form_out, 2, dims, dnnl_f32, strides);
}

static inline dnnl_status_t shoali_onednn_sum(const shoali_onednn *d, dnnl_post_ops_t ops)
{
    return d->post_ops_append_sum(ops, 1.0f);
}

static inline dnnl_status_t shoali_onednn_matmul_make(const shoali_onednn *d, const shoali_form *a,
                                                      const shoali_form *b, const shoali_form *c,
                                                      dnnl_primitive_attr_t attr,
                                                      dnnl_primitive_desc_t *desc_out)
{
    dnnl_matmul_desc_t what;
    const dnnl_status_t status = d->matmul_desc_init(&what, a, b, NULL, c);
    return status == dnnl_success ? d->primitive_desc_create(desc_out, &what, attr, d->engine, NULL)
                                  : status;
}

#endif
#endif
