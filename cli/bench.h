/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmarks behind `shoal bench NAME`; argv as the verb got it. */
#ifndef SHOAL_CLI_BENCH_H
#define SHOAL_CLI_BENCH_H

int cli_bench_allreduce(int argc, char **argv);
int cli_bench_codec(int argc, char **argv);
int cli_bench_circulant(int argc, char **argv);

#endif
