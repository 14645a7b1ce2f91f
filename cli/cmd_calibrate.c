/* SPDX-License-Identifier: Apache-2.0 */
/* shoal calibrate: measures machine and network and writes a cluster file; or fits one to measured
 * steps. Starts its own ranks unless a launcher did: all compute at once, so that what is measured
 * is a busy machine. */
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "answer.h"
#include "arguments.h"
#include "calibrate_fit.h"
#include "cli.h"
#include "launch.h"
#include "predict_args.h"
#include "progress_show.h"

typedef struct calibrate_args {
    launch_desc launch;
    lab_desc lab;
    shoal_calibrate_desc desc;
    const char *out;
    fit_args fit;
    double budget_ms;
    bool bad, json, probe, seeded;
} calibrate_args;

static const struct argp_option options[] = {
    {"ranks", 'N', "N", 0, "Ranks to start here (one per core; ignored under a launcher)", 0},
    {"lab", 'l', "SPEC", 0, "Emulate a network: rate=1gbit,... (see shoal run --help)", 0},
    {"models", 'm', "LIST", 0, "Time training steps of these models: lenet,mlp", 0},
    {"batches", 'b', "LIST", 0, "With these batches each (64)", 0},
    {"codecs", 'k', "LIST", 0, "Time these codecs (fp16,bf16)", 0},
    {"budget-ms", 't', "MS", 0, "Time of each measurement (50)", 0},
    {"name", 'n', "NAME", 0, "Of the cluster (measured)", 0},
    {"out", 'o', "FILE", 0, "Where the cluster goes (cluster.json)", 0},
    {"fit", 'f', "CSV", 0,
     "Fit --cluster to measured steps: a column per option of shoal predict, and seconds", 0},
    {"cluster", 'C', "FILE", 0, "What to fit", 0},
    {"hold", 'H', "SHARE", 0,
     "Of the rows: predicted, not fitted (a quarter from eight rows on, else none)", 0},
    {"seed", 'S', "N", 0, "Which rows are held out (1)", 0},
    {"probe", 'p', NULL, 0, "Only time one matrix product: FLOP/s, to notice a drift", 0},
    {"json", 'j', NULL, 0, "Print what was found as one JSON object", 0},
    {0}};

