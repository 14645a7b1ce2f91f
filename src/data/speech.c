/* SPDX-License-Identifier: Apache-2.0 */
/* The generated speech corpus: utterance by utterance from the helper, resampled, made worse,
 * turned into frames, labelled; written at the end. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/new_file.h"
#include "base/rng.h"
#include "data/features.h"
#include "data/sequence.h"
#include "data/speaker.h"
#include "data/speech_text.h"
#include "shoal/data.h"

enum { FRAMES_MAX = 400, ECHOES = 3, SPLITS = 2, FRAMES_PER_MINUTE = 6000, PATH_BYTES = 4096 };

/* What has been said so far in one split; grows by doubling. */
typedef struct corpus {
    uint32_t *lengths;
    uint16_t *labels;
    float *x;
    size_t count, frames, lengths_room, frames_room, wanted; /* wanted: frames in all */
    uint64_t phonemes;
} corpus;

struct shoal_speech {
    shoal_arena *arena;
    shoal_speech_desc desc;
    shoali_speaker speaker;
    shoali_features *features;
    shoali_spoken spoken;
    float *samples; /* at 16 kHz */
    corpus splits[SPLITS];
    uint64_t tries;
};

/* ---------------------------------------------------------------- creation */

static shoal_status check(const shoal_speech_desc *d)
{
    if (d == NULL || d->size != sizeof *d || d->dir == NULL || d->program == NULL)
        return shoali_fail(SHOAL_EINVAL, "shoal_speech_desc: start from SHOAL_SPEECH_DESC_INIT, "
                                         "name a directory and the program that speaks");
    if (!(d->train_minutes >= 0 && d->train_minutes <= 6000) ||
        !(d->test_minutes >= 0 && d->test_minutes <= 6000) || !(d->noise <= 100) || d->every > 10)
        return shoali_fail(SHOAL_EINVAL,
                           "%g and %g minutes with noise %g, every %u-th frame: not in range",
                           d->train_minutes, d->test_minutes, d->noise, d->every);
    if (mkdir(d->dir, 0777) != 0 && errno != EEXIST)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot make the directory %s", d->dir);
    return SHOAL_OK;
}

