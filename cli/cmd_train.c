/* SPDX-License-Identifier: Apache-2.0 */
/* shoal train: the main job. Starts its own workers unless a launcher did; each worker is this verb
 * again. */
#include <argp.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "launch.h"
#include "shoal/partition.h"
#include "shoal/train.h"
#include "train_checks.h"
#include "train_report.h"
#include "train_stages.h"
#include "train_worker.h"

typedef struct train_args {
    launch_desc launch;
    lab_desc lab;
    shoal_train_desc train;
    shoal_comm_desc comm;
    uint32_t workers;
    char *plan_model, *circulant_model; /* owned */
    const char *circulant, *admm, *whole_model;
    train_stages stages;
    uint64_t planned; /* elements per step that the plan says */
    bool json, quiet, bad;
} train_args;

enum {
    KEY_RESUME = 1000,
    KEY_CIRCULANT,
    KEY_ADMM,
    KEY_START,
    KEY_EVAL,
    KEY_PLAN,
    KEY_SYNC,
    KEY_OPTIMIZER,
    KEY_SCHEDULE,
    KEY_STEPS,
    KEY_BUCKET,
    KEY_NONFINITE,
    KEY_CHECK,
    KEY_CHECKPOINT,
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
    KEY_PORT,
    KEY_ON_LOSS,
    KEY_SPARES,
    KEY_LOG,
    KEY_LOG_FORMAT
};

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "What to train:", 1},
    {"model", 'm', "SPEC", 0, "hdc, lenet, cifarnet, vgg-mini, ..., or a file.json (lenet)", 1},
    {"circulant", KEY_CIRCULANT, "SPEC", 0,
     "k=8[,conv=4][,kx=4,kr=8,ky=16]: block-circulant hidden layers and cells, k times fewer "
     "weights "
     "and gradients; conv of convolutions; kx, kr, ky of cells' input, recurrent, output matrices",
     1},
    {"admm", KEY_ADMM, "SPEC", 0,
     "dense=4,iterations=7,epochs=1,rho=1e-4,factor=3,lr=0.5: train whole matrices first, pull "
     "them "
     "towards block-circulant ones, then --epochs with these; needs --circulant and --out",
     1},
    {"data", 'd', "DIR", 0, "IDX files (MNIST's names, also .gz) or CIFAR binary batches", 1},
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
     "sgd:momentum=0.9,decay=5e-4,nesterov or adam; decay spares biases and norms "
     "(sgd:momentum=0.9)",
     1},
    {"schedule", KEY_SCHEDULE, "SPEC", 0,
     "constant, cosine:warmup=100, step:at=0.5/0.75,factor=0.1 (constant)", 1},
    {"seed", 's', "N", 0, "Of weights, order of samples and dropout (1)", 1},
    {NULL, 0, NULL, 0, "Among whom, and how they exchange:", 2},
    {"workers", 'w', "N", 0, "Workers to start here (1; the launcher's number under a launcher)",
     2},
    {"lab", 'l', "SPEC", 0, "Emulate a network: rate=250mbit,... (see shoal run --help)", 2},
    {"hosts", 'H', "A,B:4", 0, "Start the workers on these hosts by ssh: one on each, or its slots",
     2},
    {"export", 'x', "NAME[=VALUE]", 0, "With --hosts: this variable for the workers; repeatable",
     2},
    {"port", KEY_PORT, "PORT", 0, "Of rank 0's store", 2},
    {"sync", KEY_SYNC, "SPEC", 0, "all_reduce, param_server:servers=1,dedicated, ... (all_reduce)",
     2},
    {"collective", 'c', "SPEC", 0,
     "ring, halving_doubling, direct, omnireduce, ...; auto: by density (ring)", 2},
    {"codec", 'k', "SPEC", 0,
     "identity, fp16, inceptionn:bound=2^-10, ..., or auto: measure, then choose among lossless "
     "ones; auto:allow=eden+bf16: among these, too (identity)",
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
    {"resume", KEY_RESUME, "DIR", 0, "Go on from the newest checkpoint of an earlier --out", 3},
    {"start", KEY_START, "DIR", 0,
     "Begin with the weights of an earlier --out; whole matrices that are block-circulant here "
     "become "
     "the nearest ones",
     3},
    {"checkpoint-every", KEY_CHECKPOINT, "STEPS", 0, "(every epoch)", 3},
    {"eval-every", KEY_EVAL, "EPOCHS", 0, "Test set after so many epochs, and after the last (1)",
     3},
    {"no-eval", KEY_NO_EVAL, NULL, 0, "Skip the test set", 3},
    {"dump-gradients", KEY_DUMP, "DIR", 0,
     "Rank 0's gradients before the exchange, one safetensors file per dumped step", 3},
    {"dump-every", KEY_DUMP_EVERY, "STEPS", 0, "Between dumps; the first step is one, too (100)",
     3},
    {"json", 'j', NULL, 0, "Result as one JSON object", 3},
    {"quiet", 'q', NULL, 0, "No progress, no epochs' lines", 3},
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

/* ------------------------------------------------------------------ options */

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
    case KEY_SYNC:
        return &args->train.sync;
    case 'c':
        return &args->train.collective;
    case 'k':
        return &args->train.codec;
    case 'o':
        return &args->train.out;
    case KEY_PLAN:
        return &args->train.plan;
    case KEY_CIRCULANT:
        return &args->circulant;
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
    case 'H':
        return &args->launch.hosts;
    default:
        return NULL;
    }
}

