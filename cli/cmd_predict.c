/* SPDX-License-Identifier: Apache-2.0 */
/* shoal predict: how long a step takes, what it consists of, what would be better. */
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "gnuplot.h"
#include "predict_args.h"
#include "predict_front.h"
#include "progress_show.h"
#include "table.h"
#include "whole_file.h"

typedef struct predict_args {
    shoal_predict_desc desc;
    bool json, search, sensitivity, kept, ranked;
    const char *svg;
    int64_t keep, steps; /* steps of a run; 0: not asked */
} predict_args;

enum {
    KEY_JSON = 'j',
    KEY_SEARCH = 's',
    KEY_SENSITIVITY = 'S',
    KEY_KEEP = 'K',
    KEY_ALLOW = 'A',
    KEY_OBJECTIVE = 'O',
    KEY_SVG = 'V',
    KEY_STEPS = 0x400,
};

static const struct argp_option options[] = {
    PREDICT_OPTIONS,
    {NULL, 0, NULL, 0, "What to answer:", 4},
    {"search", KEY_SEARCH, NULL, 0,
     "The best configuration for this global batch; what is named above is kept", 4},
    {"keep", KEY_KEEP, "N", 0, "Candidates that a search shows (10)", 4},
    {"objective", KEY_OBJECTIVE, "time|cost|energy", 0,
     "What the best has least of, per step (time)", 4},
    {"allow", KEY_ALLOW, "LIST", 0,
     "What a search may propose, too: lossy (codecs), async (protocols)", 4},
    {"steps", KEY_STEPS, "N", 0, "Also: how long a run of so many takes, and what it costs", 4},
    {"sensitivity", KEY_SENSITIVITY, NULL, 0,
     "Also: one more node, faster links, and the links that other utilisations need", 4},
    {"svg", KEY_SVG, "FILE", 0, "Draw a search's front of time, cost and memory", 4},
    {"json", KEY_JSON, NULL, 0, "One JSON object", 4},
    {0}};

/* "lossy,async" */
static bool parse_allow(const char *text, shoal_predict_desc *desc)
{
    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ",");
        if (len == 5 && strncmp(at, "lossy", 5) == 0)
            desc->allow_lossy = true;
        else if (len == 5 && strncmp(at, "async", 5) == 0)
            desc->allow_async = true;
        else
            return false;
        at += len;
        if (*at == '\0')
            return true;
    }
}

static bool parse_objective(const char *text, shoal_objective *out)
{
    static const char *const names[] = {"time", "cost", "energy"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (shoal_objective)i;
            return true;
        }
    return false;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    predict_args *args = state->input;
    switch (key) {
    case KEY_SEARCH:
        args->search = true;
        return 0;
    case KEY_SENSITIVITY:
        args->sensitivity = true;
        return 0;
    case KEY_SVG:
        args->svg = text;
        return 0;
    case KEY_JSON:
        args->json = true;
        return 0;
    case KEY_ALLOW:
        if (!parse_allow(text, &args->desc))
            cli_refuse(state, "--allow %s: wanted lossy, async, or both with a comma", text);
        return 0;
    case KEY_OBJECTIVE:
        args->ranked = true;
        if (!parse_objective(text, &args->desc.objective))
            cli_refuse(state, "--objective %s: wanted time, cost or energy", text);
        return 0;
    case KEY_KEEP:
        args->kept = true;
        if (!cli_parse_int(text, 1, 100, &args->keep))
            cli_refuse(state, "--keep %s: wanted a whole number from 1 to 100", text);
        return 0;
    case KEY_STEPS:
        if (!cli_parse_int(text, 1, INT64_C(1000000000000), &args->steps))
            cli_refuse(state, "--steps %s: wanted a whole number from 1 to 10^12", text);
        return 0;
    case ARGP_KEY_ARG:
        cli_refuse(state, "unexpected argument '%s'", text);
        return 0;
    default:
        return predict_parse(key, text, state, &args->desc);
    }
}

/* ------------------------------------------------------------------ output */

typedef struct line {
    const char *key, *text;
    double seconds;
} line;

