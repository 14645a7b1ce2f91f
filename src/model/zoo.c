/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in models. Names are fixed by their sources; every accuracy and speed figure of the
 * project names one. */
#include <string.h>

#include "model/model_text.h"

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

/* HyPar's four own networks (specs/planning.md 1.5), without biases, which it does not count. */
static const char *const sfc[] = {
    "flatten", "dense:out=8192,bias=off", "relu", "dense:out=8192,bias=off",
    "relu",    "dense:out=8192,bias=off", "relu", "dense:out=10,bias=off",
};

static const char *const sconv[] = {
    "conv:out=20,kernel=5,bias=off", "relu", "conv:out=50,kernel=5,bias=off", "maxpool", "relu",
    "conv:out=50,kernel=5,bias=off", "relu", "conv:out=10,kernel=5,bias=off", "maxpool",
};

static const char *const cifar_c[] = {
    "conv:out=32,kernel=5,pad=2,bias=off",
    "maxpool:kernel=3,stride=2,ceil",
    "relu",
    "conv:out=32,kernel=5,pad=2,bias=off",
    "maxpool:kernel=3,stride=2,ceil",
    "relu",
    "conv:out=64,kernel=5,pad=2,bias=off",
    "maxpool:kernel=3,stride=2,ceil",
    "relu",
    "flatten",
    "dense:out=64,bias=off",
    "relu",
    "dense:out=10,bias=off",
};

/* One of AlexNet's two towers: only so do HyPar's totals come out. */
static const char *const alexnet_hypar[] = {
    "conv:out=48,kernel=11,stride=4,bias=off",
    "maxpool:kernel=3,stride=2",
    "relu",
    "conv:out=128,kernel=5,pad=2,bias=off",
    "maxpool:kernel=3,stride=2",
    "relu",
    "conv:out=192,kernel=3,pad=1,bias=off",
    "relu",
    "conv:out=192,kernel=3,pad=1,bias=off",
    "relu",
    "conv:out=128,kernel=3,pad=1,bias=off",
    "maxpool:kernel=3,stride=2",
    "relu",
    "flatten",
    "dense:out=2048,bias=off",
    "relu",
    "dense:out=2048,bias=off",
    "relu",
    "dense:out=1000,bias=off",
};

/* Krizhevsky, Sutskever, Hinton, NIPS 2012: both towers, which meet in conv3 and the dense layers.
 * Its alpha is 1e-4 for each of five channels. Partial windows of pools count as in Caffe: of 227
 * pixels there are none, of fewer there may be. */
static const char *const alexnet[] = {
    "conv:out=96,kernel=11,stride=4",
    "relu",
    "lrn:alpha=5e-4,k=2",
    "maxpool:kernel=3,stride=2,ceil",
    "conv:out=256,kernel=5,pad=2,groups=2",
    "relu",
    "lrn:alpha=5e-4,k=2",
    "maxpool:kernel=3,stride=2,ceil",
    "conv:out=384,kernel=3,pad=1",
    "relu",
    "conv:out=384,kernel=3,pad=1,groups=2",
    "relu",
    "conv:out=256,kernel=3,pad=1,groups=2",
    "relu",
    "maxpool:kernel=3,stride=2,ceil",
    "flatten",
    "dense:out=4096",
    "relu",
    "dropout",
    "dense:out=4096",
    "relu",
    "dropout",
    "dense:out=1000",
};

/* Phonemes of frames: 39 values of 10 ms, 400 frames at most, 40 classes (docs/sequence-models.md).
 */
#define FRAMES     \
    {              \
        1, 400, 39 \
    }
static const char *const lstm_asr[] = {"lstm:out=256,peephole,direction=both", "framewise:out=40"};
static const char *const lstm_asr_uni[] = {"lstm:out=256,peephole", "lstm:out=256,peephole",
                                           "framewise:out=40"};
static const char *const gru_asr[] = {"gru:out=256,direction=both", "framewise:out=40"};
static const char *const gru_asr_uni[] = {"gru:out=256", "gru:out=256", "framewise:out=40"};