static bool parse_double(const char *text, double min, double max, double *out)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= min && value <= max))
        return false;
    *out = value;
    return true;
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
    if (!parse_double(text, 0.01, 1e6, &seconds))
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

static bool parse_port(const char *text, uint16_t *port_out)
{
    int64_t port = 0;
    bool ok = cli_parse_int(text, 1, 65535, &port);
    *port_out = (uint16_t)port;
    return ok;
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
        return parse_double(text, 1e-12, 1e6, &train->lr);
    case 's':
        return parse_u64(text, &train->seed);
    case KEY_COMPUTE:
        return parse_double(text, 0, 3.6e6, &train->compute_ms);
    case KEY_STEPS:
        return parse_u64(text, &train->max_steps);
    case KEY_CHECKPOINT:
        return parse_u64(text, &train->checkpoint_every);
    case KEY_SIMULATE:
        return parse_u32(text, 1, 256, &train->simulate);
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
    case KEY_PORT:
        return parse_port(text, &args->launch.port);
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
    default:
        return false;
    }
}

static const char *option_name(int key)
{
    for (const struct argp_option *option = options; option->name != NULL || option->doc != NULL;
         option++) {
        if (option->key == key && option->name != NULL)
            return option->name;
    }
    return "?";
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    train_args *args = state->input;
    const char **place = text_option(args, key);
    if (place != NULL) {
        *place = text;
        return 0;
    }
    if (parse_switch(args, key))
        return 0;
    switch (key) {
    case 'x':
        args->bad = args->bad || !launch_export(&args->launch, text);
        return 0;
    case 'l':
        args->launch.lab = &args->lab;
        args->bad = args->bad || !lab_parse("train", text, &args->lab);
        return 0;
    case KEY_LOG:
        setenv("SHOAL_LOG", text, 1);
        return 0;
    case KEY_LOG_FORMAT:
        setenv("SHOAL_LOG_FORMAT", text, 1);
        return 0;
    default:
        break;
    }
    int taken = text != NULL ? parse_value(args, key, text) : -1;
    if (taken == 0)
        argp_error(state, "--%s %s: not in range; see --help", option_name(key), text);
    return taken >= 0 ? 0 : ARGP_ERR_UNKNOWN;
}