static shoal_status set_up(shoal_speech *s, const shoal_speech_desc *desc)
{
    shoal_speech_desc *d = &s->desc;
    *d = *desc;
    d->dir = shoali_arena_strdup(s->arena, desc->dir);
    d->program = shoali_arena_strdup(s->arena, desc->program);
    d->seed = d->seed != 0 ? d->seed : 1;
    d->train_minutes = d->train_minutes > 0 ? d->train_minutes : 30;
    d->test_minutes = d->test_minutes > 0 ? d->test_minutes : 150;
    d->noise = d->noise == 0 ? 1 : d->noise < 0 ? 0 : d->noise;
    d->every = d->every != 0 ? d->every : 1;
    s->splits[0].wanted = (size_t)(d->train_minutes * FRAMES_PER_MINUTE / d->every);
    s->splits[1].wanted = (size_t)(d->test_minutes * FRAMES_PER_MINUTE / d->every);
    s->spoken.sample = shoali_arena_array(s->arena, SHOALI_SPOKEN_SAMPLES_MAX,
                                          sizeof *s->spoken.sample);
    s->spoken.phoneme = shoali_arena_array(s->arena, SHOALI_SPOKEN_PHONEMES_MAX,
                                           sizeof *s->spoken.phoneme);
    s->samples = shoali_arena_array(s->arena, SHOALI_SPOKEN_SAMPLES_MAX, sizeof *s->samples);
    if (d->dir == NULL || d->program == NULL || s->spoken.sample == NULL ||
        s->spoken.phoneme == NULL || s->samples == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(shoali_features_create(s->arena, d->log_mel, &s->features));
    return shoali_speaker_start(d->program, &s->speaker);
}

shoal_status shoal_speech_open(const shoal_speech_desc *desc, shoal_speech **speech_out)
{
    SHOALI_TRY(check(desc));
    shoal_arena *arena = shoali_arena_create(1 << 16);
    shoal_speech *speech = arena != NULL ? shoali_arena_alloc(arena, sizeof *speech) : NULL;
    shoal_status status = SHOAL_ENOMEM;
    if (speech != NULL) {
        speech->arena = arena;
        status = set_up(speech, desc);
    }
    if (status == SHOAL_OK)
        *speech_out = speech;
    else
        shoali_arena_destroy(arena);
    return status;
}

void shoal_speech_close(shoal_speech *speech)
{
    if (speech == NULL)
        return;
    shoali_speaker_stop(&speech->speaker);
    for (int i = 0; i < SPLITS; i++) {
        shoali_free(speech->splits[i].lengths);
        shoali_free(speech->splits[i].labels);
        shoali_free(speech->splits[i].x);
    }
    shoali_arena_destroy(speech->arena);
}

/* ---------------------------------------------------------------- sound */

/* Echoes of a small room, then white noise 10 to 30 dB below the speech. */
static void spoil(float *samples, size_t count, double strength, shoali_rng *rng)
{
    double power = 0, share = 0.3 * strength * shoali_rng_next_double(rng);
    for (int e = 0; e < ECHOES && share > 0; e++) {
        size_t late = (size_t)(160 + 800 * shoali_rng_next_double(rng));
        float gain = (float)(share / (e + 1));
        for (size_t i = count; i-- > late;)
            samples[i] += gain * samples[i - late];
    }
    for (size_t i = 0; i < count; i++)
        power += (double)samples[i] * (double)samples[i] / (double)count;
    double decibels = 10 + 20 * shoali_rng_next_double(rng);
    double level = strength * sqrt(power) * pow(10, -decibels / 20);
    for (size_t i = 0; i < count && level > 0; i++)
        samples[i] += (float)(level * shoali_rng_next_normal(rng));
}

static shoal_status grow(void **array, size_t *room, size_t need, size_t item, size_t first)
{
    size_t more = *room;
    if (need <= more)
        return SHOAL_OK;
    while (more < need)
        more = more > 0 ? 2 * more : first;
    void *grown = *array == NULL ? shoali_alloc(more * item)
                                 : shoali_realloc(*array, *room * item, more * item);
    if (grown == NULL)
        return SHOAL_ENOMEM;
    *array = grown;
    *room = more;
    return SHOAL_OK;
}

static shoal_status make_room(corpus *c, size_t frames, size_t values)
{
    size_t labels_room = c->frames_room;
    SHOALI_TRY(grow((void **)&c->lengths, &c->lengths_room, c->count + 1, sizeof *c->lengths, 256));
    SHOALI_TRY(
        grow((void **)&c->labels, &labels_room, c->frames + frames, sizeof *c->labels, 1 << 14));
    return grow((void **)&c->x, &c->frames_room, c->frames + frames, values * sizeof *c->x,
                1 << 14);
}

/* The phoneme at the middle of each frame. */
static void label(const shoali_spoken *spoken, corpus *c, size_t frames)
{
    uint32_t at = 0;
    for (size_t t = 0; t < frames; t++) {
        double middle = (double)(t * SHOALI_FEATURES_STEP + SHOALI_FEATURES_WINDOW / 2) *
                        spoken->rate / SHOALI_FEATURES_RATE;
        while (at < spoken->phonemes && spoken->phoneme[at].sample <= middle)
            at++;
        c->labels[c->frames + t] = at > 0
                                       ? (uint16_t)shoali_speech_class(spoken->phoneme[at - 1].name)
                                       : 0;
    }
}

/* Values of what is kept of `every` frames: those of one, or of all of them. */
static size_t width_of(const shoal_speech *s)
{
    return shoali_features_values(s->features) * (s->desc.stack ? s->desc.every : 1);
}

/* Makes the latest frames, from x on, the kept ones; their number. Stacked frames lie side by
 * side already, but for the last frame's copies that complete the last group. */
static size_t thin(const shoal_speech *s, corpus *c, size_t frames, float *x)
{
    uint16_t *labels = c->labels + c->frames;
    size_t every = s->desc.every, values = shoali_features_values(s->features);
    size_t kept = (frames + every - 1) / every, middle = s->desc.stack ? every / 2 : 0;
    for (size_t t = frames; s->desc.stack && t < kept * every; t++)
        memcpy(x + t * values, x + (frames - 1) * values, values * sizeof *x);
    for (size_t t = 0; t < kept; t++) {
        size_t of = t * every + middle;
        labels[t] = labels[of < frames ? of : frames - 1];
        if (!s->desc.stack)
            memmove(x + t * values, x + t * every * values, values * sizeof *x);
        c->phonemes += labels[t] != 0 && (t == 0 || labels[t] != labels[t - 1]);
    }
    return kept;
}

static shoal_status add_utterance(shoal_speech *s, bool test)
{
    corpus *c = &s->splits[test];
    shoali_rng rng = {s->desc.seed, shoali_mix(test, s->tries++), 0};
    char line[SHOALI_UTTERANCE_BYTES + 96], voice[64], text[SHOALI_UTTERANCE_BYTES];
    shoali_speech_voice(test, shoali_rng_next(&rng), voice, sizeof voice);
    shoali_speech_words(s->desc.seed, shoali_rng_next(&rng), text);
    snprintf(line, sizeof line, "%s\t%d\t%d\t%s", voice, (int)(120 + shoali_rng_next(&rng) % 81),
             (int)(30 + shoali_rng_next(&rng) % 41), text);
    SHOALI_TRY(shoali_speaker_say(&s->speaker, line, &s->spoken));
    if (s->spoken.samples == 0 || s->spoken.rate != 22050)
        return shoali_fail(SHOAL_ENOTSUP,
                           "%s says '%s' in %u samples at %u per second; 22050 are expected",
                           s->desc.program, voice, s->spoken.samples, s->spoken.rate);
    size_t count = shoali_resample_count(s->spoken.samples);
    shoali_resample(s->spoken.sample, s->spoken.samples, s->samples);
    spoil(s->samples, count, s->desc.noise, &rng);
    size_t frames = shoali_features_frames(count), width = width_of(s);
    frames = frames < FRAMES_MAX ? frames : FRAMES_MAX;
    if (frames == 0)
        return SHOAL_OK;
    SHOALI_TRY(make_room(c, frames, width));
    float *x = c->x + c->frames * width;
    shoali_features_run(s->features, s->samples, frames, x);
    shoali_features_centre(s->features, frames, x);
    label(&s->spoken, c, frames);
    frames = thin(s, c, frames, x);
    c->lengths[c->count++] = (uint32_t)frames;
    c->frames += frames;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- files */

static shoal_status write_split(const shoal_speech *s, bool test)
{
    const corpus *c = &s->splits[test];
    const shoali_sequences sequences = {.values = (uint32_t)width_of(s),
                                        .classes = SHOALI_PHONEMES,
                                        .count = (uint32_t)c->count,
                                        .frames = c->frames,
                                        .lengths = c->lengths,
                                        .labels = c->labels,
                                        .x = c->x};
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/%s.shoalseq", s->desc.dir, test ? "test" : "train") >=
        PATH_BYTES)
        return shoali_fail(SHOAL_EINVAL, "path is too long: %s", s->desc.dir);
    return shoali_sequences_write(path, &sequences);
}

static shoal_status write_names(const shoal_speech *s)
{
    char path[PATH_BYTES];
    shoali_new_file file;
    if (snprintf(path, sizeof path, "%s/phonemes.txt", s->desc.dir) >= PATH_BYTES)
        return shoali_fail(SHOAL_EINVAL, "path is too long: %s", s->desc.dir);
    SHOALI_TRY(shoali_new_file_open(path, &file));
    for (uint32_t i = 0; i < SHOALI_PHONEMES; i++)
        fprintf(file.file, "%s\n", shoali_speech_class_name(i));
    return shoali_new_file_commit(&file);
}

shoal_status shoal_speech_step(shoal_speech *speech, shoal_speech_progress *progress_out)
{
    corpus *c = speech->splits;
    double per_minute = (double)FRAMES_PER_MINUTE / speech->desc.every;
    bool test = c[0].frames >= c[0].wanted, done = test && c[1].frames >= c[1].wanted;
    if (!done)
        SHOALI_TRY(add_utterance(speech, test));
    *progress_out = (shoal_speech_progress){
        .minutes = (double)(c[0].frames + c[1].frames) / per_minute,
        .total_minutes = (double)(c[0].wanted + c[1].wanted) / per_minute,
        .utterances = (uint32_t)(c[0].count + c[1].count),
        .train_phonemes = c[0].phonemes,
        .test_phonemes = c[1].phonemes};
    if (!done)
        return SHOAL_PENDING;
    SHOALI_TRY(write_names(speech));
    SHOALI_TRY(write_split(speech, true));
    return write_split(speech, false); /* last: by it the data set is known */
}
