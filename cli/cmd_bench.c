/* SPDX-License-Identifier: Apache-2.0 */
/* shoal bench NAME: finds the benchmark, whatever options stand in front of its name. */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "cli.h"

static const cli_verb benchmarks[] = {
    {"allreduce", "time the all-reduce of float32 buffers", cli_bench_allreduce},
    {"codec", "speed, size and error of gradient codecs on one core", cli_bench_codec},
    {"circulant", "block-circulant products against dense ones", cli_bench_circulant},
};
enum { BENCHMARKS = sizeof benchmarks / sizeof *benchmarks };

static void list(FILE *out)
{
    fprintf(out, "Usage: shoal bench NAME [OPTION...]; shoal bench NAME --help tells more\n");
    for (size_t i = 0; i < BENCHMARKS; i++)
        fprintf(out, "  %-10s %s\n", benchmarks[i].name, benchmarks[i].summary);
    fprintf(out, "Example: shoal bench codec --codec terngrad --codec eden:bits=2\n");
}

int cli_bench(int argc, char **argv)
{
    const char *name = NULL;
    for (int i = 1; i < argc && name == NULL; i++) {
        for (size_t k = 0; k < BENCHMARKS; k++)
            if (strcmp(argv[i], benchmarks[k].name) == 0)
                return benchmarks[k].run(argc, argv);
        if (argv[i][0] != '-')
            name = argv[i];
    }
    if (name == NULL && argc > 1 && strcmp(argv[1], "--help") == 0) {
        list(stdout);
        return CLI_OK;
    }
    if (name != NULL)
        return cli_usage("bench", "unknown benchmark '%s'; known: allreduce, codec, circulant",
                         name);
    return cli_usage("bench", "which benchmark? known: allreduce, codec, circulant");
}