/* ------------------------------------------------------------------ one worker */

/* A spare waits for as long as the job lasts. */
static void be_spare(train_args *args)
{
    const int64_t week_us = INT64_C(7) * 24 * 3600 * 1000000;
    args->comm.spare = args->comm.reform && getenv("SHOAL_SPARE") != NULL;
    if (args->comm.spare)
        args->comm.join_timeout_us = week_us;
}

static shoal_status run_stage(train_args *args, shoal_comm **comm, shoal_view *view, uint32_t stage)
{
    const train_stages *stages = &args->stages;
    const train_worker work = {.train = &stages->desc[stage],
                               .planned = args->planned,
                               .json = args->json,
                               .quiet = args->quiet,
                               .reports = stage + 1 == stages->count};
    shoal_train *train = NULL;
    shoal_status status = shoal_train_create(*comm, &stages->desc[stage], &train);
    if (status != SHOAL_OK)
        return status;
    if (stages->name[stage] != NULL && view->rank == 0 && !args->json && !args->quiet)
        printf("%s\n", stages->name[stage]);
    status = view->rank < view->workers ? train_work(&work, train, comm, view)
                                        : shoal_train_serve(train);
    shoal_train_destroy(train);
    return status;
}

static int worker_main(train_args *args)
{
    shoal_comm *comm = NULL;
    shoal_view view = {.size = sizeof view, .workers = 1};
    const char *slow = getenv("SHOAL_SLOW");
    char name[32] = "train";
    if (slow != NULL)
        args->train.slow = strtod(slow, NULL);
    args->comm.seed = args->train.seed;
    be_spare(args);
    shoal_status status = train_stages_make(&args->train, args->whole_model, args->admm,
                                            &args->stages);
    if (status == SHOAL_OK && args->train.simulate == 0)
        status = shoal_comm_create(&args->comm, &comm);
    if (args->comm.spare && status == SHOAL_ECANCELLED) {
        train_stages_free(&args->stages);
        return CLI_OK; /* it was not needed */
    }
    if (status == SHOAL_OK && comm != NULL)
        status = shoal_comm_view(comm, &view);
    if (status == SHOAL_OK && view.rank_count > 1)
        snprintf(name, sizeof name, "train: rank %u", view.rank);
    for (uint32_t i = 0; i < args->stages.count && status == SHOAL_OK; i++)
        status = run_stage(args, &comm, &view, i);
    int code = status == SHOAL_OK ? CLI_OK : cli_report(name);
    train_stages_free(&args->stages);
    shoal_comm_destroy(comm);
    return code;
}

/* A plan brings what it was made for; the command line may repeat it, and is checked then. */
static bool take_plan(train_args *args)
{
    shoal_partition *plan = NULL;
    shoal_partition_info info = SHOAL_PARTITION_INFO_INIT;
    if (shoal_partition_open(args->train.plan, &plan) != SHOAL_OK ||
        shoal_partition_describe(plan, &info) != SHOAL_OK) {
        shoal_partition_destroy(plan);
        return false;
    }
    args->workers = args->workers != 0 ? args->workers : 1u << info.levels;
    args->train.batch = args->train.batch != 0 ? args->train.batch : info.batch >> info.levels;
    args->planned = info.executed_elements;
    if (args->train.model == NULL)
        args->train.model = args->plan_model = strdup(info.model);
    shoal_partition_destroy(plan);
    return args->train.model != NULL;
}

static bool admm_fits(const train_args *args)
{
    if (args->admm == NULL)
        return true;
    if (args->circulant == NULL || args->train.out == NULL)
        cli_usage("train", "--admm needs --circulant k=N and --out DIR");
    else if (args->train.resume != NULL || args->train.plan != NULL)
        cli_usage("train", "--admm excludes --resume and --plan; --start OUT/dense with "
                           "--admm dense=0 begins with weights already trained");
    else
        return true;
    return false;
}

