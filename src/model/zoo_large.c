/* SPDX-License-Identifier: Apache-2.0 */
/* Published networks for planners, most of them made by rule. Sizes are those of their papers; the
 * parameter counts in tests/unit/model/zoo_large_test.c are published, too. Biases are as in the
 * originals; HyPar counts none, and its own four networks have none here. */
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "model/model_text.h"

void shoali_layer_list_add(shoali_layer_list *list, const char *format, ...)
{
    char text[SHOALI_LAYER_SPEC_MAX];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (list->layers == NULL) {
        list->capacity = SHOALI_MODEL_LAYERS_MAX;
        list->layers = shoali_arena_array(list->arena, list->capacity, sizeof *list->layers);
    }
    char *kept = list->layers != NULL ? shoali_arena_strdup(list->arena, text) : NULL;
    if (kept == NULL || list->count == list->capacity || length >= (int)sizeof text)
        list->failed = true;
    else
        list->layers[list->count++] = kept;
}

shoal_status shoali_layer_list_end(const shoali_layer_list *list, shoali_model_text *text)
{
    if (list->failed)
        return shoali_fail(SHOAL_ENOMEM, "no memory for the layers of a model, or more than %d",
                           SHOALI_MODEL_LAYERS_MAX);
    text->layers = list->layers;
    text->layer_count = list->count;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- VGG */

/* Simonyan, Zisserman, ICLR 2015, table 1. Per block: how many 3x3 convolutions; C ends its last
 * three blocks with a 1x1. */
static void make_vgg(shoali_layer_list *list, int variant)
{
    static const int convs[5][5] = {
        {1, 1, 2, 2, 2}, {2, 2, 2, 2, 2}, {2, 2, 2, 2, 2}, {2, 2, 3, 3, 3}, {2, 2, 4, 4, 4}};
    static const int channels[5] = {64, 128, 256, 512, 512};
    for (int block = 0; block < 5; block++) {
        for (int i = 0; i < convs[variant][block]; i++) {
            shoali_layer_list_add(list, "conv:out=%d,kernel=3,pad=1", channels[block]);
            shoali_layer_list_add(list, "relu");
        }
        if (variant == 2 && block >= 2) {
            shoali_layer_list_add(list, "conv:out=%d,kernel=1", channels[block]);
            shoali_layer_list_add(list, "relu");
        }
        shoali_layer_list_add(list, "maxpool");
    }
    shoali_layer_list_add(list, "flatten");
    for (int i = 0; i < 2; i++) {
        shoali_layer_list_add(list, "dense:out=4096");
        shoali_layer_list_add(list, "relu");
    }
    shoali_layer_list_add(list, "dense:out=1000");
}

/* ---------------------------------------------------------------- ResNet */

static void conv_norm(shoali_layer_list *list, int out, int kernel, int stride, int pad)
{
    shoali_layer_list_add(list, "conv:out=%d,kernel=%d,stride=%d,pad=%d,bias=off", out, kernel,
                          stride, pad);
    shoali_layer_list_add(list, "batchnorm");
}

/* A bottleneck: 1x1, 3x3 (with the stride), 1x1, beside the input or, where shapes change, beside a
 * 1x1 of it. */
static void make_bottleneck(shoali_layer_list *list, int width, int stride, bool changes)
{
    conv_norm(list, width, 1, 1, 0);
    shoali_layer_list_add(list, "relu");
    conv_norm(list, width, 3, stride, 1);
    shoali_layer_list_add(list, "relu");
    conv_norm(list, 4 * width, 1, 1, 0);
    if (changes) {
        shoali_layer_list_add(list, "branch:back=9");
        conv_norm(list, 4 * width, 1, stride, 0);
        shoali_layer_list_add(list, "add:back=4");
    } else {
        shoali_layer_list_add(list, "add:back=9");
    }
    shoali_layer_list_add(list, "relu");
}

/* Two 3x3 convolutions, the first with the stride, beside the input or, where shapes change, beside
 * a 1x1 of it (the paper's option B; its CIFAR nets pad with zeros instead, option A). */
static void make_plain_block(shoali_layer_list *list, int width, int stride)
{
    conv_norm(list, width, 3, stride, 1);
    shoali_layer_list_add(list, "relu");
    conv_norm(list, width, 3, 1, 1);
    if (stride > 1) {
        shoali_layer_list_add(list, "branch:back=6");
        conv_norm(list, width, 1, stride, 0);
        shoali_layer_list_add(list, "add:back=4");
    } else {
        shoali_layer_list_add(list, "add:back=6");
    }
    shoali_layer_list_add(list, "relu");
}

/* For 32 x 32. variant 8: section 4.2 with n = 1; 18: table 1's net behind a 3x3 without a pool, as
 * is common for CIFAR. */
static void make_small_resnet(shoali_layer_list *list, int variant)
{
    const int width = variant == 8 ? 16 : 64, stages = variant == 8 ? 3 : 4;
    const int blocks = variant == 8 ? 1 : 2;
    conv_norm(list, width, 3, 1, 1);
    shoali_layer_list_add(list, "relu");
    for (int stage = 0; stage < stages; stage++)
        for (int i = 0; i < blocks; i++)
            make_plain_block(list, width << stage, i == 0 && stage > 0 ? 2 : 1);
    shoali_layer_list_add(list, "avgpool:kernel=%d", 32 >> (stages - 1));
    shoali_layer_list_add(list, "flatten");
    shoali_layer_list_add(list, "dense:out=10");
}

/* He, Zhang, Ren, Sun, CVPR 2016, table 1; stride in the 3x3, as frameworks have it. */
static void make_resnet(shoali_layer_list *list, int variant)
{
    static const int blocks[2][4] = {{3, 4, 6, 3}, {3, 8, 36, 3}};
    conv_norm(list, 64, 7, 2, 3);
    shoali_layer_list_add(list, "relu");
    shoali_layer_list_add(list, "maxpool:kernel=3,stride=2,pad=1");
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < blocks[variant][stage]; i++)
            make_bottleneck(list, 64 << stage, i == 0 && stage > 0 ? 2 : 1, i == 0);
    shoali_layer_list_add(list, "avgpool:kernel=7");
    shoali_layer_list_add(list, "flatten");
    shoali_layer_list_add(list, "dense:out=1000");
}

