/* SPDX-License-Identifier: Apache-2.0 */
/* shoal whatif: how long a step of a run would take if something were changed. */
#include <argp.h>
#include <math.h>
#include <string.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "progress_show.h"
#include "whatif.h"

enum { KEY_SYNC = 1000, KEY_BANDWIDTH, KEY_LATENCY, KEY_STRAGGLER, KEY_COMPUTE, KEY_LINK };

typedef struct whatif_args {
    whatif_change change;
    const char *folder;
    bool json;
} whatif_args;

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "What is changed:", 1},
    {"bandwidth", KEY_BANDWIDTH, "RATE|TIMESx", 0,
     "Of every host's link: 1gbit, or so many times as much as it was: 4x", 1},
    {"latency", KEY_LATENCY, "MICROSECONDS", 0, "One way between hosts (what is taken now: 50)", 1},
    {"codec", 'k', "SPEC", 0, "fp16, eden:bits=4, ...", 1},
    {"collective", 'c', "SPEC", 0, "ring, halving_doubling, ...", 1},
    {"sync", KEY_SYNC, "SPEC", 0, "Protocol: all_reduce, hop, diloco:every=32, ...", 1},
    {"workers", 'w', "N", 0, "So many, each with the batch that it has", 1},
    {"straggler", KEY_STRAGGLER, "none|RANK:TIMESx", 0,
     "Nobody is slower than the median worker, or that rank takes so many times as long as it", 1},
    {"compute", KEY_COMPUTE, "TIMESx", 0, "Forward and backward pass so many times as fast: 2x", 1},
    {NULL, 0, NULL, 0, "What is known, and told:", 2},
    {"link", KEY_LINK, "RATE", 0,
     "What each host's link could carry in the run (as its lab or its lines say)", 2},
    {"json", 'j', NULL, 0, "One JSON object", 2},
    {0}};

/* "2x" or "2" */
static bool parse_times(const char *text, double *out)
{
    char number[32];
    size_t length = strlen(text);
    length -= length > 1 && text[length - 1] == 'x';
    if (length >= sizeof number)
        return false;
    memcpy(number, text, length);
    number[length] = '\0';
    return cli_parse_real(number, 0.001, 1000, out);
}

static bool parse_value(whatif_args *args, int key, const char *text)
{
    int64_t number = 0;
    switch (key) {
    case KEY_LATENCY:
        return cli_parse_real(text, 0, 1e7, &args->change.latency_us);
    case KEY_COMPUTE:
        return parse_times(text, &args->change.compute);
    case KEY_LINK:
        return cli_parse_rate(text, &args->change.link_bits);
    default:
        args->change.workers = cli_parse_int(text, 2, WHATIF_WORKERS_MOST, &number)
                                   ? (uint32_t)number
                                   : 0;
        return args->change.workers > 0;
    }
}

