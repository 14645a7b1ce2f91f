/* SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "nearest.h"
#include "said.h"

enum { OPTIONS_MOST = 96, LONGEST = 4095, SHOWN = 60 };

/* argp's own, which it adds to every parser. */
static const struct argp_option helps[] = {
    {"help", '?', NULL, 0, NULL, 0}, {"usage", 0, NULL, 0, NULL, 0}, {0}};

/* All options that a parser and its children take, and what was given of each. */
typedef struct words {
    const char *program;
    const struct argp_option *options[OPTIONS_MOST];
    const char *given[OPTIONS_MOST];
    size_t count;
    bool help; /* was asked for: what stands behind does not matter */
} words;

/* ------------------------------------------------------------------ saying no */

/* Enough of a text to recognise it by; "..." where it is cut. */
#define BRIEF "%.*s%s"
#define BRIEF_OF(text) SHOWN, (text), strnlen(text, SHOWN + 1) > SHOWN ? "..." : ""

static void say(const char *program, const char *format, va_list args)
{
    char *text = cli_format(format, args), *line = NULL, advice[96];
    if (text == NULL || asprintf(&line, "%s: %s", program, text) < 0)
        line = NULL;
    snprintf(advice, sizeof advice, "Try `%s --help`.", program);
    said_line(SAID_ERROR, line != NULL ? line : "shoal: no memory", advice);
    free(line);
    free(text);
}

static int refuse(const words *w, const char *format, ...) SHOAL_PRINTF(2, 3);

static int refuse(const words *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(w->program, format, args);
    va_end(args);
    return CLI_USAGE;
}

void cli_refuse(const struct argp_state *state, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(state->name, format, args);
    va_end(args);
    exit(CLI_USAGE);
}

/* ------------------------------------------------------------------ what there is */

static void collect(words *w, const struct argp_option *options)
{
    for (; options != NULL && (options->name != NULL || options->key != 0 || options->doc != NULL);
         options++)
        if (options->name != NULL && w->count < OPTIONS_MOST)
            w->options[w->count++] = options;
}

static void collect_all(words *w, const struct argp *argp)
{
    collect(w, argp->options);
    for (const struct argp_child *c = argp->children; c != NULL && c->argp != NULL; c++)
        collect_all(w, c->argp);
}

void cli_refuse_value(const struct argp_state *state, int key, const char *value)
{
    words w = {.program = state->name};
    const struct argp_option *option = NULL;
    collect_all(&w, state->root_argp);
    for (size_t i = 0; i < w.count && option == NULL; i++)
        if (w.options[i]->key == key)
            option = w.options[i];
    if (option == NULL)
        cli_refuse(state, "'" BRIEF "' cannot be used here", BRIEF_OF(value));
    cli_refuse(state, "--%s '" BRIEF "' is not taken; wanted %s: %s", option->name, BRIEF_OF(value),
               option->arg, option->doc);
}

static size_t of_letter(const words *w, char letter)
{
    size_t i = 0;
    while (i < w->count && w->options[i]->key != letter)
        i++;
    return i;
}

/* By its name, or the beginning of one that no other has. @return w->count: none */
static size_t of_name(const words *w, const char *name, size_t length, bool *ambiguous_out)
{
    size_t found = w->count;
    *ambiguous_out = false;
    for (size_t i = 0; i < w->count; i++) {
        if (strncmp(w->options[i]->name, name, length) != 0)
            continue;
        if (w->options[i]->name[length] == '\0') {
            *ambiguous_out = false;
            return i;
        }
        *ambiguous_out = *ambiguous_out || found < w->count;
        found = i;
    }
    return found;
}

/* ------------------------------------------------------------------ what was given */

/* Those that begin so, or those that are spelt most alike, as "--a, --b". False: none is. */
static bool list_near(const words *w, const char *name, bool begin, char *out, size_t bytes)
{
    size_t least = SIZE_MAX, used = 0;
    for (size_t i = 0; i < w->count; i++) {
        const size_t off = nearest_distance(name, w->options[i]->name);
        least = off < least ? off : least;
    }
    if (!begin && least > nearest_most(name))
        return false;
    for (size_t i = 0; i < w->count && used < bytes; i++) {
        const char *other = w->options[i]->name;
        if (begin ? strncmp(name, other, strlen(name)) == 0
                  : nearest_distance(name, other) == least)
            used += (size_t)snprintf(out + used, bytes - used, "%s--%s",
                                     used > 0 ? (begin ? ", " : " or ") : "", other);
    }
    return true;
}

