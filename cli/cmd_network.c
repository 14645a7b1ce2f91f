/* SPDX-License-Identifier: Apache-2.0 */
/* shoal network: LIBRA. Which bandwidth each dimension of a network should have. */
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "cli.h"
#include "gnuplot.h"
#include "network_shapes.h"
#include "network_show.h"
#include "predict_args.h"
#include "progress_show.h"
#include "shoal/network.h"
#include "whole_file.h"

enum { JOBS_MAX = 64, LIMITS_MAX = 36, SWEEP_MAX = 1000, BLOCKS_MAX = 16 };

typedef struct network_args {
    shoal_network_desc desc;
    shoal_network_job jobs[JOBS_MAX];
    shoal_predict_desc models[JOBS_MAX];
    const char *names[JOBS_MAX], *limits[LIMITS_MAX + 1];
    uint32_t limit_count;
    shoal_network_objective objective;
    const char *swept;
    double from, to;
    uint32_t points;
    const char *csv, *svg, *html, *trace, *accelerator;
    int64_t chunks;                /* 0: not simulated */
    bool energy;                   /* asked for: refused with the reason */
    int64_t npus, dimensions, top; /* --shapes and what goes with it; 0: not said */
    const char *blocks[BLOCKS_MAX];
    uint32_t block_count;
    shoal_network_shapes *shapes; /* NULL: one network */
    bool collectives, json;
} network_args;

enum {
    KEY_OVERLAP = 1000,
    KEY_RECOMPUTE,
    KEY_FIXED,
    KEY_SWEEP,
    KEY_CSV,
    KEY_SVG,
    KEY_HTML,
    KEY_ALL,
    KEY_TRACE,
    KEY_PARALLEL,
    KEY_ACCELERATOR,
    KEY_CHUNKS,
    KEY_SHAPES,
    KEY_BLOCK,
    KEY_DIMENSIONS,
    KEY_TOP
};

static const struct argp_option options[] = {
    {"network", 'n', "NET", 0,
     "LIBRA's network file (.yml), a cluster (.json), or \"ring:4, fc:8, switch:32\"", 1},
    {"cost", 'c', "COST", 0, "LIBRA's cost file (.yml), or $ per GB/s: \"2,4,57.4\"", 1},
    {"fixed-cost", KEY_FIXED, "X", 0, "$ that are paid whatever the bandwidth (0)", 1},
    {"workload", 'w', "FILE[@WEIGHT]", CLI_REPEATS, "ASTRA-sim text workload; repeat for a group",
     2},
    {"groups", 'g', "FILE|tp=N[,ep=M]", CLI_REPEATS,
     "Of the workload before it: LIBRA's communicator file, or N-way tensor parallelism, and "
     "all-to-alls among M replicas; repeat for each (tp=1, ep: all)",
     2},
    {"model", 'm', "SPEC[@WEIGHT]", CLI_REPEATS,
     "A model instead of a workload file; repeat for a group", 2},
    {"parallel", KEY_PARALLEL, "KEY=N,...", CLI_REPEATS,
     "Of the model before it, options of shoal predict: tensor=8,pipeline=4,batch=64,sequence; "
     "repeat for each",
     2},
    {"accelerator", KEY_ACCELERATOR, "FILE", 0,
     "Cluster file whose first host's accelerator computes the models (--network, if a cluster)",
     2},
    {"overlap", KEY_OVERLAP, NULL, 0, "Weight gradients travel while input gradients do", 2},
    {"recompute", KEY_RECOMPUTE, NULL, 0, "Forward collectives run twice", 2},
    {"shapes", KEY_SHAPES, "N", 0,
     "Instead of --network: look for the dimensions of N accelerators, too, made of --block", 3},
    {"block", KEY_BLOCK, "KIND:KEYS", CLI_REPEATS,
     "What a dimension may be, inner ones first: ring, fc or switch with least=, most= members, "
     "cost=$ per GB/s, rate=GB/s at most; repeat for more",
     3},
    {"dimensions", KEY_DIMENSIONS, "N", 0, "Dimensions of a shape at most (4)", 3},
    {"top", KEY_TOP, "N", 0, "Shapes to show (5)", 3},
    {"objective", 'o', "NAME", 0, "perf, perf-per-cost, or cost (with time <= ..) (perf)", 3},
    {"limit", 'l', "TEXT", CLI_REPEATS,
     "\"sum == 500\", \"b0 >= b1\", \"b2 + b3 == 200\", \"cost <= 1e7\", \"time <= 2e8\"; repeat "
     "for more",
     3},
    {"sweep", KEY_SWEEP, "sum|cost=FROM:TO:POINTS", 0,
     "Solve for each total (sum ==) or budget (cost <=, the Pareto front)", 3},
    {"chunks", KEY_CHUNKS, "N", 0,
     "Simulate collectives in N chunks: one order of the dimensions for all, or each its own", 3},
    {"collectives", KEY_ALL, NULL, 0, "List each collective with its volume per dimension", 4},
    {"csv", KEY_CSV, "FILE", 0, "Write the sweep as a table", 4},
    {"svg", KEY_SVG, "FILE", 0, "Draw the sweep", 4},
    {"html", KEY_HTML, "FILE", 0, "Write a page with plots and table of the sweep", 4},
    {"trace", KEY_TRACE, "FILE.et", 0, "Write the first workload as a Chakra trace", 4},
    {"json", 'j', NULL, 0, "One JSON object", 4},
    {0}};

