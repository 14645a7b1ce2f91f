/* SPDX-License-Identifier: Apache-2.0 */
#include "train_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "cli.h"
#include "train_checks.h"

enum {
    KEY_RESUME = 1000,
    KEY_CIRCULANT,
    KEY_PRECISION,
    KEY_ADMM,
    KEY_START,
    KEY_EVAL,
    KEY_PLAN,
    KEY_SYNC,
    KEY_OPTIMIZER,
    KEY_SCHEDULE,
    KEY_STEPS,
    KEY_CLIP,
    KEY_SMOOTHING,
    KEY_AUGMENT,
    KEY_BUCKET,
    KEY_NONFINITE,
    KEY_CHECK,
    KEY_CHECKPOINT,
    KEY_ON_TERM,
    KEY_COMPUTE,
    KEY_NO_OVERLAP,
    KEY_NO_EXCHANGE,
    KEY_NO_EVAL,
    KEY_DUMP,
    KEY_SIMULATE,
    KEY_DUMP_EVERY,
    KEY_TOS,
    KEY_TRANSPORT,
    KEY_INTERFACE,
    KEY_CHUNK,
    KEY_PEER_TIMEOUT,
    KEY_OP_TIMEOUT,
    KEY_JOIN_TIMEOUT,
    KEY_ON_LOSS,
    KEY_SPARES,
    KEY_DRY_RUN,
    KEY_LOG,
    KEY_LOG_FORMAT,
    KEY_METRICS,
    KEY_METRICS_TOKEN,
    KEY_TENSORBOARD,
    KEY_TRACE,
    KEY_TRACE_LAST
};

