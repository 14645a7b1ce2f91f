/* SPDX-License-Identifier: Apache-2.0 */
#include "report_charts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chart.h"
#include "report.h"
#include "report_table.h"

const report_curve report_loss_by_step = {
    "loss_points",       "last", "mean", "low", "high", "Loss over steps", "step",
    "loss of the batch", "loss"};
const report_curve report_loss_by_time = {
    "loss_points",       "time_s",   "mean", "low", "high", "Loss over time", "seconds of training",
    "loss of the batch", "loss-time"};
const report_curve report_accuracy_by_step = {
    "epoch_lines",         "step", "test_accuracy",    NULL,      NULL,
    "Accuracy over steps", "step", "test accuracy, %", "accuracy"};
const report_curve report_accuracy_by_time = {
    "epoch_lines",         "time_s",           "test_accuracy", NULL, NULL, "Accuracy over time",
    "seconds of training", "test accuracy, %", "accuracy-time"};
const report_curve report_step_time = {"step_ms_points", "last", "mean", "low", "high",
                                       "Time of a step", "step", "ms",   "step"};

enum { WORD = 64, SENTENCE = 400 };

/* The values of a key, in an array of the caller's; rows that lack it are NAN. */
static double *column_of(const json_t *list, const char *key)
{
    size_t i;
    const json_t *row;
    double *values = calloc(json_array_size(list) + 1, sizeof *values);
    if (values != NULL && key != NULL)
        json_array_foreach(list, i, row) values[i] = report_number(row, key);
    return values;
}

/* ---------------------------------------------------------------- lines */

typedef struct arrays {
    double *x, *y, *low, *high;
    size_t count, known; /* points, and those that can be drawn */
} arrays;

static arrays arrays_of(const json_t *facts, const report_curve *curve)
{
    const json_t *list = json_object_get(facts, curve->list);
    arrays a = {.x = column_of(list, curve->x),
                .y = column_of(list, curve->y),
                .low = column_of(list, curve->low),
                .high = column_of(list, curve->high),
                .count = json_array_size(list)};
    for (size_t i = 0; a.x != NULL && a.y != NULL && i < a.count; i++)
        a.known += isfinite(a.x[i]) && isfinite(a.y[i]);
    return a;
}

static chart_line line_of(const arrays *a, const report_curve *curve, const char *name, bool band)
{
    return (chart_line){.name = name,
                        .x = a->x,
                        .y = a->y,
                        .low = band && curve->low != NULL ? a->low : NULL,
                        .high = band && curve->high != NULL ? a->high : NULL,
                        .count = a->known > 0 ? a->count : 0,
                        .dots = a->known < 40};
}

static void tell_curve(char *about, const json_t *runs, const arrays *all,
                       const report_curve *curve)
{
    size_t used = 0, i;
    const json_t *facts;
    about[0] = '\0';
    json_array_foreach(runs, i, facts)
    {
        size_t first = 0, last = all[i].count;
        while (first < last && !isfinite(all[i].y[first]))
            first++;
        while (last > first && !isfinite(all[i].y[last - 1]))
            last--;
        if (first == last || used + 96 > SENTENCE)
            continue;
        used += (size_t)snprintf(about + used, SENTENCE - used, "%.40s: from %.4g to %.4g. ",
                                 report_text(facts, "folder"), all[i].y[first], all[i].y[last - 1]);
    }
    if (curve->low != NULL && json_array_size(runs) == 1)
        snprintf(about + used, SENTENCE - used,
                 "The line is the mean, the band from the least to the largest.");
}

static void curve_table(FILE *out, const json_t *facts, const report_curve *curve)
{
    static const report_column points[] = {
        {"first step", "first", 0, NULL}, {"last step", "last", 0, NULL},
        {"mean", "mean", 0, "%.6g"},      {"least", "low", 0, "%.6g"},
        {"largest", "high", 0, "%.6g"},   {"seconds", "time_s", 0, "%.6g"}};
    static const report_column epochs[] = {{"epoch", "epoch", 0, NULL},
                                           {"step", "step", 0, NULL},
                                           {"train loss", "train_loss", 0, "%.6g"},
                                           {"test loss", "test_loss", 0, "%.6g"},
                                           {"accuracy, %", "test_accuracy", 0, "%.4g"},
                                           {"seconds", "time_s", 0, "%.6g"}};
    char caption[SENTENCE];
    const bool of_epochs = strcmp(curve->list, "epoch_lines") == 0;
    snprintf(caption, sizeof caption, "%s, %s", curve->title, report_text(facts, "folder"));
    report_folded(out, caption, of_epochs ? epochs : points, 6,
                  json_object_get(facts, curve->list));
}