enum { LINES = 14 };
static void lines_of(const shoal_prediction *p, line *out)
{
    const line lines[LINES] = {
        {"forward_s", "forward", p->forward_s},
        {"backward_s", "backward", p->backward_s},
        {"recompute_s", "recomputation", p->recompute_s},
        {"tensor_s", "tensor exchange", p->tensor_s},
        {"tensor_again_s", "  recomputed", p->tensor_again_s},
        {"experts_s", "tokens to experts", p->experts_s},
        {"context_s", "keys and values", p->context_s},
        {"offload_s", "host's memory", p->offload_s},
        {"pipeline_s", "between stages", p->pipeline_s},
        {"bubble_s", "pipeline bubble", p->bubble_s},
        {"exposed_s", "gradients, exposed", p->exposed_s},
        {"straggler_s", "slowest worker", p->straggler_s},
        {"update_s", "optimiser", p->update_s},
        {"other_s", "overhead", p->other_s},
    };
    memcpy(out, lines, sizeof lines);
}

static void print_lines(const line lines[LINES], double step_s)
{
    static const table_column columns[] = {
        {"of which", TABLE_PLAIN}, {"ms", TABLE_RIGHT}, {"%", TABLE_RIGHT}};
    table *t = table_new(2, columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < LINES; i++) {
        if (lines[i].seconds <= 0)
            continue;
        table_row(t);
        table_add(t, "%s", lines[i].text);
        table_add(t, "%.3f", 1e3 * lines[i].seconds);
        table_add(t, "%.1f", 100 * lines[i].seconds / step_s);
    }
    table_print(t, stdout);
}

/* A run of so many steps: its time, and what its accelerators cost and take. */
static void print_run(const predict_args *args, const shoal_prediction *p)
{
    const double hours = (double)args->steps / 3600;
    if (args->steps == 0)
        return;
    printf("  a run of %lld steps: %.4g h (%.4g .. %.4g)", (long long)args->steps,
           hours * p->iteration_s, hours * p->low_s, hours * p->high_s);
    if (p->price > 0)
        printf(", costs %.4g", p->price * hours * p->iteration_s);
    if (p->watts > 0)
        printf(", takes %.4g kWh", p->watts * hours * p->iteration_s / 1e3);
    putchar('\n');
}

static void set_run(json_t *answer, const predict_args *args, const shoal_prediction *p)
{
    json_t *run = args->steps > 0 ? json_object() : NULL;
    const double steps = (double)args->steps;
    if (run == NULL)
        return;
    answer_set_count(run, "steps", (uint64_t)args->steps);
    answer_set_number(run, "seconds", steps * p->iteration_s);
    answer_set_number(run, "low_s", steps * p->low_s);
    answer_set_number(run, "high_s", steps * p->high_s);
    if (p->price > 0)
        answer_set_number(run, "cost", p->price / 3600 * steps * p->iteration_s);
    if (p->watts > 0)
        answer_set_number(run, "joules", p->watts * steps * p->iteration_s);
    answer_set(answer, "run", run);
}

/* Where a protocol without sums of all gradients loses against them, by time alone. */
static void print_rival(const predict_args *args, const shoal_prediction *p)
{
    const double computing = p->forward_s + p->backward_s + p->update_s + p->other_s;
    if (p->models_s > 0)
        printf("  models to neighbours: %.3f ms an iteration on the busiest link, computing %.3f: "
               "they %s\n",
               1e3 * p->models_s, 1e3 * computing,
               p->models_s < computing ? "hide" : "do NOT hide");
    if (p->all_reduce_s > 0)
        printf("  all_reduce: %.3f ms a step, %.3f times as fast as %s%s\n", 1e3 * p->all_reduce_s,
               p->iteration_s / p->all_reduce_s, args->desc.sync,
               p->all_reduce_s < p->iteration_s ? ": take it" : "");
}

