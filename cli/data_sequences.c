/* SPDX-License-Identifier: Apache-2.0 */
/* shoal data speech: a data set of sequences. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "progress_show.h"
#include "shoal/data.h"

enum { KEY_FEATURES = 256, KEY_NOISE, KEY_PROGRAM, KEY_STACK };

typedef struct speech_args {
    shoal_speech_desc speech;
    char program[4096];
    bool json;
} speech_args;

static const struct argp_option speech_options[] = {
    {"out", 'o', "DIR", 0, "Directory for the files: made, or an empty one", 0},
    {"train", 'n', "MINUTES", 0, "Speech to train on (30)", 0},
    {"test", 't', "MINUTES", 0, "Speech of other voices to test on (150)", 0},
    {"seed", 's', "N", 0, "The same seed and espeak-ng give the same bytes (1)", 0},
    {"noise", KEY_NOISE, "FACTOR", 0, "Noise and echoes so many times as loud; 0: none (1)", 0},
    {"every", 'e', "N", 0, "Keep every N-th frame; they are 10 ms apart (1)", 0},
    {"stack", KEY_STACK, NULL, 0, "A kept frame has the values of those behind it, too: N times 39",
     0},
    {"features", KEY_FEATURES, "KIND", 0, "mfcc: 39 values a frame; logmel: 40 (mfcc)", 0},
    {"program", KEY_PROGRAM, "PATH", 0, "shoal-speak (the one beside this command)", 0},
    {"json", 'j', NULL, 0, "Result as one JSON object", 0},
    {0}};

static bool parse_speech_value(speech_args *args, int key, const char *text)
{
    shoal_speech_desc *d = &args->speech;
    int64_t number = 0;
    switch (key) {
    case 'n':
        return cli_parse_real(text, 0.01, 6000, &d->train_minutes);
    case 't':
        return cli_parse_real(text, 0.01, 6000, &d->test_minutes);
    case 's':
        if (!cli_parse_int(text, 1, INT64_MAX, &number))
            return false;
        d->seed = (uint64_t)number;
        return true;
    case 'e':
        if (!cli_parse_int(text, 1, 10, &number))
            return false;
        d->every = (uint32_t)number;
        return true;
    case KEY_NOISE:
        if (!cli_parse_real(text, 0, 100, &d->noise))
            return false;
        d->noise = d->noise > 0 ? d->noise : -1;
        return true;
    default:
        d->log_mel = strcmp(text, "logmel") == 0;
        return d->log_mel || strcmp(text, "mfcc") == 0;
    }
}

static error_t parse_speech(int key, char *text, struct argp_state *state)
{
    speech_args *args = state->input;
    switch (key) {
    case 'o':
        args->speech.dir = text;
        return 0;
    case 'j':
        args->json = true;
        return 0;
    case KEY_PROGRAM:
        args->speech.program = text;
        return 0;
    case KEY_STACK:
        args->speech.stack = true;
        return 0;
    case 'n':
    case 't':
    case 's':
    case 'e':
    case KEY_NOISE:
    case KEY_FEATURES:
        if (!parse_speech_value(args, key, text))
            cli_refuse_value(state, key, text);
        return 0;
    case ARGP_KEY_ARG:
        cli_refuse(state, "nothing but options is expected, not '%s'", text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The helper lies beside the command, where it was built and where it is installed. */
static bool find_program(speech_args *args)
{
    if (args->speech.program != NULL)
        return true;
    ssize_t length = readlink("/proc/self/exe", args->program, sizeof args->program - 1);
    char *slash = length > 0 ? strrchr(args->program, '/') : NULL;
    if (slash == NULL || (size_t)(slash - args->program) + 16 > sizeof args->program)
        return false;
    memcpy(slash, "/shoal-speak", sizeof "/shoal-speak");
    args->speech.program = args->program;
    return true;
}

static int make_speech(const speech_args *args)
{
    shoal_speech *speech = NULL;
    shoal_speech_progress progress = {0};
    shoal_status status = shoal_speech_open(&args->speech, &speech);
    if (status == SHOAL_OK)
        status = SHOAL_PENDING;
    progress_begin("data", "minutes", false, "the data set is not whole; make it anew");
    while (status == SHOAL_PENDING) {
        status = shoal_speech_step(speech, &progress);
        progress_at(progress.minutes, progress.total_minutes, NULL);
    }
    progress_end();
    shoal_speech_close(speech);
    if (status != SHOAL_OK)
        return cli_report("data speech");
    if (args->json)
        return answer_print("data speech",
                            json_pack("{s:o, s:o, s:o, s:o}", "minutes",
                                      answer_number(progress.minutes), "utterances",
                                      answer_count(progress.utterances), "train_phonemes",
                                      answer_count(progress.train_phonemes), "test_phonemes",
                                      answer_count(progress.test_phonemes)));
    printf("%.1f minutes, %u utterances; %llu phonemes to train on, %llu of other voices to test\n",
           progress.minutes, progress.utterances, (unsigned long long)progress.train_phonemes,
           (unsigned long long)progress.test_phonemes);
    return CLI_OK;
}

static int fill(void *ctx)
{
    speech_args *args = ctx;
    if (!find_program(args))
        return cli_usage("data speech", "where is shoal-speak? --program PATH");
    struct stat info;
    if (stat(args->speech.program, &info) != 0 || !S_ISREG(info.st_mode) ||
        access(args->speech.program, X_OK) != 0) {
        (void)cli_fail("data speech",
                       "there is no program %s; it is built where Debian's libespeak-ng-dev is "
                       "installed, and --program PATH names it",
                       args->speech.program);
        return CLI_CANNOT_HERE;
    }
    return make_speech(args);
}

int data_speech(int argc, char **argv)
{
    static const struct argp argp = {
        speech_options,
        parse_speech,
        "",
        "Make a corpus for phoneme recognition with espeak-ng.\v"
        "Example: shoal data speech --out speech --train 30 --test 150\n"
        "         shoal train --model lstm-asr --data speech --batch 16 --epochs 8 \\\n"
        "             --optimizer adam --lr 1e-3 --schedule cosine\n",
        progress_children,
        NULL,
        NULL};
    speech_args args = {.speech = SHOAL_SPEECH_DESC_INIT};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    if (args.speech.dir == NULL)
        return cli_usage("data speech", "where to? --out DIR");
    return data_fill("data speech", args.speech.dir, fill, &args);
}
