/* SPDX-License-Identifier: Apache-2.0 */
/* CTC in double and in logarithms: alpha[t][s] is the log probability of all ways to have written
 * the first s of `blank a blank b ... blank` after frame t, beta what is still to come. */
#include "nn/sequence_loss.h"

#include <math.h>
#include <string.h>

#include "nn/exec.h"

struct shoali_sequence_work {
    uint32_t frames, classes;
    bool ctc;
    uint32_t *truth, *heard, *row; /* [frames], [frames], [frames + 1] */
    uint32_t *target;              /* ctc: [2 frames + 1], blanks between symbols */
    double *logs, *alpha, *beta, *posterior;
    /* ctc: [frames][classes], [frames][2 frames + 1], two rows of it, [classes] */
};

shoal_status shoali_sequence_work_create(shoal_arena *arena, const shoal_model *model,
                                         shoali_sequence_work **work_out)
{
    shoali_sequence_work *w = shoali_arena_alloc(arena, sizeof *w);
    if (w == NULL)
        return SHOAL_ENOMEM;
    size_t frames = model->input.height, states = model->ctc ? 2 * frames + 1 : 0;
    *w = (shoali_sequence_work){.frames = (uint32_t)frames,
                                .classes = model->layers[model->layer_count - 1].out.width,
                                .ctc = model->ctc};
    w->truth = shoali_arena_array(arena, frames, sizeof *w->truth);
    w->heard = shoali_arena_array(arena, frames, sizeof *w->heard);
    w->row = shoali_arena_array(arena, frames + 1, sizeof *w->row);
    w->target = shoali_arena_array(arena, states, sizeof *w->target);
    w->logs = shoali_arena_array(arena, model->ctc ? frames * w->classes : 0, sizeof *w->logs);
    w->alpha = shoali_arena_array(arena, frames * states, sizeof *w->alpha);
    w->beta = shoali_arena_array(arena, 2 * states, sizeof *w->beta);
    w->posterior = shoali_arena_array(arena, w->classes, sizeof *w->posterior);
    if (w->truth == NULL || w->heard == NULL || w->row == NULL || w->target == NULL ||
        w->logs == NULL || w->alpha == NULL || w->beta == NULL || w->posterior == NULL)
        return SHOAL_ENOMEM;
    *work_out = w;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- symbols and errors */

/* Runs of equal classes, class 0 left out. */
static uint32_t collapse(const uint32_t *classes, uint32_t count, uint32_t *out)
{
    uint32_t used = 0;
    for (uint32_t t = 0; t < count; t++)
        if (classes[t] != 0 && (t == 0 || classes[t] != classes[t - 1]))
            out[used++] = classes[t];
    return used;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Levenshtein's distance, one row of the table at a time. */
static uint32_t distance(const uint32_t *a, uint32_t a_count, const uint32_t *b, uint32_t b_count,
                         uint32_t *row)
{
    for (uint32_t j = 0; j <= b_count; j++)
        row[j] = j;
    for (uint32_t i = 1; i <= a_count; i++) {
        uint32_t diagonal = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= b_count; j++) {
            uint32_t other = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = least(other, 1 + least(row[j], row[j - 1]));
        }
    }
    return row[b_count];
}

static void count_errors(shoali_sequence_work *w, const float *scores, const uint32_t *labels,
                         uint32_t length, shoali_loss *loss)
{
    for (uint32_t t = 0; t < length; t++) {
        const float *of = scores + (size_t)t * w->classes;
        uint32_t best = 0;
        for (uint32_t c = 1; c < w->classes; c++)
            best = of[c] > of[best] ? c : best;
        w->heard[t] = best;
        loss->correct += best == labels[t];
    }
    uint32_t heard = collapse(w->heard, length, w->heard);
    uint32_t truth = collapse(labels, length, w->truth);
    loss->labels += length;
    loss->symbols += truth;
    loss->edits += distance(w->truth, truth, w->heard, heard, w->row);
}

/* ---------------------------------------------------------------- CTC */

static double log_sum(double a, double b)
{
    double most = a > b ? a : b, least_one = a > b ? b : a;
    if (isnan(a) || isnan(b))
        return (double)NAN;
    return most == (double)-INFINITY ? most : most + log1p(exp(least_one - most));
}

static void log_softmax(const float *scores, uint32_t classes, double *out)
{
    double most = scores[0], sum = 0;
    for (uint32_t c = 1; c < classes; c++)
        most = scores[c] > most ? scores[c] : most;
    for (uint32_t c = 0; c < classes; c++)
        sum += exp(scores[c] - most);
    for (uint32_t c = 0; c < classes; c++)
        out[c] = scores[c] - most - log(sum);
}

/* Whether state s may follow s - 2: over a blank, between symbols that differ. */
static bool skips(const uint32_t *target, uint32_t s)
{
    return s >= 2 && target[s] != 0 && target[s] != target[s - 2];
}

static void run_alpha(shoali_sequence_work *w, uint32_t length, uint32_t states)
{
    for (uint32_t t = 0; t < length; t++) {
        double *now = w->alpha + (size_t)t * states, *before = now - states;
        const double *logs = w->logs + (size_t)t * w->classes;
        for (uint32_t s = 0; s < states; s++) {
            double sum = t == 0 ? (s < 2 ? 0.0 : (double)-INFINITY) : before[s];
            if (t > 0 && s > 0)
                sum = log_sum(sum, before[s - 1]);
            if (t > 0 && skips(w->target, s))
                sum = log_sum(sum, before[s - 2]);
            now[s] = sum + logs[w->target[s]];
        }
    }
}

/* beta of frame t from that of t + 1, in next; at the last frame only the two last states end. */
static void step_beta(const shoali_sequence_work *w, uint32_t t, bool last, uint32_t states,
                      const double *next, double *now)
{
    const double *logs = last ? NULL : w->logs + (size_t)(t + 1) * w->classes;
    for (uint32_t s = 0; s < states; s++) {
        if (last) {
            now[s] = s + 2 >= states ? 0.0 : (double)-INFINITY;
            continue;
        }
        now[s] = next[s] + logs[w->target[s]];
        if (s + 1 < states)
            now[s] = log_sum(now[s], next[s + 1] + logs[w->target[s + 1]]);
        if (s + 2 < states && skips(w->target, s + 2))
            now[s] = log_sum(now[s], next[s + 2] + logs[w->target[s + 2]]);
    }
}

static void ctc_gradient(shoali_sequence_work *w, uint32_t length, uint32_t states, double total,
                         double scale, float *dscores)
{
    double *next = w->beta, *now = w->beta + states;
    for (uint32_t t = length; t-- > 0;) {
        const double *logs = w->logs + (size_t)t * w->classes,
                     *alpha = w->alpha + (size_t)t * states;
        step_beta(w, t, t + 1 == length, states, next, now);
        memset(w->posterior, 0, w->classes * sizeof *w->posterior);
        for (uint32_t s = 0; s < states; s++)
            w->posterior[w->target[s]] += exp(alpha[s] + now[s] - total);
        for (uint32_t c = 0; c < w->classes; c++)
            dscores[(size_t)t * w->classes + c] = (float)(scale * (exp(logs[c]) - w->posterior[c]));
        double *kept = next;
        next = now;
        now = kept;
    }
}

static double ctc_loss(shoali_sequence_work *w, const float *scores, const uint32_t *labels,
                       uint32_t length, double scale, float *dscores)
{
    uint32_t symbols = collapse(labels, length, w->truth), states = 2 * symbols + 1;
    for (uint32_t s = 0; s < states; s++)
        w->target[s] = s % 2 == 0 ? 0 : w->truth[s / 2];
    for (uint32_t t = 0; t < length; t++)
        log_softmax(scores + (size_t)t * w->classes, w->classes, w->logs + (size_t)t * w->classes);
    run_alpha(w, length, states);
    const double *last = w->alpha + (size_t)(length - 1) * states;
    double total = states > 1 ? log_sum(last[states - 1], last[states - 2]) : last[0];
    if (dscores != NULL)
        ctc_gradient(w, length, states, total, scale / length, dscores);
    return -total / length;
}

/* ---------------------------------------------------------------- a batch */

static double frame_loss(const shoali_sequence_work *w, const float *scores, const uint32_t *labels,
                         uint32_t length, double smoothing, double scale, float *dscores)
{
    double sum;
    uint32_t correct; /* counted with the errors */
    shoali_softmax_loss(scores, labels, length, w->classes, smoothing, (float)scale, dscores, &sum,
                        &correct);
    return sum / length;
}

void shoali_sequence_loss(shoali_sequence_work *w, const float *scores, const shoali_batch *batch,
                          double smoothing, float *dscores, shoali_loss *loss)
{
    size_t all = (size_t)w->frames * w->classes;
    double scale = (double)batch->weight / batch->count;
    for (uint32_t n = 0; n < batch->count; n++) {
        uint32_t length = batch->lengths != NULL ? batch->lengths[n] : w->frames;
        const uint32_t *labels = batch->labels + (size_t)n * w->frames;
        const float *of = scores + n * all;
        float *slope = dscores != NULL ? dscores + n * all : NULL;
        count_errors(w, of, labels, length, loss);
        loss->sum += w->ctc ? ctc_loss(w, of, labels, length, scale, slope)
                            : frame_loss(w, of, labels, length, smoothing, scale, slope);
        if (slope != NULL)
            memset(slope + (size_t)length * w->classes, 0,
                   (size_t)(w->frames - length) * w->classes * sizeof *slope);
    }
}
