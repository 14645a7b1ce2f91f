/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a simulated run's metrics and events, by the code that writes a real run's. Times are
 * rounded down to microseconds where they begin and end, so that parts make up the whole. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/plain_file.h"
#include "folder/events.h"
#include "folder/written.h"
#include "virtual/sim_keep.h"

/* ------------------------------------------------------------------ metrics */

static shoal_status write_out(shoali_sim_keep *keep, uint32_t worker)
{
    shoali_sim_lines *w = &keep->workers[worker];
    char path[SHOALI_PATH_BYTES];
    FILE *file = NULL;
    if (worker == 0)
        SHOALI_TRY(shoali_path_join(path, keep->out, "metrics.jsonl"));
    else
        SHOALI_TRY(shoali_path_number(path, keep->out, "metrics.", worker, ".jsonl"));
    SHOALI_TRY(shoali_plain_file(path, w->begun, &file));
    w->begun = true;
    const bool good = fwrite(w->text, 1, w->used, file) == w->used;
    if (fclose(file) != 0 || !good)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot write metrics below %s", keep->out);
    w->used = 0;
    return SHOAL_OK;
}

static void add(shoali_sim_keep *keep, uint32_t worker, const char *line, size_t length)
{
    shoali_sim_lines *w = &keep->workers[worker];
    if (w->used + length > SHOALI_SIM_BUFFER)
        shoali_sim_keep_note(keep, write_out(keep, worker));
    if (keep->status != SHOAL_OK)
        return;
    memcpy(w->text + w->used, line, length);
    w->used += length;
}

void shoali_sim_lines_flush(shoali_sim_keep *keep)
{
    for (uint32_t i = 0; i < keep->sim->workers && keep->status == SHOAL_OK; i++)
        if (keep->workers[i].used > 0 || !keep->workers[i].begun)
            shoali_sim_keep_note(keep, write_out(keep, i));
}

static uint64_t us(uint64_t ns)
{
    return ns / 1000;
}

static double between(uint64_t from_ns, uint64_t until_ns)
{
    return (double)(us(until_ns) - us(from_ns));
}

/* Of a quadratic: of the worker's own model, for which a step counts as a sample. */
static double loss_of(const shoal_sim *sim, const shoali_sim_node *node)
{
    if (sim->problem != NULL)
        return shoali_problem_excess(sim->problem, node->tensors.params);
    return sim->task.made != NULL ? node->made.loss : (double)NAN;
}

static shoali_step_times times_of(const shoali_sim_keep *keep, uint32_t worker,
                                  const shoali_sim_iteration *it)
{
    const shoal_sim *sim = keep->sim;
    const shoali_sim_node *node = &sim->nodes[worker];
    const shoali_sim_lines *w = &keep->workers[worker];
    const double compute_us = between(it->began_ns, it->computed_ns);
    const bool trained = sim->task.made != NULL;
    const uint32_t batch = sim->asked.compute.from_model ? (uint32_t)sim->asked.compute.batch
                                                         : sim->problem != NULL;
    shoali_step_times t = {.step_us = between(it->began_ns, it->ended_ns),
                           .compute_us = compute_us,
                           .update_us = between(it->updates_ns, it->updated_ns),
                           .backward_us = floor(compute_us * sim->asked.compute.backward),
                           .loss = loss_of(sim, node),
                           .lr = trained ? node->made.lr : (double)NAN,
                           .samples = trained ? node->made.samples : batch,
                           .total = trained ? node->made.total : batch * keep->live,
                           .first = node->made.first,
                           .step_first = node->made.step_first,
                           .skipped = it->skipped,
                           .untold = !sim->numbers};
    t.forward_us = compute_us - t.backward_us;
    t.sync.wait_us = (uint64_t)(between(it->computed_ns, it->updates_ns) +
                                between(it->updated_ns, it->ended_ns));
    t.sync.comm_us = us(w->comm_ns);
    t.sync.sent_payload_bytes = node->sent_bytes - w->sent_bytes;
    t.sync.received_payload_bytes = node->received_bytes - w->received_bytes;
    t.sync.dense_elems = t.sync.sent_elems = (node->dense_bytes - w->dense_bytes) / sizeof(float);
    return t;
}

static void remember(shoali_sim_keep *keep, uint32_t worker, uint64_t step,
                     const shoali_step_times *t)
{
    shoali_sim_lines *w = &keep->workers[worker];
    w->compute_us += t->compute_us;
    w->wait_us += (double)t->sync.wait_us;
    w->steps++;
    keep->recent[(size_t)worker * SHOALI_SIM_RECENT + step % SHOALI_SIM_RECENT] =
        (shoali_sim_recent){
            .step = step, .step_us = (float)t->step_us, .compute_us = (float)t->compute_us};
}

