/* SPDX-License-Identifier: GPL-3.0-or-later */
/* shoal-speak: text to samples and phonemes, by libespeak-ng. Reads lines
 *
 *     VOICE <tab> RATE <tab> PITCH <tab> TEXT
 *
 * (words per minute, 0 .. 99) and answers each on standard output, in the machine's byte order:
 *
 *     u32 samples per second    u32 samples    u32 phonemes, 0 samples if there is no such voice
 *     per phoneme u32 first sample, char[8] mnemonic, filled with 0
 *     s16 samples
 *
 * Each line is spoken in a process of its own, and breath is drawn from a fixed seed: only then
 * does the same line sound the same. */
#include <espeak-ng/speak_lib.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* From 1.52 on espeak-ng has a generator of its own and seeds it by the clock; older ones use
 * rand(), which starts the same in each process, and do not have this function. */
extern int espeak_ng_SetRandSeed(long seed) __attribute__((weak));

enum { LINE_BYTES = 4096, SAMPLES_MAX = 1 << 22, PHONEMES_MAX = 8192 };

typedef struct phoneme {
    uint32_t sample;
    char name[8];
} phoneme;

static int16_t samples[SAMPLES_MAX];
static phoneme phonemes[PHONEMES_MAX];
static uint32_t head[3]; /* rate, samples, phonemes */

static int hear(short *wave, int count, espeak_EVENT *events)
{
    for (; events->type != espeakEVENT_LIST_TERMINATED; events++) {
        if (events->type != espeakEVENT_PHONEME || head[2] == PHONEMES_MAX)
            continue;
        phonemes[head[2]].sample = (uint32_t)events->sample;
        /* What lies behind the end of the name in the event was never written. */
        (void)memccpy(phonemes[head[2]++].name, events->id.string, '\0', sizeof phonemes[0].name);
    }
    for (int i = 0; wave != NULL && i < count && head[1] < SAMPLES_MAX; i++)
        samples[head[1]++] = wave[i];
    return 0;
}

static int speak(char *line)
{
    char *rate = strchr(line, '\t'), *pitch = rate != NULL ? strchr(rate + 1, '\t') : NULL;
    char *text = pitch != NULL ? strchr(pitch + 1, '\t') : NULL;
    if (text == NULL)
        return 2;
    *rate++ = *pitch++ = *text++ = '\0';
    espeak_SetSynthCallback(hear);
    srand(1); /* whatever was drawn before: libpulse names its folder in a fresh home by rand() */
    if (espeak_ng_SetRandSeed != NULL)
        (void)espeak_ng_SetRandSeed(1);
    if (espeak_SetVoiceByName(line) == EE_OK) {
        espeak_SetParameter(espeakRATE, (int)strtol(rate, NULL, 10), 0);
        espeak_SetParameter(espeakPITCH, (int)strtol(pitch, NULL, 10), 0);
        (void)espeak_Synth(text, strlen(text) + 1, 0, POS_CHARACTER, 0, espeakCHARS_UTF8, NULL,
                           NULL);
        (void)espeak_Synchronize();
    }
    if (fwrite(head, sizeof head, 1, stdout) != 1 ||
        fwrite(phonemes, sizeof phonemes[0], head[2], stdout) != head[2] ||
        fwrite(samples, sizeof samples[0], head[1], stdout) != head[1] || fflush(stdout) != 0)
        return 1;
    return 0;
}

int main(void)
{
    char line[LINE_BYTES];
    /* espeak-ng looks for a sound server although nothing is played, and libpulse makes folders
     * for that in the user's home; a name that it is given, it takes. */
    (void)setenv("PULSE_SERVER", "/dev/null", 1);
    int rate = espeak_Initialize(AUDIO_OUTPUT_SYNCHRONOUS, 0, NULL,
                                 espeakINITIALIZE_PHONEME_EVENTS | espeakINITIALIZE_DONT_EXIT);
    if (rate <= 0) {
        fputs("shoal-speak: espeak-ng finds no voices; install espeak-ng-data\n", stderr);
        return 1;
    }
    head[0] = (uint32_t)rate;
    while (fgets(line, sizeof line, stdin) != NULL) {
        int status = 0;
        line[strcspn(line, "\n")] = '\0';
        pid_t child = fork();
        if (child == 0)
            _exit(speak(line));
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            return 1;
    }
    return 0;
}
