/* SPDX-License-Identifier: Apache-2.0 */
/* shoal data: make data sets. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "progress_show.h"
#include "shoal/data.h"

typedef struct data_args {
    const char *kind, *dir;
    uint64_t seed;
    uint32_t train_count, test_count;
    double hard;
    bool json;
} data_args;

static const struct argp_option options[] = {
    {"out", 'o', "DIR", 0, "Directory for the files: made, or an empty one", 0},
    {"train", 'n', "N", 0, "Training images (40000)", 0},
    {"test", 't', "N", 0, "Test images; digits: in fonts that the training set lacks (8000)", 0},
    {"seed", 's', "N", 0, "The same seed (and fonts) give the same bytes (1)", 0},
    {"hard", 'x', "FACTOR", 0, "How much everything is distorted, 0.1 to 4 (1; colours 0.6)", 0},
    {"json", 'j', NULL, 0, "Result as one JSON object", 0},
    {0}};

static bool parse_value(data_args *args, int key, const char *text)
{
    int64_t number = 0;
    switch (key) {
    case 'n':
        return cli_parse_count(text, 1, 10000000, &args->train_count);
    case 't':
        return cli_parse_count(text, 1, 10000000, &args->test_count);
    case 's':
        if (!cli_parse_int(text, 1, INT64_MAX, &number))
            return false;
        args->seed = (uint64_t)number;
        return true;
    default:
        return cli_parse_real(text, 0.1, 4, &args->hard);
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    data_args *args = state->input;
    switch (key) {
    case 'o':
        args->dir = text;
        return 0;
    case 'j':
        args->json = true;
        return 0;
    case 'n':
    case 't':
    case 's':
    case 'x':
        if (!parse_value(args, key, text))
            cli_refuse_value(state, key, text);
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num != 0 || (strcmp(text, "digits") != 0 && strcmp(text, "colours") != 0))
            cli_refuse(state,
                       "unknown data set '%s' (it comes first); known: digits, colours, "
                       "images, speech, text, clicks, svmlight, check",
                       text);
        args->kind = text;
        return 0;
    case ARGP_KEY_NO_ARGS:
        cli_refuse(state, "which data set? known: digits, colours, images, speech, text, clicks, "
                          "svmlight, check");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int print_json(const data_args *args, uint64_t images, const shoal_digits_progress *fonts)
{
    json_t *answer = json_object();
    answer_set_text(answer, "dir", args->dir);
    answer_set_count(answer, "images", images);
    if (fonts != NULL) {
        answer_set_count(answer, "train_fonts", fonts->train_fonts);
        answer_set_count(answer, "test_fonts", fonts->test_fonts);
    }
    return answer_print("data", answer);
}

static int make_digits(const data_args *args)
{
    shoal_digits *digits = NULL;
    shoal_digits_progress progress = {0};
    const shoal_digits_desc desc = {sizeof desc,       args->dir,        args->seed,
                                    args->train_count, args->test_count, args->hard};
    shoal_status status = shoal_digits_open(&desc, &digits);
    if (status == SHOAL_OK)
        status = SHOAL_PENDING;
    progress_begin("data", "images", false, "the data set is not whole; make it anew");
    while (status == SHOAL_PENDING) {
        status = shoal_digits_step(digits, &progress);
        progress_at((double)progress.done, (double)progress.total, NULL);
    }
    progress_end();
    shoal_digits_close(digits);
    if (status != SHOAL_OK)
        return cli_report("data");
    if (args->json)
        return print_json(args, progress.total, &progress);
    printf("%s: %llu digits; %u fonts to train on, %u others to test\n", args->dir,
           (unsigned long long)progress.total, progress.train_fonts, progress.test_fonts);
    return CLI_OK;
}

static int make_colours(const data_args *args)
{
    shoal_colours *colours = NULL;
    shoal_data_progress progress = {0};
    const shoal_colours_desc desc = {sizeof desc,       args->dir,        args->seed,
                                     args->train_count, args->test_count, args->hard};
    shoal_status status = shoal_colours_open(&desc, &colours);
    if (status == SHOAL_OK)
        status = SHOAL_PENDING;
    progress_begin("data", "images", false, "the data set is not whole; make it anew");
    while (status == SHOAL_PENDING) {
        status = shoal_colours_step(colours, &progress);
        progress_at((double)progress.done, (double)progress.total, NULL);
    }
    progress_end();
    shoal_colours_close(colours);
    if (status != SHOAL_OK)
        return cli_report("data");
    if (args->json)
        return print_json(args, progress.total, NULL);
    printf("%s: %llu colour images of 10 kinds\n", args->dir, (unsigned long long)progress.total);
    return CLI_OK;
}

static int make(void *args)
{
    return strcmp(((const data_args *)args)->kind, "digits") == 0 ? make_digits(args)
                                                                  : make_colours(args);
}

/* Kinds whose options are their own. */
static struct {
    const char *name;
    char program[24]; /* what their help and errors call them; argv is not const */
    int (*run)(int argc, char **argv);
} own_kinds[] = {{"speech", "shoal data speech", data_speech},
                 {"clicks", "shoal data clicks", data_clicks},
                 {"svmlight", "shoal data svmlight", data_svmlight},
                 {"images", "shoal data images", data_images},
                 {"check", "shoal data check", data_check},
                 {"text", "shoal data text", data_text}};

int cli_data(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "digits|colours",
        "Make data sets: digits of many fonts, distorted, in MNIST's files; shapes and textures in "
        "colour, ten kinds, in CIFAR-10's files; of your own images, arrays and tables, or of "
        "svmlight's texts; or speech, text or click logs (shoal data images --help, and so on). "
        "`shoal data check PATH` says what is wrong with one.\v"
        "Example: shoal data digits --out digits --train 20000 --test 4000\n"
        "         shoal data colours --out colours --train 20000 --test 4000\n\n"
        "Any file of MNIST's or CIFAR's own works in their place.",
        progress_children,
        NULL,
        NULL};
    for (size_t i = 0; argc > 1 && i < sizeof own_kinds / sizeof own_kinds[0]; i++) {
        if (strcmp(argv[1], own_kinds[i].name) != 0)
            continue;
        argv[1] = own_kinds[i].program;
        return own_kinds[i].run(argc - 1, argv + 1);
    }
    data_args args = {0};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    if (args.dir == NULL)
        return cli_usage("data", "where to? --out DIR");
    return data_fill("data", args.dir, make, &args);
}
