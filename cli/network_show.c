/* SPDX-License-Identifier: Apache-2.0 */
#include "network_show.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "answer.h"
#include "chart.h"
#include "markup.h"
#include "network_shapes.h"
#include "table.h"

enum { POINTS_MAX = 1000 };

double network_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* ------------------------------------------------------------------ one answer */

static void show_dimensions(FILE *out, const shoal_network_info *info,
                            const shoal_network_answer *a)
{
    static const table_column columns[] = {{"dimension", TABLE_PLAIN}, {"kind", TABLE_PLAIN},
                                           {"size", TABLE_RIGHT},      {"GB/s", TABLE_RIGHT},
                                           {"bytes", TABLE_RIGHT},     {"waits %", TABLE_RIGHT}};
    table *t = table_new(0, columns, sizeof columns / sizeof *columns);
    for (uint32_t d = 0; d < info->dims; d++) {
        table_row(t);
        table_add(t, "b%u", d);
        table_add(t, "%s", info->topology[d]);
        table_add(t, "%u", info->members[d]);
        table_add(t, "%.3f", a->bandwidth[d]);
        table_add(t, "%.6g", info->traffic[d]);
        table_add(t, "%.1f", 100 * a->price[d]);
        if (a->high[d] > a->low[d])
            table_note(t, "anything of %.3f .. %.3f GB/s", a->low[d], a->high[d]);
    }
    table_print(t, out);
}

static void show_answer(FILE *out, const network_report *report, const network_result *result)
{
    const shoal_network_info *info = &report->info;
    const shoal_network_answer *a = &result->answer;
    show_dimensions(out, info, a);
    fprintf(out, "time      %14.1f ns; evenly spread %.1f ns: %.4fx\n", a->time_ns,
            a->equal_time_ns, a->equal_time_ns / a->time_ns);
    if (info->has_cost)
        fprintf(out, "cost      %14.2f $; evenly spread %.2f $: performance per cost %.3fx\n",
                a->cost, a->equal_cost, a->equal_time_ns * a->equal_cost / (a->time_ns * a->cost));
    fprintf(out, "used      %14.1f %% of all bandwidth while collectives run\n",
            100 * a->utilisation);
    fprintf(out, "objective %14.9g (%s), proved not below %.12g: gap %.1e\n", a->objective,
            result->objective, a->bound, a->gap);
    fprintf(out, "solver    %14u programs, %u steps, %.0f us\n", a->solves, a->steps,
            result->solve_us);
}

static void show_jobs(FILE *out, const network_report *report, const shoal_network_answer *a)
{
    for (uint32_t i = 0; report->job_count > 1 && i < report->job_count; i++)
        fprintf(out, "job       %14.1f ns  %s\n",
                shoal_network_time(report->network, i, a->bandwidth), report->jobs[i]);
}

static void add_schedule(table *t, const char *name, const shoal_network_schedule *s)
{
    table_row(t);
    table_add(t, "%s", name);
    table_add(t, "%.1f", s->fixed_ns);
    table_add(t, "%.1f", s->chosen_ns);
    table_add(t, "%.1f", s->bound_ns);
    table_add(t, "%.2f", 100 * (s->chosen_ns - s->bound_ns) / s->chosen_ns);
}

/* What bandwidths gain apart from what orders do. */
static void show_chunks(FILE *out, const network_report *report)
{
    static const table_column columns[] = {{"bandwidths", TABLE_PLAIN},
                                           {"one order", TABLE_RIGHT},
                                           {"orders chosen", TABLE_RIGHT},
                                           {"not below", TABLE_RIGHT},
                                           {"gap %", TABLE_RIGHT | TABLE_SPARE}};
    const shoal_network_schedule *found = &report->results[0].found;
    const shoal_network_schedule *even = &report->results[0].even;
    if (report->chunks == 0)
        return;
    fprintf(out, "in %u chunks, simulated, ns\n", report->chunks);
    table *t = table_new(2, columns, sizeof columns / sizeof *columns);
    add_schedule(t, "these bandwidths", found);
    add_schedule(t, "evenly spread", even);
    table_print(t, out);
    fprintf(out,
            "  gain of bandwidths alone %.4fx, of orders alone %.4fx, of both %.4fx; no orders on "
            "these bandwidths gain more than %.4fx\n",
            even->fixed_ns / found->fixed_ns, even->fixed_ns / even->chosen_ns,
            even->fixed_ns / found->chosen_ns, found->fixed_ns / found->bound_ns);
}