const struct argp_option train_options[] = {
    {NULL, 0, NULL, 0, "What to train:", 1},
    {"model", 'm', "SPEC", 0, "hdc, lenet, cifarnet, vgg-mini, ..., or a file.json (lenet)", 1},
    {"circulant", KEY_CIRCULANT, "SPEC", 0,
     "k=8[,conv=4][,kx=4,kr=8,ky=16]: block-circulant hidden layers and cells, k times fewer "
     "weights "
     "and gradients; conv of convolutions; kx, kr, ky of cells' input, recurrent, output matrices",
     1},
    {"precision", KEY_PRECISION, "float32|bf16", 0,
     "Operands of the model's products; weights, gradients, exchange and optimiser are in float32 "
     "(float32)",
     1},
    {"admm", KEY_ADMM, "SPEC", 0,
     "dense=4,iterations=7,epochs=1,rho=1e-4,factor=3,lr=0.5: train whole matrices first, pull "
     "them "
     "towards block-circulant ones, then --epochs with these; needs --circulant and --out",
     1},
    {"data", 'd', "DIR", 0, "IDX files (MNIST's names, also .gz) or CIFAR binary batches", 1},
    {"augment", KEY_AUGMENT, "SPEC", 0,
     "crop=4,flip: in training, images are cut out of themselves with so many black pixels around, "
     "and mirrored every second time",
     1},
    {"plan", KEY_PLAN, "FILE", 0,
     "Divide the layers as this file of `shoal partition --out` says; it brings model, workers and "
     "batch",
     1},
    {"batch", 'b', "N|auto[:N]", 0,
     "Samples per worker and step; auto: N on average, each as many as make all take equally long "
     "(64)",
     1},
    {"epochs", 'e', "N", 0, "(1)", 1},
    {"steps", KEY_STEPS, "N", 0, "Stop after so many steps in all", 1},
    {"lr", 'r', "RATE", 0, "Base learning rate (0.02)", 1},
    {"optimizer", KEY_OPTIMIZER, "SPEC", 0,
     "sgd:momentum=0.9,decay=5e-4,nesterov, adam, adamw, muon; decay spares biases and norms, "
     "ema=0.999 keeps an average (sgd:momentum=0.9)",
     1},
    {"schedule", KEY_SCHEDULE, "SPEC", 0,
     "constant, cosine:warmup=100, poly, step:at=0.5/0.75,factor=0.1 (constant)", 1},
    {"clip-norm", KEY_CLIP, "NORM", 0, "A step's gradient gets at most this norm, over all weights",
     1},
    {"label-smoothing", KEY_SMOOTHING, "SHARE", 0,
     "Of each label, to all classes alike, in training (0)", 1},
    {"seed", 's', "N", 0, "Of weights, order of samples and dropout (1)", 1},
    {NULL, 0, NULL, 0, "Among whom, and how they exchange:", 2},
    {"workers", 'w', "N", 0, "Workers to start here (1; the launcher's number under a launcher)",
     2},
    {"lab", 'l', "SPEC", 0, "Emulate a network: rate=250mbit,... (see shoal run --help)", 2},
    {"sync", KEY_SYNC, "SPEC", 0, "all_reduce, param_server:servers=1,dedicated, ... (all_reduce)",
     2},
    {"collective", 'c', "SPEC", 0,
     "ring, halving_doubling, direct, omnireduce, ...; auto: by density (ring)", 2},
    {"codec", 'k', "SPEC", 0,
     "identity, fp16, inceptionn:bound=2^-10, ..., or auto: measure, then choose among lossless "
     "ones; auto:allow=eden+bf16: among these, too; auto:error=0.1: within this squared error "
     "(identity)",
     2},
    {"bucket", KEY_BUCKET, "BYTES|model", 0, "Gradients of one operation (4M)", 2},
    {"chunk", KEY_CHUNK, "ELEMS", 0, "Unit of coding and framing (64k)", 2},
    {"no-overlap", KEY_NO_OVERLAP, NULL, 0, "Exchange after the whole backward pass", 2},
    {"no-exchange", KEY_NO_EXCHANGE, NULL, 0,
     "No communication: each worker alone (measures compute time)", 2},
    {"tos", KEY_TOS, "BYTE", 0,
     "IP ToS of the gradients' connections; 0x28 marks compressible traffic", 2},
    {"transport", KEY_TRANSPORT, "SPEC", 0, "tcp:lanes=2,shm=off (tcp)", 2},
    {"interface", KEY_INTERFACE, "NAME", 0, "Network interface or address (chosen)", 2},
    {NULL, 0, NULL, 0, "Files and output:", 3},
    {"out", 'o', "DIR", 0, "Metrics and checkpoints go there", 3},
    {"resume", KEY_RESUME, "DIR", 0,
     "Go on from the newest checkpoint of an earlier --out, with its options where none are given, "
     "and in the same folder unless --out names another",
     3},
    {"start", KEY_START, "DIR", 0,
     "Begin with the weights of an earlier --out, of a .safetensors or .onnx file, or of a folder "
     "of Hugging Face's; whole matrices that are block-circulant here become the nearest ones, and "
     "a head that a foreign file lacks begins with first weights",
     3},
    {"checkpoint-every", KEY_CHECKPOINT, "STEPS", 0,
     "Steps from one to the next; with protocols whose replicas differ each worker writes its own, "
     "those that cannot go on from them refuse it and write one at the end (every epoch)",
     3},
    {"on-term", KEY_ON_TERM, "end|checkpoint", 0,
     "SIGTERM ends the run as it is (end), or with a checkpoint and exit code 85, so that the same "
     "command goes on from it; with --sync all_reduce (end)",
     3},
    {"eval-every", KEY_EVAL, "EPOCHS", 0, "Test set after so many epochs, and after the last (1)",
     3},
    {"no-eval", KEY_NO_EVAL, NULL, 0, "Skip the test set", 3},
    {"dump-gradients", KEY_DUMP, "DIR", 0,
     "Rank 0's gradients before the exchange, one safetensors file per dumped step, into a folder "
     "without another run's",
     3},
    {"dump-every", KEY_DUMP_EVERY, "STEPS", 0, "Between dumps; the first step is one, too (100)",
     3},
    {"json", 'j', NULL, 0, "Result as one JSON object", 3},
    {"quiet", 'q', NULL, 0, "No progress, no epochs' lines", 3},
    {"dry-run", KEY_DRY_RUN, NULL, 0, "Say whether these options go together; start nothing", 3},
    {"metrics", KEY_METRICS, "[HOST:]PORT", 0,
     "Serve metrics for Prometheus there, at /metrics, from the lowest rank that is there; this "
     "host alone unless HOST says otherwise; 0: a free port (nowhere)",
     3},
    {"metrics-token-file", KEY_METRICS_TOKEN, "FILE", 0,
     "Who asks for metrics must bring the bearer token in it, a file of mode 0600; needed off "
     "loopback",
     3},
    {"tensorboard", KEY_TENSORBOARD, "DIR", 0,
     "Event files for TensorBoard go to a folder there, named after --out or the job", 3},
    {"trace", KEY_TRACE, "FILE", 0,
     "What each worker did when, on one clock, for ui.perfetto.dev; written at the end", 3},
    {"trace-last", KEY_TRACE_LAST, "STEPS", 0, "So many of them (what 16384 events hold)", 3},
    {"log", KEY_LOG, "LEVEL", 0, "error, warn, info, debug, trace (warn)", 3},
    {"log-format", KEY_LOG_FORMAT, "FORMAT", 0, "text or json (text)", 3},
    {NULL, 0, NULL, 0, "When something goes wrong:", 4},
    {"nonfinite", KEY_NONFINITE, "stop|skip", 0,
     "A NaN or infinity in a gradient stops the run, or skips the step (stop)", 4},
    {"on-loss", KEY_ON_LOSS, "stop|reform", 0,
     "A worker that is lost ends the run, or the others go on without it, and replacements (the "
     "same "
     "command) join it; docs/failures.md (stop)",
     4},
    {"spares", KEY_SPARES, "N", 0, "With --on-loss reform: workers that wait for a place (0)", 4},
    {"check-every", KEY_CHECK, "STEPS", 0, "Compare the replicas' weights; 0: never (100)", 4},
    {"peer-timeout", KEY_PEER_TIMEOUT, "S", 0, "Silence until a peer counts as lost (2.5)", 4},
    {"op-timeout", KEY_OP_TIMEOUT, "S", 0, "Deadline of one operation (300)", 4},
    {"join-timeout", KEY_JOIN_TIMEOUT, "S", 0, "How long to wait for all workers at the start (30)",
     4},
    {NULL, 0, NULL, 0, "Emulation:", 5},
    {"simulate", KEY_SIMULATE, "N", 0,
     "N workers in this one process, real gradients and codecs, no network", 5},
    {"compute-ms", KEY_COMPUTE, "MS", 0, "Forward and backward pass last at least so long", 5},
    {0}};