static bool parse_double(const char *text, char after, double *out, const char **rest)
{
    char *end = NULL;
    *out = strtod(text, &end);
    *rest = end + 1;
    return end != text && *end == after && isfinite(*out);
}

static bool parse_sweep(const char *text, network_args *args)
{
    const char *rest = strchr(text, '=');
    int64_t points = 0;
    bool money = strncmp(text, "cost=", 5) == 0;
    if (rest == NULL || (!money && strncmp(text, "sum=", 4) != 0))
        return false;
    if (!parse_double(rest + 1, ':', &args->from, &rest) ||
        !parse_double(rest, ':', &args->to, &rest) || !cli_parse_int(rest, 2, SWEEP_MAX, &points))
        return false;
    args->swept = money ? "cost" : "sum";
    args->points = (uint32_t)points;
    return args->from > 0 && args->to > args->from;
}

/* "file@2" weighs 2; the text is ours to cut. */
static bool add_job(network_args *args, char *text, bool model)
{
    char *at = strrchr(text, '@');
    double weight = 1;
    const char *rest;
    uint32_t i = args->desc.job_count;
    if (i == JOBS_MAX)
        return false;
    if (at != NULL && parse_double(at + 1, '\0', &weight, &rest))
        *at = '\0';
    args->names[i] = text;
    args->jobs[i] = (shoal_network_job){text, NULL, weight, NULL};
    if (model) {
        args->models[i] = (shoal_predict_desc)SHOAL_PREDICT_DESC_INIT;
        args->models[i].model = text;
        args->jobs[i].workload = NULL;
        args->jobs[i].model = &args->models[i];
    }
    args->desc.job_count++;
    return true;
}

/* "tensor=8,sequence" into the last model; the text is ours to cut. */
static bool set_parallel(network_args *args, char *text)
{
    static const char *const known[] = {
        "tensor", "pipeline", "batch",     "microbatch", "interleave", "recompute",    "sequence",
        "zero",   "experts",  "attention", "no-head",    "no-scatter", "element-bytes"};
    if (args->desc.job_count == 0 || args->jobs[args->desc.job_count - 1].model == NULL)
        return false;
    char *rest = NULL;
    for (char *key = strtok_r(text, ",", &rest); key != NULL; key = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(key, '=');
        size_t i = 0;
        if (value != NULL)
            *value++ = '\0';
        while (i < sizeof known / sizeof *known && strcmp(known[i], key) != 0)
            i++;
        if (i == sizeof known / sizeof *known ||
            !predict_set(&args->models[args->desc.job_count - 1], key, value))
            return false;
    }
    return true;
}

