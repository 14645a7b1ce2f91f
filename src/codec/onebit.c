/* SPDX-License-Identifier: Apache-2.0 */
/* onebit: 1-bit Adam's exchange. First gradients travel whole, while the optimiser's variance
 * settles; then what travels is a bit per element of the momentum, with a scale per block, and what
 * the bit does not say waits for the next step. A transform of one round; +x+ is summed over the
 * N members, M the sum of their momenta:
 *
 *     step <= warmup   +gradient+, M = beta M + (1 - beta) +gradient+
 *     then             x = beta M / N + (1 - beta) gradient + residual
 *                      q = sign(x) times the mean |x| of its block, residual = x - q
 *                      gradient = (+q+ - beta M) / (1 - beta), M = +q+
 *
 * So an optimiser with a momentum of its own (adam:beta1=beta) has M / N in it after each step; its
 * variance must stand still by then (adam:freeze=warmup), as signs say nothing about it. With kappa
 * only those steps of the warm-up are whole that renew the variance by 0/1 Adam's policy (Lu et
 * al., ICLR 2023: at distances that double), and it stands still between them (adam:kappa).
 * With local=H members go apart behind the warm-up, as 0/1 Adam's do (its algorithm 1): each steps
 * by its own gradients (adam:local=H), and they meet every so many steps (base/renewals.h):
 *
 *     m = beta m + (1 - beta) gradient, residual += m
 *     apart      gradient = N gradient: the mean over members that the optimiser makes is its own
 *     meeting    q = sign(residual) times the mean |residual| of its block, residual -= q
 *                gradient = +q+ / steps since the last meeting, m = gradient / N
 *
 * The paper weighs momenta by their rates and takes the sum of these; here all rates since the last
 * meeting count as the last one. Its meetings become rare as the rate falls; here, as in the
 * authors' code, as steps go by.
 *
 * Delivered + residuals = the momenta that were asked for. Bits go from each member to all others
 * (gather), whatever the collective: the paper's second rounding, of the mean at servers, is left
 * out.
 *
 * Scales keep 16 bits of fraction, so that the codec `sign`, which carries q, gives q back exactly.
 *
 * State, floats: steps so far; members of the operation at work; what travels and a one; M (apart:
 * N m); residual. Zero at first. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/renewals.h"
#include "base/rng.h"
#include "codec/codec.h"
#include "kernel/kernel.h"

enum { BLOCK = 256, TIMES = 1 << 24, LOOKED_AT = 64 };

typedef struct onebit_params {
    int64_t warmup, kappa, local, doubling;
    double beta;
} onebit_params;

static const shoali_key keys[] = {
    {"warmup", SHOALI_KEY_INT, offsetof(onebit_params, warmup), 1, 1 << 23, NULL, "100",
     "steps whose gradients travel whole; give adam:freeze the same"},
    {"kappa", SHOALI_KEY_INT, offsetof(onebit_params, kappa), 0, 1 << 20, NULL, "0",
     "of them the first so many, of the next every 2nd, then 4th, ..: 0/1 Adam; adam:kappa the "
     "same"},
    {"beta", SHOALI_KEY_FLOAT, offsetof(onebit_params, beta), 0, 0.9999, NULL, "0.9",
     "share of the momentum that a step keeps: the optimiser's beta1"},
    {"local", SHOALI_KEY_INT, offsetof(onebit_params, local), 1, 1024, NULL, "1",
     "behind the warm-up workers step apart and meet every so many steps at most, a power of two; "
     "adam:local the same"},
    {"doubling", SHOALI_KEY_INT, offsetof(onebit_params, doubling), 0, 1 << 23, NULL, "0",
     "steps after which they meet half as often, until local is reached; 0: it is from the first "
     "on"},
};

static uint32_t more_traits(const void *params)
{
    return ((const onebit_params *)params)->local > 1 ? SHOAL_CODEC_LOCAL : 0;
}

static shoal_status check(void *params)
{
    const int64_t local = ((const onebit_params *)params)->local;
    return (local & (local - 1)) == 0
               ? SHOAL_OK
               : shoali_fail(SHOAL_EINVAL, "codec 'onebit': local=%lld is no power of two",
                             (long long)local);
}

static uint16_t wire_id(const void *params)
{
    (void)params;
    return 66;
}

static size_t count_of(const shoal_tensor *tensors, uint32_t tensor_count)
{
    return tensor_count > 0 ? tensors[tensor_count - 1].offset + tensors[tensor_count - 1].count
                            : 0;
}

static size_t state_size(const void *params, const shoal_tensor *tensors, uint32_t tensor_count)
{
    (void)params;
    return (3 + 3 * count_of(tensors, tensor_count)) * sizeof(float);
}

typedef struct parts {
    size_t count;
    float beta, fresh; /* 1 - beta */
    float *steps, *members, *sent, *momentum, *residual;
} parts;

