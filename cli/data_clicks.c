/* SPDX-License-Identifier: Apache-2.0 */
/* shoal data clicks: click logs whose embeddings have sparse gradients. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "progress_show.h"
#include "shoal/data.h"

typedef struct clicks_args {
    shoal_clicks_desc clicks;
    bool json;
} clicks_args;

static const struct argp_option options[] = {
    {"out", 'o', "DIR", 0, "Directory for the two files: made, or an empty one", 0},
    {"train", 'n', "N", 0, "Samples to train on (200000)", 0},
    {"test", 't', "N", 0, "Samples to test (20000)", 0},
    {"fields", 'f', "N", 0, "Categorical fields of a sample (26)", 0},
    {"vocab", 'v', "N", 0, "Ids of all fields together (262144)", 0},
    {"skew", 'z', "S", 0, "Exponent of the Zipf law of ids, above 0 to 4 (1.1)", 0},
    {"seed", 's', "N", 0, "The same options and seed give the same bytes (1)", 0},
    {"json", 'j', NULL, 0, "Result as one JSON object", 0},
    {0}};

static bool parse_value(clicks_args *args, int key, const char *text)
{
    int64_t number = 0;
    switch (key) {
    case 'n':
        return cli_parse_count(text, 1, 100000000, &args->clicks.train_count);
    case 't':
        return cli_parse_count(text, 1, 100000000, &args->clicks.test_count);
    case 'f':
        return cli_parse_count(text, 1, 100000000, &args->clicks.fields);
    case 'v':
        return cli_parse_count(text, 1, 100000000, &args->clicks.vocab);
    case 'z':
        return cli_parse_real(text, 1e-9, 4, &args->clicks.skew);
    default:
        if (!cli_parse_int(text, 1, INT64_MAX, &number))
            return false;
        args->clicks.seed = (uint64_t)number;
        return true;
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    clicks_args *args = state->input;
    switch (key) {
    case 'o':
        args->clicks.dir = text;
        return 0;
    case 'j':
        args->json = true;
        return 0;
    case 'n':
    case 't':
    case 'f':
    case 'v':
    case 'z':
    case 's':
        if (!parse_value(args, key, text))
            cli_refuse_value(state, key, text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int make(void *ctx)
{
    const clicks_args *args = ctx;
    shoal_clicks_info info = {0};
    progress_begin("data", "samples", false, "the data set is not whole; make it anew");
    const shoal_status status = shoal_clicks_make(&args->clicks, &info);
    progress_end();
    if (status != SHOAL_OK)
        return cli_report("data clicks");
    if (args->json)
        return answer_print(
            "data clicks", json_pack("{s:o, s:o, s:o, s:o}", "samples", answer_count(info.samples),
                                     "clicks", answer_count(info.clicks), "fields",
                                     answer_count(info.fields), "vocab", answer_count(info.vocab)));
    printf("%llu samples, %llu with a click; %u fields, %u ids\n", (unsigned long long)info.samples,
           (unsigned long long)info.clicks, info.fields, info.vocab);
    return CLI_OK;
}

int data_clicks(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "",
        "Make click logs: ids of categorical fields, and whether there was a click.\v"
        "Example: shoal data clicks --out clicks --train 100000\n"
        "         shoal train --model recommender --data clicks --workers 4 --lab rate=100mbit \\\n"
        "             --collective omnireduce\n",
        progress_children,
        NULL,
        NULL};
    clicks_args args = {.clicks = SHOAL_CLICKS_DESC_INIT};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    if (args.clicks.dir == NULL)
        return cli_usage("data clicks", "where to? --out DIR");
    return data_fill("data clicks", args.clicks.dir, make, &args);
}
