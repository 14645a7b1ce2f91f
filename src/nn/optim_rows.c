/* SPDX-License-Identifier: Apache-2.0 */
/* SGD, Adam, AdamW. All is element by element, so a range gives the same bits whoever updates it.
 */
#include "nn/optim_rows.h"

#include <math.h>
#include <string.h>

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

/* Behind `freeze` workers may go apart, each by its own gradients, and meet now and then: what
 * arrives at a meeting is the mean of the momenta since the last one, and the step is made from the
 * weights of that one, as if all steps since then had gone there (codec/onebit.c). */
typedef struct meeting {
    bool apart, here;
    uint64_t steps; /* here: since the last one; else 1 */
} meeting;

static meeting meeting_of(const params *p, double time)
{
    if (p->local <= 1 || time <= (double)p->freeze)
        return (meeting){.steps = 1};
    const uint64_t steps = shoali_local_run((uint64_t)(time - 1) - (uint64_t)p->freeze,
                                            (uint64_t)p->local, (uint64_t)p->doubling);
    return (meeting){.apart = true, .here = steps > 0, .steps = steps > 0 ? steps : 1};
}

/* Kingma, Ba, ICLR 2015, algorithm 1, with the two corrections folded into step and eps as in its
 * section 2. `coupled` decay goes into the gradient, the other into the weight before the step. */
static void update(const params *p, const span *s, float coupled, float decoupled)
{
    const bool over = p->freeze > 0 && s->time > (double)p->freeze;
    const uint64_t time = (uint64_t)(over ? (double)p->freeze : s->time);
    const uint64_t renewals = shoali_renewals(time, (uint64_t)p->kappa);
    const bool frozen = over || renewals == shoali_renewals(time - 1, (uint64_t)p->kappa);
    const double settled = (double)renewals; /* steps that are in the square */
    const meeting meet = meeting_of(p, s->time);
    double correct1 = 1.0 - pow(p->beta1, s->time), correct2 = 1.0 - pow(p->beta2, settled);
    float step = (float)(s->lr * sqrt(correct2) / correct1) * (float)meet.steps;
    float eps = (float)(p->eps * sqrt(correct2)), keep = 1.0f - s->lr * decoupled;
    float beta1 = meet.here ? 0 : (float)p->beta1, beta2 = (float)p->beta2;
    float *m = s->slots[0], *v = s->slots[1], *met = s->slots[2];
    keep = meet.here ? powf(keep, (float)meet.steps) : keep;
    for (size_t i = 0; i < s->count; i++) {
        float w = meet.here ? met[i] : s->w[i], g = s->grad_scale * s->g[i] + coupled * w;
        m[i] = beta1 * m[i] + (1.0f - beta1) * g;
        if (!frozen)
            v[i] = beta2 * v[i] + (1.0f - beta2) * g * g;
        /* what never had a slope has none now, whatever signs say of its block */
        const float moved = frozen && v[i] == 0 ? 0 : step * m[i] / (sqrtf(v[i]) + eps);
        s->w_out[i] = keep * w - moved;
    }
    if (met != NULL && (meet.here || !meet.apart))
        memcpy(met, s->w_out, s->count * sizeof *met);
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

static uint32_t adam_slots(const params *p)
{
    return p->local > 1 ? 3 : 2;
}

static shoal_status check_local(const params *p)
{
    if (p->local <= 1)
        return SHOAL_OK;
    if ((p->local & (p->local - 1)) != 0)
        return shoali_fail(SHOAL_EINVAL, "local=%lld is no power of two", (long long)p->local);
    return p->freeze > 0 && p->ema == 0
               ? SHOAL_OK
               : shoali_fail(SHOAL_EINVAL,
                             "optimiser: local= needs freeze=, as workers that go apart have no "
                             "square in common, and no ema");
}

/* At a meeting what arrives is a momentum, and who has decay in it has it alone. */
static shoal_status check_adam(const params *p)
{
    if (p->local > 1 && p->decay > 0)
        return shoali_fail(SHOAL_EINVAL, "optimiser 'adam': decay does not go with local=; take "
                                         "adamw, whose decay is apart from the gradient");
    return check_local(p);
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
        {"kappa",                                                                               \
         SHOALI_KEY_INT,                                                                        \
         offsetof(shoali_optim_params, kappa),                                                  \
         0,                                                                                     \
         1 << 20,                                                                               \
         NULL,                                                                                  \
         "0",                                                                                   \
         "steps that renew the square: the first so many, of the next every 2nd, then 4th, "    \
         "..: 0/1 Adam's; 0: all"},                                                             \
        {"local",                                                                               \
         SHOALI_KEY_INT,                                                                        \
         offsetof(shoali_optim_params, local),                                                  \
         1,                                                                                     \
         1024,                                                                                  \
         NULL,                                                                                  \
         "1",                                                                                   \
         "behind freeze workers meet every so many steps at most, a power of two: as "          \
         "onebit:local"},                                                                       \
    {                                                                                           \
        "doubling", SHOALI_KEY_INT, offsetof(shoali_optim_params, doubling), 0, 1 << 30, NULL,  \
            "0",                                                                                \
            "steps after which they meet half as often, until local is reached; 0: it is from " \
            "the first on"                                                                      \
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
    .slot_names = {"mean", "square", "met"},
    .slots = adam_slots,
    .check = check_adam,
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
    .slot_names = {"mean", "square", "met"},
    .slots = adam_slots,
    .check = check_local,
    .update = shoali_optim_update_adamw,
};