static const char **text_option(train_args *args, int key)
{
    switch (key) {
    case 'm':
        return &args->train.model;
    case 'd':
        return &args->train.data;
    case KEY_OPTIMIZER:
        return &args->train.optimizer;
    case KEY_SCHEDULE:
        return &args->train.schedule;
    case KEY_AUGMENT:
        return &args->train.augment;
    case KEY_SYNC:
        return &args->train.sync;
    case 'c':
        return &args->train.collective;
    case 'k':
        return &args->train.codec;
    case 'o':
        return &args->train.out;
    case KEY_TENSORBOARD:
        return &args->tensorboard;
    case KEY_TRACE:
        return &args->train.trace;
    case KEY_METRICS:
        return &args->metrics.address;
    case KEY_METRICS_TOKEN:
        return &args->metrics.token_file;
    case KEY_PLAN:
        return &args->train.plan;
    case KEY_CIRCULANT:
        return &args->circulant;
    case KEY_PRECISION:
        return &args->precision;
    case KEY_ADMM:
        return &args->admm;
    case KEY_START:
        return &args->train.start;
    case KEY_RESUME:
        return &args->train.resume;
    case KEY_DUMP:
        return &args->train.dump_gradients;
    case KEY_TRANSPORT:
        return &args->comm.transport;
    case KEY_INTERFACE:
        return &args->comm.interface;
    default:
        return NULL;
    }
}

