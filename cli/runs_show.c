/* SPDX-License-Identifier: Apache-2.0 */
#include "runs_show.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"

enum { COLUMNS = 80, FOLDER = 33, KEY = 15 };

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

/* "12/20", "12" where it is not known of how many. */
static void print_of(json_int_t done, json_int_t all, int width)
{
    char text[48];
    if (all > 0)
        snprintf(text, sizeof text, "%" PRId64 "/%" PRId64, (int64_t)done, (int64_t)all);
    else
        snprintf(text, sizeof text, "%" PRId64, (int64_t)done);
    printf(" %*s", width, text);
}

static void print_figure(const json_t *run, const char *key, int width, int digits)
{
    const json_t *value = json_object_get(run, key);
    if (json_is_number(value))
        printf(" %*.*f", width, digits, json_number_value(value));
    else
        printf(" %*s", width, "-");
}

static void print_damage(const json_t *run)
{
    fputs("  ", stdout);
    print_wrapped(text_of(run, "text"), 2);
}

void runs_table(const json_t *runs)
{
    size_t i;
    const json_t *run;
    printf("%-*s %-8s %13s %7s %8s %6s\n", FOLDER, "run", "state", "steps", "epochs", "loss",
           "acc %");
    json_array_foreach(runs, i, run)
    {
        const char *folder = text_of(run, "folder");
        const size_t length = strlen(folder);
        char shown[FOLDER + 1];
        const char *end = length > FOLDER ? folder + length - (FOLDER - 3) : folder;
        while ((*end & 0xC0) == 0x80) /* within a character */
            end++;
        snprintf(shown, sizeof shown, "%s%s", length > FOLDER ? "..." : "", end);
        print_plain(shown);
        printf("%*s %-8s", (int)(FOLDER - strlen(shown)), "", text_of(run, "state"));
        print_of(count_of(run, "step"), count_of(run, "steps"), 13);
        print_of(count_of(run, "epoch"), count_of(run, "epochs"), 7);
        print_figure(run, "loss", 8, 4);
        print_figure(run, "test_accuracy", 6, 2);
        putchar('\n');
        if (is(run, "damaged"))
            print_damage(run);
    }
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
    fputs("  done        ", stdout);
    print_of(count_of(run, "step"), count_of(run, "steps"), 0);
    fputs(" steps,", stdout);
    print_of(count_of(run, "epoch"), count_of(run, "epochs"), 0);
    fputs(" epochs; loss", stdout);
    print_figure(run, "loss", 0, 4);
    fputs(", accuracy", stdout);
    print_figure(run, "test_accuracy", 0, 2);
    puts(json_is_number(json_object_get(run, "test_accuracy")) ? " %" : "");
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