static error_t parse_seed(calibrate_args *args, const char *text, struct argp_state *state)
{
    int64_t number = 0;
    if (!cli_parse_int(text, 0, INT64_MAX, &number))
        cli_refuse(state, "--seed %s: wanted a whole number from 0", text);
    args->fit.seed = (uint64_t)number;
    args->seeded = true;
    return 0;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    calibrate_args *args = state->input;
    int64_t number = 0;
    switch (key) {
    case 'N':
        if (!cli_parse_int(text, 1, 256, &number))
            cli_refuse(state, "--ranks %s: wanted a whole number from 1 to 256", text);
        args->launch.ranks = (uint32_t)number;
        return 0;
    case 'l':
        args->launch.lab = &args->lab;
        args->bad = args->bad || !lab_parse("calibrate", text, &args->lab);
        return 0;
    case 't':
        if (!cli_parse_real(text, 1, 60000, &args->budget_ms))
            cli_refuse(state, "--budget-ms %s: wanted milliseconds from 1 to 60000", text);
        return 0;
    case 'm':
        args->desc.models = text;
        return 0;
    case 'b':
        args->desc.batches = text;
        return 0;
    case 'k':
        args->desc.codecs = text;
        return 0;
    case 'n':
        args->desc.name = text;
        return 0;
    case 'o':
        args->out = text;
        return 0;
    case 'f':
        args->fit.csv = text;
        return 0;
    case 'C':
        args->fit.cluster = text;
        return 0;
    case 'H':
        if (!cli_parse_real(text, 0, 0.9, &args->fit.hold))
            cli_refuse(state, "--hold %s: wanted a share from 0 to 0.9", text);
        return 0;
    case 'S':
        return parse_seed(args, text, state);
    case 'p':
        args->probe = true;
        return 0;
    case 'j':
        args->json = true;
        return 0;
    case ARGP_KEY_ARG:
        cli_refuse(state, "unexpected argument '%s'", text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ------------------------------------------------------------------ between ranks */

enum { TRIES = 9, MAX_ELEMS = 8 << 20 };

typedef struct net {
    shoal_comm *comm;
    uint32_t rank, ranks;
    float *buf;
} net;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double cpu_s(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One operation; its time on this rank. */
static shoal_status once(const net *n, shoal_op_desc desc, double *seconds_out)
{
    shoal_op *op = NULL;
    desc.buf = n->buf;
    double start = now_s();
    shoal_status status = shoal_op_start(n->comm, &desc, &op);
    if (status == SHOAL_OK)
        status = shoal_op_wait(&op, -1, NULL);
    *seconds_out = now_s() - start;
    return status;
}

/* Median over tries, largest over ranks; *spread_out relative. All ranks call it, those that are
 * not members wait. */
static shoal_status time_op(const net *n, const shoal_op_desc *desc, bool member, double *median,
                            double *spread_out)
{
    double times[TRIES] = {0};
    for (int i = 0; i < TRIES; i++) {
        shoal_status status = shoal_barrier(n->comm);
        if (status == SHOAL_OK && member)
            status = once(n, *desc, &times[i]);
        if (status != SHOAL_OK)
            return status;
    }
    qsort(times, TRIES, sizeof *times, by_size);
    float agreed = (float)times[TRIES / 2];
    shoal_op *op = NULL;
    shoal_op_desc max = SHOAL_OP_DESC_INIT;
    max.buf = &agreed;
    max.count = 1;
    max.reduce = SHOAL_MAX;
    max.label = "agree on a time";
    shoal_status status = shoal_op_start(n->comm, &max, &op);
    if (status == SHOAL_OK)
        status = shoal_op_wait(&op, -1, NULL);
    *median = (double)agreed;
    *spread_out = agreed > 0 ? (times[3 * TRIES / 4] - times[TRIES / 4]) / (double)agreed / 1.35
                             : 0;
    return status;
}

/* Start and rounds of an operation: all ranks, one element, by a ring and directly. */
static shoal_status measure_starts(const net *n, shoal_calibrate_network *out)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    double ring, direct, spread;
    desc.count = 1;
    desc.label = "calibrate start";
    desc.collective = "ring";
    shoal_status status = time_op(n, &desc, true, &ring, &spread);
    desc.collective = "direct";
    if (status == SHOAL_OK)
        status = time_op(n, &desc, true, &direct, &spread);
    if (status != SHOAL_OK)
        return status;
    double rounds = 2.0 * (n->ranks - 1);
    out->round_s = rounds > 2 ? fmax(0, (ring - direct) / (rounds - 2)) : ring / 4;
    out->operation_s = fmax(0, direct - 2 * out->round_s);
    return SHOAL_OK;
}

/* One way between two ranks: a broadcast that takes about a fifth of a second. */
static shoal_status measure_link(const net *n, uint32_t from, uint32_t to, double *rate,
                                 double *latency, double *spread)
{
    const uint32_t members[2] = {from, to};
    bool member = n->rank == from || n->rank == to;
    double small, large, ignored;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.kind = SHOAL_BROADCAST;
    desc.collective = "broadcast";
    desc.members = members;
    desc.member_count = 2;
    desc.label = "calibrate link";
    desc.count = 1;
    shoal_status status = time_op(n, &desc, member, &small, &ignored);
    desc.count = 65536;
    if (status == SHOAL_OK)
        status = time_op(n, &desc, member, &large, &ignored);
    if (status != SHOAL_OK)
        return status;
    double guess = 65536 / fmax(large - small, 1e-6) * 0.02;
    desc.count = (size_t)fmin(fmax(guess, 65536), MAX_ELEMS);
    status = time_op(n, &desc, member, &large, spread);
    *rate = 4.0 * (double)desc.count / fmax(large - small, 1e-9);
    *latency = small / 2;
    return status;
}

/* Processor time of moving bytes: a ring among all, sent plus received. */
static shoal_status measure_cpu(const net *n, double rate, shoal_calibrate_network *out)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    double seconds, cpu = 0, moved = 0;
    desc.count = (size_t)fmin(fmax(0.05 * rate / 4, 65536), MAX_ELEMS);
    desc.label = "calibrate processor";
    for (int i = 0; i < 4; i++) {
        shoal_status status = shoal_barrier(n->comm);
        double start = cpu_s();
        if (status == SHOAL_OK)
            status = once(n, desc, &seconds);
        if (status != SHOAL_OK)
            return status;
        cpu += cpu_s() - start;
        moved += 2 * 4.0 * (double)desc.count * 2 * (n->ranks - 1) / n->ranks;
    }
    out->cpu_s_per_byte = cpu / moved;
    return SHOAL_OK;
}

typedef struct found {
    uint32_t from, to;
    double rate, latency, spread;
} found;

static shoal_status measure_network(const net *n, const calibrate_args *args, found *links,
                                    shoal_calibrate_network *out)
{
    size_t used = 0;
    double slowest = INFINITY;
    shoal_status status = measure_starts(n, out);
    for (uint32_t from = 0; status == SHOAL_OK && from < n->ranks; from++)
        for (uint32_t to = 0; status == SHOAL_OK && to < n->ranks; to++) {
            if (from == to)
                continue;
            progress_at((double)used, (double)n->ranks * (n->ranks - 1), NULL);
            found *link = &links[used++];
            *link = (found){.from = from, .to = to};
            status = measure_link(n, from, to, &link->rate, &link->latency, &link->spread);
            slowest = fmin(slowest, link->rate);
            out->spread = fmax(out->spread, link->spread);
        }
    if (status == SHOAL_OK)
        status = measure_cpu(n, slowest, out);
    double configured = args->launch.lab != NULL ? (double)lab_usual_bits(&args->lab) / 8 : 0;
    out->nic_bytes_per_s = configured > 0 ? configured : slowest;
    out->payload_share = configured > 0 ? slowest / configured : 1;
    out->hosts = n->ranks;
    out->cores = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    return status;
}

static int print_found(const calibrate_args *args, const shoal_calibrate_network *network)
{
    if (!args->json) {
        printf("%s: %u ranks, slowest link %.4g B/s x %.4f, an operation %.1f us, a round %.1f us, "
               "%.3f processor-s/GB\n",
               args->out, network->hosts, network->nic_bytes_per_s, network->payload_share,
               1e6 * network->operation_s, 1e6 * network->round_s, 1e9 * network->cpu_s_per_byte);
        return CLI_OK;
    }
    json_t *answer = json_object();
    answer_set_text(answer, "out", args->out);
    answer_set_count(answer, "ranks", network->hosts);
    answer_set_number(answer, "nic_bytes_per_s", network->nic_bytes_per_s);
    answer_set_number(answer, "payload_share", network->payload_share);
    answer_set_number(answer, "operation_us", 1e6 * network->operation_s);
    answer_set_number(answer, "round_us", 1e6 * network->round_s);
    answer_set_number(answer, "cpu_s_per_gb", 1e9 * network->cpu_s_per_byte);
    return answer_print("calibrate", answer);
}

/* ------------------------------------------------------------------ one rank */

static shoal_status write_cluster(const calibrate_args *args, shoal_calibration *calibration,
                                  const shoal_calibrate_network *network, const found *links)
{
    shoal_status status = SHOAL_OK;
    if (network->hosts > 1)
        status = shoal_calibrate_set_network(calibration, network);
    size_t count = (size_t)network->hosts * (network->hosts - 1);
    /* In a lab the links are alike and stand in "nic"; elsewhere each is its own. */
    for (size_t i = 0; status == SHOAL_OK && i < count && args->launch.lab == NULL; i++)
        status = shoal_calibrate_add_link(calibration, links[i].from, links[i].to, links[i].rate,
                                          links[i].latency, links[i].spread);
    if (status == SHOAL_OK)
        status = shoal_calibrate_save(calibration, args->out);
    return status;
}

static shoal_status measure_rank(const calibrate_args *args, net *n)
{
    shoal_calibration *calibration = NULL;
    shoal_calibrate_network network = {.size = sizeof network, .hosts = 1};
    shoal_status status = shoal_barrier(n->comm);
    found *links = calloc((size_t)n->ranks * n->ranks + 1, sizeof *links);
    n->buf = calloc(MAX_ELEMS, sizeof *n->buf);
    if (n->buf == NULL || links == NULL)
        status = SHOAL_ENOMEM;
    if (n->rank == 0)
        progress_begin("calibrate", "links", false,
                       cli_under_launcher() ? NULL : "nothing was written");
    if (status == SHOAL_OK)
        status = shoal_calibrate_open(&args->desc, &calibration);
    if (status == SHOAL_OK)
        status = shoal_barrier(n->comm);
    if (status == SHOAL_OK && n->ranks > 1)
        status = measure_network(n, args, links, &network);
    progress_end();
    if (status == SHOAL_OK && n->rank == 0)
        status = write_cluster(args, calibration, &network, links);
    if (status == SHOAL_OK && n->rank == 0 && print_found(args, &network) != CLI_OK)
        status = SHOAL_ENOMEM;
    shoal_calibrate_close(calibration);
    free(n->buf);
    free(links);
    return status;
}

static int rank_main(const calibrate_args *args)
{
    net n = {0};
    shoal_comm_desc desc = SHOAL_COMM_DESC_INIT;
    shoal_view view = {.size = sizeof view};
    if (!cli_under_launcher()) {
        desc.rank = 0;
        desc.world_size = 1;
    }
    shoal_status status = shoal_comm_create(&desc, &n.comm);
    if (status == SHOAL_OK)
        status = shoal_comm_view(n.comm, &view);
    n.rank = view.rank;
    n.ranks = view.rank_count;
    if (status == SHOAL_OK)
        status = measure_rank(args, &n);
    int code = status == SHOAL_OK ? CLI_OK : cli_report("calibrate");
    shoal_comm_destroy(n.comm);
    return code;
}

/* Before minutes of measuring: whether what is found can be kept. */
static bool can_keep(const char *path)
{
    struct stat info;
    bool good = cli_may_create(path) && (stat(path, &info) == 0 || errno == ENOENT);
    if (!good)
        (void)cli_fail("calibrate", "cannot write --out %s: %s", path, strerror(errno));
    else if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        (void)cli_fail("calibrate", "cannot write --out %s: it is there, and no regular file",
                       path);
        good = false;
    }
    return good;
}

static int run_args(void *input, char **command)
{
    calibrate_args *args = input;
    if (args->bad)
        return CLI_USAGE;
    args->desc.budget_s = 1e-3 * args->budget_ms;
    args->launch.argv = command;
    args->launch.itself = true;
    args->launch.quiet = true;
    if (args->probe)
        return printf("%.6g\n", shoal_calibrate_probe()) > 0 ? CLI_OK : CLI_FAILED;
    if (args->fit.cluster != NULL && args->fit.csv == NULL)
        return cli_usage("calibrate",
                         "--cluster FILE says nothing without --fit CSV, which fits it");
    if ((args->fit.hold >= 0 || args->seeded) && args->fit.csv == NULL)
        return cli_usage("calibrate", "--hold and --seed are for --fit CSV: they choose its rows");
    args->fit.out = args->out;
    args->fit.json = args->json;
    if (args->fit.csv != NULL)
        return calibrate_fit(&args->fit);
    if (!can_keep(args->out))
        return CLI_FAILED;
    if (cli_under_launcher() || args->launch.ranks == 1)
        return rank_main(args);
    return launch_run(&args->launch);
}

int cli_calibrate(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "",
        "Measure this machine and its network, and write a cluster file.\v"
        "Example: shoal calibrate --ranks 4 --lab rate=250mbit --models lenet,mlp --out lab.json\n"
        "         shoal calibrate --fit measured.csv --cluster a100.json --out fitted.json\n\n"
        "A CSV's first line names options of shoal predict (model,workers,tensor,batch,...) and "
        "seconds; each further line is one measured configuration.",
        progress_children,
        NULL,
        NULL};
    calibrate_args args = {.launch = {.verb = "calibrate", .grace_s = 10},
                           .desc = SHOAL_CALIBRATE_DESC_INIT,
                           .out = "cluster.json",
                           .fit = {.hold = -1, .seed = 1},
                           .budget_ms = 50};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    args.launch.ranks = cores > 1 ? (uint32_t)(cores < 256 ? cores : 256) : 1;
    return cli_parse_and_run("calibrate", &argp, argc, argv, &args, run_args);
}
