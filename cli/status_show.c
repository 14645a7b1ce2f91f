/* SPDX-License-Identifier: Apache-2.0 */
#include "status_show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "cli.h"
#include "slow_words.h"
#include "table.h"

static const double WAITED_S = 1; /* shorter waits are a part of any step */

static bool is(const shoal_watch_rank_state *r, const char *state)
{
    return strcmp(r->state, state) == 0;
}

bool status_is_lost(const shoal_watch_rank_state *r)
{
    return is(r, "missing") || is(r, "unresponsive") || is(r, "dead");
}

status_wait status_waits(const shoal_watch *watch)
{
    shoal_watch_rank_state r = {.size = sizeof r};
    status_wait found = {0};
    for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++) {
        if (shoal_watch_rank(watch, i, &r) != SHOAL_OK || !is(&r, "running") || !r.busy)
            continue;
        found.ranks++;
        if (found.ranks > 1 && r.doing_s <= found.doing_s)
            continue;
        found.doing_s = r.doing_s;
        memcpy(found.operation, r.operation, sizeof found.operation);
    }
    return found;
}

status_training status_trains(const shoal_watch *watch)
{
    shoal_watch_rank_state r = {.size = sizeof r};
    status_training found = {.loss = (double)NAN, .accuracy = (double)NAN};
    double sum = 0;
    uint32_t known = 0;
    for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++) {
        if (shoal_watch_rank(watch, i, &r) != SHOAL_OK || r.step == 0)
            continue;
        if (r.step > found.step) {
            found.step = r.step;
            found.epoch = r.epoch;
            found.accuracy = r.accuracy;
        }
        if (!isfinite(r.loss) || !is(&r, "running"))
            continue;
        sum += r.loss;
        known++;
    }
    if (known > 0)
        found.loss = sum / known;
    return found;
}

void status_training_text(const status_training *t, char *out, size_t bytes)
{
    char epoch[24] = "", loss[48] = "", accuracy[48] = "";
    if (t->epoch > 0)
        snprintf(epoch, sizeof epoch, ", epoch %u", t->epoch);
    if (isfinite(t->loss))
        snprintf(loss, sizeof loss, ", loss %.4g", t->loss);
    if (isfinite(t->accuracy))
        snprintf(accuracy, sizeof accuracy, ", accuracy %.2f %%", t->accuracy);
    out[0] = '\0';
    if (t->step > 0)
        snprintf(out, bytes, "step %llu%s%s%s", (unsigned long long)t->step, epoch, loss, accuracy);
}

/* The same words as at the end of a run, of operations in the place of steps. */
static bool other_sentence(uint32_t rank, const shoal_watch_rank_state *r, char *out, size_t bytes)
{
    const slow_words *w = slow_words_of(r->cause);
    if (w == NULL)
        return false;
    const double value = strcmp(w->key, "data_ms") == 0     ? r->data_ms
                         : strcmp(w->key, "disk_ms") == 0   ? r->disk_ms
                         : strcmp(w->key, "paused_ms") == 0 ? r->paused_ms
                                                            : r->samples;
    snprintf(out, bytes, "rank %u (%s) %s %.2f%s per operation, for %.0f s; all wait for it", rank,
             r->host, w->what, value, strcmp(w->key, "samples") == 0 ? "" : " ms", r->slow_s);
    return true;
}

bool status_sentence(const status_wait *others, uint32_t rank, const shoal_watch_rank_state *r,
                     char *out, size_t bytes)
{
    double link = r->sends_bytes_s > r->receives_bytes_s ? r->sends_bytes_s : r->receives_bytes_s;
    if (is(r, "missing"))
        snprintf(out, bytes, "rank %u (%s) has not connected yet", rank, r->host);
    else if (status_is_lost(r))
        snprintf(out, bytes, "rank %u (%s) is %s: last seen %.1f s ago, %s %s", rank, r->host,
                 r->state, r->last_seen_s, r->busy ? "in" : "after",
                 r->operation[0] != '\0' ? r->operation : "the join");
    else if (is(r, "running") && !r->busy && r->doing_s > WAITED_S && others->ranks > 0 &&
             others->doing_s > WAITED_S)
        snprintf(out, bytes, "rank %u (%s) has been computing for %.1f s; %u wait%s for it in %s",
                 rank, r->host, r->doing_s, others->ranks, others->ranks == 1 ? "s" : "",
                 others->operation);
    else if (strcmp(r->cause, "compute") == 0)
        snprintf(
            out, bytes,
            "rank %u (%s) is slow at computing, for %.0f s: without it an operation would come "
            "%.1f ms sooner",
            rank, r->host, r->slow_s, r->caused_ms);
    else if (strcmp(r->cause, "network") == 0)
        snprintf(out, bytes,
                 "rank %u (%s) has a slow link, for %.0f s: %.3g Mbit/s at best; all wait for it",
                 rank, r->host, r->slow_s, link * 8e-6);
    else
        return other_sentence(rank, r, out, bytes);
    return true;
}

