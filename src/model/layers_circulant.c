/* SPDX-License-Identifier: Apache-2.0 */
/* Block-circulant kinds (Ding et al., "CirCNN", MICRO 2017; docs/circulant.md): dense and conv with
 * `block` times fewer weights. Weights are drawn as the dense layer's: every output still sums as
 * many terms as it has inputs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/layer_keys.h"
#include "model/model_text.h"

#define KEY_CONV(field, low, high, usual, text)                                                \
    {                                                                                          \
#field, SHOALI_KEY_INT, offsetof(shoali_circulant_conv_params, conv.field), low, high, \
            NULL, usual, text                                                                  \
    }
#define BLOCK_HELP "side of a circulant block, 1 .. 1024; powers of two are fast"

static shoal_status declare(shoal_model *model, shoali_layer *layer, const shoali_param *weight,
                            uint64_t rows, uint64_t cols, bool bias)
{
    const shoali_param start = {.role = "bias", .fill = SHOALI_FILL_ZERO};
    SHOALI_TRY(shoali_layer_tensor(model, layer, weight, rows, cols, 0));
    if (!bias)
        return SHOAL_OK;
    return shoali_layer_tensor(model, layer, &start, layer->out.channels, 0, SHOAL_TENSOR_BIAS);
}

static uint64_t blocks_of(uint64_t side, int64_t block)
{
    return (side + (uint64_t)block - 1) / (uint64_t)block;
}

/* ---------------------------------------------------------------- dense */

/* Per pair of blocks: complex products in all bins but one or two, which are real. */
static double product_flops(int64_t k)
{
    return 8.0 * (double)((k + 1) / 2 - 1) + (k % 2 == 0 ? 4.0 : 2.0);
}

/* Weight is float32[p][q][block], first column. Any input shape is taken as a vector. */
static shoal_status infer_circulant(shoal_model *model, shoali_layer *layer)
{
    const shoali_circulant_params *p = layer->params;
    const uint64_t in = shoali_shape_elems(layer->in), out = (uint64_t)p->out;
    if (in > 1 << 24)
        return shoali_fail(SHOAL_EINVAL, "an input of %llu values is too large",
                           (unsigned long long)in);
    const uint64_t rows = blocks_of(out, p->block), cols = blocks_of(in, p->block);
    const shoali_param weight = {.role = "weight",
                                 .fill = SHOALI_FILL_BALANCED,
                                 .fan_in = (uint32_t)in,
                                 .fan_out = (uint32_t)out,
                                 .block = (uint32_t)p->block};
    const double k = (double)p->block, transform = 2.5 * k * log2(k);
    layer->out = (shoal_shape){(uint32_t)out, 1, 1};
    layer->forward_flops = (double)rows * (double)cols * product_flops(p->block) +
                           (double)(rows + cols) * transform;
    layer->weight_flops = layer->input_flops = layer->forward_flops;
    return declare(model, layer, &weight, rows, cols * (uint64_t)p->block, p->bias);
}

static const shoali_key circulant_keys[] = {
    SHOALI_LAYER_INT(shoali_circulant_params, out, 1, 1 << 24, "10", "outputs"),
    SHOALI_LAYER_INT(shoali_circulant_params, block, 1, 1024, "8", BLOCK_HELP),
    {"bias", SHOALI_KEY_FLAG, offsetof(shoali_circulant_params, bias), 0, 0, NULL, "on",
     "add a learned bias"},
};
const shoali_layer_row shoali_layer_circulant = {
    .name = "circulant",
    .help = "dense with a block-circulant matrix: block times fewer weights and less work",
    .schema = {circulant_keys, 3, sizeof(shoali_circulant_params)},
    .infer = infer_circulant,
};

/* ---------------------------------------------------------------- conv */

static uint32_t places(uint32_t side, const shoali_conv_params *p)
{
    int64_t room = (int64_t)side + 2 * p->pad - p->kernel;
    return room < 0 ? 0 : (uint32_t)(room / p->stride + 1);
}

/* Blocks that are no power of two run as the dense convolution that they stand for. */
static double conv_flops(const shoali_layer *layer, const shoali_circulant_conv_params *p)
{
    const double taps = (double)(p->conv.kernel * p->conv.kernel), k = (double)p->block;
    const double in = layer->in.channels, out = (double)p->conv.out;
    const double places = (double)layer->out.height * layer->out.width;
    if ((p->block & (p->block - 1)) != 0)
        return 2 * taps * in * out * places;
    const double rows = (double)blocks_of((uint64_t)p->conv.out, p->block);
    const double cols = (double)blocks_of(layer->in.channels, p->block);
    const double pixels = (double)layer->in.height * layer->in.width;
    return taps * rows * cols * product_flops(p->block) * places +
           2.5 * k * log2(k) * (cols * pixels + rows * places);
}

/* Weight is float32[kernel * kernel][p][q][block]: for each tap a block-circulant matrix over the
 * channels. */
