/* SPDX-License-Identifier: Apache-2.0 */
/* What a run tells besides totals: who waited for whom, the job over time, a timeline, a log. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "driver/sim.h"

/* ---------------------------------------------------------------- files */

static shoal_status open_file(const char *path, FILE **out)
{
    if (path == NULL || path[0] == '\0')
        return SHOAL_OK;
    /* A pipe that nobody reads is refused, not waited for. */
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot write %s", path);
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    *out = fdopen(fd, "w");
    return *out != NULL ? SHOAL_OK : shoali_fail_os(SHOAL_EIO, errno, "cannot write %s", path);
}

shoal_status shoali_sim_report_open(shoal_sim *sim, const shoal_sim_desc *desc)
{
    sim->cause = SHOALI_SIM_NO_CAUSE;
    sim->until_ns = (uint64_t)(desc->until_s * 1e9);
    sim->waits = shoali_alloc_array((size_t)sim->workers * sim->size, sizeof *sim->waits);
    sim->curve = shoali_alloc_array(SHOALI_SIM_POINTS, sizeof *sim->curve);
    sim->steps_to_point = sim->workers;
    if (sim->waits == NULL || sim->curve == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(open_file(desc->timeline, &sim->timeline));
    if (sim->timeline != NULL)
        fputs("{\"traceEvents\": [\n", sim->timeline);
    return open_file(desc->log, &sim->log);
}

static bool close_file(FILE **file)
{
    bool good = *file == NULL || (ferror(*file) == 0 && fflush(*file) == 0);
    if (*file != NULL && fclose(*file) != 0)
        good = false;
    *file = NULL;
    return good;
}

shoal_status shoali_sim_report_end(shoal_sim *sim)
{
    if (sim->timeline != NULL)
        fputs("\n], \"displayTimeUnit\": \"ms\"}\n", sim->timeline);
    bool timeline = close_file(&sim->timeline), log = close_file(&sim->log);
    if (timeline && log)
        return SHOAL_OK;
    return shoali_fail(SHOAL_EIO, "the simulation's --%s could not be written",
                       timeline ? "log" : "timeline");
}

void shoali_sim_report_fini(shoal_sim *sim)
{
    (void)close_file(&sim->timeline);
    (void)close_file(&sim->log);
    shoali_free(sim->waits);
    shoali_free(sim->curve);
}

/* ---------------------------------------------------------------- timeline */

/* One span; times in microseconds, as the format wants them. */
static void span(shoal_sim *sim, const char *name, uint32_t endpoint, uint64_t from_ns,
                 uint64_t until_ns, int64_t peer)
{
    if (sim->timeline == NULL || until_ns <= from_ns)
        return;
    fprintf(sim->timeline,
            "%s{\"name\": \"%s\", \"ph\": \"X\", \"pid\": 0, \"tid\": %u, \"ts\": %.3f, "
            "\"dur\": %.3f, \"args\": {",
            sim->timeline_events++ > 0 ? ",\n" : "", name, endpoint, (double)from_ns * 1e-3,
            (double)(until_ns - from_ns) * 1e-3);
    if (peer >= 0)
        fprintf(sim->timeline, "\"for\": %" PRId64 ", ", peer);
    fprintf(sim->timeline, "\"iteration\": %" PRIu64 "}}", sim->nodes[endpoint].iteration);
}

void shoali_sim_report_compute(shoal_sim *sim, uint32_t endpoint)
{
    const shoali_sim_node *node = &sim->nodes[endpoint];
    span(sim, "compute", endpoint, node->began_ns, node->began_ns + node->compute_ns, -1);
}

/* Operations overlap, so they are asynchronous spans of a process of their own. */
void shoali_sim_report_op(shoal_sim *sim, const shoali_sim_op *op)
{
    if (sim->timeline == NULL || op->size < 2)
        return;
    const char *name = op->op.kind == SHOALI_SYNC_BROADCAST ? "broadcast" : "all_reduce";
    for (int end = 0; end < 2; end++)
        fprintf(sim->timeline,
                "%s{\"name\": \"%s of %u\", \"cat\": \"op\", \"ph\": \"%s\", \"pid\": 1, "
                "\"tid\": %u, \"id\": %" PRIu64 ", \"ts\": %.3f, \"args\": {\"last\": %u}}",
                sim->timeline_events++ > 0 ? ",\n" : "", name, op->size, end == 0 ? "b" : "e",
                op->members[0], op->op.id, (double)(end == 0 ? op->began_ns : sim->now_ns) * 1e-3,
                op->last);
}

/* ---------------------------------------------------------------- waits */

void shoali_sim_report_wait(shoal_sim *sim, uint32_t endpoint)
{
    const shoali_sim_node *node = &sim->nodes[endpoint];
    uint64_t waited = sim->now_ns - node->asked_ns, theirs = 0;
    uint64_t *row = &sim->waits[(size_t)endpoint * sim->size];
    bool known = sim->cause != SHOALI_SIM_NO_CAUSE && sim->cause != endpoint;
    if (known && sim->cause_ns > node->asked_ns) {
        theirs = sim->cause_ns - node->asked_ns;
        row[sim->cause] += theirs;
    }
    row[endpoint] += waited - theirs;
    span(sim, "wait", endpoint, node->asked_ns, node->asked_ns + theirs,
         known ? (int64_t)sim->cause : -1);
    span(sim, "transfer", endpoint, node->asked_ns + theirs, sim->now_ns, -1);
}

const uint64_t *shoal_sim_waits(const shoal_sim *sim, uint32_t worker)
{
    return worker < sim->workers ? &sim->waits[(size_t)worker * sim->size] : NULL;
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
    sim->tell = tell;
    sim->tell_ctx = ctx;
    return SHOAL_OK;
}

static void tell_progress(const shoal_sim *sim)
{
    const bool by_time = sim->until_ns > 0;
    const shoal_sim_progress p = {.size = sizeof p,
                                  .done = by_time ? (double)sim->now_ns * 1e-9 : (double)sim->steps,
                                  .total = by_time ? (double)sim->until_ns * 1e-9
                                                   : (double)sim->iterations * (double)sim->workers,
                                  .virtual_s = (double)sim->now_ns * 1e-9};
    if (sim->tell != NULL)
        sim->tell(sim->tell_ctx, &p);
}

/* When the room is full every other point goes, and from then on half as many come. */
void shoali_sim_report_step(shoal_sim *sim, bool at_start)
{
    sim->steps += !at_start;
    tell_progress(sim);
    if (!at_start && sim->steps % sim->steps_to_point != 0)
        return;
    if (sim->curve_count == SHOALI_SIM_POINTS) {
        for (uint32_t i = 0; i < SHOALI_SIM_POINTS / 2; i++)
            sim->curve[i] = sim->curve[2 * i];
        sim->curve_count = SHOALI_SIM_POINTS / 2;
        sim->steps_to_point *= 2;
        if (sim->steps % sim->steps_to_point != 0)
            return;
    }
    shoal_sim_point *point = &sim->curve[sim->curve_count++];
    point->time_s = (double)sim->now_ns * 1e-9;
    point->iterations = (double)sim->steps / sim->workers;
    find_extremes(sim, point);
    shoali_sim_measure(sim, point);
}

const shoal_sim_point *shoal_sim_curve(const shoal_sim *sim, uint32_t *count_out)
{
    *count_out = sim->curve_count;
    return sim->curve;
}

/* ---------------------------------------------------------------- log */

void shoali_sim_report_event(shoal_sim *sim, uint32_t endpoint, const shoali_event *event)
{
    static const char *const names[] = {"START", "READY", "BEFORE",    "AFTER",  "MESSAGE",
                                        "DONE",  "TIMER", "PEER_DOWN", "FINISH", "STOP"};
    _Static_assert(sizeof names / sizeof *names == SHOALI_EV_COUNT, "a name for every event");
    if (sim->log == NULL)
        return;
    fprintf(sim->log, "%" PRIu64 " %u %s", sim->now_ns, endpoint, names[event->kind]);
    if (event->kind == SHOALI_EV_MESSAGE) {
        fprintf(sim->log, " from %u:", event->message.peer);
        for (size_t i = 0; i < event->message.len_bytes; i++)
            fprintf(sim->log, "%s%02x", i % 8 == 0 ? " " : "", event->message.bytes[i]);
    } else if (event->kind == SHOALI_EV_OP_DONE) {
        fprintf(sim->log, " %" PRIu64 " status %d", event->op.id, (int)event->op.status);
    } else if (event->kind == SHOALI_EV_READY) {
        fprintf(sim->log, " %zu+%zu", event->range.offset, event->range.count);
    } else if (event->kind == SHOALI_EV_PEER_DOWN) {
        fprintf(sim->log, " %u", event->down.peer);
    } else if (event->kind == SHOALI_EV_TIMER) {
        fprintf(sim->log, " %" PRIu64, event->timer.id);
    }
    fputc('\n', sim->log);
}
