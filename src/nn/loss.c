/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax cross-entropy, in double per sample: there are few classes, and losses are compared to
 * 1e-5. Smoothed labels (Szegedy et al., CVPR 2016) are 1 - s of the label and s of all classes
 * alike.
 *
 * The hinge loss is Crammer and Singer's (JMLR 2001): of two scores that start alike it is the
 * support vector machine whose weights are the difference of theirs. */
#include <math.h>

#include "nn/exec.h"

static double row_loss(const float *scores, uint32_t label, uint32_t classes, double smoothing,
                       double scale, float *dscores)
{
    double most = scores[0], sum = 0, mean = 0;
    const double label_has = 1 - smoothing, each_has = smoothing / classes;
    for (uint32_t c = 1; c < classes; c++)
        most = scores[c] > most ? scores[c] : most;
    for (uint32_t c = 0; c < classes; c++)
        sum += exp(scores[c] - most);
    for (uint32_t c = 0; smoothing > 0 && c < classes; c++)
        mean += each_has * scores[c];
    for (uint32_t c = 0; dscores != NULL && c < classes; c++)
        dscores[c] = (float)(scale * (exp(scores[c] - most) / sum -
                                      (c == label ? label_has + each_has : each_has)));
    return log(sum) + most - (label_has * scores[label] + mean);
}

static uint32_t winner(const float *scores, uint32_t classes)
{
    uint32_t best = 0;
    for (uint32_t c = 1; c < classes; c++)
        if (scores[c] > scores[best])
            best = c;
    return best;
}

void shoali_softmax_loss(const float *scores, const uint32_t *labels, uint32_t count,
                         uint32_t classes, double smoothing, float weight, float *dscores,
                         double *sum_out, uint32_t *correct_out)
{
    double sum = 0, scale = (double)weight / count;
    uint32_t correct = 0;
    for (uint32_t n = 0; n < count; n++) {
        size_t at = (size_t)n * classes;
        sum += row_loss(scores + at, labels[n], classes, smoothing, scale,
                        dscores != NULL ? dscores + at : NULL);
        correct += winner(scores + at, classes) == labels[n];
    }
    *sum_out = sum;
    *correct_out = correct;
}

static double margin_loss(const float *scores, uint32_t label, uint32_t classes, double scale,
                          float *dscores)
{
    uint32_t rival = label == 0 ? 1 : 0;
    for (uint32_t c = 0; c < classes; c++)
        if (c != label && scores[c] > scores[rival])
            rival = c;
    const double margin = (double)scores[label] - (double)scores[rival];
    for (uint32_t c = 0; dscores != NULL && c < classes; c++)
        dscores[c] = isnan(margin) ? NAN : 0.0f;
    if (margin >= 1)
        return 0;
    if (dscores != NULL && margin < 1) {
        dscores[label] = (float)-scale;
        dscores[rival] = (float)scale;
    }
    return 1 - margin;
}

void shoali_hinge_loss(const float *scores, const uint32_t *labels, uint32_t count,
                       uint32_t classes, double smoothing, float weight, float *dscores,
                       double *sum_out, uint32_t *correct_out)
{
    double sum = 0, scale = (double)weight / count;
    uint32_t correct = 0;
    (void)smoothing;
    for (uint32_t n = 0; n < count; n++) {
        const size_t at = (size_t)n * classes;
        sum += margin_loss(scores + at, labels[n], classes, scale,
                           dscores != NULL ? dscores + at : NULL);
        correct += winner(scores + at, classes) == labels[n];
    }
    *sum_out = sum;
    *correct_out = correct;
}
