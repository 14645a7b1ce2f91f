/* SPDX-License-Identifier: Apache-2.0 */
#include "virtual/sim_keep.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/plain_file.h"
#include "folder/run_file.h"
#include "folder/written.h"
#include "shoal/version.h"

void shoali_sim_keep_note(shoali_sim_keep *keep, shoal_status status)
{
    if (status == SHOAL_OK || keep->status != SHOAL_OK)
        return;
    keep->status = status;
    shoali_error_get(&keep->error);
}

static bool is_together(const shoal_sim *sim)
{
    return (sim->protocol.traits & SHOALI_SYNC_EXACT) != 0;
}

/* ------------------------------------------------------------------ run.json */

static void put(json_t *object, const char *key, const char *text)
{
    if (text != NULL && text[0] != '\0')
        json_object_set_new(object, key, json_string(text));
}

static void put_count(json_t *object, const char *key, uint64_t count)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)count);
    json_object_set_new(object, key, json_string(text));
}

static shoal_status make_options(const shoal_sim *sim, const char *text, json_t **options_out)
{
    json_t *options = text == NULL ? json_object() : NULL;
    if (text != NULL)
        SHOALI_TRY(shoali_json_parse("shoal_sim_files.options", text, strlen(text), &options));
    if (!json_is_object(options)) {
        json_decref(options);
        return shoali_fail(SHOAL_EINVAL, "shoal_sim_files.options is no JSON object");
    }
    put(options, "sync", sim->protocol.spec);
    put(options, "collective", sim->collective);
    put(options, "codec", shoal_codec_spec(sim->codec));
    put_count(options, "workers", sim->workers);
    put_count(options, "seed", sim->seed);
    *options_out = options;
    return SHOAL_OK;
}

static shoal_status write_run_file(const shoali_sim_keep *keep, const char *text)
{
    const shoal_sim *sim = keep->sim;
    json_t *options = NULL;
    SHOALI_TRY(make_options(sim, text, &options));
    json_t *model = json_object(), *data = json_object();
    put(model, "spec", json_string_value(json_object_get(options, "model")));
    json_object_set_new(model, "params", json_integer((json_int_t)sim->count));
    put(data, "path", json_string_value(json_object_get(options, "data")));
    json_t *run = json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:o, s:o, s:o, s:{s:i, s:i, s:s}}",
                            "format", SHOALI_RUN_FORMAT, "shoal", shoal_version(), "began",
                            "1970-01-01T00:00:00Z", "clock", "virtual", "from_step", 0, "steps",
                            (json_int_t)(sim->report.until_ns > 0 ? 0 : sim->iterations), "options",
                            options, "model", model, "data", data, "cluster", "workers",
                            (int)sim->workers, "servers", (int)(sim->size - sim->workers), "rank_0",
                            "host 0");
    return shoali_run_file_put(keep->out, run);
}

/* ------------------------------------------------------------------ what is told */

static void trace(shoali_sim_keep *keep, uint32_t worker, shoali_trace_event event,
                  uint64_t from_ns, uint64_t until_ns)
{
    shoali_sim_lines *w = &keep->workers[worker];
    if (keep->events_each == 0)
        return;
    event.start_us = from_ns / 1000;
    const uint64_t took_us = until_ns / 1000 - event.start_us;
    event.took_us = took_us < UINT32_MAX ? (uint32_t)took_us : UINT32_MAX;
    w->events[w->noted++ % keep->events_each] = event;
}

