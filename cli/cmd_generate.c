/* SPDX-License-Identifier: Apache-2.0 */
/* shoal generate: text from a trained network. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "progress_show.h"
#include "shoal/generate.h"

typedef struct generate_args {
    shoal_generate_desc generate;
    uint32_t tokens;
    bool json;
} generate_args;

static const struct argp_option options[] = {
    {"from", 'f', "DIR", 0, "--out of a training run: its newest checkpoint; or FILE.safetensors",
     0},
    {"data", 'd', "DIR", 0, "Data set of `shoal data text` (the run's own, as its folder says)", 0},
    {"prompt", 'p', "TEXT", 0, "What goes before (nothing: another text has just ended)", 0},
    {"tokens", 'n', "N", 0, "Most that follow it (100)", 0},
    {"temperature", 't', "X", 0,
     "0: always the most likely token; small: likely ones; 1: as often as in the text (1)", 0},
    {"top-k", 'k', "K", 0, "Draw among the K most likely tokens only (all)", 0},
    {"seed", 's', "N", 0, "The same seed draws the same (1)", 0},
    {"json", 'j', NULL, 0, "Result as one JSON object", 0},
    {0}};

static bool parse_value(generate_args *args, int key, const char *text)
{
    int64_t number = 0;
    switch (key) {
    case 'n':
        return cli_parse_count(text, 1, 1000000, &args->tokens);
    case 't':
        return cli_parse_real(text, 0, 1000, &args->generate.temperature);
    case 'k':
        return cli_parse_count(text, 1, 65536, &args->generate.top_k);
    default:
        if (!cli_parse_int(text, 1, INT64_MAX, &number))
            return false;
        args->generate.seed = (uint64_t)number;
        return true;
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    generate_args *args = state->input;
    switch (key) {
    case 'f':
        args->generate.from = text;
        return 0;
    case 'd':
        args->generate.data = text;
        return 0;
    case 'p':
        args->generate.prompt = text;
        return 0;
    case 'j':
        args->json = true;
        return 0;
    case 'n':
    case 't':
    case 'k':
    case 's':
        if (!parse_value(args, key, text))
            cli_refuse_value(state, key, text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ------------------------------------------------------------------ bytes to show */

/* Tokens may be parts of characters, and a network may say anything: what is shown is UTF-8 without
 * control characters other than line ends and tabs; any other byte becomes '?'. */
typedef struct shown {
    unsigned char held[4];
    size_t count, wanted; /* bytes of a character that is not whole; 0: none is begun */
    FILE *out;
} shown;

static void give_up(shown *s)
{
    for (size_t i = 0; i < s->count; i++)
        fputc('?', s->out);
    s->count = s->wanted = 0;
}

static bool is_allowed(const unsigned char *c, size_t count)
{
    const unsigned int second = c[1];
    switch (count) {
    case 2:
        return c[0] > 0xC2 || second >= 0xA0; /* U+0080 .. U+009F are controls */
    case 3:
        return (c[0] != 0xE0 || second >= 0xA0) && (c[0] != 0xED || second < 0xA0);
    default:
        return (c[0] != 0xF0 || second >= 0x90) && (c[0] != 0xF4 || second < 0x90);
    }
}

static void show_byte(shown *s, unsigned char c)
{
    if (s->wanted > 0 && (c & 0xC0) == 0x80) {
        s->held[s->count++] = c;
        if (s->count < s->wanted)
            return;
        if (!is_allowed(s->held, s->count)) {
            give_up(s);
            return;
        }
        fwrite(s->held, 1, s->count, s->out);
        s->count = s->wanted = 0;
        return;
    }
    give_up(s);
    if (c >= 0xC2 && c <= 0xF4) {
        s->held[s->count++] = c;
        s->wanted = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
        return;
    }
    fputc((c >= 0x20 && c < 0x7F) || c == '\n' || c == '\t' ? c : '?', s->out);
}

static void show(shown *s, const shoal_generated *one)
{
    for (size_t i = 0; i < one->len_bytes; i++)
        show_byte(s, (unsigned char)one->text[i]);
}

/* ------------------------------------------------------------------ tokens */

static shoal_status say(shoal_generator *g, const generate_args *args, shown *s, json_t *ids,
                        bool *ended_out)
{
    shoal_generated one = {.size = sizeof one};
    for (uint32_t i = 0; i < args->tokens && !one.end; i++) {
        const shoal_status status = shoal_generate_next(g, &one);
        if (status != SHOAL_OK)
            return status;
        progress_at(i + 1, args->tokens, NULL);
        json_array_append_new(ids, answer_count(one.token));
        if (!one.end)
            show(s, &one);
        if (!args->json)
            fflush(s->out);
    }
    *ended_out = one.end;
    return SHOAL_OK;
}

static size_t say_prompt(const shoal_generator *g, shown *s)
{
    shoal_generated one = {.size = sizeof one};
    size_t count = 0;
    for (; shoal_generate_prompt(g, count, &one); count++)
        show(s, &one);
    return count;
}

static int answer(const char *text, size_t prompt_bytes, size_t prompt_tokens, json_t *ids,
                  bool ended)
{
    json_t *all = json_object();
    answer_set(all, "prompt", json_stringn(text, prompt_bytes));
    answer_set_count(all, "prompt_tokens", prompt_tokens);
    answer_set_text(all, "text", text + prompt_bytes);
    answer_set(all, "tokens", json_incref(ids));
    answer_set(all, "ended", json_boolean(ended));
    return answer_print("generate", all);
}

static int run(shoal_generator *g, const generate_args *args, json_t *ids)
{
    char *text = NULL;
    size_t length = 0;
    bool ended = false;
    shown s = {.out = args->json ? open_memstream(&text, &length) : stdout};
    if (s.out == NULL)
        return cli_fail("generate", "no memory");
    if (args->json || isatty(STDOUT_FILENO) == 0) /* else the text says how far it is */
        progress_begin("generate", "tokens", false, "what is said stays");
    const size_t prompt_tokens = say_prompt(g, &s);
    fflush(s.out);
    const size_t prompt_bytes = length;
    const shoal_status status = say(g, args, &s, ids, &ended);
    progress_end();
    give_up(&s);
    if (!args->json) {
        puts("");
        return status == SHOAL_OK ? CLI_OK : cli_report("generate");
    }
    int code = fclose(s.out) == 0 ? CLI_OK : cli_fail("generate", "no memory");
    if (status != SHOAL_OK)
        code = cli_report("generate");
    else if (code == CLI_OK)
        code = answer(text, prompt_bytes, prompt_tokens, ids, ended);
    free(text);
    return code;
}

int cli_generate(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        NULL,
        "Text from a network that was trained on the data of `shoal data text`: the prompt, then "
        "one token after the other, as they come.\v"
        "Example: shoal generate --from run1 --prompt \"this license\" --temperature 0.7\n\n"
        "It ends where the network ends its text, or after --tokens. Bytes that are no characters, "
        "and control characters, are shown as '?'.",
        progress_children,
        NULL,
        NULL};
    generate_args args = {.generate = SHOAL_GENERATE_DESC_INIT, .tokens = 100};
    args.generate.temperature = 1;
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    if (args.generate.from == NULL)
        return cli_usage("generate", "which run? --from DIR");
    shoal_generator *g = NULL;
    if (shoal_generate_open(&args.generate, &g) != SHOAL_OK)
        return cli_report("generate");
    json_t *ids = json_array();
    const int code = run(g, &args, ids);
    json_decref(ids);
    shoal_generate_close(g);
    return code;
}
