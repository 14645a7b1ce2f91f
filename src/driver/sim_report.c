/* SPDX-License-Identifier: Apache-2.0 */
/* What a run tells besides totals: who waited for whom, the job over time, a timeline, a log. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "driver/sim_parts.h"

/* ---------------------------------------------------------------- files */

shoal_status shoali_sim_report_open(shoal_sim *sim, const shoal_sim_desc *desc)
{
    sim->report.cause = SHOALI_SIM_NO_CAUSE;
    sim->report.until_ns = (uint64_t)(desc->until_s * 1e9);
    sim->report.waits = shoali_alloc_array((size_t)sim->workers * sim->size,
                                           sizeof *sim->report.waits);
    sim->report.curve = shoali_alloc_array(SHOALI_SIM_POINTS, sizeof *sim->report.curve);
    sim->report.steps_to_point = sim->workers;
    return sim->report.waits != NULL && sim->report.curve != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static bool is_asked(const char *path)
{
    return path != NULL && path[0] != '\0';
}

shoal_status shoali_sim_report_files(shoal_sim *sim, const shoal_sim_desc *desc)
{
    if (is_asked(desc->timeline))
        SHOALI_TRY(shoali_new_file_open_named(desc->timeline, &sim->told.files.timeline));
    if (sim->told.files.timeline.file != NULL)
        fputs("{\"traceEvents\": [\n", sim->told.files.timeline.file);
    return is_asked(desc->log) ? shoali_new_file_open_named(desc->log, &sim->told.files.log)
                               : SHOAL_OK;
}

shoal_status shoali_sim_report_flush(shoal_sim *sim)
{
    if (sim->told.files.timeline.file != NULL)
        fputs("\n], \"displayTimeUnit\": \"ms\"}\n", sim->told.files.timeline.file);
    if (sim->told.files.timeline.file != NULL)
        SHOALI_TRY(shoali_new_file_flush(&sim->told.files.timeline));
    return sim->told.files.log.file != NULL ? shoali_new_file_flush(&sim->told.files.log)
                                            : SHOAL_OK;
}

static shoal_status write_whole(shoali_new_file *file)
{
    return file->file != NULL ? shoali_new_file_commit(file) : SHOAL_OK;
}

shoal_status shoali_sim_report_end(shoal_sim *sim)
{
    SHOALI_TRY(write_whole(&sim->told.files.timeline));
    return write_whole(&sim->told.files.log);
}

void shoali_sim_report_fini(shoal_sim *sim)
{
    shoali_new_file_discard(&sim->told.files.timeline);
    shoali_new_file_discard(&sim->told.files.log);
    shoali_free(sim->report.waits);
    shoali_free(sim->report.curve);
}

/* ---------------------------------------------------------------- timeline */

/* One span; times in microseconds, as the format wants them. */
static void span(shoal_sim *sim, const char *name, uint32_t endpoint, uint64_t from_ns,
                 uint64_t until_ns, int64_t peer)
{
    if (sim->told.files.timeline.file == NULL || until_ns <= from_ns)
        return;
    fprintf(sim->told.files.timeline.file,
            "%s{\"name\": \"%s\", \"ph\": \"X\", \"pid\": 0, \"tid\": %u, \"ts\": %.3f, "
            "\"dur\": %.3f, \"args\": {",
            sim->told.files.timeline_events++ > 0 ? ",\n" : "", name, endpoint,
            (double)from_ns * 1e-3, (double)(until_ns - from_ns) * 1e-3);
    if (peer >= 0)
        fprintf(sim->told.files.timeline.file, "\"for\": %" PRId64 ", ", peer);
    fprintf(sim->told.files.timeline.file, "\"iteration\": %" PRIu64 "}}",
            sim->nodes[endpoint].iteration);
}

void shoali_sim_report_compute(shoal_sim *sim, uint32_t endpoint)
{
    const shoali_sim_node *node = &sim->nodes[endpoint];
    span(sim, "compute", endpoint, node->began_ns, node->began_ns + node->compute_ns, -1);
}

/* Operations overlap, so they are asynchronous spans of a process of their own. */
void shoali_sim_report_op(shoal_sim *sim, const shoali_sim_op *op)
{
    if (sim->told.files.timeline.file == NULL || op->size < 2)
        return;
    const char *name = op->op.kind == SHOALI_SYNC_BROADCAST ? "broadcast" : "all_reduce";
    for (int end = 0; end < 2; end++)
        fprintf(sim->told.files.timeline.file,
                "%s{\"name\": \"%s of %u\", \"cat\": \"op\", \"ph\": \"%s\", \"pid\": 1, "
                "\"tid\": %u, \"id\": %" PRIu64 ", \"ts\": %.3f, \"args\": {\"last\": %u}}",
                sim->told.files.timeline_events++ > 0 ? ",\n" : "", name, op->size,
                end == 0 ? "b" : "e", op->members[0], op->op.id,
                (double)(end == 0 ? op->began_ns : sim->now_ns) * 1e-3, op->last);
}

/* ---------------------------------------------------------------- waits */

void shoali_sim_report_wait(shoal_sim *sim, uint32_t endpoint)
{
    const shoali_sim_node *node = &sim->nodes[endpoint];
    uint64_t waited = sim->now_ns - node->asked_ns, theirs = 0;
    uint64_t *row = &sim->report.waits[(size_t)endpoint * sim->size];
    bool known = sim->report.cause != SHOALI_SIM_NO_CAUSE && sim->report.cause != endpoint;
    if (known && sim->report.cause_ns > node->asked_ns) {
        theirs = sim->report.cause_ns - node->asked_ns;
        row[sim->report.cause] += theirs;
    }
    row[endpoint] += waited - theirs;
    span(sim, "wait", endpoint, node->asked_ns, node->asked_ns + theirs,
         known ? (int64_t)sim->report.cause : -1);
    span(sim, "transfer", endpoint, node->asked_ns + theirs, sim->now_ns, -1);
}

const uint64_t *shoal_sim_waits(const shoal_sim *sim, uint32_t worker)
{
    return worker < sim->workers ? &sim->report.waits[(size_t)worker * sim->size] : NULL;
}

/* ---------------------------------------------------------------- the job over time */

static void find_extremes(const shoal_sim *sim, shoal_sim_point *point)
{
    point->iterations_min = point->iterations_max = sim->nodes[0].done;
    for (uint32_t w = 1; w < sim->workers; w++) {
        const uint64_t done = sim->nodes[w].done;
        point->iterations_min = done < point->iterations_min ? done : point->iterations_min;
        point->iterations_max = done > point->iterations_max ? done : point->iterations_max;
    }
}

shoal_status shoal_sim_watch(shoal_sim *sim,
                             void (*tell)(void *ctx, const shoal_sim_progress *progress), void *ctx)
{
    if (sim == NULL)
        return shoali_fail(SHOAL_EINVAL, "shoal_sim_watch needs a simulation");
    sim->told.onlookers.tell = tell;
    sim->told.onlookers.tell_ctx = ctx;
    return SHOAL_OK;
}

void shoal_sim_stop(shoal_sim *sim)
{
    if (sim != NULL)
        atomic_store(&sim->told.files.stopped, true);
}

static void tell_progress(const shoal_sim *sim)
{
    const bool by_time = sim->report.until_ns > 0;
    const shoal_sim_progress p = {.size = sizeof p,
                                  .done = by_time ? (double)sim->now_ns * 1e-9
                                                  : (double)sim->report.steps,
                                  .total = by_time ? (double)sim->report.until_ns * 1e-9
                                                   : (double)sim->iterations * (double)sim->workers,
                                  .virtual_s = (double)sim->now_ns * 1e-9};
    if (sim->told.onlookers.tell != NULL)
        sim->told.onlookers.tell(sim->told.onlookers.tell_ctx, &p);
}

/* A run until a virtual second that never comes would have no end. */
static void see_that_time_passes(shoal_sim *sim)
{
    enum { EACH = 10000, LEAST = 100000 };
    if (sim->report.until_ns == 0)
        return;
    if (sim->now_ns != sim->report.stood_ns)
        sim->report.stood_steps = 0;
    sim->report.stood_ns = sim->now_ns;
    sim->report.stood_steps++;
    if (sim->report.stood_steps > LEAST + (uint64_t)EACH * sim->workers)
        shoali_sim_break(sim, shoali_fail(SHOAL_EINVAL,
                                          "virtual time stands still at %.9f s: %" PRIu64
                                          " iterations took none, so that %g s never come; let "
                                          "them compute for a while (compute=fixed:ms=...), or "
                                          "end by a number of iterations",
                                          (double)sim->now_ns * 1e-9, sim->report.stood_steps,
                                          (double)sim->report.until_ns * 1e-9));
}

/* When the room is full every other point goes, and from then on half as many come. */
void shoali_sim_report_step(shoal_sim *sim, bool at_start)
{
    sim->report.steps += !at_start;
    tell_progress(sim);
    see_that_time_passes(sim);
    if (!at_start && sim->report.steps % sim->report.steps_to_point != 0)
        return;
    if (sim->report.curve_count == SHOALI_SIM_POINTS) {
        for (uint32_t i = 0; i < SHOALI_SIM_POINTS / 2; i++)
            sim->report.curve[i] = sim->report.curve[2 * i];
        sim->report.curve_count = SHOALI_SIM_POINTS / 2;
        sim->report.steps_to_point *= 2;
        if (sim->report.steps % sim->report.steps_to_point != 0)
            return;
    }
    shoal_sim_point *point = &sim->report.curve[sim->report.curve_count++];
    point->time_s = (double)sim->now_ns * 1e-9;
    point->iterations = (double)sim->report.steps / sim->workers;
    find_extremes(sim, point);
    shoali_sim_measure(sim, point);
}

const shoal_sim_point *shoal_sim_curve(const shoal_sim *sim, uint32_t *count_out)
{
    *count_out = sim->report.curve_count;
    return sim->report.curve;
}

/* ---------------------------------------------------------------- log */

void shoali_sim_report_event(shoal_sim *sim, uint32_t endpoint, const shoali_event *event)
{
    static const char *const names[] = {"START", "READY", "BEFORE",    "AFTER",  "MESSAGE",
                                        "DONE",  "TIMER", "PEER_DOWN", "FINISH", "STOP"};
    _Static_assert(sizeof names / sizeof *names == SHOALI_EV_COUNT, "a name for every event");
    if (sim->told.files.log.file == NULL)
        return;
    fprintf(sim->told.files.log.file, "%" PRIu64 " %u %s", sim->now_ns, endpoint,
            names[event->kind]);
    if (event->kind == SHOALI_EV_MESSAGE) {
        fprintf(sim->told.files.log.file, " from %u:", event->message.peer);
        for (size_t i = 0; i < event->message.len_bytes; i++)
            fprintf(sim->told.files.log.file, "%s%02x", i % 8 == 0 ? " " : "",
                    event->message.bytes[i]);
    } else if (event->kind == SHOALI_EV_OP_DONE) {
        fprintf(sim->told.files.log.file, " %" PRIu64 " status %d", event->op.id,
                (int)event->op.status);
    } else if (event->kind == SHOALI_EV_READY) {
        fprintf(sim->told.files.log.file, " %zu+%zu", event->range.offset, event->range.count);
    } else if (event->kind == SHOALI_EV_PEER_DOWN) {
        fprintf(sim->told.files.log.file, " %u", event->down.peer);
    } else if (event->kind == SHOALI_EV_TIMER) {
        fprintf(sim->told.files.log.file, " %" PRIu64, event->timer.id);
    }
    fputc('\n', sim->told.files.log.file);
}
