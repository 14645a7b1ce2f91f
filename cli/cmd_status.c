/* SPDX-License-Identifier: Apache-2.0 */
/* shoal status: asks a running job who is slow, since when and why, and who is gone. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "shoal/watch.h"

enum { CLEAR_S = 1 };
static const double WAITED_S = 1; /* shorter waits are a part of any step */

typedef struct status_args {
    const char *place;
    bool json, watch, bad;
    int64_t timeout_ms;
} status_args;

static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "Print one JSON object (with --watch: one a second)", 0},
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
            argp_error(state, "--timeout-ms %s: wanted a whole number from 1 to 600000", text);
        }
        return 0;
    case ARGP_KEY_ARG:
        if (args->place != NULL) {
            args->bad = true;
            argp_error(state, "one job at a time, not '%s' and '%s'", args->place, text);
        }
        args->place = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---------------------------------------------------------------- one answer */

static bool is(const shoal_watch_rank_state *r, const char *state)
{
    return strcmp(r->state, state) == 0;
}

/* Not there, or soon found not to be. */
static bool is_lost(const shoal_watch_rank_state *r)
{
    return is(r, "missing") || is(r, "unresponsive") || is(r, "dead");
}

/* How many are in an operation now, and for how long the first of them. */
static uint32_t waiting(const shoal_watch *watch, shoal_watch_rank_state *first_out)
{
    shoal_watch_rank_state r = {.size = sizeof r};
    uint32_t count = 0;
    for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++) {
        if (shoal_watch_rank(watch, i, &r) != SHOAL_OK || !is(&r, "running") || !r.busy)
            continue;
        count++;
        if (count == 1 || r.doing_s > first_out->doing_s)
            *first_out = r;
    }
    return count;
}

/* A sentence about a rank that holds up the others; false: it does not. */
static bool sentence(const shoal_watch *watch, uint32_t rank, const shoal_watch_rank_state *r,
                     char *out, size_t bytes)
{
    shoal_watch_rank_state first = {.size = sizeof first};
    uint32_t others = waiting(watch, &first);
    double link = r->sends_bytes_s > r->receives_bytes_s ? r->sends_bytes_s : r->receives_bytes_s;
    if (is(r, "missing"))
        snprintf(out, bytes, "rank %u (%s) has not connected yet", rank, r->host);
    else if (is_lost(r))
        snprintf(out, bytes, "rank %u (%s) is %s: last seen %.1f s ago, %s %s", rank, r->host,
                 r->state, r->last_seen_s, r->busy ? "in" : "after",
                 r->operation[0] != '\0' ? r->operation : "the join");
    else if (is(r, "running") && !r->busy && r->doing_s > WAITED_S && others > 0 &&
             first.doing_s > WAITED_S)
        snprintf(out, bytes, "rank %u (%s) has been computing for %.1f s; %u wait%s for it in %s",
                 rank, r->host, r->doing_s, others, others == 1 ? "s" : "", first.operation);
    else if (strcmp(r->cause, "compute") == 0)
        snprintf(
            out, bytes,
            "rank %u (%s) is slow at computing, for %.0f s: without it an operation would come "
            "%.1f ms sooner",
            rank, r->host, r->slow_s, r->caused_ms);
    else if (strcmp(r->cause, "network") == 0)
        snprintf(out, bytes,
                 "rank %u (%s) has a slow link, for %.0f s: %.3g Mbit/s at best; all wait for it",
                 rank, r->host, r->slow_s, link * 8e-6);
    else
        return false;
    return true;
}

static void print_json(const shoal_watch *watch)
{
    const char *job;
    uint32_t by;
    double age_s;
    char text[256];
    shoal_watch_rank_state r = {.size = sizeof r};
    shoal_watch_job(watch, &job, &by, &age_s);
    printf("{\"job\": ");
    cli_print_json(job);
    printf(", \"answered_by\": %u, \"age_s\": %.3f, \"ranks\": [", by, age_s);
    for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++) {
        if (shoal_watch_rank(watch, i, &r) != SHOAL_OK)
            break;
        printf("%s{\"rank\": %u, \"host\": ", i > 0 ? ", " : "", i);
        cli_print_json(r.host);
        printf(", \"state\": \"%s\", \"cause\": \"%s\", \"slow_s\": %.3f, \"caused_ms\": %.4g, "
               "\"last_share\": %.3f, \"busy\": %s, \"operation\": ",
               r.state, r.cause, r.slow_s, r.caused_ms, r.last_share, r.busy ? "true" : "false");
        cli_print_json(r.operation);
        printf(", \"doing_s\": %.3f, \"ended\": %llu, \"last_seen_s\": %.3f, \"compute_ms\": %.4g, "
               "\"sends_bytes_s\": %.0f, \"receives_bytes_s\": %.0f, \"text\": ",
               r.doing_s, (unsigned long long)r.ended, r.last_seen_s, r.compute_ms, r.sends_bytes_s,
               r.receives_bytes_s);
        cli_print_json(sentence(watch, i, &r, text, sizeof text) ? text : "");
        printf("}");
    }
    printf("], \"notes\": ");
    cli_print_json(shoal_watch_notes(watch));
    printf("}\n");
    fflush(stdout);
}