/* Names of columns "b0", "b1", ... */
typedef struct dimension_names {
    char text[SHOAL_NETWORK_DIMS_MAX][8];
} dimension_names;

/* Behind count columns, one of each dimension, of which the last go first. */
static size_t add_dimensions(table_column *columns, size_t count, uint32_t dims,
                             dimension_names *names)
{
    for (uint32_t d = 0; d < dims; d++) {
        snprintf(names->text[d], sizeof names->text[d], "b%u", d);
        columns[count++] = (table_column){names->text[d], TABLE_RIGHT | TABLE_SPARE};
    }
    return count;
}

static void show_sweep(FILE *out, const network_report *report)
{
    dimension_names names;
    table_column columns[6 + SHOAL_NETWORK_DIMS_MAX] = {
        {report->swept, TABLE_RIGHT}, {"objective", TABLE_PLAIN},
        {"time ns", TABLE_RIGHT},     {"cost", TABLE_RIGHT},
        {"vs even", TABLE_RIGHT},     {"gap", TABLE_RIGHT | TABLE_SPARE}};
    table *t = table_new(0, columns, add_dimensions(columns, 6, report->info.dims, &names));
    for (size_t i = 0; i < report->count; i++) {
        const shoal_network_answer *a = &report->results[i].answer;
        table_row(t);
        table_add(t, "%.6g", report->results[i].at);
        table_add(t, "%s", report->results[i].objective);
        table_add(t, "%.1f", a->time_ns);
        table_add(t, "%.2f", a->cost);
        table_add(t, "%.4fx", a->equal_time_ns / a->time_ns);
        table_add(t, "%.1e", a->gap);
        for (uint32_t d = 0; d < report->info.dims; d++)
            table_add(t, "%.3f", a->bandwidth[d]);
    }
    table_print(t, out);
}

void network_show_text(FILE *out, const network_report *report)
{
    fprintf(out, "%.0f accelerators, %u different collectives, %.0f ns of computation\n",
            report->info.npus, report->info.terms, report->info.compute_ns);
    if (report->shapes)
        network_shapes_show(out, report);
    if (report->swept != NULL) {
        if (!report->shapes)
            show_sweep(out, report);
        return;
    }
    show_answer(out, report, &report->results[0]);
    show_jobs(out, report, &report->results[0].answer);
    show_chunks(out, report);
}

static void add_collective(table *t, const shoal_network_collective *one, const double *b,
                           uint32_t dims)
{
    uint32_t slowest = 0;
    for (uint32_t d = 1; d < dims; d++)
        slowest = one->volume[d] * b[slowest] > one->volume[slowest] * b[d] ? d : slowest;
    table_row(t);
    table_add(t, "%s", one->layer);
    table_add(t, "%s", one->phase);
    table_add(t, "%s", one->kind);
    table_add(t, "%.0f", one->bytes);
    table_add(t, "%.1f", one->volume[slowest] > 0 ? one->volume[slowest] / b[slowest] : 0);
    table_add(t, "b%u", slowest);
    for (uint32_t d = 0; d < dims; d++)
        table_add(t, "%.6g", one->volume[d]);
}

