/* SPDX-License-Identifier: Apache-2.0 */
/* Muon (Jordan et al., 2024, "Muon: an optimizer for hidden layers in neural networks"): the step
 * of a hidden layer's matrix is its momentum with all singular values moved near 1, by a few steps
 * of a Newton-Schulz iteration, (a, b, c) = (3.4445, -4.775, 2.0315):
 *
 *     X0 = G / |G|,    A = X X^T,    X <- a X + (b A + c A^2) X
 *
 * and times sqrt(max(1, rows / cols)). All else is AdamW's, at `rest` times the rate, by the
 * authors' rule: the first layer's matrix, the last layer, embeddings, biases and norms; and the
 * values of block-circulant matrices, which are no matrix. Filters are matrices with a row per
 * output channel. Departure: float32 instead of bfloat16. */
#include <math.h>
#include <string.h>

#include "nn/gemm.h"
#include "nn/optim.h"
#include "nn/optim_rows.h"

typedef shoali_optim_params params;
typedef shoali_optim_span span;

static bool is_hidden(const shoal_tensor *t, bool first)
{
    const uint32_t others = SHOAL_TENSOR_LAST | SHOAL_TENSOR_ROWS | SHOAL_TENSOR_CIRCULANT |
                            SHOAL_TENSOR_BIAS | SHOAL_TENSOR_NORM;
    return !first && t->rows > 0 && t->cols > 0 && (t->flags & others) == 0;
}

/* Smaller and larger side. */
static void sides(const shoal_tensor *t, size_t *less_out, size_t *more_out)
{
    *less_out = t->rows < t->cols ? t->rows : t->cols;
    *more_out = t->rows < t->cols ? t->cols : t->rows;
}

/* X, its successor, and two squares. */
static size_t scratch_floats(const shoal_tensor *tensors, uint32_t count)
{
    size_t most = 0;
    for (uint32_t i = 1; i < count; i++) {
        size_t less, more;
        sides(&tensors[i], &less, &more);
        size_t floats = 2 * less * (less + more);
        most = is_hidden(&tensors[i], false) && floats > most ? floats : most;
    }
    return most;
}

/* c[m][n] = alpha a[m][k] b[k][n] + beta c; b may be given as [n][k]. */
static void product(size_t m, size_t n, size_t k, float alpha, const float *a, const float *b,
                    bool turned, float beta, float *c)
{
    shoali_gemm(false, turned, (int)m, (int)n, (int)k, alpha, a, (int)k, b, (int)(turned ? k : n),
                beta, c, (int)n);
}

/* x [less][more] in place; next is of its size, square and sum are [less][less]. */
static void orthogonalise(size_t less, size_t more, int64_t steps, float *x, float *next,
                          float *square, float *sum)
{
    static const float a = 3.4445f, b = -4.775f, c = 2.0315f;
    double norm = 0;
    for (size_t i = 0; i < less * more; i++)
        norm += (double)x[i] * (double)x[i];
    const float scale = (float)(1 / (sqrt(norm) + 1e-7));
    for (size_t i = 0; i < less * more; i++)
        x[i] *= scale;
    for (int64_t step = 0; step < steps; step++) {
        product(less, less, more, 1, x, x, true, 0, square);
        memcpy(sum, square, less * less * sizeof *sum);
        product(less, less, less, c, square, square, false, b, sum);
        memcpy(next, x, less * more * sizeof *next);
        product(less, more, less, 1, sum, x, false, a, next);
        memcpy(x, next, less * more * sizeof *x);
    }
}

static void update_muon(const params *p, const span *s)
{
    if (!is_hidden(s->tensor, s->first)) {
        span rest = *s;
        rest.lr *= (float)p->rest;
        shoali_optim_update_adamw(p, &rest);
        return;
    }
    const size_t rows = s->tensor->rows, cols = s->tensor->cols;
    const bool tall = rows > cols;
    size_t less, more;
    sides(s->tensor, &less, &more);
    float *x = s->scratch, *next = x + s->count, *square = next + s->count,
          *sum = square + less * less, *mean = s->slots[0], momentum = (float)p->momentum;
    for (size_t i = 0; i < s->count; i++) {
        const float g = s->grad_scale * s->g[i];
        mean[i] = momentum * mean[i] + (1 - momentum) * g;
        const size_t at = tall ? i % cols * rows + i / cols : i;
        x[at] = p->nesterov ? momentum * mean[i] + (1 - momentum) * g : mean[i];
    }
    orthogonalise(less, more, p->steps, x, next, square, sum);
    const float step = s->lr * (tall ? sqrtf((float)rows / (float)cols) : 1),
                keep = 1 - s->lr * s->decay;
    for (size_t i = 0; i < s->count; i++)
        s->w_out[i] = keep * s->w[i] - step * x[tall ? i % cols * rows + i / cols : i];
}

static uint32_t muon_slots(const params *p)
{
    (void)p;
    return 2;
}

static const shoali_key keys[] = {
    SHOALI_OPTIM_FLOAT(momentum, 0, 0.9999, "0.95", "share of the mean of gradients that is kept"),
    SHOALI_OPTIM_FLAG(nesterov, "on", "look ahead by one step"),
    {"steps", SHOALI_KEY_INT, offsetof(params, steps), 1, 20, NULL, "5",
     "of the Newton-Schulz iteration"},
    SHOALI_OPTIM_FLOAT(rest, 0, 1000, "0.015",
                       "rate of AdamW over the rate: for embeddings, vectors, the first and the "
                       "last layer"),
    SHOALI_OPTIM_FLOAT(beta1, 0, 0.9999, "0.9", "AdamW's decay of the mean"),
    SHOALI_OPTIM_FLOAT(beta2, 0, 0.999999, "0.95", "AdamW's decay of the square"),
    SHOALI_OPTIM_FLOAT(eps, 1e-16, 1, "1e-10", "AdamW's, added to the root"),
    SHOALI_OPTIM_FLOAT(decay, 0, 1, "0",
                       "weight decay, times the rate, apart from the gradient; not of biases and "
                       "norms"),
    SHOALI_OPTIM_KEYS,
};
const shoali_optim_row shoali_optim_muon = {
    .name = "muon",
    .about =
        "momentum of hidden matrices made orthogonal, AdamW for the rest (Jordan et al., 2024)",
    .traits = SHOALI_OPTIM_WHOLE,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(params)},
    .slot_names = {"mean", "square"},
    .slots = muon_slots,
    .scratch = scratch_floats,
    .update = update_muon,
};