static void print_text(const predict_args *args, const shoal_prediction *p)
{
    line lines[LINES];
    lines_of(p, lines);
    if (args->desc.plan != NULL)
        printf("%s on %s: %u worker%s; by data alone %.3f ms, the plan is %.3f times faster\n",
               args->desc.plan, args->desc.cluster, p->workers, p->workers == 1 ? "" : "s",
               1e3 * p->by_data_s, p->by_data_s / p->iteration_s);
    else
        printf("%s on %s: %u worker%s = %u data x %u tensor x %u pipeline%s%.0u, batch %u per "
               "replica\n",
               args->desc.model, args->desc.cluster, p->workers, p->workers == 1 ? "" : "s",
               p->data, p->tensor, p->pipeline, p->context > 1 ? " x context " : "",
               p->context > 1 ? p->context : 0, args->desc.batch > 0 ? args->desc.batch : 64);
    printf("  step             %10.3f ms    (%.3f .. %.3f)   %.4g samples/s\n",
           1e3 * p->iteration_s, 1e3 * p->low_s, 1e3 * p->high_s, p->samples_per_s);
    print_lines(lines, p->iteration_s);
    if (p->price > 0)
        printf("  costs %.4g a step\n", predict_cost(p));
    if (p->watts > 0)
        printf("  takes %.4g kJ a step\n", p->watts * p->iteration_s / 1e3);
    if (p->data * p->context > 1)
        printf("  hidden: %.3f ms of the gradients' exchange; codec %.3f ms; %.4g MB sent per "
               "worker\n",
               1e3 * p->hidden_s, 1e3 * p->codec_s, p->sent_bytes / 1e6);
    print_rival(args, p);
    printf("  memory %.4g GB: weights %.3g, gradients %.3g, optimiser %.3g, activations %.3g, "
           "buffers %.3g",
           p->memory_bytes / 1e9, p->weight_bytes / 1e9, p->gradient_bytes / 1e9,
           p->state_bytes / 1e9, p->activation_bytes / 1e9, p->buffer_bytes / 1e9);
    if (isfinite(p->capacity_bytes))
        printf("; the accelerator has %.4g%s", p->capacity_bytes / 1e9,
               p->memory_bytes > p->capacity_bytes ? ": does NOT fit" : "");
    printf("\n  bottleneck: %s\n", p->bottleneck);
    print_run(args, p);
}

static json_t *causes_of(const shoal_causes *c)
{
    json_t *causes = json_object();
    answer_set_number(causes, "matrix", c->matrix);
    answer_set_number(causes, "vector", c->vector);
    answer_set_number(causes, "memory", c->memory);
    answer_set_number(causes, "network", c->network);
    answer_set_number(causes, "fixed", c->fixed);
    return causes;
}

static void set_memory(json_t *answer, const shoal_prediction *p)
{
    answer_set_number(answer, "params", p->params);
    answer_set_number(answer, "memory_bytes", p->memory_bytes);
    answer_set_number(answer, "weight_bytes", p->weight_bytes);
    answer_set_number(answer, "gradient_bytes", p->gradient_bytes);
    answer_set_number(answer, "state_bytes", p->state_bytes);
    answer_set_number(answer, "activation_bytes", p->activation_bytes);
    answer_set_number(answer, "buffer_bytes", p->buffer_bytes);
    answer_set_number(answer, "capacity_bytes", p->capacity_bytes);
}

static json_t *prediction_of(const shoal_prediction *p)
{
    line lines[LINES];
    json_t *answer = json_object();
    lines_of(p, lines);
    answer_set_count(answer, "workers", p->workers);
    answer_set_count(answer, "data", p->data);
    answer_set_count(answer, "tensor", p->tensor);
    answer_set_count(answer, "pipeline", p->pipeline);
    answer_set_count(answer, "context", p->context);
    answer_set_number(answer, "iteration_s", p->iteration_s);
    answer_set_number(answer, "low_s", p->low_s);
    answer_set_number(answer, "high_s", p->high_s);
    answer_set_number(answer, "samples_per_s", p->samples_per_s);
    if (p->price > 0)
        answer_set_number(answer, "cost", predict_cost(p));
    if (p->watts > 0)
        answer_set_number(answer, "joules", p->watts * p->iteration_s);
    for (int i = 0; i < LINES; i++)
        answer_set_number(answer, lines[i].key, lines[i].seconds);
    answer_set_number(answer, "hidden_s", p->hidden_s);
    if (p->by_data_s > 0) {
        answer_set_number(answer, "by_data_s", p->by_data_s);
        answer_set_number(answer, "speedup", p->by_data_s / p->iteration_s);
    }
    if (p->all_reduce_s > 0)
        answer_set_number(answer, "all_reduce_s", p->all_reduce_s);
    if (p->models_s > 0)
        answer_set_number(answer, "models_s", p->models_s);
    answer_set_number(answer, "codec_s", p->codec_s);
    answer_set_number(answer, "sent_bytes", p->sent_bytes);
    answer_set(answer, "causes", causes_of(&p->causes));
    set_memory(answer, p);
    answer_set_text(answer, "bottleneck", p->bottleneck);
    return answer;
}