static int unknown(const words *w, const char *word, bool ambiguous)
{
    char name[SHOWN + 1], near[400];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    if (list_near(w, name, ambiguous, near, sizeof near))
        return ambiguous ? refuse(w, "--%s is the beginning of %s", name, near)
                         : refuse(w, "there is no option --%s; did you mean %s?", name, near);
    return refuse(w, "there is no option --" BRIEF, BRIEF_OF(word));
}

static int take(words *w, size_t i, const char *value)
{
    const struct argp_option *option = w->options[i];
    const size_t length = strlen(value);
    if (length == 0)
        return refuse(w, "--%s: the value is empty; wanted %s: %s", option->name, option->arg,
                      option->doc);
    if (length > LONGEST && (option->flags & CLI_LONG) == 0)
        return refuse(w, "--%s: a value of %zu bytes; at most %d are taken", option->name, length,
                      LONGEST);
    if (w->given[i] != NULL && (option->flags & CLI_REPEATS) == 0 &&
        strcmp(w->given[i], value) != 0)
        return refuse(w,
                      "--%s is given twice, with '" BRIEF "' and with '" BRIEF "'; once is meant",
                      option->name, BRIEF_OF(w->given[i]), BRIEF_OF(value));
    w->given[i] = value;
    return 0;
}

/* `next` is the word behind, or NULL. *used_out: it was the value. */
static int take_name(words *w, const char *word, const char *next, bool *used_out)
{
    bool ambiguous;
    const size_t length = strcspn(word, "=");
    const size_t i = of_name(w, word, length, &ambiguous);
    if (i == w->count || ambiguous)
        return unknown(w, word, ambiguous);
    const struct argp_option *option = w->options[i];
    w->help = option == &helps[0] || option == &helps[1];
    if (option->arg == NULL)
        return word[length] == '\0' ? 0 : refuse(w, "--%s takes no value", option->name);
    if (word[length] == '=')
        return take(w, i, word + length + 1);
    if ((option->flags & OPTION_ARG_OPTIONAL) != 0)
        return 0; /* without one, as "--http" in "--http 8080" */
    *used_out = true;
    return next != NULL ? take(w, i, next)
                        : refuse(w, "--%s: the value is missing; wanted %s: %s", option->name,
                                 option->arg, option->doc);
}

/* "-qj", "-n4", "-n 4". */
static int take_letters(words *w, const char *word, const char *next, bool *used_out)
{
    for (const char *c = word; *c != '\0'; c++) {
        const size_t i = isgraph((unsigned char)*c) ? of_letter(w, *c) : w->count;
        if (i == w->count)
            return refuse(w, "there is no option -%c", *c);
        w->help = w->help || w->options[i] == &helps[0];
        if (w->options[i]->arg == NULL)
            continue;
        if (c[1] != '\0')
            return take(w, i, c + 1);
        *used_out = true;
        return next != NULL ? take(w, i, next)
                            : refuse(w, "-%c: the value is missing; wanted %s: %s", *c,
                                     w->options[i]->arg, w->options[i]->doc);
    }
    return 0;
}

static int look(words *w, int argc, char **argv, bool in_order)
{
    int code = 0;
    for (int i = 1; i < argc && code == 0 && !w->help; i++) {
        const char *word = argv[i];
        bool used = false;
        if (strcmp(word, "--") == 0)
            return 0;
        if (word[0] == '-' && word[1] == '-')
            code = take_name(w, word + 2, argv[i + 1], &used);
        else if (word[0] == '-' && word[1] != '\0')
            code = take_letters(w, word + 1, argv[i + 1], &used);
        else if (in_order)
            return 0;
        else if (strlen(word) > LONGEST)
            code = refuse(w,
                          "'" BRIEF "' has %zu bytes; nothing that is named so is longer than %d",
                          BRIEF_OF(word), strlen(word), LONGEST);
        i += used;
    }
    return code;
}

int cli_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input)
{
    words w = {.program = argv[0]};
    collect_all(&w, argp);
    collect(&w, helps);
    const int code = look(&w, argc, argv, (flags & ARGP_IN_ORDER) != 0);
    if (code != 0)
        return code;
    argp_err_exit_status = CLI_USAGE;
    int rest = argc; /* asked for, as argp's own sentence does not name the word */
    if (argp_parse(argp, argc, argv, flags, &rest, input) != 0)
        return CLI_USAGE;
    return rest < argc ? refuse(&w, "unexpected argument '" BRIEF "'", BRIEF_OF(argv[rest])) : 0;
}
