/* SPDX-License-Identifier: Apache-2.0 */
/* The shoal command: one verb per file, cmd_VERB.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli.h"
#include "nearest.h"
#include "parent.h"

const cli_verb cli_verbs[] = {
    {"train", "train a network across workers: the main job", cli_train},
    {"run", "start the ranks of a job: here, in an emulated network, or on other hosts", cli_run},
    {"runs", "what is in run folders: how far, whether whole, how they go on", cli_runs},
    {"report", "run folders as one page: loss, time, waits, links, bytes, who was slow",
     cli_report_page},
    {"status", "ask a running job: who is slow, since when, computing or network, and who is gone",
     cli_status},
    {"watch", "watch a running job on the terminal: its ranks, who is slow, who is gone",
     cli_watch},
    {"trace", "what a running job did in the last seconds, as a file for Perfetto", cli_trace},
    {"aggregator", "sum for the jobs of others: the daemon of sparse collectives", cli_aggregator},
    {"doctor", "look at hosts and network before a job: what would hang, fail or crawl",
     cli_doctor},
    {"bench", "measure collectives, in nccl-tests' columns", cli_bench},
    {"sim", "run a whole job in virtual time: slow workers, slow links, failures", cli_sim},
    {"list", "what options may name, with keys, and which go together", cli_list},
    {"data", "make data sets: digits in MNIST's files", cli_data},
    {"eval", "a trained network on its test set, in float32 and in fixed point", cli_eval},
    {"generate", "text from a network that was trained on texts", cli_generate},
    {"export", "a trained network as C code in fixed point; what it costs in hardware", cli_export},
    {"explore", "the recurrent network with the largest circulant blocks that is good enough",
     cli_explore},
    {"model", "describe a network: layers, parameters, FLOPs, bytes", cli_model},
    {"partition", "which layers to split by data and which by model (HyPar)", cli_partition},
    {"calibrate", "measure this machine and network, write a cluster file", cli_calibrate},
    {"predict", "how long a step takes on a described cluster, why, and what would be better",
     cli_predict},
    {"whatif", "how long a step of a measured run takes with something changed", cli_whatif},
    {"network", "which bandwidth each dimension of a network should have (LIBRA)", cli_network},
    {NULL, NULL, NULL}};

static int help(FILE *out)
{
    fputs("Usage: shoal VERB [OPTION...]\n"
          "Distributed deep-learning training on slow networks and uneven machines.\n\n",
          out);
    for (const cli_verb *verb = cli_verbs; verb->name != NULL; verb++)
        fprintf(out, "  %-10s %s\n", verb->name, verb->summary);
    fputs("\n  shoal VERB --help shows a verb's options with an example; shoal --version the "
          "version;\n"
          "  shoal help VERB is shoal VERB --help, man shoal-VERB the same as a page.\n"
          "Exit codes: 0 ok, 1 failed, 2 usage, 5 peer lost, 6 deadline, 77 cannot here.\n",
          out);
    return out == stdout ? CLI_OK : CLI_USAGE;
}

/* A result that did not get out is no success: a full disk, a reader that went away. */
static int told(const char *name, int code)
{
    bool bad = ferror(stdout) != 0;
    if (fclose(stdout) == 0 && !bad)
        return code;
    fprintf(stderr, "%s: the output could not be written: %s\n", name,
            errno != 0 ? strerror(errno) : "an earlier write failed");
    return code == CLI_OK ? CLI_FAILED : code;
}

static const char *nearest_verb(const char *typed)
{
    const char *best = NULL;
    size_t least = nearest_most(typed) + 1;
    for (const cli_verb *verb = cli_verbs; verb->name != NULL; verb++)
        if (nearest_distance(typed, verb->name) < least) {
            least = nearest_distance(typed, verb->name);
            best = verb->name;
        }
    return best;
}

static const cli_verb *verb_of(const char *name)
{
    const cli_verb *verb = cli_verbs;
    while (verb->name != NULL && strcmp(verb->name, name) != 0)
        verb++;
    return verb->name != NULL ? verb : NULL;
}

static int unknown(const char *name)
{
    const char *near = nearest_verb(name);
    if (near != NULL) {
        fprintf(stderr, "shoal: unknown verb '%s'; did you mean `shoal %s`?\n", name, near);
        return CLI_USAGE;
    }
    char typed[80];
    snprintf(typed, sizeof typed, "%s", name);
    cli_make_printable(typed);
    fprintf(stderr, "shoal: unknown verb '%s'\n\n", typed);
    return help(stderr);
}

/* argv[0]: its name; behind it what it is told. */
static int run_verb(const cli_verb *verb, int argc, char **argv)
{
    static char name[32];
    snprintf(name, sizeof name, "shoal %s", verb->name);
    argv[0] = name;
    return told(name, verb->run(argc, argv));
}

/* `shoal help VERB [KIND]`: what `shoal VERB [KIND] --help` says. */
static int help_of(int count, char **words)
{
    static char option[] = "--help";
    const cli_verb *verb = verb_of(words[0]);
    char *argv[] = {NULL, count == 2 ? words[1] : option, option, NULL};
    if (verb == NULL)
        return unknown(words[0]);
    if (count > 2 || (count == 2 && words[1][0] == '-'))
        return cli_usage(verb->name, "`shoal help %s` takes no more than a kind of it", verb->name);
    return run_verb(verb, count == 2 ? 3 : 2, argv);
}

/* Each thread of OpenBLAS wants a piece of address space, and tries for ever to get it; so do its
 * ends. */
static bool has_room(void)
{
    const uint64_t piece = 128u << 20, rest = 64u << 20;
    const char *number = getenv("OPENBLAS_NUM_THREADS");
    int64_t threads = 0;
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return true;
    if (number == NULL || !cli_parse_int(number, 1, 256, &threads))
        threads = sysconf(_SC_NPROCESSORS_ONLN);
    const uint64_t need = (uint64_t)threads * piece + rest;
    if (limit.rlim_cur >= need)
        return true;
    fprintf(stderr,
            "shoal: %llu MiB of address space (ulimit -v) are too little for %lld threads of "
            "OpenBLAS; allow %llu MiB, or set OPENBLAS_NUM_THREADS=1\n",
            (unsigned long long)(limit.rlim_cur >> 20), (long long)threads,
            (unsigned long long)(need >> 20));
    return false;
}

int main(int argc, char **argv)
{
    if (!has_room())
        _exit(CLI_FAILED); /* without the ends */
    setenv("ARGP_HELP_FMT", "rmargin=100", 0);
    if (argc < 2)
        return help(stderr);
    if (strcmp(argv[1], "help") == 0 && argc > 2)
        return help_of(argc - 2, argv + 2);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return help(stdout);
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        puts(cli_version());
        return CLI_OK;
    }
    const int refused = parent_heed();
    if (refused != CLI_OK)
        return refused;
    const cli_verb *verb = verb_of(argv[1]);
    return verb != NULL ? run_verb(verb, argc - 1, argv + 1) : unknown(argv[1]);
}
