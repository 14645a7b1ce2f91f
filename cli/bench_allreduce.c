/* SPDX-License-Identifier: Apache-2.0 */
/* shoal bench allreduce: times the all-reduce in nccl-tests' columns; starts its own ranks unless a
 * launcher did. */
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "answer.h"
#include "arguments.h"
#include "bench.h"
#include "bench_sparse.h"
#include "cli.h"
#include "launch.h"
#include "progress_show.h"
#include "shoal/codec.h"

enum { MAX_ITERATIONS = 10000 };

typedef struct bench_args {
    launch_desc launch;
    lab_desc lab;
    uint64_t min_bytes, max_bytes, step_factor, line_bits;
    int64_t iterations, warmup;
    const char *collective, *codec, *transport;
    double density;
    bool overlap;
    bool json, check, bad;
} bench_args;

enum { KEY_NO_CHECK = 1000, KEY_OVERLAP, KEY_COLOCATE, KEY_IN_SWITCH };

static const struct argp_option options[] = {
    {"ranks", 'N', "N", 0, "Ranks to start here (4; ignored under a launcher)", 0},
    {"lab", 'l', "SPEC", 0, "Emulate a network: rate=1gbit,... (see shoal run --help)", 0},
    {"size", 's', "BYTES", 0, "One size (64k, 16M)", 0},
    {"minbytes", 'b', "BYTES", 0, "Smallest size (64k)", 0},
    {"maxbytes", 'e', "BYTES", 0, "Largest size (64M)", 0},
    {"stepfactor", 'f', "K", 0, "Each size is K times the one before (4)", 0},
    {"iters", 'n', "K", 0, "Timed operations per size (5)", 0},
    {"warmup", 'w', "K", 0, "Operations before them (1)", 0},
    {"collective", 'c', "SPEC", 0,
     "ring, ring:both, halving_doubling, direct, omnireduce:block=256, ... (ring)", 0},
    {"density", 'd', "SHARE", 0, "Share of blocks that are not zero, at random places (1)", 0},
    {"overlap", KEY_OVERLAP, NULL, 0, "The same blocks at all workers", 0},
    {"aggregators", 'a', "A", 0,
     "Daemons to start beside the ranks, for collectives with 'dedicated' (0)", 0},
    {"colocate", KEY_COLOCATE, NULL, 0, "In the lab: the daemons on the hosts of the ranks", 0},
    {"in-switch", KEY_IN_SWITCH, "auto|on|off", 0,
     "In the lab: the daemons on its switch, summing in its kernel (shoal run --help)", 0},
    {"codec", 'k', "SPEC", 0, "identity, fp16, bf16, inceptionn:bound=2^-10, ... (identity)", 0},
    {"transport", 't', "SPEC", 0, "tcp:lanes=2,shm=off (tcp)", 0},
    {"line-rate", 'r', "RATE", 0, "Link rate for the percentage (the lab's)", 0},
    {"no-check", KEY_NO_CHECK, NULL, 0, "Do not compare the results with the expected sums", 0},
    {"json", 'j', NULL, 0, "One JSON object per size instead of the table", 0},
    {0}};

