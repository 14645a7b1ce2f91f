/* SPDX-License-Identifier: Apache-2.0 */
/* One rule for the words behind every verb, before argp sees them:
 * an unknown option is told its neighbour; no value is empty or longer than LONGEST; a switch takes
 * none; an option with a value is given once, unless it repeats (CLI_REPEATS) or says the same
 * again; a word that the verb does not take is named. Nothing that was typed reaches a terminal
 * raw, or as a whole. */
#ifndef SHOAL_CLI_ARGUMENTS_H
#define SHOAL_CLI_ARGUMENTS_H

#include <argp.h>

#include "shoal/status.h"

/** Flags of an argp_option, beside argp's own: each time it is given adds to what it says; it may
 * be as long as a command line can hold. */
enum { CLI_REPEATS = 0x100, CLI_LONG = 0x200 };

/** argp_parse, with the rule. @return 0, or CLI_USAGE: a sentence was printed, nothing done. Does
 * not return where the verb's parser refuses a value. */
int cli_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input);

/** Within a parser: "shoal VERB: TEXT", where help is, and the process ends with CLI_USAGE. */
void cli_refuse(const struct argp_state *state, const char *format, ...) SHOAL_PRINTF(2, 3)
    __attribute__((noreturn));
/** The same for the value of an option that is not what its help asks for. */
void cli_refuse_value(const struct argp_state *state, int key, const char *value)
    __attribute__((noreturn));

#endif
