/* SPDX-License-Identifier: Apache-2.0 */
/* shoal list: what a spec may name, with keys; and what goes together. */
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "cli.h"
#include "shoal/job.h"
#include "shoal/rows.h"
#include "table.h"

typedef struct list_args {
    const char *what, *name;
    bool json;
} list_args;

static const struct argp_option options[] = {{"json", 'j', NULL, 0, "One JSON object", 1}, {0}};

static error_t parse(int key, char *text, struct argp_state *state)
{
    list_args *args = state->input;
    switch (key) {
    case 'j':
        args->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (args->what == NULL)
            args->what = text;
        else if (args->name == NULL)
            args->name = text;
        else
            cli_refuse(state, "one table and one name, not also %s", text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int print_json(json_t *object)
{
    int failed = json_dumpf(object, stdout, JSON_INDENT(1));
    json_decref(object);
    puts("");
    return failed == 0 ? CLI_OK : CLI_FAILED;
}

/* ---------------------------------------------------------------- tables */

static json_t *row_json(shoal_table kind, size_t i, const shoal_row *row)
{
    shoal_row_key key = {.size = sizeof key};
    const char *trait;
    json_t *traits = json_array(), *keys = json_array();
    for (uint32_t t = 0; (trait = shoal_row_trait(kind, i, t)) != NULL; t++)
        json_array_append_new(traits, json_string(trait));
    for (uint32_t k = 0; shoal_row_key_at(kind, i, k, &key); k++)
        json_array_append_new(keys,
                              json_pack("{s:s, s:s, s:s, s:s}", "name", key.name, "syntax",
                                        key.syntax, "default", key.fallback, "help", key.help));
    json_t *object = json_pack("{s:s, s:s, s:o, s:o}", "name", row->name, "about", row->about,
                               "traits", traits, "keys", keys);
    if (row->bytes_per_element > 0)
        json_object_set_new(object, "bytes_per_element", json_real(row->bytes_per_element));
    return object;
}

/* "replaces the exchange, keeps a residual"; NULL: it has none, or no memory. */
static char *traits_of(shoal_table kind, size_t i)
{
    const char *trait;
    char *text = NULL;
    size_t length;
    FILE *out = shoal_row_trait(kind, i, 0) != NULL ? open_memstream(&text, &length) : NULL;
    for (uint32_t t = 0; out != NULL && (trait = shoal_row_trait(kind, i, t)) != NULL; t++)
        fprintf(out, "%s%s", t == 0 ? "" : ", ", trait);
    if (out != NULL)
        fclose(out);
    return text;
}

static void add_row(table *rows, shoal_table kind, size_t i, const shoal_row *row)
{
    char *traits = traits_of(kind, i);
    table_row(rows);
    table_add(rows, "%s", row->name);
    table_add(rows, "%s", row->about);
    if (traits != NULL) {
        table_row(rows);
        table_add(rows, "%s", "");
        table_add(rows, "%s", traits);
    }
    free(traits);
}

static void print_alone(shoal_table kind, size_t i, const shoal_row *row)
{
    static const table_column columns[] = {
        {"key", TABLE_PLAIN}, {"default", TABLE_PLAIN}, {"what it does", TABLE_TEXT}};
    shoal_row_key key = {.size = sizeof key};
    char *traits = traits_of(kind, i);
    table *keys = table_new(2, columns, sizeof columns / sizeof *columns);
    printf("%s: %s\n", row->name, row->about);
    if (traits != NULL)
        printf("  %s\n", traits);
    puts("");
    free(traits);
    for (uint32_t k = 0; shoal_row_key_at(kind, i, k, &key); k++) {
        table_row(keys);
        table_add(keys, "%s", key.syntax);
        table_add(keys, "%s", key.fallback);
        table_add(keys, "%s", key.help);
    }
    table_print(keys, stdout);
    if (row->key_count == 0)
        puts("  it has no keys");
}

static int list_table(shoal_table kind, bool json)
{
    static const table_column columns[] = {{"name", TABLE_PLAIN}, {"what it is", TABLE_TEXT}};
    table *lines = json ? NULL : table_new(2, columns, sizeof columns / sizeof *columns);
    shoal_row row = {.size = sizeof row};
    json_t *rows = json_array();
    for (size_t i = 0; shoal_row_at(kind, i, &row); i++) {
        if (json)
            json_array_append_new(rows, row_json(kind, i, &row));
        else
            add_row(lines, kind, i, &row);
    }
    if (json)
        return print_json(json_pack("{s:o}", shoal_table_name(kind), rows));
    json_decref(rows);
    table_print(lines, stdout);
    shoal_row_at(kind, 0, &row);
    printf("\nThe keys of one: shoal list %s %s\n", shoal_table_name(kind), row.name);
    return CLI_OK;
}

/* `name` may be a whole spec, "eden:bits=2". */
static int list_row(shoal_table kind, const char *name, bool json)
{
    const size_t length = strcspn(name, ":");
    shoal_row row = {.size = sizeof row};
    for (size_t i = 0; shoal_row_at(kind, i, &row); i++) {
        if (strlen(row.name) != length || strncmp(row.name, name, length) != 0)
            continue;
        if (json)
            return print_json(row_json(kind, i, &row));
        print_alone(kind, i, &row);
        return CLI_OK;
    }
    return cli_usage("list", "no '%s' among the %s; `shoal list %s` shows them", name,
                     shoal_table_name(kind), shoal_table_name(kind));
}

/* ---------------------------------------------------------------- combinations */

/* A set of things that a job may have: the rows of a table, or what else it may be asked for. */
typedef struct choices {
    const char *name;
    bool asks;
    shoal_table table;
} choices;

/* Which are asked against each other. */
static const choices syncs = {"syncs", false, SHOAL_TABLE_SYNCS},
                     codecs = {"codecs", false, SHOAL_TABLE_CODECS},
                     collectives = {"collectives", false, SHOAL_TABLE_COLLECTIVES},
                     others = {"options", true, SHOAL_TABLE_COUNT};
static const choices *const pairs[][2] = {{&syncs, &codecs},
                                          {&syncs, &collectives},
                                          {&codecs, &collectives},
                                          {&others, &syncs},
                                          {&others, &others}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

/* Choice i, and into a job; NULL: there is none. */
static const char *choose(const choices *from, size_t i, shoal_job *job)
{
    shoal_row row = {.size = sizeof row};
    if (from->asks) {
        job->asks |= shoal_job_option(i) != NULL ? 1u << i : 0;
        return shoal_job_option(i);
    }
    if (!shoal_row_at(from->table, i, &row))
        return NULL;
    const char **place = from->table == SHOAL_TABLE_SYNCS    ? &job->sync
                         : from->table == SHOAL_TABLE_CODECS ? &job->codec
                                                             : &job->collective;
    return *place = row.name;
}

/* Whether choice i goes with choice j, whose names are told; -1: there is no such pair. */
static int together(size_t p, size_t i, size_t j, const char *names[2])
{
    shoal_job job = SHOAL_JOB_INIT;
    names[0] = choose(pairs[p][0], i, &job);
    names[1] = choose(pairs[p][1], j, &job);
    if (names[0] == NULL || names[1] == NULL)
        return -1;
    return shoal_job_check(&job) == SHOAL_OK;
}

static void add_pairs(json_t *all, size_t p)
{
    const char *names[2];
    for (size_t i = 0; together(p, i, 0, names) >= 0; i++)
        for (size_t j = 0; together(p, i, j, names) >= 0; j++) {
            const bool yes = together(p, i, j, names) == 1;
            json_t *one = json_pack("{s:[s,s], s:[s,s], s:b}", "of", pairs[p][0]->name,
                                    pairs[p][1]->name, "names", names[0], names[1], "together",
                                    yes);
            if (!yes) {
                json_object_set_new(one, "why", json_string(shoal_last_error()->text));
                json_object_set_new(one, "advice", json_string(shoal_last_error()->advice));
            }
            json_array_append_new(all, one);
        }
}

/* "eden", "all but omnireduce switchml": the fewer are named. */
static void add_line(table *t, size_t p, size_t i)
{
    const char *names[2];
    uint32_t yes = 0, no = 0;
    char *text = NULL;
    size_t length;
    for (size_t j = 0; together(p, i, j, names) >= 0; j++)
        *(together(p, i, j, names) == 1 ? &yes : &no) += 1;
    const bool few = yes <= no;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return;
    fputs(yes == 0 ? "none" : no == 0 ? "all" : few ? "only" : "all but", out);
    for (size_t j = 0; yes > 0 && no > 0 && together(p, i, j, names) >= 0; j++)
        if ((together(p, i, j, names) == 1) == few)
            fprintf(out, " %s", names[1]);
    fclose(out);
    (void)together(p, i, 0, names);
    table_row(t);
    table_add(t, "%s", names[0]);
    table_add(t, "%s", text != NULL ? text : "");
    free(text);
}

static void print_pairs(size_t p)
{
    const table_column columns[] = {{pairs[p][0]->name, TABLE_PLAIN},
                                    {pairs[p][1]->name, TABLE_TEXT}};
    const char *names[2];
    table *t = table_new(2, columns, sizeof columns / sizeof *columns);
    printf("%s and %s that go together\n", pairs[p][0]->name, pairs[p][1]->name);
    for (size_t i = 0; together(p, i, 0, names) >= 0; i++)
        add_line(t, p, i);
    table_print(t, stdout);
    puts("");
}

static int list_combinations(bool json)
{
    json_t *all = json_array();
    for (size_t p = 0; p < PAIRS; p++)
        if (json)
            add_pairs(all, p);
        else
            print_pairs(p);
    if (json)
        return print_json(json_pack("{s:o}", "combinations", all));
    json_decref(all);
    puts("At their default keys; for all options of a job: shoal train ... --dry-run");
    return CLI_OK;
}

/* ---------------------------------------------------------------- the verb */

static int list_tables(bool json)
{
    const char *name;
    json_t *names = json_array();
    for (int t = 0; (name = shoal_table_name((shoal_table)t)) != NULL; t++) {
        json_array_append_new(names, json_string(name));
        if (!json)
            printf("  %s\n", name);
    }
    if (json)
        return print_json(json_pack("{s:o}", "tables", names));
    json_decref(names);
    puts("  combinations");
    return CLI_OK;
}

int cli_list(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "[TABLE [NAME]]",
        "What options may name: syncs, codecs, collectives, transports, optimizers, schedules, "
        "layers, models; the keys of one of them; combinations: what goes together.\v"
        "Example: shoal list codecs eden",
        NULL,
        NULL,
        NULL};
    list_args args = {0};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    if (args.what == NULL)
        return list_tables(args.json);
    if (strcmp(args.what, "combinations") == 0)
        return args.name == NULL ? list_combinations(args.json)
                                 : cli_usage("list", "combinations has no '%s'", args.name);
    for (int t = 0; t < SHOAL_TABLE_COUNT; t++)
        if (strcmp(args.what, shoal_table_name((shoal_table)t)) == 0)
            return args.name == NULL ? list_table((shoal_table)t, args.json)
                                     : list_row((shoal_table)t, args.name, args.json);
    return cli_usage("list", "no table '%s'; `shoal list` shows them", args.what);
}
