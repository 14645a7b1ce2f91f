/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs of the shoal command share. The command uses public headers only. */
#ifndef SHOAL_CLI_CLI_H
#define SHOAL_CLI_CLI_H

#include <argp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "shoal/status.h"

/** Exit codes, the same for every verb; listed in docs/errors.md. */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_PEER_LOST = 5,
    CLI_DEADLINE = 6,
    CLI_CANNOT_HERE = 77
};

typedef struct cli_verb {
    const char *name, *summary;
    int (*run)(int argc, char **argv); /* argv[0] is "shoal VERB" */
} cli_verb;

/** NULL name at the end. */
extern const cli_verb cli_verbs[];

int cli_aggregator(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_runs(int argc, char **argv);
int cli_report_page(int argc, char **argv);
int cli_status(int argc, char **argv);
int cli_trace(int argc, char **argv);
int cli_watch(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_data(int argc, char **argv);
int data_speech(int argc, char **argv); /* of cli_data */
int data_check(int argc, char **argv);
int data_clicks(int argc, char **argv);
int data_svmlight(int argc, char **argv);
int data_images(int argc, char **argv);
int data_text(int argc, char **argv);
/** Have a data set made in dir, which is made if it is not there, holds nothing yet, and is nobody
 * else's meanwhile. Looked at before anything is read or made; a folder that was made for what
 * fails goes again. @return what make(args) returns, or the exit code of the refusal (printed). */
int data_fill(const char *verb, const char *dir, int (*make)(void *args), void *args);
int cli_list(int argc, char **argv);
int cli_model(int argc, char **argv);
int cli_eval(int argc, char **argv);
int cli_export(int argc, char **argv);
int cli_generate(int argc, char **argv);
int cli_explore(int argc, char **argv);
int cli_partition(int argc, char **argv);
int cli_network(int argc, char **argv);
int cli_sim(int argc, char **argv);
int cli_train(int argc, char **argv);
int cli_predict(int argc, char **argv);
int cli_whatif(int argc, char **argv);
int cli_calibrate(int argc, char **argv);

/** Print this thread's last error ("shoal train: ...", advice on its own line) and return the exit
 * code it asks for. */
int cli_report(const char *verb);
/** The exit code of a status. */
int cli_exit_code(shoal_status status);
/** The version of command, library and wire, as `shoal --version` prints it. */
const char *cli_version(void);
/** Print a usage error and return CLI_USAGE. */
int cli_usage(const char *verb, const char *format, ...) SHOAL_PRINTF(2, 3);

/** Print what failed and return CLI_FAILED. */
int cli_fail(const char *verb, const char *format, ...) SHOAL_PRINTF(2, 3);
/** Whether this user may make a file of that name: its folder is there and takes one; errno says
 * why not. Creates nothing. */
bool cli_may_create(const char *path);
/** A sentence that names what users typed: nothing in it moves a terminal, and of a long one the
 * middle is left out. To be freed; NULL: no memory. */
char *cli_format(const char *format, va_list args);
/** Replace what a terminal would obey, and bytes that are no text, with '?'. */
void cli_make_printable(char *text);

/** "250mbit", "1gbit", "10g" -> bits per second; false: not a rate. */
bool cli_parse_rate(const char *text, uint64_t *bits_per_s_out);
/** "64k", "16M", "1g" (powers of 1024), plain numbers -> bytes; false: not a size. */
bool cli_parse_bytes(const char *text, uint64_t *bytes_out);
/** A whole number in [min, max]; false otherwise. */
bool cli_parse_int(const char *text, int64_t min, int64_t max, int64_t *value_out);
/** The same for 32 bits, of which *value_out is undefined on failure. */
bool cli_parse_count(const char *text, int64_t min, int64_t max, uint32_t *value_out);
/** A decimal number in [min, max], which nan and hexadecimal digits are not. */
bool cli_parse_real(const char *text, double min, double max, double *value_out);
/** Parse the arguments of a verb that may start itself again as ranks, and run it. args goes to the
 * parser as its input and then to run, beside the command line that starts the verb again with the
 * same arguments (NULL-terminated, gone when run returns). @return what run returned; CLI_USAGE
 * if the parser refused, CLI_FAILED if there is no memory (printed). */
int cli_parse_and_run(const char *verb, const struct argp *argp, int argc, char **argv, void *args,
                      int (*run)(void *args, char **command));
/** Open a regular file to read. NULL: errno says why; a pipe is not waited for. */
FILE *cli_open(const char *path);
/** Open what the user has named to write it anew: a file, a device, a pipe that somebody reads.
 * NULL: errno says why. */
FILE *cli_write(const char *path);
/** Open a file below a folder that the user has named, to write it anew: a symbolic link or a pipe
 * that somebody has put there is not followed. NULL: errno says why. */
FILE *cli_create(const char *path);
/** A launcher's variables are set (ours, torchrun's, Open MPI's, PMIx's, Slurm's): this process is
 * a rank. */
bool cli_under_launcher(void);
/** stderr is a terminal, so progress may be drawn. */
bool cli_interactive(void);

#endif
