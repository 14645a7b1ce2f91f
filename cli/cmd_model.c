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
    const char *what, *model, *optimizer;
    uint32_t batch; /* 0: not said */
    bool json, list, memory;
} model_args;

enum { KEY_MEMORY = 256, KEY_BATCH, KEY_OPTIMIZER, BATCH = 64 };

static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "One JSON object", 1},
    {"list", 'l', NULL, 0, "The built-in models and the kinds of layers", 1},
    {"memory", KEY_MEMORY, NULL, 0, "What training it takes in memory, per worker", 2},
    {"batch", KEY_BATCH, "N", 0, "With --memory: samples per worker and step [64]", 2},
    {"optimizer", KEY_OPTIMIZER, "SPEC", 0, "With --memory: as for shoal train [sgd:momentum=0.9]",
     2},
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
    case KEY_MEMORY:
        args->memory = true;
        return 0;
    case KEY_BATCH:
        if (!cli_parse_count(text, 1, 1 << 20, &args->batch))
            cli_refuse_value(state, key, text);
        return 0;
    case KEY_OPTIMIZER:
        args->optimizer = text;
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

/* ---------------------------------------------------------------- memory */

/* Rows of the table: what of a shoal_model_memory. */
static const struct {
    const char *key, *text;
    size_t at;
} parts[] = {
    {"parameters", "parameters", offsetof(shoal_model_memory, parameters)},
    {"gradients", "their gradients", offsetof(shoal_model_memory, gradients)},
    {"optimizer", "the optimiser's", offsetof(shoal_model_memory, optimizer)},
    {"state", "running statistics", offsetof(shoal_model_memory, state)},
    {"input", "samples", offsetof(shoal_model_memory, input)},
    {"outputs", "outputs of layers", offsetof(shoal_model_memory, outputs)},
    {"kept", "what layers keep besides", offsetof(shoal_model_memory, kept)},
    {"slopes", "gradients of outputs", offsetof(shoal_model_memory, slopes)},
    {"work", "work of one layer", offsetof(shoal_model_memory, work)},
    {"total", "peak", offsetof(shoal_model_memory, total)},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static uint64_t bytes_of(const shoal_model_memory *memory, size_t i)
{
    uint64_t bytes;
    memcpy(&bytes, (const char *)memory + parts[i].at, sizeof bytes);
    return bytes;
}

static json_t *memory_of(const shoal_model_memory *m, uint32_t batch, const char *optimizer)
{
    json_t *one = json_object();
    answer_set_count(one, "batch", batch);
    answer_set_count(one, "samples", m->samples);
    answer_set_text(one, "optimizer_spec", optimizer);
    for (size_t i = 0; i < PARTS; i++)
        answer_set_count(one, parts[i].key, bytes_of(m, i));
    return one;
}

static int show_memory(const shoal_model *model, const model_args *args)
{
    shoal_model_memory memory = SHOAL_MODEL_MEMORY_INIT;
    shoal_model_info info = SHOAL_MODEL_INFO_INIT;
    const uint32_t batch = args->batch > 0 ? args->batch : BATCH;
    const char *optimizer = args->optimizer != NULL ? args->optimizer : "sgd:momentum=0.9";
    if (shoal_model_describe(model, &info) != SHOAL_OK ||
        shoal_model_memory_of(model, batch, optimizer, &memory) != SHOAL_OK)
        return cli_report("model");
    if (args->json) {
        json_t *answer = head_of(&info);
        answer_set(answer, "memory", memory_of(&memory, batch, optimizer));
        return answer_print("model", answer);
    }
    printf("%s, batch %u, %s: bytes of one worker's training, %u samples at once\n\n", info.name,
           batch, optimizer, memory.samples);
    for (size_t i = 0; i < PARTS; i++)
        printf("  %-26s %14llu %10.1f MiB\n", parts[i].text,
               (unsigned long long)bytes_of(&memory, i), (double)bytes_of(&memory, i) / 0x1p20);
    puts("\nNot counted: the process itself, and what an exchange with others keeps.");
    return CLI_OK;
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
    const int code = args->memory ? show_memory(model, args) : print_model(model, args->json);
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
        "         shoal model show resnet-18 --memory --batch 16\n"
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
    if (!args.memory && (args.batch > 0 || args.optimizer != NULL))
        return cli_usage("model", "--batch and --optimizer belong to --memory");
    return show(&args);
}
