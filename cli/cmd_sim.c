/* SPDX-License-Identifier: Apache-2.0 */
/* shoal sim: a whole job in virtual time. */
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "cli.h"
#include "gnuplot.h"
#include "interrupt.h"
#include "progress_show.h"
#include "said.h"
#include "shoal/train.h"
#include "sim_live.h"
#include "sim_output.h"
#include "train_board.h"

enum {
    KEY_SYNC = 1000,
    KEY_CLUSTER,
    KEY_COMPUTE,
    KEY_NETWORK,
    KEY_PROBLEM,
    KEY_FAULTS,
    KEY_SECONDS,
    KEY_PARAMS,
    KEY_BUCKET,
    KEY_TIMELINE,
    KEY_LOG,
    KEY_PICTURES,
    KEY_NO_MIXING,
    KEY_LR,
    KEY_OPTIMIZER,
    KEY_SCHEDULE,
    KEY_NO_EVAL,
    KEY_TRACE,
    KEY_TENSORBOARD,
    KEY_METRICS,
    KEY_METRICS_TOKEN
};
enum { MIXING_ELEMS = 64, MIXING_ITERATIONS = 96, MIXING_WORKERS_MAX = 128 };

typedef struct sim_args {
    shoal_sim_desc desc;
    shoal_tensor one;       /* --params */
    shoal_train_desc train; /* without data: there is nothing to train */
    const char *pictures;
    shoal_sim_files files;
    const char *tensorboard;
    sim_live live;
    json_t *given; /* for run.json: options by name */
    bool json, no_mixing;
} sim_args;

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "What runs:", 1},
    {"sync", KEY_SYNC, "SPEC", 0,
     "Protocol: all_reduce, hop:backup=1, ...; auto: by links and workers (all_reduce)", 1},
    {"collective", 'c', "SPEC", 0, "Of its operations, if it prescribes none (ring)", 1},
    {"codec", 'k', "SPEC", 0, "(identity)", 1},
    {"model", 'm', "SPEC", 0, "Model whose tensors and operations count: lenet, a file.json", 1},
    {"params", KEY_PARAMS, "N", 0, "Instead of a model: so many parameters (1048576)", 1},
    {"bucket", KEY_BUCKET, "BYTES|model", 0, "Gradients of one operation (4M)", 1},
    {"problem", KEY_PROBLEM, "SPEC", 0,
     "cost: time only; quadratic:lr=0.1,momentum=0,noise=0.1,spread=1: real numbers (cost)", 1},
    {"iterations", 'i', "N", 0, "Of every worker (100, or as many as the epochs take)", 1},
    {"seconds", KEY_SECONDS, "S", 0, "Stop at this virtual second instead", 1},
    {"seed", 's', "N", 0, "The same seed gives the same event log, bit for bit (1)", 1},
    {NULL, 0, NULL, 0, "Real gradients, as in shoal train:", 2},
    {"data", 'd', "DIR", 0, "Train --model on this data set (shoal data digits --out DIR)", 2},
    {"batch", 'b', "N", 0, "Samples per worker and step (64)", 2},
    {"epochs", 'e', "N", 0, "(1)", 2},
    {"lr", KEY_LR, "RATE", 0, "Base learning rate (0.02)", 2},
    {"optimizer", KEY_OPTIMIZER, "SPEC", 0, "(sgd:momentum=0.9)", 2},
    {"schedule", KEY_SCHEDULE, "SPEC", 0, "Of the learning rate (constant)", 2},
    {"no-eval", KEY_NO_EVAL, NULL, 0, "Skip the test set", 2},
    {NULL, 0, NULL, 0, "On what:", 3},
    {"workers", 'w', "N", 0, "1 to 4096 (4, or the cluster's)", 3},
    {"cluster", KEY_CLUSTER, "FILE", 0, "Hosts, links, accelerators, stragglers: docs/cluster.md",
     3},
    {"network", KEY_NETWORK, "SPEC", 0,
     "links:rate=1gbit,down=,latency_us=50,hosts=4,slow=3:10x,jitter_us=0,loss=0,trace=FILE", 3},
    {"compute", KEY_COMPUTE, "SPEC", 0,
     "fixed:ms=100,jitter=0.05,slow=3:4x,random=6x:0.1,trace=FILE or model:batch=32,gflops=50,...",
     3},
    {"faults", KEY_FAULTS, "SPEC", 0,
     "plan:die=1@2.5,stop=2@4,leave=0@1,rejoin=1@6,cut=2@1-1.5,detect_ms=2500,reform", 3},
    {NULL, 0, NULL, 0, "What it tells:", 4},
    {"json", 'j', NULL, 0, "Everything as one JSON object", 4},
    {"pictures", KEY_PICTURES, "DIR", 0, "SVG files: iterations, loss, waits", 4},
    {"out", 'o', "DIR", 0,
     "A run folder as of shoal train --out, for shoal report, runs: docs/run-folders.md", 4},
    {"trace", KEY_TRACE, "FILE", 0,
     "Who did what when, as of shoal train --trace, for Perfetto: docs/trace.md", 4},
    {"tensorboard", KEY_TENSORBOARD, "DIR", 0,
     "Worker 0's metrics for TensorBoard, in a folder DIR/NAME of --out .../NAME: docs/metrics.md",
     4},
    {"metrics", KEY_METRICS, "[HOST:]PORT", 0,
     "Serve metrics for Prometheus there while it runs, as shoal train does; seconds are virtual; "
     "0: a free port (nowhere)",
     4},
    {"metrics-token-file", KEY_METRICS_TOKEN, "FILE", 0,
     "Who asks for metrics must bring the bearer token in it, a file of mode 0600; needed off "
     "loopback",
     4},
    {"timeline", KEY_TIMELINE, "FILE", 0,
     "Workers and operations of any protocol, for Perfetto or chrome://tracing", 4},
    {"log", KEY_LOG, "FILE", 0, "A line for every event of every machine", 4},
    {"no-mixing", KEY_NO_MIXING, NULL, 0, "Do not measure the spectral gap (a second, small run)",
     4},
    {0}};

