/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in models. Names are fixed by their sources; every accuracy and speed figure of the
 * project names one. */
#include <string.h>

#include "model/model.h"

#define LAYERS(list) .layers = (list), .layer_count = sizeof(list) / sizeof((list)[0])
#define DIGITS    \
    {             \
        1, 28, 28 \
    }
#define CIFAR     \
    {             \
        3, 32, 32 \
    }

/* INCEPTIONN's HDC: "5 fully connected layers, 500 hidden". */
static const char *const hdc[] = {"flatten", "dense:out=500", "relu", "dense:out=500",
                                  "relu",    "dense:out=500", "relu", "dense:out=500",
                                  "relu",    "dense:out=10"};

/* Caffe's LeNet sizes (also HyPar's Lenet-c and TernGrad's); a relu behind every hidden layer,
 * after its pool, where it costs a quarter and gives the same values. */
static const char *const lenet[] = {"conv:out=20,kernel=5",
                                    "maxpool",
                                    "relu",
                                    "conv:out=50,kernel=5",
                                    "maxpool",
                                    "relu",
                                    "flatten",
                                    "dense:out=500",
                                    "relu",
                                    "dense:out=10"};

/* TernGrad's CifarNet for 24 x 24 crops, without local response normalisation; its SAME pools are
 * ceil here. */
static const char *const cifarnet[] = {"conv:out=64,kernel=5,pad=2",
                                       "relu",
                                       "maxpool:kernel=3,stride=2,ceil",
                                       "conv:out=64,kernel=5,pad=2",
                                       "relu",
                                       "maxpool:kernel=3,stride=2,ceil",
                                       "flatten",
                                       "dense:out=384",
                                       "relu",
                                       "dense:out=192",
                                       "relu",
                                       "dense:out=10"};

static const char *const vgg_mini[] = {"conv:out=64,kernel=3,pad=1",
                                       "relu",
                                       "conv:out=64,kernel=3,pad=1",
                                       "relu",
                                       "maxpool",
                                       "conv:out=128,kernel=3,pad=1",
                                       "relu",
                                       "conv:out=128,kernel=3,pad=1",
                                       "relu",
                                       "maxpool",
                                       "conv:out=256,kernel=3,pad=1",
                                       "relu",
                                       "conv:out=256,kernel=3,pad=1",
                                       "relu",
                                       "maxpool",
                                       "flatten",
                                       "dense:out=10"};

static const char *const alexnet_mini[] = {"conv:out=64,kernel=3,pad=1",
                                           "maxpool",
                                           "relu",
                                           "conv:out=128,kernel=3,pad=1",
                                           "maxpool",
                                           "relu",
                                           "conv:out=256,kernel=3,pad=1",
                                           "maxpool",
                                           "relu",
                                           "flatten",
                                           "dense:out=2048",
                                           "relu",
                                           "dense:out=2048",
                                           "relu",
                                           "dense:out=10"};

static const char *const mlp[] = {"flatten",        "dense:out=1024", "relu",
                                  "dense:out=1024", "relu",           "dense:out=10"};

static const char *const mlp_small[] = {"flatten",       "dense:out=256", "relu",
                                        "dense:out=128", "relu",          "dense:out=10"};

static const char *const cnn[] = {"conv:out=32,kernel=5",
                                  "maxpool",
                                  "relu",
                                  "conv:out=64,kernel=5",
                                  "maxpool",
                                  "relu",
                                  "flatten",
                                  "dense:out=512",
                                  "relu",
                                  "dense:out=10"};

static const shoali_model_text zoo[] = {
    {.name = "lenet",
     .help = "two convolutions, two dense layers; 28 x 28",
     .input = DIGITS,
     LAYERS(lenet)},
    {.name = "hdc", .help = "784-500-500-500-500-10", .input = DIGITS, LAYERS(hdc)},
    {.name = "mlp", .help = "784-1024-1024-10", .input = DIGITS, LAYERS(mlp)},
    {.name = "mlp-small", .help = "784-256-128-10", .input = DIGITS, LAYERS(mlp_small)},
    {.name = "cnn",
     .help = "two wider convolutions, two dense layers; 28 x 28",
     .input = DIGITS,
     LAYERS(cnn)},
    {.name = "cifarnet",
     .help = "TernGrad's CifarNet; 24 x 24 crops",
     .input = {3, 24, 24},
     LAYERS(cifarnet)},
    {.name = "vgg-mini", .help = "six 3x3 convolutions; 32 x 32", .input = CIFAR, LAYERS(vgg_mini)},
    {.name = "alexnet-mini",
     .help = "most parameters in dense layers; 32 x 32",
     .input = CIFAR,
     LAYERS(alexnet_mini)},
};
enum { ZOO_COUNT = sizeof zoo / sizeof zoo[0] };

static const struct {
    const char *alias, *name;
} aliases[] = {{"lenet-c", "lenet"}};

const shoali_model_text *shoali_zoo_at(size_t i)
{
    return i < ZOO_COUNT ? &zoo[i] : NULL;
}

static bool same(const char *name, const char *text, size_t len)
{
    return strlen(name) == len && memcmp(name, text, len) == 0;
}

const shoali_model_text *shoali_zoo_find(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (same(aliases[i].alias, name, len))
            return shoali_zoo_find(aliases[i].name, strlen(aliases[i].name));
    for (size_t i = 0; i < ZOO_COUNT; i++)
        if (same(zoo[i].name, name, len))
            return &zoo[i];
    return NULL;
}

const char *shoal_model_zoo_name(size_t i)
{
    return i < ZOO_COUNT ? zoo[i].name : NULL;
}

const char *shoal_model_zoo_help(size_t i)
{
    return i < ZOO_COUNT ? zoo[i].help : NULL;
}