/* 256-256-256 as E-RNN (Li et al., HPCA 2019) has it, behind a layer that learns what to do with a
 * frame's values. */
#define ASR_3(cell)                                                                 \
    {                                                                               \
        "dropout:rate=0.1", "framewise:out=512", "relu", "dropout:rate=0.2", cell,  \
            "dropout:rate=0.2", cell, "dropout:rate=0.2", cell, "dropout:rate=0.4", \
            "framewise:out=40"                                                      \
    }
static const char *const lstm_asr_3[] = ASR_3("lstm:out=256,peephole,direction=both");
static const char *const gru_asr_3[] = ASR_3("gru:out=256,direction=both");

/* Sak, Senior, Beaufays, INTERSPEECH 2014, as ESE, C-LSTM and E-RNN measure it: 153 values of a
 * frame, 1024 cells projected to 512, twice. */
static const char *const lstm_google[] = {"lstm:out=1024,proj=512,peephole",
                                          "lstm:out=1024,proj=512,peephole", "framewise:out=62"};

/* The next character of a text of 64 different ones. */
/* An embedding per id and a network on top, as DeepLight's (Deng et al., WSDM 2021) without its
 * factorisation; 26 categorical fields, as Criteo's. 99 % of the parameters are the table's. */
static const char *const recommender[] = {
    "lookup:vocab=262144,width=16", "dense:out=64", "relu", "dense:out=32", "relu", "dense:out=2"};

/* DLRM (Naumov et al., 2019) on categorical fields alone: the first field's vector stands where
 * that of the numeric features would. */
static const char *const dlrm[] = {"lookup:vocab=262144,width=16",
                                   "dots:width=16,keep=1",
                                   "dense:out=512",
                                   "relu",
                                   "dense:out=256",
                                   "relu",
                                   "dense:out=2"};

/* Neural collaborative filtering (He et al., WWW 2017) as MLPerf sizes it for MovieLens-20M, 138493
 * users and 26744 films: a way of dense layers and one of products, each with its own table. */
static const char *const ncf[] = {"lookup:vocab=165237,width=128",
                                  "dense:out=256",
                                  "relu",
                                  "dense:out=128",
                                  "relu",
                                  "dense:out=64",
                                  "relu",
                                  "branch:back=8",
                                  "lookup:vocab=165237,width=64",
                                  "dots:width=64,by=value",
                                  "concat:back=4",
                                  "dense:out=2"};

/* Linear models of samples with few of many features: of text, of genes. */
static const char *const logistic[] = {"sparse"};
static const char *const svm[] = {"sparse", "hinge"};

