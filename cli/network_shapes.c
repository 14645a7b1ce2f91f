/* SPDX-License-Identifier: Apache-2.0 */
#include "network_shapes.h"

#include <math.h>
#include <string.h>

#include "answer.h"
#include "table.h"

#define AS_GOOD (1 + 1e-9) /* rounding of two solutions is no difference */

void network_shape_text(const shoal_network_shape *shape, bool rates, char out[NETWORK_SHAPE_TEXT])
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t d = 0; d < shape->dims && used < NETWORK_SHAPE_TEXT; d++) {
        used += (size_t)snprintf(out + used, NETWORK_SHAPE_TEXT - used, "%s%s:%u",
                                 d > 0 ? ", " : "", shape->topology[d], shape->members[d]);
        if (rates && used < NETWORK_SHAPE_TEXT)
            used += (size_t)snprintf(out + used, NETWORK_SHAPE_TEXT - used, "@%.3fGB/s",
                                     shape->answer.bandwidth[d]);
    }
}

shoal_status network_shapes_ask(const shoal_network_shapes *shapes,
                                const shoal_network_question *question, const char *objective,
                                double at, uint32_t top, network_result *results, size_t *count)
{
    static shoal_network_shape best[NETWORK_TOP_MAX];
    uint32_t found = 0;
    shoal_network_choice choice = {.size = sizeof choice};
    double begin = network_now_us();
    shoal_status status = shoal_network_shapes_best(shapes, question, best, top, &found, &choice);
    for (uint32_t i = 0; status == SHOAL_OK && i < found; i++)
        results[i] = (network_result){.objective = objective,
                                      .at = at,
                                      .solve_us = network_now_us() - begin,
                                      .answer = best[i].answer,
                                      .shape = best[i],
                                      .choice = choice};
    *count = status == SHOAL_OK ? found : 0;
    return status;
}

shoal_status network_shapes_open(const shoal_network_desc *desc, const shoal_network_shape *shape,
                                 bool has_cost, shoal_network **network_out)
{
    char text[NETWORK_SHAPE_TEXT], cost[NETWORK_SHAPE_TEXT] = "";
    shoal_network_desc one = *desc;
    size_t used = 0;
    network_shape_text(shape, false, text);
    for (uint32_t d = 0; d < shape->dims && used < sizeof cost; d++)
        used += (size_t)snprintf(cost + used, sizeof cost - used, "%s%.17g", d > 0 ? "," : "",
                                 shape->unit_cost[d]);
    one.network = text;
    one.cost = has_cost ? cost : NULL;
    return shoal_network_open(&one, network_out);
}

/* ------------------------------------------------------------------ showing */

bool network_on_front(const network_report *report, size_t i)
{
    const shoal_network_answer *a = &report->results[i].answer;
    if (!report->info.has_cost)
        return i == 0;
    for (size_t j = 0; j < report->count; j++) {
        const shoal_network_answer *b = &report->results[j].answer;
        const bool no_worse = b->time_ns <= AS_GOOD * a->time_ns && b->cost <= AS_GOOD * a->cost;
        const bool better = AS_GOOD * b->time_ns < a->time_ns || AS_GOOD * b->cost < a->cost;
        if (no_worse && (better || j < i))
            return false;
    }
    return true;
}

static void show_proof(FILE *out, const network_report *report)
{
    const shoal_network_choice *c = &report->results[0].choice;
    fprintf(out, "shapes    %14llu, and %llu that the groups do not fit\n",
            (unsigned long long)c->shapes, (unsigned long long)c->misfits);
    if (report->swept != NULL)
        return;
    fprintf(out,
            "          %14llu solved, %llu excluded by a bound, %llu beyond the limits; %.0f us\n",
            (unsigned long long)c->solved, (unsigned long long)c->excluded,
            (unsigned long long)c->beyond, report->results[0].solve_us);
    fprintf(out, "objective %14.9g (%s), of all shapes proved not below %.12g: gap %.1e\n",
            c->objective, report->results[0].objective, c->bound, c->gap);
}

