/* SPDX-License-Identifier: Apache-2.0 */
/* The page: one file, without scripts, that asks nobody for anything (its policy forbids it). */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "markup.h"
#include "report.h"
#include "report_charts.h"
#include "report_style.h"
#include "report_table.h"
#include "runs_show.h"

static int64_t count_of(const json_t *object, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(object, key));
}

static void head(FILE *out, const char *level, const char *id, const char *word, const char *text)
{
    fprintf(out, "<%s id=\"%s-%s\">", level, id, word);
    cli_markup(out, text);
    fprintf(out, "</%s>\n", level);
}

static void term(FILE *out, const char *name, const char *text)
{
    if (text[0] == '\0')
        return;
    fprintf(out, "<dt>%s</dt><dd>", name);
    cli_markup(out, text);
    fputs("</dd>\n", out);
}

static void term_number(FILE *out, const char *name, double value, const char *format)
{
    char text[64];
    if (!isfinite(value))
        return;
    snprintf(text, sizeof text, format, value);
    term(out, name, text);
}

static bool is_simulated(const json_t *facts)
{
    return json_is_true(json_object_get(facts, "simulated"));
}

/* ---------------------------------------------------------------- what ran */

static void put_word(FILE *out, const char *name, const char *value)
{
    char *quoted = runs_quoted(value);
    fputs(" --", out);
    cli_markup(out, name);
    if (value[0] != '\0' && quoted != NULL) {
        fputc(' ', out);
        cli_markup(out, quoted);
    }
    free(quoted);
}

/* All options are in run.json; values of exported variables are kept nowhere. */
static void put_command(FILE *out, json_t *options, bool simulated)
{
    const char *name;
    json_t *value;
    fprintf(out, "<dt>command</dt><dd><code>shoal %s", simulated ? "sim" : "train");
    json_object_foreach(options, name, value)
    {
        size_t i;
        const json_t *one;
        if (json_is_string(value))
            put_word(out, name, json_string_value(value));
        else if (json_is_true(value))
            put_word(out, name, "");
        json_array_foreach(value, i, one) if (json_is_string(one))
            put_word(out, name, json_string_value(one));
    }
    fprintf(out, "</code>%s</dd>\n", simulated ? "" : " (with all defaults)");
}

static void put_data(FILE *out, const json_t *run)
{
    char text[96];
    const json_t *data = json_object_get(run, "data");
    term(out, "data", report_text(data, "path"));
    if (json_is_integer(json_object_get(data, "train"))) {
        snprintf(text, sizeof text,
                 "%" PRId64 " to train, %" PRId64 " to test, %" PRId64 " classes",
                 count_of(data, "train"), count_of(data, "test"), count_of(data, "classes"));
        term(out, "samples", text);
    }
    term(out, "digest of data", report_text(data, "sha256"));
}

static void put_about(FILE *out, const json_t *facts)
{
    char text[400];
    json_t *run = json_object_get(facts, "run");
    const json_t *model = json_object_get(run, "model"), *cluster = json_object_get(run, "cluster");
    fputs("<dl>\n", out);
    term(out, "state", report_text(facts, "state"));
    term(out, "clock",
         is_simulated(facts) ? "virtual, from 0 on: shoal sim wrote it, nothing was measured" : "");
    term(out, "begun", is_simulated(facts) ? "" : report_text(facts, "began"));
    term(out, "shoal", report_text(run, "shoal"));
    term(out, "model", report_text(facts, "model"));
    term_number(out, "parameters", report_number(model, "params"), "%.0f");
    put_data(out, run);
    snprintf(text, sizeof text, "%.90s, %.90s, %.90s", report_text(facts, "sync"),
             report_text(facts, "collective"), report_text(facts, "codec"));
    term(out, "exchange", run != NULL && !json_is_null(run) ? text : "");
    term_number(out, "workers", report_number(cluster, "workers"), "%.0f");
    term_number(out, "servers", report_number(cluster, "servers"), "%.0f");
    term(out, "host of rank 0", report_text(cluster, "rank_0"));
    term(out, "seed", report_text(json_object_get(run, "options"), "seed"));
    term(out, "resumed from", report_text(run, "resumed"));
    term(out, "started with", report_text(run, "start"));
    if (json_is_object(json_object_get(run, "options")))
        put_command(out, json_object_get(run, "options"), is_simulated(facts));
    term(out, "goes on by", report_text(facts, "command"));
    fputs("</dl>\n", out);
}

