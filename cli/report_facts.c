/* SPDX-License-Identifier: Apache-2.0 */
/* What was read of a run, as one object: the only source of pages and of --json. */
#include <math.h>
#include <string.h>

#include "answer.h"
#include "report.h"

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static double mean(const report_rank *rank, report_key key)
{
    return rank->steps > 0 ? rank->sum[key] / (double)rank->steps : (double)NAN;
}

/* Computing may not be told apart. */
static double known(const report_rank *rank, report_key key)
{
    const bool part = key == REPORT_DATA || key == REPORT_FORWARD || key == REPORT_BACKWARD;
    return part && !(rank->sum[REPORT_BACKWARD] > 0) ? (double)NAN : mean(rank, key);
}

static json_t *points_of(const report_series *series)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < REPORT_POINTS; i++) {
        const report_bucket *b = &series->bucket[i];
        if (b->weight <= 0)
            continue;
        json_t *one = json_object();
        answer_set_count(one, "first", b->first);
        answer_set_count(one, "last", b->last);
        answer_set_number(one, "mean", b->sum / b->weight);
        answer_set_number(one, "low", b->low);
        answer_set_number(one, "high", b->high);
        answer_set_number(one, "time_s", b->time_s);
        json_array_append_new(list, one);
    }
    return list;
}

/* ---------------------------------------------------------------- ranks */

/* As its peers know it, or as run.json says of rank 0. */
static const char *host_of(const report_run *run, const report_rank *rank)
{
    size_t i;
    const json_t *link;
    json_array_foreach(run->links, i, link)
    {
        if (json_integer_value(json_object_get(link, "link")) == (json_int_t)rank->rank &&
            report_is_of(link, rank))
            return text_of(link, "host");
    }
    return rank->rank == 0 && rank->epoch == 0 && rank->part == 0
               ? text_of(json_object_get(run->run, "cluster"), "rank_0")
               : "";
}

static json_t *rank_of(const report_run *run, const report_rank *rank)
{
    static const struct part {
        const char *name;
        report_key key;
    } parts[] = {{"step_ms", REPORT_STEP_US},      {"compute_ms", REPORT_COMPUTE},
                 {"data_ms", REPORT_DATA},         {"forward_ms", REPORT_FORWARD},
                 {"backward_ms", REPORT_BACKWARD}, {"update_ms", REPORT_UPDATE},
                 {"wait_ms", REPORT_WAIT},         {"comm_ms", REPORT_COMM},
                 {"encode_ms", REPORT_ENCODE},     {"decode_ms", REPORT_DECODE}};
    json_t *one = json_object();
    answer_set_count(one, "rank", rank->rank);
    answer_set_count(one, "part", rank->part);
    answer_set_count(one, "members_epoch", rank->epoch);
    answer_set_text(one, "host", host_of(run, rank));
    answer_set_text(one, "file", rank->file->name);
    answer_set_count(one, "steps", rank->steps);
    answer_set_count(one, "first_step", rank->first_step);
    answer_set_count(one, "last_step", rank->last_step);
    answer_set_count(one, "skipped", rank->skipped);
    answer_set_count(one, "not_finite", rank->not_finite);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        answer_set_number(one, parts[i].name, known(rank, parts[i].key) * 1e-3);
    answer_set_number(one, "other_ms",
                      fmax(0, (mean(rank, REPORT_STEP_US) - mean(rank, REPORT_COMPUTE) -
                               mean(rank, REPORT_UPDATE) - mean(rank, REPORT_WAIT)) *
                                  1e-3));
    answer_set_number(one, "step_ms_most", rank->step_us_most * 1e-3);
    answer_set_number(one, "sent_bytes", rank->sum[REPORT_SENT]);
    answer_set_number(one, "received_bytes", rank->sum[REPORT_RECEIVED]);
    return one;
}

static json_t *ranks_of(const report_run *run)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < run->rank_count; i++)
        json_array_append_new(list, rank_of(run, &run->ranks[i]));
    return list;
}

/* ---------------------------------------------------------------- all of them */

