/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for whom, by the lines of all ranks. Steps that all make together begin together, so
 * who computes longest arrives last, and the others wait for it by as much as they were done
 * sooner, at most as long as they waited at all. What is left of a wait is the exchange itself. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "report.h"

enum { RANKS_MOST = 1024, SHOWN_MOST = 64 };

typedef struct waits {
    const report_rank *rank; /* [count] of one membership */
    uint32_t count;
    uint64_t steps;
    double *for_us;               /* [count][count] who, for whom */
    double *exchange_us, *caused; /* [count] */
    uint64_t *last;               /* [count] steps in which it arrived last */
} waits;

/* The membership that made the most steps. */
static waits choose(const report_run *run)
{
    waits best = {0};
    uint64_t most = 0;
    for (uint32_t i = 0, end; i < run->rank_count; i = end) {
        uint64_t steps = 0;
        for (end = i; end < run->rank_count && run->ranks[end].epoch == run->ranks[i].epoch &&
                      run->ranks[end].part == run->ranks[i].part;
             end++)
            steps += run->ranks[end].steps;
        if (end - i >= 2 && steps > most) {
            most = steps;
            best = (waits){.rank = &run->ranks[i], .count = end - i};
        }
    }
    return best;
}

static bool make_room(waits *w)
{
    const size_t n = w->count;
    w->for_us = calloc(n * n + 2 * n, sizeof *w->for_us);
    w->last = calloc(n, sizeof *w->last);
    if (w->for_us == NULL || w->last == NULL)
        return false;
    w->exchange_us = w->for_us + n * n;
    w->caused = w->exchange_us + n;
    return true;
}

/* One step, which is in the same slot of all rings. */
static void add_step(waits *w, uint32_t slot)
{
    uint32_t last = 0;
    float second = 0;
    const uint32_t turn = w->rank[0].ring.turn[slot];
    for (uint32_t i = 0; i < w->count; i++)
        if (w->rank[i].ring.turn[slot] != turn || turn == 0)
            return;
    for (uint32_t i = 1; i < w->count; i++)
        if (w->rank[i].ring.compute_us[slot] > w->rank[last].ring.compute_us[slot])
            last = i;
    const float most = w->rank[last].ring.compute_us[slot];
    for (uint32_t i = 0; i < w->count; i++) {
        const report_ring *ring = &w->rank[i].ring;
        const double gap = (double)(most - ring->compute_us[slot]),
                     all = (double)ring->wait_us[slot];
        const double for_it = i == last ? 0 : fmax(0, fmin(gap, all));
        w->for_us[(size_t)i * w->count + last] += for_it;
        w->exchange_us[i] += fmax(0, all - for_it);
        if (i != last)
            second = fmaxf(second, ring->compute_us[slot]);
    }
    w->caused[last] += (double)(most - second);
    w->last[last]++;
    w->steps++;
}

/* Those for whom most was waited come first where not all can be shown; then in their order. */
static uint32_t choose_shown(const waits *w, uint32_t *shown)
{
    uint32_t count = 0;
    if (w->count <= SHOWN_MOST) {
        for (; count < w->count; count++)
            shown[count] = count;
        return count;
    }
    bool *taken = calloc(w->count, sizeof *taken);
    for (; taken != NULL && count < SHOWN_MOST; count++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t i = 0; i < w->count; i++)
            if (!taken[i] && (best == UINT32_MAX || w->caused[i] > w->caused[best]))
                best = i;
        taken[best] = true;
        shown[count] = best;
    }
    free(taken);
    return count;
}

static json_t *per_step(const double *values, const uint32_t *shown, uint32_t count, double scale)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(list, answer_number(values[shown[i]] * scale));
    return list;
}

static json_t *tell(const waits *w)
{
    uint32_t shown[SHOWN_MOST];
    const uint32_t count = choose_shown(w, shown);
    const double ms = 1e-3 / (double)w->steps;
    json_t *all = json_object(), *ranks = json_array(), *rows = json_array(), *last = json_array();
    for (uint32_t i = 0; i < count; i++) {
        json_array_append_new(ranks, json_integer(w->rank[shown[i]].rank));
        json_array_append_new(rows,
                              per_step(w->for_us + (size_t)shown[i] * w->count, shown, count, ms));
        json_array_append_new(last, answer_number((double)w->last[shown[i]] / (double)w->steps));
    }
    answer_set_count(all, "members_epoch", w->rank[0].epoch);
    answer_set_count(all, "steps", w->steps);
    answer_set_count(all, "ranks_left_out", w->count - count);
    answer_set(all, "ranks", ranks);
    answer_set(all, "for_ms", rows);
    answer_set(all, "exchange_ms", per_step(w->exchange_us, shown, count, ms));
    answer_set(all, "caused_ms", per_step(w->caused, shown, count, ms));
    answer_set(all, "last_share", last);
    return all;
}

static bool is_together(const report_run *run)
{
    const char *sync = json_string_value(json_object_get(run->look, "sync"));
    return run->together_known ? run->together
                               : sync != NULL && strncmp(sync, "all_reduce", 10) == 0;
}

json_t *report_waits(report_run *run)
{
    json_t *all = NULL;
    waits w = choose(run);
    if (w.count == 0)
        return NULL;
    if (!is_together(run)) {
        report_note(run, "who waits for whom is not known of a protocol whose workers do not step "
                         "together");
        return NULL;
    }
    if (w.count > RANKS_MOST) {
        report_note(run, "who waits for whom is not told of more than %d ranks", RANKS_MOST);
        return NULL;
    }
    if (make_room(&w))
        for (uint32_t slot = 0; slot < w.rank[0].ring.size; slot++)
            add_step(&w, slot);
    if (w.steps > 0)
        all = tell(&w);
    else
        report_note(run, "who waits for whom is not known: no step is in the metrics of all ranks");
    free(w.for_us);
    free(w.last);
    return all;
}
