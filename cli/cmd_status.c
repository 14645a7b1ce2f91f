/* SPDX-License-Identifier: Apache-2.0 */
/* shoal status: asks running jobs who is slow, since when and why, and who is gone. */
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "shoal/watch.h"
#include "status_show.h"

enum { CLEAR_S = 1 };

typedef struct status_args {
    const char *place;
    bool json, watch, bad;
    int64_t timeout_ms;
} status_args;

static const struct argp_option options[] = {
    {"job", 'J', "JOB", 0, "This one: its name, or its number in the list", 0},
    {"json", 'j', NULL, 0, "Print JSON (with --watch: a line a second)", 0},
    {"watch", 'w', NULL, 0, "Ask every second until the job is over", 0},
    {"timeout-ms", 't', "N", 0, "Give up after so long (1000)", 0},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state)
{
    status_args *args = state->input;
    switch (key) {
    case 'j':
        args->json = true;
        return 0;
    case 'w':
        args->watch = true;
        return 0;
    case 't':
        if (!cli_parse_int(text, 1, 600000, &args->timeout_ms)) {
            args->bad = true;
            cli_refuse(state, "--timeout-ms %s: wanted a whole number from 1 to 600000", text);
        }
        return 0;
    case 'J':
    case ARGP_KEY_ARG:
        if (args->place != NULL) {
            args->bad = true;
            cli_refuse(state, "one job at a time, not '%s' and '%s'", args->place, text);
        }
        args->place = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---------------------------------------------------------------- asking */

static void clear(bool again)
{
    if (again && cli_interactive())
        fputs("\033[H\033[J", stdout);
}

/* A run's folder, perhaps a simulated one's, whose workers are no processes that could be asked. */
static bool is_folder(const char *place)
{
    struct stat about;
    return place != NULL && stat(place, &about) == 0 && S_ISDIR(about.st_mode);
}

static int ask_one(const status_args *args, bool again)
{
    shoal_watch *watch;
    const shoal_status status = shoal_watch_ask(args->place, args->timeout_ms * 1000, &watch);
    if (status == SHOAL_EINVAL && !again && is_folder(args->place))
        return cli_usage("status",
                         "no job is called %s, which is a folder; how far its run is, also while "
                         "shoal sim goes on, says: shoal runs %s",
                         args->place, args->place);
    if (status != SHOAL_OK)
        return again ? CLI_USAGE : cli_report("status");
    int code = status_code(watch);
    if (args->json) {
        const int printed = answer_print("status", status_object(watch));
        code = printed != CLI_OK ? printed : code;
    } else {
        clear(again);
        status_table(watch);
    }
    shoal_watch_close(watch);
    return code;
}

static int print_all(const shoal_watch *first)
{
    json_t *jobs = json_array();
    for (const shoal_watch *watch = first; watch != NULL; watch = shoal_watch_next(watch))
        json_array_append_new(jobs, status_object(watch));
    return answer_print("status", json_pack("{s:o}", "jobs", jobs));
}

/* The code is that of the job that fares worst. */
static int ask_all(const status_args *args, bool again)
{
    shoal_watch *first;
    if (shoal_watch_all(args->timeout_ms * 1000, &first) != SHOAL_OK)
        return again ? CLI_USAGE : cli_report("status");
    int code = CLI_OK;
    for (const shoal_watch *watch = first; watch != NULL; watch = shoal_watch_next(watch))
        code = status_code(watch) > code ? status_code(watch) : code;
    if (args->json) {
        const int printed = print_all(first);
        code = printed != CLI_OK ? printed : code;
    } else {
        clear(again);
        if (shoal_watch_next(first) == NULL && shoal_watch_ranks(first) > 0)
            status_table(first);
        else
            status_list(first);
    }
    shoal_watch_close(first);
    return code;
}

static int ask(const status_args *args, bool again)
{
    return args->place != NULL ? ask_one(args, again) : ask_all(args, again);
}

int cli_status(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "[JOB|SOCKET]",
        "Ask the jobs that run on this host who is slow, since when and why, and who is gone.\v"
        "Example: shoal status\n"
        "         shoal status --job resnet --json\n"
        "         shoal status --job 2 --watch\n\n"
        "Without JOB all of this user's jobs are listed, a single one with its ranks. JOB is the "
        "name in SHOAL_JOB (a job without one is called after its program and a number), or the "
        "number in the list. Any rank answers for all, also while others are stopped or dead. The "
        "exit code is 0 if all ranks are there, 5 if one is missing, unresponsive or dead, 6 if "
        "nobody answers in time. docs/status.md explains the columns.",
        NULL,
        NULL,
        NULL};
    status_args args = {.timeout_ms = 1000};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0 || args.bad)
        return CLI_USAGE;
    int code = ask(&args, false), last = code;
    const struct timespec second = {.tv_sec = CLEAR_S};
    while (args.watch && (last == CLI_OK || last == CLI_PEER_LOST ||
                          (last == CLI_DEADLINE && args.place == NULL))) {
        nanosleep(&second, NULL);
        code = last;
        last = ask(&args, true);
    }
    return code;
}