static const char *const lstm_text[] = {"onehot:classes=64", "lstm:out=512", "framewise:out=64"};

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
    {.name = "sfc", .help = "HyPar's 784-8192-8192-8192-10", .input = DIGITS, LAYERS(sfc)},
    {.name = "sconv", .help = "HyPar's four convolutions; 28 x 28", .input = DIGITS, LAYERS(sconv)},
    {.name = "cifar-c",
     .help = "HyPar's three convolutions, two dense layers; 32 x 32",
     .input = CIFAR,
     LAYERS(cifar_c)},
    {.name = "lstm-asr",
     .help = "phonemes of speech: LSTM of 256 cells in both directions, peepholes",
     .input = FRAMES,
     .init = SHOALI_INIT_XAVIER,
     LAYERS(lstm_asr)},
    {.name = "lstm-asr-uni",
     .help = "the same, two layers in one direction",
     .input = FRAMES,
     .init = SHOALI_INIT_XAVIER,
     LAYERS(lstm_asr_uni)},
    {.name = "gru-asr",
     .help = "phonemes of speech: GRU of 256 cells in both directions",
     .input = FRAMES,
     .init = SHOALI_INIT_XAVIER,
     LAYERS(gru_asr)},
    {.name = "gru-asr-uni",
     .help = "the same, two layers in one direction",
     .input = FRAMES,
     .init = SHOALI_INIT_XAVIER,
     LAYERS(gru_asr_uni)},
    {.name = "lstm-asr-3",
     .help = "phonemes of speech: a learned layer, three LSTMs of 256 cells in both directions",
     .input = FRAMES,
     .init = SHOALI_INIT_XAVIER,
     LAYERS(lstm_asr_3)},
    {.name = "gru-asr-3",
     .help = "the same with GRUs",
     .input = FRAMES,
     .init = SHOALI_INIT_XAVIER,
     LAYERS(gru_asr_3)},
    {.name = "lstm-google",
     .help = "two LSTMs of 1024 cells projected to 512; 153 values a frame",
     .input = {1, 400, 153},
     .init = SHOALI_INIT_XAVIER,
     LAYERS(lstm_google)},
    {.name = "lstm-text",
     .help = "the next of 64 characters: LSTM of 512 cells",
     .input = {1, 128, 1},
     .init = SHOALI_INIT_XAVIER,
     LAYERS(lstm_text)},
    {.name = "recommender",
     .help = "embeddings of 26 fields and a small network: sparse gradients; shoal data clicks",
     .input = {1, 26, 1},
     LAYERS(recommender)},
    {.name = "dlrm",
     .help = "DLRM of 26 fields: embeddings and their products with each other; shoal data clicks",
     .input = {1, 26, 1},
     LAYERS(dlrm)},
    {.name = "ncf",
     .help =
         "neural collaborative filtering of 138493 users and 26744 films; data clicks --fields 2",
     .input = {1, 2, 1},
     LAYERS(ncf)},
    {.name = "logistic",
     .help = "logistic regression on sparse features; shoal data svmlight",
     .input = {1, 1024, 2},
     LAYERS(logistic)},
    {.name = "svm",
     .help = "a linear support vector machine on sparse features; shoal data svmlight",
     .input = {1, 1024, 2},
     LAYERS(svm)},
    {.name = "alexnet-hypar",
     .help = "HyPar's AlexNet: one tower; 227 x 227",
     .input = {3, 227, 227},
     LAYERS(alexnet_hypar)},
    {.name = "alexnet",
     .help = "AlexNet with both towers; 227 x 227",
     .input = {3, 227, 227},
     LAYERS(alexnet)},
};
enum { ZOO_COUNT = sizeof zoo / sizeof zoo[0] };

static const struct {
    const char *alias, *name;
} aliases[] = {{"lenet-c", "lenet"}};

/* The written-out ones, then those made by rule. */
static const shoali_model_text *zoo_at(size_t i)
{
    if (i < ZOO_COUNT)
        return &zoo[i];
    return i - ZOO_COUNT < shoali_zoo_large_count ? &shoali_zoo_large[i - ZOO_COUNT].text : NULL;
}

static shoal_status take(size_t i, shoal_arena *arena, shoali_model_text *text_out)
{
    *text_out = *zoo_at(i);
    if (i < ZOO_COUNT)
        return SHOAL_OK;
    const shoali_zoo_row *row = &shoali_zoo_large[i - ZOO_COUNT];
    shoali_layer_list list = {.arena = arena};
    row->make(&list, row->variant);
    return shoali_layer_list_end(&list, text_out);
}

shoal_status shoali_zoo_find(const char *name, shoal_arena *arena, shoali_model_text *text_out,
                             bool *found_out)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strcmp(aliases[i].alias, name) == 0)
            name = aliases[i].name;
    for (size_t i = 0; zoo_at(i) != NULL; i++) {
        if (strcmp(zoo_at(i)->name, name) != 0)
            continue;
        *found_out = true;
        return take(i, arena, text_out);
    }
    *found_out = false;
    return SHOAL_OK;
}

const char *shoal_model_zoo_name(size_t i)
{
    const shoali_model_text *text = zoo_at(i);
    return text != NULL ? text->name : NULL;
}

const char *shoal_model_zoo_help(size_t i)
{
    const shoali_model_text *text = zoo_at(i);
    return text != NULL ? text->help : NULL;
}