static parts parts_of(const onebit_params *p, float *state, size_t count)
{
    return (parts){.count = count,
                   .beta = (float)p->beta,
                   .fresh = (float)(1 - p->beta),
                   .steps = state,
                   .members = state + 1,
                   .sent = state + 2,
                   .momentum = state + 3 + count,
                   .residual = state + 3 + 2 * count};
}

/* Of a block's magnitudes, in one order on every machine. */
static float scale_of(const float *x, size_t n)
{
    double sum = 0;
    uint32_t bits;
    for (size_t i = 0; i < n; i++)
        sum += fabs((double)x[i]);
    float scale = (float)(sum / (double)n);
    memcpy(&bits, &scale, sizeof bits);
    bits &= 0xffffff00;
    memcpy(&scale, &bits, sizeof scale);
    return isfinite(sum) ? scale : NAN; /* the exchange will name whose it is */
}

static void take_in(const parts *a, const float *grad)
{
    const float kept = a->beta / *a->members;
    for (size_t i = 0; i < a->count; i++)
        a->residual[i] += kept * a->momentum[i] + a->fresh * grad[i];
}

/* The same, where the momentum is this member's own; what comes back is the gradient alone. */
static void take_in_own(const parts *a, float *grad)
{
    const float fresh = a->fresh * *a->members, share = 1 / *a->members;
    for (size_t i = 0; i < a->count; i++) {
        a->momentum[i] = a->beta * a->momentum[i] + fresh * grad[i];
        a->residual[i] += share * a->momentum[i];
        grad[i] *= *a->members;
    }
}

static void take_signs(const parts *a)
{
    float *x = a->residual;
    for (size_t first = 0; first < a->count; first += BLOCK) {
        const size_t end = first + BLOCK < a->count ? first + BLOCK : a->count;
        const float scale = scale_of(x + first, end - first);
        for (size_t i = first; i < end; i++) {
            a->sent[i] = signbit(x[i]) ? -scale : scale;
            x[i] -= a->sent[i];
        }
    }
}

static void take_whole(const parts *a, const float *grad)
{
    shoali_kernel()->copy(a->sent, grad, a->count);
    a->sent[a->count] = 1;
}

/* The sum is there. */
static void finish(const parts *a, bool whole, float *grad)
{
    for (size_t i = 0; i < a->count; i++) {
        const float before = a->beta * a->momentum[i];
        grad[i] = whole ? a->sent[i] : (a->sent[i] - before) / a->fresh;
        a->momentum[i] = whole ? before + a->fresh * a->sent[i] : a->sent[i];
    }
}

static void finish_meeting(const parts *a, uint64_t steps, float *grad)
{
    for (size_t i = 0; i < a->count; i++)
        grad[i] = a->momentum[i] = a->sent[i] / (float)steps;
}

static bool travels_whole(const onebit_params *p, uint64_t step)
{
    const uint64_t kappa = (uint64_t)p->kappa;
    return step < (uint64_t)p->warmup &&
           shoali_renewals(step + 1, kappa) > shoali_renewals(step, kappa);
}

static const shoal_round signs = {.codec = "sign:block=256,ef=off", .slots = true};

static void begin(const parts *a, bool whole, float *grad, shoal_round *round_out)
{
    *round_out = whole ? (shoal_round){.count = a->count + 1} : signs;
    round_out->buf = a->sent;
    if (whole) {
        take_whole(a, grad);
        return;
    }
    take_in(a, grad);
    take_signs(a);
    round_out->count = a->count;
}

