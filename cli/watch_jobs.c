/* SPDX-License-Identifier: Apache-2.0 */
#include "watch_jobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "status_show.h"
#include "watch_frame.h"
#include "watch_history.h"

enum {
    JOBS_MOST = 64,
    OVER_MOST = 8,  /* that are kept when they have ended */
    GONE_MS = 2000, /* ranks that meet anew are nowhere for a moment */
    RATES_MOST = 300,
    LOSSES_MOST = 400, /* then every second one goes */
    WAITED_FOR_MOST = 4
};

/* Shorter waits are a part of any step. */
static const double WAITED_S = 1;

typedef struct job_rate {
    int64_t at_ms;
    double least, median, most; /* operations/s of the ranks that run; median < 0: not known */
} job_rate;

typedef struct job {
    unsigned id, nth; /* nth: of those that have its name, in the order of the list */
    char name[64];
    json_t *told; /* what it said last */
    watch_history history;
    job_rate rate[RATES_MOST]; /* the oldest first */
    size_t rates;
    status_training loss[LOSSES_MOST]; /* of the whole time that it was looked at */
    size_t losses;
    unsigned loss_every, loss_turn; /* of so many that come one is kept; those since the last */
    int64_t first_ms, answered_ms, gone_ms; /* gone_ms: no socket since; 0: there is one */
    bool found, answered;                   /* in the last round */
} job;

struct watch_jobs {
    job *job[JOBS_MOST];
    size_t count;
    unsigned ids;
    int64_t began_ms;
};

watch_jobs *watch_jobs_new(void)
{
    return calloc(1, sizeof(watch_jobs));
}

static void drop(watch_jobs *jobs, size_t i)
{
    json_decref(jobs->job[i]->told);
    watch_history_free(&jobs->job[i]->history);
    free(jobs->job[i]);
    jobs->count--;
    memmove(&jobs->job[i], &jobs->job[i + 1], (jobs->count - i) * sizeof jobs->job[0]);
}

void watch_jobs_free(watch_jobs *jobs)
{
    while (jobs != NULL && jobs->count > 0)
        drop(jobs, jobs->count - 1);
    free(jobs);
}

/* ------------------------------------------------------------------ which job it is */

static bool is_over(const job *j, int64_t now_ms)
{
    return j->gone_ms != 0 && now_ms - j->gone_ms >= GONE_MS;
}

/* One that has ended is another one, even if it has the same name. */
static job *find(const watch_jobs *jobs, const char *name, unsigned nth, int64_t now_ms)
{
    for (size_t i = 0; i < jobs->count; i++)
        if (jobs->job[i]->nth == nth && strcmp(jobs->job[i]->name, name) == 0 &&
            !is_over(jobs->job[i], now_ms))
            return jobs->job[i];
    return NULL;
}

/* NULL: no memory, or too many. */
static job *add(watch_jobs *jobs, const char *name, unsigned nth, int64_t now_ms)
{
    job *j = jobs->count < JOBS_MOST ? calloc(1, sizeof *j) : NULL;
    if (j == NULL)
        return NULL;
    j->id = ++jobs->ids;
    j->nth = nth;
    j->first_ms = now_ms;
    snprintf(j->name, sizeof j->name, "%s", name);
    jobs->job[jobs->count++] = j;
    return j;
}

/* Which of those with its name a job of the list is. */
static unsigned nth_of(const shoal_watch *first, const shoal_watch *watch, const char *name)
{
    unsigned nth = 0;
    uint32_t by;
    double age_s;
    for (; first != watch; first = shoal_watch_next(first)) {
        const char *other;
        shoal_watch_job(first, &other, &by, &age_s);
        nth += strcmp(other, name) == 0;
    }
    return nth;
}

/* While ranks meet anew, those that have are one job, and those that have not yet are another one
 * of the same name. */
static bool is_there(const job *j, int64_t now_ms)
{
    return j->nth == 0 || (j->gone_ms != 0 ? j->gone_ms : now_ms) - j->first_ms >= GONE_MS;
}

static void forget_old(watch_jobs *jobs, int64_t now_ms)
{
    size_t over = 0;
    for (size_t i = jobs->count; i > 0; i--) {
        const job *j = jobs->job[i - 1];
        if (is_over(j, now_ms) && (!is_there(j, now_ms) || ++over > OVER_MOST))
            drop(jobs, i - 1);
    }
}

/* ------------------------------------------------------------------ what it said */