/* JSON has no NaN. */
static json_t *known(double value)
{
    return isfinite(value) ? answer_number(value) : json_null();
}

static json_t *training_object(const status_training *t)
{
    if (t->step == 0)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o}", "step", answer_count(t->step), "epoch",
                     answer_count(t->epoch), "loss", known(t->loss), "accuracy",
                     known(t->accuracy));
}

static json_t *rank_object(const status_wait *others, uint32_t i, const shoal_watch_rank_state *r)
{
    char text[256];
    const bool told = status_sentence(others, i, r, text, sizeof text);
    json_t *object = json_pack(
        "{s:I, s:o, s:s, s:s, s:f, s:f, s:f, s:b, s:o, s:f, s:o, s:f, s:f, s:f, s:f, s:o}", "rank",
        (json_int_t)i, "host", answer_text(r->host), "state", r->state, "cause", r->cause, "slow_s",
        r->slow_s, "caused_ms", r->caused_ms, "last_share", r->last_share, "busy", r->busy,
        "operation", answer_text(r->operation), "doing_s", r->doing_s, "ended",
        answer_count(r->ended), "last_seen_s", r->last_seen_s, "compute_ms", r->compute_ms,
        "sends_bytes_s", r->sends_bytes_s, "receives_bytes_s", r->receives_bytes_s, "text",
        answer_text(told ? text : ""));
    answer_set_number(object, "data_ms", r->data_ms);
    answer_set_number(object, "disk_ms", r->disk_ms);
    answer_set_number(object, "paused_ms", r->paused_ms);
    answer_set_number(object, "samples", r->samples);
    answer_set_count(object, "step", r->step);
    answer_set_count(object, "epoch", r->epoch);
    answer_set(object, "loss", known(r->loss));
    answer_set(object, "accuracy", known(r->accuracy));
    return object;
}

json_t *status_object(const shoal_watch *watch)
{
    const char *job;
    uint32_t by;
    double age_s;
    shoal_watch_rank_state r = {.size = sizeof r};
    json_t *ranks = json_array();
    const status_wait others = status_waits(watch);
    for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++)
        if (shoal_watch_rank(watch, i, &r) == SHOAL_OK)
            json_array_append_new(ranks, rank_object(&others, i, &r));
    shoal_watch_job(watch, &job, &by, &age_s);
    const status_training trained = status_trains(watch);
    return json_pack("{s:o, s:b, s:I, s:f, s:o, s:o, s:o}", "job", answer_text(job), "answers",
                     shoal_watch_ranks(watch) > 0, "answered_by", (json_int_t)by, "age_s", age_s,
                     "ranks", ranks, "notes", answer_text(shoal_watch_notes(watch)), "training",
                     training_object(&trained));
}

static void add_rate(table *t, double bytes_per_s)
{
    if (bytes_per_s > 0)
        table_add(t, "%.4g", bytes_per_s * 8e-6);
    else
        table_add(t, "-");
}

