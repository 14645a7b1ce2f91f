/* SPDX-License-Identifier: Apache-2.0 */
/* SGD, Adam, AdamW. All is element by element, so a range gives the same bits whoever updates it.
 */
#include "nn/optim_rows.h"

#include <math.h>

#include "base/error.h"
#include "base/renewals.h"

typedef shoali_optim_params params;
typedef shoali_optim_span span;

/* ---------------------------------------------------------------- sgd */

/* The convention of Sutskever's heirs (PyTorch): v = momentum v + g; w -= lr v, or lr (g + momentum
 * v) for Nesterov. */
static void update_sgd(const params *p, const span *s)
{
    float momentum = (float)p->momentum;
    float *v = s->slots[0];
    for (size_t i = 0; v == NULL && i < s->count; i++)
        s->w_out[i] = s->w[i] - s->lr * (s->grad_scale * s->g[i] + s->decay * s->w[i]);
    for (size_t i = 0; v != NULL && i < s->count; i++) {
        float w = s->w[i], g = s->grad_scale * s->g[i] + s->decay * w;
        v[i] = momentum * v[i] + g;
        s->w_out[i] = w - s->lr * (p->nesterov ? g + momentum * v[i] : v[i]);
    }
}

static uint32_t sgd_slots(const params *p)
{
    return p->momentum == 0 ? 0 : 1;
}

static shoal_status check_sgd(const params *p)
{
    if (p->nesterov && p->momentum == 0)
        return shoali_fail(SHOAL_EINVAL, "optimiser 'sgd': nesterov needs a momentum above 0");
    return SHOAL_OK;
}

static const shoali_key sgd_keys[] = {
    SHOALI_OPTIM_FLOAT(momentum, 0, 0.9999, "0.9", "share of the last step"),
    SHOALI_OPTIM_FLOAT(decay, 0, 1, "0", "weight decay; not of biases and norms"),
    SHOALI_OPTIM_FLAG(nesterov, "off", "look ahead by one step"),
    SHOALI_OPTIM_KEYS,
};
const shoali_optim_row shoali_optim_sgd = {
    .name = "sgd",
    .about = "stochastic gradient descent with momentum as PyTorch has it (Sutskever et al., ICML "
             "2013)",
    .schema = {sgd_keys, sizeof sgd_keys / sizeof *sgd_keys, sizeof(params)},
    .slot_names = {"momentum"},
    .slots = sgd_slots,
    .check = check_sgd,
    .update = update_sgd,
};

/* ---------------------------------------------------------------- adam, adamw */

/* Kingma, Ba, ICLR 2015, algorithm 1, with the two corrections folded into step and eps as in its
 * section 2. `coupled` decay goes into the gradient, the other into the weight before the step. */
static void update(const params *p, const span *s, float coupled, float decoupled)
{
    const bool over = p->freeze > 0 && s->time > (double)p->freeze;
    const uint64_t time = (uint64_t)(over ? (double)p->freeze : s->time);
    const uint64_t renewals = shoali_renewals(time, (uint64_t)p->kappa);
    const bool frozen = over || renewals == shoali_renewals(time - 1, (uint64_t)p->kappa);
    const double settled = (double)renewals; /* steps that are in the square */
    double correct1 = 1.0 - pow(p->beta1, s->time), correct2 = 1.0 - pow(p->beta2, settled);
    float step = (float)(s->lr * sqrt(correct2) / correct1), eps = (float)(p->eps * sqrt(correct2));
    float beta1 = (float)p->beta1, beta2 = (float)p->beta2, keep = 1.0f - s->lr * decoupled;
    float *m = s->slots[0], *v = s->slots[1];
    for (size_t i = 0; i < s->count; i++) {
        float w = s->w[i], g = s->grad_scale * s->g[i] + coupled * w;
        m[i] = beta1 * m[i] + (1.0f - beta1) * g;
        if (!frozen)
            v[i] = beta2 * v[i] + (1.0f - beta2) * g * g;
        /* what never had a slope has none now, whatever signs say of its block */
        const float moved = frozen && v[i] == 0 ? 0 : step * m[i] / (sqrtf(v[i]) + eps);
        s->w_out[i] = keep * w - moved;
    }
}

static void update_adam(const params *p, const span *s)
{
    update(p, s, s->decay, 0);
}

/* Loshchilov, Hutter, ICLR 2019, algorithm 2. */
void shoali_optim_update_adamw(const params *p, const span *s)
{
    update(p, s, 0, s->decay);
}

static uint32_t two_slots(const params *p)
{
    (void)p;
    return 2;
}

#define ADAM_KEYS                                                                               \
    SHOALI_OPTIM_FLOAT(beta1, 0, 0.9999, "0.9", "decay of the mean"),                           \
        SHOALI_OPTIM_FLOAT(beta2, 0, 0.999999, "0.999", "decay of the square"),                 \
        SHOALI_OPTIM_FLOAT(eps, 1e-16, 1, "1e-8", "added to the root"),                         \
        {"freeze",                                                                              \
         SHOALI_KEY_INT,                                                                        \
         offsetof(shoali_optim_params, freeze),                                                 \
         0,                                                                                     \
         1 << 30,                                                                               \
         NULL,                                                                                  \
         "0",                                                                                   \
         "steps after which the square stands still, as 1-bit Adam's does; 0: never"},          \
    {                                                                                           \
        "kappa", SHOALI_KEY_INT, offsetof(shoali_optim_params, kappa), 0, 1 << 20, NULL, "0",   \
            "steps that renew the square: the first so many, of the next every 2nd, then 4th, " \
            "..: 0/1 Adam's; 0: all"                                                            \
    }

static const shoali_key adam_keys[] = {
    ADAM_KEYS,
    SHOALI_OPTIM_FLOAT(decay, 0, 1, "0",
                       "weight decay, added to the gradient; not of biases and norms"),
    SHOALI_OPTIM_KEYS,
};
const shoali_optim_row shoali_optim_adam = {
    .name = "adam",
    .about = "Kingma and Ba, ICLR 2015, algorithm 1",
    .schema = {adam_keys, sizeof adam_keys / sizeof *adam_keys, sizeof(params)},
    .slot_names = {"mean", "square"},
    .slots = two_slots,
    .update = update_adam,
};

static const shoali_key adamw_keys[] = {
    ADAM_KEYS,
    SHOALI_OPTIM_FLOAT(decay, 0, 1, "0.01",
                       "weight decay, times the rate, apart from the gradient; not of biases and "
                       "norms"),
    SHOALI_OPTIM_KEYS,
};
const shoali_optim_row shoali_optim_adamw = {
    .name = "adamw",
    .about = "Adam with decoupled weight decay (Loshchilov and Hutter, ICLR 2019, algorithm 2)",
    .schema = {adamw_keys, sizeof adamw_keys / sizeof *adamw_keys, sizeof(params)},
    .slot_names = {"mean", "square"},
    .slots = two_slots,
    .update = shoali_optim_update_adamw,
};