/* steps: since the last meeting; 0: this is none. */
static void begin_apart(const parts *a, uint64_t steps, float *grad, shoal_round *round_out)
{
    take_in_own(a, grad);
    *round_out = (shoal_round){.last = true};
    if (steps == 0)
        return;
    take_signs(a);
    *round_out = signs;
    round_out->buf = a->sent;
    round_out->count = a->count;
}

static shoal_status next_round(const void *params, void *state, const shoal_tensor *tensors,
                               uint32_t tensor_count, uint32_t index, float *grad,
                               shoal_round *round_out)
{
    const onebit_params *p = params;
    const parts a = parts_of(p, state, count_of(tensors, tensor_count));
    const uint64_t step = (uint64_t)*a.steps, warmup = (uint64_t)p->warmup;
    const bool apart = p->local > 1 && step >= warmup, whole = travels_whole(p, step);
    const uint64_t steps = apart ? shoali_local_run(step - warmup, (uint64_t)p->local,
                                                    (uint64_t)p->doubling)
                                 : 0;
    if (apart && step == TIMES - 1)
        return shoali_fail(SHOAL_EINVAL, "onebit:local counts no more than %d steps", TIMES - 1);
    const bool ends = index > 0 || (apart && steps == 0) || a.count == 0;
    if (index == 0)
        *a.members = (float)round_out->members;
    *round_out = (shoal_round){.last = true};
    if (a.count > 0 && index == 0 && apart)
        begin_apart(&a, steps, grad, round_out);
    else if (a.count > 0 && index == 0)
        begin(&a, whole, grad, round_out);
    else if (a.count > 0 && apart)
        finish_meeting(&a, steps, grad);
    else if (a.count > 0)
        finish(&a, whole, grad);
    if (ends)
        *a.steps = *a.steps < TIMES - 1 ? *a.steps + 1 : TIMES - 1;
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ members that count alike */

/* Members that have taken the same steps have the same M, bit for bit: sums are. Apart, each has
 * its own. */
static void look(const void *params, void *state, const shoal_tensor *tensors,
                 uint32_t tensor_count, float view_out[SHOALI_STEPS_VIEW])
{
    const onebit_params *p = params;
    const parts a = parts_of(params, state, count_of(tensors, tensor_count));
    view_out[0] = *a.steps;
    float some[LOOKED_AT];
    for (size_t i = 0; i < LOOKED_AT; i++)
        some[i] = a.count > 0 ? a.momentum[i * (a.count - 1) / (LOOKED_AT - 1)] : 0;
    const bool apart = p->local > 1 && *a.steps >= (float)p->warmup;
    view_out[1] = apart ? 0 : (float)(shoali_hash(some, sizeof some, 0) % TIMES);
}

/* Adam has a momentum of its own. M is the part of it that later bits refer to: from nothing they
 * bring what a step adds, and refer to more from step to step. */
static void go_on(const void *params, void *state, const shoal_tensor *tensors,
                  uint32_t tensor_count, uint64_t steps, bool anew)
{
    const parts a = parts_of(params, state, count_of(tensors, tensor_count));
    *a.steps = (float)steps;
    if (anew)
        memset(a.momentum, 0, a.count * sizeof(float));
}

static void failed(const void *params, void *state, const shoal_tensor *tensors,
                   uint32_t tensor_count)
{
    const parts a = parts_of(params, state, count_of(tensors, tensor_count));
    memset(a.residual, 0, a.count * sizeof(float));
}

static const shoali_codec_steps steps_of = {.look = look, .go_on = go_on, .failed = failed};

const shoali_codec_row shoali_codec_onebit = {
    .name = "onebit",
    .paper = "Tang et al., \"1-bit Adam: Communication Efficient Large-Scale Training with Adam's "
             "Convergence Speed\", ICML 2021; a scale per 256 elements, members' bits go to all, "
             "so that the mean is not rounded again",
    .traits = SHOAL_CODEC_TRANSFORM | SHOAL_CODEC_GATHERS,
    .bytes_per_elem = 0.1406F,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(onebit_params)},
    .more_traits = more_traits,
    .check = check,
    .wire_id = wire_id,
    .state_size = state_size,
    .next_round = next_round,
    .steps = &steps_of,
};