static int run_args(void *input, char **command)
{
    train_args *args = input;
    uint32_t servers = 0;
    if (args->bad)
        return CLI_USAGE;
    if (args->train.plan != NULL && !take_plan(args))
        return cli_report("train");
    args->train.model = args->train.model != NULL ? args->train.model : "lenet";
    args->whole_model = args->train.model;
    if (!admm_fits(args))
        return CLI_USAGE;
    if (args->circulant != NULL) {
        args->circulant_model = train_circulate(args->train.model, args->circulant);
        args->train.model = args->circulant_model;
    }
    if (args->train.model == NULL)
        return cli_usage("train", "--circulant %s: it is k=8, or k=8,conv=4, or k=8,kx=4",
                         args->circulant);
    args->train.batch = args->train.batch != 0 ? args->train.batch : 64;
    if (args->workers == 0 && args->launch.hosts != NULL && !cli_under_launcher())
        args->workers = remote_ranks("train", args->launch.hosts);
    else if (args->workers == 0)
        args->workers = 1;
    if (args->workers == 0 || (args->launch.forward_count > 0 && args->launch.hosts == NULL))
        return args->workers == 0 ? CLI_USAGE : cli_usage("train", "-x goes with --hosts");
    if (args->train.simulate > 0 && (args->workers > 1 || args->launch.lab != NULL))
        return cli_usage("train", "--simulate excludes --workers and --lab");
    if (args->train.data == NULL)
        return cli_usage("train",
                         "which data? --data DIR; `shoal data digits --out DIR` makes some");
    if (args->launch.lab != NULL && args->launch.hosts != NULL)
        return cli_usage("train", "--lab and --hosts exclude each other");
    if ((!cli_under_launcher() && !train_goes_together(&args->train, args->workers)) ||
        shoal_sync_servers(args->train.sync, &servers) != SHOAL_OK)
        return cli_report("train");
    if (!train_may_write_to(args->train.out, args->train.resume))
        return CLI_USAGE;
    if (cli_under_launcher()) {
        args->comm.servers = (int32_t)servers;
        return worker_main(args);
    }
    if (args->workers == 1 && servers == 0 && args->launch.lab == NULL &&
        args->launch.hosts == NULL) {
        args->comm.rank = 0;
        args->comm.world_size = 1;
        return worker_main(args);
    }
    if (shoal_sync_survives(args->train.sync, &args->launch.survives) != SHOAL_OK)
        return cli_report("train");
    args->launch.survives = args->launch.survives || args->train.reform;
    if (args->launch.spares > 0 && !args->train.reform)
        return cli_usage("train", "--spares goes with --on-loss reform");
    args->launch.servers = servers;
    args->launch.ranks = args->workers + servers + args->launch.spares;
    args->launch.argv = command;
    args->launch.quiet = false;
    return launch_run(&args->launch);
}

int cli_train(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "",
        "Train a network across workers.\v"
        "Example: shoal train --model lenet --data digits --workers 4 --lab rate=250mbit\n"
        "             --codec inceptionn:bound=2^-10 --batch 64 --epochs 3 --out runs/x\n\n"
        "Workers are started here unless torchrun's, Open MPI's, PMIx's or Slurm's variables are "
        "set.",
        NULL,
        NULL,
        NULL};
    train_args args = {.launch = {.verb = "train", .grace_s = 10},
                       .train = SHOAL_TRAIN_DESC_INIT,
                       .comm = SHOAL_COMM_DESC_INIT};
    args.train.sync = "all_reduce";
    args.train.collective = "ring";
    args.train.codec = "identity";
    args.train.seed = 1;
    args.train.lr = 0.02;
    args.train.epochs = 1;
    int code = cli_parse_and_run("train", &argp, argc, argv, &args, run_args);
    free(args.plan_model);
    free(args.circulant_model);
    launch_forget_exports(&args.launch);
    return code;
}
