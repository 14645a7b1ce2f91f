/* SPDX-License-Identifier: Apache-2.0 */
/* Many ranks at once: how each part of a step lies over all of them. */
#include <math.h>
#include <stdlib.h>

#include "answer.h"
#include "report.h"

typedef struct value {
    double ms;
    uint32_t rank;
} value;

static int by_size(const void *left, const void *right)
{
    const value *a = left, *b = right;
    if (a->ms != b->ms)
        return a->ms > b->ms ? 1 : -1;
    return (a->rank < b->rank) - (a->rank > b->rank); /* of equals the lowest comes last */
}

/* Of `count` in order: the one below which so large a part of them lies. */
static double at(const value *all, size_t count, double part)
{
    return all[(size_t)llround(part * (double)(count - 1))].ms;
}

static json_t *row_of(const char *name, const value *all, size_t count)
{
    json_t *row = json_object();
    answer_set_text(row, "part", name);
    answer_set_number(row, "least", all[0].ms);
    answer_set_number(row, "tenth", at(all, count, 0.1));
    answer_set_number(row, "median", at(all, count, 0.5));
    answer_set_number(row, "ninetieth", at(all, count, 0.9));
    answer_set_number(row, "most", all[count - 1].ms);
    answer_set_count(row, "most_rank", all[count - 1].rank);
    return row;
}

json_t *report_spread(const json_t *ranks)
{
    static const char *const parts[][2] = {
        {"step", "step_ms"},     {"compute", "compute_ms"}, {"waiting", "wait_ms"},
        {"update", "update_ms"}, {"other", "other_ms"},     {"longest step", "step_ms_most"}};
    size_t i;
    const json_t *rank;
    json_t *rows = json_array();
    value *all = calloc(json_array_size(ranks) + 1, sizeof *all);
    for (size_t p = 0; all != NULL && p < sizeof parts / sizeof parts[0]; p++) {
        size_t count = 0;
        json_array_foreach(ranks, i, rank)
        {
            const json_t *ms = json_object_get(rank, parts[p][1]);
            if (json_is_number(ms))
                all[count++] = (value){
                    .ms = json_number_value(ms),
                    .rank = (uint32_t)json_integer_value(json_object_get(rank, "rank"))};
        }
        qsort(all, count, sizeof *all, by_size);
        if (count > 0)
            json_array_append_new(rows, row_of(parts[p][0], all, count));
    }
    free(all);
    return rows;
}