/* The field that a textual option goes to; NULL: another option. */
static const char **text_of(whatif_args *args, int key)
{
    switch (key) {
    case KEY_BANDWIDTH:
        return &args->change.bandwidth;
    case 'k':
        return &args->change.codec;
    case 'c':
        return &args->change.collective;
    case KEY_SYNC:
        return &args->change.sync;
    case KEY_STRAGGLER:
        return &args->change.straggler;
    default:
        return NULL;
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    whatif_args *args = state->input;
    const char **field = text_of(args, key);
    if (field != NULL) {
        *field = text;
        return 0;
    }
    switch (key) {
    case 'j':
        args->json = true;
        return 0;
    case 'w':
    case KEY_LATENCY:
    case KEY_COMPUTE:
    case KEY_LINK:
        if (!parse_value(args, key, text))
            cli_refuse_value(state, key, text);
        return 0;
    case ARGP_KEY_ARG:
        if (args->folder != NULL)
            cli_refuse(state, "one folder at a time, and '%s' is another one", text);
        args->folder = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---------------------------------------------------------------- what it says */

static double mbit_of(const whatif_world *w)
{
    double least = (double)INFINITY;
    for (uint32_t h = 0; h < w->hosts; h++)
        least = fmin(least, w->nic_bytes_s[h]);
    return 8e-6 * least;
}

static json_t *measured_of(const whatif_run *run)
{
    json_t *one = json_object();
    answer_set_number(one, "step_s", run->measured.step_s);
    answer_set_number(one, "error_s", run->error_s);
    answer_set_number(one, "compute_s", run->compute_s);
    answer_set_number(one, "wait_s", run->wait_s);
    answer_set_number(one, "update_s", run->world.update_s);
    answer_set_number(one, "other_s", run->world.other_s);
    answer_set_number(one, "jitter", run->world.jitter);
    answer_set_number(one, "sent_bytes", run->measured.sent_bytes);
    answer_set_count(one, "steps", run->steps);
    answer_set_count(one, "workers", run->world.workers);
    answer_set_text(one, "sync", run->world.sync);
    answer_set_text(one, "collective", run->world.collective);
    answer_set_text(one, "codec", run->world.codec);
    answer_set_number(one, "slowest_link_mbit", mbit_of(&run->world));
    return one;
}

static json_t *step_of(const whatif_step *step)
{
    json_t *one = json_object();
    answer_set_number(one, "step_s", step->step_s);
    answer_set_number(one, "wait_s", step->step_s - step->own_s);
    answer_set_number(one, "sent_bytes", step->sent_bytes);
    return one;
}

static int print_json(const whatif_args *args, const whatif_run *run, const whatif_answer *a)
{
    json_t *all = json_object(), *predicted = json_object();
    answer_set_text(all, "folder", args->folder);
    answer_set(all, "measured", measured_of(run));
    answer_set(all, "simulated", step_of(&a->base));
    answer_set(all, "simulated_changed", step_of(&a->changed));
    answer_set_number(predicted, "step_s", a->step_s);
    answer_set_number(predicted, "low_s", a->low_s);
    answer_set_number(predicted, "high_s", a->high_s);
    answer_set_count(predicted, "workers", a->workers);
    answer_set_number(predicted, "samples_per_s", (double)run->batch * a->workers / a->step_s);
    answer_set_number(predicted, "times_as_fast", run->measured.step_s / a->step_s);
    answer_set(all, "predicted", predicted);
    answer_set(all, "notes", json_incref(run->notes));
    return answer_print("whatif", all);
}

static void print_text(const whatif_args *args, const whatif_run *run, const whatif_answer *a)
{
    size_t i;
    const json_t *note;
    const double step_s = run->measured.step_s;
    printf("%s: %s, %u workers, %s by %s, %s, links of %.4g Mbit/s\n", args->folder, run->name,
           run->world.workers, run->world.sync, run->world.collective, run->world.codec,
           mbit_of(&run->world));
    printf(
        "  measured   %10.3f ms a step   (+- %.3f over %llu steps; computing %.3f, waiting %.3f, "
        "update %.3f, other %.3f)\n",
        1e3 * step_s, 1e3 * run->error_s, (unsigned long long)run->steps, 1e3 * run->compute_s,
        1e3 * run->wait_s, 1e3 * run->world.update_s, 1e3 * run->world.other_s);
    printf("  simulated  %10.3f ms          (%+.1f %%)\n", 1e3 * a->base.step_s,
           100 * (a->base.step_s / step_s - 1));
    printf("  changed    %10.3f ms a step   (%.3f .. %.3f)   %.3g times as fast, %.4g samples/s\n",
           1e3 * a->step_s, 1e3 * a->low_s, 1e3 * a->high_s, step_s / a->step_s,
           (double)run->batch * a->workers / a->step_s);
    json_array_foreach(run->notes, i, note) printf("  note: %s\n", json_string_value(note));
}

static int answer(const whatif_args *args)
{
    static report_run run;
    whatif_run measured = {0};
    whatif_answer a;
    if (args->folder[0] == '\0')
        return cli_usage("whatif", "the name of a folder is empty");
    progress_begin("whatif", "simulations", false, "nothing was changed");
    int code = report_read("whatif", args->folder, &run);
    if (code == CLI_OK)
        code = whatif_take(&run, args->change.link_bits, &measured);
    if (code == CLI_OK)
        code = whatif_ask(&measured, &args->change, &a);
    progress_end();
    if (code == CLI_OK && args->json)
        code = print_json(args, &measured, &a);
    else if (code == CLI_OK)
        print_text(args, &measured, &a);
    whatif_close(&measured);
    report_free(&run);
    return code;
}

int cli_whatif(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "DIR",
        "How long a step of a run that was measured would take if something were changed: its "
        "links, its codec, its protocol, its number of workers, a slow worker. The run is "
        "simulated as it was and with the change, and what the simulation leaves unexplained of "
        "the measured step is said by the interval. Nothing runs, and nothing is changed.\v"
        "Example: shoal whatif runs/x --bandwidth 1gbit\n"
        "         shoal whatif runs/x --codec eden:bits=4 --workers 16\n"
        "         shoal whatif runs/x --straggler none --json\n\n"
        "DIR is the --out of shoal train, with the metrics of all ranks. docs/whatif.md says what "
        "is taken from them, how far predictions were off, and what is not modelled.",
        progress_children,
        NULL,
        NULL};
    whatif_args args = {.change = {.latency_us = -1}};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    const whatif_change *c = &args.change;
    if (args.folder == NULL)
        return cli_usage("whatif", "of which run? Name its folder");
    if (c->bandwidth == NULL && c->latency_us < 0 && c->codec == NULL && c->collective == NULL &&
        c->sync == NULL && c->workers == 0 && c->straggler == NULL && !(c->compute > 0))
        return cli_usage("whatif", "what is changed? --bandwidth, --latency, --codec, "
                                   "--collective, --sync, --workers, --straggler, --compute");
    return answer(&args);
}
