/* SPDX-License-Identifier: Apache-2.0 */
#include "nn/masked.h"

#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "model/layer_keys.h"
#include "nn/exec.h"

extern const shoali_layer_row shoali_layer_masked;
extern const shoali_exec shoali_exec_masked;

/* Behind what only planners see, it is only described. */
static shoal_status infer(shoal_model *model, shoali_layer *layer)
{
    const shoali_masked_params *p = layer->params;
    const shoal_shape in = model->input;
    layer->described = layer->in.channels != 1;
    layer->out = layer->in;
    if (in.channels != 1 || in.width != 1 || (!layer->described && layer->in.height != in.height))
        return shoali_fail(SHOAL_EINVAL, "an input of %u x %u x %u has no tokens to hide",
                           in.channels, in.height, in.width);
    if (p->mask >= (layer->described ? layer->in.channels : layer->in.width))
        return shoali_fail(SHOAL_EINVAL, "token %lld, which is to hide others, is none of %u",
                           (long long)p->mask,
                           layer->described ? layer->in.channels : layer->in.width);
    return SHOAL_OK;
}

static const shoali_key keys[] = {
    SHOALI_LAYER_INT(shoali_masked_params, mask, -1, 1 << 24, "-1",
                     "token that hides others; -1: the last of the vocabulary"),
    {"rate", SHOALI_KEY_FLOAT, offsetof(shoali_masked_params, rate), 0, 1, NULL, "0.15",
     "share of the tokens that are asked for"},
};
const shoali_layer_row shoali_layer_masked = {
    .name = "masked",
    .help = "train to tell tokens that are hidden from the net (BERT)",
    .traits = SHOALI_LAYER_ALIAS | SHOALI_LAYER_FRAMES | SHOALI_LAYER_MASKED,
    .schema = {keys, 2, sizeof(shoali_masked_params)},
    .infer = infer,
};

const shoali_exec shoali_exec_masked = {0};

/* ---------------------------------------------------------------- which */

enum { TOKENS_MOST = 1 << 24 }; /* a float holds each */

static bool is_token(float x)
{
    return x >= 0 && x < (float)TOKENS_MOST;
}

/* bits[1] of 2^32: 80 % the mask, 10 % any token, 10 % as it was. The segment stays. */
static float in_place_of(const shoali_layer *layer, float x, const uint32_t bits[4])
{
    const shoali_masked_params *p = layer->params;
    const uint64_t classes = layer->in.width, segment = (uint64_t)x / classes * classes;
    const uint64_t mask = p->mask < 0 ? classes - 1 : (uint64_t)p->mask;
    const double part = bits[1] * 0x1p-32;
    if (part < 0.8)
        return (float)(segment + mask);
    return part < 0.9 ? (float)(segment + ((bits[2] * classes) >> 32)) : x;
}

/* The k-th token of a sample is asked for, whatever was drawn. */
static uint32_t token_at(const float *x, uint32_t frames, uint32_t k)
{
    uint32_t t = 0;
    for (; t < frames; t++)
        if (is_token(x[t]) && k-- == 0)
            break;
    return t;
}

static void ask(const shoali_layer *layer, const float *x, uint32_t t, const uint32_t bits[4],
                float *hidden, uint32_t *labels)
{
    labels[t] = (uint32_t)((uint64_t)x[t] % layer->in.width);
    hidden[t] = in_place_of(layer, x[t], bits);
}

void shoali_mask(const shoali_layer *layer, const float *x, uint32_t frames, uint64_t seed,
                 uint64_t stream, float *hidden, uint32_t *labels)
{
    const shoali_masked_params *p = layer->params;
    uint32_t tokens = 0, asked = 0, bits[4];
    for (uint32_t t = 0; t < frames; t++) {
        hidden[t] = x[t];
        labels[t] = SHOALI_NOT_ASKED;
        if (!is_token(x[t]))
            continue;
        tokens++;
        shoali_philox(seed, stream, t, bits);
        if (bits[0] * 0x1p-32 >= p->rate)
            continue;
        ask(layer, x, t, bits, hidden, labels);
        asked++;
    }
    if (asked > 0 || tokens == 0)
        return;
    shoali_philox(seed, stream, frames, bits);
    ask(layer, x, token_at(x, frames, bits[0] % tokens), bits, hidden, labels);
}

uint64_t shoali_mask_stream(const shoali_layer *layer, const shoali_batch *batch, uint32_t n,
                            bool training)
{
    const uint64_t key = shoali_hash(layer->name, strlen(layer->name), 0);
    const uint32_t frames = layer->in.height;
    const float *x = batch->x + (size_t)n * frames;
    return training ? shoali_mix(key, batch->first_serial + n)
                    : shoali_hash(x, frames * sizeof *x, key);
}

void shoali_mask_batch(const shoali_layer *layer, const shoali_batch *batch, bool training,
                       uint64_t seed, float *hidden, uint32_t *asked)
{
    const uint32_t frames = layer->in.height;
    for (uint32_t n = 0; n < batch->count; n++, hidden += frames, asked += frames) {
        const uint32_t length = batch->lengths != NULL ? batch->lengths[n] : frames;
        shoali_mask(layer, batch->x + (size_t)n * frames, length, training ? seed : 0,
                    shoali_mask_stream(layer, batch, n, training), hidden, asked);
        for (uint32_t t = length; t < frames; t++) {
            hidden[t] = 0;
            asked[t] = SHOALI_NOT_ASKED;
        }
    }
}

/* ---------------------------------------------------------------- loss */

void shoali_masked_loss(const shoali_layer *layer, const float *scores, const uint32_t *labels,
                        const shoali_batch *batch, double smoothing, float *dscores,
                        shoali_loss *loss)
{
    const uint32_t frames = layer->in.height, classes = layer->in.width;
    for (uint32_t n = 0; n < batch->count; n++, labels += frames) {
        uint32_t asked = 0;
        for (uint32_t t = 0; t < frames; t++)
            asked += labels[t] != SHOALI_NOT_ASKED;
        loss->labels += asked;
        for (uint32_t t = 0; t < frames; t++, scores += classes) {
            float *slope = dscores != NULL ? dscores + ((size_t)n * frames + t) * classes : NULL;
            double sum;
            uint32_t correct;
            if (slope != NULL)
                memset(slope, 0, classes * sizeof *slope);
            if (labels[t] == SHOALI_NOT_ASKED)
                continue;
            shoali_softmax_loss(scores, &labels[t], 1, classes, smoothing,
                                batch->weight / (float)batch->count / (float)asked, slope, &sum,
                                &correct);
            loss->sum += sum / asked;
            loss->correct += correct;
        }
    }
}
