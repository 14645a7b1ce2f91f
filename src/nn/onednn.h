/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN, Debian's libdnnl, for ops outside Shoal's own field. It is 40 MB, so it is loaded when
 * the first net asks for it: who trains nothing never has it. One compute thread per worker: it
 * runs on the thread that calls it, whatever OpenMP is set to. */
#ifndef SHOALI_NN_ONEDNN_H
#define SHOALI_NN_ONEDNN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "nn/onednn_version.h"
#include "shoal/status.h"

/** @return its calls, the same ones for ever; NULL with the last error set: not here. */
const shoali_onednn *shoali_onednn_load(void);

/** The same, for what goes another way without it: no error is set. */
const shoali_onednn *shoali_onednn_there(void);

/** SHOAL_OK | ENOMEM | ENOTSUP, with the last error set: `what` was refused. */
SHOAL_MUST_USE shoal_status shoali_onednn_status(dnnl_status_t status, const char *what);

/** How this thread was before its calls. */
typedef struct shoali_onednn_before {
    int threads;
    sigset_t signals;
} shoali_onednn_before;

/** This thread's OpenMP to one thread, and its signals held back; to be given back behind the
 * calls. Also before primitives are made: they are made for a number of threads. Signals, as
 * oneDNN's products of matrices point the stack register into the heap (2.6, AVX-512): a handler's
 * frame overwrites what lies there. */
shoali_onednn_before shoali_onednn_alone(const shoali_onednn *d);
void shoali_onednn_give_back(const shoali_onednn *d, const shoali_onednn_before *before);

/** Whether the CPU multiplies bfloat16: elsewhere oneDNN refuses it, or takes longer. */
bool shoali_onednn_has_bf16(const shoali_onednn *d);

/* ---------------------------------------------------------------- tensors and products */

/** A tensor of a product: in the order that nets keep, and in the order that the product reads or
 * writes. All handles may be NULL. */
typedef struct shoali_onednn_side {
    dnnl_memory_t plain, inner;
    dnnl_primitive_t turn; /* from plain to inner, or back; NULL: they are the same */
    size_t bytes;          /* of inner in work; 0: it is the caller's memory itself */
    size_t at;             /* of inner, in the memory that the product works in */
    void *aimed;           /* where inner is now: oneDNN 2 clears borders each time it is told */
} shoali_onednn_side;

/** One product: of a convolution x, w and y in all its three directions. */
typedef struct shoali_onednn_product {
    dnnl_primitive_t run;
    dnnl_memory_t scratch; /* NULL: none */
    size_t scratch_bytes, scratch_at;
    shoali_onednn_side x, w, y;
} shoali_onednn_product;

/** Where a call works. */
typedef struct shoali_onednn_call {
    const shoali_onednn *lib;
    dnnl_stream_t stream;
    char *work;
} shoali_onednn_call;

/** A side in its plain form and in the one that the product wants, which it reads or else writes.
 * What is there at a failure belongs to the product. */
dnnl_status_t shoali_onednn_side_make(const shoali_onednn *d, shoali_form_view plain,
                                      shoali_form_view inner, bool reads,
                                      shoali_onednn_side *side_out);
void shoali_onednn_product_end(const shoali_onednn *d, shoali_onednn_product *product);

/** What a product reads: turned into work, if need be. */
void shoali_onednn_take(const shoali_onednn_call *c, shoali_onednn_side *side, const float *from);
/** Where a product writes; turned into `to` by put once it is there. */
void shoali_onednn_aim(const shoali_onednn_call *c, shoali_onednn_side *side, float *to);
void shoali_onednn_put(const shoali_onednn_call *c, const shoali_onednn_side *side, float *to);

#endif
