/* SPDX-License-Identifier: Apache-2.0 */
/* Where oneDNN 2 (Debian 12) and 3 (Debian 13) differ: it and onednn_matmul.h know of versions. A
 * form is a tensor's shape and order in memory, a struct in 2 and a handle in 3. */
#ifndef SHOALI_NN_ONEDNN_VERSION_H
#define SHOALI_NN_ONEDNN_VERSION_H

#include <oneapi/dnnl/dnnl.h>

/** A convolution's sides, by their forms. */
typedef struct shoali_onednn_conv shoali_onednn_conv;

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t shoali_form;
typedef const_dnnl_memory_desc_t shoali_form_view;
#define SHOALI_ONEDNN_VERSION_CALLS(CALL)                 \
    CALL(memory_desc_create_with_tag)                     \
    CALL(memory_desc_create_with_strides)                 \
    CALL(matmul_primitive_desc_create)                    \
    CALL(memory_desc_destroy)                             \
    CALL(convolution_forward_primitive_desc_create)       \
    CALL(convolution_backward_data_primitive_desc_create) \
    CALL(convolution_backward_weights_primitive_desc_create)

#elif DNNL_VERSION_MAJOR == 2

typedef dnnl_memory_desc_t shoali_form;
typedef const dnnl_memory_desc_t *shoali_form_view;
#define SHOALI_ONEDNN_VERSION_CALLS(CALL)        \
    CALL(memory_desc_init_by_tag)                \
    CALL(memory_desc_init_by_strides)            \
    CALL(matmul_desc_init)                       \
    CALL(convolution_forward_desc_init)          \
    CALL(convolution_backward_data_desc_init)    \
    CALL(convolution_backward_weights_desc_init) \
    CALL(primitive_desc_create)

#else
#error "this oneDNN is neither 2 nor 3"
#endif

/** All calls that are made. */
#define SHOALI_ONEDNN_CALLS(CALL)            \
    SHOALI_ONEDNN_VERSION_CALLS(CALL)        \
    CALL(version)                            \
    CALL(get_effective_cpu_isa)              \
    CALL(sgemm)                              \
    CALL(engine_create)                      \
    CALL(stream_create)                      \
    CALL(stream_destroy)                     \
    CALL(memory_create)                      \
    CALL(memory_destroy)                     \
    CALL(memory_set_data_handle)             \
    CALL(memory_desc_equal)                  \
    CALL(memory_desc_get_size)               \
    CALL(primitive_attr_create)              \
    CALL(primitive_attr_destroy)             \
    CALL(primitive_attr_set_scratchpad_mode) \
    CALL(primitive_attr_set_post_ops)        \
    CALL(post_ops_create)                    \
    CALL(post_ops_destroy)                   \
    CALL(post_ops_append_sum)                \
    CALL(primitive_desc_destroy)             \
    CALL(primitive_desc_query_md)            \
    CALL(reorder_primitive_desc_create)      \
    CALL(primitive_create)                   \
    CALL(primitive_destroy)                  \
    CALL(primitive_execute)

/** The library's functions by their names without dnnl_, and what is one per process. */
typedef struct shoali_onednn {
#define SHOALI_ONEDNN_FIELD(name) __typeof__(&dnnl_##name) name;
    SHOALI_ONEDNN_CALLS(SHOALI_ONEDNN_FIELD)
#undef SHOALI_ONEDNN_FIELD
    dnnl_engine_t engine;
    int (*threads)(void); /* of the OpenMP that it was built with; NULL: built without */
    void (*set_threads)(int);
} shoali_onednn;

struct shoali_onednn_conv {
    shoali_form x, w, bias, y;
    bool has_bias;
    dnnl_dims_t strides, pads;
    dnnl_primitive_attr_t attr;
};

#if DNNL_VERSION_MAJOR >= 3

static inline dnnl_status_t shoali_form_make(const shoali_onednn *d, int ndims,
                                             const dnnl_dims_t dims, dnnl_data_type_t type,
                                             dnnl_format_tag_t tag, shoali_form *form_out)
{
    return d->memory_desc_create_with_tag(form_out, ndims, dims, type, tag);
}

static inline void shoali_form_end(const shoali_onednn *d, shoali_form *form)
{
    if (*form != NULL)
        (void)d->memory_desc_destroy(*form);
    *form = NULL;
}

static inline shoali_form_view shoali_form_of(const shoali_form *form)
{
    return *form;
}

/** kind: forward_training, backward_data or backward_weights; those two with forward's as hint. */
static inline dnnl_status_t shoali_onednn_conv_make(const shoali_onednn *d, dnnl_prop_kind_t kind,
                                                    const shoali_onednn_conv *c,
                                                    const_dnnl_primitive_desc_t hint,
                                                    dnnl_primitive_desc_t *desc_out)
{
    const dnnl_dims_t dense = {0, 0};
    const shoali_form_view bias = c->has_bias ? c->bias : NULL;
    if (kind == dnnl_forward_training)
        return d->convolution_forward_primitive_desc_create(
            desc_out, d->engine, kind, dnnl_convolution_direct, c->x, c->w, bias, c->y, c->strides,
            dense, c->pads, c->pads, c->attr);
    if (kind == dnnl_backward_data)
        return d->convolution_backward_data_primitive_desc_create(
            desc_out, d->engine, dnnl_convolution_direct, c->x, c->w, c->y, c->strides, dense,
            c->pads, c->pads, hint, c->attr);
    return d->convolution_backward_weights_primitive_desc_create(
        desc_out, d->engine, dnnl_convolution_direct, c->x, c->w, bias, c->y, c->strides, dense,
        c->pads, c->pads, hint, c->attr);
}

#else

static inline dnnl_status_t shoali_form_make(const shoali_onednn *d, int ndims,
                                             const dnnl_dims_t dims, dnnl_data_type_t type,
                                             dnnl_format_tag_t tag, shoali_form *form_out)
{
    return d->memory_desc_init_by_tag(form_out, ndims, dims, type, tag);
}

static inline void shoali_form_end(const shoali_onednn *d, shoali_form *form)
{
    (void)d, (void)form;
}

static inline shoali_form_view shoali_form_of(const shoali_form *form)
{
    return form;
}

/** kind: forward_training, backward_data or backward_weights; those two with forward's as hint. */
static inline dnnl_status_t shoali_onednn_conv_make(const shoali_onednn *d, dnnl_prop_kind_t kind,
                                                    const shoali_onednn_conv *c,
                                                    const_dnnl_primitive_desc_t hint,
                                                    dnnl_primitive_desc_t *desc_out)
{
    dnnl_convolution_desc_t what;
    const shoali_form_view bias = c->has_bias ? &c->bias : NULL;
    dnnl_status_t status;
    if (kind == dnnl_forward_training)
        status = d->convolution_forward_desc_init(&what, kind, dnnl_convolution_direct, &c->x,
                                                  &c->w, bias, &c->y, c->strides, c->pads, c->pads);
    else if (kind == dnnl_backward_data)
        status = d->convolution_backward_data_desc_init(&what, dnnl_convolution_direct, &c->x,
                                                        &c->w, &c->y, c->strides, c->pads, c->pads);
    else
        status = d->convolution_backward_weights_desc_init(&what, dnnl_convolution_direct, &c->x,
                                                           &c->w, bias, &c->y, c->strides, c->pads,
                                                           c->pads);
    return status == dnnl_success
               ? d->primitive_desc_create(desc_out, &what, c->attr, d->engine, hint)
               : status;
}

#endif
#endif