/* ---------------------------------------------------------------- GoogLeNet */

static void conv_relu(shoali_layer_list *list, int out, int kernel, int pad)
{
    shoali_layer_list_add(list, "conv:out=%d,kernel=%d,pad=%d", out, kernel, pad);
    shoali_layer_list_add(list, "relu");
}

/* Four ways from one input: 1x1; 1x1, 3x3; 1x1, 5x5; pool, 1x1. */
static void make_inception(shoali_layer_list *list, const int out[6])
{
    conv_relu(list, out[0], 1, 0);
    shoali_layer_list_add(list, "branch:back=3");
    conv_relu(list, out[1], 1, 0);
    conv_relu(list, out[2], 3, 1);
    shoali_layer_list_add(list, "branch:back=8");
    conv_relu(list, out[3], 1, 0);
    conv_relu(list, out[4], 5, 2);
    shoali_layer_list_add(list, "branch:back=13");
    shoali_layer_list_add(list, "maxpool:kernel=3,stride=1,pad=1");
    conv_relu(list, out[5], 1, 0);
    shoali_layer_list_add(list, "concat:back=15/10/5");
}

/* Szegedy et al., CVPR 2015, table 1, without the two auxiliary classifiers. */
static void make_googlenet(shoali_layer_list *list, int variant)
{
    static const int inceptions[9][6] = {
        {64, 96, 128, 16, 32, 32},     {128, 128, 192, 32, 96, 64},
        {192, 96, 208, 16, 48, 64},    {160, 112, 224, 24, 64, 64},
        {128, 128, 256, 24, 64, 64},   {112, 144, 288, 32, 64, 64},
        {256, 160, 320, 32, 128, 128}, {256, 160, 320, 32, 128, 128},
        {384, 192, 384, 48, 128, 128}};
    (void)variant;
    shoali_layer_list_add(list, "conv:out=64,kernel=7,stride=2,pad=3");
    shoali_layer_list_add(list, "relu");
    shoali_layer_list_add(list, "maxpool:kernel=3,stride=2,ceil");
    shoali_layer_list_add(list, "lrn");
    conv_relu(list, 64, 1, 0);
    conv_relu(list, 192, 3, 1);
    shoali_layer_list_add(list, "lrn");
    shoali_layer_list_add(list, "maxpool:kernel=3,stride=2,ceil");
    for (int i = 0; i < 9; i++) {
        make_inception(list, inceptions[i]);
        if (i == 1 || i == 6)
            shoali_layer_list_add(list, "maxpool:kernel=3,stride=2,ceil");
    }
    shoali_layer_list_add(list, "avgpool:kernel=7");
    shoali_layer_list_add(list, "dropout:rate=0.4");
    shoali_layer_list_add(list, "flatten");
    shoali_layer_list_add(list, "dense:out=1000");
}

