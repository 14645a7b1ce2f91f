/* SPDX-License-Identifier: Apache-2.0 */
/* shoal eval: a checkpoint on the test split, in float32 and in fixed point. */
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "progress_show.h"
#include "shoal/deploy.h"

enum { KEY_FIXED = 1000, KEY_CALIBRATE, KEY_SAMPLES, KEY_NO_FLOAT, MOST_WIDTHS = 2 };

typedef struct eval_args {
    shoal_deploy_desc deploy;
    uint32_t widths[MOST_WIDTHS], width_count;
    bool no_float, json;
} eval_args;

static const struct argp_option options[] = {
    {"from", 'f', "DIR", 0,
     "--out of a training run: its newest checkpoint; or FILE.safetensors, FILE.onnx", 0},
    {"data", 'd', "DIR", 0, "Data set (the run's own, as its folder says)", 0},
    {"model", 'm', "SPEC", 0, "(as the checkpoint says)", 0},
    {"fixed", KEY_FIXED, "BITS", CLI_REPEATS,
     "Also in fixed point of 12 or 16 bits; repeat for both", 0},
    {"no-float", KEY_NO_FLOAT, NULL, 0, "In fixed point only", 0},
    {"calibrate", KEY_CALIBRATE, "N", 0, "Training samples by which fractions are chosen (64)", 0},
    {"samples", KEY_SAMPLES, "N", 0, "Of the test split (all)", 0},
    {"batch", 'b', "N", 0, "Samples at once (16)", 0},
    {"json", 'j', NULL, 0, "Result as one JSON object", 0},
    {0}};

static bool parse_bits(eval_args *args, const char *text)
{
    uint32_t bits = 0;
    if (args->width_count == MOST_WIDTHS || !cli_parse_count(text, 1, 16, &bits))
        return false;
    args->widths[args->width_count++] = bits;
    return bits == 12 || bits == 16;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    eval_args *args = state->input;
    bool good = true;
    switch (key) {
    case 'f':
        args->deploy.from = text;
        break;
    case 'd':
        args->deploy.data = text;
        break;
    case 'm':
        args->deploy.model = text;
        break;
    case 'j':
        args->json = true;
        break;
    case 'b':
        good = cli_parse_count(text, 1, 4096, &args->deploy.batch);
        break;
    case KEY_FIXED:
        good = parse_bits(args, text);
        break;
    case KEY_NO_FLOAT:
        args->no_float = true;
        break;
    case KEY_CALIBRATE:
        good = cli_parse_count(text, 1, 1000000, &args->deploy.calibrate);
        break;
    case KEY_SAMPLES:
        good = cli_parse_count(text, 1, INT32_MAX, &args->deploy.samples);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    if (!good)
        cli_refuse_value(state, key, text);
    return 0;
}

static void print_row(const char *numbers, const shoal_deploy_result *r)
{
    printf("%-8s  loss %.4f  accuracy %.2f %%", numbers, r->loss, r->accuracy);
    if (isfinite(r->symbol_error_rate))
        printf("  symbol errors %.2f %% of %llu", r->symbol_error_rate,
               (unsigned long long)r->symbols);
    if (isfinite(r->bits_per_byte))
        printf("  bits per byte %.4f", r->bits_per_byte);
    puts("");
    fflush(stdout);
}

static json_t *row_of(const shoal_deploy_result *r)
{
    json_t *row = json_object();
    answer_set_number(row, "loss", r->loss);
    answer_set_number(row, "accuracy", r->accuracy);
    if (isfinite(r->symbol_error_rate))
        answer_set_number(row, "symbol_error_rate", r->symbol_error_rate);
    if (isfinite(r->bits_per_byte))
        answer_set_number(row, "bits_per_byte", r->bits_per_byte);
    answer_set_count(row, "samples", r->samples);
    answer_set_count(row, "labels", r->labels);
    answer_set_count(row, "symbols", r->symbols);
    answer_set_count(row, "edits", r->edits);
    return row;
}

static int run(const eval_args *args)
{
    shoal_deploy *deploy = NULL;
    if (shoal_deploy_open(&args->deploy, &deploy) != SHOAL_OK)
        return cli_report("eval");
    shoal_status status = SHOAL_OK;
    json_t *answer = json_object();
    for (uint32_t i = args->no_float ? 1 : 0; i <= args->width_count && status == SHOAL_OK; i++) {
        shoal_deploy_result result = {.size = sizeof result};
        char numbers[16] = "float32";
        progress_begin("eval", "forms of numbers", false, "nothing was changed");
        progress_at(i, args->width_count + 1, NULL);
        uint32_t bits = i > 0 ? args->widths[i - 1] : 0;
        if (bits > 0)
            snprintf(numbers, sizeof numbers, "fixed%u", bits);
        status = shoal_deploy_evaluate(deploy, bits, &result);
        progress_aside();
        if (status == SHOAL_OK && args->json)
            answer_set(answer, numbers, row_of(&result));
        else if (status == SHOAL_OK)
            print_row(numbers, &result);
    }
    progress_end();
    int code = status == SHOAL_OK ? CLI_OK : cli_report("eval");
    if (args->json && status == SHOAL_OK)
        code = answer_print("eval", answer);
    else
        json_decref(answer);
    shoal_deploy_close(deploy);
    return code;
}

int cli_eval(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        NULL,
        "A trained network on the test split: loss, accuracy and, of sequences, symbol errors "
        "(phoneme errors of collapsed frames) or, of texts, bits per byte, in float32 and in fixed "
        "point.\v"
        "Example: shoal eval --from run1 --fixed 12 --fixed 16\n\n"
        "Images are standardised by the mean and deviation of the training's samples, which the "
        "checkpoint keeps.\n\n"
        "Fixed point: docs/circulant.md.",
        progress_children,
        NULL,
        NULL};
    eval_args args = {.deploy = SHOAL_DEPLOY_DESC_INIT};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    if (args.deploy.from == NULL)
        return cli_usage("eval", "which run? --from DIR");
    if (args.no_float && args.width_count == 0)
        return cli_usage("eval", "nothing to do: --no-float without --fixed");
    return run(&args);
}