static void print_ranks(const shoal_watch *watch)
{
    static const table_column columns[] = {{"rank", TABLE_RIGHT},
                                           {"host", TABLE_CUT},
                                           {"state", TABLE_PLAIN},
                                           {"seen s", TABLE_RIGHT | TABLE_SPARE},
                                           {"ended", TABLE_RIGHT},
                                           {"compute ms", TABLE_RIGHT},
                                           {"last %", TABLE_RIGHT | TABLE_SPARE},
                                           {"sends Mb", TABLE_RIGHT | TABLE_SPARE},
                                           {"receive Mb", TABLE_RIGHT | TABLE_SPARE},
                                           {"now", TABLE_CUT}};
    shoal_watch_rank_state r = {.size = sizeof r};
    table *t = table_new(2, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++) {
        if (shoal_watch_rank(watch, i, &r) != SHOAL_OK)
            break;
        table_row(t);
        table_add(t, "%u", i);
        table_add(t, "%s", r.host);
        table_add(t, "%s", r.state);
        table_add(t, "%.1f", r.last_seen_s);
        table_add(t, "%llu", (unsigned long long)r.ended);
        table_add(t, "%.2f", r.compute_ms);
        table_add(t, "%.0f", 100 * r.last_share);
        add_rate(t, r.sends_bytes_s);
        add_rate(t, r.receives_bytes_s);
        table_add(t, "%s %.1f s%s%s", r.busy ? "in" : "computing", r.doing_s, r.busy ? ": " : "",
                  r.busy ? r.operation : "");
    }
    table_print(t, stdout);
}

void status_table(const shoal_watch *watch)
{
    const char *job;
    uint32_t by;
    double age_s;
    char text[256];
    shoal_watch_rank_state r = {.size = sizeof r};
    const status_wait others = status_waits(watch);
    shoal_watch_job(watch, &job, &by, &age_s);
    printf("job %s, %u ranks, up %.0f s (rank %u answers)\n", job, shoal_watch_ranks(watch), age_s,
           by);
    const status_training trained = status_trains(watch);
    status_training_text(&trained, text, sizeof text);
    if (text[0] != '\0')
        printf("  %s\n", text);
    print_ranks(watch);
    for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++)
        if (shoal_watch_rank(watch, i, &r) == SHOAL_OK &&
            status_sentence(&others, i, &r, text, sizeof text))
            printf("  %s\n", text);
    for (const char *note = shoal_watch_notes(watch); *note != '\0';) {
        size_t length = strcspn(note, "\n");
        printf("  %.*s\n", (int)length, note);
        note += length + (note[length] == '\n');
    }
    fflush(stdout);
}

/* The first sentence about a rank of it. */
static void add_job(table *t, const shoal_watch *watch, uint32_t number)
{
    const char *job;
    uint32_t by;
    double age_s;
    char text[256] = "all ranks are there";
    shoal_watch_rank_state r = {.size = sizeof r};
    const status_wait others = status_waits(watch);
    const uint32_t ranks = shoal_watch_ranks(watch);
    shoal_watch_job(watch, &job, &by, &age_s);
    for (uint32_t i = 0; i < ranks; i++)
        if (shoal_watch_rank(watch, i, &r) == SHOAL_OK &&
            status_sentence(&others, i, &r, text, sizeof text))
            break;
    table_row(t);
    table_add(t, "%u", number);
    table_add(t, "%s", job);
    if (ranks == 0) {
        table_add(t, "-");
        table_add(t, "-");
        table_add(t, "no rank answers: are they stopped?");
        return;
    }
    table_add(t, "%u", ranks);
    table_add(t, "%.0f", age_s);
    table_add(t, "%s", text);
}

void status_list(const shoal_watch *first)
{
    static const table_column columns[] = {{"#", TABLE_RIGHT},
                                           {"job", TABLE_CUT},
                                           {"ranks", TABLE_RIGHT},
                                           {"up s", TABLE_RIGHT},
                                           {"what is wrong", TABLE_TEXT}};
    uint32_t number = 1;
    table *t = table_new(2, columns, sizeof columns / sizeof *columns);
    for (const shoal_watch *watch = first; watch != NULL; watch = shoal_watch_next(watch))
        add_job(t, watch, number++);
    table_print(t, stdout);
    printf("`shoal status --job NAME` or its number shows the ranks of one.\n");
    fflush(stdout);
}

int status_code(const shoal_watch *watch)
{
    shoal_watch_rank_state r = {.size = sizeof r};
    if (shoal_watch_ranks(watch) == 0)
        return CLI_DEADLINE;
    for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++)
        if (shoal_watch_rank(watch, i, &r) == SHOAL_OK && status_is_lost(&r))
            return CLI_PEER_LOST;
    return CLI_OK;
}