static const char *const objectives[] = {"perf", "perf-per-cost", "cost"};

static bool parse_objective(const char *text, shoal_network_objective *out)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(objectives[i], text) == 0) {
            *out = (shoal_network_objective)i;
            return true;
        }
    }
    return false;
}

/* What needs a look at the text; false: a bad value. */
static bool take(network_args *args, int key, char *text)
{
    switch (key) {
    case 'w':
    case 'm':
        return add_job(args, text, key == 'm');
    case KEY_PARALLEL:
        return set_parallel(args, text);
    case KEY_CHUNKS:
        return cli_parse_int(text, 1, 1024, &args->chunks);
    case 'g':
        if (args->desc.job_count > 0)
            args->jobs[args->desc.job_count - 1].communicator = text;
        return args->desc.job_count > 0;
    case KEY_SHAPES:
        return cli_parse_int(text, 2, 1 << 20, &args->npus);
    case KEY_BLOCK:
        if (args->block_count < BLOCKS_MAX)
            args->blocks[args->block_count++] = text;
        return args->block_count < BLOCKS_MAX;
    case KEY_DIMENSIONS:
        return cli_parse_int(text, 1, SHOAL_NETWORK_DIMS_MAX, &args->dimensions);
    case KEY_TOP:
        return cli_parse_int(text, 1, NETWORK_TOP_MAX, &args->top);
    case 'o':
        args->energy = strcmp(text, "energy") == 0;
        return args->energy || parse_objective(text, &args->objective);
    case 'l':
        if (args->limit_count < LIMITS_MAX)
            args->limits[args->limit_count++] = text;
        return args->limit_count < LIMITS_MAX;
    case KEY_SWEEP:
        return parse_sweep(text, args);
    default:
        return cli_parse_real(text, 0, 1e18, &args->desc.fixed_cost);
    }
}