/* What chosen orders of chunks gain on each, apart from what its bandwidths do. */
static void show_orders(FILE *out, const network_report *report)
{
    const table_column columns[] = {{report->swept != NULL ? report->swept : "rank", TABLE_RIGHT},
                                    {"one order", TABLE_RIGHT},
                                    {"orders chosen", TABLE_RIGHT},
                                    {"not below", TABLE_RIGHT | TABLE_SPARE},
                                    {"bandwidths", TABLE_RIGHT},
                                    {"orders", TABLE_RIGHT},
                                    {"both", TABLE_RIGHT}};
    fprintf(out,
            "in %u chunks, simulated: ns, and times faster than one order on even bandwidths\n",
            report->chunks);
    table *t = table_new(0, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < report->count; i++) {
        const network_result *r = &report->results[i];
        table_row(t);
        table_add(t, "%.6g", report->swept != NULL ? r->at : (double)i + 1);
        table_add(t, "%.1f", r->found.fixed_ns);
        table_add(t, "%.1f", r->found.chosen_ns);
        table_add(t, "%.1f", r->found.bound_ns);
        table_add(t, "%.4fx", r->even.fixed_ns / r->found.fixed_ns);
        table_add(t, "%.4fx", r->even.fixed_ns / r->even.chosen_ns);
        table_add(t, "%.4fx", r->even.fixed_ns / r->found.chosen_ns);
    }
    table_print(t, out);
}

void network_shapes_show(FILE *out, const network_report *report)
{
    const bool swept = report->swept != NULL;
    const table_column columns[] = {{swept ? report->swept : "rank", TABLE_RIGHT},
                                    {"time ns", TABLE_RIGHT},
                                    {"cost", TABLE_RIGHT},
                                    {"gap", TABLE_RIGHT},
                                    {"*", TABLE_PLAIN},
                                    {"shape", TABLE_TEXT}};
    show_proof(out, report);
    table *t = table_new(0, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < report->count; i++) {
        const network_result *r = &report->results[i];
        char text[NETWORK_SHAPE_TEXT];
        network_shape_text(&r->shape, true, text);
        table_row(t);
        table_add(t, "%.6g", swept ? r->at : (double)i + 1);
        table_add(t, "%.1f", r->answer.time_ns);
        table_add(t, "%.2f", r->answer.cost);
        table_add(t, "%.1e", swept ? r->choice.gap : r->answer.gap);
        table_add(t, "%s", network_on_front(report, i) ? "*" : "");
        table_add(t, "%s", text);
    }
    table_print(t, out);
    fputs("*: none of these is as short and as cheap\n", out);
    if (report->chunks > 0)
        show_orders(out, report);
}

void network_shapes_csv(FILE *out, const network_report *report)
{
    fprintf(out, "%s,objective,time_ns,cost,bound,gap,front,solved,excluded,%sshape\n",
            report->swept != NULL ? report->swept : "rank",
            report->chunks > 0 ? "one_order_ns,chosen_ns,even_one_order_ns,even_chosen_ns," : "");
    for (size_t i = 0; i < report->count; i++) {
        const network_result *r = &report->results[i];
        const bool swept = report->swept != NULL;
        char text[NETWORK_SHAPE_TEXT];
        network_shape_text(&r->shape, true, text);
        fprintf(out, "%.12g,%s,%.17g,%.17g,%.17g,%.3g,%d,%llu,%llu,", swept ? r->at : (double)i + 1,
                r->objective, r->answer.time_ns, r->answer.cost,
                swept ? r->choice.bound : r->answer.bound, swept ? r->choice.gap : r->answer.gap,
                network_on_front(report, i), (unsigned long long)r->choice.solved,
                (unsigned long long)r->choice.excluded);
        if (report->chunks > 0)
            fprintf(out, "%.17g,%.17g,%.17g,%.17g,", r->found.fixed_ns, r->found.chosen_ns,
                    r->even.fixed_ns, r->even.chosen_ns);
        fprintf(out, "\"%s\"\n", text);
    }
}