static json_t *totals_of(const report_run *run)
{
    double sum[REPORT_KEYS] = {0};
    uint64_t lines = 0, last = 0, skipped = 0;
    json_t *one = json_object();
    for (uint32_t i = 0; i < run->rank_count; i++) {
        const report_rank *rank = &run->ranks[i];
        for (report_key key = 0; key < REPORT_KEYS; key++)
            sum[key] += rank->sum[key];
        lines += rank->steps;
        skipped += rank->skipped;
        last = rank->last_step > last ? rank->last_step : last;
    }
    const double steps = lines > 0 ? (double)lines : (double)NAN;
    const double seconds = run->time_s > 0 ? run->time_s : (double)NAN;
    answer_set_count(one, "lines", lines);
    answer_set_count(one, "last_step", last);
    answer_set_count(one, "skipped", skipped);
    answer_set_number(one, "seconds", seconds);
    if (!(sum[REPORT_SAMPLES] > 0)) /* of a simulation of times alone */
        sum[REPORT_SAMPLES] = (double)NAN;
    answer_set_number(one, "samples", sum[REPORT_SAMPLES]);
    answer_set_number(one, "samples_per_s", sum[REPORT_SAMPLES] / seconds);
    answer_set_number(one, "step_ms", sum[REPORT_STEP_US] / steps * 1e-3);
    answer_set_number(one, "compute_ms", sum[REPORT_COMPUTE] / steps * 1e-3);
    answer_set_number(one, "wait_ms", sum[REPORT_WAIT] / steps * 1e-3);
    answer_set_number(one, "update_ms", sum[REPORT_UPDATE] / steps * 1e-3);
    answer_set_number(one, "other_ms",
                      fmax(0, (sum[REPORT_STEP_US] - sum[REPORT_COMPUTE] - sum[REPORT_WAIT] -
                               sum[REPORT_UPDATE]) /
                                  steps * 1e-3));
    answer_set_number(one, "wait_share", sum[REPORT_WAIT] / sum[REPORT_STEP_US]);
    answer_set_number(one, "sent_bytes", sum[REPORT_SENT]);
    answer_set_number(one, "sent_bytes_per_step", sum[REPORT_SENT] / steps);
    answer_set_number(one, "received_bytes", sum[REPORT_RECEIVED]);
    answer_set_number(one, "received_bytes_per_step", sum[REPORT_RECEIVED] / steps);
    return one;
}

static double sum_of(const json_t *list)
{
    double sum = 0;
    size_t i;
    const json_t *value;
    json_array_foreach(list, i, value) sum += json_number_value(value);
    return sum;
}

/* Of the time that is waited, what is the exchange itself, and what is waiting for slower ranks. */
static void share_waits(json_t *totals, const json_t *waits)
{
    double others = 0;
    size_t i;
    const json_t *row, *share = json_object_get(totals, "wait_share");
    const double exchange = sum_of(json_object_get(waits, "exchange_ms"));
    json_array_foreach(json_object_get(waits, "for_ms"), i, row) others += sum_of(row);
    const double part = waits != NULL && json_is_number(share) ? exchange / (exchange + others)
                                                               : (double)NAN;
    answer_set_number(totals, "exchange_share", json_number_value(share) * part);
    answer_set_number(totals, "others_share", json_number_value(share) * (1 - part));
}