static void put_figures(FILE *out, const json_t *facts)
{
    const json_t *totals = json_object_get(facts, "totals");
    fputs("<dl>\n", out);
    term_number(out, "steps done", report_number(facts, "step"), "%.0f");
    term_number(out, "of", report_number(facts, "steps"), "%.0f");
    term_number(out, "loss", report_number(facts, "loss"), "%.4f");
    term_number(out, "test accuracy, %", report_number(facts, "test_accuracy"), "%.2f");
    term_number(out, "seconds of training", report_number(totals, "seconds"), "%.2f");
    term_number(out, "samples per second", report_number(totals, "samples_per_s"), "%.1f");
    term_number(out, "mean step, ms", report_number(totals, "step_ms"), "%.3f");
    term_number(out, "of it waiting for the exchange, %", 100 * report_number(totals, "wait_share"),
                "%.1f");
    term_number(out, "that is: the exchange itself, %",
                100 * report_number(totals, "exchange_share"), "%.1f");
    term_number(out, "and waiting for slower ranks, %", 100 * report_number(totals, "others_share"),
                "%.1f");
    term_number(out, "bytes sent per step and rank", report_number(totals, "sent_bytes_per_step"),
                "%.0f");
    term_number(out, "and received", report_number(totals, "received_bytes_per_step"), "%.0f");
    fputs("</dl>\n", out);
}

/* ---------------------------------------------------------------- sentences */

static void put_list(FILE *out, const json_t *list)
{
    size_t i;
    const json_t *one;
    fputs("<ul>\n", out);
    json_array_foreach(list, i, one)
    {
        fputs("<li>", out);
        cli_markup(out, json_string_value(one) != NULL ? json_string_value(one) : "");
        fputs("</li>\n", out);
    }
    fputs("</ul>\n", out);
}

static void put_paragraph(FILE *out, const char *text)
{
    if (text[0] == '\0')
        return;
    fputs("<p>", out);
    cli_markup(out, text);
    fputs("</p>\n", out);
}

static void put_verdict(FILE *out, const json_t *facts)
{
    size_t i;
    const json_t *one, *verdict = json_object_get(facts, "verdict");
    fputs("<div class=\"verdict\">\n", out);
    json_array_foreach(json_object_get(verdict, "slow"), i, one)
    {
        fputs("<p><strong>", out);
        cli_markup(out, report_text(one, "text"));
        fputs("</strong></p>\n", out);
        put_paragraph(out, report_text(one, "evidence"));
    }
    put_paragraph(out, report_text(verdict, "text"));
    put_paragraph(out, report_text(verdict, "by_lines"));
    fputs("</div>\n", out);
}

static void put_help(FILE *out, const json_t *facts)
{
    static const report_column columns[] = {{"change", "what", 0, NULL},
                                            {"step, ms", "step_ms", 0, "%.3f"},
                                            {"at least", "low_ms", 0, "%.3f"},
                                            {"at most", "high_ms", 0, "%.3f"},
                                            {"times the samples per second", "times", 0, "%.3f"},
                                            {"of shoal whatif", "change", 0, NULL}};
    const json_t *help = json_object_get(facts, "help");
    const char *why = report_text(help, "not_told");
    put_paragraph(out, report_text(help, "text"));
    if (json_array_size(json_object_get(help, "changes")) > 0)
        report_table(out, "What would help", columns, sizeof columns / sizeof columns[0],
                     json_object_get(help, "changes"));
    if (why[0] != '\0') {
        fputs("<p>Not told: ", out);
        cli_markup(out, why);
        fputs("</p>\n", out);
    }
}

static void put_left_out(FILE *out, const json_t *facts, const char *key, const char *what)
{
    if (count_of(facts, key) > 0)
        fprintf(out, "<p>%" PRId64 " more %s are left out.</p>\n", count_of(facts, key), what);
}