static bool parse_number(sim_args *args, int key, const char *text)
{
    int64_t number = 0;
    switch (key) {
    case 'i':
        args->desc.iterations = cli_parse_int(text, 1, INT64_C(1) << 40, &number) ? number : 0;
        return args->desc.iterations > 0;
    case 's':
        args->desc.seed = cli_parse_int(text, 1, INT64_MAX, &number) ? (uint64_t)number : 0;
        return args->desc.seed > 0;
    case 'w':
        args->desc.workers = cli_parse_int(text, 1, 4096, &number) ? (uint32_t)number : 0;
        return args->desc.workers > 0;
    case KEY_PARAMS:
        args->one.count = cli_parse_int(text, 1, INT64_C(1) << 36, &number) ? (size_t)number : 0;
        return args->one.count > 0;
    case 'b':
        args->train.batch = cli_parse_int(text, 1, 65536, &number) ? (uint32_t)number : 0;
        return args->train.batch > 0;
    case 'e':
        args->train.epochs = cli_parse_int(text, 1, 1000000, &number) ? (uint32_t)number : 0;
        return args->train.epochs > 0;
    case KEY_LR:
        return cli_parse_real(text, 1e-12, 1e6, &args->train.lr);
    case KEY_BUCKET:
        args->desc.bucket_bytes = SIZE_MAX;
        return strcmp(text, "model") == 0 ||
               (cli_parse_bytes(text, &args->desc.bucket_bytes) && args->desc.bucket_bytes > 0);
    default:
        return cli_parse_real(text, 1e-9, 1e9, &args->desc.until_s);
    }
}

/* The field that a textual option goes to; NULL: another option. */
static const char **text_of(sim_args *args, int key)
{
    switch (key) {
    case KEY_SYNC:
        return &args->desc.sync;
    case 'c':
        return &args->desc.collective;
    case 'k':
        return &args->desc.codec;
    case 'm':
        return &args->desc.model;
    case KEY_CLUSTER:
        return &args->desc.cluster;
    case KEY_COMPUTE:
        return &args->desc.compute;
    case KEY_NETWORK:
        return &args->desc.network;
    case KEY_PROBLEM:
        return &args->desc.problem;
    case KEY_FAULTS:
        return &args->desc.faults;
    case KEY_TIMELINE:
        return &args->desc.timeline;
    case KEY_LOG:
        return &args->desc.log;
    case KEY_PICTURES:
        return &args->pictures;
    case 'o':
        return &args->files.out;
    case KEY_TRACE:
        return &args->files.trace;
    case KEY_TENSORBOARD:
        return &args->tensorboard;
    case KEY_METRICS:
        return &args->live.options.address;
    case KEY_METRICS_TOKEN:
        return &args->live.options.token_file;
    case 'd':
        return &args->train.data;
    case KEY_OPTIMIZER:
        return &args->train.optimizer;
    case KEY_SCHEDULE:
        return &args->train.schedule;
    default:
        return NULL;
    }
}