static const int targets[4] = {50, 75, 90, 95};

static void print_sensitivity(const shoal_sensitivity *s)
{
    if (isfinite(s->one_more))
        printf("  one more node: %.3fx\n", s->one_more);
    printf("  links twice as fast: %.3fx; machines twice as fast: %.3fx\n", s->faster_link,
           s->faster_compute);
    printf("  one %% faster: links %.2f %%, arithmetic %.2f %%, memory %.2f %%, latencies %.2f %% "
           "of the step\n",
           s->elasticity_link, s->elasticity_compute, s->elasticity_memory, s->elasticity_latency);
    for (int i = 0; i < 4; i++) {
        if (isinf(s->link_for[i]))
            printf("  %d %% of the step in computation: with no link, however fast\n", targets[i]);
        else if (s->link_for[i] == 0)
            printf("  %d %% of the step in computation: with any link\n", targets[i]);
        else
            printf("  %d %% of the step in computation: links %.4g times as fast\n", targets[i],
                   s->link_for[i]);
    }
}

static json_t *sensitivity_of(const shoal_sensitivity *s)
{
    json_t *answer = json_object(), *links = json_object();
    answer_set_number(answer, "one_more", s->one_more);
    answer_set_number(answer, "faster_link", s->faster_link);
    answer_set_number(answer, "faster_compute", s->faster_compute);
    answer_set_number(answer, "elasticity_link", s->elasticity_link);
    answer_set_number(answer, "elasticity_compute", s->elasticity_compute);
    answer_set_number(answer, "elasticity_memory", s->elasticity_memory);
    answer_set_number(answer, "elasticity_latency", s->elasticity_latency);
    for (int i = 0; i < 4; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", targets[i]);
        answer_set_number(links, key, s->link_for[i]);
    }
    answer_set(answer, "link_for", links);
    return answer;
}

/* ------------------------------------------------------------------ the verb */

static int run_one(const predict_args *args)
{
    shoal_prediction p = SHOAL_PREDICTION_INIT;
    shoal_sensitivity s = SHOAL_SENSITIVITY_INIT;
    if (shoal_predict(&args->desc, &p) != SHOAL_OK)
        return cli_report("predict");
    if (args->sensitivity && shoal_predict_sensitivity(&args->desc, &s) != SHOAL_OK)
        return cli_report("predict");
    if (args->json) {
        json_t *answer = prediction_of(&p);
        set_run(answer, args, &p);
        if (args->sensitivity)
            answer_set(answer, "sensitivity", sensitivity_of(&s));
        return answer_print("predict", answer);
    }
    print_text(args, &p);
    if (args->sensitivity)
        print_sensitivity(&s);
    return CLI_OK;
}

static const char *or_default(const char *text, const char *fallback)
{
    return text != NULL ? text : fallback;
}

static const char *const again[] = {"none", "selective", "full"};

static size_t bucket_of(const shoal_predict_desc *d)
{
    return d->bucket_bytes != 0 ? d->bucket_bytes : (size_t)4 << 20;
}

static json_t *candidate_of(const shoal_candidate *c, uint32_t i)
{
    const shoal_predict_desc *d = &c->desc;
    json_t *answer = prediction_of(&c->prediction);
    answer_set_count(answer, "batch", d->batch);
    answer_set_count(answer, "microbatch", d->microbatch);
    answer_set_count(answer, "interleave", d->interleave > 0 ? d->interleave : 1);
    answer_set_count(answer, "zero", d->zero);
    answer_set_text(answer, "recompute", again[d->recompute]);
    answer_set_text(answer, "sync", or_default(d->sync, "all_reduce"));
    answer_set_text(answer, "collective", or_default(d->collective, "ring"));
    answer_set_text(answer, "codec", or_default(d->codec, "identity"));
    answer_set_count(answer, "bucket_bytes", bucket_of(d));
    answer_set_text(answer, "why", i == 0 ? "best" : c->why);
    answer_set_count(answer, "ties", c->ties);
    return answer;
}