static void put_warnings(FILE *out, const json_t *facts)
{
    static const report_column columns[] = {{"time", "time", 0, NULL},
                                            {"level", "level", 0, NULL},
                                            {"rank", "rank", 0, NULL},
                                            {"text", "text", 0, NULL}};
    const json_t *list = json_object_get(facts, "warnings");
    if (json_array_size(list) == 0)
        fputs("<p>Nothing was warned of.</p>\n", out);
    else
        report_table(out, "Warnings", columns, sizeof columns / sizeof columns[0], list);
    put_left_out(out, facts, "warnings_left_out", "warnings");
}

static void put_events(FILE *out, const json_t *facts)
{
    static const report_column columns[] = {{"time", "time", 0, NULL},
                                            {"event", "event", 0, NULL},
                                            {"step", "step", 0, NULL},
                                            {"workers", "workers", 0, NULL},
                                            {"epoch of members", "members_epoch", 0, NULL},
                                            {"lost", "lost", 0, NULL},
                                            {"seconds", "seconds", 0, "%.3f"}};
    report_folded(out, "Events", columns, sizeof columns / sizeof columns[0],
                  json_object_get(facts, "events"));
    put_left_out(out, facts, "events_left_out", "events");
}

/* ---------------------------------------------------------------- one run */

static void put_curves(FILE *out, const char *id, const json_t *runs)
{
    fputs("<div class=\"pictures\">\n", out);
    report_draw_curve(out, id, runs, &report_loss_by_step);
    report_draw_curve(out, id, runs, &report_loss_by_time);
    report_draw_curve(out, id, runs, &report_accuracy_by_step);
    report_draw_curve(out, id, runs, &report_accuracy_by_time);
    fputs("</div>\n", out);
}

static void put_exchange(FILE *out, const char *id, const json_t *facts)
{
    if (json_array_size(json_object_get(json_object_get(facts, "waits"), "for_ms")) > 0) {
        head(out, "h3", id, "waits", "Who waits for whom");
        report_draw_waits(out, facts);
    }
    if (json_array_size(json_object_get(facts, "links")) > 0 ||
        json_array_size(json_object_get(facts, "codecs")) > 0) {
        head(out, "h3", id, "exchange", "Links and bytes");
        fputs("<div class=\"pictures\">\n", out);
        report_draw_links(out, id, facts);
        report_draw_codecs(out, id, facts);
        fputs("</div>\n", out);
    }
}

static void put_run(FILE *out, size_t number, json_t *facts)
{
    char id[24];
    json_t *alone = json_pack("[O]", facts);
    snprintf(id, sizeof id, "r%zu", number + 1);
    fprintf(out, "<section class=\"run\" aria-labelledby=\"%s-run\">\n", id);
    head(out, "h2", id, "run", report_text(facts, "folder"));
    head(out, "h3", id, "verdict", "Who was slow");
    if (is_simulated(facts))
        fputs("<p>This run is simulated: its times are virtual, its links and workers are as they "
              "were described.</p>\n",
              out);
    put_verdict(out, facts);
    put_figures(out, facts);
    if (json_is_object(json_object_get(facts, "help"))) {
        head(out, "h3", id, "help", "What would help");
        put_help(out, facts);
    }
    if (json_array_size(json_object_get(facts, "notes")) > 0) {
        head(out, "h3", id, "notes", "What is missing, damaged or not over");
        put_list(out, json_object_get(facts, "notes"));
    }
    head(out, "h3", id, "about", "What ran");
    put_about(out, facts);
    if (json_array_size(json_object_get(facts, "loss_points")) > 0) {
        head(out, "h3", id, "curves", "Loss and accuracy");
        put_curves(out, id, alone);
    }
    if (json_array_size(json_object_get(facts, "step_ms_points")) > 0) {
        head(out, "h3", id, "time", "Where the time of a step went");
        fputs("<div class=\"pictures\">\n", out);
        report_draw_parts(out, id, facts);
        report_draw_curve(out, id, alone, &report_step_time);
        fputs("</div>\n", out);
    }
    put_exchange(out, id, facts);
    head(out, "h3", id, "members-over-time", "Members and events");
    report_draw_members(out, id, facts);
    put_events(out, facts);
    head(out, "h3", id, "warnings", "Warnings");
    put_warnings(out, facts);
    fputs("</section>\n", out);
    json_decref(alone);
}

/* ---------------------------------------------------------------- several */