static void add_rate(job *j, const shoal_watch *watch, int64_t now_ms)
{
    job_rate at = {.at_ms = now_ms, .median = watch_history_pace(&j->history, watch)};
    shoal_watch_rank_state r = {.size = sizeof r};
    at.least = at.most = at.median;
    for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++) {
        const double rate = watch_history_rate(&j->history, i);
        if (shoal_watch_rank(watch, i, &r) != SHOAL_OK || strcmp(r.state, "running") != 0)
            continue;
        at.least = rate < at.least ? rate : at.least;
        at.most = rate > at.most ? rate : at.most;
    }
    if (j->rates == RATES_MOST)
        memmove(j->rate, j->rate + 1, --j->rates * sizeof j->rate[0]);
    j->rate[j->rates++] = at;
}

static void thin_losses(job *j)
{
    size_t left = 0;
    for (size_t i = 0; i < j->losses; i += 2)
        j->loss[left++] = j->loss[i];
    j->losses = left;
    j->loss_every *= 2;
}

/* A job that goes on from an earlier step makes the later ones again. */
static void add_loss(job *j, const status_training *at)
{
    if (at->step == 0 || !isfinite(at->loss))
        return;
    while (j->losses > 0 && j->loss[j->losses - 1].step > at->step)
        j->losses--;
    if (j->losses > 0 && j->loss[j->losses - 1].step == at->step)
        return;
    if (j->loss_every == 0 || j->losses == 0)
        j->loss_every = 1;
    if (++j->loss_turn < j->loss_every)
        return;
    j->loss_turn = 0;
    if (j->losses == LOSSES_MOST)
        thin_losses(j);
    j->loss[j->losses++] = *at;
}

/* Who holds up others: `mean`, by the verdict on the last windows; `now`, because it is lost, or
 * computes while they are in an operation. One more than are named, as nobody waits for himself. */
typedef struct culprits {
    uint32_t mean[WAITED_FOR_MOST + 1], now[WAITED_FOR_MOST + 1];
    unsigned means, nows;
} culprits;

static culprits look_for_culprits(const shoal_watch *watch)
{
    culprits c = {.means = 0};
    shoal_watch_rank_state r = {.size = sizeof r};
    for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++) {
        if (shoal_watch_rank(watch, i, &r) != SHOAL_OK)
            break;
        const bool late = !r.busy && strcmp(r.state, "running") == 0 && r.doing_s > WAITED_S;
        if (r.cause[0] != '\0' && c.means <= WAITED_FOR_MOST)
            c.mean[c.means++] = i;
        else if ((late || status_is_lost(&r)) && c.nows <= WAITED_FOR_MOST)
            c.now[c.nows++] = i;
    }
    return c;
}

static void name_others(json_t *list, const uint32_t *ranks, unsigned count, uint32_t rank)
{
    for (unsigned i = 0; i < count; i++)
        if (ranks[i] != rank && json_array_size(list) < WAITED_FOR_MOST)
            json_array_append_new(list, json_integer(ranks[i]));
}

static json_t *waits_for(const culprits *c, uint32_t rank, const shoal_watch_rank_state *r)
{
    json_t *list = json_array();
    if (!r->busy || strcmp(r->state, "running") != 0)
        return list;
    name_others(list, c->mean, c->means, rank);
    if (r->doing_s > WAITED_S)
        name_others(list, c->now, c->nows, rank);
    return list;
}

static bool keep(job *j, const shoal_watch *watch, int64_t now_ms)
{
    char text[256];
    size_t i;
    json_t *rank;
    shoal_watch_rank_state r = {.size = sizeof r};
    json_t *told = status_object(watch);
    if (told == NULL || !watch_history_add(&j->history, watch, now_ms)) {
        json_decref(told);
        return false;
    }
    const status_training trained = status_trains(watch);
    add_rate(j, watch, now_ms);
    add_loss(j, &trained);
    const culprits others = look_for_culprits(watch);
    json_array_foreach(json_object_get(told, "ranks"), i, rank)
    {
        if (shoal_watch_rank(watch, (uint32_t)i, &r) != SHOAL_OK)
            break;
        const double rate = watch_history_rate(&j->history, (uint32_t)i);
        answer_set(rank, "rate", rate < 0 ? json_null() : answer_number(rate));
        answer_set(rank, "waits_for", waits_for(&others, (uint32_t)i, &r));
    }
    watch_frame_states(watch, text, sizeof text);
    answer_set_text(told, "count", text);
    answer_set_text(told, "verdict", watch_frame_verdict(watch));
    status_training_text(&trained, text, sizeof text);
    answer_set_text(told, "far", text);
    json_decref(j->told);
    j->told = told;
    j->answered_ms = now_ms;
    j->answered = true;
    return true;
}