void network_show_collectives(FILE *out, const network_report *report)
{
    dimension_names names;
    table_column columns[6 + SHOAL_NETWORK_DIMS_MAX] = {
        {"layer", TABLE_CUT},   {"phase", TABLE_PLAIN}, {"collective", TABLE_CUT},
        {"bytes", TABLE_RIGHT}, {"ns", TABLE_RIGHT},    {"slow", TABLE_PLAIN}};
    const uint32_t dims = report->info.dims;
    table *t = table_new(0, columns, add_dimensions(columns, 6, dims, &names));
    for (uint32_t i = 0; i < report->job_count; i++)
        for (uint32_t c = 0; c < shoal_network_collectives(report->network, i); c++) {
            shoal_network_collective one = {.size = sizeof one};
            if (shoal_network_at(report->network, i, c, &one) == SHOAL_OK)
                add_collective(t, &one, report->results[0].answer.bandwidth, dims);
        }
    table_print(t, out);
}

/* ------------------------------------------------------------------ machines */

static json_t *space_of(const shoal_network_choice *c)
{
    json_t *one = json_object();
    answer_set_count(one, "shapes", c->shapes);
    answer_set_count(one, "misfits", c->misfits);
    answer_set_count(one, "solved", c->solved);
    answer_set_count(one, "excluded", c->excluded);
    answer_set_count(one, "beyond", c->beyond);
    answer_set_number(one, "bound", c->bound);
    answer_set_number(one, "gap", c->gap);
    return one;
}

static void set_shape(json_t *out, const network_report *report, size_t i)
{
    const network_result *result = &report->results[i];
    char text[NETWORK_SHAPE_TEXT];
    network_shape_text(&result->shape, false, text);
    answer_set_text(out, "shape", text);
    answer_set(out, "unit_cost", answer_numbers(result->shape.unit_cost, result->shape.dims));
    answer_set_bool(out, "front", network_on_front(report, i));
    answer_set(out, "space", space_of(&result->choice));
}

static json_t *schedule_of(const shoal_network_schedule *s)
{
    json_t *one = json_object();
    answer_set_number(one, "one_order_ns", s->fixed_ns);
    answer_set_number(one, "chosen_ns", s->chosen_ns);
    answer_set_number(one, "bound_ns", s->bound_ns);
    answer_set_number(one, "gap", (s->chosen_ns - s->bound_ns) / s->chosen_ns);
    return one;
}

static json_t *chunks_of(uint32_t chunks, const network_result *result)
{
    json_t *one = json_object();
    const double base = result->even.fixed_ns;
    answer_set_count(one, "chunks", chunks);
    answer_set(one, "found", schedule_of(&result->found));
    answer_set(one, "even", schedule_of(&result->even));
    answer_set_number(one, "gain_bandwidths", base / result->found.fixed_ns);
    answer_set_number(one, "gain_orders", base / result->even.chosen_ns);
    answer_set_number(one, "gain_both", base / result->found.chosen_ns);
    return one;
}

static json_t *result_of(const network_report *report, const network_result *result)
{
    const shoal_network_answer *a = &result->answer;
    const uint32_t dims = report->shapes ? result->shape.dims : report->info.dims;
    json_t *one = json_object(), *jobs = json_array();
    answer_set_text(one, "objective", result->objective);
    if (report->swept != NULL)
        answer_set_number(one, report->swept, result->at);
    answer_set(one, "bandwidth_gb_s", answer_numbers(a->bandwidth, dims));
    answer_set(one, "low_gb_s", answer_numbers(a->low, dims));
    answer_set(one, "high_gb_s", answer_numbers(a->high, dims));
    answer_set(one, "waits", answer_numbers(a->price, dims));
    answer_set_number(one, "time_ns", a->time_ns);
    answer_set_number(one, "cost", a->cost);
    answer_set_number(one, "value", a->objective);
    answer_set_number(one, "bound", a->bound);
    answer_set_number(one, "gap", a->gap);
    answer_set_number(one, "equal_time_ns", a->equal_time_ns);
    answer_set_number(one, "equal_cost", a->equal_cost);
    answer_set_number(one, "utilisation", a->utilisation);
    answer_set_number(one, "solve_us", result->solve_us);
    answer_set_count(one, "solves", a->solves);
    answer_set_count(one, "steps", a->steps);
    if (report->shapes)
        set_shape(one, report, (size_t)(result - report->results));
    if (report->shapes && report->chunks > 0)
        answer_set(one, "chunked", chunks_of(report->chunks, result));
    for (uint32_t i = 0; !report->shapes && i < report->job_count; i++)
        json_array_append_new(jobs,
                              answer_number(shoal_network_time(report->network, i, a->bandwidth)));
    answer_set(one, "job_time_ns", jobs);
    return one;
}