/* ---------------------------------------------------------------- language models */

/* Width, blocks, heads, vocabulary, positions. msft-1t's width is the one of LIBRA's workload, from
 * which its volumes follow (25600 elsewhere). */
static const struct {
    int width, blocks, heads, vocab, positions;
} language[] = {
    {12288, 96, 96, 50257, 2048},   /* GPT-3: Brown et al., 2020 */
    {4256, 78, 28, 50257, 1024},    /* Turing-NLG */
    {24576, 128, 128, 51200, 2048}, /* MSFT-1T */
    {6144, 48, 64, 51200, 2048},    /* Megatron: Korthikanti et al., 2022, table 3 */
    {12288, 96, 96, 51200, 2048},   {20480, 105, 128, 51200, 2048}, {25600, 128, 160, 51200, 2048},
};

static void make_language(shoali_layer_list *list, int variant)
{
    shoali_layer_list_add(list, "embedding:vocab=%d,width=%d,positions=%d", language[variant].vocab,
                          language[variant].width, language[variant].positions);
    for (int i = 0; i < language[variant].blocks; i++)
        shoali_layer_list_add(list, "transformer:heads=%d,ff=%d", language[variant].heads,
                              4 * language[variant].width);
    shoali_layer_list_add(list, "unembedding:vocab=%d,norm=2", language[variant].vocab);
}

/* LLaMA's block (Touvron et al., 2023), small: 4 blocks of 128, two pairs of keys and values for
 * four heads; bytes and the end of a text. */
static void make_llama_nano(shoali_layer_list *list, int variant)
{
    (void)variant;
    shoali_layer_list_add(list, "embedding:vocab=257,width=128");
    for (int i = 0; i < 4; i++)
        shoali_layer_list_add(list, "transformer:heads=4,kv=2,ff=344,gated,bias=off");
    shoali_layer_list_add(list, "unembedding:vocab=257,norm=1,tied=off");
}

/* GPT-2's block (Radford et al., 2019): gpt2 is its smallest, 124439808 parameters; nano and mini
 * read bytes and the end of a text. */
static void make_gpt(shoali_layer_list *list, int variant)
{
    static const struct {
        int vocab, width, blocks, heads, positions;
    } sizes[] = {{50257, 768, 12, 12, 1024}, {257, 128, 4, 4, 128}, {257, 384, 6, 6, 256}};
    shoali_layer_list_add(list, "embedding:vocab=%d,width=%d,positions=%d", sizes[variant].vocab,
                          sizes[variant].width, sizes[variant].positions);
    for (int i = 0; i < sizes[variant].blocks; i++)
        shoali_layer_list_add(list, "transformer:heads=%d,ff=%d", sizes[variant].heads,
                              4 * sizes[variant].width);
    shoali_layer_list_add(list, "unembedding:vocab=%d,norm=2", sizes[variant].vocab);
}

/* BERT (Devlin et al., NAACL 2019) as it is pretrained, without the second sentence's guess. With
 * head=pooler, parameters are the published ones: base 109482240, mini (Turc et al., 2019)
 * 11170560. */
static void make_bert(shoali_layer_list *list, int variant)
{
    static const struct {
        int width, blocks, heads;
    } sizes[] = {{768, 12, 12}, {256, 4, 4}};
    shoali_layer_list_add(list,
                          "embedding:vocab=30522,width=%d,positions=512,types=2,norm,eps=1e-12",
                          sizes[variant].width);
    for (int i = 0; i < sizes[variant].blocks; i++)
        shoali_layer_list_add(list, "transformer:heads=%d,ff=%d,encoder,eps=1e-12",
                              sizes[variant].heads, 4 * sizes[variant].width);
    shoali_layer_list_add(list, "unembedding:vocab=30522,transform,norm=2,bias,eps=1e-12");
    shoali_layer_list_add(list, "masked");
}