static bool parse_u32(const char *text, int64_t min, int64_t max, uint32_t *out)
{
    int64_t value = 0;
    if (!cli_parse_int(text, min, max, &value))
        return false;
    *out = (uint32_t)value;
    return true;
}

static bool parse_seconds(const char *text, int64_t *us_out)
{
    double seconds = 0;
    if (!cli_parse_real(text, 0.01, 1e6, &seconds))
        return false;
    *us_out = (int64_t)(seconds * 1e6);
    return true;
}

static bool parse_u64(const char *text, uint64_t *out)
{
    int64_t value = 0;
    if (!cli_parse_int(text, 1, INT64_MAX, &value))
        return false;
    *out = (uint64_t)value;
    return true;
}

static bool parse_batch(const char *text, shoal_train_desc *train)
{
    train->batch_auto = strncmp(text, "auto", 4) == 0;
    if (train->batch_auto && text[4] == '\0')
        return true;
    if (train->batch_auto && text[4] != ':')
        return false;
    return parse_u32(train->batch_auto ? text + 5 : text, 1, 65536, &train->batch);
}

static bool parse_check(const char *text, uint32_t *every_out)
{
    if (!parse_u32(text, 0, INT32_MAX, every_out))
        return false;
    if (*every_out == 0)
        *every_out = UINT32_MAX;
    return true;
}

static bool parse_chunk(const char *text, uint32_t *elems_out)
{
    uint64_t elems = 0;
    bool ok = cli_parse_bytes(text, &elems) && elems >= 256 && elems <= 1u << 24;
    *elems_out = (uint32_t)elems;
    return ok;
}

static bool parse_on_loss(const char *text, train_args *args)
{
    args->train.reform = args->comm.reform = strcmp(text, "reform") == 0;
    return args->train.reform || strcmp(text, "stop") == 0;
}

/* 1: taken, 0: a bad value, -1: another option. */
static int parse_value(train_args *args, int key, const char *text)
{
    shoal_train_desc *train = &args->train;
    shoal_comm_desc *comm = &args->comm;
    switch (key) {
    case 'b':
        return parse_batch(text, train);
    case 'e':
        return parse_u32(text, 1, 1000000, &train->epochs);
    case KEY_EVAL:
        return parse_u32(text, 1, 1000000, &train->evaluate_every);
    case 'w':
        return parse_u32(text, 1, 1024, &args->workers);
    case 'r':
        return cli_parse_real(text, 1e-12, 1e6, &train->lr);
    case 's':
        return parse_u64(text, &train->seed);
    case KEY_COMPUTE:
        return cli_parse_real(text, 0, 3.6e6, &train->compute_ms);
    case KEY_CLIP:
        return cli_parse_real(text, 1e-12, 1e12, &train->clip_norm);
    case KEY_SMOOTHING:
        return cli_parse_real(text, 0, 0.999, &train->label_smoothing);
    case KEY_STEPS:
        return parse_u64(text, &train->max_steps);
    case KEY_CHECKPOINT:
        return parse_u64(text, &train->checkpoint_every);
    case KEY_ON_TERM:
        train->may_stop = strcmp(text, "checkpoint") == 0;
        return train->may_stop || strcmp(text, "end") == 0;
    case KEY_SIMULATE:
        return parse_u32(text, 1, 256, &train->simulate);
    case KEY_TRACE_LAST:
        return parse_u64(text, &train->trace_last);
    case KEY_DUMP_EVERY:
        return parse_u64(text, &train->dump_every);
    case KEY_CHECK:
        return parse_check(text, &train->check_every);
    case KEY_BUCKET:
        return train_parse_bucket(text, &train->bucket_bytes);
    case KEY_TOS:
        return train_parse_tos(text, &train->tos);
    case KEY_NONFINITE:
        return train_parse_nonfinite(text, &train->nonfinite);
    case KEY_ON_LOSS:
        return parse_on_loss(text, args);
    case KEY_SPARES:
        return parse_u32(text, 0, 64, &args->launch.spares);
    case KEY_CHUNK:
        return parse_chunk(text, &comm->chunk_elems);
    case KEY_PEER_TIMEOUT:
        return parse_seconds(text, &comm->peer_timeout_us);
    case KEY_OP_TIMEOUT:
        return parse_seconds(text, &comm->op_timeout_us);
    case KEY_JOIN_TIMEOUT:
        return parse_seconds(text, &comm->join_timeout_us);
    default:
        return -1;
    }
}