static json_t *dimensions_of(const shoal_network_info *info)
{
    json_t *all = json_array();
    for (uint32_t d = 0; d < info->dims; d++) {
        json_t *one = json_object();
        answer_set_text(one, "kind", info->topology[d]);
        answer_set_count(one, "size", info->members[d]);
        answer_set_number(one, "unit_cost", info->unit_cost[d]);
        answer_set_number(one, "bytes", info->traffic[d]);
        json_array_append_new(all, one);
    }
    return all;
}

int network_show_json(const network_report *report)
{
    json_t *answer = json_object(), *results = json_array();
    answer_set_number(answer, "accelerators", report->info.npus);
    answer_set_number(answer, "compute_ns", report->info.compute_ns);
    if (!report->shapes || report->swept == NULL) /* a sweep's shapes differ */
        answer_set(answer, "dimensions", dimensions_of(&report->info));
    for (size_t i = 0; i < report->count; i++)
        json_array_append_new(results, result_of(report, &report->results[i]));
    answer_set(answer, "results", results);
    if (report->chunks > 0)
        answer_set(answer, "chunked", chunks_of(report->chunks, &report->results[0]));
    return answer_print("network", answer);
}

const char *network_show_csv(FILE *out, const network_report *report)
{
    if (report->shapes) {
        network_shapes_csv(out, report);
        return NULL;
    }
    fprintf(out, "%s_limit,objective,time_ns,cost,bound,gap,equal_time_ns,equal_cost",
            report->swept != NULL ? report->swept : "sum");
    for (uint32_t d = 0; d < report->info.dims; d++)
        fprintf(out, ",b%u", d);
    fputc('\n', out);
    for (size_t i = 0; i < report->count; i++) {
        const shoal_network_answer *a = &report->results[i].answer;
        double total = 0;
        for (uint32_t d = 0; d < report->info.dims; d++)
            total += a->bandwidth[d];
        fprintf(out, "%.12g,%s,%.17g,%.17g,%.17g,%.3g,%.17g,%.17g",
                report->swept != NULL ? report->results[i].at : total, report->results[i].objective,
                a->time_ns, a->cost, a->bound, a->gap, a->equal_time_ns, a->equal_cost);
        for (uint32_t d = 0; d < report->info.dims; d++)
            fprintf(out, ",%.17g", a->bandwidth[d]);
        fputc('\n', out);
    }
    return NULL;
}

/* ------------------------------------------------------------------ pictures */

/* Times in ms, or products in $ s, of the results with one objective. */
static size_t collect(const network_report *report, const char *objective, bool product, bool equal,
                      double *x, double *y)
{
    size_t count = 0;
    for (size_t i = 0; i < report->count && count < POINTS_MAX; i++) {
        const network_result *r = &report->results[i];
        if (strcmp(r->objective, objective) != 0)
            continue;
        double time = equal ? r->answer.equal_time_ns : r->answer.time_ns;
        double cost = equal ? r->answer.equal_cost : r->answer.cost;
        x[count] = equal && strcmp(report->swept, "cost") == 0 ? r->answer.equal_cost : r->at;
        y[count++] = product ? time * 1e-9 * cost : time * 1e-6;
    }
    return count;
}

