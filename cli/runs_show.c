/* SPDX-License-Identifier: Apache-2.0 */
#include "runs_show.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "table.h"

enum { COLUMNS = 80, KEY = 15 };

/* ---------------------------------------------------------------- how it goes on */

char *runs_quoted(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-+=:,@%";
    char *out = malloc(4 * strlen(text) + 3), *to = out;
    if (out == NULL)
        return NULL;
    if (text[strspn(text, plain)] == '\0')
        return strcpy(out, text);
    *to++ = '\'';
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            to = stpcpy(to, "'\\'");
        *to++ = *text;
    }
    strcpy(to, "'");
    return out;
}

/* Variables whose values are kept nowhere are to be given again. */
static void add_exports(const shoal_run *run, FILE *out)
{
    const char *name, *value;
    for (uint32_t i = 0; (value = shoal_run_option(run, i, &name)) != NULL; i++)
        if (strcmp(name, "export") == 0)
            fprintf(out, " -x %s", value);
}

static bool has_option(const shoal_run *run, const char *wanted)
{
    const char *name;
    for (uint32_t i = 0; run != NULL && shoal_run_option(run, i, &name) != NULL; i++)
        if (strcmp(name, wanted) == 0)
            return true;
    return false;
}

/* The command; null where there is none. */
static json_t *command(const char *dir, const shoal_run_look *look, const shoal_run_summary *s)
{
    char *text = NULL, *folder = runs_quoted(dir);
    size_t length = 0;
    const shoal_run *run = shoal_run_look_run(look);
    FILE *out = s->resumes && folder != NULL ? open_memstream(&text, &length) : NULL;
    if (out != NULL) {
        fprintf(out, "shoal train --resume %s", folder);
        if (run == NULL)
            fputs(" --model M --data D", out); /* and all other options: it cannot say which */
        else
            add_exports(run, out);
        if (has_option(run, "simulate"))
            fputs(" --workers N", out); /* of simulated workers nothing but the weights is kept */
        if (strcmp(s->state, "finished") == 0)
            fprintf(out, " --epochs N%s", has_option(run, "steps") ? " --steps N" : "");
        fclose(out);
    }
    json_t *json = answer_text(text);
    free(text);
    free(folder);
    return json;
}

/* ---------------------------------------------------------------- JSON */

static json_t *checkpoints_of(const shoal_run_look *look, uint32_t count)
{
    json_t *list = json_array();
    shoal_run_checkpoint c = {.size = sizeof c};
    for (uint32_t i = 0; i < count; i++) {
        if (shoal_run_look_checkpoint(look, i, &c) != SHOAL_OK)
            break;
        json_t *one = json_object();
        answer_set_text(one, "name", c.name);
        answer_set_count(one, "step", c.step);
        answer_set_count(one, "members_epoch", c.epoch);
        answer_set_text(one, "state", c.state);
        answer_set_bool(one, "latest", c.latest);
        answer_set_text(one, "text", c.text);
        json_array_append_new(list, one);
    }
    return list;
}

json_t *runs_object(const char *dir, const shoal_run_look *look)
{
    shoal_run_summary s = {.size = sizeof s};
    json_t *run = json_object();
    if (shoal_run_look_summary(look, &s) != SHOAL_OK)
        return run;
    answer_set_text(run, "folder", dir);
    answer_set_text(run, "state", s.state);
    answer_set_text(run, "text", s.text);
    answer_set_text(run, "began", s.began);
    answer_set_text(run, "model", s.model);
    answer_set_text(run, "data", s.data);
    answer_set_text(run, "sync", s.sync);
    answer_set_text(run, "collective", s.collective);
    answer_set_text(run, "codec", s.codec);
    answer_set_count(run, "workers", s.workers);
    answer_set_count(run, "step", s.step);
    answer_set_count(run, "steps", s.steps);
    answer_set_count(run, "epoch", s.epoch);
    answer_set_count(run, "epochs", s.epochs);
    answer_set_number(run, "loss", s.loss);
    answer_set_number(run, "test_accuracy", s.accuracy);
    answer_set_count(run, "resumes_from", s.resumes_from);
    answer_set_bool(run, "simulated", s.simulated);
    answer_set(run, "checkpoints", checkpoints_of(look, s.checkpoints));
    answer_set(run, "command", command(dir, look, &s));
    return run;
}

/* ---------------------------------------------------------------- for people */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static json_int_t count_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static bool is(const json_t *object, const char *state)
{
    return strcmp(text_of(object, "state"), state) == 0;
}

bool runs_is_damaged(const json_t *run)
{
    size_t i;
    const json_t *checkpoint;
    json_array_foreach(json_object_get(run, "checkpoints"), i,
                       checkpoint) if (is(checkpoint, "damaged")) return true;
    return is(run, "damaged");
}