static void add_candidate(table *t, const shoal_candidate *c, uint32_t i)
{
    const shoal_predict_desc *d = &c->desc;
    const shoal_prediction *p = &c->prediction;
    const uint32_t numbers[] = {i + 1,       p->workers, p->data,      p->tensor,
                                p->pipeline, d->batch,   d->microbatch};
    table_row(t);
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        table_add(t, "%u", numbers[n]);
    table_add(t, "%s", again[d->recompute]);
    table_add(t, "%s", or_default(d->collective, "ring"));
    table_add(t, "%s", or_default(d->codec, "identity"));
    table_add(t, "%.3f", 1e3 * p->iteration_s);
    table_add(t, "%zuk", bucket_of(d) >> 10);
    table_add(t, "%.4g", p->samples_per_s);
    if (i > 0)
        table_note(t, "%s", c->why);
    if (d->sync != NULL)
        table_note(t, "%s", d->sync);
    if (d->interleave > 1 || d->zero > 0)
        table_note(t, "interleave %u, zero %u", d->interleave > 1 ? d->interleave : 1, d->zero);
    if (c->ties > 0)
        table_note(t, "and %u more that take%s the same time", c->ties, c->ties == 1 ? "s" : "");
}

/* Without `why`: that is against the best of the list. */
static json_t *front_of(const shoal_search *search)
{
    const shoal_candidate *c;
    json_t *front = json_array();
    for (uint32_t i = 0; (c = shoal_search_front(search, i)) != NULL; i++) {
        json_t *point = candidate_of(c, i);
        (void)json_object_del(point, "why");
        (void)json_object_del(point, "ties");
        answer_set_number(point, "cost", predict_cost(&c->prediction));
        json_array_append_new(front, point);
    }
    return front;
}

static void print_front(const shoal_search *search)
{
    const shoal_candidate *c = shoal_search_front(search, 0);
    if (c == NULL)
        return;
    const table_column columns[] = {{"step ms", TABLE_RIGHT},
                                    {c->prediction.price > 0 ? "cost" : "worker s", TABLE_RIGHT},
                                    {"memory GB", TABLE_RIGHT},
                                    {"configuration", TABLE_TEXT}};
    table *t = table_new(0, columns, sizeof columns / sizeof *columns);
    puts("\nnone is better in time, cost and memory at once (by 1 %):");
    for (uint32_t i = 0; (c = shoal_search_front(search, i)) != NULL; i++) {
        const shoal_prediction *p = &c->prediction;
        const shoal_predict_desc *d = &c->desc;
        table_row(t);
        table_add(t, "%.3f", 1e3 * p->iteration_s);
        table_add(t, "%.6g", predict_cost(p));
        table_add(t, "%.3g", p->memory_bytes / 1e9);
        table_add(t,
                  "%u workers = %u x %u x %u, batch %u in %u, interleave %u, zero %u, recompute "
                  "%s, %s, %s",
                  p->workers, p->data, p->tensor, p->pipeline, d->batch, d->microbatch,
                  d->interleave > 1 ? d->interleave : 1, d->zero, again[d->recompute],
                  or_default(d->collective, "ring"), or_default(d->codec, "identity"));
    }
    table_print(t, stdout);
}

static int print_search_json(const predict_args *args, const shoal_search *search, uint64_t tried,
                             uint64_t fit)
{
    const shoal_candidate *c;
    json_t *answer = json_object(), *candidates = json_array();
    answer_set_count(answer, "tried", tried);
    answer_set_count(answer, "fit", fit);
    answer_set_count(answer, "bounded", shoal_search_bounded(search));
    for (uint32_t i = 0; (c = shoal_search_at(search, i)) != NULL; i++) {
        json_t *one = candidate_of(c, i);
        set_run(one, args, &c->prediction);
        json_array_append_new(candidates, one);
    }
    answer_set(answer, "candidates", candidates);
    answer_set(answer, "front", front_of(search));
    return answer_print("predict", answer);
}

