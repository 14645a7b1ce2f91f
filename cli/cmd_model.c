/* SPDX-License-Identifier: Apache-2.0 */
/* shoal model show NAME|FILE: a model as a table. */
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "shoal/model.h"
#include "table.h"

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

static table *layer_table(void)
{
    static const table_column columns[] = {{"layer", TABLE_CUT},
                                           {"spec", TABLE_CUT},
                                           {"in", TABLE_RIGHT | TABLE_SPARE},
                                           {"out", TABLE_RIGHT},
                                           {"parameters", TABLE_RIGHT},
                                           {"MB", TABLE_RIGHT | TABLE_SPARE},
                                           {"MFLOP", TABLE_RIGHT},
                                           {"MB out", TABLE_RIGHT | TABLE_SPARE}};
    return table_new(0, columns, sizeof columns / sizeof *columns);
}

static void add_layer(table *t, const shoal_layer_info *l)
{
    char in[40], out[40];
    table_row(t);
    table_add(t, "%s%s", l->name, l->described ? " *" : "");
    table_add(t, "%s", l->spec);
    table_add(t, "%s", shape_text(l->in, in));
    table_add(t, "%s", shape_text(l->out, out));
    table_add(t, "%llu", (unsigned long long)l->param_count);
    table_add(t, "%.4g", 4e-6 * (double)l->param_count);
    table_add(t, "%.4g", l->forward_flops / 1e6);
    table_add(t, "%.4g", 4e-6 * elems(l->out));
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

static json_t *shape_of(shoal_shape s)
{
    return json_pack("[I, I, I]", (json_int_t)s.channels, (json_int_t)s.height,
                     (json_int_t)s.width);
}

static json_t *layer_of(const shoal_layer_info *l)
{
    json_t *one = json_object();
    answer_set_text(one, "name", l->name);
    answer_set_text(one, "kind", l->kind);
    answer_set_text(one, "spec", l->spec);
    answer_set(one, "in", shape_of(l->in));
    answer_set(one, "out", shape_of(l->out));
    answer_set_count(one, "params", l->param_count);
    answer_set_count(one, "param_bytes", 4 * l->param_count);
    answer_set_number(one, "forward_flops", l->forward_flops);
    answer_set_number(one, "backward_flops", l->backward_flops);
    answer_set_number(one, "output_bytes", 4 * elems(l->out));
    answer_set_bool(one, "described", l->described);
    return one;
}

static json_t *head_of(const shoal_model_info *m)
{
    json_t *answer = json_object();
    answer_set_text(answer, "model", m->name);
    answer_set(answer, "input", shape_of(m->input));
    answer_set_count(answer, "classes", m->classes);
    answer_set_count(answer, "params", m->param_count);
    answer_set_count(answer, "param_bytes", 4 * m->param_count);
    answer_set_count(answer, "state", m->state_count);
    answer_set_count(answer, "activations", m->activation_count);
    answer_set_number(answer, "forward_flops", m->forward_flops);
    answer_set_number(answer, "backward_flops", m->backward_flops);
    answer_set_bool(answer, "trainable", !m->described);
    return answer;
}

static int print_model(const shoal_model *model, bool json)
{
    shoal_model_info info = SHOAL_MODEL_INFO_INIT;
    if (shoal_model_describe(model, &info) != SHOAL_OK)
        return cli_report("model");
    json_t *layers = json_array();
    shoal_status status = SHOAL_OK;
    table *t = json ? NULL : layer_table();
    for (uint32_t i = 0; i < info.layer_count && status == SHOAL_OK; i++) {
        shoal_layer_info layer = SHOAL_LAYER_INFO_INIT;
        status = shoal_model_layer(model, i, &layer);
        if (status == SHOAL_OK && json)
            json_array_append_new(layers, layer_of(&layer));
        else if (status == SHOAL_OK)
            add_layer(t, &layer);
    }
    if (status == SHOAL_OK && json) {
        json_t *answer = head_of(&info);
        answer_set(answer, "layers", layers);
        return answer_print("model", answer);
    }
    json_decref(layers);
    if (!json)
        table_print(t, stdout);
    if (status != SHOAL_OK)
        return cli_report("model");
    print_total(&info);
    return CLI_OK;
}

static json_t *list_of(const char *(*name)(size_t), const char *(*help)(size_t))
{
    json_t *list = json_array();
    for (size_t i = 0; name(i) != NULL; i++)
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", name(i), "help", help(i)));
    return list;
}

static void print_list(const char *head, const char *(*name)(size_t), const char *(*help)(size_t))
{
    const table_column columns[] = {{head, TABLE_PLAIN}, {"what it is", TABLE_TEXT}};
    table *t = table_new(0, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; name(i) != NULL; i++) {
        table_row(t);
        table_add(t, "%s", name(i));
        table_add(t, "%s", help(i));
    }
    table_print(t, stdout);
}

static int list_all(bool json)
{
    if (json)
        return answer_print("model",
                            json_pack("{s:o, s:o}", "models",
                                      list_of(shoal_model_zoo_name, shoal_model_zoo_help), "kinds",
                                      list_of(shoal_layer_row_name, shoal_layer_row_help)));
    print_list("model", shoal_model_zoo_name, shoal_model_zoo_help);
    puts("");
    print_list("kind of layer", shoal_layer_row_name, shoal_layer_row_help);
    return CLI_OK;
}

static int show(const model_args *args)
{
    shoal_model *model;
    if (shoal_model_open(args->model, &model) != SHOAL_OK)
        return cli_report("model");
    const int code = print_model(model, args->json);
    shoal_model_close(model);
    return code;
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
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    if (args.list)
        return list_all(args.json);
    if (args.what == NULL || strcmp(args.what, "show") != 0)
        return cli_usage("model", "what to do? `shoal model show NAME|FILE`, `shoal model --list`");
    if (args.model == NULL)
        return cli_usage("model", "which model? `shoal model --list` names them");
    return show(&args);
}