static void trace_iteration(shoali_sim_keep *keep, uint32_t worker, const shoali_sim_iteration *it)
{
    const uint64_t step = keep->sim->nodes[worker].iteration;
    const uint64_t computed_ns = it->computed_ns - it->began_ns;
    const uint64_t turned_ns = it->began_ns + (uint64_t)((double)computed_ns *
                                                         (1 - keep->sim->asked.compute.backward));
    const struct part {
        uint32_t kind;
        uint64_t from_ns, until_ns;
    } parts[] = {{SHOALI_TRACE_FORWARD, it->began_ns, turned_ns},
                 {SHOALI_TRACE_BACKWARD, turned_ns, it->computed_ns},
                 {SHOALI_TRACE_COMPUTE, it->began_ns, it->computed_ns},
                 {SHOALI_TRACE_WAIT, it->computed_ns, it->updates_ns},
                 {SHOALI_TRACE_UPDATE, it->updates_ns, it->updated_ns},
                 {SHOALI_TRACE_WAIT, it->updated_ns, it->ended_ns},
                 {SHOALI_TRACE_STEP, it->began_ns, it->ended_ns}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i].kind != SHOALI_TRACE_WAIT || parts[i].until_ns > parts[i].from_ns)
            trace(keep, worker, (shoali_trace_event){.step = step, .kind = parts[i].kind},
                  parts[i].from_ns, parts[i].until_ns);
}

static void on_iteration(void *ctx, uint32_t worker, const shoali_sim_iteration *it)
{
    shoali_sim_keep *keep = ctx;
    trace_iteration(keep, worker, it);
    if (keep->out != NULL)
        shoali_sim_line_step(keep, worker, it);
}

static void on_operation(void *ctx, const shoali_sim_op *op, uint32_t member)
{
    shoali_sim_keep *keep = ctx;
    const uint32_t worker = op->members[member];
    if (worker >= keep->sim->workers || op->size < 2)
        return;
    shoali_sim_lines *w = &keep->workers[worker];
    const uint64_t now_ns = keep->sim->now_ns, entered_ns = op->entered_ns[member];
    const uint64_t from_ns = entered_ns > w->comm_until_ns ? entered_ns : w->comm_until_ns;
    const uint64_t sent = op->volume->sent[member];
    w->comm_ns += now_ns - from_ns;
    w->comm_until_ns = now_ns;
    trace(keep, worker,
          (shoali_trace_event){.step = op->op.iteration,
                               .kind = SHOALI_TRACE_EXCHANGE,
                               .offset = op->op.offset,
                               .sent_bytes = sent < UINT32_MAX ? (uint32_t)sent : UINT32_MAX},
          entered_ns, now_ns);
}

static void on_lost(void *ctx, uint32_t endpoint, const char *why)
{
    shoali_sim_keep *keep = ctx;
    char text[320];
    snprintf(text, sizeof text, "%s %u is gone at virtual second %.6f: %s",
             endpoint < keep->sim->workers ? "rank" : "server", endpoint,
             (double)keep->sim->now_ns * 1e-9, why);
    keep->lost++;
    if (keep->out != NULL)
        shoali_sim_event_warn(keep, "warn", endpoint, text);
}

/* The lowest worker that is there. */
static uint32_t lowest(const shoal_sim *sim)
{
    uint32_t w = 0;
    while (w + 1 < sim->workers && sim->nodes[w].phase >= SHOALI_SIM_ENDED)
        w++;
    return w;
}

/* Who goes on without the lost counts its ranks anew; who survives them keeps its name. */
static void on_members(void *ctx)
{
    shoali_sim_keep *keep = ctx;
    const shoal_sim *sim = keep->sim;
    const bool named = (sim->protocol.traits & SHOALI_SYNC_SURVIVES) != 0;
    const uint32_t first = lowest(sim);
    const uint64_t from_ns = keep->workers[first].last_end_ns;
    keep->live = 0;
    for (uint32_t w = 0; w < sim->workers; w++)
        if (sim->nodes[w].rests) {
            keep->workers[w].rank = named ? w : keep->live;
            keep->live++;
        }
    for (uint32_t w = 0; w < sim->workers; w++) {
        if (!sim->nodes[w].rests)
            continue;
        trace(keep, w,
              (shoali_trace_event){.step = sim->nodes[w].done, .kind = SHOALI_TRACE_REFORM},
              keep->workers[w].last_end_ns, sim->now_ns);
        if (keep->out != NULL)
            shoali_sim_line_reform(keep, w);
        keep->workers[w].last_end_ns = sim->now_ns;
    }
    if (keep->out != NULL)
        shoali_sim_event_add(keep, "members", keep->workers[first].rank,
                             json_pack("{s:i, s:I, s:f}", "workers", (int)keep->live, "step",
                                       (json_int_t)sim->nodes[first].done, "seconds",
                                       (double)(sim->now_ns - from_ns) * 1e-9));
}

