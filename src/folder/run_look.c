/* SPDX-License-Identifier: Apache-2.0 */
/* A run folder as it is: who holds it, how far the run is, which checkpoints are whole. Only looks:
 * a lock is tried for a moment, nothing is written. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "files/checkpoint_folder.h"
#include "files/metrics_last.h"
#include "files/safetensors.h"
#include "folder/checkpoint_about.h"
#include "folder/run_file.h"
#include "shoal/run.h"

enum { CHECKPOINTS_MOST = 64 }; /* two are usual; the newest ones count */
enum { LINE_MOST = 4096 };      /* of an event that is looked at */

struct shoal_run_look {
    shoal_run_summary summary;
    shoal_run_checkpoint checkpoints[CHECKPOINTS_MOST];
    shoal_run *run;
    bool held;
    uint64_t from_step;       /* at which this part of the run began, by run.json */
    uint64_t planned, at_end; /* steps of the run: by run.json, by the newest whole checkpoint */
};

static void keep_text(char *out, size_t bytes, const char *text)
{
    snprintf(out, bytes, "%s", text != NULL ? text : "");
    shoali_make_printable(out);
}

static bool is_there(const char *dir, const char *name)
{
    char path[SHOALI_PATH_BYTES];
    return shoali_path_join(path, dir, name) == SHOAL_OK && access(path, F_OK) == 0;
}

/* ------------------------------------------------------------------ one checkpoint */

/* The file of a rank, which is of the same step as the common one. */
static shoal_status check_rank(const char *folder, uint64_t rank, uint64_t step, bool quick)
{
    char path[SHOALI_PATH_BYTES];
    shoali_safetensors *file = NULL;
    uint64_t of = 0;
    SHOALI_TRY(shoali_path_number(path, folder, "rank-", rank, ".safetensors"));
    SHOALI_TRY(quick ? shoali_safetensors_open_unread(path, &file)
                     : shoali_safetensors_open(path, &file));
    shoal_status status = shoali_about_number(file, path, "step", &of);
    shoali_safetensors_close(file);
    if (status == SHOAL_OK && of != step)
        status = shoali_fail(SHOAL_ECORRUPT,
                             "%s is of step %" PRIu64 ", the weights are of step %" PRIu64, path,
                             of, step);
    return status;
}

/* Files of all ranks that wrote one, by the common file; an older version's had one of each. */
static shoal_status check_ranks(const char *folder, const char *path,
                                const shoali_safetensors *common, bool quick)
{
    uint64_t workers = 0, step = 0;
    char *end = NULL;
    const char *list = shoali_safetensors_metadata(common, "ranks");
    SHOALI_TRY(shoali_about_number(common, path, "workers", &workers));
    SHOALI_TRY(shoali_about_number(common, path, "step", &step));
    for (uint64_t rank = 0; list == NULL && rank < workers; rank++)
        SHOALI_TRY(check_rank(folder, rank, step, quick));
    for (; list != NULL && *list != '\0'; list = end) {
        const uint64_t rank = strtoull(list, &end, 10);
        if (end == list)
            return shoali_fail(SHOAL_ECORRUPT, "%s: metadata name no ranks", path);
        SHOALI_TRY(check_rank(folder, rank, step, quick));
    }
    return SHOAL_OK;
}

/* steps_out: of the run, as those who wrote it knew; 0: they did not say. */
static shoal_status check_files(const char *folder, bool quick, uint64_t *steps_out)
{
    char path[SHOALI_PATH_BYTES];
    shoali_safetensors *common = NULL;
    SHOALI_TRY(shoali_path_join(path, folder, "common.safetensors"));
    SHOALI_TRY(quick ? shoali_safetensors_open_unread(path, &common)
                     : shoali_safetensors_open(path, &common));
    shoal_status status = check_ranks(folder, path, common, quick);
    if (shoali_safetensors_metadata(common, "steps") == NULL)
        *steps_out = 0;
    else if (status == SHOAL_OK)
        status = shoali_about_number(common, path, "steps", steps_out);
    shoali_safetensors_close(common);
    return status;
}

/* One that goes away meanwhile, as a running job removes it, is not told of. */
static shoal_status look_at_one(shoal_run_look *look, const char *dir, shoali_checkpoint which,
                                bool quick)
{
    char folder[SHOALI_PATH_BYTES];
    uint64_t steps = 0;
    shoal_run_summary *s = &look->summary;
    shoal_run_checkpoint *c = &look->checkpoints[s->checkpoints];
    *c = (shoal_run_checkpoint){.size = sizeof *c, .step = which.step, .epoch = which.epoch};
    SHOALI_TRY(shoali_checkpoint_path(dir, which, folder));
    keep_text(c->name, sizeof c->name, strrchr(folder, '/') + 1);
    c->latest = shoali_checkpoint_order(shoali_checkpoint_latest(dir), which) == 0;
    const shoal_status status = check_files(folder, quick, &steps);
    if (status != SHOAL_OK && (status == SHOAL_ENOMEM || (look->held && access(folder, F_OK) != 0)))
        return status == SHOAL_ENOMEM ? status : SHOAL_OK;
    if (status == SHOAL_OK) {
        snprintf(c->state, sizeof c->state, "whole");
        look->at_end = s->resumes_from == 0 ? steps : look->at_end;
        s->resumes_from = s->resumes_from == 0 ? which.step : s->resumes_from;
    } else {
        shoal_error error;
        shoali_error_get(&error);
        const bool begun = (look->held && s->checkpoints == 0) ||
                           shoali_checkpoint_is_unfinished(dir, which);
        snprintf(c->state, sizeof c->state, begun ? "unfinished" : "damaged");
        if (!begun)
            keep_text(c->text, sizeof c->text, error.text);
    }
    s->checkpoints++;
    return SHOAL_OK;
}

