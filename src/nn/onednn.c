/* SPDX-License-Identifier: Apache-2.0 */
#include "nn/onednn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

/* SHOALI_ONEDNN_LIBRARY: the name of what the headers belong to, by CMake. */
static shoali_onednn library;
static char wrong[256]; /* empty: it is there */

static bool find_calls(void *handle)
{
    const struct {
        void **at;
        const char *symbol;
    } wanted[] = {
#define ONEDNN_ROW(name) {(void **)&library.name, "dnnl_" #name},
        SHOALI_ONEDNN_CALLS(ONEDNN_ROW)
#undef ONEDNN_ROW
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if ((*wanted[i].at = dlsym(handle, wanted[i].symbol)) == NULL)
            return false;
    return true;
}

/* 2.0, Debian 11's, takes a wrong gradient of lenet with AVX and more; 2.6 and 3.6 do not. */
static bool is_old(const dnnl_version_t *is)
{
    return is->major < 2 || (is->major == 2 && is->minor < 6);
}

/* The OpenMP that the library itself is bound to: what the process has for all comes first. */
static void *openmp(void *handle, const char *symbol)
{
    void *found = dlsym(RTLD_DEFAULT, symbol);
    return found != NULL ? found : dlsym(handle, symbol);
}

static void load(void)
{
    void *handle = dlopen(SHOALI_ONEDNN_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        snprintf(wrong, sizeof wrong, "%s", dlerror());
        return;
    }
    *(void **)&library.threads = openmp(handle, "omp_get_max_threads");
    *(void **)&library.set_threads = openmp(handle, "omp_set_num_threads");
    if (!find_calls(handle))
        snprintf(wrong, sizeof wrong, "it lacks a call that Shoal needs");
    else if (is_old(library.version()))
        snprintf(wrong, sizeof wrong,
                 "it is oneDNN %d.%d, whose convolutions are wrong; 2.6 will do",
                 library.version()->major, library.version()->minor);
    else if (library.engine_create(&library.engine, dnnl_cpu, 0) != dnnl_success)
        snprintf(wrong, sizeof wrong, "it does not run on this CPU");
}

const shoali_onednn *shoali_onednn_there(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, load);
    return wrong[0] == '\0' ? &library : NULL;
}

const shoali_onednn *shoali_onednn_load(void)
{
    if (shoali_onednn_there() != NULL)
        return &library;
    (void)shoali_fail(
        SHOAL_ENOTSUP,
        "convolutions are oneDNN's, and " SHOALI_ONEDNN_LIBRARY " is not to be had: %s", wrong);
    shoali_error_advice("Install Debian's package of that library (docs/install.md).");
    return NULL;
}

shoal_status shoali_onednn_status(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return SHOAL_OK;
    if (status == dnnl_out_of_memory)
        return shoali_fail(SHOAL_ENOMEM, "no memory for %s in oneDNN", what);
    return shoali_fail(SHOAL_ENOTSUP, "oneDNN refuses %s (its status %d)", what, (int)status);
}

bool shoali_onednn_has_bf16(const shoali_onednn *d)
{
    const unsigned needed = dnnl_cpu_isa_avx512_core_bf16;
    return ((unsigned)d->get_effective_cpu_isa() & needed) == needed;
}

shoali_onednn_before shoali_onednn_alone(const shoali_onednn *d)
{
    shoali_onednn_before before = {.threads = 1};
    sigset_t all;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before.signals);
    if (d->threads == NULL || d->set_threads == NULL)
        return before;
    before.threads = d->threads();
    if (before.threads != 1)
        d->set_threads(1);
    return before;
}

void shoali_onednn_give_back(const shoali_onednn *d, const shoali_onednn_before *before)
{
    if (before->threads != 1)
        d->set_threads(before->threads);
    (void)pthread_sigmask(SIG_SETMASK, &before->signals, NULL);
}

/* ---------------------------------------------------------------- tensors and products */

static dnnl_status_t make_turn(const shoali_onednn *d, shoali_form_view from, shoali_form_view to,
                               dnnl_primitive_t *turn_out)
{
    dnnl_primitive_desc_t desc;
    dnnl_status_t status = d->reorder_primitive_desc_create(&desc, from, d->engine, to, d->engine,
                                                            NULL);
    if (status == dnnl_success) {
        status = d->primitive_create(turn_out, desc);
        (void)d->primitive_desc_destroy(desc);
    }
    return status;
}

dnnl_status_t shoali_onednn_side_make(const shoali_onednn *d, shoali_form_view plain,
                                      shoali_form_view inner, bool reads,
                                      shoali_onednn_side *side_out)
{
    const bool same = d->memory_desc_equal(plain, inner) != 0;
    dnnl_status_t status = d->memory_create(&side_out->inner, inner, d->engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success && !same)
        status = d->memory_create(&side_out->plain, plain, d->engine, DNNL_MEMORY_NONE);
    side_out->bytes = same ? 0 : d->memory_desc_get_size(inner);
    if (status == dnnl_success && !same)
        status = make_turn(d, reads ? plain : inner, reads ? inner : plain, &side_out->turn);
    return status;
}

static void end_side(const shoali_onednn *d, shoali_onednn_side *side)
{
    if (side->plain != NULL)
        (void)d->memory_destroy(side->plain);
    if (side->inner != NULL)
        (void)d->memory_destroy(side->inner);
    if (side->turn != NULL)
        (void)d->primitive_destroy(side->turn);
    *side = (shoali_onednn_side){0};
}

void shoali_onednn_product_end(const shoali_onednn *d, shoali_onednn_product *product)
{
    end_side(d, &product->x);
    end_side(d, &product->w);
    end_side(d, &product->y);
    if (product->run != NULL)
        (void)d->primitive_destroy(product->run);
    if (product->scratch != NULL)
        (void)d->memory_destroy(product->scratch);
    *product = (shoali_onednn_product){0};
}

/* Calls with complete arguments of the right kinds cannot fail: what a stream without a queue runs
 * has run when the call is back. */
static void turn(const shoali_onednn_call *c, dnnl_primitive_t how, dnnl_memory_t from,
                 dnnl_memory_t to)
{
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    (void)c->lib->primitive_execute(how, c->stream, 2, args);
}

void shoali_onednn_aim(const shoali_onednn_call *c, shoali_onednn_side *side, float *to)
{
    void *there = side->plain != NULL ? c->work + side->at : (void *)to;
    if (there != side->aimed)
        (void)c->lib->memory_set_data_handle(side->inner, there);
    side->aimed = there;
}

void shoali_onednn_take(const shoali_onednn_call *c, shoali_onednn_side *side, const float *from)
{
    float *known = (float *)(uintptr_t)from; /* only read: it has one kind of handle for both */
    shoali_onednn_aim(c, side, known);
    if (side->plain == NULL)
        return;
    (void)c->lib->memory_set_data_handle(side->plain, known);
    turn(c, side->turn, side->plain, side->inner);
}

void shoali_onednn_put(const shoali_onednn_call *c, const shoali_onednn_side *side, float *to)
{
    if (side->plain == NULL)
        return;
    (void)c->lib->memory_set_data_handle(side->plain, to);
    turn(c, side->turn, side->inner, side->plain);
}
