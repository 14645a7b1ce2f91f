/* SPDX-License-Identifier: Apache-2.0 */
#include "stragglers.h"

#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "shoal/watch.h"
#include "slow_words.h"
#include "table.h"

json_t *stragglers_of(const shoal_train *train, uint32_t workers)
{
    shoal_train_rank r = {.size = sizeof r};
    json_t *all = json_array();
    for (uint32_t i = 0; i < workers && shoal_train_rank_of(train, i, &r) == SHOAL_OK; i++) {
        json_t *one = json_object();
        answer_set_count(one, "rank", i);
        answer_set_text(one, "host", r.host);
        answer_set_number(one, "compute_ms", r.compute_ms);
        answer_set_number(one, "wait_ms", r.wait_ms);
        answer_set_number(one, "caused_ms", r.caused_ms);
        answer_set_number(one, "last_share", r.last_share);
        answer_set_count(one, "since_step", r.since_step);
        answer_set_number(one, "sends_bytes_s", r.sends_bytes_s);
        answer_set_number(one, "receives_bytes_s", r.receives_bytes_s);
        answer_set_text(one, "cause", r.cause);
        answer_set_number(one, "data_ms", r.data_ms);
        answer_set_number(one, "disk_ms", r.disk_ms);
        answer_set_number(one, "paused_ms", r.paused_ms);
        answer_set_number(one, "samples", r.samples);
        json_array_append_new(all, one);
    }
    return all;
}

static void add_rate(table *t, double bytes_per_s)
{
    if (bytes_per_s > 0)
        table_add(t, "%.4g", bytes_per_s * 8e-6);
    else
        table_add(t, "-");
}

static double number_of(const shoal_train_rank *r, const char *key)
{
    return strcmp(key, "data_ms") == 0     ? r->data_ms
           : strcmp(key, "disk_ms") == 0   ? r->disk_ms
           : strcmp(key, "paused_ms") == 0 ? r->paused_ms
                                           : r->samples;
}

static void print_verdict(uint32_t rank, const shoal_train_rank *r)
{
    if (strcmp(r->cause, "compute") == 0)
        printf("  rank %u (%s) is slow at computing, since step %llu: without it a step would be "
               "%.2f ms shorter\n",
               rank, r->host, (unsigned long long)r->since_step, r->caused_ms);
    else if (strcmp(r->cause, "network") == 0)
        printf("  rank %u (%s) has a slow link: at best %.4g Mbit/s, less than 0.6 of the median "
               "rank's; all wait for it\n",
               rank, r->host,
               (r->sends_bytes_s > r->receives_bytes_s ? r->sends_bytes_s : r->receives_bytes_s) *
                   8e-6);
    const slow_words *w = slow_words_of(r->cause);
    if (w != NULL)
        printf("  rank %u (%s) %s %.2f %s; all wait for it\n", rank, r->host, w->what,
               number_of(r, w->key), w->unit);
}

void stragglers_table(const shoal_train *train, uint32_t workers, uint64_t steps)
{
    static const table_column columns[] = {{"rank", TABLE_RIGHT},
                                           {"host", TABLE_CUT},
                                           {"compute ms", TABLE_RIGHT},
                                           {"waits ms", TABLE_RIGHT},
                                           {"caused ms", TABLE_RIGHT},
                                           {"last %", TABLE_RIGHT},
                                           {"sends Mb", TABLE_RIGHT | TABLE_SPARE},
                                           {"receive Mb", TABLE_RIGHT | TABLE_SPARE}};
    shoal_train_rank r = {.size = sizeof r};
    if (workers < 2 || shoal_train_rank_of(train, 0, &r) != SHOAL_OK)
        return;
    putchar('\n');
    table *t = table_new(2, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < workers && shoal_train_rank_of(train, i, &r) == SHOAL_OK; i++) {
        table_row(t);
        table_add(t, "%u", i);
        table_add(t, "%s", r.host);
        table_add(t, "%.2f", r.compute_ms);
        table_add(t, "%.2f", r.wait_ms);
        table_add(t, "%.2f", r.caused_ms);
        table_add(t, "%.0f", 100 * r.last_share);
        add_rate(t, r.sends_bytes_s);
        add_rate(t, r.receives_bytes_s);
    }
    table_print(t, stdout);
    bool any = false;
    for (uint32_t i = 0; i < workers && shoal_train_rank_of(train, i, &r) == SHOAL_OK; i++) {
        print_verdict(i, &r);
        any = any || r.cause[0] != '\0';
    }
    if (!any && steps < SHOAL_VERDICT_STEPS)
        printf("  no straggler: a verdict needs %d steps\n", SHOAL_VERDICT_STEPS);
    else if (!any)
        printf("  no straggler\n");
}
