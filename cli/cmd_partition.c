/* SPDX-License-Identifier: Apache-2.0 */
/* shoal partition: HyPar. Finds a plan, prints it as the paper's figure 5 and its traffic as figure
 * 8, beside the plans that one would have made without it. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "partition_accpar.h"
#include "shoal/partition.h"
#include "table.h"

typedef struct partition_args {
    shoal_partition_desc desc;
    const char *out, *accelerators;
    double ratio, gmac;
    double bytes_per_s; /* AccPar's; 0: not said */
    bool json;
} partition_args;

enum { KEY_GIVEN = 1000, KEY_ACCELERATORS, KEY_RATIO, KEY_GMAC, KEY_MODE, KEY_METHOD, KEY_RATE };

static const struct argp_option options[] = {
    {"model", 'm', "SPEC", 0, "Zoo name or file.json (vgg-a)", 1},
    {"batch", 'b', "N", 0, "Samples per step, of all accelerators together (256)", 1},
    {"levels", 'H', "N", 0, "2^N accelerators: how often they are halved (4)", 1},
    {"workers", 'w', "N", 0, "The same as their number, a power of two", 1},
    {"mode", KEY_MODE, "executed|figure|table2", 0,
     "Costs of shoal train --plan, or those behind the paper's figures, or of its table 2 "
     "(executed)",
     2},
    {"method", KEY_METHOD, "NAME", 0,
     "optimum, greedy (as published), exhaustive, data, model, owt (one weird trick) (optimum)", 2},
    {"given", KEY_GIVEN, "ROWS", 0, "Judge this plan: a row per level, as 0011/0010/0000/0011", 2},
    {"ratio", KEY_RATIO, "X", 0, "Time model: a GMAC per sample against a GB moved (2/7)", 2},
    {"gmac", KEY_GMAC, "X", 0, "Time model: GMAC per sample (counted from the model)", 2},
    {"rate", KEY_RATE, "RATE", 0, "With --accelerators: what one side reads per second, 40gbit", 2},
    {"accelerators", KEY_ACCELERATORS, "LIST", 0,
     "AccPar instead: seconds, a third type and unequal shares, for machines of so many TFLOP/s: "
     "180x2,420x2; needs --rate",
     2},
    {"out", 'o', "FILE", 0, "Write the plan for shoal train --plan FILE", 3},
    {"json", 'j', NULL, 0, "One JSON object", 3},
    {0}};

/* "0.25" or "2/7". */
static bool parse_ratio(const char *text, double *out)
{
    char top[32];
    double over = 0, under = 1;
    const char *slash = strchr(text, '/');
    snprintf(top, sizeof top, "%.*s", slash != NULL ? (int)(slash - text) : 31, text);
    if (!cli_parse_real(top, 1e-12, 1e12, &over) ||
        (slash != NULL && !cli_parse_real(slash + 1, 1e-12, 1e12, &under)))
        return false;
    *out = over / under;
    return *out > 0 && *out < 1e12;
}

static bool parse_rate(const char *text, partition_args *args)
{
    uint64_t bits = 0;
    bool ok = cli_parse_rate(text, &bits) && bits > 0;
    args->bytes_per_s = (double)bits / 8;
    return ok;
}

static bool parse_index(const char *text, const char *(*name)(size_t), int *out)
{
    for (size_t i = 0; name(i) != NULL; i++) {
        if (strcmp(name(i), text) == 0) {
            *out = (int)i;
            return true;
        }
    }
    return false;
}

static bool parse_number(const char *text, int64_t min, int64_t max, uint32_t *out)
{
    int64_t value = 0;
    if (!cli_parse_int(text, min, max, &value))
        return false;
    *out = (uint32_t)value;
    return true;
}

static bool parse_workers(const char *text, uint32_t *levels_out)
{
    uint32_t workers = 0;
    if (!parse_number(text, 1, 1 << SHOAL_PARTITION_LEVELS_MAX, &workers) ||
        (workers & (workers - 1)) != 0)
        return false;
    *levels_out = (uint32_t)__builtin_ctz(workers);
    return true;
}