static bool parse_switch(train_args *args, int key)
{
    switch (key) {
    case 'j':
        args->json = true;
        return true;
    case 'q':
        args->quiet = true;
        return true;
    case KEY_NO_OVERLAP:
        args->train.no_overlap = true;
        return true;
    case KEY_NO_EXCHANGE:
        args->train.no_exchange = true;
        return true;
    case KEY_NO_EVAL:
        args->train.no_evaluation = true;
        return true;
    case KEY_DRY_RUN:
        args->dry_run = true;
        return true;
    default:
        return false;
    }
}

static const struct argp_option *option_of(int key)
{
    const struct argp_option *option = train_options;
    while ((option->name != NULL || option->doc != NULL) &&
           !(option->key == key && option->name != NULL))
        option++;
    return option;
}

static const struct argp_option *option_named(const struct argp_option *option, const char *name)
{
    while (option->name != NULL || option->doc != NULL) {
        if (option->name != NULL && strcmp(option->name, name) == 0)
            return option;
        option++;
    }
    return NULL;
}

static const char *option_name(int key)
{
    const char *name = option_of(key)->name;
    return name != NULL ? name : "?";
}

static uint64_t option_bit(int key)
{
    const struct argp_option *option = option_of(key);
    return option->name != NULL ? UINT64_C(1) << (option - train_options) : 0;
}

/* A word of "a|b|c". */
static bool is_one_of(const char *text, const char *words)
{
    const size_t length = strcspn(text, "|");
    for (; *words != '\0'; words += strcspn(words, "|"), words += *words != '\0')
        if (text[length] == '\0' && strcspn(words, "|") == length &&
            strncmp(words, text, length) == 0)
            return true;
    return false;
}

/* 1: taken, 0: a bad value, -1: no option of this verb. Texts are borrowed. */
static int take(train_args *args, int key, const char *text)
{
    const char **place = text_option(args, key);
    args->given |= option_bit(key);
    if (place != NULL) {
        *place = text;
        return 1;
    }
    if (parse_switch(args, key))
        return 1;
    if (text == NULL)
        return -1;
    switch (key) {
    case 'l':
        args->launch.lab = &args->lab;
        args->launch.bad = args->launch.bad || !lab_parse("train", text, &args->lab);
        return 1;
    case KEY_LOG:
        setenv("SHOAL_LOG", text, 1);
        return is_one_of(text, "error|warn|info|debug|trace");
    case KEY_LOG_FORMAT:
        setenv("SHOAL_LOG_FORMAT", text, 1);
        return is_one_of(text, "text|json");
    default:
        return parse_value(args, key, text);
    }
}

error_t train_parse(int key, char *text, struct argp_state *state)
{
    train_args *args = state->input;
    if (key == ARGP_KEY_INIT) {
        state->child_inputs[0] = &args->launch;
        return 0;
    }
    int taken = take(args, key, text);
    if (taken == 0)
        cli_refuse_value(state, key, text);
    if (taken > 0)
        train_kept_add(&args->kept, option_name(key), key == 'l' ? args->lab.text : text);
    return taken >= 0 ? 0 : ARGP_ERR_UNKNOWN;
}

/* ------------------------------------------------------------------ what was given */