/* What says what is simulated, and not where it is told; no path is relative to this folder. */
static void keep_option(sim_args *args, int key, const char *text)
{
    static const int others[] = {'o',
                                 'j',
                                 KEY_TRACE,
                                 KEY_TIMELINE,
                                 KEY_LOG,
                                 KEY_PICTURES,
                                 KEY_TENSORBOARD,
                                 KEY_METRICS,
                                 KEY_METRICS_TOKEN};
    const struct argp_option *option = options;
    char *whole = NULL;
    while (option->name != NULL || option->group != 0) {
        if (option->name != NULL && option->key == key)
            break;
        option++;
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (key == others[i])
            return;
    if (option->name == NULL)
        return;
    if (text != NULL && (key == 'd' || key == KEY_CLUSTER))
        whole = realpath(text, NULL);
    args->given = args->given != NULL ? args->given : json_object();
    json_object_set_new(args->given, option->name,
                        text == NULL ? json_true() : json_string(whole != NULL ? whole : text));
    free(whole);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    sim_args *args = state->input;
    const char **field = text_of(args, key);
    keep_option(args, key, text);
    if (field != NULL) {
        *field = text;
        return 0;
    }
    switch (key) {
    case 'j':
        args->json = true;
        return 0;
    case KEY_NO_MIXING:
        args->no_mixing = true;
        return 0;
    case KEY_NO_EVAL:
        args->train.no_evaluation = true;
        return 0;
    case 'b':
    case 'e':
    case 'i':
    case 's':
    case 'w':
    case KEY_LR:
    case KEY_PARAMS:
    case KEY_BUCKET:
    case KEY_SECONDS:
        if (!parse_number(args, key, text))
            cli_refuse_value(state, key, text);
        return 0;
    case ARGP_KEY_ARG:
        cli_refuse(state, "unexpected argument '%s'", text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---------------------------------------------------------------- how fast workers agree */

/* 1 - rate at which the workers' distance from their mean shrinks per iteration, over the part of
 * the curve where it is neither the start's accident nor rounding. */
static double gap_of(const shoal_sim *sim)
{
    uint32_t count, most = 0;
    const shoal_sim_point *points = shoal_sim_curve(sim, &count);
    for (uint32_t i = 1; i < count; i++)
        most = points[i].consensus > points[most].consensus ? i : most;
    uint32_t last = most;
    while (last + 1 < count && points[last + 1].consensus > 1e-9 * points[most].consensus)
        last++;
    if (count < 2)
        return NAN;
    if (last == most)
        return 1;
    uint32_t first = (most + last) / 2;
    double iterations = points[last].iterations - points[first].iterations;
    double ratio = points[last].consensus / points[first].consensus;
    return iterations > 0 ? 1 - pow(ratio, 0.5 / iterations) : NAN;
}

/* The same job on a few numbers that are as heavy as all, without gradients. */
static double spectral_gap(const sim_args *args, uint32_t workers, size_t count)
{
    const shoal_tensor few = {.key = 1, .count = MIXING_ELEMS, .lr_scale = 1};
    shoal_sim_desc desc = args->desc;
    shoal_sim *sim = NULL;
    double gap = NAN;
    if (args->no_mixing || workers > MIXING_WORKERS_MAX || desc.faults != NULL ||
        desc.codec != NULL)
        return NAN;
    desc.problem = "mixing";
    desc.tensors = &few;
    desc.tensor_count = 1;
    desc.inflate = (double)count / MIXING_ELEMS;
    desc.iterations = MIXING_ITERATIONS;
    desc.until_s = 0;
    desc.timeline = desc.log = NULL;
    if (shoal_sim_create(&desc, &sim) == SHOAL_OK && sim_live_run_aside(sim) == SHOAL_OK)
        gap = gap_of(sim);
    shoal_sim_destroy(sim);
    return gap;
}

/* ---------------------------------------------------------------- the command */

static uint32_t count_workers(const shoal_sim *sim)
{
    uint32_t workers = 0;
    while (shoal_sim_waits(sim, workers) != NULL)
        workers++;
    return workers;
}

static void print_text(const sim_args *args, const sim_report *report)
{
    sim_print_text(report);
    if (args->files.out != NULL)
        printf("\n%s: metrics and events of all workers, in virtual time%s\n", args->files.out,
               args->train.data == NULL && args->desc.problem == NULL ? "; a cost has no losses"
                                                                      : "");
}

/* Files in the form of a real run's, if any are asked for. */
static shoal_status keep(const sim_args *args, shoal_sim *sim)
{
    shoal_sim_files files = args->files;
    if (files.out == NULL && files.trace == NULL)
        return SHOAL_OK;
    char *text = args->given != NULL ? json_dumps(args->given, JSON_COMPACT) : NULL;
    files.options = text;
    const shoal_status status = shoal_sim_keep(sim, &files);
    free(text);
    return status;
}

static void stop(void *sim)
{
    shoal_sim_stop(sim);
}

/* Whether a signal has come that is to end the command; what was over by then stays. */
static bool is_interrupted(shoal_status status)
{
    const bool came = interrupt_end() != 0;
    if (came)
        fprintf(stderr, "shoal sim: interrupted: %s\n",
                status == SHOAL_OK ? "what it writes is whole" : "nothing is left of it");
    return came;
}

static int run(sim_args *args, shoal_sim *sim, train_board *board)
{
    char error[1024] = "";
    shoal_status status = sim_live_run(&args->live, args->desc.until_s > 0);
    sim_live_end(&args->live);
    if (is_interrupted(status))
        return CLI_FAILED;
    if (status == SHOAL_EIO || status == SHOAL_EINVAL || status == SHOAL_ENOTSUP)
        return cli_report("sim"); /* that is not how a job ends */
    if (status != SHOAL_OK)
        snprintf(error, sizeof error, "%s", shoal_last_error()->text);
    sim_report report = {.desc = &args->desc,
                         .sim = sim,
                         .results = {.size = sizeof report.results},
                         .workers = count_workers(sim),
                         .error = status != SHOAL_OK ? error : NULL};
    if (shoal_sim_results_get(sim, &report.results) != SHOAL_OK)
        return cli_report("sim");
    train_board_lines(board, args->files.out, report.workers);
    report.spectral_gap = spectral_gap(args, report.workers, report.results.params);
    int code = cli_exit_code(status);
    if (args->pictures != NULL && !sim_draw(&report, args->pictures))
        return cli_fail("sim", "--pictures %s: %s", args->pictures, strerror(errno));
    if (args->json && sim_print_json(&report) != CLI_OK)
        code = CLI_FAILED;
    else if (!args->json)
        print_text(args, &report);
    if (status != SHOAL_OK)
        said(SAID_ERROR, "sim", "%s", error);
    return code;
}

/* What cannot be written is refused before anything runs, and before there is a run folder, which
 * would be in the way of the next attempt. */
static int run_kept(sim_args *args, shoal_sim *sim)
{
    train_board *board = NULL;
    if (!sim_live_begin(&args->live, &args->train, sim))
        return CLI_USAGE;
    if (!train_board_open("sim", args->tensorboard, args->files.out, false, true, &board))
        return CLI_USAGE;
    if (keep(args, sim) != SHOAL_OK) {
        (void)train_board_close(board);
        return cli_report("sim");
    }
    if (args->pictures != NULL && gnuplot_missing() != NULL) {
        (void)train_board_close(board);
        return cli_fail("sim", "--pictures %s: %s", args->pictures, gnuplot_missing());
    }
    if (args->pictures != NULL && !sim_may_draw(args->pictures)) {
        const int error = errno;
        (void)train_board_close(board);
        return cli_fail("sim", "--pictures %s: %s", args->pictures, strerror(error));
    }
    const int code = run(args, sim, board);
    return train_board_close(board) || code != CLI_OK ? code : CLI_FAILED;
}

/* What training and simulation say twice. */
static shoal_status create(sim_args *args, shoal_sim **sim_out)
{
    shoal_train_desc *t = &args->train;
    const shoal_sim_desc *d = &args->desc;
    t->sync = d->sync;
    t->collective = d->collective;
    t->codec = d->codec;
    t->model = d->model;
    if (t->data == NULL)
        return shoal_sim_create(d, sim_out);
    t->model = d->model != NULL ? d->model : "lenet";
    t->bucket_bytes = d->bucket_bytes;
    t->seed = d->seed;
    return shoal_train_in_virtual_time(t, d, sim_out);
}

/* NULL: fine, else what does not go together. */
static const char *contradiction(const sim_args *args)
{
    const shoal_train_desc *t = &args->train;
    bool about_training = t->batch > 0 || t->epochs > 0 || t->lr > 0 || t->optimizer != NULL ||
                          t->schedule != NULL || t->no_evaluation;
    if (args->desc.cluster != NULL && args->desc.network != NULL)
        return "either --cluster or --network says what the links do";
    if (t->data == NULL && about_training)
        return "--batch, --epochs, --lr, --optimizer, --schedule and --no-eval are about training: "
               "add --data";
    if (t->data != NULL && (args->desc.problem != NULL || args->one.count > 0))
        return "--data brings real gradients: without --problem and --params";
    if (args->files.out != NULL && args->files.out[0] == '\0')
        return "--out: the name of a folder is empty";
    if (args->files.trace != NULL && args->files.trace[0] == '\0')
        return "--trace: the name of a file is empty";
    if (args->tensorboard != NULL && args->files.out == NULL)
        return "--tensorboard is made of a run folder: add --out";
    if (args->live.options.token_file != NULL && args->live.options.address == NULL)
        return "--metrics-token-file says nothing without --metrics";
    if (args->desc.iterations > 0 && t->epochs > 0)
        return "either --iterations or --epochs says how long";
    return NULL;
}

static int simulate(sim_args *args)
{
    shoal_sim *sim;
    if (contradiction(args) != NULL)
        return cli_usage("sim", "%s", contradiction(args));
    if (!sim_live_fit(&args->live))
        return CLI_USAGE;
    if (args->train.data == NULL && args->desc.iterations == 0)
        args->desc.iterations = 100;
    if (args->one.count > 0) {
        args->desc.tensors = &args->one;
        args->desc.tensor_count = 1;
    }
    if (create(args, &sim) != SHOAL_OK)
        return cli_report("sim");
    interrupt_begin(stop, sim); /* before there is a folder */
    const int code = run_kept(args, sim);
    const int came = interrupt_end();
    sim_live_end(&args->live);
    shoal_sim_destroy(sim);
    if (came != 0)
        (void)raise(came);
    return code;
}

int cli_sim(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        NULL,
        "Run a whole training job in virtual time: protocols as they are, links and workers as "
        "described.\v"
        "Example: 16 workers on 4 hosts, one of them four times slower than the others\n\n"
        "  shoal sim --sync hop:backup=1 --workers 16 --network links:rate=120mbit,hosts=4 \\\n"
        "    --compute fixed:ms=200,jitter=0.05,slow=3:4x --seconds 100 --timeline hop.json\n\n"
        "LeNet on digits among 8 of them, with its loss over virtual time\n\n"
        "  shoal data digits --out digits\n"
        "  shoal sim --data digits --model lenet --epochs 2 --workers 8 --sync diloco:every=32 \\\n"
        "    --network links:rate=100mbit --compute fixed:ms=50 --pictures diloco\n\n"
        "The same as a run folder, beside a real one\n\n"
        "  shoal sim --workers 4 --compute fixed:ms=20 --out runs/sim\n"
        "  shoal report runs/real runs/sim\n\n"
        "Times are virtual; the same arguments give the same run, bit for bit.",
        progress_children,
        NULL,
        NULL};
    sim_args args = {.desc = SHOAL_SIM_DESC_INIT,
                     .files = SHOAL_SIM_FILES_INIT,
                     .one = {.key = 1, .lr_scale = 1},
                     .train = SHOAL_TRAIN_DESC_INIT};
    int code = CLI_USAGE;
    if (cli_parse(&argp, argc, argv, 0, &args) == 0)
        code = simulate(&args);
    json_decref(args.given);
    return code;
}
