/* SPDX-License-Identifier: Apache-2.0 */
/* shoal explore: E-RNN's Phase I, with real trainings as its trials. */
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "progress_show.h"
#include "shoal/explore.h"
#include "shoal/model.h"
#include "table.h"
#include "train_checks.h"
#include "train_stages.h"
#include "whole_file.h"

enum { MATRICES_MAX = 64, PATH_BYTES = 4096 };

typedef struct explore_args {
    shoal_explore_desc search;
    shoal_train_desc train;
    const char *models[2]; /* lstm, gru */
    const char *admm;
    shoal_explore_matrix matrices[MATRICES_MAX];
    uint32_t trial;
    bool json;
} explore_args;

enum {
    KEY_LSTM = 1000,
    KEY_GRU,
    KEY_LIMIT,
    KEY_BASELINE,
    KEY_MEMORY,
    KEY_BITS,
    KEY_BLOCK,
    KEY_TRIALS,
    KEY_OPTIMIZER,
    KEY_SCHEDULE,
    KEY_ADMM
};

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "What is looked for:", 1},
    {"limit", KEY_LIMIT, "POINTS", 0,
     "Phoneme errors (other data: wrong samples) that may be added to the whole LSTM's (0.3)", 1},
    {"memory", KEY_MEMORY, "BITS", 0, "Of the device, of which weights may take 80 % (no bound)",
     1},
    {"bits", KEY_BITS, "N", 0, "Of a weight on the device (12)", 1},
    {"block-max", KEY_BLOCK, "K", 0, "No larger blocks (64)", 1},
    {"baseline", KEY_BASELINE, "PERCENT", 0, "Error of the whole LSTM (the first trial finds it)",
     1},
    {"trials", KEY_TRIALS, "N", 0, "Trainings in all, at most (5)", 1},
    {"lstm", KEY_LSTM, "SPEC", 0, "Whole LSTM, zoo or file.json (lstm-asr)", 1},
    {"gru", KEY_GRU, "SPEC", 0, "What may take its place (gru-asr)", 1},
    {NULL, 0, NULL, 0, "How each is trained:", 2},
    {"data", 'd', "DIR", 0, "Data set, as for shoal train", 2},
    {"epochs", 'e', "N", 0, "(8)", 2},
    {"batch", 'b', "N", 0, "Samples per step (16)", 2},
    {"lr", 'r', "RATE", 0, "Learning rate (0.005)", 2},
    {"optimizer", KEY_OPTIMIZER, "SPEC", 0, "(adam)", 2},
    {"schedule", KEY_SCHEDULE, "SPEC", 0, "(cosine)", 2},
    {"seed", 's', "N", 0, "(1)", 2},
    {"admm", KEY_ADMM, "SPEC", 0, "Each by ADMM, as shoal train --admm; needs --out", 2},
    {NULL, 0, NULL, 0, "Output:", 3},
    {"out", 'o', "DIR", 0, "Log DIR/explore.json, and DIR/trial-N as of shoal train --out", 3},
    {"json", 'j', NULL, 0, "The log as one JSON object", 3},
    {0}};

/* ------------------------------------------------------------------ options */

static const char **text_option(explore_args *args, int key)
{
    switch (key) {
    case KEY_LSTM:
        return &args->models[0];
    case KEY_GRU:
        return &args->models[1];
    case KEY_OPTIMIZER:
        return &args->train.optimizer;
    case KEY_SCHEDULE:
        return &args->train.schedule;
    case 'd':
        return &args->train.data;
    case 'o':
        return &args->train.out;
    default: /* KEY_ADMM is the only one left */
        return &args->admm;
    }
}