#define IMAGENET    \
    {               \
        3, 224, 224 \
    }
#define CIFAR     \
    {             \
        3, 32, 32 \
    }
#define ROW(label, text_help, shape, maker, which)                                       \
    {                                                                                    \
        .text = {.name = (label), .help = (text_help), .input = shape}, .make = (maker), \
        .variant = (which)                                                               \
    }
#define TOKENS(count) \
    {                 \
        1, count, 1   \
    }
#define LANGUAGE(label, text_help, length, maker, which) \
    {                                                    \
        .text = {.name = (label),                        \
                 .help = (text_help),                    \
                 .input = TOKENS(length),                \
                 .init = SHOALI_INIT_XAVIER,             \
                 .parts = true},                         \
        .make = (maker), .variant = (which)              \
    }
const shoali_zoo_row shoali_zoo_large[] = {
    ROW("vgg-a", "VGG-11; 224 x 224", IMAGENET, make_vgg, 0),
    ROW("vgg-b", "VGG-13", IMAGENET, make_vgg, 1),
    ROW("vgg-c", "VGG-16 with 1x1 convolutions", IMAGENET, make_vgg, 2),
    ROW("vgg-d", "VGG-16", IMAGENET, make_vgg, 3),
    ROW("vgg-e", "VGG-19", IMAGENET, make_vgg, 4),
    ROW("googlenet", "GoogLeNet; 224 x 224", IMAGENET, make_googlenet, 0),
    ROW("resnet-8", "ResNet of 8 layers; 32 x 32", CIFAR, make_small_resnet, 8),
    ROW("resnet-18", "ResNet-18; 32 x 32", CIFAR, make_small_resnet, 18),
    ROW("resnet-50", "ResNet-50; 224 x 224", IMAGENET, make_resnet, 0),
    ROW("resnet-152", "ResNet-152; 224 x 224", IMAGENET, make_resnet, 1),
    {.text = {.name = "llama-nano",
              .help = "4 blocks of 128 as LLaMA's, 791936 parameters: the next of 257 bytes",
              .input = {1, 128, 1},
              .init = SHOALI_INIT_XAVIER,
              .parts = true},
     .make = make_llama_nano},
    LANGUAGE("gpt2", "GPT-2, 12 blocks of 768, 124439808 parameters: the next of 50257 tokens",
             1024, make_gpt, 0),
    LANGUAGE("gpt-nano", "4 blocks of 128 as GPT-2's, 842624 parameters: the next of 257 bytes",
             128, make_gpt, 1),
    LANGUAGE("gpt-mini", "6 blocks of 384 as GPT-2's, 10844544 parameters: the next of 257 bytes",
             256, make_gpt, 2),
    LANGUAGE("bert-base",
             "BERT, 12 blocks of 768, 109514298 parameters: hidden ones of 30522 tokens", 512,
             make_bert, 0),
    LANGUAGE("bert-mini",
             "4 blocks of 256 as BERT's, 11201594 parameters: hidden ones of 30522 "
             "tokens",
             512, make_bert, 1),
    ROW("gpt-3", "GPT-3, 96 blocks of 12288 (described only)", TOKENS(2048), make_language, 0),
    ROW("turing-nlg", "78 blocks of 4256 (described only)", TOKENS(1024), make_language, 1),
    ROW("msft-1t", "128 blocks of 24576 (described only)", TOKENS(2048), make_language, 2),
    ROW("megatron-22b", "48 blocks of 6144 (described only)", TOKENS(2048), make_language, 3),
    ROW("megatron-175b", "96 blocks of 12288 (described only)", TOKENS(2048), make_language, 4),
    ROW("megatron-530b", "105 blocks of 20480 (described only)", TOKENS(2048), make_language, 5),
    ROW("megatron-1t", "128 blocks of 25600 (described only)", TOKENS(2048), make_language, 6),
};
const size_t shoali_zoo_large_count = sizeof shoali_zoo_large / sizeof shoali_zoo_large[0];
