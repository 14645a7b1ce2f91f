/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on who is slow, in sentences. The run's own judges, as it ended (docs/status.md); of
 * a run that did not end, only what its lines say. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "report.h"
#include "shoal/watch.h"
#include "slow_words.h"

enum { SENTENCE = 512 };

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static int by_size(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Of what the other ranks compute in a step, of the newest members. */
static double median_of_others(const report_run *run, json_int_t culprit)
{
    double *values = calloc((size_t)run->rank_count + 1, sizeof *values), median = (double)NAN;
    size_t count = 0;
    const report_rank *newest = run->rank_count > 0 ? &run->ranks[run->rank_count - 1] : NULL;
    for (uint32_t i = 0; values != NULL && i < run->rank_count; i++) {
        const report_rank *rank = &run->ranks[i];
        if (rank->epoch == newest->epoch && rank->part == newest->part &&
            (json_int_t)rank->rank != culprit && rank->steps > 0)
            values[count++] = rank->sum[REPORT_COMPUTE] / (double)rank->steps * 1e-3;
    }
    if (count > 0) {
        qsort(values, count, sizeof *values, by_size);
        median = (values[(count - 1) / 2] + values[count / 2]) / 2;
    }
    free(values);
    return median;
}

static void tell_compute(const report_run *run, const json_t *slow, char *text, char *evidence)
{
    const json_int_t rank = json_integer_value(json_object_get(slow, "culprit"));
    snprintf(text, SENTENCE,
             "Rank %" PRId64 " (%.64s) is slow at computing, since step %" PRId64
             ": without it a step would be %.2f ms shorter.",
             (int64_t)rank, text_of(slow, "host"),
             (int64_t)json_integer_value(json_object_get(slow, "since_step")),
             number_of(slow, "caused_ms"));
    if (isfinite(number_of(slow, "last_share")))
        snprintf(evidence, SENTENCE,
                 "It arrived last in %.0f %% of its last steps (256 at most), and computes %.2f ms "
                 "per step; "
                 "the median of the others computes %.2f ms.",
                 100 * number_of(slow, "last_share"), number_of(slow, "compute_ms"),
                 median_of_others(run, rank));
}

static void tell_network(const json_t *slow, char *text, char *evidence)
{
    const double out = number_of(slow, "sends_bytes_s"), in = number_of(slow, "receives_bytes_s");
    snprintf(text, SENTENCE, "Rank %" PRId64 " (%.64s) has a slow link; all wait for it.",
             (int64_t)json_integer_value(json_object_get(slow, "culprit")), text_of(slow, "host"));
    if (isfinite(out) || isfinite(in))
        snprintf(evidence, SENTENCE,
                 "Its best connection sends %.4g Mbit/s and receives %.4g Mbit/s, which is less "
                 "than 0.6 of the median rank's; the table of links has all of them.",
                 out * 8e-6, in * 8e-6);
}

static void tell_other(const json_t *slow, const slow_words *w, char *text, char *evidence)
{
    snprintf(text, SENTENCE, "Rank %" PRId64 " (%.64s) %s %.2f %s; all wait for it.",
             (int64_t)json_integer_value(json_object_get(slow, "culprit")), text_of(slow, "host"),
             w->what, number_of(slow, w->key), w->unit);
    snprintf(evidence, SENTENCE, "%s", w->evidence);
}

static json_t *one_of(const report_run *run, json_t *slow)
{
    char text[SENTENCE] = "", evidence[SENTENCE] = "";
    const char *cause = text_of(slow, "cause");
    if (strcmp(cause, "compute") == 0)
        tell_compute(run, slow, text, evidence);
    else if (strcmp(cause, "network") == 0)
        tell_network(slow, text, evidence);
    else if (slow_words_of(cause) != NULL)
        tell_other(slow, slow_words_of(cause), text, evidence);
    else
        return NULL;
    json_t *one = json_copy(slow);
    answer_set_text(one, "text", text);
    answer_set_text(one, "evidence", evidence);
    return one;
}

/* What lines say of the one that caused most. */
static void tell_by_lines(const json_t *waits, char *evidence)
{
    size_t i, worst = 0;
    const json_t *caused = json_object_get(waits, "caused_ms"), *value;
    json_array_foreach(caused, i, value) if (json_number_value(value) >
                                             json_number_value(json_array_get(caused, worst)))
        worst = i;
    if (json_array_size(caused) == 0)
        return;
    snprintf(
        evidence, SENTENCE,
        "Of the %" PRId64 " steps that are in the metrics of all ranks, rank %" PRId64
        " arrived last in %.0f %%; on average it computed %.2f ms longer than the next slowest.",
        (int64_t)json_integer_value(json_object_get(waits, "steps")),
        (int64_t)json_integer_value(json_array_get(json_object_get(waits, "ranks"), worst)),
        100 * json_number_value(json_array_get(json_object_get(waits, "last_share"), worst)),
        json_number_value(json_array_get(caused, worst)));
}

static const char *no_verdict(const report_run *run, uint64_t steps)
{
    if (run->rank_count == 0 || steps == 0)
        return "No verdict: there are no steps.";
    if (run->file_count == 1)
        return "No verdict: metrics of a single rank, which waits for nobody.";
    if (!run->ended)
        return "No verdict: it is given when a run ends, and this one has not ended.";
    if (steps < SHOAL_VERDICT_STEPS)
        return "No straggler: a verdict needs 50 steps.";
    return "No straggler.";
}

json_t *report_verdict(const report_run *run, const json_t *waits)
{
    size_t i;
    json_t *slow, *verdict = json_object(), *list = json_array();
    char evidence[SENTENCE] = "";
    uint64_t steps = 0;
    json_array_foreach(run->slow, i, slow)
    {
        json_t *one = one_of(run, slow);
        if (one != NULL)
            json_array_append_new(list, one);
    }
    for (uint32_t r = 0; r < run->rank_count; r++)
        steps = run->ranks[r].steps > steps ? run->ranks[r].steps : steps;
    if (waits != NULL)
        tell_by_lines(waits, evidence);
    answer_set_text(verdict, "text", json_array_size(list) > 0 ? "" : no_verdict(run, steps));
    answer_set_text(verdict, "by_lines", evidence);
    answer_set(verdict, "slow", list);
    return verdict;
}
