/* SPDX-License-Identifier: Apache-2.0 */
/* shoal export: a trained network as C without dependencies, and what it would cost in hardware. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "progress_show.h"
#include "shoal/deploy.h"
#include "table.h"

enum {
    KEY_FIXED = 1000,
    KEY_CALIBRATE,
    KEY_ELEMENTS,
    KEY_MULTIPLIERS,
    KEY_LATENCY,
    KEY_CLOCK,
    KEY_WEIGHTS,
    KEY_ONNX
};

typedef struct export_args {
    shoal_deploy_desc deploy;
    const char *out, *name, *weights, *onnx;
    uint32_t bits, elements, multipliers, latency, clock_mhz;
    bool json, fixed; /* fixed: an option says something of fixed point or hardware */
} export_args;

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "What:", 1},
    {"from", 'f', "DIR", 0,
     "--out of a training run: its newest checkpoint; or FILE.safetensors, FILE.onnx", 1},
    {"data", 'd', "DIR", 0,
     "Its data set (as its folder says): samples of it say how large values become", 1},
    {"model", 'm', "SPEC", 0, "(as the checkpoint says)", 1},
    {"fixed", KEY_FIXED, "BITS", 0, "Words of 12 or 16 bits (12)", 1},
    {"calibrate", KEY_CALIBRATE, "N", 0, "Training samples by which fractions are chosen (64)", 1},
    {NULL, 0, NULL, 0, "Where to:", 2},
    {"out", 'o', "DIR", 0, "NAME.h, NAME_weights.h and NAME.safetensors go there", 2},
    {"name", 'n', "NAME", 0, "Of the files and of what they declare (net)", 2},
    {"safetensors", KEY_WEIGHTS, "FILE", 0,
     "Instead: the weights in float32, named and shaped as PyTorch's modules do; of models of "
     "LLaMA's and GPT-2's kind as Hugging Face has them, with config.json if this is a folder "
     "(DIR/)",
     2},
    {"onnx", KEY_ONNX, "FILE", 0,
     "Instead: network and weights in float32 as ONNX, which other runtimes run", 2},
    {NULL, 0, NULL, 0, "In hardware (an estimate by formulas, no synthesis):", 3},
    {"elements", KEY_ELEMENTS, "N", 0, "Processing elements, each a block product per cycle (64)",
     3},
    {"multipliers", KEY_MULTIPLIERS, "N", 0, "As many elements as so many multipliers make", 3},
    {"latency", KEY_LATENCY, "CYCLES", 0, "Of the pipeline, per matrix (16)", 3},
    {"clock", KEY_CLOCK, "MHZ", 0, "(100)", 3},
    {"json", 'j', NULL, 0, "Result as one JSON object", 3},
    {0}};