/* false: a bad value. */
static bool take(partition_args *args, int key, const char *text)
{
    int index = 0;
    bool ok = true;
    switch (key) {
    case 'b':
        return parse_number(text, 1, 1 << 24, &args->desc.batch);
    case 'H':
        return parse_number(text, 0, SHOAL_PARTITION_LEVELS_MAX, &args->desc.levels);
    case 'w':
        return parse_workers(text, &args->desc.levels);
    case KEY_RATIO:
        return parse_ratio(text, &args->ratio);
    case KEY_GMAC:
        return parse_ratio(text, &args->gmac);
    case KEY_RATE:
        return parse_rate(text, args);
    case KEY_MODE:
        ok = parse_index(text, shoal_partition_mode_name, &index);
        args->desc.mode = (shoal_partition_mode)index;
        return ok;
    case KEY_METHOD:
        ok = parse_index(text, shoal_partition_method_name, &index);
        args->desc.method = (shoal_partition_method)index;
        return ok;
    default:
        return true;
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    partition_args *args = state->input;
    switch (key) {
    case 'm':
        args->desc.model = text;
        return 0;
    case 'o':
        args->out = text;
        return 0;
    case 'j':
        args->json = true;
        return 0;
    case KEY_ACCELERATORS:
        args->accelerators = text;
        return 0;
    case KEY_GIVEN:
        args->desc.given = text;
        args->desc.method = SHOAL_PARTITION_GIVEN;
        return 0;
    case 'b':
    case 'H':
    case 'w':
    case KEY_RATIO:
    case KEY_GMAC:
    case KEY_MODE:
    case KEY_METHOD:
    case KEY_RATE:
        if (!take(args, key, text))
            cli_refuse_value(state, key, text);
        return 0;
    case ARGP_KEY_ARG:
        cli_refuse(state, "unexpected argument '%s'", text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ------------------------------------------------------------------ printing */

/* A plan and its comparisons, all of one model, batch and mode. */
typedef struct result {
    shoal_partition *plan;
    shoal_partition *others[5];
    double solve_us;  /* to open the model and find the plan */
    double data_time; /* of pure data parallelism: speed-ups are against it */
} result;
static const shoal_partition_method compared[5] = {SHOAL_PARTITION_DATA, SHOAL_PARTITION_MODEL,
                                                   SHOAL_PARTITION_OWT, SHOAL_PARTITION_GREEDY,
                                                   SHOAL_PARTITION_OPTIMUM};

static void row_text(const shoal_partition *plan, const shoal_partition_info *info, uint32_t level,
                     FILE *out)
{
    for (uint32_t l = 0; l < info->layer_count; l++) {
        shoal_partition_layer_info layer = {.size = sizeof layer};
        if (shoal_partition_layer(plan, l, &layer) == SHOAL_OK)
            fputc((layer.mask >> (level - 1) & 1) != 0 ? '1' : '0', out);
    }
}

static void print_levels(const shoal_partition *plan, const shoal_partition_info *info)
{
    for (uint32_t level = 1; level <= info->levels; level++) {
        uint64_t pair = 0;
        if (shoal_partition_level(plan, level, &pair) != SHOAL_OK)
            return;
        printf("  H%-2u ", level);
        row_text(plan, info, level, stdout);
        printf("   %u pair%s exchange%s %llu elements\n", 1u << (level - 1), level == 1 ? "" : "s",
               level == 1 ? "s" : "", (unsigned long long)pair);
    }
}

static void print_layers(const shoal_partition *plan, const shoal_partition_info *info)
{
    static const table_column columns[] = {{"layer", TABLE_CUT},
                                           {"weights", TABLE_RIGHT},
                                           {"outputs", TABLE_RIGHT},
                                           {"each level", TABLE_TEXT}};
    table *t = table_new(2, columns, sizeof columns / sizeof *columns);
    for (uint32_t l = 0; l < info->layer_count; l++) {
        shoal_partition_layer_info layer = {.size = sizeof layer};
        char levels[3 * 32 + 1] = "";
        if (shoal_partition_layer(plan, l, &layer) != SHOAL_OK)
            break;
        for (uint32_t level = 0; level < info->levels && level < 32; level++)
            memcpy(levels + 3 * level, (layer.mask >> level & 1) != 0 ? "mp " : "dp ", 4);
        table_row(t);
        table_add(t, "%s", layer.name);
        table_add(t, "%llu", (unsigned long long)layer.weights);
        table_add(t, "%llu", (unsigned long long)layer.outputs);
        table_add(t, "%s", levels);
    }
    table_print(t, stdout);
}

static double bytes_of(const shoal_partition *plan)
{
    shoal_partition_info info = SHOAL_PARTITION_INFO_INIT;
    return shoal_partition_describe(plan, &info) == SHOAL_OK ? 4 * (double)info.elements : 0;
}

static void add_method(table *t, const char *name, const shoal_partition *plan,
                       const partition_args *args, const result *r)
{
    const double data = bytes_of(r->others[0]);
    table_row(t);
    table_add(t, "%s", name);
    table_add(t, "%.0f", bytes_of(plan));
    table_add(t, "%.2f%%", data > 0 ? 100 * bytes_of(plan) / data : 100);
    table_add(t, "%.3fx", r->data_time / shoal_partition_time(plan, args->gmac * 1e9, args->ratio));
}

static void print_methods(const partition_args *args, const result *r)
{
    static const table_column columns[] = {{"plan", TABLE_PLAIN},
                                           {"bytes per step", TABLE_RIGHT},
                                           {"of data", TABLE_RIGHT},
                                           {"speed-up", TABLE_RIGHT}};
    table *t = table_new(0, columns, sizeof columns / sizeof *columns);
    add_method(t, "this plan", r->plan, args, r);
    for (int i = 0; i < 5; i++)
        add_method(t, shoal_partition_method_name((size_t)compared[i]), r->others[i], args, r);
    table_print(t, stdout);
}

static void print_table(const partition_args *args, const result *r,
                        const shoal_partition_info *info)
{
    printf("%s, batch %u, %u accelerators, mode %s, %s\n\n", info->model, info->batch,
           1u << info->levels, shoal_partition_mode_name((size_t)info->mode),
           shoal_partition_method_name((size_t)info->method));
    print_layers(r->plan, info);
    puts("\nAs in figure 5 (1: model parallel, first layer left):");
    print_levels(r->plan, info);
    putchar('\n');
    print_methods(args, r);
    if (info->bias_elements > 0 && info->mode != SHOAL_PARTITION_EXECUTED)
        printf("\nBiases are not counted, as in the paper: %llu elements besides.\n",
               (unsigned long long)info->bias_elements);
    if (info->graph)
        puts("\nThe model has branches; it was taken as the chain of its layers.");
    if (info->why_not != NULL)
        printf("\nThe trainer cannot run this plan: %s.\n", info->why_not);
    else
        printf("\nThe trainer sends %llu elements per step for this plan.\n",
               (unsigned long long)info->executed_elements);
}

static json_t *layers_of(const result *r, const shoal_partition_info *info)
{
    json_t *layers = json_array();
    for (uint32_t l = 0; l < info->layer_count; l++) {
        shoal_partition_layer_info layer = {.size = sizeof layer};
        char plan[33] = "";
        if (shoal_partition_layer(r->plan, l, &layer) != SHOAL_OK)
            break;
        for (uint32_t level = 0; level < info->levels && level + 1 < sizeof plan; level++)
            plan[level] = (layer.mask >> level & 1) != 0 ? 'm' : 'd';
        json_t *one = json_object();
        answer_set_text(one, "name", layer.name);
        answer_set_text(one, "kind", layer.kind);
        answer_set_count(one, "weights", layer.weights);
        answer_set_count(one, "outputs", layer.outputs);
        answer_set_text(one, "plan", plan);
        json_array_append_new(layers, one);
    }
    return layers;
}

static json_t *rows_of(const result *r, const shoal_partition_info *info)
{
    json_t *rows = json_array();
    for (uint32_t level = 1; level <= info->levels; level++) {
        uint64_t pair = 0;
        char *text = NULL;
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);
        if (out == NULL || shoal_partition_level(r->plan, level, &pair) != SHOAL_OK)
            break;
        row_text(r->plan, info, level, out);
        (void)fclose(out);
        json_t *one = json_object();
        answer_set_text(one, "row", text);
        answer_set_count(one, "pairs", 1u << (level - 1));
        answer_set_count(one, "pair_elements", pair);
        json_array_append_new(rows, one);
        free(text);
    }
    return rows;
}

static json_t *compared_of(const partition_args *args, const result *r)
{
    const double macs = args->gmac * 1e9;
    json_t *all = json_object();
    for (int i = 0; i < 5; i++) {
        const double time = shoal_partition_time(r->others[i], macs, args->ratio);
        json_t *one = json_object();
        answer_set_number(one, "bytes", bytes_of(r->others[i]));
        answer_set_number(one, "time", time);
        answer_set_number(one, "speedup", r->data_time / time);
        answer_set(all, shoal_partition_method_name((size_t)compared[i]), one);
    }
    return all;
}

static int print_json(const partition_args *args, const result *r, const shoal_partition_info *info)
{
    const double time = shoal_partition_time(r->plan, args->gmac * 1e9, args->ratio);
    json_t *answer = json_object();
    answer_set_text(answer, "model", info->model);
    answer_set_count(answer, "batch", info->batch);
    answer_set_count(answer, "levels", info->levels);
    answer_set_text(answer, "mode", shoal_partition_mode_name((size_t)info->mode));
    answer_set_text(answer, "method", shoal_partition_method_name((size_t)info->method));
    answer_set_count(answer, "elements", info->elements);
    answer_set_count(answer, "bytes", 4 * info->elements);
    answer_set_count(answer, "bias_elements", info->bias_elements);
    answer_set_count(answer, "executed_elements", info->executed_elements);
    answer_set_number(answer, "gmac", info->macs / 1e9);
    answer_set_number(answer, "time", time);
    answer_set_number(answer, "speedup", r->data_time / time);
    answer_set_bool(answer, "graph", info->graph);
    answer_set_bool(answer, "executable", info->why_not == NULL);
    answer_set_number(answer, "solve_us", r->solve_us);
    if (info->why_not != NULL)
        answer_set_text(answer, "why_not", info->why_not);
    answer_set(answer, "layers", layers_of(r, info));
    answer_set(answer, "rows", rows_of(r, info));
    answer_set(answer, "compared", compared_of(args, r));
    return answer_print("partition", answer);
}

/* ------------------------------------------------------------------ the verb */

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static shoal_status find(const partition_args *args, result *r)
{
    double start = now_us();
    shoal_status status = shoal_partition_create(&args->desc, &r->plan);
    r->solve_us = now_us() - start;
    for (int i = 0; i < 5 && status == SHOAL_OK; i++) {
        shoal_partition_desc desc = args->desc;
        desc.method = compared[i];
        status = shoal_partition_create(&desc, &r->others[i]);
    }
    if (status == SHOAL_OK)
        r->data_time = shoal_partition_time(r->others[0], args->gmac * 1e9, args->ratio);
    if (status == SHOAL_OK && args->out != NULL)
        status = shoal_partition_save(r->plan, args->out);
    return status;
}

int cli_partition(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "",
        "Choose data or model parallelism for each layer at each halving of 2^H accelerators "
        "(HyPar).\v"
        "Example: shoal partition --model sfc --workers 4 --batch 256 --out plan.json\n"
        "         shoal train --plan plan.json --data digits --workers 4 --batch 64\n"
        "         shoal partition --model vgg-e --levels 5 --method greedy",
        NULL,
        NULL,
        NULL};
    partition_args args = {.desc = SHOAL_PARTITION_DESC_INIT, .ratio = 2.0 / 7};
    result r = {0};
    shoal_partition_info info = SHOAL_PARTITION_INFO_INIT;
    args.desc.model = "vgg-a";
    args.desc.levels = 4;
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    if (args.accelerators != NULL)
        return partition_accpar(args.desc.model, args.desc.batch, args.accelerators,
                                args.bytes_per_s, args.json);
    if (args.bytes_per_s > 0)
        return cli_usage("partition", "--rate goes with --accelerators; shoal predict --plan says "
                                      "how long a step of shoal train takes");
    shoal_status status = find(&args, &r);
    if (status == SHOAL_OK)
        status = shoal_partition_describe(r.plan, &info);
    int code = status == SHOAL_OK ? CLI_OK : cli_report("partition");
    if (status == SHOAL_OK && args.json)
        code = print_json(&args, &r, &info);
    else if (status == SHOAL_OK)
        print_table(&args, &r, &info);
    shoal_partition_destroy(r.plan);
    for (int i = 0; i < 5; i++)
        shoal_partition_destroy(r.others[i]);
    return code;
}