static bool parse_number(bench_args *args, int key, const char *text)
{
    int64_t number = 0;
    switch (key) {
    case 'N':
        if (!cli_parse_int(text, 1, 1024, &number))
            return false;
        args->launch.ranks = (uint32_t)number;
        return true;
    case 'f':
        if (!cli_parse_int(text, 2, 1024, &number))
            return false;
        args->step_factor = (uint64_t)number;
        return true;
    case 'n':
        return cli_parse_int(text, 1, MAX_ITERATIONS, &args->iterations);
    case 'w':
        return cli_parse_int(text, 0, MAX_ITERATIONS, &args->warmup);
    case 'b':
        return cli_parse_bytes(text, &args->min_bytes) && args->min_bytes >= 4;
    case 'e':
        return cli_parse_bytes(text, &args->max_bytes) && args->max_bytes >= 4;
    case 's':
        if (!cli_parse_bytes(text, &args->min_bytes) || args->min_bytes < 4)
            return false;
        args->max_bytes = args->min_bytes;
        return true;
    case 'a':
        if (!cli_parse_int(text, 0, 1024, &number))
            return false;
        args->launch.aggregators = (uint32_t)number;
        return true;
    case 'd':
        return cli_parse_real(text, 0, 1, &args->density);
    case 'r':
        return cli_parse_rate(text, &args->line_bits);
    default:
        return false;
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    bench_args *args = state->input;
    switch (key) {
    case 'l':
        args->launch.lab = &args->lab;
        args->bad = args->bad || !lab_parse("bench", text, &args->lab);
        return 0;
    case 'c':
        args->collective = text;
        return 0;
    case 'k':
        args->codec = text;
        return 0;
    case 't':
        args->transport = text;
        return 0;
    case 'j':
        args->json = true;
        return 0;
    case KEY_NO_CHECK:
        args->check = false;
        return 0;
    case KEY_OVERLAP:
        args->overlap = true;
        return 0;
    case KEY_COLOCATE:
        args->launch.colocated = true;
        return 0;
    case KEY_IN_SWITCH:
        args->launch.in_switch = text;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num != 0) /* the first is the benchmark's name */
            cli_refuse(state, "what is '%s'?", text);
        return 0;
    case 'N':
    case 'f':
    case 'n':
    case 'w':
    case 'b':
    case 'e':
    case 's':
    case 'r':
    case 'a':
    case 'd':
        if (!parse_number(args, key, text))
            cli_refuse_value(state, key, text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ------------------------------------------------------------------ one rank */

typedef struct bench {
    const bench_args *args;
    shoal_comm *comm;
    uint32_t rank, workers, aggregators;
    bench_sparse sparse;
    bool lossless;
    float *buf;
    uint32_t size_count, sizes_done;
    double times[MAX_ITERATIONS];
} bench;

typedef struct row {
    double median_s, min_s, max_s, cpu_s, error;
    double
        wire_bytes; /* payload and headers that this rank sent per operation, largest over ranks */
    uint64_t wrong;
} row;

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Small whole numbers: their sums are exact in float32, in any order. Lossy codecs get
 * gradient-like sizes instead. */
static float value_of(const bench *b, uint32_t rank, size_t i)
{
    if (!bench_sparse_kept(&b->sparse, rank, i))
        return 0;
    int32_t whole = (int32_t)((i * 7 + (i >> 8) + rank * 13u) % 17) - 8;
    return b->lossless ? (float)whole : (float)whole * 0.004f;
}

static void fill(const bench *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        b->buf[i] = value_of(b, b->rank, i);
}

static uint64_t count_wrong(const bench *b, size_t count, double *error_out)
{
    uint64_t wrong = 0;
    double error = 0, norm = 0;
    *error_out = 0;
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (uint32_t rank = 0; rank < b->workers; rank++)
            sum += value_of(b, rank, i);
        double difference = (double)b->buf[i] - (double)sum;
        wrong += b->lossless ? difference != 0 : !isfinite(b->buf[i]);
        error += difference * difference;
        norm += (double)sum * (double)sum;
    }
    *error_out = norm > 0 ? sqrt(error / norm) : sqrt(error);
    return wrong;
}

static shoal_status reduce(const bench *b, double *value, shoal_reduce how)
{
    float number = (float)*value;
    shoal_op *op = NULL;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = &number;
    desc.count = 1;
    desc.reduce = how;
    desc.label = "bench summary";
    shoal_status status = shoal_op_start(b->comm, &desc, &op);
    if (status == SHOAL_OK)
        status = shoal_op_wait(&op, -1, NULL);
    *value = (double)number;
    return status;
}

static uint64_t sent_bytes(const bench *b)
{
    uint64_t bytes = 0;
    for (uint32_t rank = 0; rank < b->workers + b->aggregators; rank++) {
        shoal_peer_stats stats = {.size = sizeof stats};
        if (rank != b->rank && shoal_comm_peer_stats(b->comm, rank, &stats) == SHOAL_OK)
            bytes += stats.sent_wire_bytes;
    }
    return bytes;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static shoal_status all_reduce(const bench *b, size_t count)
{
    shoal_op *op = NULL;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = b->buf;
    desc.count = count;
    desc.collective = b->args->collective;
    desc.push_codec = b->args->codec;
    shoal_status status = shoal_op_start(b->comm, &desc, &op);
    return status == SHOAL_OK ? shoal_op_wait(&op, -1, NULL) : status;
}

static shoal_status time_size(bench *b, size_t count, row *row_out)
{
    int64_t n = b->args->iterations;
    shoal_status status = SHOAL_OK;
    for (int64_t i = 0; status == SHOAL_OK && i < b->args->warmup; i++) {
        fill(b, count);
        status = all_reduce(b, count);
    }
    double cpu = 0;
    uint64_t bytes = sent_bytes(b);
    for (int64_t i = 0; status == SHOAL_OK && i < n; i++) {
        if (b->rank == 0)
            progress_at((double)b->sizes_done + (double)i / (double)n, b->size_count, NULL);
        fill(b, count);
        status = shoal_barrier(b->comm);
        double start = seconds(CLOCK_MONOTONIC), cpu_start = seconds(CLOCK_PROCESS_CPUTIME_ID);
        if (status == SHOAL_OK)
            status = all_reduce(b, count);
        b->times[i] = seconds(CLOCK_MONOTONIC) - start;
        cpu += seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
        if (status == SHOAL_OK)
            status = reduce(b, &b->times[i], SHOAL_MAX);
    }
    if (status != SHOAL_OK)
        return status;
    qsort(b->times, (size_t)n, sizeof b->times[0], compare_doubles);
    *row_out = (row){.median_s = (b->times[(n - 1) / 2] + b->times[n / 2]) / 2,
                     .min_s = b->times[0],
                     .max_s = b->times[n - 1],
                     .cpu_s = cpu / (double)n,
                     .wire_bytes = (double)(sent_bytes(b) - bytes) / (double)n};
    double wrong = 0;
    if (b->args->check)
        wrong = (double)count_wrong(b, count, &row_out->error);
    status = reduce(b, &row_out->cpu_s, SHOAL_SUM);
    if (status == SHOAL_OK)
        status = reduce(b, &row_out->wire_bytes, SHOAL_MAX);
    if (status == SHOAL_OK)
        status = reduce(b, &wrong, SHOAL_SUM);
    row_out->wrong = (uint64_t)wrong;
    return status;
}

static double line_bits(const bench_args *args)
{
    const char *text = getenv("SHOAL_LINE_RATE");
    return args->line_bits != 0 ? (double)args->line_bits : text != NULL ? strtod(text, NULL) : 0;
}

/* The ceiling of a sparse collective beside what was measured: into answer, or as text where that
 * is NULL. */
static void show_model(const bench *b, size_t count, const row *r, json_t *answer)
{
    bench_ceiling c;
    if (!b->sparse.modelled || !bench_sparse_ceiling(&b->sparse, count, line_bits(b->args), &c))
        return;
    const double part = c.busiest_s > 0 ? r->median_s / c.busiest_s : 0;
    if (answer != NULL) {
        answer_set_count(answer, "aggregators", b->aggregators);
        answer_set_number(answer, "density", c.density);
        answer_set_number(answer, "union", c.together);
        answer_set_number(answer, "naive_link_bytes", c.naive_bytes);
        answer_set_number(answer, "model_link_bytes", c.busiest_bytes);
        answer_set_number(answer, "naive_us", c.naive_s * 1e6);
        answer_set_number(answer, "ceiling_us", c.busiest_s * 1e6);
        answer_set_number(answer, "of_ceiling", part);
        return;
    }
    printf("#   blocks not zero: %.4f at a worker, %.4f at any; busiest link: %.0f B of data, %.0f "
           "B in all",
           c.density, c.together, c.naive_bytes, c.busiest_bytes);
    if (part > 0)
        printf("; ceiling %.1f us (naive %.1f): took %.3f of it", c.busiest_s * 1e6,
               c.naive_s * 1e6, part);
    printf("\n");
}

/* What follows from the times of a row. */
typedef struct derived {
    double bytes, algbw, busbw, line, share, cpu_per_gb;
} derived;

static derived derive(const bench *b, size_t count, const row *r)
{
    const double n = b->workers;
    derived d = {.bytes = 4.0 * (double)count, .line = line_bits(b->args)};
    d.algbw = d.bytes / r->median_s;
    d.busbw = d.algbw * 2 * (n - 1) / n;
    d.share = d.line > 0 ? 100 * d.busbw * 8 / d.line : 0;
    d.cpu_per_gb = r->cpu_s / (n * d.bytes) * 1e9;
    return d;
}

static void print_json(const bench *b, size_t count, const row *r, const derived *d)
{
    json_t *answer = json_object();
    answer_set_number(answer, "bytes", d->bytes);
    answer_set_count(answer, "count", count);
    answer_set_text(answer, "type", "float");
    answer_set_count(answer, "ranks", b->workers);
    answer_set_text(answer, "collective", b->args->collective);
    answer_set_text(answer, "codec", b->args->codec);
    answer_set_number(answer, "time_us", r->median_s * 1e6);
    answer_set_number(answer, "time_min_us", r->min_s * 1e6);
    answer_set_number(answer, "time_max_us", r->max_s * 1e6);
    answer_set_number(answer, "algbw_gb_s", d->algbw * 1e-9);
    answer_set_number(answer, "busbw_gb_s", d->busbw * 1e-9);
    answer_set_number(answer, "line_percent", d->share);
    answer_set_number(answer, "cpu_s_per_gb", d->cpu_per_gb);
    answer_set_number(answer, "wire_bytes_per_rank", r->wire_bytes);
    answer_set_number(answer, "relative_error", r->error);
    answer_set_count(answer, "wrong", r->wrong);
    show_model(b, count, r, answer);
    (void)answer_print("bench", answer);
}

static void print_row(const bench *b, size_t count, const row *r)
{
    const derived d = derive(b, count, r);
    if (b->args->json) {
        print_json(b, count, r, &d);
        return;
    }
    printf("%12.0f %11zu %6s %-22s %-24s %11.1f %8.3f %8.3f ", d.bytes, count, "float",
           b->args->collective, b->args->codec, r->median_s * 1e6, d.algbw * 1e-9, d.busbw * 1e-9);
    if (d.line > 0)
        printf("%6.2f ", d.share);
    else
        printf("%6s ", "-");
    printf("%8.2f %9.2g %7llu\n", d.cpu_per_gb, r->error, (unsigned long long)r->wrong);
    show_model(b, count, r, NULL);
    fflush(stdout);
}

static void print_head(const bench *b)
{
    if (b->args->json)
        return;
    printf("# shoal %s, %u workers; median of %lld after %lld; busbw = algbw x 2(n-1)/n; cpu: s of "
           "all ranks per GB and "
           "rank\n",
           shoal_version(), b->workers, (long long)b->args->iterations, (long long)b->args->warmup);
    printf("#%11s %11s %6s %-22s %-24s %11s %8s %8s %6s %8s %9s %7s\n", "size", "count", "type",
           "collective", "codec", "time", "algbw", "busbw", "line", "cpu", "rel.error", "#wrong");
    printf("#%11s %11s %6s %-22s %-24s %11s %8s %8s %6s %8s\n", "(B)", "(elems)", "", "", "",
           "(us)", "(GB/s)", "(GB/s)", "(%)", "(s/GB)");
}

static shoal_status run_sizes(bench *b, uint64_t *wrong_out)
{
    const bench_args *args = b->args;
    for (uint64_t bytes = args->min_bytes; bytes <= args->max_bytes; bytes *= args->step_factor)
        b->size_count++;
    if (b->rank == 0)
        progress_begin("bench", "sizes", false, cli_under_launcher() ? NULL : "rows stay");
    for (uint64_t bytes = args->min_bytes; bytes <= args->max_bytes; bytes *= args->step_factor) {
        row r;
        shoal_status status = time_size(b, (size_t)(bytes / 4), &r);
        if (status != SHOAL_OK)
            return status;
        b->sizes_done++;
        progress_aside();
        if (b->rank == 0)
            print_row(b, (size_t)(bytes / 4), &r);
        *wrong_out += r.wrong;
    }
    progress_end();
    return SHOAL_OK;
}

static int rank_main(const bench_args *args)
{
    bench b = {.args = args};
    shoal_codec *codec = NULL;
    if (shoal_codec_open(args->codec, &codec) != SHOAL_OK)
        return cli_report("bench");
    b.lossless = (shoal_codec_traits(codec) & SHOAL_CODEC_LOSSLESS) != 0;
    shoal_codec_close(codec);
    b.buf = aligned_alloc(64, (args->max_bytes / 64 + 1) * 64);
    if (b.buf == NULL) {
        fprintf(stderr, "shoal bench: no memory for %llu bytes\n",
                (unsigned long long)args->max_bytes);
        return CLI_FAILED;
    }
    shoal_comm_desc desc = SHOAL_COMM_DESC_INIT;
    desc.transport = args->transport;
    shoal_view view = {.size = sizeof view};
    uint64_t wrong = 0;
    int code = CLI_OK;
    if (shoal_comm_create(&desc, &b.comm) != SHOAL_OK ||
        shoal_comm_view(b.comm, &view) != SHOAL_OK) {
        code = cli_report("bench");
    } else {
        b.rank = view.rank;
        b.workers = view.rank_count;
        b.aggregators = view.aggregators;
        bench_sparse_open(args->collective, b.workers, b.aggregators, args->density, args->overlap,
                          &b.sparse);
        if (b.rank == 0)
            print_head(&b);
        if (run_sizes(&b, &wrong) != SHOAL_OK)
            code = cli_report("bench");
    }
    shoal_comm_destroy(b.comm);
    free(b.buf);
    if (code == CLI_OK && wrong > 0) {
        fprintf(stderr, "shoal bench: %llu wrong elements\n", (unsigned long long)wrong);
        code = CLI_FAILED;
    }
    return code;
}

static int run_args(void *input, char **command)
{
    bench_args *args = input;
    if (args->bad)
        return CLI_USAGE;
    if (args->min_bytes > args->max_bytes)
        return cli_usage("bench", "--minbytes is larger than --maxbytes");
    if (shoal_codec_carried(args->codec, args->collective) != SHOAL_OK)
        return cli_report("bench");
    if (!launch_leaves_it(&args->launch))
        return CLI_USAGE;
    if (cli_under_launcher())
        return rank_main(args);
    args->launch.argv = command;
    args->launch.itself = true;
    args->launch.quiet = true;
    return launch_run(&args->launch);
}

int cli_bench_allreduce(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "allreduce",
        "Time the all-reduce of float32 buffers.\v"
        "Example: shoal bench allreduce --ranks 4 --lab rate=1gbit --size 16M --codec fp16\n"
        "         shoal bench allreduce --ranks 8 --lab rate=100mbit --size 16M --collective "
        "omnireduce --density 0.01\n\n"
        "Ranks are started here unless RANK (torchrun), Open MPI, PMIx or Slurm variables are set.",
        progress_children,
        NULL,
        NULL};
    bench_args args = {.launch = {.verb = "bench", .ranks = 4, .grace_s = 10},
                       .min_bytes = 65536,
                       .max_bytes = 67108864,
                       .step_factor = 4,
                       .iterations = 5,
                       .warmup = 1,
                       .collective = "ring",
                       .codec = "identity",
                       .density = 1,
                       .check = true};
    return cli_parse_and_run("bench", &argp, argc, argv, &args, run_args);
}
