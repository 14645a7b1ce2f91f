/* SPDX-License-Identifier: Apache-2.0 */
/* shoal data text: texts as tokens. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "progress_show.h"
#include "shoal/data.h"

typedef struct text_args {
    shoal_text_desc text;
    const char **files; /* [argc] */
    bool json;
} text_args;

static const struct argp_option options[] = {
    {"from", 'f', "FILE", CLI_REPEATS,
     "Text, plain or .gz, or a folder of such files; repeat for more (texts that Debian's packages "
     "have installed here: licences and what is to be read in /usr/share/doc)",
     0},
    {"out", 'o', "DIR", 0, "Directory for the files: made, or an empty one", 0},
    {"tokens", 't', "KIND", 0,
     "characters: 64 of them, for lstm-text; bytes: 257; bpe=N: N tokens learned from the training "
     "texts; or the path of a tokenizer.json (byte-level BPE or WordPiece) or of BERT's vocab.txt "
     "(characters)",
     0},
    {"length", 'l', "N", 0, "Tokens of a sequence (128)", 0},
    {"json", 'j', NULL, 0, "Result as one JSON object", 0},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state)
{
    text_args *args = state->input;
    int64_t number = 0;
    switch (key) {
    case 'o':
        args->text.dir = text;
        return 0;
    case 'j':
        args->json = true;
        return 0;
    case 't':
        args->text.tokens = text;
        return 0;
    case 'l':
        if (!cli_parse_int(text, 2, 65536, &number))
            cli_refuse_value(state, key, text);
        args->text.length = (uint32_t)number;
        return 0;
    case 'f':
    case ARGP_KEY_ARG:
        args->files[args->text.file_count++] = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void tell(void *ctx, const char *what, double done, double total)
{
    (void)ctx;
    progress_at(total > 0 ? 100 * done / total : 0, 100, what);
}

static int print(const text_args *args, const shoal_text_info *info)
{
    if (args->json) {
        json_t *answer = json_object();
        answer_set_count(answer, "train_sequences", info->train_sequences);
        answer_set_count(answer, "test_sequences", info->test_sequences);
        answer_set_count(answer, "length", info->length);
        answer_set_count(answer, "vocabulary", info->vocabulary);
        answer_set_count(answer, "documents", info->documents);
        answer_set_count(answer, "repeated", info->repeated);
        answer_set_count(answer, "binary", info->binary);
        answer_set_count(answer, "bytes", info->bytes);
        answer_set_count(answer, "tokens", info->tokens);
        return answer_print("data text", answer);
    }
    printf("%llu documents, %llu bytes as %llu tokens of %u", (unsigned long long)info->documents,
           (unsigned long long)info->bytes, (unsigned long long)info->tokens, info->vocabulary);
    if (info->repeated > 0)
        printf("; %llu that say the same left out", (unsigned long long)info->repeated);
    if (info->binary > 0)
        printf("; %llu files are no text", (unsigned long long)info->binary);
    printf("\n%llu sequences to train on, %llu to test, of %u tokens\n",
           (unsigned long long)info->train_sequences, (unsigned long long)info->test_sequences,
           info->length);
    return CLI_OK;
}

static int fill(void *ctx)
{
    const text_args *args = ctx;
    shoal_text_info info = {0};
    progress_begin("data", "%", false, "the data set is not whole; make it anew");
    const shoal_status status = shoal_text_make(&args->text, &info);
    progress_end();
    return status == SHOAL_OK ? print(args, &info) : cli_report("data text");
}

static int make(text_args *args)
{
    if (args->text.dir == NULL)
        return cli_usage("data text", "where to? --out DIR");
    return data_fill("data text", args->text.dir, fill, args);
}

int data_text(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "[FILE ...]",
        "Make a data set of texts: every sequence of tokens is labelled with the next ones. The "
        "test set is whole documents, about a tenth of the bytes; of few documents, and of "
        "characters, the last tenth of each.\v"
        "Example: shoal data text --out text --tokens bpe=512 --length 64\n"
        "         shoal data text --out text --tokens bytes --from book.txt --from letters/\n"
        "         shoal data text --out text /usr/share/common-licenses/GPL-3\n"
        "         shoal train --model lstm-text --data text --optimizer adam --lr 2e-3\n",
        progress_children,
        NULL,
        NULL};
    text_args args = {.text = SHOAL_TEXT_DESC_INIT, .files = calloc((size_t)argc, sizeof(char *))};
    args.text.files = args.files;
    args.text.tell = tell;
    int code = CLI_USAGE;
    if (args.files != NULL && cli_parse(&argp, argc, argv, 0, &args) == 0)
        code = make(&args);
    free(args.files);
    return code;
}
