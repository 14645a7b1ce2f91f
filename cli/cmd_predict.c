/* SPDX-License-Identifier: Apache-2.0 */
/* shoal predict: how long a step takes, what it consists of, what would be better. */
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "predict_args.h"

typedef struct predict_args {
    shoal_predict_desc desc;
    bool json, search, sensitivity;
    int64_t keep;
} predict_args;

enum {
    KEY_JSON = 'j',
    KEY_SEARCH = 's',
    KEY_SENSITIVITY = 'S',
    KEY_KEEP = 'K',
};

static const struct argp_option options[] = {
    PREDICT_OPTIONS,
    {NULL, 0, NULL, 0, "What to answer:", 4},
    {"search", KEY_SEARCH, NULL, 0,
     "The best configuration for this global batch; what is named above is kept", 4},
    {"keep", KEY_KEEP, "N", 0, "Candidates that a search shows (10)", 4},
    {"sensitivity", KEY_SENSITIVITY, NULL, 0,
     "Also: one more node, faster links, and the links that other utilisations need", 4},
    {"json", KEY_JSON, NULL, 0, "One JSON object", 4},
    {0}};

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
    case KEY_JSON:
        args->json = true;
        return 0;
    case KEY_KEEP:
        if (!cli_parse_int(text, 1, 100, &args->keep))
            argp_error(state, "--keep %s: 1 .. 100", text);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'", text);
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

enum { LINES = 11 };
static void lines_of(const shoal_prediction *p, line *out)
{
    const line lines[LINES] = {
        {"forward_s", "forward", p->forward_s},
        {"backward_s", "backward", p->backward_s},
        {"recompute_s", "recomputation", p->recompute_s},
        {"tensor_s", "tensor exchange", p->tensor_s},
        {"tensor_again_s", "  recomputed", p->tensor_again_s},
        {"pipeline_s", "between stages", p->pipeline_s},
        {"bubble_s", "pipeline bubble", p->bubble_s},
        {"exposed_s", "gradients, exposed", p->exposed_s},
        {"straggler_s", "slowest worker", p->straggler_s},
        {"update_s", "optimiser", p->update_s},
        {"other_s", "overhead", p->other_s},
    };
    memcpy(out, lines, sizeof lines);
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
        printf("%s on %s: %u worker%s = %u data x %u tensor x %u pipeline, batch %u per replica\n",
               args->desc.model, args->desc.cluster, p->workers, p->workers == 1 ? "" : "s",
               p->data, p->tensor, p->pipeline, args->desc.batch > 0 ? args->desc.batch : 64);
    printf("  step             %10.3f ms    (%.3f .. %.3f)   %.4g samples/s\n",
           1e3 * p->iteration_s, 1e3 * p->low_s, 1e3 * p->high_s, p->samples_per_s);
    for (int i = 0; i < LINES; i++)
        if (lines[i].seconds > 0)
            printf("  %-18s %9.3f ms  %5.1f %%\n", lines[i].text, 1e3 * lines[i].seconds,
                   100 * lines[i].seconds / p->iteration_s);
    if (p->data > 1)
        printf("  hidden: %.3f ms of the gradients' exchange; codec %.3f ms; %.4g MB sent per "
               "worker\n",
               1e3 * p->hidden_s, 1e3 * p->codec_s, p->sent_bytes / 1e6);
    printf("  memory %.4g GB: weights %.3g, gradients %.3g, optimiser %.3g, activations %.3g",
           p->memory_bytes / 1e9, p->weight_bytes / 1e9, p->gradient_bytes / 1e9,
           p->state_bytes / 1e9, p->activation_bytes / 1e9);
    if (isfinite(p->capacity_bytes))
        printf("; the accelerator has %.4g%s", p->capacity_bytes / 1e9,
               p->memory_bytes > p->capacity_bytes ? ": does NOT fit" : "");
    printf("\n  bottleneck: %s\n", p->bottleneck);
}

static void print_number(const char *key, double value, const char *end)
{
    if (isfinite(value))
        printf("\"%s\": %.10g%s", key, value, end);
    else
        printf("\"%s\": null%s", key, end);
}