static bool take_word(network_args *args, int key, const char *text)
{
    switch (key) {
    case 'n':
        args->desc.network = text;
        return true;
    case 'c':
        args->desc.cost = text;
        return true;
    case 'j':
        args->json = true;
        return true;
    case KEY_OVERLAP:
        args->desc.overlap = true;
        return true;
    case KEY_RECOMPUTE:
        args->desc.recompute = true;
        return true;
    case KEY_ALL:
        args->collectives = true;
        return true;
    case KEY_CSV:
        args->csv = text;
        return true;
    case KEY_SVG:
        args->svg = text;
        return true;
    case KEY_HTML:
        args->html = text;
        return true;
    case KEY_TRACE:
        args->trace = text;
        return true;
    case KEY_ACCELERATOR:
        args->accelerator = text;
        return true;
    default:
        return false;
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    network_args *args = state->input;
    if (take_word(args, key, text))
        return 0;
    switch (key) {
    case 'w':
    case 'm':
    case KEY_PARALLEL:
    case KEY_CHUNKS:
    case KEY_SHAPES:
    case KEY_BLOCK:
    case KEY_DIMENSIONS:
    case KEY_TOP:
    case 'g':
    case 'o':
    case 'l':
    case KEY_SWEEP:
    case KEY_FIXED:
        if (!take(args, key, text))
            cli_refuse_value(state, key, text);
        return 0;
    case ARGP_KEY_ARG:
        cli_refuse(state, "unexpected argument '%s'", text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static shoal_network_question question_of(const network_args *args,
                                          shoal_network_objective objective)
{
    shoal_network_question question = SHOAL_NETWORK_QUESTION_INIT;
    question.objective = objective;
    question.limits = args->limits;
    question.limit_count = args->limit_count + (args->swept != NULL);
    return question;
}

/* Ask one question; the answer, or with shapes up to `top` of them, goes behind the others. */
static shoal_status ask(const network_args *args, const shoal_network *network,
                        shoal_network_objective objective, double at, uint32_t top,
                        network_result *results, size_t *count)
{
    network_result *out = &results[*count];
    shoal_network_question question = question_of(args, objective);
    size_t found = 1;
    shoal_status status;
    if (args->shapes != NULL) {
        status = network_shapes_ask(args->shapes, &question, objectives[objective], at, top, out,
                                    &found);
    } else {
        *out = (network_result){.objective = objectives[objective], .at = at};
        out->answer.size = sizeof out->answer;
        double begin = network_now_us();
        status = shoal_network_solve(network, &question, &out->answer);
        out->solve_us = network_now_us() - begin;
    }
    *count += status == SHOAL_OK ? found : 0;
    return status;
}

/* Totals go up evenly, budgets by equal factors. */
static double swept_value(const network_args *args, uint32_t i)
{
    double share = (double)i / (args->points - 1);
    if (strcmp(args->swept, "cost") == 0)
        return args->from * pow(args->to / args->from, share);
    return args->from + share * (args->to - args->from);
}

/* Within a budget the shortest time is the front; time * cost has its own optimum on it. */
static shoal_status sweep(network_args *args, const shoal_network *network, bool products,
                          network_result *results, size_t *count)
{
    static char limit[64];
    args->limits[args->limit_count] = limit;
    for (uint32_t i = 0; i < args->points; i++) {
        double at = swept_value(args, i);
        snprintf(limit, sizeof limit, "%s %s %.17g", args->swept,
                 strcmp(args->swept, "cost") == 0 ? "<=" : "==", at);
        shoal_status status = ask(args, network, SHOAL_NETWORK_PERF, at, 1, results, count);
        if (status == SHOAL_OK && products)
            status = ask(args, network, SHOAL_NETWORK_PERF_PER_COST, at, 1, results, count);
        if (status != SHOAL_OK)
            return status;
    }
    return SHOAL_OK;
}

/* false: said why. */
static bool write_file(const char *path, const network_report *report,
                       const char *(*show)(FILE *, const network_report *))
{
    if (path == NULL)
        return true;
    whole_file file;
    const char *why = NULL;
    bool good = true;
    if (strcmp(path, "-") == 0) {
        why = show(stdout, report);
        good = ferror(stdout) == 0;
    } else if ((good = whole_file_begin(&file, path))) {
        why = show(file.out, report);
        good = whole_file_end(&file, why == NULL);
    }
    if (why != NULL)
        return cli_fail("network", "cannot draw %s: %s", path, why) == CLI_OK;
    if (!good)
        (void)cli_fail("network", "cannot write %s: %s", path, strerror(errno));
    return good;
}

static int show(const network_args *args, const network_report *report)
{
    bool to_stdout = args->csv != NULL && strcmp(args->csv, "-") == 0;
    int code = CLI_OK;
    if (!write_file(args->svg, report, network_show_svg) ||
        !write_file(args->html, report, network_show_html) ||
        (!to_stdout && !write_file(args->csv, report, network_show_csv)))
        return CLI_FAILED;
    if (args->json)
        code = network_show_json(report);
    else if (!to_stdout)
        network_show_text(stdout, report);
    if (args->collectives && !args->json)
        network_show_collectives(stdout, report);
    return !to_stdout || write_file(args->csv, report, network_show_csv) ? code : CLI_FAILED;
}

/* Chunks on the bandwidths found, and on as much evenly spread. */
static shoal_status simulate(const shoal_network *network, uint32_t dims, uint32_t chunks,
                             network_result *result)
{
    double even[SHOAL_NETWORK_DIMS_MAX] = {0}, sum = 0;
    for (uint32_t d = 0; d < dims; d++)
        sum += result->answer.bandwidth[d];
    for (uint32_t d = 0; d < dims; d++)
        even[d] = sum / dims;
    result->found.size = result->even.size = sizeof result->found;
    shoal_status status = shoal_network_schedule_at(network, result->answer.bandwidth, chunks,
                                                    &result->found);
    return status != SHOAL_OK ? status
                              : shoal_network_schedule_at(network, even, chunks, &result->even);
}

/* Of each shape on its own network. */
static shoal_status simulate_all(const network_args *args, const shoal_network *network,
                                 network_result *results, network_report *report)
{
    report->chunks = (uint32_t)args->chunks;
    if (!report->shapes)
        return simulate(network, report->info.dims, report->chunks, &results[0]);
    shoal_status status = SHOAL_OK;
    for (size_t i = 0; status == SHOAL_OK && i < report->count; i++) {
        shoal_network *one = NULL;
        status = network_shapes_open(&args->desc, &results[i].shape, !isnan(results[i].answer.cost),
                                     &one);
        if (status == SHOAL_OK)
            status = simulate(one, results[i].shape.dims, report->chunks, &results[i]);
        shoal_network_close(one);
    }
    return status;
}

/* What goes with --shapes, and what does not. */
static int check_shapes(const network_args *args)
{
    const bool other = args->block_count > 0 || args->dimensions > 0 || args->top > 0;
    if (args->npus == 0 && other)
        return cli_usage("network", "--block, --dimensions and --top belong to --shapes");
    if (args->npus > 0 && args->block_count == 0)
        return cli_usage("network", "--shapes needs a --block: what a dimension may be");
    if (args->npus > 0 && args->desc.cost != NULL)
        return cli_usage("network",
                         "with --shapes costs are the blocks' (cost=): leave --cost out");
    if (args->swept != NULL && args->top > 0)
        return cli_usage("network", "--sweep shows the best shape of each: leave --top out");
    return CLI_OK;
}

/* A cluster's own accelerator computes, unless another one is named. */
static int check(network_args *args)
{
    const char *net = args->desc.network, *end = net != NULL ? strrchr(net, '.') : NULL;
    uint32_t models = 0;
    if ((net == NULL) == (args->npus == 0) || args->desc.job_count == 0)
        return cli_usage("network", "a design needs --network (or --shapes, not both) and at least "
                                    "one --workload or --model");
    int code = check_shapes(args);
    if (code != CLI_OK)
        return code;
    if (args->energy)
        return cli_usage("network",
                         "--objective energy: a design has bandwidths and what they cost, "
                         "and no watts; `shoal predict --objective energy` knows those of "
                         "accelerators");
    if (args->swept == NULL && (args->svg != NULL || args->html != NULL))
        return cli_usage("network", "--svg and --html draw a --sweep");
    if (args->svg != NULL && gnuplot_missing() != NULL)
        return cli_fail("network", "--svg %s: %s", args->svg, gnuplot_missing());
    if (args->swept != NULL && args->chunks > 0 && args->npus == 0)
        return cli_usage("network", "--chunks simulates one design, and --sweep asks for many "
                                    "(with --shapes: each one's best)");
    if (args->accelerator == NULL && end != NULL && strcmp(end, ".json") == 0)
        args->accelerator = net;
    for (uint32_t i = 0; i < args->desc.job_count; i++) {
        args->models[i].cluster = args->accelerator;
        models += args->jobs[i].model != NULL;
    }
    if (models > 0 && args->accelerator == NULL)
        return cli_usage("network", "--model needs --accelerator FILE: what computes it");
    if (models == 0 && args->accelerator != NULL && args->accelerator != net)
        return cli_usage("network", "--accelerator computes a --model, and there is none");
    return CLI_OK;
}

/* The network, or the shapes of which one is looked for. */
static shoal_status open_it(network_args *args, shoal_network **network)
{
    shoal_network_space space = SHOAL_NETWORK_SPACE_INIT;
    if (args->npus == 0)
        return shoal_network_open(&args->desc, network);
    space.npus = (uint64_t)args->npus;
    space.blocks = args->blocks;
    space.block_count = args->block_count;
    if (args->dimensions > 0)
        space.dims_max = (uint32_t)args->dimensions;
    return shoal_network_shapes_open(&args->desc, &space, &args->shapes);
}

/* All questions; with shapes the first answer's network stands for the others in the report. */
static shoal_status ask_all(network_args *args, shoal_network **network, network_result *results,
                            network_report *report)
{
    const uint32_t top = args->top > 0 ? (uint32_t)args->top : 5;
    const bool sums = args->swept != NULL && strcmp(args->swept, "sum") == 0;
    bool products = sums && args->shapes == NULL && report->info.has_cost;
    shoal_status status = args->swept != NULL
                              ? sweep(args, *network, products, results, &report->count)
                              : ask(args, *network, args->objective, 0, top, results,
                                    &report->count);
    if (status != SHOAL_OK || args->shapes == NULL)
        return status;
    const shoal_network_shape *first = &results[0].shape;
    status = network_shapes_open(&args->desc, first, !isnan(results[0].answer.cost), network);
    return status == SHOAL_OK ? shoal_network_describe(*network, &report->info) : status;
}

static int run(network_args *args)
{
    shoal_network *network = NULL;
    network_report report = {.info = {.size = sizeof report.info},
                             .jobs = args->names,
                             .job_count = args->desc.job_count,
                             .swept = args->swept,
                             .shapes = args->npus > 0};
    network_result *results = calloc(2 * SWEEP_MAX, sizeof *results);
    progress_begin("network", "designs", false, "nothing was found yet");
    shoal_status status = results == NULL ? SHOAL_ENOMEM : open_it(args, &network);
    if (status == SHOAL_OK && network != NULL)
        status = shoal_network_describe(network, &report.info);
    if (status == SHOAL_OK)
        status = ask_all(args, &network, results, &report);
    if (status == SHOAL_OK && args->trace != NULL)
        status = shoal_network_save_trace(network, 0, args->trace);
    if (status == SHOAL_OK && args->chunks > 0)
        status = simulate_all(args, network, results, &report);
    progress_end();
    report.network = network;
    report.results = results;
    int code = status == SHOAL_OK ? show(args, &report) : cli_report("network");
    shoal_network_close(network);
    shoal_network_shapes_close(args->shapes);
    free(results);
    return code;
}

int cli_network(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        NULL,
        "Find the bandwidth of each dimension of a network that makes training steps shortest, or "
        "shortest for their price, and prove it.\v"
        "Example, with the files of examples/network:\n"
        "  shoal network -n 4d.yml -c 4d-cost.yml -w gpt3.txt -g tp=16 -l 'sum == 500'\n"
        "  shoal network -n 4d.yml -c 4d-cost.yml -w gpt3.txt -g tp=16 "
        "--sweep cost=1e6:5e7:20 --html front.html\n"
        "  shoal network -n 'fc:8, switch:64' --accelerator ../clusters/a100-80g.json --model "
        "megatron-22b\n"
        "    --parallel tensor=8,batch=64 -l 'sum == 500' --chunks 64\n"
        "  shoal network --shapes 4096 --block ring:most=16,cost=2 --block fc:most=16,cost=4\n"
        "    --block switch:most=64,cost=57.4,rate=100 -w gpt3.txt -g tp=16 -l 'cost <= 1e7'\n\n"
        "Bandwidths are GB/s of one accelerator, times ns. docs/network.md has the formulas.",
        progress_children,
        NULL,
        NULL};
    static network_args args;
    args = (network_args){.desc = SHOAL_NETWORK_DESC_INIT};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    args.desc.jobs = args.jobs;
    int code = check(&args);
    return code == CLI_OK ? run(&args) : code;
}