static shoal_status infer_circulant_conv(shoal_model *model, shoali_layer *layer)
{
    const shoali_circulant_conv_params *p = layer->params;
    const shoali_conv_params *c = &p->conv;
    const uint32_t height = places(layer->in.height, c), width = places(layer->in.width, c);
    if (height == 0 || width == 0 || c->pad >= c->kernel)
        return shoali_fail(SHOAL_EINVAL, "a kernel of %d does not fit into %u x %u padded by %d",
                           (int)c->kernel, layer->in.height, layer->in.width, (int)c->pad);
    if (p->block > layer->in.channels || p->block > c->out)
        return shoali_fail(SHOAL_EINVAL,
                           "blocks of %d in a convolution of %u to %d channels; take a smaller "
                           "block or the kind conv",
                           (int)p->block, layer->in.channels, (int)c->out);
    const uint64_t taps = (uint64_t)(c->kernel * c->kernel), fan_in = taps * layer->in.channels;
    if (fan_in * (uint64_t)c->out > SHOALI_MODEL_ELEMS_MAX)
        return shoali_fail(SHOAL_EINVAL, "a window of %llu values is too large",
                           (unsigned long long)fan_in);
    const shoali_param weight = {.role = "weight",
                                 .fill = SHOALI_FILL_BALANCED,
                                 .fan_in = (uint32_t)fan_in,
                                 .fan_out = (uint32_t)(taps * (uint64_t)c->out),
                                 .block = (uint32_t)p->block};
    layer->out = (shoal_shape){(uint32_t)c->out, height, width};
    layer->forward_flops = conv_flops(layer, p);
    layer->weight_flops = layer->input_flops = layer->forward_flops;
    return declare(model, layer, &weight, taps * blocks_of((uint64_t)c->out, p->block),
                   blocks_of(layer->in.channels, p->block) * (uint64_t)p->block, c->bias);
}

static const shoali_key circulant_conv_keys[] = {
    KEY_CONV(out, 1, 65536, "8", "output channels"),
    KEY_CONV(kernel, 1, 255, "3", "side of the square window, pixels"),
    KEY_CONV(stride, 1, 255, "1", "step of the window, pixels"),
    KEY_CONV(pad, 0, 254, "0", "zeros around the image, pixels"),
    SHOALI_LAYER_INT(shoali_circulant_conv_params, block, 1, 1024, "4",
                     "side of a circulant block of channels"),
    {"bias", SHOALI_KEY_FLAG, offsetof(shoali_circulant_conv_params, conv.bias), 0, 0, NULL, "on",
     "add a learned bias"},
};
const shoali_layer_row shoali_layer_circulant_conv = {
    .name = "circulant_conv",
    .probe = "circulant_conv:out=4,kernel=3,block=2",
    .help = "2-D convolution, block-circulant over the channels of each tap: block times fewer "
            "weights",
    .schema = {circulant_conv_keys, 6, sizeof(shoali_circulant_conv_params)},
    .infer = infer_circulant_conv,
};

/* ---------------------------------------------------------------- in place of others */

static bool starts(const char *spec, const char *kind)
{
    size_t len = strlen(kind);
    return strncmp(spec, kind, len) == 0 && (spec[len] == ':' || spec[len] == '\0');
}

/* The keys of a layer spec, with the comma in front. */
static void replace(char *spec_out, const char *kind, int64_t block, const char *spec)
{
    const char *keys = strchr(spec, ':');
    snprintf(spec_out, SHOALI_LAYER_SPEC_MAX, "%s:block=%d%s%s", kind, (int)block,
             keys != NULL ? "," : "", keys != NULL ? keys + 1 : "");
}

static bool any_later(const shoali_model_text *text, uint32_t index, const char *kind)
{
    for (uint32_t i = index + 1; i < text->layer_count; i++)
        if (starts(text->layers[i], kind))
            return true;
    return false;
}

static bool any_before(const shoali_model_text *text, uint32_t index, const char *kind)
{
    for (uint32_t i = 0; i < index; i++)
        if (starts(text->layers[i], kind))
            return true;
    return false;
}

/* One key of cells, if it is asked for and they have such a matrix. */
static void add_key(char *spec, const char *key, int64_t block)
{
    size_t len = strlen(spec);
    if (block > 0)
        snprintf(spec + len, SHOALI_LAYER_SPEC_MAX - len, "%c%s=%d",
                 strchr(spec, ':') != NULL ? ',' : ':', key, (int)block);
}

static bool circulate_cells(const char *spec, const shoali_blocks *b, char *spec_out)
{
    bool lstm = starts(spec, "lstm"), framewise = starts(spec, "framewise");
    if ((!lstm && !framewise && !starts(spec, "gru")) || strstr(spec, ":k") != NULL ||
        strstr(spec, ",k") != NULL)
        return false;
    snprintf(spec_out, SHOALI_LAYER_SPEC_MAX, "%s", spec);
    add_key(spec_out, "k", framewise ? b->y : b->all);
    if (framewise)
        return b->y > 1;
    add_key(spec_out, "kx", b->x);
    add_key(spec_out, "kr", b->r);
    if (lstm && strstr(spec, "proj=") != NULL)
        add_key(spec_out, "ky", b->y);
    return strcmp(spec, spec_out) != 0;
}

bool shoali_layer_circulate(const shoali_model_text *text, uint32_t index,
                            const shoali_blocks *blocks, char *spec_out)
{
    const char *spec = text->layers[index];
    bool dense = blocks->all > 1 && starts(spec, "dense") && any_later(text, index, "dense");
    bool conv = blocks->conv > 1 && starts(spec, "conv") && any_before(text, index, "conv") &&
                strstr(spec, "groups=") == NULL;
    if (dense)
        replace(spec_out, "circulant", blocks->all, spec);
    if (conv)
        replace(spec_out, "circulant_conv", blocks->conv, spec);
    return dense || conv || circulate_cells(spec, blocks, spec_out);
}