bool watch_jobs_take(watch_jobs *jobs, const shoal_watch *first, int64_t now_ms)
{
    bool kept = true;
    jobs->began_ms = jobs->began_ms != 0 ? jobs->began_ms : now_ms;
    for (size_t i = 0; i < jobs->count; i++)
        jobs->job[i]->found = jobs->job[i]->answered = false;
    for (const shoal_watch *watch = first; watch != NULL; watch = shoal_watch_next(watch)) {
        const char *name;
        uint32_t by;
        double age_s;
        shoal_watch_job(watch, &name, &by, &age_s);
        const unsigned nth = nth_of(first, watch, name);
        job *j = find(jobs, name, nth, now_ms);
        j = j != NULL ? j : add(jobs, name, nth, now_ms);
        if (j == NULL)
            continue;
        j->found = true;
        j->gone_ms = 0;
        if (shoal_watch_ranks(watch) > 0)
            kept = keep(j, watch, now_ms) && kept;
    }
    for (size_t i = 0; i < jobs->count; i++)
        if (!jobs->job[i]->found && jobs->job[i]->gone_ms == 0)
            jobs->job[i]->gone_ms = now_ms;
    forget_old(jobs, now_ms);
    return kept;
}

void watch_jobs_silent(watch_jobs *jobs, int64_t now_ms)
{
    for (size_t i = 0; i < jobs->count; i++) {
        jobs->job[i]->answered = false;
        if (!is_over(jobs->job[i], now_ms))
            jobs->job[i]->gone_ms = 0;
    }
}

/* ------------------------------------------------------------------ what is shown */

static double rounded(double value)
{
    return (double)(int64_t)(value * 100 + 0.5) / 100;
}

/* Seconds count from when the page began. */
static json_t *rates(const watch_jobs *jobs, const job *j)
{
    json_t *list = json_array();
    for (size_t i = 0; i < j->rates; i++) {
        const job_rate *at = &j->rate[i];
        const double numbers[] = {(double)((at->at_ms - jobs->began_ms) / 100) / 10,
                                  rounded(at->least), rounded(at->median), rounded(at->most)};
        if (at->median >= 0)
            json_array_append_new(list, answer_numbers(numbers, 4));
    }
    return list;
}

static json_t *losses(const job *j)
{
    json_t *list = json_array();
    for (size_t i = 0; i < j->losses; i++) {
        const double numbers[] = {(double)j->loss[i].step, j->loss[i].loss};
        json_array_append_new(list, answer_numbers(numbers, 2));
    }
    return list;
}

static const char *state_of(const job *j, int64_t now_ms)
{
    if (is_over(j, now_ms))
        return "over";
    if (j->gone_ms != 0)
        return "meeting";
    return j->answered || (j->answered_ms != 0 && now_ms - j->answered_ms <= GONE_MS) ? "running"
                                                                                      : "silent";
}

static json_t *object(const watch_jobs *jobs, const job *j, int64_t now_ms)
{
    json_t *answer = j->told != NULL ? json_copy(j->told) : json_object();
    json_t *changes = json_array();
    const double pace = j->rates > 0 ? j->rate[j->rates - 1].median : -1;
    for (uint32_t i = 0; i < j->history.changes; i++)
        json_array_append_new(changes, answer_text(j->history.change[i]));
    answer_set_text(answer, "job", j->name);
    answer_set_count(answer, "id", j->id);
    answer_set_text(answer, "state", state_of(j, now_ms));
    answer_set(answer, "for_s",
               j->answered_ms == 0 ? json_null()
                                   : answer_number((double)(now_ms - j->answered_ms) * 1e-3));
    answer_set(answer, "pace", pace < 0 ? json_null() : answer_number(pace));
    answer_set(answer, "changes", changes);
    answer_set(answer, "rates", rates(jobs, j));
    answer_set(answer, "losses", losses(j));
    return answer;
}

json_t *watch_jobs_object(const watch_jobs *jobs, int64_t now_ms)
{
    json_t *list = json_array();
    for (int over = 0; over <= 1; over++)
        for (size_t i = 0; i < jobs->count; i++)
            if (is_over(jobs->job[i], now_ms) == (over == 1) && is_there(jobs->job[i], now_ms))
                json_array_append_new(list, object(jobs, jobs->job[i], now_ms));
    return json_pack("{s:o}", "jobs", list);
}
