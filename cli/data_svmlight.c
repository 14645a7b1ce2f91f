/* SPDX-License-Identifier: Apache-2.0 */
/* shoal data svmlight: texts of svmlight and libsvm, for linear models of sparse features. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "progress_show.h"
#include "shoal/data.h"

typedef struct svmlight_args {
    shoal_svmlight_desc svmlight;
    bool json;
} svmlight_args;

enum { KEY_TEST_FROM = 1000, KEY_ZERO_BASED };

static const struct argp_option options[] = {
    {"from", 'f', "FILE", 0, "A line CLASS INDEX:VALUE ... per sample, plain or .gz", 0},
    {"test-from", KEY_TEST_FROM, "FILE", 0, "The same, for tests", 0},
    {"out", 'o', "DIR", 0, "Directory for the files: made, or an empty one", 0},
    {"test", 't', "SHARE", 0,
     "Of each class, for tests, where --test-from names none: above 0, below 1 (0.1)", 0},
    {"seed", 's', "N", 0, "Which they are; the same seed gives the same bytes (1)", 0},
    {"vocab", 'v', "N", 0, "Features there are (as many as the texts have)", 0},
    {"zero-based", KEY_ZERO_BASED, NULL, 0, "Indices begin at 0; else at 1", 0},
    {"json", 'j', NULL, 0, "Result as one JSON object", 0},
    {0}};

static bool take(svmlight_args *args, int key, const char *text)
{
    int64_t number = 0;
    switch (key) {
    case 't':
        return cli_parse_real(text, 1e-6, 0.999999, &args->svmlight.test);
    case 'v':
        return cli_parse_count(text, 1, 1 << 24, &args->svmlight.vocab);
    default:
        if (!cli_parse_int(text, 1, INT64_MAX, &number))
            return false;
        args->svmlight.seed = (uint64_t)number;
        return true;
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    svmlight_args *args = state->input;
    switch (key) {
    case 'f':
        args->svmlight.from = text;
        return 0;
    case KEY_TEST_FROM:
        args->svmlight.test_from = text;
        return 0;
    case 'o':
        args->svmlight.dir = text;
        return 0;
    case KEY_ZERO_BASED:
        args->svmlight.zero_based = true;
        return 0;
    case 'j':
        args->json = true;
        return 0;
    case 't':
    case 's':
    case 'v':
        if (!take(args, key, text))
            cli_refuse_value(state, key, text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int print(const svmlight_args *args, const shoal_svmlight_info *info)
{
    const char *dir = args->svmlight.dir;
    if (args->json)
        return answer_print("data svmlight",
                            json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "train",
                                      answer_count(info->train), "test", answer_count(info->test),
                                      "pairs", answer_count(info->pairs), "vocab",
                                      answer_count(info->vocab), "most", answer_count(info->most),
                                      "classes", answer_count(info->classes)));
    printf("%s: %llu samples to train on, %llu to test; %u classes, %u features, at most %u of a "
           "sample\n",
           dir, (unsigned long long)info->train, (unsigned long long)info->test, info->classes,
           info->vocab, info->most);
    if (info->classes == 2)
        printf("shoal train --model svm:vocab=%u,length=%u --data %s --collective "
               "omnireduce:input=coo\n",
               info->vocab, info->most, dir);
    return CLI_OK;
}

static int make(void *ctx)
{
    const svmlight_args *args = ctx;
    shoal_svmlight_info info = {0};
    progress_begin("data", "samples", false, "the data set is not whole; make it anew");
    const shoal_status status = shoal_svmlight_make(&args->svmlight, &info);
    progress_end();
    if (status != SHOAL_OK)
        return cli_report("data svmlight");
    return print(args, &info);
}

int data_svmlight(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "",
        "Make a data set of a text of svmlight or libsvm, for the models logistic and svm.\v"
        "Example: shoal data svmlight --from rcv1_train.binary.gz --out rcv1\n"
        "         shoal train --model svm:vocab=47236,length=1224 --data rcv1 --workers 4 \\\n"
        "             --collective omnireduce:input=coo\n",
        progress_children,
        NULL,
        NULL};
    svmlight_args args = {.svmlight = SHOAL_SVMLIGHT_DESC_INIT};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    if (args.svmlight.from == NULL || args.svmlight.dir == NULL)
        return cli_usage("data svmlight", "%s",
                         args.svmlight.from == NULL ? "of what? --from FILE"
                                                    : "where to? --out DIR");
    return data_fill("data svmlight", args.svmlight.dir, make, &args);
}