static const char **text_option(export_args *args, int key)
{
    switch (key) {
    case 'f':
        return &args->deploy.from;
    case 'd':
        return &args->deploy.data;
    case 'm':
        return &args->deploy.model;
    case 'o':
        return &args->out;
    case 'n':
        return &args->name;
    case KEY_WEIGHTS:
        return &args->weights;
    case KEY_ONNX:
        return &args->onnx;
    default:
        return NULL;
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    export_args *args = state->input;
    const char **place = text_option(args, key);
    bool good = true;
    if (place != NULL) {
        *place = text;
        return 0;
    }
    switch (key) {
    case 'j':
        args->json = true;
        break;
    case KEY_FIXED:
        good = cli_parse_count(text, 12, 16, &args->bits) && args->bits % 4 == 0;
        args->fixed = true;
        break;
    case KEY_CALIBRATE:
        good = cli_parse_count(text, 1, 1000000, &args->deploy.calibrate);
        args->fixed = true;
        break;
    case KEY_ELEMENTS:
        good = cli_parse_count(text, 1, 1 << 20, &args->elements);
        args->fixed = true;
        break;
    case KEY_MULTIPLIERS:
        good = cli_parse_count(text, 1, 1 << 24, &args->multipliers);
        args->fixed = true;
        break;
    case KEY_LATENCY:
        good = cli_parse_count(text, 0, 1 << 20, &args->latency);
        args->fixed = true;
        break;
    case KEY_CLOCK:
        good = cli_parse_count(text, 1, 100000, &args->clock_mhz);
        args->fixed = true;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    if (!good)
        cli_refuse_value(state, key, text);
    return 0;
}

/* ------------------------------------------------------------------ costs */

/* All elements are alike: each has as many multipliers as the largest block wants. */
static uint32_t widest_element(const shoal_deploy *deploy)
{
    shoal_deploy_matrix m = {.size = sizeof m};
    uint32_t most = 1;
    for (uint32_t i = 0; shoal_deploy_matrix_of(deploy, i, &m); i++)
        most = m.multipliers > most ? m.multipliers : most;
    return most;
}

static table *matrix_table(void)
{
    static const table_column columns[] = {{"matrix", TABLE_CUT},
                                           {"rows x cols", TABLE_RIGHT},
                                           {"block", TABLE_RIGHT},
                                           {"products", TABLE_RIGHT},
                                           {"weights KiB", TABLE_RIGHT | TABLE_SPARE},
                                           {"cycles", TABLE_RIGHT}};
    return table_new(0, columns, sizeof columns / sizeof *columns);
}

static void add_matrix(table *t, const export_args *args, const shoal_deploy_matrix *m,
                       uint64_t cycles)
{
    table_row(t);
    table_add(t, "%s", m->name);
    table_add(t, "%u x %u", m->rows, m->cols);
    table_add(t, "%u", m->block);
    table_add(t, "%llu", (unsigned long long)(m->block_products * m->places));
    table_add(t, "%.1f", (double)m->weights * args->bits / 8192);
    table_add(t, "%llu", (unsigned long long)cycles);
}

static json_t *matrix_of(const export_args *args, const shoal_deploy_matrix *m, uint64_t cycles)
{
    json_t *one = json_object();
    answer_set_text(one, "name", m->name);
    answer_set_count(one, "rows", m->rows);
    answer_set_count(one, "cols", m->cols);
    answer_set_count(one, "block", m->block);
    answer_set_count(one, "block_products", m->block_products);
    answer_set_count(one, "places", m->places);
    answer_set_count(one, "weight_bits", m->weights * args->bits);
    answer_set_count(one, "cycles", cycles);
    return one;
}

/* Of all matrices together, one after the other. */
typedef struct costs {
    uint32_t element, elements; /* multipliers of one; how many */
    uint64_t cycles, bits;
    double us;
} costs;

static int print_json(const export_args *args, json_t *matrices, const costs *c)
{
    json_t *answer = json_object();
    answer_set_text(answer, "out", args->out);
    answer_set_text(answer, "name", args->name);
    answer_set_count(answer, "bits", args->bits);
    answer_set(answer, "matrices", matrices);
    answer_set_count(answer, "elements", c->elements);
    answer_set_count(answer, "multipliers", (uint64_t)c->elements * c->element);
    answer_set_count(answer, "weight_bits", c->bits);
    answer_set_count(answer, "cycles", c->cycles);
    answer_set_count(answer, "clock_mhz", args->clock_mhz);
    answer_set_number(answer, "frame_us", c->us);
    answer_set_number(answer, "frames_per_s", 1e6 / c->us);
    return answer_print("export", answer);
}

static int print_costs(const export_args *args, const shoal_deploy *deploy)
{
    shoal_deploy_matrix m = {.size = sizeof m};
    costs c = {.element = widest_element(deploy)};
    json_t *matrices = json_array();
    c.elements = args->multipliers == 0           ? args->elements
                 : args->multipliers >= c.element ? args->multipliers / c.element
                                                  : 1;
    table *t = args->json ? NULL : matrix_table();
    for (uint32_t i = 0; shoal_deploy_matrix_of(deploy, i, &m); i++) {
        uint64_t own = shoal_deploy_cycles(&m, c.elements, args->latency);
        if (args->json)
            json_array_append_new(matrices, matrix_of(args, &m, own));
        else
            add_matrix(t, args, &m, own);
        c.cycles += own;
        c.bits += m.weights * args->bits;
    }
    c.us = (double)c.cycles / args->clock_mhz;
    if (args->json)
        return print_json(args, matrices, &c);
    json_decref(matrices);
    table_print(t, stdout);
    printf("%u elements of %u multipliers (%u), %.1f KiB of weights: %llu cycles per frame, "
           "one matrix after the other;\nat %u MHz %.2f us, %.0f frames/s (estimate)\n",
           c.elements, c.element, c.elements * c.element, (double)c.bits / 8192,
           (unsigned long long)c.cycles, args->clock_mhz, c.us, 1e6 / c.us);
    return CLI_OK;
}

/* Instead of fixed point, float32 in one file or both. */
static shoal_status write_floats(const export_args *args, const shoal_deploy *deploy)
{
    shoal_status status = SHOAL_OK;
    if (args->weights != NULL)
        status = shoal_deploy_weights(deploy, args->weights);
    if (status == SHOAL_OK && args->onnx != NULL)
        status = shoal_deploy_onnx(deploy, args->onnx);
    return status;
}

static int tell_floats(const export_args *args)
{
    json_t *answer = json_object();
    if (args->weights != NULL)
        answer_set_text(answer, "safetensors", args->weights);
    if (args->onnx != NULL)
        answer_set_text(answer, "onnx", args->onnx);
    if (args->json)
        return answer_print("export", answer);
    json_decref(answer);
    if (args->weights != NULL)
        printf("%s: float32, PyTorch's names and shapes\n", args->weights);
    if (args->onnx != NULL)
        printf("%s: float32, input \"input\", scores \"scores\"\n", args->onnx);
    return CLI_OK;
}

static int run(const export_args *args)
{
    shoal_deploy *deploy = NULL;
    progress_begin("export", "files", false, "nothing is whole; export it anew");
    if (shoal_deploy_open(&args->deploy, &deploy) != SHOAL_OK) {
        progress_end();
        return cli_report("export");
    }
    if (args->weights != NULL || args->onnx != NULL) {
        const shoal_status written = write_floats(args, deploy);
        progress_end();
        shoal_deploy_close(deploy);
        return written == SHOAL_OK ? tell_floats(args) : cli_report("export");
    }
    shoal_status status = shoal_deploy_export(deploy, args->bits, args->out, args->name);
    progress_end();
    int code = status == SHOAL_OK ? CLI_OK : cli_report("export");
    if (status == SHOAL_OK) {
        if (!args->json)
            printf("%s/%s.h, %s_weights.h, %s.safetensors: %u bits\n", args->out, args->name,
                   args->name, args->name, args->bits);
        code = print_costs(args, deploy);
    }
    shoal_deploy_close(deploy);
    return code;
}

int cli_export(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        NULL,
        "A trained network in fixed point as C code that needs nothing but a compiler, and as "
        "safetensors; what it would cost in hardware. Or in float32 for PyTorch or ONNX.\v"
        "Example: shoal export --from run1 --out build/net --name phones\n\n"
        "    #include \"phones.h\"   then phones_reset(), phones_run(): docs/circulant.md\n\n"
        "Cycles of a matrix of p x q blocks: ceil(p q / elements) + q for transforms + latency. An "
        "element has 2 k - 2 multipliers.",
        progress_children,
        NULL,
        NULL};
    export_args args = {.deploy = SHOAL_DEPLOY_DESC_INIT,
                        .name = "net",
                        .bits = 12,
                        .elements = 64,
                        .latency = 16,
                        .clock_mhz = 100};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    if (args.deploy.from == NULL || (args.out == NULL && args.weights == NULL && args.onnx == NULL))
        return cli_usage("export", "what, and where to? --from DIR --out DIR");
    if ((args.weights != NULL || args.onnx != NULL) && (args.out != NULL || args.fixed))
        return cli_usage("export", "--safetensors and --onnx are of float32 and go without --out, "
                                   "--fixed and what is about hardware");
    return run(&args);
}