/* ------------------------------------------------------------------ the end */

static json_t *number(double value)
{
    return value == value ? json_real(value) : json_null();
}

static void end_folder(shoali_sim_keep *keep, shoal_status status)
{
    const shoal_sim *sim = keep->sim;
    uint64_t step = 0;
    for (uint32_t w = 0; w < sim->workers; w++)
        step = sim->nodes[w].done > step ? sim->nodes[w].done : step;
    shoali_sim_line_epoch(keep);
    shoali_sim_lines_flush(keep);
    if (status != SHOAL_OK) {
        shoali_sim_event_warn(keep, "error", 0, shoal_last_error()->text);
        return;
    }
    shoali_sim_judge(keep);
    shoali_sim_event_add(keep, "end", 0,
                         json_pack("{s:I, s:i, s:i, s:o, s:o}", "step", (json_int_t)step, "workers",
                                   (int)keep->live, "lost", (int)keep->lost, "train_loss",
                                   number(sim->report.results.train_loss), "test_accuracy",
                                   number(sim->report.results.test_accuracy)));
}

static void end_trace(shoali_sim_keep *keep, shoal_status status)
{
    const shoal_sim *sim = keep->sim;
    const uint32_t each = keep->events_each;
    shoali_trace_rank *ranks = shoali_alloc_array(sim->workers, sizeof *ranks);
    for (uint32_t w = 0; ranks != NULL && w < sim->workers; w++) {
        const shoali_sim_lines *of = &keep->workers[w];
        ranks[w] = (shoali_trace_rank){.rank = w,
                                       .events = of->events,
                                       .count = of->noted < each ? of->noted : each,
                                       .overwritten = of->noted < each ? 0 : of->noted - each};
        shoali_trace_sort(&ranks[w]);
    }
    const shoali_trace_about about = {.path = keep->trace,
                                      .made_by = "shoal sim --trace (virtual time)",
                                      .model = "",
                                      .steps = sim->nodes[0].done,
                                      .exact = is_together(sim),
                                      .whole = status == SHOAL_OK};
    shoali_sim_keep_note(keep, ranks != NULL ? shoali_trace_write(&about, ranks, sim->workers)
                                             : SHOAL_ENOMEM);
    shoali_free(ranks);
}

static shoal_status on_end(void *ctx, shoal_status status)
{
    shoali_sim_keep *keep = ctx;
    shoal_error error;
    shoali_error_get(&error);
    if (keep->out != NULL)
        end_folder(keep, status);
    if (keep->trace != NULL && keep->sim->told.files.came_out)
        end_trace(keep, status);
    keep->sim->told.files.came_out &= keep->status == SHOAL_OK;
    if (status != SHOAL_OK)
        return shoali_error_set(&error);
    return keep->status != SHOAL_OK ? shoali_error_set(&keep->error) : SHOAL_OK;
}

static void on_close(void *ctx)
{
    shoali_sim_keep *keep = ctx;
    if (keep->out != NULL && !keep->sim->told.files.came_out)
        shoali_sim_undo(keep);
    for (uint32_t w = 0; keep->workers != NULL && w < keep->sim->workers; w++) {
        shoali_free(keep->workers[w].text);
        shoali_free(keep->workers[w].events);
    }
    if (keep->events > 0)
        close(keep->events - 1);
    if (keep->lock > 0)
        close(keep->lock - 1);
    shoali_free(keep->workers);
    shoali_free(keep->recent);
    shoali_free(keep->out);
    shoali_free(keep->trace);
    shoali_free(keep);
}

/* ------------------------------------------------------------------ the start */

static shoal_status open_trace(shoali_sim_keep *keep)
{
    const uint32_t workers = keep->sim->workers;
    const uint32_t each = SHOALI_SIM_TRACE_EVENTS / (workers > 0 ? workers : 1);
    SHOALI_TRY(shoali_trace_may(keep->trace)); /* before hours are spent */
    keep->events_each = each < SHOALI_KEPT_EVENTS ? each : SHOALI_KEPT_EVENTS;
    for (uint32_t w = 0; w < workers; w++) {
        keep->workers[w].events = shoali_alloc_array(keep->events_each,
                                                     sizeof *keep->workers[w].events);
        if (keep->workers[w].events == NULL)
            return SHOAL_ENOMEM;
    }
    return SHOAL_OK;
}

