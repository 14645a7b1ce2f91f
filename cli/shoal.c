/* SPDX-License-Identifier: Apache-2.0 */
/* The shoal command: one verb per file, cmd_VERB.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "shoal/version.h"

const cli_verb cli_verbs[] = {
    {"train", "train a network across workers: the main job", cli_train},
    {"run", "start the ranks of a job: here, in an emulated network, or on other hosts", cli_run},
    {"status", "ask a running job: who is slow, since when, computing or network, and who is gone",
     cli_status},
    {"aggregator", "sum for the jobs of others: the daemon of sparse collectives", cli_aggregator},
    {"doctor", "look at hosts and network before a job: what would hang, fail or crawl",
     cli_doctor},
    {"bench", "measure collectives, in nccl-tests' columns", cli_bench},
    {"sim", "run a whole job in virtual time: slow workers, slow links, failures", cli_sim},
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

int main(int argc, char **argv)
{
    setenv("ARGP_HELP_FMT", "rmargin=100", 0);
    if (argc < 2)
        return help(stderr);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return help(stdout);
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("shoal %s\n", shoal_version());
        return CLI_OK;
    }
    for (const cli_verb *verb = cli_verbs; verb->name != NULL; verb++) {
        if (strcmp(argv[1], verb->name) == 0) {
            static char name[32];
            snprintf(name, sizeof name, "shoal %s", verb->name);
            argv[1] = name;
            return verb->run(argc - 1, argv + 1);
        }
    }
    fprintf(stderr, "shoal: unknown verb '%s'\n\n", argv[1]);
    return help(stderr);
}