/* A row of the comparison: what is deep in the facts lies flat in it. */
static json_t *flat_of(const json_t *facts)
{
    static const char *const totals[] = {"seconds",    "samples_per_s", "step_ms",
                                         "compute_ms", "wait_ms",       "update_ms",
                                         "other_ms",   "wait_share",    "sent_bytes_per_step"};
    static const char *const own[] = {"folder", "state",   "model", "sync", "collective",
                                      "codec",  "workers", "step",  "loss", "test_accuracy"};
    json_t *row = json_object();
    const json_t *verdict = json_object_get(facts, "verdict"),
                 *slow = json_array_get(json_object_get(verdict, "slow"), 0);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        json_object_set(row, own[i], json_object_get(facts, own[i]));
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++)
        json_object_set(row, totals[i],
                        json_object_get(json_object_get(facts, "totals"), totals[i]));
    json_object_set_new(row, "clock", json_string(is_simulated(facts) ? "virtual" : "real"));
    json_object_set(row, "verdict", json_object_get(slow != NULL ? slow : verdict, "text"));
    return row;
}

static void compare(FILE *out, json_t *runs)
{
    static const report_column columns[] = {
        {"run", "folder", 0, NULL},
        {"state", "state", 0, NULL},
        {"clock", "clock", 0, NULL},
        {"model", "model", 0, NULL},
        {"protocol", "sync", 0, NULL},
        {"collective", "collective", 0, NULL},
        {"codec", "codec", 0, NULL},
        {"workers", "workers", 0, NULL},
        {"steps", "step", 0, NULL},
        {"loss", "loss", 0, "%.4f"},
        {"accuracy, %", "test_accuracy", 0, "%.2f"},
        {"seconds", "seconds", 0, "%.2f"},
        {"samples/s", "samples_per_s", 0, "%.1f"},
        {"step, ms", "step_ms", 0, "%.3f"},
        {"computing, ms", "compute_ms", 0, "%.3f"},
        {"waiting, %", "wait_share", 100, "%.1f"},
        {"bytes per step and rank", "sent_bytes_per_step", 0, "%.0f"},
        {"who was slow", "verdict", 0, NULL}};
    size_t i;
    const json_t *facts;
    json_t *rows = json_array();
    json_array_foreach(runs, i, facts) json_array_append_new(rows, flat_of(facts));
    fputs("<section aria-labelledby=\"all-compare\">\n", out);
    head(out, "h2", "all", "compare", "The runs compared");
    report_table(out, "Runs compared", columns, sizeof columns / sizeof columns[0], rows);
    put_curves(out, "all", runs);
    fputs("<div class=\"pictures\">\n", out);
    report_draw_curve(out, "all", runs, &report_step_time);
    report_draw_runs(out, rows);
    fputs("</div></section>\n", out);
    json_decref(rows);
}

static void put_contents(FILE *out, const json_t *runs)
{
    size_t i;
    const json_t *facts;
    fputs("<nav aria-label=\"Runs on this page\"><ul>\n", out);
    if (json_array_size(runs) > 1)
        fputs("<li><a href=\"#all-compare\">The runs compared</a></li>\n", out);
    json_array_foreach(runs, i, facts)
    {
        fprintf(out, "<li><a href=\"#r%zu-run\">", i + 1);
        cli_markup(out, report_text(facts, "folder"));
        fputs("</a></li>\n", out);
    }
    fputs("</ul></nav>\n", out);
}

void report_page(FILE *out, json_t *runs)
{
    size_t i;
    json_t *facts;
    const size_t count = json_array_size(runs);
    const char *name = report_text(json_array_get(runs, 0), "folder");
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
          "style-src 'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n"
          "<title>Shoal: ",
          out);
    cli_markup(out, count == 1 ? name : "runs compared");
    fprintf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n", report_style);
    fputs("<a class=\"skip\" href=\"#main\">Skip to the content</a>\n<header><h1>", out);
    fputs(count == 1 ? "A run of Shoal" : "Runs of Shoal", out);
    fputs("</h1></header>\n", out);
    put_contents(out, runs);
    fputs("<main id=\"main\">\n", out);
    if (count > 1)
        compare(out, runs);
    json_array_foreach(runs, i, facts) put_run(out, i, facts);
    fprintf(out, "</main>\n<footer><p>Written by <code>shoal report</code>, %s.</p></footer>\n",
            cli_version());
    fputs("</body>\n</html>\n", out);
}
