/* SPDX-License-Identifier: Apache-2.0 */
/* shoal trace: what a running job has done in the last seconds, as a file for Perfetto. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "shoal/train.h"

enum { KEY_LAST = 1000 };

typedef struct trace_args {
    const char *place, *out;
    bool json, bad;
    double last_s;
    int64_t timeout_ms;
} trace_args;

static const struct argp_option options[] = {
    {"job", 'J', "JOB", 0, "This one: its name, or its number in the list of shoal status", 0},
    {"last", KEY_LAST, "SECONDS", 0, "So far back: 20s, 500ms (20s)", 0},
    {"out", 'o', "FILE", 0, "Write the trace there (trace.json)", 0},
    {"json", 'j', NULL, 0, "Print what was written as JSON", 0},
    {"timeout-ms", 't', "N", 0, "Give up after so long (1000)", 0},
    {0}};

/* "20", "20s", "500ms" */
static bool parse_seconds(const char *text, double *seconds_out)
{
    char *end = NULL;
    if (!isdigit((unsigned char)text[0])) /* strtod would skip blanks */
        return false;
    const double number = strtod(text, &end);
    const bool ms = end != text && strcmp(end, "ms") == 0;
    if (end == text || !(ms || *end == '\0' || strcmp(end, "s") == 0))
        return false;
    *seconds_out = ms ? number * 1e-3 : number;
    return *seconds_out >= 0.001 && *seconds_out <= 86400;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    trace_args *args = state->input;
    switch (key) {
    case 'j':
        args->json = true;
        return 0;
    case 'o':
        args->out = text;
        return 0;
    case KEY_LAST:
        args->bad = !parse_seconds(text, &args->last_s);
        if (args->bad)
            cli_refuse(state, "--last %s: wanted 1ms to 86400s, such as 20s", text);
        return 0;
    case 't':
        args->bad = !cli_parse_int(text, 1, 600000, &args->timeout_ms);
        if (args->bad)
            cli_refuse(state, "--timeout-ms %s: wanted a whole number from 1 to 600000", text);
        return 0;
    case 'J':
    case ARGP_KEY_ARG:
        args->bad = args->place != NULL;
        if (args->bad)
            cli_refuse(state, "one job at a time, not '%s' and '%s'", args->place, text);
        args->place = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int tell(const trace_args *args, const shoal_train_traced *t)
{
    if (args->json) {
        json_t *answer = json_object();
        answer_set_text(answer, "file", args->out);
        answer_set_count(answer, "ranks", t->ranks);
        answer_set_count(answer, "told", t->told);
        answer_set_count(answer, "events", t->events);
        answer_set_number(answer, "seconds", t->seconds);
        return answer_print("trace", answer);
    }
    printf("%s: %llu events of %u of %u ranks, the last %.1f s; open it at ui.perfetto.dev\n",
           args->out, (unsigned long long)t->events, t->told, t->ranks, t->seconds);
    if (t->told < t->ranks)
        printf("the others are not on this host, or do not answer: nobody is said to wait for "
               "anybody\n");
    return CLI_OK;
}

int cli_trace(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "[JOB|SOCKET]",
        "Write what the ranks of a running job on this host did in the last seconds.\v"
        "Example: shoal trace --last 20s --out now.json\n"
        "         shoal trace --job resnet --last 500ms\n\n"
        "The job is not disturbed. Each rank keeps its newest 16384 events in memory, 0.9 MB; a "
        "job that keeps none is refused. What spans and arrows mean: docs/trace.md. The exit code "
        "is 6 if nobody answers in time.",
        NULL,
        NULL,
        NULL};
    trace_args args = {.timeout_ms = 1000, .last_s = 20, .out = "trace.json"};
    shoal_train_traced traced = {.size = sizeof traced};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0 || args.bad)
        return CLI_USAGE;
    if (shoal_train_trace_job(args.place, args.last_s, args.timeout_ms * 1000, args.out, &traced) !=
        SHOAL_OK)
        return cli_report("trace");
    return tell(&args, &traced);
}