static void print_rate(double bytes_per_s)
{
    if (bytes_per_s > 0)
        printf(" %9.4g", bytes_per_s * 8e-6);
    else
        printf(" %9s", "-");
}

static void print_table(const shoal_watch *watch)
{
    const char *job;
    uint32_t by;
    double age_s;
    char text[256];
    shoal_watch_rank_state r = {.size = sizeof r};
    shoal_watch_job(watch, &job, &by, &age_s);
    printf("job %s, %u ranks, up %.0f s (rank %u answers)\n", job, shoal_watch_ranks(watch), age_s,
           by);
    printf("  rank host         state         seen s      ended compute ms  last %%  sends Mb "
           "receive Mb now\n");
    for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++) {
        if (shoal_watch_rank(watch, i, &r) != SHOAL_OK)
            break;
        printf("  %4u %-12.12s %-12s %7.1f %10llu %10.2f %7.0f", i, r.host, r.state, r.last_seen_s,
               (unsigned long long)r.ended, r.compute_ms, 100 * r.last_share);
        print_rate(r.sends_bytes_s);
        print_rate(r.receives_bytes_s);
        printf("  %s %.1f s%s%s\n", r.busy ? "in" : "computing", r.doing_s, r.busy ? ": " : "",
               r.busy ? r.operation : "");
    }
    for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++)
        if (shoal_watch_rank(watch, i, &r) == SHOAL_OK && sentence(watch, i, &r, text, sizeof text))
            printf("  %s\n", text);
    for (const char *note = shoal_watch_notes(watch); *note != '\0';) {
        size_t length = strcspn(note, "\n");
        printf("  %.*s\n", (int)length, note);
        note += length + (note[length] == '\n');
    }
    fflush(stdout);
}

static int judge(const shoal_watch *watch)
{
    shoal_watch_rank_state r = {.size = sizeof r};
    for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++)
        if (shoal_watch_rank(watch, i, &r) == SHOAL_OK && is_lost(&r))
            return CLI_PEER_LOST;
    return CLI_OK;
}

static int ask(const status_args *args, bool again)
{
    shoal_watch *watch;
    if (shoal_watch_ask(args->place, args->timeout_ms * 1000, &watch) != SHOAL_OK)
        return again ? CLI_USAGE : cli_report("status");
    if (args->json) {
        print_json(watch);
    } else {
        if (again && cli_interactive())
            fputs("\033[H\033[J", stdout);
        print_table(watch);
    }
    int code = judge(watch);
    shoal_watch_close(watch);
    return code;
}

int cli_status(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "[JOB|SOCKET]",
        "Ask a job that runs on this host who is slow, since when and why, and who is gone.\v"
        "Example: shoal status\n"
        "         shoal status resnet --json\n"
        "         shoal status --watch\n\n"
        "JOB is the name in SHOAL_JOB; without one the only job here answers. Any rank answers for "
        "all, also while others are stopped or dead. The exit code is 0 if all ranks are there, 5 "
        "if one is missing, unresponsive or dead, 6 if nobody answers in time. docs/status.md "
        "explains the columns.",
        NULL,
        NULL,
        NULL};
    status_args args = {.timeout_ms = 1000};
    argp_err_exit_status = CLI_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, &args) != 0 || args.bad)
        return CLI_USAGE;
    int code = ask(&args, false), last = code;
    const struct timespec second = {.tv_sec = CLEAR_S};
    while (args.watch && (last == CLI_OK || last == CLI_PEER_LOST)) {
        nanosleep(&second, NULL);
        code = last;
        last = ask(&args, true);
    }
    return code;
}