static json_t *codecs_of(const report_run *run)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < run->codec_count; i++) {
        const report_codec *c = &run->codecs[i];
        if (c->steps == 0)
            continue;
        json_t *one = json_object();
        answer_set_text(one, "codec", c->name);
        answer_set_count(one, "from_step", c->from_step);
        answer_set_count(one, "lines", c->steps);
        answer_set_number(one, "sent_bytes", c->sent);
        answer_set_number(one, "dense_bytes", c->dense);
        answer_set_number(one, "times_less", c->sent > 0 ? c->dense / c->sent : (double)NAN);
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *link_of(const json_t *line)
{
    json_t *one = json_object();
    const double acked = json_number_value(json_object_get(line, "acked_bytes")),
                 busy_us = json_number_value(json_object_get(line, "busy_us")),
                 most = json_number_value(json_object_get(line, "line_bytes_s"));
    double rate = busy_us >= 100000 ? acked / busy_us * 1e6 : (double)NAN; /* docs/status.md */
    rate = most > 0 && rate > most ? most : rate;
    json_object_set(one, "from", json_object_get(line, "from"));
    json_object_set(one, "to", json_object_get(line, "link"));
    json_object_set(one, "members_epoch", json_object_get(line, "members_epoch"));
    answer_set_text(one, "to_host", text_of(line, "host"));
    answer_set_text(one, "transport", text_of(line, "transport"));
    answer_set_number(one, "bytes_s", rate);
    answer_set_number(one, "line_bytes_s", most > 0 ? most : (double)NAN);
    answer_set_number(one, "share", most > 0 ? rate / most : (double)NAN);
    answer_set_number(one, "sent_bytes", json_number_value(json_object_get(line, "sent_bytes")));
    answer_set_number(one, "received_bytes",
                      json_number_value(json_object_get(line, "received_bytes")));
    return one;
}

static json_t *links_of(const report_run *run)
{
    size_t i;
    const json_t *line;
    json_t *list = json_array();
    json_array_foreach(run->links, i, line) json_array_append_new(list, link_of(line));
    return list;
}

static json_t *epochs_of(const report_run *run)
{
    size_t i;
    json_t *line;
    json_array_foreach(run->epochs, i, line)
    {
        const double step = json_number_value(json_object_get(line, "step"));
        const double time_s = step >= 0 && step < 1e15
                                  ? report_series_time(&run->step_ms, (uint64_t)step)
                                  : (double)NAN;
        answer_set_number(line, "time_s", time_s);
    }
    return json_incref(run->epochs);
}

/* ---------------------------------------------------------------- what is not there */

static void note_missing(report_run *run, const json_t *totals, const json_t *codecs)
{
    const json_int_t lines = json_integer_value(json_object_get(totals, "lines"));
    const double sent = json_number_value(json_object_get(totals, "sent_bytes"));
    if (lines == 0)
        report_note(run, "no step is in the metrics: there is nothing to draw");
    if (report_is_running(run))
        report_note(run, "the run is going on (%s): this is how far it is",
                    text_of(run->look, "text"));
    else if (!run->ended && lines > 0)
        report_note(run, "the run has no end: it was stopped, or ended by force");
    if (json_is_true(json_object_get(run->look, "simulated")))
        return; /* it has neither connections nor, of times alone, losses */
    if (json_array_size(run->epochs) == 0 && lines > 0)
        report_note(run, "no epoch has ended: there is no accuracy");
    if (sent > 0 && json_array_size(codecs) == 0)
        report_note(run, "the metrics do not say what a dense exchange would have sent: an older "
                         "version wrote them");
    if (sent > 0 && run->file_count > 1 && json_array_size(run->links) == 0)
        report_note(run, "no line tells of the links: they are written at the end of an epoch");
}

static void set_events(json_t *facts, report_run *run)
{
    answer_set(facts, "events", json_incref(run->events));
    answer_set_count(facts, "events_left_out", run->events_left_out);
    answer_set(facts, "warnings", json_incref(run->warnings));
    answer_set_count(facts, "warnings_left_out", run->warnings_left_out);
}

json_t *report_facts(report_run *run)
{
    json_t *facts = json_object_get(run->look, "folder") != NULL ? json_copy(run->look)
                                                                 : json_object();
    json_t *totals = totals_of(run), *codecs = codecs_of(run), *waits = report_waits(run);
    json_t *help = report_help(run);
    share_waits(totals, waits);
    note_missing(run, totals, codecs);
    answer_set(facts, "run", run->run != NULL ? json_incref(run->run) : json_null());
    answer_set(facts, "totals", totals);
    answer_set(facts, "loss_points", points_of(&run->loss));
    answer_set(facts, "step_ms_points", points_of(&run->step_ms));
    answer_set(facts, "epoch_lines", epochs_of(run));
    answer_set(facts, "ranks", ranks_of(run));
    answer_set(facts, "spread", report_spread(json_object_get(facts, "ranks")));
    answer_set(facts, "verdict", report_verdict(run, waits));
    answer_set(facts, "waits", waits != NULL ? waits : json_null());
    answer_set(facts, "help", help != NULL ? help : json_null());
    answer_set(facts, "links", links_of(run));
    answer_set_count(facts, "links_left_out", run->links_left_out);
    answer_set(facts, "codecs", codecs);
    set_events(facts, run);
    answer_set(facts, "notes", json_incref(run->notes));
    return facts;
}
