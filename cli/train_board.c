/* SPDX-License-Identifier: Apache-2.0 */
#include "train_board.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "event_file.h"

struct train_board {
    const char *verb;
    char folder[PATH_MAX], stage[PATH_MAX];
    char run[64]; /* last part of the run's --out */
    size_t there; /* bytes of folder that lead to one that was there */
    bool goes_on, failed;
    event_file *file; /* NULL: not yet, or not this process's */
    shoal_train_totals before;
};

/* ------------------------------------------------------------------ where */

/* The last part of a path, cut to what a file's name may hold. */
static void last_part(const char *path, char out[64])
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    snprintf(out, 64, "%.*s", (int)(end - start < 63 ? end - start : 63), path + start);
    if (out[0] == '\0' || strcmp(out, ".") == 0 || strcmp(out, "..") == 0)
        snprintf(out, 64, "run");
}

/* Of a run without a folder: its job, which has a name that no other one has, or the time. */
static void name_without_out(char out[64])
{
    const char *job = getenv("SHOAL_JOB");
    if (job != NULL && job[0] != '\0') {
        last_part(job, out);
        return;
    }
    const time_t now = time(NULL);
    struct tm at;
    char text[32];
    (void)strftime(text, sizeof text, "%Y%m%d-%H%M%S", gmtime_r(&now, &at));
    snprintf(out, 64, "train-%s-%ld", text, (long)getpid());
}

/* How much of a path leads to something that is there, in bytes. */
static size_t there_of(const char *path)
{
    char part[PATH_MAX];
    size_t length = (size_t)snprintf(part, sizeof part, "%s", path);
    while (length > 0 && access(part, F_OK) != 0) {
        while (length > 0 && part[length - 1] == '/')
            length--;
        while (length > 0 && part[length - 1] != '/')
            length--;
        part[length] = '\0';
    }
    return length;
}

/* Those that were made for it, as long as nothing is in them. */
static void remove_folders(const train_board *b)
{
    char part[PATH_MAX];
    size_t length = (size_t)snprintf(part, sizeof part, "%s", b->folder);
    while (length > b->there && rmdir(part) == 0) {
        while (length > 0 && part[length - 1] == '/')
            length--;
        while (length > 0 && part[length - 1] != '/')
            length--;
        part[length] = '\0';
    }
}

static bool make_folders(const char *path)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return false;
        *slash = '/';
    }
    return mkdir(part, 0777) == 0 || errno == EEXIST;
}

bool train_board_open(const char *verb, const char *folder, const char *run, bool goes_on,
                      bool begins, train_board **board_out)
{
    struct stat about;
    *board_out = NULL;
    if (folder == NULL)
        return true;
    train_board *b = calloc(1, sizeof *b);
    if (b == NULL)
        return cli_fail(verb, "no memory for --tensorboard") == CLI_OK;
    b->verb = verb;
    b->goes_on = goes_on || !begins;
    if (run != NULL)
        last_part(run, b->run);
    else
        name_without_out(b->run);
    const size_t used = (size_t)snprintf(b->folder, sizeof b->folder, "%s/%s", folder, b->run);
    const bool there = stat(b->folder, &about) == 0;
    b->there = begins && used < sizeof b->folder ? there_of(b->folder) : used;
    if (used >= sizeof b->folder - 80)
        cli_usage(verb, "--tensorboard %s: longer than a path may be", folder);
    else if (begins && there && !goes_on && run != NULL)
        cli_usage(verb,
                  "--tensorboard %s holds another run's %s: name another folder, or "
                  "remove that",
                  folder, b->run);
    else if (begins && !make_folders(b->folder))
        cli_usage(verb, "--tensorboard %s: %s cannot be made: %s", folder, b->folder,
                  strerror(errno));
    else
        *board_out = b;
    if (*board_out == NULL)
        free(b);
    return *board_out != NULL;
}

/* ------------------------------------------------------------------ what */

static void begin_file(train_board *b, uint64_t step)
{
    const char *folder = b->stage[0] != '\0' ? b->stage : b->folder;
    if (make_folders(folder))
        b->file = event_file_create(folder, b->goes_on ? step : 0);
    if (b->file == NULL)
        (void)cli_fail(b->verb, "no events for TensorBoard in %s: %s", folder, strerror(errno));
    b->failed = b->file == NULL;
}

void train_board_stage(train_board *b, const char *out)
{
    char part[64];
    if (b == NULL)
        return;
    b->failed = !event_file_close(b->file) || b->failed;
    b->file = NULL;
    b->before = (shoal_train_totals){0};
    b->stage[0] = '\0';
    if (out == NULL)
        return;
    last_part(out, part);
    if (strcmp(part, b->run) != 0) /* a part of several: whole matrices, ADMM */
        (void)!snprintf(b->stage, sizeof b->stage, "%.4000s/%s", b->folder, part);
}