/* `needs` 0: none. An option that would say nothing beside another is refused with it. */
static const struct {
    int key, needs;
    const char *form; /* of the other, where its name alone is not enough */
} needed[] = {{KEY_CHECKPOINT, 'o', " DIR"},
              {KEY_ON_TERM, 'o', " DIR"},
              {KEY_DUMP_EVERY, KEY_DUMP, " DIR"},
              {KEY_SPARES, KEY_ON_LOSS, " reform"},
              {KEY_METRICS_TOKEN, KEY_METRICS, " [HOST:]PORT"},
              {KEY_TRACE_LAST, KEY_TRACE, " FILE"},
              {KEY_ADMM, KEY_CIRCULANT, " k=N"},
              {KEY_ADMM, 'o', " DIR"}};

static const struct {
    int key, beside;
} excluded[] = {{'w', KEY_SIMULATE},
                {'l', KEY_SIMULATE},
                {KEY_BUCKET, KEY_SIMULATE},
                {KEY_NO_OVERLAP, KEY_SIMULATE},
                {KEY_TOS, KEY_SIMULATE},
                {KEY_TRANSPORT, KEY_SIMULATE},
                {KEY_INTERFACE, KEY_SIMULATE},
                {KEY_CHECK, KEY_SIMULATE},
                {KEY_PEER_TIMEOUT, KEY_SIMULATE},
                {KEY_OP_TIMEOUT, KEY_SIMULATE},
                {KEY_JOIN_TIMEOUT, KEY_SIMULATE},
                {KEY_BUCKET, KEY_NO_EXCHANGE},
                {KEY_NO_OVERLAP, KEY_NO_EXCHANGE},
                {KEY_TOS, KEY_NO_EXCHANGE},
                {KEY_CHECK, KEY_NO_EXCHANGE},
                {KEY_EVAL, KEY_NO_EVAL},
                {KEY_TRACE, KEY_SIMULATE},
                {KEY_TRACE, KEY_NO_EXCHANGE},
                {KEY_TRACE, KEY_PLAN},
                {KEY_TRACE, KEY_ADMM},
                {KEY_START, KEY_RESUME}};

static bool is_given(uint64_t given, int key)
{
    return (given & option_bit(key)) != 0;
}

/* Whether the command line has an option that excludes this one. */
static bool is_excluded(uint64_t given, int key)
{
    for (size_t i = 0; i < sizeof excluded / sizeof *excluded; i++)
        if ((excluded[i].key == key && is_given(given, excluded[i].beside)) ||
            (excluded[i].beside == key && is_given(given, excluded[i].key)))
            return true;
    return false;
}

int train_take_named(void *into, const char *name, const char *text)
{
    train_args *args = into;
    const struct argp_option *option = option_named(train_options, name);
    if (option == NULL) {
        option = option_named(launch_argp.options, name);
        return option != NULL ? launch_take(&args->launch, option->key, text) : -1;
    }
    const uint64_t given = args->given;
    if (is_excluded(args->given, option->key))
        return 2;
    const int taken = option->arg != NULL ? take(args, option->key, text)
                      : text[0] == '\0'   ? take(args, option->key, NULL)
                                          : 0;
    args->given = given;
    return taken;
}

bool train_given_fit(train_args *args)
{
    if (args->train.resume != NULL && args->train.out == NULL) { /* in the same folder */
        args->train.out = args->train.resume;
        args->given |= option_bit('o');
    }
    if (args->train.simulate > 0 && (args->launch.hosts != NULL || args->launch.port != 0)) {
        cli_usage("train", "--%s and --simulate exclude each other",
                  args->launch.hosts != NULL ? "hosts" : "port");
        return false;
    }
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (is_given(args->given, needed[i].key) && !is_given(args->given, needed[i].needs)) {
            cli_usage("train", "--%s says nothing without --%s%s", option_name(needed[i].key),
                      option_name(needed[i].needs), needed[i].form);
            return false;
        }
    for (size_t i = 0; i < sizeof excluded / sizeof *excluded; i++)
        if (is_given(args->given, excluded[i].key) && is_given(args->given, excluded[i].beside)) {
            cli_usage("train", "--%s and --%s exclude each other", option_name(excluded[i].key),
                      option_name(excluded[i].beside));
            return false;
        }
    return train_metrics_fit(&args->metrics);
}