static shoal_status look_at_checkpoints(shoal_run_look *look, const char *dir, bool quick)
{
    shoali_checkpoint which = shoali_checkpoint_before(dir, NULL);
    while (which.step > 0 && look->summary.checkpoints < CHECKPOINTS_MOST) {
        SHOALI_TRY(look_at_one(look, dir, which, quick));
        which = shoali_checkpoint_before(dir, &which);
    }
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ the run */

/* Whether a rank has the folder, and what its lock says. */
static bool is_held(const char *dir, char *holder, size_t bytes)
{
    char path[SHOALI_PATH_BYTES];
    const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    if (shoali_path_join(path, dir, "lock") != SHOAL_OK)
        return false;
    int fd = open(path, O_RDWR | flags);
    fd = fd < 0 ? open(path, O_RDONLY | flags) : fd; /* another user's */
    if (fd < 0)
        return false;
    const bool held = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    const ssize_t length = held ? pread(fd, holder, bytes - 1, 0) : 0;
    close(fd);
    holder[length > 0 ? length : 0] = '\0';
    holder[strcspn(holder, "\n")] = '\0';
    shoali_make_printable(holder);
    return held;
}

static const char *option(const shoal_run *run, const char *wanted)
{
    const char *name, *value;
    for (uint32_t i = 0; (value = shoal_run_option(run, i, &name)) != NULL; i++)
        if (strcmp(name, wanted) == 0)
            return value;
    return NULL;
}

static uint32_t count_of(const shoal_run *run, const char *name)
{
    const char *text = option(run, name);
    const unsigned long long value = text != NULL ? strtoull(text, NULL, 10) : 0;
    return value <= UINT32_MAX ? (uint32_t)value : 0;
}

static void describe(shoal_run_look *look)
{
    shoal_run_summary *s = &look->summary;
    json_t *json = NULL;
    const shoal_run *run = look->run;
    keep_text(s->model, sizeof s->model, option(run, "model"));
    keep_text(s->data, sizeof s->data, option(run, "data"));
    keep_text(s->sync, sizeof s->sync, option(run, "sync"));
    keep_text(s->collective, sizeof s->collective, option(run, "collective"));
    keep_text(s->codec, sizeof s->codec, option(run, "codec"));
    s->workers = count_of(run, "workers") + count_of(run, "simulate");
    s->epochs = count_of(run, "epochs");
    const char *text = shoal_run_json(run);
    if (shoali_json_parse("run.json", text, strlen(text), &json) != SHOAL_OK)
        return;
    keep_text(s->began, sizeof s->began, json_string_value(json_object_get(json, "began")));
    const json_int_t from = json_integer_value(json_object_get(json, "from_step")),
                     steps = json_integer_value(json_object_get(json, "steps"));
    s->simulated = json_is_string(json_object_get(json, "clock"));
    look->from_step = from > 0 ? (uint64_t)from : 0;
    look->planned = steps > 0 ? (uint64_t)steps : 0;
    json_decref(json);
}

/* The first thing that is wrong, the newest checkpoint's before an older one's. */
static void find_damage(shoal_run_look *look, const char *dir)
{
    shoal_run_summary *s = &look->summary;
    for (uint32_t i = 0; i < s->checkpoints && s->text[0] == '\0'; i++)
        keep_text(s->text, sizeof s->text, look->checkpoints[i].text);
    if (s->text[0] != '\0' || s->resumes_from > 0)
        return;
    if (is_there(dir, "checkpoints/latest"))
        snprintf(s->text, sizeof s->text, "%.400s: no checkpoint is whole, but `latest` names one",
                 dir);
    else if (look->run == NULL)
        snprintf(s->text, sizeof s->text, "%.400s has neither run.json nor a whole checkpoint",
                 dir);
    shoali_make_printable(s->text);
}

/* Whether the last event is an end. */
static bool has_ended(const char *dir)
{
    char path[SHOALI_PATH_BYTES], last[LINE_MOST + 1];
    json_t *line = NULL;
    if (shoali_path_join(path, dir, "events.jsonl") != SHOAL_OK)
        return false;
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0,
                from = end > LINE_MOST ? end - LINE_MOST : 0;
    const ssize_t got = fd >= 0 ? pread(fd, last, (size_t)(end - from), from) : -1;
    if (fd >= 0)
        close(fd);
    if (got < 2 || last[got - 1] != '\n')
        return false;
    const char *before = memrchr(last, '\n', (size_t)got - 1);
    const char *text = before != NULL ? before + 1 : last;
    line = json_loadb(text, (size_t)(last + got - text), 0, NULL);
    const char *event = json_string_value(json_object_get(line, "event"));
    const bool ended = event != NULL && strcmp(event, "end") == 0;
    json_decref(line);
    return ended;
}

static void conclude(shoal_run_look *look, const char *dir)
{
    shoal_run_summary *s = &look->summary;
    /* a part of the run that has finished no checkpoint yet knows better than the one before it */
    const bool newer = s->resumes_from == 0 || (look->run != NULL && look->planned > 0 &&
                                                look->from_step == s->resumes_from);
    s->steps = newer || look->at_end == 0 ? look->planned : look->at_end;
    s->step = s->resumes_from > s->step ? s->resumes_from : s->step;
    if (look->held) {
        snprintf(s->state, sizeof s->state, "running");
        return;
    }
    const bool whole = s->text[0] == '\0';
    if (whole)
        find_damage(look, dir);
    s->resumes = whole && (s->resumes_from > 0 ||
                           (look->run != NULL && !is_there(dir, "checkpoints/latest")));
    const bool done = s->simulated ? has_ended(dir)
                                   : !newer && look->at_end > 0 && s->resumes_from >= look->at_end;
    s->resumes = s->resumes && !s->simulated;
    snprintf(s->state, sizeof s->state, "%s",
             s->text[0] != '\0' ? "damaged"
             : done             ? "finished"
                                : "stopped");
}

/* ------------------------------------------------------------------ public */

bool shoal_run_is_folder(const char *dir)
{
    return dir != NULL &&
           (is_there(dir, "run.json") || shoali_checkpoint_before(dir, NULL).step > 0);
}

static shoal_status check_folder(const char *dir)
{
    struct stat info;
    if (stat(dir, &info) != 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot look into %s", dir);
    if (!S_ISDIR(info.st_mode))
        return shoali_fail(SHOAL_EINVAL, "%s is no folder", dir);
    if (access(dir, R_OK | X_OK) != 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot look into %s", dir);
    return shoal_run_is_folder(dir) ? SHOAL_OK : shoali_fail(SHOAL_EINVAL, "%s holds no run", dir);
}

static shoal_status fill(shoal_run_look *look, const char *dir, bool quick)
{
    char path[SHOALI_PATH_BYTES];
    shoali_metrics_last last;
    shoal_run_summary *s = &look->summary;
    look->held = is_held(dir, s->text, sizeof s->text);
    if (is_there(dir, "run.json")) {
        shoal_status status = shoal_run_open(dir, &look->run);
        if (status == SHOAL_ENOMEM)
            return status;
        if (status == SHOAL_OK)
            describe(look);
        else if (!look->held)
            keep_text(s->text, sizeof s->text, shoal_last_error()->text);
    }
    SHOALI_TRY(shoali_path_join(path, dir, "metrics.jsonl"));
    shoali_metrics_read_last(path, &last);
    s->step = last.step;
    s->epoch = last.epoch;
    s->loss = last.loss;
    s->accuracy = last.accuracy;
    SHOALI_TRY(look_at_checkpoints(look, dir, quick));
    conclude(look, dir);
    return SHOAL_OK;
}

shoal_status shoal_run_look_at(const char *dir, bool quick, shoal_run_look **look_out)
{
    if (dir == NULL || look_out == NULL)
        return shoali_fail(SHOAL_EINVAL, "shoal_run_look_at needs a folder and a place for it");
    SHOALI_TRY(check_folder(dir));
    shoal_run_look *look = shoali_alloc(sizeof *look);
    if (look == NULL)
        return SHOAL_ENOMEM;
    memset(look, 0, sizeof *look);
    look->summary.size = sizeof look->summary;
    shoal_status status = fill(look, dir, quick);
    if (status == SHOAL_OK)
        *look_out = look;
    else
        shoal_run_look_close(look);
    return status;
}

shoal_status shoal_run_look_summary(const shoal_run_look *look, shoal_run_summary *summary_out)
{
    if (summary_out->size != sizeof *summary_out)
        return shoali_fail(SHOAL_EINVAL, "shoal_run_summary: size is not sizeof");
    *summary_out = look->summary;
    return SHOAL_OK;
}

shoal_status shoal_run_look_checkpoint(const shoal_run_look *look, uint32_t i,
                                       shoal_run_checkpoint *checkpoint_out)
{
    if (checkpoint_out->size != sizeof *checkpoint_out)
        return shoali_fail(SHOAL_EINVAL, "shoal_run_checkpoint: size is not sizeof");
    if (i >= look->summary.checkpoints)
        return shoali_fail(SHOAL_EINVAL, "the run folder has %u checkpoints, not %u",
                           look->summary.checkpoints, i + 1);
    *checkpoint_out = look->checkpoints[i];
    return SHOAL_OK;
}

const shoal_run *shoal_run_look_run(const shoal_run_look *look)
{
    return look->run;
}

void shoal_run_look_close(shoal_run_look *look)
{
    if (look == NULL)
        return;
    shoal_run_close(look->run);
    shoali_free(look);
}