void train_board_step(train_board *b, const shoal_train *train, const shoal_train_progress *p)
{
    shoal_train_totals now = {.size = sizeof now};
    if (b == NULL || b->failed || !p->reports)
        return;
    if (b->file == NULL)
        begin_file(b, p->step);
    if (b->file == NULL)
        return;
    shoal_train_count(train, &now);
    const shoal_train_totals *was = &b->before;
    const event_scalar each[] = {
        {"loss/train", p->loss},
        {"samples_per_second", p->samples_per_s},
        {"step_seconds/whole", now.step_s - was->step_s},
        {"step_seconds/compute", now.compute_s - was->compute_s},
        {"step_seconds/data", now.data_s - was->data_s},
        {"step_seconds/forward", now.forward_s - was->forward_s},
        {"step_seconds/backward", now.backward_s - was->backward_s},
        {"step_seconds/wait", now.wait_s - was->wait_s},
        {"step_seconds/update", now.update_s - was->update_s},
        {"sent_bytes", now.sent_bytes - was->sent_bytes},
        {"workers", now.workers},
    };
    event_file_add(b->file, p->step, each, sizeof each / sizeof each[0]);
    const event_scalar tested[] = {
        {"epoch/loss_train", p->train_loss},
        {"epoch/loss_test", p->test_loss},
        {"epoch/accuracy_percent", p->test_accuracy},
        {"epoch/symbol_errors_percent", p->symbol_error_rate},
        {"epoch/bits_per_byte", p->bits_per_byte},
        {"epoch/seconds", p->epoch_s},
    };
    if (p->epoch_ended)
        event_file_add(b->file, p->step, tested, sizeof tested / sizeof tested[0]);
    b->before = now;
}

/* ------------------------------------------------------------------ a run that is over */

static double number(const json_t *line, const char *key, double scale)
{
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) * scale : (double)NAN;
}

static void add_step(train_board *b, const json_t *line, double workers)
{
    const double step_s = number(line, "step_us", 1e-6), samples = number(line, "step_samples", 1);
    const event_scalar each[] = {
        {"loss/train", number(line, "loss", 1)},
        {"samples_per_second", samples > 0 ? samples / step_s : (double)NAN},
        {"step_seconds/whole", step_s},
        {"step_seconds/compute", number(line, "compute_us", 1e-6)},
        {"step_seconds/data", number(line, "data_us", 1e-6)},
        {"step_seconds/forward", number(line, "forward_us", 1e-6)},
        {"step_seconds/backward", number(line, "backward_us", 1e-6)},
        {"step_seconds/wait", number(line, "wait_us", 1e-6)},
        {"step_seconds/update", number(line, "update_us", 1e-6)},
        {"sent_bytes", number(line, "sent_bytes", 1)},
        {"workers", workers},
    };
    event_file_add(b->file, (uint64_t)json_integer_value(json_object_get(line, "step")), each,
                   sizeof each / sizeof each[0]);
}

static void add_epoch(train_board *b, const json_t *line)
{
    const event_scalar tested[] = {
        {"epoch/loss_train", number(line, "train_loss", 1)},
        {"epoch/loss_test", number(line, "test_loss", 1)},
        {"epoch/accuracy_percent", number(line, "test_accuracy", 1)},
        {"epoch/seconds", number(line, "epoch_s", 1)},
    };
    event_file_add(b->file, (uint64_t)json_integer_value(json_object_get(line, "step")), tested,
                   sizeof tested / sizeof tested[0]);
}

void train_board_lines(train_board *b, const char *out, uint32_t workers)
{
    char path[PATH_MAX];
    double there = workers;
    json_t *line;
    if (b == NULL)
        return;
    snprintf(path, sizeof path, "%s/metrics.jsonl", out);
    FILE *file = cli_open(path);
    if (file == NULL)
        (void)cli_fail(b->verb, "cannot read %s: %s", path, strerror(errno));
    else
        begin_file(b, 0);
    b->failed = b->failed || file == NULL;
    while (!b->failed && (line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
        if (json_object_get(line, "reform") != NULL)
            there = number(line, "workers", 1);
        else if (json_object_get(line, "epoch") != NULL)
            add_epoch(b, line);
        else if (json_object_get(line, "step_us") != NULL)
            add_step(b, line, there);
        json_decref(line);
    }
    if (file != NULL)
        fclose(file);
}

bool train_board_close(train_board *b)
{
    if (b == NULL)
        return true;
    const bool written = event_file_close(b->file), good = written && !b->failed;
    if (!written)
        (void)cli_fail(b->verb, "not all events for TensorBoard are in %s: %s", b->folder,
                       strerror(errno));
    remove_folders(b); /* of a run that was refused, or failed before it had anything to tell */
    free(b);
    return good;
}