void shoali_sim_line_step(shoali_sim_keep *keep, uint32_t worker, const shoali_sim_iteration *it)
{
    char line[SHOALI_SIM_LINE];
    shoali_sim_lines *w = &keep->workers[worker];
    const shoali_sim_node *node = &keep->sim->nodes[worker];
    const uint64_t step = it->next < keep->sim->iterations ? it->next : keep->sim->iterations;
    const shoali_step_times t = times_of(keep, worker, it);
    FILE *out = fmemopen(line, sizeof line, "w");
    if (out == NULL) {
        shoali_sim_keep_note(keep, SHOAL_ENOMEM);
        return;
    }
    shoali_metrics_put_step(out, step, us(it->ended_ns), &t);
    const long length = ftell(out);
    fclose(out);
    if (length > 0)
        add(keep, worker, line, (size_t)length);
    remember(keep, worker, step, &t);
    w->last_end_ns = it->ended_ns;
    w->sent_bytes = node->sent_bytes;
    w->received_bytes = node->received_bytes;
    w->dense_bytes = node->dense_bytes;
    w->comm_ns = 0;
}

void shoali_sim_line_reform(shoali_sim_keep *keep, uint32_t worker)
{
    char line[SHOALI_SIM_LINE];
    const shoal_sim *sim = keep->sim;
    const shoali_sim_lines *w = &keep->workers[worker];
    const int length = snprintf(line, sizeof line,
                                "{\"reform\": %" PRIu64 ", \"step\": %" PRIu64
                                ", \"rank\": %u, \"workers\": %u, \"took_us\": %" PRIu64 "}\n",
                                sim->report.results.epochs, sim->nodes[worker].done, w->rank,
                                keep->live, us(sim->now_ns) - us(w->last_end_ns));
    add(keep, worker, line, (size_t)length);
}

static void put_number(FILE *out, const char *key, double value)
{
    fprintf(out, isfinite(value) ? ", \"%s\": %.17g" : ", \"%s\": null", key, value);
}

void shoali_sim_line_epoch(shoali_sim_keep *keep)
{
    char line[SHOALI_SIM_LINE];
    const shoal_sim *sim = keep->sim;
    const shoal_sim_results *r = &sim->report.results;
    const uint64_t per_epoch = sim->nodes[0].made.steps_per_epoch, done = sim->nodes[0].done;
    FILE *out = per_epoch > 0 ? fmemopen(line, sizeof line, "w") : NULL;
    if (out == NULL)
        return;
    fprintf(out, "{\"epoch\": %" PRIu64 ", \"step\": %" PRIu64, (done + per_epoch - 1) / per_epoch,
            done);
    put_number(out, "train_loss", r->train_loss);
    put_number(out, "test_loss", r->test_loss);
    put_number(out, "test_accuracy", r->test_accuracy);
    put_number(out, "epoch_s", (double)r->duration_ns * 1e-9);
    fputs("}\n", out);
    const long length = ftell(out);
    fclose(out);
    if (length > 0)
        add(keep, 0, line, (size_t)length);
}

/* ------------------------------------------------------------------ events */

/* The virtual clock begins with 1970. */
static void moment(uint64_t now_ns, char out[32])
{
    const time_t seconds = (time_t)(now_ns / 1000000000);
    char day[24];
    struct tm utc;
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &utc));
    snprintf(out, 32, "%s.%03uZ", day, (unsigned)(now_ns / 1000000 % 1000));
}

void shoali_sim_event_add(shoali_sim_keep *keep, const char *event, uint32_t rank, json_t *more)
{
    char when[32];
    moment(keep->sim->now_ns, when);
    json_t *line = json_pack("{s:s, s:s, s:i, s:I}", "time", when, "event", event, "rank",
                             (int)rank, "members_epoch",
                             (json_int_t)keep->sim->report.results.epochs);
    if (line != NULL && (more == NULL || json_object_update(line, more) != 0)) {
        json_decref(line);
        line = NULL;
    }
    json_decref(more);
    shoali_sim_keep_note(keep, shoali_events_put(keep->events - 1, keep->out, line));
}

void shoali_sim_event_warn(shoali_sim_keep *keep, const char *level, uint32_t rank,
                           const char *text)
{
    char when[32];
    moment(keep->sim->now_ns, when);
    json_t *line = json_pack("{s:s, s:s, s:i, s:s}", "time", when, "level", level, "rank",
                             (int)rank, "text", text);
    shoali_sim_keep_note(keep, shoali_events_put(keep->events - 1, keep->out, line));
}
