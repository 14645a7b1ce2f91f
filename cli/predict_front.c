/* SPDX-License-Identifier: Apache-2.0 */
#include "predict_front.h"
#include "chart.h"

#include <stdlib.h>

enum { SHARES = 3, NAME = 48 };

/* Of one step; in workers x seconds where the cluster says no price. */
double predict_cost(const shoal_prediction *p)
{
    return (p->price > 0 ? p->price / 3600 : p->workers) * p->iteration_s;
}

static int by_value(const void *a_in, const void *b_in)
{
    double a = *(const double *)a_in, b = *(const double *)b_in;
    return (a > b) - (a < b);
}

static size_t count_front(const shoal_search *search)
{
    size_t count = 0;
    while (shoal_search_front(search, (uint32_t)count) != NULL)
        count++;
    return count;
}

/* A third of the points each, by the memory that they need. */
static const char *draw(FILE *out, const shoal_search *search, size_t count, double *room)
{
    double *memory = room, *x = room + count, *y = x + SHARES * count, low = 0;
    char names[SHARES][NAME];
    chart_line lines[SHARES] = {{0}};
    for (size_t i = 0; i < count; i++)
        memory[i] = shoal_search_front(search, (uint32_t)i)->prediction.memory_bytes;
    qsort(memory, count, sizeof *memory, by_value);
    for (size_t s = 0; s < SHARES; s++) {
        double high = memory[(count * (s + 1) + SHARES - 1) / SHARES - 1];
        lines[s] = (chart_line){.name = names[s],
                                .x = x + s * count,
                                .y = y + s * count,
                                .dots = true,
                                .no_line = true};
        snprintf(names[s], NAME, "%.3g to %.3g GB", low / 1e9, high / 1e9);
        for (size_t i = 0; i < count; i++) {
            const shoal_prediction *p = &shoal_search_front(search, (uint32_t)i)->prediction;
            if (p->memory_bytes <= low || p->memory_bytes > high)
                continue;
            x[s * count + lines[s].count] = 1e3 * p->iteration_s;
            y[s * count + lines[s].count++] = predict_cost(p);
        }
        lines[s].name = lines[s].count > 0 ? names[s] : NULL;
        low = high;
    }
    const bool priced = shoal_search_front(search, 0)->prediction.price > 0;
    const chart_plot plot = {.title = "None is better in time, cost and memory at once",
                             .x_label = "step, ms",
                             .y_label = priced ? "cost of a step" : "workers x seconds",
                             .log_x = true,
                             .log_y = true,
                             .lines = lines,
                             .line_count = SHARES};
    return chart_draw(out, &plot);
}

const char *predict_draw_front(FILE *out, const shoal_search *search)
{
    size_t count = count_front(search);
    double *room = calloc((2 * SHARES + 1) * (count > 0 ? count : 1), sizeof *room);
    const char *why = count > 0 && room != NULL ? draw(out, search, count, room) : "nothing fits";
    free(room);
    return why;
}