static bool parse_value(explore_args *args, int key, const char *text)
{
    int64_t seed = 0;
    switch (key) {
    case KEY_LIMIT:
        return cli_parse_real(text, 0, 100, &args->search.limit);
    case KEY_BASELINE:
        return cli_parse_real(text, 0, 10000, &args->search.baseline);
    case KEY_MEMORY:
        return cli_parse_real(text, 1, 1e15, &args->search.memory_bits);
    case KEY_BITS:
        return cli_parse_count(text, 1, 64, &args->search.weight_bits);
    case KEY_BLOCK:
        return cli_parse_count(text, 2, 1024, &args->search.k_most);
    case KEY_TRIALS:
        return cli_parse_count(text, 1, SHOAL_EXPLORE_TRIALS_MAX, &args->search.trials);
    case 'e':
        return cli_parse_count(text, 1, 1000000, &args->train.epochs);
    case 'b':
        return cli_parse_count(text, 1, 65536, &args->train.batch);
    case 'r':
        return cli_parse_real(text, 1e-12, 1e6, &args->train.lr);
    case 's':
        if (!cli_parse_int(text, 1, INT64_MAX, &seed))
            return false;
        args->train.seed = (uint64_t)seed;
        return true;
    default:
        *text_option(args, key) = text;
        return true;
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    explore_args *args = state->input;
    if (key == 'j')
        args->json = true;
    else if (text == NULL || key == ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    else if (!parse_value(args, key, text))
        cli_refuse_value(state, key, text);
    return 0;
}

/* ------------------------------------------------------------------ trials */

/* Spec of a choice; the caller's. NULL: no memory. */
static char *spec_of(const explore_args *args, const shoal_explore_choice *choice)
{
    char blocks[64];
    const char *model = args->models[choice->gru];
    if (choice->k == 1)
        return strdup(model);
    int used = snprintf(blocks, sizeof blocks, "k=%u,kx=%u", choice->k, choice->kx);
    if (choice->ky > 1)
        snprintf(blocks + used, sizeof blocks - (size_t)used, ",ky=%u", choice->ky);
    return train_circulate(model, blocks);
}

static shoal_status count_weights(void *ctx, const shoal_explore_choice *choice,
                                  uint64_t *count_out)
{
    const explore_args *args = ctx;
    shoal_model *model = NULL;
    shoal_model_info info = SHOAL_MODEL_INFO_INIT;
    char *spec = spec_of(args, choice);
    shoal_status status = spec != NULL ? shoal_model_open(spec, &model) : SHOAL_ENOMEM;
    free(spec);
    if (status != SHOAL_OK)
        return status;
    status = shoal_model_describe(model, &info);
    *count_out = info.param_count;
    shoal_model_close(model);
    return status;
}

static void show_progress(const explore_args *args, const shoal_train_progress *p)
{
    char note[64];
    snprintf(note, sizeof note, "trial %u  loss %.4f", args->trial, p->loss);
    progress_begin("explore", "steps", false, "trials that have ended are lost, but for --out");
    progress_at((double)p->step, (double)p->steps, note);
}

static shoal_status run_stage(const explore_args *args, const shoal_train_desc *desc,
                              double *error_out)
{
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_status status = shoal_train_create(NULL, desc, &train);
    while (status == SHOAL_OK && !progress.done) {
        status = shoal_train_step(train, &progress);
        if (status == SHOAL_OK)
            show_progress(args, &progress);
    }
    *error_out = isfinite(progress.symbol_error_rate) ? progress.symbol_error_rate
                                                      : 100 - progress.test_accuracy;
    progress_end(); /* the next one has a rate of its own */
    shoal_train_destroy(train);
    return status;
}

static shoal_status train_one(void *ctx, const shoal_explore_choice *choice, double *error_out)
{
    explore_args *args = ctx;
    char out[PATH_BYTES];
    shoal_train_desc desc = args->train;
    train_stages stages = {0};
    char *spec = spec_of(args, choice);
    args->trial++;
    if (args->train.out != NULL) {
        snprintf(out, sizeof out, "%s/trial-%u", args->train.out, args->trial);
        desc.out = out;
    }
    desc.model = spec;
    desc.evaluate_every = UINT32_MAX;
    shoal_status status = spec == NULL
                              ? SHOAL_ENOMEM
                              : train_stages_make(&desc, args->models[choice->gru],
                                                  choice->k > 1 ? args->admm : NULL, &stages);
    for (uint32_t i = 0; i < stages.count && status == SHOAL_OK; i++)
        status = run_stage(args, &stages.desc[i], error_out);
    if (status == SHOAL_OK && !args->json)
        printf("trial %u  %-48s  %.2f %%\n", args->trial, spec, *error_out);
    fflush(stdout);
    train_stages_free(&stages);
    free(spec);
    return status;
}

/* ------------------------------------------------------------------ the log */

static const char *const steps[] = {"whole LSTM",  "smallest blocks", "larger blocks",
                                    "GRU instead", "input matrices",  "output matrices"};

static void set_choice(json_t *one, const explore_args *args, const shoal_explore_choice *choice)
{
    char *spec = spec_of(args, choice);
    answer_set_text(one, "model", spec != NULL ? spec : "");
    answer_set_text(one, "cell", choice->gru ? "gru" : "lstm");
    answer_set_count(one, "k", choice->k);
    answer_set_count(one, "kx", choice->kx);
    answer_set_count(one, "ky", choice->ky);
    free(spec);
}

static json_t *trial_of(const explore_args *args, const shoal_explore_trial *t)
{
    json_t *one = json_object();
    answer_set_text(one, "for", steps[t->step]);
    set_choice(one, args, &t->choice);
    answer_set_count(one, "weights", t->weights);
    answer_set_number(one, "error", t->error);
    answer_set_number(one, "added", t->added);
    answer_set_bool(one, "holds", t->holds);
    answer_set_bool(one, "kept", t->kept);
    return one;
}

static json_t *chosen_of(const explore_args *args, const shoal_explore_result *r)
{
    json_t *one = json_object();
    set_choice(one, args, &r->chosen);
    answer_set_count(one, "weights", r->weights);
    answer_set_number(one, "error", r->error);
    return one;
}

static json_t *log_of(const explore_args *args, const shoal_explore_result *r)
{
    json_t *log = json_object(), *trials = json_array(), *left_out = json_object();
    answer_set_count(log, "k_low", r->k_low);
    answer_set_count(log, "k_high", r->k_high);
    answer_set_number(log, "limit", args->search.limit);
    answer_set_number(log, "baseline", r->baseline);
    for (uint32_t i = 0; i < r->trial_count; i++)
        json_array_append_new(trials, trial_of(args, &r->trials[i]));
    answer_set(log, "trials", trials);
    answer_set_bool(log, "found", r->found);
    if (r->found)
        answer_set(log, "chosen", chosen_of(args, r));
    answer_set_bool(left_out, "blocks", r->blocks_cut);
    answer_set_bool(left_out, "input", r->input_left_out);
    answer_set_bool(left_out, "output", r->output_left_out);
    answer_set(log, "left_out", left_out);
    return log;
}

static bool write_log(const explore_args *args, const shoal_explore_result *r)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/explore.json", args->train.out);
    whole_file file;
    if (!whole_file_begin_inside(&file, path) ||
        !whole_file_end(&file, answer_write(file.out, log_of(args, r)))) {
        (void)cli_fail("explore", "cannot write %s: %s", path, strerror(errno));
        return false;
    }
    return true;
}

static void add_trial(table *to, uint32_t number, const shoal_explore_trial *t)
{
    const uint32_t blocks[] = {t->choice.k, t->choice.kx, t->choice.ky};
    table_row(to);
    table_add(to, "%u", number);
    table_add(to, "%s", steps[t->step]);
    table_add(to, "%s", t->choice.gru ? "GRU" : "LSTM");
    for (size_t i = 0; i < 3; i++)
        table_add(to, "%u", blocks[i]);
    table_add(to, "%llu", (unsigned long long)t->weights);
    table_add(to, "%.2f", t->error);
    table_add(to, "%+.2f", t->added);
    table_add(to, "%s",
              t->kept                             ? "kept"
              : t->step == SHOAL_EXPLORE_BASELINE ? "compared with"
                                                  : "misses the limit");
}

static void print_table(const explore_args *args, const shoal_explore_result *r)
{
    static const table_column columns[] = {{"trial", TABLE_RIGHT},
                                           {"for", TABLE_CUT},
                                           {"cell", TABLE_PLAIN},
                                           {"k", TABLE_RIGHT},
                                           {"kx", TABLE_RIGHT},
                                           {"ky", TABLE_RIGHT},
                                           {"weights", TABLE_RIGHT | TABLE_SPARE},
                                           {"error %", TABLE_RIGHT},
                                           {"added", TABLE_RIGHT | TABLE_SPARE},
                                           {"verdict", TABLE_CUT}};
    printf("\nblocks of %u to %u; the whole LSTM's error %.2f %%, limit %.2f points more\n\n",
           r->k_low, r->k_high, r->baseline, args->search.limit);
    table *trials = table_new(0, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < r->trial_count; i++)
        add_trial(trials, i + 1, &r->trials[i]);
    table_print(trials, stdout);
    if (r->blocks_cut || r->input_left_out || r->output_left_out)
        printf("left out, as the trials were used up:%s%s%s\n",
               r->blocks_cut ? " larger blocks;" : "", r->input_left_out ? " input matrices;" : "",
               r->output_left_out ? " output matrices;" : "");
    if (!r->found) {
        printf("\nnone: with the smallest blocks that fit, the LSTM misses the limit already. Take "
               "larger layers.\n");
        return;
    }
    char *spec = spec_of(args, &r->chosen);
    printf("\nchosen: --model %s, %llu weights, %.2f %%\n", spec != NULL ? spec : "?",
           (unsigned long long)r->weights, r->error);
    free(spec);
}

/* ------------------------------------------------------------------ the verb */

/* Matrices of the LSTM's cells. */
static shoal_status find_matrices(explore_args *args)
{
    shoal_model *model = NULL;
    shoal_layer_info layer = SHOAL_LAYER_INFO_INIT;
    uint32_t count = 0;
    shoal_status status = shoal_model_open(args->models[1], &model); /* its turn comes late */
    if (status != SHOAL_OK)
        return status;
    shoal_model_close(model);
    status = shoal_model_open(args->models[0], &model);
    if (status != SHOAL_OK)
        return status;
    const shoal_tensor *tensors = shoal_model_tensors(model, &count);
    for (uint32_t i = 0; shoal_model_layer(model, i, &layer) == SHOAL_OK; i++) {
        bool cells = strcmp(layer.kind, "lstm") == 0 || strcmp(layer.kind, "gru") == 0;
        for (uint32_t j = 0; cells && j < layer.tensor_count; j++) {
            const shoal_tensor *t = &tensors[layer.tensor_first + j];
            if (t->cols > 0 && args->search.matrix_count < MATRICES_MAX)
                args->matrices[args->search.matrix_count++] = (shoal_explore_matrix){t->rows,
                                                                                     t->cols};
        }
    }
    shoal_model_close(model);
    return SHOAL_OK;
}

static int run(explore_args *args)
{
    shoal_explore_result result = {.size = sizeof result};
    args->search.matrices = args->matrices;
    args->search.weights = count_weights;
    args->search.train = train_one;
    args->search.ctx = args;
    if (find_matrices(args) != SHOAL_OK)
        return cli_report("explore");
    if (args->search.matrix_count == 0)
        return cli_usage("explore", "--lstm %s has no lstm or gru layer", args->models[0]);
    if (args->train.out != NULL && mkdir(args->train.out, 0777) != 0 && errno != EEXIST)
        return cli_fail("explore", "cannot make the folder %s: %s", args->train.out,
                        strerror(errno));
    if (shoal_explore(&args->search, &result) != SHOAL_OK)
        return cli_report("explore");
    if (args->json && answer_print("explore", log_of(args, &result)) != CLI_OK)
        return CLI_FAILED;
    if (!args->json)
        print_table(args, &result);
    if (args->train.out != NULL && !write_log(args, &result))
        return CLI_FAILED;
    return result.found ? CLI_OK : CLI_FAILED;
}

int cli_explore(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        NULL,
        "Phase I of E-RNN: find, in at most five trainings, the recurrent network with the largest "
        "circulant blocks whose error stays within a limit.\v"
        "Example: shoal explore --data speech --memory 38e6 --limit 0.3 --epochs 8 --out search\n\n"
        "Exit status 1 if already the smallest blocks that fit miss the limit. docs/explore.md.",
        progress_children,
        NULL,
        NULL};
    explore_args args = {.search = SHOAL_EXPLORE_DESC_INIT,
                         .train = SHOAL_TRAIN_DESC_INIT,
                         .models = {"lstm-asr", "gru-asr"}};
    args.search.limit = 0.3;
    args.train.optimizer = "adam";
    args.train.schedule = "cosine";
    args.train.lr = 0.005;
    args.train.epochs = 8;
    args.train.batch = 16;
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    if (args.train.data == NULL)
        return cli_usage("explore", "which data? --data DIR; `shoal data speech --out DIR`");
    if (args.admm != NULL && args.train.out == NULL)
        return cli_usage("explore", "--admm needs --out DIR: its parts meet in files");
    return run(&args);
}