static shoal_status open_events(shoali_sim_keep *keep)
{
    char path[SHOALI_PATH_BYTES];
    FILE *file = NULL;
    SHOALI_TRY(shoali_path_join(path, keep->out, "events.jsonl"));
    SHOALI_TRY(shoali_plain_file(path, false, &file));
    const int fd = fcntl(fileno(file), F_DUPFD_CLOEXEC, 0);
    fclose(file);
    if (fd < 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot write %s", path);
    keep->events = fd + 1;
    return SHOAL_OK;
}

static shoal_status open_folder(shoali_sim_keep *keep, const char *options)
{
    const shoal_sim *sim = keep->sim;
    int fd;
    keep->there = shoali_sim_there(keep->out);
    SHOALI_TRY(shoali_folder_claim(keep->out, &fd));
    keep->lock = fd + 1;
    keep->recent = shoali_alloc_array((size_t)sim->workers * SHOALI_SIM_RECENT,
                                      sizeof *keep->recent);
    if (keep->recent == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t w = 0; w < sim->workers; w++)
        if ((keep->workers[w].text = shoali_alloc(SHOALI_SIM_BUFFER)) == NULL)
            return SHOAL_ENOMEM;
    SHOALI_TRY(write_run_file(keep, options));
    SHOALI_TRY(open_events(keep));
    shoali_sim_event_add(keep, "begin", 0,
                         json_pack("{s:i, s:I, s:i, s:b}", "step", 0, "steps",
                                   (json_int_t)(sim->report.until_ns > 0 ? 0 : sim->iterations),
                                   "workers", (int)sim->workers, "together", is_together(sim)));
    return keep->status == SHOAL_OK ? SHOAL_OK : shoali_error_set(&keep->error);
}

static shoal_status open_all(shoali_sim_keep *keep, const shoal_sim_files *files)
{
    keep->workers = shoali_alloc_array(keep->sim->workers, sizeof *keep->workers);
    keep->out = files->out != NULL ? shoali_strdup(files->out) : NULL;
    keep->trace = files->trace != NULL ? shoali_strdup(files->trace) : NULL;
    if (keep->workers == NULL || (files->out != NULL && keep->out == NULL) ||
        (files->trace != NULL && keep->trace == NULL))
        return SHOAL_ENOMEM;
    keep->live = keep->sim->workers;
    for (uint32_t w = 0; w < keep->live; w++)
        keep->workers[w].rank = w;
    if (keep->trace != NULL)
        SHOALI_TRY(open_trace(keep));
    return keep->out != NULL ? open_folder(keep, files->options) : SHOAL_OK;
}

shoal_status shoal_sim_keep(shoal_sim *sim, const shoal_sim_files *files)
{
    if (sim == NULL || files == NULL || files->size != sizeof *files)
        return shoali_fail(SHOAL_EINVAL, "shoal_sim_keep: start from SHOAL_SIM_FILES_INIT");
    if (sim->told.keeper.ctx != NULL || sim->report.results.events > 0)
        return shoali_fail(SHOAL_EINVAL, "shoal_sim_keep: once, and before the run");
    shoali_sim_keep *keep = shoali_alloc(sizeof *keep);
    if (keep == NULL)
        return SHOAL_ENOMEM;
    *keep = (shoali_sim_keep){.sim = sim};
    const shoal_status status = open_all(keep, files);
    if (status != SHOAL_OK) {
        on_close(keep);
        return status;
    }
    sim->told.keeper = (shoali_sim_keeper){.ctx = keep,
                                           .iteration = on_iteration,
                                           .operation = on_operation,
                                           .lost = on_lost,
                                           .members = on_members,
                                           .end = on_end,
                                           .close = on_close};
    return SHOAL_OK;
}