/* What a terminal would obey is shown as '?'. */
static void print_plain(const char *text)
{
    for (; *text != '\0'; text++)
        putchar((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
}

/* Behind `at` columns, the next lines below the first; a word that is longer than a line is left as
 * it is, as paths are. */
static void print_wrapped(const char *text, int at)
{
    int column = at;
    while (*text != '\0') {
        const int length = (int)strcspn(text, " ");
        if (column > at && column + 1 + length > COLUMNS) {
            printf("\n%*s", at, "");
            column = at;
        } else if (column > at) {
            putchar(' ');
            column++;
        }
        printf("%.*s", length, text);
        column += length;
        text += length + (text[length] == ' ');
    }
    putchar('\n');
}

typedef struct figure {
    char text[48];
} figure;

/* "12/20", "12" where it is not known of how many. */
static figure done_of(json_int_t done, json_int_t all)
{
    figure f;
    if (all > 0)
        snprintf(f.text, sizeof f.text, "%" PRId64 "/%" PRId64, (int64_t)done, (int64_t)all);
    else
        snprintf(f.text, sizeof f.text, "%" PRId64, (int64_t)done);
    return f;
}

static figure figure_of(const json_t *run, const char *key, int digits)
{
    const json_t *value = json_object_get(run, key);
    figure f = {"-"};
    if (json_is_number(value))
        snprintf(f.text, sizeof f.text, "%.*f", digits, json_number_value(value));
    return f;
}

void runs_table(const json_t *runs)
{
    static const table_column columns[] = {{"run", TABLE_CUT},     {"state", TABLE_PLAIN},
                                           {"steps", TABLE_RIGHT}, {"epochs", TABLE_RIGHT},
                                           {"loss", TABLE_RIGHT},  {"acc %", TABLE_RIGHT}};
    size_t i;
    const json_t *run;
    table *t = table_new(0, columns, sizeof columns / sizeof *columns);
    json_array_foreach(runs, i, run)
    {
        table_row(t);
        table_add(t, "%s", text_of(run, "folder"));
        table_add(t, "%s", text_of(run, "state"));
        table_add(t, "%s", done_of(count_of(run, "step"), count_of(run, "steps")).text);
        table_add(t, "%s", done_of(count_of(run, "epoch"), count_of(run, "epochs")).text);
        table_add(t, "%s", figure_of(run, "loss", 4).text);
        table_add(t, "%s", figure_of(run, "test_accuracy", 2).text);
        if (is(run, "damaged"))
            table_note(t, "%s", text_of(run, "text"));
    }
    table_print(t, stdout);
}

static void print_what(const json_t *run)
{
    if (json_is_true(json_object_get(run, "simulated")))
        puts("  clock        virtual: shoal sim wrote it");
    if (text_of(run, "sync")[0] == '\0')
        return;
    if (text_of(run, "model")[0] != '\0')
        printf("  model        %s\n", text_of(run, "model"));
    if (text_of(run, "data")[0] != '\0')
        printf("  data         %s\n", text_of(run, "data"));
    printf("  exchange     %s, %s, %s", text_of(run, "sync"), text_of(run, "collective"),
           text_of(run, "codec"));
    printf("; %" PRId64 " workers\n", (int64_t)count_of(run, "workers"));
    if (!json_is_true(json_object_get(run, "simulated")))
        printf("  begun        %s\n", text_of(run, "began"));
}

static void print_done(const json_t *run)
{
    printf("  done         %s steps, %s epochs; loss %s, accuracy %s%s\n",
           done_of(count_of(run, "step"), count_of(run, "steps")).text,
           done_of(count_of(run, "epoch"), count_of(run, "epochs")).text,
           figure_of(run, "loss", 4).text, figure_of(run, "test_accuracy", 2).text,
           json_is_number(json_object_get(run, "test_accuracy")) ? " %" : "");
}

void runs_details(const json_t *run)
{
    size_t i;
    const json_t *c;
    print_plain(text_of(run, "folder"));
    printf(": %s\n", text_of(run, "state"));
    if (text_of(run, "text")[0] != '\0') {
        printf("  %-*s", KEY - 2, is(run, "running") ? "held by" : "damage");
        print_wrapped(text_of(run, "text"), KEY);
    }
    print_what(run);
    print_done(run);
    json_array_foreach(json_object_get(run, "checkpoints"), i, c)
    {
        const char *damage = text_of(c, "text");
        printf("  %-*s%s, %s%s\n", KEY - 2, i == 0 ? "checkpoints" : "", text_of(c, "name"),
               text_of(c, "state"), json_is_true(json_object_get(c, "latest")) ? ", latest" : "");
        if (damage[0] != '\0' && strcmp(damage, text_of(run, "text")) != 0) {
            printf("%*s", KEY + 2, "");
            print_wrapped(damage, KEY + 2);
        }
    }
    const char *command_text = text_of(run, "command");
    if (command_text[0] != '\0') {
        fputs("  goes on by   ", stdout);
        print_plain(command_text);
        putchar('\n');
    }
}
