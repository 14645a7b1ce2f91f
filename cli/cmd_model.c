/* SPDX-License-Identifier: Apache-2.0 */
/* shoal model show NAME|FILE: a model as a table. */
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "shoal/model.h"

typedef struct model_args {
    const char *what, *model;
    bool json, list;
} model_args;

static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "One JSON object", 1},
    {"list", 'l', NULL, 0, "The built-in models and the kinds of layers", 1},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state)
{
    model_args *args = state->input;
    switch (key) {
    case 'j':
        args->json = true;
        return 0;
    case 'l':
        args->list = true;
        return 0;
    case ARGP_KEY_ARG:
        if (args->what == NULL)
            args->what = text;
        else if (args->model == NULL)
            args->model = text;
        else
            return ARGP_ERR_UNKNOWN;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* "20x24x24", or "500" for a vector. */
static const char *shape_text(shoal_shape s, char out[40])
{
    if (s.height == 1 && s.width == 1)
        snprintf(out, 40, "%u", s.channels);
    else
        snprintf(out, 40, "%ux%ux%u", s.channels, s.height, s.width);
    return out;
}

static double elems(shoal_shape s)
{
    return (double)s.channels * s.height * s.width;
}

static void print_row(const shoal_layer_info *l)
{
    char in[40], out[40];
    printf("%-15s %-44s %15s -> %-15s %14llu %12.4g %12.4g %12.4g%s\n", l->name, l->spec,
           shape_text(l->in, in), shape_text(l->out, out), (unsigned long long)l->param_count,
           4e-6 * (double)l->param_count, l->forward_flops / 1e6, 4e-6 * elems(l->out),
           l->described ? "  *" : "");
}

static void print_total(const shoal_model_info *m)
{
    printf("\n%s: %llu parameters (%.4g MB), %.4g MFLOP forward and %.4g backward per sample, "
           "%.4g MB of activations per sample\n",
           m->name, (unsigned long long)m->param_count, 4e-6 * (double)m->param_count,
           m->forward_flops / 1e6, m->backward_flops / 1e6, 4e-6 * (double)m->activation_count);
    if (m->described)
        puts("* described for planners: nothing here runs these layers, so this model cannot "
             "train");
}

static void print_json_row(const shoal_layer_info *l, bool first)
{
    printf("%s{\"name\": \"%s\", \"kind\": \"%s\", \"spec\": \"%s\", \"in\": [%u, %u, %u], "
           "\"out\": [%u, %u, %u], \"params\": %llu, \"param_bytes\": %llu, \"forward_flops\": "
           "%.17g, \"backward_flops\": %.17g, \"output_bytes\": %.17g, \"described\": %s}",
           first ? "" : ", ", l->name, l->kind, l->spec, l->in.channels, l->in.height, l->in.width,
           l->out.channels, l->out.height, l->out.width, (unsigned long long)l->param_count,
           4 * (unsigned long long)l->param_count, l->forward_flops, l->backward_flops,
           4 * elems(l->out), l->described ? "true" : "false");
}

static void print_json_head(const shoal_model_info *m)
{
    printf("{\"model\": \"%s\", \"input\": [%u, %u, %u], \"classes\": %u, \"params\": %llu, "
           "\"param_bytes\": %llu, \"state\": %llu, \"activations\": %llu, \"forward_flops\": "
           "%.17g, \"backward_flops\": %.17g, \"trainable\": %s, \"layers\": [",
           m->name, m->input.channels, m->input.height, m->input.width, m->classes,
           (unsigned long long)m->param_count, 4 * (unsigned long long)m->param_count,
           (unsigned long long)m->state_count, (unsigned long long)m->activation_count,
           m->forward_flops, m->backward_flops, m->described ? "false" : "true");
}

static shoal_status print_model(const shoal_model *model, bool json)
{
    shoal_model_info info = SHOAL_MODEL_INFO_INIT;
    shoal_status status = shoal_model_describe(model, &info);
    if (status != SHOAL_OK)
        return status;
    if (json)
        print_json_head(&info);
    else
        printf("%-15s %-44s %15s    %-15s %14s %12s %12s %12s\n", "layer", "spec", "in", "out",
               "parameters", "MB", "MFLOP", "MB out");
    for (uint32_t i = 0; i < info.layer_count; i++) {
        shoal_layer_info layer = SHOAL_LAYER_INFO_INIT;
        status = shoal_model_layer(model, i, &layer);
        if (status != SHOAL_OK)
            return status;
        if (json)
            print_json_row(&layer, i == 0);
        else
            print_row(&layer);
    }
    if (json)
        puts("]}");
    else
        print_total(&info);
    return SHOAL_OK;
}

static void list_json(const char *key, const char *(*name)(size_t), const char *(*help)(size_t))
{
    printf("\"%s\": [", key);
    for (size_t i = 0; name(i) != NULL; i++) {
        fputs(i == 0 ? "{\"name\": " : ", {\"name\": ", stdout);
        cli_print_json(name(i));
        fputs(", \"help\": ", stdout);
        cli_print_json(help(i));
        putchar('}');
    }
    putchar(']');
}

static int list_all(bool json)
{
    if (json) {
        putchar('{');
        list_json("models", shoal_model_zoo_name, shoal_model_zoo_help);
        fputs(", ", stdout);
        list_json("kinds", shoal_layer_row_name, shoal_layer_row_help);
        puts("}");
        return CLI_OK;
    }
    puts("Models:");
    for (size_t i = 0; shoal_model_zoo_name(i) != NULL; i++)
        printf("  %-15s %s\n", shoal_model_zoo_name(i), shoal_model_zoo_help(i));
    puts("\nKinds of layers:");
    for (size_t i = 0; shoal_layer_row_name(i) != NULL; i++)
        printf("  %-15s %s\n", shoal_layer_row_name(i), shoal_layer_row_help(i));
    return CLI_OK;
}

static int show(const model_args *args)
{
    shoal_model *model;
    if (shoal_model_open(args->model, &model) != SHOAL_OK)
        return cli_report("model");
    shoal_status status = print_model(model, args->json);
    shoal_model_close(model);
    return status == SHOAL_OK ? CLI_OK : cli_report("model");
}

int cli_model(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "show NAME|FILE",
        "Describe a model: layers, shapes, parameters, FLOPs (a multiply-add counts as 2), bytes "
        "(float32; of one sample).\v"
        "Example: shoal model show alexnet-mini\n"
        "         shoal model show nets/mine.json --json\n"
        "         shoal model --list\n\n"
        "A model of your own is a path: it holds a '/' or ends in .json.",
        NULL,
        NULL,
        NULL};
    model_args args = {0};
    argp_err_exit_status = CLI_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, &args) != 0)
        return CLI_USAGE;
    if (args.list)
        return list_all(args.json);
    if (args.what == NULL || strcmp(args.what, "show") != 0)
        return cli_usage("model", "what to do? `shoal model show NAME|FILE`, `shoal model --list`");
    if (args.model == NULL)
        return cli_usage("model", "which model? `shoal model --list` names them");
    return show(&args);
}
