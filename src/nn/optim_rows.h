/* SPDX-License-Identifier: Apache-2.0 */
/* An optimiser's row: its keys, the arrays that it keeps, and its step on a part of one tensor. */
#ifndef SHOALI_NN_OPTIM_ROWS_H
#define SHOALI_NN_OPTIM_ROWS_H

#include "base/spec.h"
#include "shoal/model.h"

enum { SHOALI_OPTIM_SLOTS_MAX = 3 };

/** The keys of all rows; each reads its own. */
typedef struct shoali_optim_params {
    double momentum, decay, beta1, beta2, eps, rest, ema;
    int64_t steps, freeze, kappa, local, doubling;
    bool nesterov, decay_all;
} shoali_optim_params;

/** A part of a step that lies in one tensor. */
typedef struct shoali_optim_span {
    const shoal_tensor *tensor;
    size_t count; /* all of the tensor where the row has SHOALI_OPTIM_WHOLE */
    const float *w, *g;
    float *w_out;
    float *slots[SHOALI_OPTIM_SLOTS_MAX];
    float lr, grad_scale, decay;
    double time;    /* steps so far, this one included */
    bool first;     /* the first tensor of all: an input layer's weights */
    float *scratch; /* as many floats as the row's scratch() asked for */
} shoali_optim_span;

typedef struct shoali_optim_row {
    const char *name, *about;
    uint32_t traits; /* SHOALI_OPTIM_* of nn/optim.h */
    shoali_schema schema;
    const char *slot_names[SHOALI_OPTIM_SLOTS_MAX];
    uint32_t (*slots)(const shoali_optim_params *params);
    shoal_status (*check)(const shoali_optim_params *params);       /* NULL: nothing */
    size_t (*scratch)(const shoal_tensor *tensors, uint32_t count); /* floats; NULL: 0 */
    void (*update)(const shoali_optim_params *params, const shoali_optim_span *s);
} shoali_optim_row;

extern const shoali_optim_row shoali_optim_sgd, shoali_optim_adam, shoali_optim_adamw,
    shoali_optim_muon;

/** A step of AdamW, for whom else it serves. */
void shoali_optim_update_adamw(const shoali_optim_params *params, const shoali_optim_span *s);

#define SHOALI_OPTIM_FLOAT(field, low, high, usual, text)                                       \
    {                                                                                           \
#field, SHOALI_KEY_FLOAT, offsetof(shoali_optim_params, field), low, high, NULL, usual, \
            text                                                                                \
    }
#define SHOALI_OPTIM_FLAG(field, usual, text)                                                  \
    {                                                                                          \
#field, SHOALI_KEY_FLAG, offsetof(shoali_optim_params, field), 0, 0, NULL, usual, text \
    }
/** What every row has. */
#define SHOALI_OPTIM_KEYS                                                                        \
    SHOALI_OPTIM_FLAG(decay_all, "off", "weight decay of biases and norms, too"),                \
        SHOALI_OPTIM_FLOAT(ema, 0, 0.999999, "0",                                                \
                           "average of the weights: its share that a step keeps; it is tested, " \
                           "evaluated and exported; 0: none")

#endif