void report_draw_curve(FILE *out, const char *id, const json_t *runs, const report_curve *curve)
{
    arrays all[REPORT_RUNS_MOST] = {{0}};
    chart_line lines[REPORT_RUNS_MOST];
    char word[WORD], about[SENTENCE];
    const char *why;
    size_t i, known = 0, count = json_array_size(runs);
    const json_t *facts;
    json_array_foreach(runs, i, facts)
    {
        all[i] = arrays_of(facts, curve);
        lines[i] = line_of(&all[i], curve, count > 1 ? report_text(facts, "folder") : NULL,
                           count == 1);
        known += all[i].known;
    }
    snprintf(word, sizeof word, "%s-%s", id, curve->word);
    if (known > 0) {
        tell_curve(about, runs, all, curve);
        const chart_plot plot = {.title = curve->title,
                                 .x_label = curve->x_label,
                                 .y_label = curve->y_label,
                                 .dashes = true,
                                 .id = word,
                                 .about = about,
                                 .lines = lines,
                                 .line_count = count};
        fputs("<figure>\n", out);
        if ((why = chart_draw(out, &plot)) != NULL)
            fprintf(out, "<p>%s</p>\n", why);
        json_array_foreach(runs, i, facts) curve_table(out, facts, curve);
        fputs("</figure>\n", out);
    }
    for (i = 0; i < count; i++) {
        free(all[i].x);
        free(all[i].y);
        free(all[i].low);
        free(all[i].high);
    }
}

/* ---------------------------------------------------------------- members */

/* Seconds since 1970 of "2026-11-25T18:59:30.394Z"; NAN: none. */
static double moment_of(const char *text)
{
    struct tm when = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:", &when);
    char *end = NULL;
    const double second = rest != NULL ? strtod(rest, &end) : 0;
    if (rest == NULL || end == rest || *end != 'Z' || !(second >= 0 && second < 61))
        return (double)NAN;
    return (double)timegm(&when) + second;
}

/* Events that say how many workers there are, with their seconds since the first. */
static json_t *members_of(const json_t *facts)
{
    size_t i;
    const json_t *event;
    json_t *list = json_array();
    double begin = (double)NAN;
    json_array_foreach(json_object_get(facts, "events"), i, event)
    {
        const double moment = moment_of(report_text(event, "time"));
        if (!json_is_number(json_object_get(event, "workers")) || !isfinite(moment))
            continue;
        begin = isfinite(begin) ? begin : moment;
        json_t *one = json_pack("{s:f}", "after_s", moment - begin);
        static const char *const kept[] = {"workers", "event", "step", "members_epoch", "time"};
        for (size_t k = 0; k < sizeof kept / sizeof kept[0]; k++)
            json_object_set(one, kept[k], json_object_get(event, kept[k]));
        json_array_append_new(list, one);
    }
    return list;
}

void report_draw_members(FILE *out, const char *id, const json_t *facts)
{
    static const report_column columns[] = {{"seconds", "after_s", 0, "%.3f"},
                                            {"event", "event", 0, NULL},
                                            {"workers", "workers", 0, NULL},
                                            {"step", "step", 0, NULL},
                                            {"epoch of members", "members_epoch", 0, NULL},
                                            {"time", "time", 0, NULL}};
    char word[WORD];
    const char *why;
    json_t *members = members_of(facts);
    double *x = column_of(members, "after_s"), *y = column_of(members, "workers");
    const chart_line line = {
        .x = x, .y = y, .count = json_array_size(members), .stairs = true, .dots = true};
    const chart_plot plot = {.title = "Workers over time",
                             .x_label = "seconds since the run began",
                             .y_label = "workers",
                             .zero_y = true,
                             .id = word,
                             .about = "How many workers there are after each event of the table.",
                             .lines = &line,
                             .line_count = 1,
                             .height = 240};
    snprintf(word, sizeof word, "%s-members", id);
    if (line.count > 0 && x != NULL && y != NULL) {
        fputs("<figure>\n", out);
        if ((why = chart_draw(out, &plot)) != NULL)
            fprintf(out, "<p>%s</p>\n", why);
        report_folded(out, plot.title, columns, sizeof columns / sizeof columns[0], members);
        fputs("</figure>\n", out);
    }
    free(x);
    free(y);
    json_decref(members);
}