static const char *draw(FILE *out, const network_report *report, bool product)
{
    static double x[3][POINTS_MAX], y[3][POINTS_MAX];
    bool money = strcmp(report->swept, "cost") == 0;
    chart_line lines[3] = {
        {.name = "shortest time", .x = x[0], .y = y[0], .dots = true, .colour = 1},
        {.name = "least time x cost", .x = x[1], .y = y[1], .dots = true, .colour = 2},
        {.name = "evenly spread", .x = x[2], .y = y[2], .dashed = true, .colour = 7}};
    lines[0].count = collect(report, "perf", product, false, x[0], y[0]);
    lines[1].count = collect(report, "perf-per-cost", product, false, x[1], y[1]);
    lines[2].count = collect(report, "perf", product, true, x[2], y[2]);
    if (lines[1].count == 0)
        lines[1].name = NULL;
    chart_plot plot = {
        .title = product ? "Time x cost of a step" : "Time of a step",
        .x_label = money ? "cost of the network, $" : "total bandwidth, GB/s",
        .y_label = product ? "$ s" : "ms",
        .log_x = money,
        .id = product ? "product" : "time",
        .about = "Over what was swept: the shortest time, the least product of time and cost, "
                 "and the same bandwidth everywhere.",
        .lines = lines,
        .line_count = 3};
    return chart_draw(out, &plot);
}

const char *network_show_svg(FILE *out, const network_report *report)
{
    return draw(out, report, false);
}

static void html_table(FILE *out, const network_report *report)
{
    fprintf(out, "<table>\n<tr><th>%s<th>objective<th>time, ms<th>cost, $<th>against even<th>gap",
            report->swept);
    for (uint32_t d = 0; !report->shapes && d < report->info.dims; d++)
        fprintf(out, "<th>b%u, GB/s", d);
    if (report->shapes)
        fputs("<th>shape", out);
    for (size_t i = 0; i < report->count; i++) {
        const shoal_network_answer *a = &report->results[i].answer;
        fprintf(out, "\n<tr><td>%.6g<td>%s<td>%.6f<td>", report->results[i].at,
                report->results[i].objective, a->time_ns * 1e-6);
        if (report->info.has_cost)
            fprintf(out, "%.0f", a->cost);
        fprintf(out, "<td>%.4f<td>%.1e", a->equal_time_ns / a->time_ns,
                report->shapes ? report->results[i].choice.gap : a->gap);
        for (uint32_t d = 0; !report->shapes && d < report->info.dims; d++)
            fprintf(out, "<td>%.3f", a->bandwidth[d]);
        if (report->shapes) {
            char text[NETWORK_SHAPE_TEXT];
            network_shape_text(&report->results[i].shape, true, text);
            fprintf(out, "<td>%s", text);
        }
    }
    fputs("\n</table>\n", out);
}

const char *network_show_html(FILE *out, const network_report *report)
{
    fputs(
        "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Network design</title>\n"
        "<style>body{font-family:sans-serif;max-width:60em;margin:2em auto}"
        "table{border-collapse:collapse}td,th{padding:.2em .7em;text-align:right;"
        "border-bottom:1px solid #ddd}</style>\n<h1>Network design</h1>\n<ul>\n",
        out);
    for (uint32_t i = 0; i < report->job_count; i++) {
        fputs("<li>", out);
        cli_markup(out, report->jobs[i]);
        fputc('\n', out);
    }
    fprintf(out,
            "</ul>\n<p>%.0f accelerators. Each answer is proved by multipliers to be within its "
            "gap of the best.</p>\n",
            report->info.npus);
    const char *why = draw(out, report, false);
    if (why == NULL && report->info.has_cost)
        why = draw(out, report, true);
    if (why != NULL)
        fprintf(out, "<p>%s</p>\n", why);
    html_table(out, report);
    fputs("</html>\n", out);
    return NULL;
}
