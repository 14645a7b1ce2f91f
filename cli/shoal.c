/* SPDX-License-Identifier: Apache-2.0 */
/* The shoal command: one verb per file, cmd_VERB.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

const cli_verb cli_verbs[] = {
    {"train", "train a network across workers: the main job", cli_train},
    {"run", "start the ranks of a job: here, in an emulated network, or on other hosts", cli_run},
    {"runs", "what is in run folders: how far, whether whole, how they go on", cli_runs},
    {"status", "ask a running job: who is slow, since when, computing or network, and who is gone",
     cli_status},
    {"aggregator", "sum for the jobs of others: the daemon of sparse collectives", cli_aggregator},
    {"doctor", "look at hosts and network before a job: what would hang, fail or crawl",
     cli_doctor},
    {"bench", "measure collectives, in nccl-tests' columns", cli_bench},
    {"sim", "run a whole job in virtual time: slow workers, slow links, failures", cli_sim},
    {"list", "what options may name, with keys, and which go together", cli_list},
    {"data", "make data sets: digits in MNIST's files", cli_data},
    {"eval", "a trained network on its test set, in float32 and in fixed point", cli_eval},
    {"export", "a trained network as C code in fixed point; what it costs in hardware", cli_export},
    {"explore", "the recurrent network with the largest circulant blocks that is good enough",
     cli_explore},
    {"model", "describe a network: layers, parameters, FLOPs, bytes", cli_model},
    {"partition", "which layers to split by data and which by model (HyPar)", cli_partition},
    {"calibrate", "measure this machine and network, write a cluster file", cli_calibrate},
    {"predict", "how long a step takes on a described cluster, why, and what would be better",
     cli_predict},
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
          "version.\n"
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

enum { NAME_MOST = 32 };

/* Letters to change, leave out, add or swap with their neighbour until a is b. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][NAME_MOST + 1], n = strlen(a), m = strlen(b);
    if (n > NAME_MOST || m > NAME_MOST)
        return NAME_MOST;
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3], *above = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t least = above[j - 1] + (a[i - 1] != b[j - 1]);
            least = above[j] + 1 < least ? above[j] + 1 : least;
            least = row[j - 1] + 1 < least ? row[j - 1] + 1 : least;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < least)
                least = before[j - 2] + 1;
            row[j] = least;
        }
    }
    return rows[n % 3][m];
}

static const char *nearest_verb(const char *typed)
{
    const char *best = NULL;
    size_t least = 3; /* what is further off was meant otherwise */
    for (const cli_verb *verb = cli_verbs; verb->name != NULL; verb++)
        if (distance(typed, verb->name) < least) {
            least = distance(typed, verb->name);
            best = verb->name;
        }
    return best;
}

int main(int argc, char **argv)
{
    setenv("ARGP_HELP_FMT", "rmargin=100", 0);
    if (argc < 2)
        return help(stderr);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return help(stdout);
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        puts(cli_version());
        return CLI_OK;
    }
    for (const cli_verb *verb = cli_verbs; verb->name != NULL; verb++) {
        if (strcmp(argv[1], verb->name) == 0) {
            static char name[32];
            snprintf(name, sizeof name, "shoal %s", verb->name);
            argv[1] = name;
            return told(name, verb->run(argc - 1, argv + 1));
        }
    }
    const char *near = nearest_verb(argv[1]);
    if (near != NULL) {
        fprintf(stderr, "shoal: unknown verb '%s'; did you mean `shoal %s`?\n", argv[1], near);
        return CLI_USAGE;
    }
    fprintf(stderr, "shoal: unknown verb '%s'\n\n", argv[1]);
    return help(stderr);
}