/* Why one is not the best stands below it. */
static void print_search(const predict_args *args, const shoal_search *search, uint64_t tried,
                         uint64_t fit)
{
    static const table_column columns[] = {{"#", TABLE_RIGHT},
                                           {"workers", TABLE_RIGHT},
                                           {"data", TABLE_RIGHT},
                                           {"tp", TABLE_RIGHT},
                                           {"pp", TABLE_RIGHT},
                                           {"batch", TABLE_RIGHT},
                                           {"micro", TABLE_RIGHT | TABLE_SPARE},
                                           {"recompute", TABLE_PLAIN | TABLE_SPARE},
                                           {"collective", TABLE_CUT},
                                           {"codec", TABLE_CUT},
                                           {"step ms", TABLE_RIGHT},
                                           {"bucket", TABLE_RIGHT | TABLE_SPARE},
                                           {"samples/s", TABLE_RIGHT | TABLE_SPARE}};
    const shoal_candidate *c;
    table *t = table_new(0, columns, sizeof columns / sizeof *columns);
    printf("%llu configurations looked at, %llu fit into memory; %llu more are slower whatever "
           "they exchange by\n",
           (unsigned long long)tried, (unsigned long long)fit,
           (unsigned long long)shoal_search_bounded(search));
    for (uint32_t i = 0; (c = shoal_search_at(search, i)) != NULL; i++)
        add_candidate(t, c, i);
    table_print(t, stdout);
    print_front(search);
    c = shoal_search_at(search, 0);
    if (args->steps > 0 && c != NULL) {
        printf("\nthe first of them:\n");
        print_run(args, &c->prediction);
    }
}

static void show(void *ctx, double done, double total)
{
    (void)ctx;
    progress_at(done, total, done < total ? "" : "intervals of the best come last");
}

/* Exit code. */
static int draw(const char *path, const shoal_search *search)
{
    if (shoal_search_front(search, 0) == NULL)
        return cli_fail("predict", "nothing fits, so that there is nothing to draw in %s", path);
    whole_file file;
    const char *why = NULL;
    if (whole_file_begin(&file, path)) {
        why = predict_draw_front(file.out, search);
        if (whole_file_end(&file, why == NULL))
            return CLI_OK;
    }
    return cli_fail("predict", "cannot write %s: %s", path, why != NULL ? why : strerror(errno));
}

static int run_search(const predict_args *args)
{
    shoal_search *search = NULL;
    uint64_t fit = 0;
    progress_begin("predict", "ways to divide it", false, "nothing was found yet");
    const shoal_status status = shoal_predict_search_watched(&args->desc, (uint32_t)args->keep,
                                                             show, NULL, &search);
    progress_end();
    if (status != SHOAL_OK)
        return cli_report("predict");
    uint64_t tried = shoal_search_tried(search, &fit);
    int code = args->svg != NULL ? draw(args->svg, search) : CLI_OK;
    if (code == CLI_OK && args->json)
        code = print_search_json(args, search, tried, fit);
    else if (code == CLI_OK)
        print_search(args, search, tried, fit);
    shoal_search_destroy(search);
    return code;
}

int cli_predict(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "",
        "Predict the time of a training step on a described cluster, and its parts.\v"
        "Example: shoal predict --model vgg-a --cluster examples/clusters/lab-4.json --batch 32\n"
        "             --codec fp16 --sensitivity\n"
        "         shoal predict --model megatron-22b --cluster examples/clusters/a100-80g.json\n"
        "             --workers 64 --batch 64 --search\n"
        "         shoal predict --plan plan.json --cluster examples/clusters/lab-4.json\n\n"
        "docs/cluster.md describes cluster files, shoal calibrate writes one; docs/predict.md has "
        "the formulas.",
        progress_children,
        NULL,
        NULL};
    predict_args args = {.desc = SHOAL_PREDICT_DESC_INIT, .keep = 10};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    if ((args.desc.model == NULL && args.desc.plan == NULL) || args.desc.cluster == NULL)
        return cli_usage("predict", "what, on which cluster? --model SPEC | --plan FILE, and "
                                    "--cluster FILE");
    if (!args.search && (args.desc.allow_lossy || args.desc.allow_async || args.kept ||
                         args.ranked || args.svg != NULL))
        return cli_usage("predict", "--allow, --keep, --objective and --svg say nothing without "
                                    "--search");
    const char *why = args.svg != NULL ? gnuplot_missing() : NULL;
    if (why != NULL)
        return cli_fail("predict", "--svg %s: %s", args.svg, why);
    return args.search ? run_search(&args) : run_one(&args);
}