static void print_json(const shoal_prediction *p)
{
    line lines[LINES];
    const shoal_causes *c = &p->causes;
    lines_of(p, lines);
    printf("{\"workers\": %u, \"data\": %u, \"tensor\": %u, \"pipeline\": %u, ", p->workers,
           p->data, p->tensor, p->pipeline);
    print_number("iteration_s", p->iteration_s, ", ");
    print_number("low_s", p->low_s, ", ");
    print_number("high_s", p->high_s, ", ");
    print_number("samples_per_s", p->samples_per_s, ", ");
    for (int i = 0; i < LINES; i++)
        print_number(lines[i].key, lines[i].seconds, ", ");
    print_number("hidden_s", p->hidden_s, ", ");
    if (p->by_data_s > 0) {
        print_number("by_data_s", p->by_data_s, ", ");
        print_number("speedup", p->by_data_s / p->iteration_s, ", ");
    }
    print_number("codec_s", p->codec_s, ", ");
    print_number("sent_bytes", p->sent_bytes, ", ");
    printf("\"causes\": {");
    print_number("matrix", c->matrix, ", ");
    print_number("vector", c->vector, ", ");
    print_number("memory", c->memory, ", ");
    print_number("network", c->network, ", ");
    print_number("fixed", c->fixed, "}, ");
    print_number("params", p->params, ", ");
    print_number("memory_bytes", p->memory_bytes, ", ");
    print_number("weight_bytes", p->weight_bytes, ", ");
    print_number("gradient_bytes", p->gradient_bytes, ", ");
    print_number("state_bytes", p->state_bytes, ", ");
    print_number("activation_bytes", p->activation_bytes, ", ");
    print_number("capacity_bytes", p->capacity_bytes, ", ");
    printf("\"bottleneck\": \"%s\"", p->bottleneck);
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

static void print_sensitivity_json(const shoal_sensitivity *s)
{
    printf(", \"sensitivity\": {");
    print_number("one_more", s->one_more, ", ");
    print_number("faster_link", s->faster_link, ", ");
    print_number("faster_compute", s->faster_compute, ", ");
    print_number("elasticity_link", s->elasticity_link, ", ");
    print_number("elasticity_compute", s->elasticity_compute, ", ");
    print_number("elasticity_memory", s->elasticity_memory, ", ");
    print_number("elasticity_latency", s->elasticity_latency, ", \"link_for\": {");
    for (int i = 0; i < 4; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", targets[i]);
        print_number(key, s->link_for[i], i < 3 ? ", " : "}}");
    }
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
        print_json(&p);
        if (args->sensitivity)
            print_sensitivity_json(&s);
        printf("}\n");
    } else {
        print_text(args, &p);
        if (args->sensitivity)
            print_sensitivity(&s);
    }
    return CLI_OK;
}

static const char *or_default(const char *text, const char *fallback)
{
    return text != NULL ? text : fallback;
}

static void print_candidate(const predict_args *args, const shoal_candidate *c, uint32_t i)
{
    static const char *const again[] = {"none", "selective", "full"};
    const shoal_predict_desc *d = &c->desc;
    const shoal_prediction *p = &c->prediction;
    const char *sync = or_default(d->sync, "all_reduce");
    const char *collective = or_default(d->collective, "ring");
    const char *codec = or_default(d->codec, "identity");
    size_t bucket = d->bucket_bytes != 0 ? d->bucket_bytes : (size_t)4 << 20;
    if (args->json) {
        printf("%s", i > 0 ? ", " : "");
        print_json(p);
        printf(", \"batch\": %u, \"microbatch\": %u, \"recompute\": \"%s\", \"sync\": \"%s\", "
               "\"collective\": \"%s\", \"codec\": \"%s\", \"bucket_bytes\": %zu, \"why\": "
               "\"%s\"}",
               d->batch, d->microbatch, again[d->recompute], sync, collective, codec, bucket,
               i == 0 ? "best" : c->why);
        return;
    }
    printf("%3u %7u %5u %4u %4u %7u %6u %-9s %-18s %-12s %6zuk %10.3f %9.4g  %s\n", i + 1,
           p->workers, p->data, p->tensor, p->pipeline, d->batch, d->microbatch,
           again[d->recompute], collective, codec, bucket >> 10, 1e3 * p->iteration_s,
           p->samples_per_s, i == 0 ? sync : c->why);
    if (i > 0 && d->sync != NULL)
        printf("    %s\n", sync);
}

static int run_search(const predict_args *args)
{
    shoal_search *search = NULL;
    uint64_t fit = 0;
    if (shoal_predict_search(&args->desc, (uint32_t)args->keep, &search) != SHOAL_OK)
        return cli_report("predict");
    uint64_t tried = shoal_search_tried(search, &fit);
    if (args->json)
        printf("{\"tried\": %llu, \"fit\": %llu, \"candidates\": [", (unsigned long long)tried,
               (unsigned long long)fit);
    else
        printf("%llu configurations, %llu fit into memory\n%3s %7s %5s %4s %4s %7s %6s %-9s %-18s "
               "%-12s %7s %10s %9s  %s\n",
               (unsigned long long)tried, (unsigned long long)fit, "#", "workers", "data", "tp",
               "pp", "batch", "micro", "recompute", "collective", "codec", "bucket", "step ms",
               "samples/s", "why not");
    const shoal_candidate *c;
    for (uint32_t i = 0; (c = shoal_search_at(search, i)) != NULL; i++)
        print_candidate(args, c, i);
    if (args->json)
        printf("]}\n");
    shoal_search_destroy(search);
    return CLI_OK;
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
        NULL,
        NULL,
        NULL};
    predict_args args = {.desc = SHOAL_PREDICT_DESC_INIT, .keep = 10};
    argp_err_exit_status = CLI_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, &args) != 0)
        return CLI_USAGE;
    if ((args.desc.model == NULL && args.desc.plan == NULL) || args.desc.cluster == NULL)
        return cli_usage("predict", "what, on which cluster? --model SPEC | --plan FILE, and "
                                    "--cluster FILE");
    return args.search ? run_search(&args) : run_one(&args);
}
