/* SPDX-License-Identifier: Apache-2.0 */
/* shoal partition --accelerators: AccPar, for machines that are not alike. */
#include "partition_accpar.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "answer.h"
#include "cli.h"
#include "shoal/accpar.h"
#include "table.h"

/* "180x2,420x2": TFLOP/s, how many in a row. */
static bool parse_speeds(const char *text, double *speeds, uint32_t *count_out)
{
    uint32_t count = 0;
    for (const char *at = text;; at++) {
        char *end = NULL;
        double speed = strtod(at, &end) * 1e12;
        unsigned long times = 1;
        if (end == at || !(speed > 0))
            return false;
        if (*end == 'x')
            times = strtoul(end + 1, &end, 10);
        if (times < 1 || times > SHOAL_ACCPAR_MAX - count || (*end != ',' && *end != '\0'))
            return false;
        for (unsigned long i = 0; i < times; i++)
            speeds[count++] = speed;
        at = end;
        if (*end == '\0')
            break;
    }
    *count_out = count;
    return true;
}

/* Into splits, or as a table where that is NULL. */
static void show_splits(const shoal_accpar *plan, uint32_t count, json_t *splits)
{
    static const table_column columns[] = {
        {"accelerators", TABLE_RIGHT}, {"left : right", TABLE_RIGHT}, {"types", TABLE_TEXT}};
    table *t = splits != NULL ? NULL : table_new(2, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i + 1 < count; i++) {
        shoal_accpar_split s;
        if (shoal_accpar_split_at(plan, i, &s) != SHOAL_OK)
            break;
        if (splits == NULL) {
            table_row(t);
            table_add(t, "%u .. %u", s.first, s.first + s.count - 1);
            table_add(t, "%.1f %% : %.1f %%", 100 * s.share, 100 * (1 - s.share));
            table_add(t, "%s", s.types);
            continue;
        }
        json_t *one = json_object();
        answer_set_count(one, "first", s.first);
        answer_set_count(one, "count", s.count);
        answer_set_number(one, "share", s.share);
        answer_set_text(one, "types", s.types);
        json_array_append_new(splits, one);
    }
    if (splits == NULL)
        table_print(t, stdout);
}

/* The same with fewer freedoms: what each of them brings. */
static double other(shoal_accpar_desc desc, uint32_t types, int equal)
{
    shoal_accpar *plan = NULL;
    desc.types = types;
    desc.equal_shares = equal;
    if (shoal_accpar_create(&desc, &plan) != SHOAL_OK)
        return 0;
    double seconds = shoal_accpar_seconds(plan);
    shoal_accpar_destroy(plan);
    return seconds;
}

int partition_accpar(const char *model, uint32_t batch, const char *accelerators,
                     double bytes_per_s, bool json)
{
    double speeds[SHOAL_ACCPAR_MAX];
    shoal_accpar_desc desc = {.size = sizeof desc,
                              .model = model,
                              .batch = batch != 0 ? batch : 256,
                              .flops_per_s = speeds,
                              .bytes_per_s = bytes_per_s,
                              .types = 3};
    shoal_accpar *plan = NULL;
    if (!parse_speeds(accelerators, speeds, &desc.count))
        return cli_usage("partition", "--accelerators %s: TFLOP/s, as in 180x2,420x2",
                         accelerators);
    if (bytes_per_s <= 0)
        return cli_usage("partition",
                         "--accelerators needs --rate: what one side reads per second");
    if (shoal_accpar_create(&desc, &plan) != SHOAL_OK)
        return cli_report("partition");
    double seconds = shoal_accpar_seconds(plan), data = other(desc, 1, 1), two = other(desc, 2, 1);
    int code = CLI_OK;
    if (json) {
        json_t *answer = json_object(), *splits = json_array();
        show_splits(plan, desc.count, splits);
        answer_set_text(answer, "mode", "accpar");
        answer_set_count(answer, "batch", desc.batch);
        answer_set_count(answer, "accelerators", desc.count);
        answer_set_number(answer, "seconds", seconds);
        answer_set_number(answer, "data_seconds", data);
        answer_set_number(answer, "two_types_halves_seconds", two);
        answer_set(answer, "splits", splits);
        code = answer_print("partition", answer);
    } else {
        puts(
            "Shares of the two sides; per layer 1: samples, 2: input channels, 3: output channels");
        show_splits(plan, desc.count, NULL);
        printf("\n%.4g s per step; halves by data %.4g s (%.2f times faster than that), halves of "
               "types 1 and 2 %.4g s (%.2f)\n",
               seconds, data, data / seconds, two, two / seconds);
    }
    shoal_accpar_destroy(plan);
    return code;
}
